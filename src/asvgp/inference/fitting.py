"""From statistics to a fitted model: resolution, hyperparameters, posterior, bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from asvgp.inference.bound import Bound, both_bounds
from asvgp.inference.effects import without_effects
from asvgp.inference.optimise import Report, is_scale
from asvgp.inference.resolution import Level, choose
from asvgp.inference.start import State, noise_estimate
from asvgp.inference.train import Problem, train
from asvgp.interrupts import plain_interrupts
from asvgp.kernels import Kernel
from asvgp.posterior import Posterior
from asvgp.stats import Statistics


@dataclass(frozen=True, eq=False)
class Fit:
    """Everything that is learnt, for one set of statistics.

    Attributes
    ----------
    kernel, noise : Kernel, float
    posterior : Posterior
        On the resolution that was chosen.
    elbo, upper : float
        Bounds on the log evidence.
    evidence : float
        Of the spline field itself.
    report : Report
        How training went.
    resolution : list of Level
        What every resolution that was tried reached.
    timings : dict
        Seconds per stage.
    """

    kernel: Kernel
    noise: float
    posterior: Posterior
    elbo: float
    upper: float
    evidence: float
    report: Report
    resolution: list[Level]
    timings: dict[str, float] = field(default_factory=dict)


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
        posterior, lower, upper = _factored(model)
    except KeyboardInterrupt:  # training is done: what is left is short, so finish it
        report.converged, report.interrupted = False, True
        report.message = "interrupted; the best state so far is kept"
        posterior, lower, upper = _factored(model)
    if not levels:
        levels = [Level.of(state[0], stats, lower, upper)]
    end = time.perf_counter()
    timings = {"training": middle - begin, "posterior": end - middle}
    return Fit(*state, posterior, lower.elbo, upper, lower.fit, report, levels, timings)


def _factored(model) -> tuple[Posterior, Bound, float]:
    """The posterior and both bounds, from one factorisation."""
    with plain_interrupts():
        posterior = Posterior(*model)
        return posterior, *both_bounds(*model, chain=posterior.chain)
