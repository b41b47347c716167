"""Training with a likelihood that is not Gaussian.

First a Gaussian model of working responses is fitted by the structure's own schedule, which finds
cells and starting values. Then rounds of `asvgp.sites.alternate` train the hyperparameters of the
kernel and of the likelihood. On the sites that these end with, cells are chosen anew, and where
those do better the rounds go on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from math import nan
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize

from asvgp.basis import Array
from asvgp.data.settings import Settings
from asvgp.kernels import Kernel, Periodic, Sum
from asvgp.likelihoods import Likelihood
from asvgp.likelihoods.family import Family
from asvgp.model.chain_effects import Design
from asvgp.model.effects import column_precisions, mean_square
from asvgp.policies import DATA, SITES
from asvgp.sites.alternate import Alternation, Numbers
from asvgp.sites.pace import Pace
from asvgp.sites.readings import ALIKE, NO_EVENT, Level, NodeReading, Reading
from asvgp.sites.settle import UNIT, Settled, settle, settled_in_training
from asvgp.statistics import Statistics
from asvgp.structures.line import Line
from asvgp.structures.series import Series
from asvgp.structures.structure import Structure
from asvgp.training.climb import keeping
from asvgp.training.fit import Fit, no_upper_bound
from asvgp.training.objective import Limits
from asvgp.training.optimise import Report
from asvgp.training.problem import Problem, State


def family_of(state: State) -> Family:
    """Return the likelihood of a state, which is not Gaussian here."""
    return cast(Family, state.likelihood)


def state_of(kernel: Kernel, family: Family) -> State:
    """Return a state; training asks no more of a likelihood than a family has."""
    return State(kernel, cast(Likelihood, family))


@dataclass
class SiteReport(Report):
    """Outcome of training with sites.

    Attributes
    ----------
    steps : int
        Number of times that sites were computed.
    reads : int
        Number of times that the rows were read; one where their sums were enough.
    rule_error : float
        About the error of the bound by sums that stand for the rows, in nats; NaN if none do.
    looked_at : int
        Number of rows that the following are of; none where no rows were at hand.
    explained : float
        Share of the deviance that the model explains.
    scatter : float
        Variance of y about its mean, as a multiple of what the likelihood says.
    noise : tuple of float
        Smallest, middle and largest standard deviation of the noise at the rows that were looked
        at, where it varies along the inputs.
    """

    steps: int = 0
    reads: int = 1
    rule_error: float = nan
    looked_at: int = 0
    explained: float = nan
    scatter: float = nan
    noise: tuple[float, ...] = ()


def fit_sites(
    structure: Structure[Any],
    settings: Settings,
    problem: Problem,
    stats: Statistics,
    reading: Reading,
    warm: State | None = None,
    known: Fit[Any] | None = None,
    most_rounds: int = SITES.most_rounds,
) -> Fit[Any]:
    """Fit a model with the family that is ``problem.likelihood``.

    ``stats`` are on the grids that cells are chosen from. Where a fit to a sample is ``known``, few
    reads of all data are left to do. Training takes ``most_rounds`` on the same cells.
    """
    if known is not None:
        return _from_sample(structure, settings, problem, stats, reading, known)
    begin, family = time.perf_counter(), cast(Family, problem.likelihood)
    sites, alike = reading.begin(family, stats), reading.alike
    given = problem.kernel
    # One event tells of the level all the same, by the time that was without any.
    events = isinstance(reading, NodeReading) and reading.events
    little = bool(alike) or (reading.count <= 1 and not events)
    problem = replace(problem, kernel=_with_priors(structure, given, sites, family, little))
    # Better sites move the optimum by more than the last steps of a climb with the first ones.
    rough = max(problem.settings.tolerance, settled_in_training(reading))
    gaussian = replace(
        problem,
        likelihood=UNIT,
        settings=replace(problem.settings, tolerance=rough),
        from_user=False,
        fixed_likelihood=True,
        sites=True,
    )
    first = None if warm is None else State(_with_effects(warm.kernel, problem.kernel), UNIT)
    robust = 0 if family.log_concave else SITES.robust_steps
    pace = Pace(by_cells=not family.parameters)
    if alike:
        robust, level = 0, _best_level(reading, family, problem.kernel)
        sites = reading.begin(family, stats, level)
    untrained = bool(alike) and settings.trained
    if untrained:  # nothing in y tells of a kernel
        settings = replace(settings, optimizer=None)
    fitted = structure.fit(settings, gaussian, sites, first)
    report = SiteReport(**vars(fitted.report))
    now = _settled_on(fitted, reading, family, pace, robust, first=True)
    if untrained:
        why = alike if "event" in family.takes else ALIKE
        report.notes.append(
            f"{why}, so that there is nothing to train a kernel on: its hyperparameters were kept "
            "as given" + (", and how long times are is up to them" if why == NO_EVENT else "")
        )
    # Ctrl-C, or the end of the time, ends all of what would follow.
    if settings.trained and not report.interrupted and _lost(fitted.kernel, now.sites):
        # The first sites may hide what better ones show.
        sites = reading.found(family, now.posterior, stats, robust=True).sites
        again = structure.fit(settings, gaussian, sites, None)
        other = _settled_on(again, reading, family, pace, robust, first=True)
        report.steps += other.steps
        _ended(report, again.report)
        if other.bound > now.bound:
            fitted, now = again, other
    report.steps += now.steps
    for other_family in family.alternatives() if settings.trained else ():
        if report.interrupted:
            break
        with suppress(np.linalg.LinAlgError):  # of numbers that are far off
            anew = reading.begin(other_family, stats)
            again = structure.fit(settings, gaussian, anew, None)
            other = _settled_on(again, reading, other_family, pace, robust, first=True)
            report.steps += other.steps + 1
            _ended(report, again.report)
            if other.bound > now.bound:
                fitted, family, now, sites = again, other_family, other, anew
    if settings.trained and not report.interrupted and warm is None and _complete(given):
        # The climb began with variances of its own, and may have lost a component on the way.
        again = structure.fit(replace(settings, optimizer=None), gaussian, sites, None)
        other = _settled_on(again, reading, family, pace, robust, first=True)
        report.steps += other.steps + 1
        if other.bound > now.bound:
            fitted, now = again, other
    state = state_of(now.posterior.kernel, family)
    numbers = Numbers.of(family_of(state), reading.count)
    if settings.trained and not report.interrupted:
        report.notes = list(fitted.report.notes)  # the first fit may have lost what this one kept
        for _ in range(SITES.most_turns):
            with keeping(state, report):
                state, now = _trained(
                    problem, state, now, reading, report, pace, numbers, most_rounds
                )
            if report.interrupted or not settings.automatic:
                break
            # On the sites as they are now, other cells may do better.
            anew = reading.found(family_of(state), now.posterior, stats, robust=True).sites
            again = _on_other_cells(structure, settings, gaussian, anew, now.posterior)
            if again is None:
                break
            other = _settled_on(again, reading, family_of(state), pace)
            report.steps += other.steps + 1
            _ended(report, again.report)
            gained = other.bound - now.bound
            if gained > 0.0:
                fitted, now, report.notes = again, other, list(again.report.notes)
                state = State(now.posterior.kernel, state.likelihood)
            if gained < SITES.settled_turn * reading.count or report.interrupted:
                break
    tolerance = SITES.settled + SITES.settled_per_datum * reading.count
    tolerance = SITES.unnoticed if alike else tolerance  # where a prior alone ends the way of f
    fitted = _finished(state, now, reading, report, fitted, given, begin, tolerance, pace)
    return replace(fitted, curvature=numbers.curvature / reading.count)


def _ended(report: SiteReport, other: Report) -> None:
    """Record that Ctrl-C or the end of its time ended another fit, and with it all training."""
    if other.interrupted:
        report.interrupt()
        report.message, report.out_of_time = other.message, other.out_of_time


def _on_other_cells(
    structure: Structure[Any],
    settings: Settings,
    gaussian: Problem,
    sites: Statistics,
    now: Any,
) -> Fit[Any] | None:
    """Return a fit on the cells that suit sites and the kernel of a posterior.

    None is returned where these are its own. A kernel with several components is trained in any
    case, as one of these may have been lost.
    """
    if len(now.kernel.components) > 1:
        return structure.fit(settings, gaussian, sites, State(now.kernel, UNIT))
    held = replace(gaussian, kernel=now.kernel)
    fitted = structure.fit(replace(settings, optimizer=None), held, sites, None)
    new, old = fitted.posterior.engine, now.engine
    same = new.size == old.size and new.statistics.grids == old.statistics.grids
    return None if same else fitted


def _from_sample(
    structure: Structure[Any],
    settings: Settings,
    problem: Problem,
    stats: Statistics,
    reading: Reading,
    known: Fit[Any],
) -> Fit[Any]:
    """Fit a model whose hyperparameters are known about, from a sample of the rows.

    Without a posterior they are known from boxes of a large field: sites then have far to go, most
    of the way on cells twice as wide, and there is one more round of training, as each takes long
    and boxes tell nearly the same. After Ctrl-C sites go the same way, without that round: all of
    it on the cells themselves takes longer. Measured: 160 x 160 cells, 20,000 classes or counts:
    2.5 and 2.0 CPU seconds with wider cells, 2.9 and 2.3 without.
    """
    begin, family, given = time.perf_counter(), cast(Family, known.likelihood), problem.kernel
    pace, boxes = Pace(by_cells=not family.parameters), known.posterior is None
    wide = NodeReading(structure, stats.coarsen()) if boxes else None
    if wide is not None:
        sites = wide.begin(family, wide.stats)
    else:
        sites = reading.found(family, known.posterior, stats, robust=True).sites
    alike = family.inverse_link != "identity" and bool(reading.alike)
    problem = replace(problem, kernel=_with_priors(structure, given, sites, family, alike))
    kernel = _with_effects(known.kernel, problem.kernel)
    gaussian = replace(
        problem,
        kernel=kernel,
        likelihood=UNIT,
        from_user=False,
        fixed_likelihood=True,
        sites=True,
    )
    settings = replace(settings, optimizer=None)
    report = cast(SiteReport, known.report)
    if wide is not None:
        fitted = structure.fit(settings, gaussian, sites, None)
        now = _settled_on(fitted, wide, family, replace(pace), first=True)
        report.steps += now.steps + 1
        sites = reading.found(family, now.posterior, stats, robust=True).sites
    fitted = structure.fit(settings, gaussian, sites, None)
    steps = SITES.most_steps if boxes else 1
    now = _settled_on(fitted, reading, family, pace, most=steps, first=boxes)
    report.steps += now.steps
    state = state_of(now.posterior.kernel, family)
    if not report.interrupted:
        with keeping(state, report):
            rounds = 1 if boxes else SITES.most_rounds
            numbers = Numbers.of(family, reading.count, known.curvature)
            state, now = _trained(problem, state, now, reading, report, pace, numbers, rounds)
    each = SITES.box_settled if boxes else SITES.unnoticed_per_datum
    tolerance = SITES.unnoticed + each * reading.count
    return _finished(state, now, reading, report, fitted, given, begin, tolerance, pace)


def _finished(
    state: State,
    now: Settled,
    reading: Reading,
    report: SiteReport,
    fitted: Fit[Any],
    given: Kernel,
    begin: float,
    tolerance: float,
    pace: Pace,
) -> Fit[Any]:
    """Return a fit with settled sites, after training that began at a time."""
    before, kernel, sites = now.posterior, state.kernel, now.sites
    if isinstance(reading, NodeReading):
        report.rule_error = reading.error(family_of(state), before)
        if report.rule_error > SITES.most_rule_error:  # so that rows may follow
            tolerance = max(tolerance, report.rule_error)
    now = settle(reading, family_of(state), before, kernel, sites, tolerance, begun=now, pace=pace)
    report.steps += now.steps
    report.objective = now.bound
    if not now.converged:
        report.notes.append(
            f"the Gaussian approximation of the likelihood still changed after {now.steps} steps: "
            "predictions can be used and the bound is valid, but both could be better. This is "
            "harmless if the classes are separable or nearly all y are the same; to speed up "
            'convergence, give the kernel bounds={"variance": (0.01, 100.0)}'
        )
    last = replace(fitted.levels[-1], elbo=now.bound, upper_bound=nan)
    return Fit(
        _with_effects(state.kernel, given),
        state.likelihood,
        now.posterior,
        now.bound,
        no_upper_bound,
        now.bound,
        report,
        [last],
        {"training": time.perf_counter() - begin, "posterior": 0.0},
    )


def _best_level(reading: Reading, family: Family, kernel: Kernel) -> Level:
    """Return the mean and the variance of f with the highest bound, were they the same everywhere.

    Where all y are alike they may be far off, and steps of the sites would take long to get there.
    """
    effects = (effect.variance for effect in kernel.effects if effect.variance is not None)
    prior = kernel.prior_variance + sum(effects)

    def loss(theta: Array) -> float:
        m, v = theta[0] * prior**0.5, prior * np.exp(-np.logaddexp(0.0, theta[1]))
        divergence = 0.5 * (m**2 / prior + v / prior - 1.0 - np.log(v / prior))
        with np.errstate(all="ignore"):
            value = divergence - reading.level(family, m, v)
        return float(value) if np.isfinite(value) else 1e300

    start = np.array([0.0, np.log(prior * reading.count)])
    m, log_share = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400}).x
    return Level(float(m * prior**0.5), float(prior * np.exp(-np.logaddexp(0.0, log_share))))


def _with_priors(
    structure: Structure[Any], kernel: Kernel, sites: Statistics, family: Family, little: bool
) -> Kernel:
    """Return the kernel with priors of its effects: wide ones would follow the sites otherwise.

    Where data say ``little``, nothing but the prior may end the way of a level to infinity.
    """
    if not isinstance(kernel, Sum) or not kernel.effects:
        return kernel
    on_chain = isinstance(structure, Line) and not isinstance(structure, Series)
    design = Design.of(kernel, sites) if on_chain else None
    precisions = column_precisions(kernel, sites) if design is None else design.precision
    narrower = 1.0
    if family.inverse_link != "identity":
        level = float(np.max(np.abs(sites.sums))) / max(sites.weight, 1e-300)
        variance = max(SITES.prior_of_alike, level**2) if little else SITES.wide_prior
        narrower = variance / (DATA.wide_prior * mean_square(sites))
    effects = (
        replace(effect, variance=narrower / precision) if effect.variance is None else effect
        for effect, precision in zip(kernel.effects, precisions, strict=True)
    )
    return replace(kernel, fixed_effects=tuple(effects))


def _with_effects(kernel: Kernel, like: Kernel) -> Kernel:
    """Return a kernel with the effects of another."""
    return replace(kernel, fixed_effects=like.effects) if isinstance(kernel, Sum) else kernel


def _complete(kernel: Kernel) -> bool:
    """Return True for several components with scales of their own, as those of another fit."""
    parts = kernel.components
    return len(parts) > 1 and not any(part.unset for part in parts)


def _lost(kernel: Kernel, sites: Statistics) -> bool:
    """Return True if a component has practically no variance, beside that of the sites."""
    weight = sites.weight / max(sites.count, 1)
    least = min(part.variance for part in kernel.components)
    return 0.5 * least * weight < SITES.lost_component


def _settled_on(
    fitted: Fit[Any],
    reading: Reading,
    family: Family,
    pace: Pace,
    robust_steps: int = 0,
    most: int = SITES.most_steps,
    first: bool = False,
) -> Settled:
    """Return settled sites on the cells of a Gaussian fit, whose sites are the first ones.

    At the ``first`` state of training they need not settle well.
    """
    posterior, kernel = fitted.posterior, _bounded(fitted.kernel, family)
    sites = posterior.engine.statistics
    tolerance = settled_in_training(reading, first)
    return settle(
        reading, family, posterior, kernel, sites, tolerance, robust_steps, most, pace=pace
    )


def _bounded(kernel: Kernel, family: Family) -> Kernel:
    """Return the kernel with variances of classes no larger than makes sense."""
    if family.inverse_link not in ("share", "level"):
        return kernel
    changes = {
        name: min(value, SITES.most_variance)
        for name, value in zip(kernel.parameters, kernel.values, strict=True)
        if name.endswith("variance") and name not in kernel.fixed and name not in kernel.bounds
    }
    return kernel.replace_free(changes)


def _trained(
    problem: Problem,
    state: State,
    now: Settled,
    reading: Reading,
    report: SiteReport,
    pace: Pace,
    numbers: Numbers,
    most: int = SITES.most_rounds,
) -> tuple[State, Settled]:
    """Train from a state, on the cells of its posterior."""
    family = family_of(state)
    limits = _limits(state)
    if not limits and not family.parameters:
        return state, now
    rounds = Alternation(problem, reading, limits, numbers, pace, most)
    try:
        return rounds.run(family, now, report)
    finally:
        report.steps += rounds.steps


def _limits(state: State) -> Limits:
    """Return limits of the kernel's free logarithms: the user's, or a wide range around a state."""
    kernel = state.kernel
    values = dict(zip(kernel.parameters, kernel.values, strict=True))
    link, far, pairs = family_of(state).inverse_link, SITES.farthest, []
    around = {
        prefix + part.name_of(factor, "lengthscale"): factor.lengths
        for prefix, part in kernel.labelled
        for factor in part.factors
        if isinstance(factor, Periodic)
    }
    for name in kernel.parameters:
        low, high = values[name] / far, values[name] * far
        if name in around:  # beyond these digits are lost, and nothing changes
            low, high = max(low, around[name][0]), min(high, around[name][1])
            low, high = min(low, values[name]), max(high, values[name])
        if name.endswith("variance") and link in ("share", "level"):
            high = max(min(high, SITES.most_variance), 1.01 * low)
        if name not in kernel.fixed:
            pairs.append(kernel.bounds.get(name, (low, high)))
    return [(np.log(low), np.log(high)) for low, high in pairs]
