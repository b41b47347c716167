"""Training by turns: the kernel with sites held, then sites and likelihood with the kernel held.

With its sites held the bound is that of a Gaussian model, but for a constant, and at the best sites
both have the same gradient: so a climb of the Gaussian bound, which reads no data, moves the
kernel, and few steps of the sites follow. The Gaussian bound is no lower bound of the other away
from its state, so that a round counts only where the bound itself has risen; else its move is
halved. Numbers of the likelihood move with every step of the sites, by the slopes that these find.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood
from asvgp.likelihoods.family import Family
from asvgp.model.bound import Bound, lower_bound
from asvgp.policies import SITES
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.sites.pace import Pace
from asvgp.sites.readings import Reading
from asvgp.sites.settle import UNIT, Settled, look, rounding, settled_in_training
from asvgp.training.objective import Limits, Objective
from asvgp.training.optimise import LBFGS, Report, maximise, updated
from asvgp.training.problem import Problem, State


class HeldObjective(Objective):
    """The Gaussian bound of sites that are held, without the parts that no kernel changes."""

    known: Array | None = None  # its curvature, about

    def curvature(self, theta: Array) -> Array | None:
        """Return about minus the second derivatives, at the first point by differences of slopes.

        Rounds are short, so that a climb by gradients alone would end far from the top of a ridge.
        """
        if self.known is None:
            _, slope = self.slope(theta)
            low, high = np.array(self.limits).T
            known = np.zeros((len(theta), len(theta)))
            for i in np.flatnonzero(low < high):
                there = theta.copy()
                there[i] += (
                    SITES.difference if theta[i] + SITES.difference < high[i] else -SITES.difference
                )
                known[i] = (slope - self.slope(there)[1]) / (there[i] - theta[i])
            if not np.all(np.isfinite(known)):  # sites that are far off
                return None
            values, vectors = np.linalg.eigh(0.5 * (known + known.T))
            self.known = (vectors * np.abs(values)) @ vectors.T
        return self.known

    def learnt(self, step: Array, change: Array) -> None:
        """Take note of how slopes changed over a step."""
        if self.known is not None:
            self.known = updated(self.known, step, change)

    def _computed(self, state: State, derivatives: bool) -> Bound:
        self._check_time()
        with plain_interrupts():
            try:
                (factored,) = self._factored(state)
                bound = lower_bound(factored, "elbo", derivatives)
            except np.linalg.LinAlgError as error:
                return self._failed(state, error)
        value = 0.5 * (float(factored.explained.sum()) - factored.gained - bound.missed)
        if state not in self._values:
            self.trace.append(value)
            if value > self.best[0]:
                self.best = (value, state)
        return replace(bound, elbo=value)


@dataclass
class Numbers:
    """The free numbers of a likelihood, moved by the slopes of the bound by their logarithms.

    How fast slopes change is learnt from step to step: sites that follow are then accounted for.
    """

    curvature: Array  # about minus the second derivatives
    last: tuple[Array, Array] | None = None  # logarithms and slopes, of the step before

    @classmethod
    def of(cls, family: Family, count: int, known: Array | None = None) -> Numbers:
        """Return the numbers of a family, with what is ``known`` per datum of their curvature."""
        each = SITES.first_curvature * np.eye(len(family.parameters)) if known is None else known
        return cls(count * each)

    def learn(self, family: Family, slopes: Array) -> None:
        """Take note of the slopes after a step."""
        if not np.all(np.isfinite(slopes)):  # of sites that are far off
            return
        now = np.log(family.values), slopes
        if self.last is not None and len(slopes):
            moved, change = now[0] - self.last[0], self.last[1] - now[1]
            if np.abs(moved).max() > SITES.least_move:
                self.curvature = updated(self.curvature, moved, change)
        self.last = now

    def steepen(self) -> None:
        """Take note that a step was too long."""
        self.curvature = SITES.steepening * self.curvature

    def moved(self, family: Family, slopes: Array) -> Family:
        """Return the family after a step."""
        if not len(slopes) or not np.all(np.isfinite(slopes)):
            return family
        longest = SITES.longest_move
        step = np.linalg.solve(self.curvature, slopes)
        step *= min(1.0, longest / max(float(np.abs(step).max()), 1e-300))
        low, high = np.log(np.array(family.limits())).T
        return family.with_values(np.exp(np.clip(np.log(family.values) + step, low, high)))


@dataclass
class Alternation:
    """Rounds of training from one state, on the cells of its posterior."""

    problem: Problem
    reading: Reading
    limits: Limits  # of the kernel
    numbers: Numbers
    pace: Pace
    most: int = SITES.most_rounds
    steps: int = 0
    curvature: Array | None = None  # of the Gaussian bound
    before: Array | None = None  # move of the last round

    def run(self, family: Family, now: Settled, report: Report) -> tuple[State, Settled]:
        """Return the best state and its sites; the report is completed."""
        tolerance = SITES.settled_round + SITES.settled_round_per_datum * self.reading.count
        rounds = "1 round" if self.most == 1 else f"{self.most} rounds"
        report.converged, report.message = False, f"stopped after {rounds} on all of the data"
        report.trace = [now.bound]
        for _ in range(self.most):
            kernel = self._climbed(now, report)
            if report.interrupted:
                break
            found = self._moved(family, now, kernel)
            gain = 0.0 if found is None else found[1].bound - now.bound
            if found is not None:
                family, now = found
                report.trace.append(now.bound)
            if self.problem.watch is not None:
                self.problem.watch(now.posterior.engine.size, report.evaluations, now.bound)
            if gain < tolerance:
                report.converged, report.message = True, "converged"
                break
        else:  # along a ridge, as between a dispersion and a process of short range
            gain = report.trace[-1] - report.trace[-2] if len(report.trace) > 1 else 0.0
            slow = SITES.slow_round
            if self.most == 1:  # after those on boxes
                slow += SITES.box_gain * self.reading.count
            report.converged = gain < slow
        kernel = now.posterior.kernel
        theta, (low, high) = self._encoded(kernel), self._ends
        at_bounds = np.minimum(theta - low, high - theta) < 1e-6
        names = [name for name in kernel.parameters if name not in kernel.fixed]
        report.at_bounds = [n for n, yes in zip(names, at_bounds, strict=True) if yes]
        return State(kernel, cast(Likelihood, family)), now

    @staticmethod
    def _encoded(kernel: Kernel) -> Array:
        """Return the logarithms of the free hyperparameters."""
        fixed = np.array([name in kernel.fixed for name in kernel.parameters], dtype=bool)
        return np.log(kernel.values[~fixed])

    @property
    def _ends(self) -> Array:
        """The limits, one array of the lower and one of the upper ones."""
        return np.array(self.limits).reshape(-1, 2).T

    def _climbed(self, now: Settled, report: Report) -> Kernel:
        """Return the kernel where a climb of the Gaussian bound of the sites ends."""
        kernel = now.posterior.kernel
        if not self.limits:
            return kernel
        problem = replace(self.problem, likelihood=UNIT, fixed_likelihood=True)
        unmoved = [(0.0, 0.0)] * len(UNIT.parameters)
        objective = HeldObjective(problem, [now.posterior.engine], [*self.limits, *unmoved])
        objective.timed, objective.known = True, self.curvature
        start = State(kernel, UNIT)
        objective.stay_near(start, SITES.farthest_of_round)
        settings = problem.settings
        iterations = min(SITES.climb_of_round, settings.max_iterations)
        try:
            climbed = maximise(objective, start, LBFGS(iterations, settings.tolerance))
        except np.linalg.LinAlgError:  # a curvature that was learnt is of no use
            self.curvature = None
            return kernel if objective.best[1] is None else objective.best[1].kernel
        self.curvature = objective.known
        report.evaluations += climbed.evaluations
        report.seconds += climbed.seconds
        if climbed.interrupted:
            report.interrupt()
            report.message, report.out_of_time = climbed.message, climbed.out_of_time
        best = objective.best[1]
        return kernel if best is None else best.kernel

    def _moved(self, family: Family, now: Settled, kernel: Kernel) -> tuple[Family, Settled] | None:
        """Return sites at another kernel, or on the way to it, if the bound is higher there."""
        start = now.posterior.kernel
        names = [name for name in start.parameters if name not in start.fixed]
        here, (low, high) = self._encoded(start), self._ends
        way = self._encoded(kernel) - here
        for times in self._lengths(way):
            theta = np.clip(here + times * way, low, high)
            there = start.replace_free(dict(zip(names, np.exp(theta), strict=True)))
            with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
                found = self._stepped(family, now, there)
                if found[1].bound > now.bound:
                    self.before = theta - here
                    return found
        return None

    def _lengths(self, way: Array) -> list[float]:
        """Return how far to go along a way, first try first.

        Where rounds go on along the way that the last one went, they are drawn out (Aitken's rule).
        """
        if np.abs(way).max(initial=0.0) < SITES.least_move:
            return [1.0]
        lengths = [0.5**i for i in range(SITES.halvings)]
        if self.before is None:
            return lengths
        rate = float(way @ self.before) / max(float(self.before @ self.before), 1e-300)
        if rate < SITES.slow_rate:
            return lengths
        return [min(1.0 / max(1.0 - rate, 1e-3), SITES.longest_draw), *lengths]

    def _stepped(self, family: Family, before: Settled, kernel: Kernel) -> tuple[Family, Settled]:
        """Return few steps of the sites at a kernel, with the numbers of the likelihood."""
        reading, numbers = self.reading, self.numbers
        now = look(reading, family, before.posterior, kernel, before.sites)
        self.steps += 1
        numbers.last = None  # the slopes after a change of the kernel are of another function
        numbers.learn(family, now.found.slopes)
        failed, tolerance = False, settled_in_training(reading, first=self.most == 1)
        for _ in range(SITES.steps_of_round):
            trial = None
            other = numbers.moved(family, now.found.slopes)
            with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
                sites = self.pace.towards(now.sites, now.found.sites)
                trial = look(reading, other, now.posterior, kernel, sites)
            self.steps += 1
            if trial is None or not trial.bound >= now.bound - rounding(now):
                numbers.steepen()
                if other is family or failed:  # else the numbers may have gone too far
                    self.pace.failed()
                failed = True
                continue
            self.pace.gained((now.sites, now.found.sites), (trial.sites, trial.found.sites))
            gain, now, family = trial.bound - now.bound, trial, other
            numbers.learn(family, now.found.slopes)
            if gain < tolerance:
                break
        return family, now
