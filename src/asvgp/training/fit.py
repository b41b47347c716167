"""From statistics to a fitted model: resolution, hyperparameters, posterior, bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.effects import lost_digits
from asvgp.model.engine import Engine
from asvgp.posterior.posterior import AnyPosterior
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics
from asvgp.training.climb import keeping
from asvgp.training.optimise import Report
from asvgp.training.problem import Level, Problem, State
from asvgp.training.starts import noise_estimate, without_effects
from asvgp.training.widening import widened

AnyEngine = TypeVar("AnyEngine", bound=Engine)


class Schedule(Protocol[AnyEngine, AnyPosterior]):
    """Resolutions from coarse to fine, and how to train on each."""

    problem: Problem
    stats: Statistics  # on the finest grids
    levels: list[Level]  # one for every resolution that was trained or tried

    def begin(self, state: State | None, trained: bool) -> tuple[AnyEngine, State | None, Report]:
        """Return the engine to begin with, a state to go on from, and the report so far."""
        ...

    def climb(
        self, engine: AnyEngine, state: State | None, report: Report
    ) -> tuple[AnyEngine, State, Report, Bound]:
        """Train on one resolution; return its engine, or one that it had to be replaced with."""
        ...

    def record(self, engine: AnyEngine, state: State, bound: Bound) -> None:
        """Add a level to the record."""
        ...

    def following(self, engine: AnyEngine, state: State, report: Report) -> AnyEngine | None:
        """Return the engine of the next resolution; None to end."""
        ...

    def final(self, engine: AnyEngine) -> AnyEngine:
        """Return the engine for the posterior, if training ended on this one."""
        ...

    def posterior(self, engine: AnyEngine, state: State) -> AnyPosterior:
        """Return the posterior."""
        ...

    def finish(
        self, posterior: AnyPosterior, bound: Bound, report: Report, trained: bool, /
    ) -> None:
        """Complete the report with notes for the user."""
        ...


def no_upper_bound() -> float:
    """Return NaN: for a likelihood that is not Gaussian, no upper bound is known."""
    return nan


@dataclass(frozen=True, eq=False)
class Fit(Generic[AnyPosterior]):
    """Result of fitting a model to one set of statistics."""

    kernel: Kernel
    likelihood: Likelihood
    posterior: AnyPosterior  # on the resolution that was chosen
    elbo: float  # lower bound on the log evidence
    upper_bound: Callable[[], float]  # takes another factorisation; `upper` calls it once
    evidence: float  # of the spline field itself
    report: Report
    levels: list[Level]  # of all resolutions; the last one's may lack its upper bound
    timings: dict[str, float] = field(default_factory=dict)  # seconds per stage
    # The process of the logarithm of the noise variance, where the likelihood has one
    noise_process: Any = None
    # About minus the second derivatives by the logarithms of a likelihood's numbers, per datum
    curvature: Any = None

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        return self.likelihood.noise

    @cached_property
    def upper(self) -> float:
        """Upper bound on the log evidence; NaN where none is known."""
        bound = self.upper_bound()
        # With next to no noise the two meet, and only rounding could exchange them.
        return bound if isnan(bound) else max(self.elbo, bound)

    @cached_property
    def resolution(self) -> list[Level]:
        """The levels, with the upper bound of the last one."""
        last = self.levels[-1]
        if last.upper_bound != last.upper_bound:
            last = replace(last, upper_bound=self.upper)
        return [*self.levels[:-1], last]


class Trained(NamedTuple, Generic[AnyEngine]):
    """The result of training."""

    engine: AnyEngine
    state: State
    bound: Bound
    report: Report


@plain_interrupts()
def fit(
    schedule: Schedule[AnyEngine, AnyPosterior],
    *,
    trained: bool = True,
    warm: State | None = None,
) -> Fit[AnyPosterior]:
    """Fit a model by a schedule of resolutions.

    Training begins with ``warm``, the state of an earlier fit, if given; unless ``trained`` the
    hyperparameters stay as they are. Ctrl-C ends training wherever it strikes;
    from the first state on, the best one is kept and its posterior computed.
    """
    begin = time.perf_counter()
    engine, state, bound, report = train(schedule, trained, warm)
    if trained and schedule.problem.widening != 1.0:
        state = widened(state, schedule.problem.widening)
        bound = lower_bound(engine.factor(*state), schedule.problem.objective, derivatives=False)
        report.objective = bound.elbo if schedule.problem.objective == "elbo" else bound.fit
        schedule.levels.pop()
        schedule.record(engine, state, bound)
    middle = time.perf_counter()
    posterior = None
    with keeping(state if trained else None, report):
        posterior = schedule.posterior(engine, state)
    if posterior is None:  # interrupted, but what is left is short
        posterior = schedule.posterior(engine, state)
    schedule.finish(posterior, bound, report, trained)
    estimated = trained and not schedule.problem.fixed_likelihood
    lost = lost_digits(state.kernel, schedule.stats, posterior.noise, estimated)
    if lost and not schedule.problem.sites:
        report.notes.append(lost)
    timings = {"training": middle - begin, "posterior": time.perf_counter() - middle}
    return Fit(
        *state,
        posterior,
        bound.elbo,
        posterior.upper_bound,
        bound.fit,
        report,
        schedule.levels,
        timings,
    )


def first_bound(schedule: Schedule[AnyEngine, AnyPosterior]) -> tuple[State, float]:
    """Train on the first resolution alone, the coarsest, and return the objective there.

    It is for comparing models before one of them is fitted. Ctrl-C ends it with an error.
    """
    _, state, report, bound = schedule.climb(*schedule.begin(None, True))
    if report.interrupted:
        raise KeyboardInterrupt
    return state, bound.elbo if schedule.problem.objective == "elbo" else bound.fit


def train(
    schedule: Schedule[AnyEngine, AnyPosterior],
    trained: bool = True,
    warm: State | None = None,
) -> Trained[AnyEngine]:
    """Go through the resolutions of a schedule, and train on each if wanted."""
    problem = schedule.problem
    if not trained:
        noise = noise_estimate(without_effects(problem.kernel, schedule.stats))
        warm = State(problem.kernel, problem.likelihoods([noise])[0])
    engine, state, report = schedule.begin(warm, trained)
    while True:
        bound, following = None, None
        if trained and not report.interrupted:
            with keeping(state, report):
                engine, state, report, bound = schedule.climb(engine, state, report)
        assert state is not None
        if bound is None:
            bound = lower_bound(engine.factor(*state), problem.objective)
        elif isnan(bound.missed):  # training did without
            whole = lower_bound(engine.factor(*state), problem.objective, derivatives=False)
            bound = replace(bound, elbo=whole.elbo, missed=whole.missed)
        report.objective = bound.elbo if problem.objective == "elbo" else bound.fit
        with keeping(state if trained else None, report):
            schedule.record(engine, state, bound)
            if not report.interrupted:
                following = schedule.following(engine, state, report)
        if following is None:
            break
        if trained and not report.interrupted and problem.deadline and problem.deadline.passed:
            report.interrupt(problem.deadline.error("before finer cells"))
            break
        engine = following
    final = schedule.final(engine)
    if final is not engine:
        engine, bound = final, lower_bound(final.factor(*state), problem.objective)
        schedule.record(engine, state, bound)
    return Trained(engine, state, bound, report)
