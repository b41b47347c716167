"""From statistics to a fitted model: resolution, hyperparameters, posterior, bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from asvgp.kernels import Kernel
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.effects import without_effects
from asvgp.posterior.chain import ChainPosterior
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.statistics import Statistics
from asvgp.training.climb import Problem, train
from asvgp.training.optimise import Report, is_scale
from asvgp.training.resolution import Level, choose
from asvgp.training.starts import State, noise_estimate


@dataclass(frozen=True, eq=False)
class Fit:
    """Everything that is learnt, for one set of statistics.

    Attributes
    ----------
    kernel, noise : Kernel, float
    posterior : ChainPosterior
        On the resolution that was chosen.
    elbo : float
        Lower bound on the log evidence.
    upper_bound : callable
        Computes the upper one, which takes another factorisation; `upper` asks it once.
    evidence : float
        Of the spline field itself.
    report : Report
        How training went.
    levels : list of Level
        What every resolution that was tried reached; that of the last may lack its upper bound.
    timings : dict
        Seconds per stage.
    """

    kernel: Kernel
    noise: float
    posterior: ChainPosterior
    elbo: float
    upper_bound: Callable[[], float]
    evidence: float
    report: Report
    levels: list[Level]
    timings: dict[str, float] = field(default_factory=dict)

    @cached_property
    def upper(self) -> float:
        """Upper bound on the log evidence."""
        # With next to no noise the two meet, and only rounding could exchange them.
        return max(self.elbo, self.upper_bound())

    @cached_property
    def resolution(self) -> list[Level]:
        """The levels, all bounds known."""
        last = self.levels[-1]
        if last.upper_bound != last.upper_bound:
            last = replace(last, upper_bound=self.upper)
        return [*self.levels[:-1], last]


def fit_statistics(
    problem: Problem, stats: Statistics, *, auto: bool, trained: bool, warm: State | None = None
) -> Fit:
    """Fit a model to statistics.

    ``auto`` chooses the resolution among the coarser ones of ``stats``; without ``trained``
    the hyperparameters stay as they are; ``warm`` is a state to begin with, from an earlier
    fit.
    """
    begin = time.perf_counter()
    if problem.kernel.intercept is None:
        # Without an intercept to take it up, nothing may be taken off y.
        stats = stats.recentred(0.0 * stats.centre, 0.0 * stats.column_centre)
    given = None
    if not trained:
        noise = problem.noise
        if noise is None:
            noise = noise_estimate(without_effects(problem.kernel, stats))
        given = (problem.kernel, noise)
    if auto:
        choice = choose(problem, stats, given, warm)
        state, report, levels, stats = choice.state, choice.report, choice.levels, choice.stats
    elif given is not None:
        state, report, levels = given, Report(), []
    else:
        state, report = train(problem, stats, warm)
        levels = []
    pinned = [name for name in report.at_bounds if is_scale(name)]
    if problem.objective == "evidence" and pinned:
        report.notes.append(
            f"{', '.join(pinned)} ended at the least that the knots can express, a few "
            "spacings: give a larger num_basis, or objective='elbo'"
        )
    model = (*state, stats, problem.degree)
    middle = time.perf_counter()
    try:
        posterior, lower = _factored(model)
    except KeyboardInterrupt:  # training is done: what is left is short, so finish it
        report.interrupt()
        posterior, lower = _factored(model)
    if not levels:
        levels = [Level.of(state[0], stats, lower)]
    end = time.perf_counter()
    timings = {"training": middle - begin, "posterior": end - middle}
    upper = posterior.upper_bound
    return Fit(*state, posterior, lower.elbo, upper, lower.fit, report, levels, timings)


def _factored(model) -> tuple[ChainPosterior, Bound]:
    """The posterior and the bound, from one factorisation."""
    with plain_interrupts():
        posterior = ChainPosterior(*model)
        return posterior, lower_bound(posterior.factored)
