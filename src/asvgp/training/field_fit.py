"""From statistics of several inputs to a fitted model: resolution, training, posterior."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import ceil, floor, log2

import numpy as np

from asvgp.kernels import Kernel, Sum
from asvgp.kernels.labels import renamed
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.conditioning import check_digits, fewer_than_asked, wide_deviations
from asvgp.model.devices import Batched, Cpu
from asvgp.model.grid import GridEngine
from asvgp.model.levels import (
    coarsened,
    finest_levels,
    first_factors,
    least_levels,
    least_widths,
    levels_for,
    marginal_moments,
    most_cells,
    next_factors,
    scale_of,
)
from asvgp.model.memory import Room
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.posterior.grid import GridPosterior
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.statistics import Statistics
from asvgp.training.boxes import blocks, highest_level
from asvgp.training.climb import Problem
from asvgp.training.field_objective import FieldObjective, Nearby
from asvgp.training.field_starts import (
    candidates,
    noise_estimate,
    without_effects,
)
from asvgp.training.fit import Fit
from asvgp.training.optimise import LBFGS, Report, maximise
from asvgp.training.pilot import cell_lengths
from asvgp.training.resolution import Level
from asvgp.training.starts import State


def fit_field(
    problem: Problem,
    stats: Statistics,
    plan: Plan,
    *,
    auto: bool,
    trained: bool,
    warm: State | None = None,
    engine: Cpu | Batched | None = None,
    room: Room | None = None,
) -> Fit:
    """Fit a model to statistics; the arguments are those of `fit_statistics`, and a plan.

    The plan's grids are the finest, those of ``stats``. Ctrl-C ends training wherever it
    strikes; from the first state on, that state is kept and its posterior found.
    """
    with plain_interrupts():
        return _fit_field(problem, stats, plan, auto, trained, warm, engine, room)


def _fit_field(
    problem: Problem,
    stats: Statistics,
    plan: Plan,
    auto: bool,
    trained: bool,
    warm: State | None,
    engine: Cpu | Batched | None,
    room: Room | None,
) -> Fit:
    begin = time.perf_counter()
    if problem.kernel.intercept is None:
        # Without an intercept to take it up, nothing may be taken off y.
        stats = stats.recentred(0.0 * stats.centre, 0.0 * stats.column_centre)
    state = warm
    if not trained:
        noise = problem.noise
        if noise is None:
            noise = noise_estimate(plan, without_effects(plan, stats))
        state = (problem.kernel, noise)
    schedule = _Schedule(problem, stats, plan, auto, engine or Cpu(), room)
    report, levels, seen, bound = Report(), [], [], None
    factors = schedule.first() if trained and warm is None else schedule.target(state)
    assembly = None
    if trained and state is None and auto and problem.objective == "evidence":
        state, report, assembly = schedule.explore()
    settled = assembly is not None
    if assembly is None:
        assembly = schedule.assembly(factors, state)
    for stage in range(FIELD.stages):
        bound = None
        if trained and not report.interrupted:
            with _keeping(state, report):
                state, report, bound = climb(problem, [assembly], state, report, schedule.nearby)
        assert state is not None
        if bound is None:
            bound = _bound(assembly, state, problem.objective)
        report.objective = bound.elbo if problem.objective == "elbo" else bound.fit
        levels.append(_level(assembly, bound, state))
        if report.interrupted or stage == FIELD.stages - 1:
            break
        following = assembly
        with _keeping(state if trained else None, report):
            if settled:
                following = schedule.refined(assembly, state)
            else:
                factors = schedule.following(factors, state)
                following = schedule.assembly(factors, state)
        seen.append(assembly.plan)
        if following.plan in seen:  # the same, or training would go in circles
            break
        assembly = following
    report.notes += room.notes if room else []
    report.at_bounds = _by_name(problem.kernel, plan.names, report.at_bounds)
    middle = time.perf_counter()
    assert state is not None
    assert bound is not None
    posterior: GridPosterior | None = None
    with _keeping(state if trained else None, report):
        posterior = GridPosterior(*state, assembly)
    if posterior is None:  # training is done: finish what is left
        posterior = GridPosterior(*state, assembly)
    report.notes += check_digits(posterior.factored, not trained)
    if not auto and not report.interrupted:
        report.notes += fewer_than_asked(plan, posterior.factored)
    if problem.objective == "evidence" and trained:
        report.notes += wide_deviations(bound.missed / stats.count, schedule.scatter, state[1])
    upper = posterior.upper_bound
    end = time.perf_counter()
    timings = {"training": middle - begin, "posterior": end - middle}
    return Fit(*state, posterior, bound.elbo, upper, bound.fit, report, levels, timings)  # pyright: ignore[reportArgumentType]


@contextmanager
def _keeping(state: State | None, report: Report) -> Iterator[None]:
    """Context that Ctrl-C ends with a note in the report, if there is a state to keep."""
    try:
        with plain_interrupts():
            yield
    except KeyboardInterrupt:
        if state is None:
            raise
        report.interrupt()


def _bound(engine: GridEngine, state: State, objective: str) -> Bound:
    """Return the bound of a state."""
    kernel, noise = state
    return lower_bound(engine.factor(kernel, Gaussian(noise)), objective)


class _Schedule:
    """Which grids to train on, from coarse to fine."""

    def __init__(
        self,
        problem: Problem,
        stats: Statistics,
        plan: Plan,
        auto: bool,
        engine: Cpu | Batched,
        room: Room | None = None,
    ):
        self.problem, self.stats, self.plan, self.auto = problem, stats, plan, auto
        self.engine, self.room = engine, room
        self.widths: list[int] | None = None  # of the smooths' cells, since lengths are known
        self.marginals = marginal_moments(stats)
        self.nearby = Nearby.of(plan, stats)
        self.scatter = self.nearby.scatter

    def first(self) -> tuple[int, ...]:
        """Factors to begin with. Neighbouring cells tell of lengths that wide ones do not show."""
        if not self.plan.inputs:
            return ()
        along = cell_lengths(without_effects(self.plan, self.stats))
        factors = first_factors(self.plan)
        if not np.isfinite(along).all():
            return factors
        lengths = dict(zip(self.plan.inputs, map(float, along), strict=True))
        self.nearby = replace(self.nearby, lengths=lengths)
        wanted = first_factors(self.plan, lengths)
        # What was asked for fits, if on disk; what is automatic, training may never want.
        return self._within_memory(factors, wanted, note=False) if self.auto else wanted

    def target(self, state: State | None) -> tuple[int, ...]:
        """Factors to end with, for known hyperparameters."""
        if not self.auto or state is None:
            return (1,) * len(self.plan.grids)
        finest = tuple(10**9 for _ in self.plan.grids)
        wanted = tuple(
            min(f, 2**20)
            for f in next_factors(finest, self._levels(state), self.plan, state[0], at_once=True)
        )
        return self._within_memory((2**20,) * len(wanted), wanted, state)

    def following(self, factors: tuple[int, ...], state: State) -> tuple[int, ...]:
        """Factors of the next stage; the same where it is fine enough."""
        if self.auto:
            wanted = next_factors(factors, self._levels(state), self.plan, state[0])
            return self._within_memory(factors, wanted, state)
        return tuple(max(1, f // 4) for f in factors)

    def _within_memory(
        self,
        factors: tuple[int, ...],
        wanted: tuple[int, ...],
        state: State | None = None,
        note: bool = True,
    ) -> tuple[int, ...]:
        """The wanted factors, or as near to them, from those before, as memory allows."""
        if self.room is None or not self.plan.terms:
            return wanted
        allowed, kernel = wanted, state[0] if state else self.problem.kernel
        while allowed != factors and not self.room.fits(self._plan(allowed, state), kernel):
            allowed = tuple(min(2 * a, f) for a, f in zip(allowed, factors, strict=True))
        if allowed != wanted and note:
            self.room.stopped()
        return allowed

    def _levels(self, state: State) -> tuple[tuple[int, ...], ...]:
        return levels_for(
            *state,
            self.plan,
            self.marginals,
            self.stats.count,
            self.problem.objective,
            self.scatter,
        )

    def explore(self) -> tuple[State | None, Report, GridEngine | None]:
        """Train on boxes of a large field, as fine as the data, then choose its levels.

        On boxes a bound is cheap, so many starts can be tried and nothing has to be guessed
        from coarse cells, which take what is short for noise. Levels that lose nothing there
        lose nothing on the whole field. Nothing is returned where boxes are of no use.
        """
        kernel, report = self.problem.kernel, Report()
        finest = finest_levels(None, self.plan, self.marginals, self.stats.count)
        factors = tuple(2**level for level in finest)
        plan = coarsened(self.plan, factors)
        parts = self._parts(plan, factors)
        if not parts:
            return None, report, None
        state, report, bound = climb(
            self.problem, parts[:2], None, report, self.nearby, several=FIELD.box_attempts - 1
        )
        if len(parts) > 2 and not report.interrupted:
            state, report, bound = climb(self.problem, parts, state, report, self.nearby)
        count = sum(part.statistics.count for part in parts)
        wanted, most = self._levels(state), highest_level(len(finest))
        for step in range(most + 1):
            levels = tuple(
                tuple(max(0, min(w - f, most) - step) for w, f in zip(own, finest, strict=True))
                for own in wanted
            )
            plan = replace(plan, levels=levels)
            if not any(map(any, levels)) or report.interrupted:
                break
            bounds = []
            with suppress(np.linalg.LinAlgError), _keeping(state, report):
                bounds = [_bound(a, state, "evidence") for a in self._parts(plan, factors)]
            if bounds and sum(b.fit for b in bounds) >= bound.fit - FIELD.coarsening_loss * count:
                break
        if self.room is not None and not self.room.fits(plan, kernel):
            return state, report, None  # from coarse to fine, then, as far as memory goes
        stats = self.stats.coarsen(factors) if any(f > 1 for f in factors) else self.stats
        return state, report, GridEngine(kernel, plan, stats, self.engine)

    def refined(self, assembly: GridEngine, state: State) -> GridEngine:
        """An explored field's assembly again, finer where lengths have become shorter since."""
        plan = assembly.plan
        finest = [
            round(log2(own.spacing / grid.spacing))
            for own, grid in zip(plan.grids, self.plan.grids, strict=True)
        ]
        levels = tuple(
            tuple(min(a, max(0, b - f)) for a, b, f in zip(now, new, finest, strict=True))
            for now, new in zip(plan.levels, self._levels(state), strict=True)
        )
        if levels == plan.levels:
            return assembly
        plan = replace(plan, levels=levels)
        return GridEngine(self.problem.kernel, plan, assembly.statistics, self.engine)

    def _parts(self, plan: Plan, factors: tuple[int, ...]) -> list[GridEngine]:
        """Boxes of the field, where it is large."""
        kernel = self.problem.kernel
        return [
            GridEngine(kernel, replace(plan, grids=part.grids), part, self.engine)
            for part in blocks(kernel, plan, self.stats, factors)
        ]

    def assembly(self, factors: tuple[int, ...], state: State | None) -> GridEngine:
        """Statistics and plan of a stage, with levels that suit the state."""
        widths = self._widths(factors, state)
        stats = self.stats.coarsen(widths) if any(f > 1 for f in widths) else self.stats
        plan, stats = self._smooths(self._plan(factors, state), stats, state)
        if self.room is not None:
            self.room.require(plan, self.problem.kernel)
        return GridEngine(self.problem.kernel, plan, stats, self.engine)

    def _plan(self, factors: tuple[int, ...], state: State | None) -> Plan:
        """The plan of a stage."""
        plan = coarsened(self.plan, self._widths(factors, state))
        if state is not None and len(plan.terms) > 1:
            wanted = self._wanted(state)
            steps = [int(log2(f)) for f in factors]
            levels = tuple(
                tuple(max(0, level - step) for level, step in zip(own, steps, strict=True))
                for own in wanted
            )
            plan = replace(plan, levels=levels)
        return plan

    def _wanted(self, state: State) -> tuple[tuple[int, ...], ...]:
        """Levels of every term: automatic, or as asked but for what could not be factored."""
        return self._levels(state) if self.auto else least_levels(state[0], self.plan)

    def _widths(self, factors: tuple[int, ...], state: State | None) -> tuple[int, ...]:
        """Cells of a stage in finest cells: one term's need not be powers of two."""
        if state is None or len(self.plan.terms) != 1:
            return factors
        (wanted,), (least,) = self._wanted(state), least_levels(state[0], self.plan)
        exact = least_widths(state[0], self.plan)
        return tuple(
            width if f <= 2**own == 2**lowest else max(f, 2**own)
            for f, own, lowest, width in zip(factors, wanted, least, exact, strict=True)
        )

    def _smooths(self, plan: Plan, stats: Statistics, state: State | None):
        """Smooths on cells that suit their lengths."""
        if not plan.smooths:
            return plan, stats
        widths = []
        for term, grid, degree in zip(
            plan.smooths, plan.smooth_grids, plan.smooth_degrees, strict=True
        ):
            if state is None:
                level = ceil(log2(grid.cells / FIELD.first_smooth_cells))
            else:
                (process,) = state[0].components[term].factors
                ratio = scale_of(process) / grid.spacing
                if self.auto:
                    level = floor(log2(ratio / FIELD.smooth_length[degree > 1]))
                else:  # as asked, but for what could not be factored
                    level = ceil(log2(ratio / most_cells([degree])))
                level = min(level, floor(log2(max(grid.cells / 4, 1))))
            widths.append(2 ** max(0, level))
        if state is not None:
            # From stage to stage in one direction only, or training would go in circles.
            further = min if self.auto else max
            before = self.widths or widths
            widths = [further(a, b) for a, b in zip(before, widths, strict=True)]
            self.widths = widths
        if all(width == 1 for width in widths):
            return plan, stats
        stats = stats.coarsen_columns(widths)
        grids = tuple(grid for grid, _ in stats.smooths)
        return replace(plan, smooth_grids=grids), stats


def climb(
    problem: Problem,
    assemblies: list[GridEngine],
    warm: State | None,
    before: Report,
    nearby: Nearby,
    several: int = 0,
) -> tuple[State, Report, Bound]:
    """Train on one resolution, from the best of many starts or from a coarser optimum.

    On several assemblies, parts of the field, of the sum of their bounds. ``several`` are
    the further starts to climb from. Returns the bound of the state, too.
    """
    size = sum(assembly.size for assembly in assemblies)
    dear = size >= FIELD.dear_functions or len(assemblies) > 1
    target = FieldObjective(
        problem,
        assemblies,
        nearby,
        problem.noise if problem.known_noise else None,
        FIELD.warm_step if dear and warm is not None else 1.0,
    )
    if problem.watch is not None:
        watch = problem.watch
        target.watch = lambda done, value: watch(size, done, value)
    settings = problem.settings
    # What an iteration may gain unnoticed: nothing that a prediction would show. A bound of
    # many functions is dear, and the next resolution changes the optimum by more.
    share = FIELD.unnoticed_gain_when_dear if dear else FIELD.unnoticed_gain
    count = sum(assembly.statistics.count for assembly in assemblies)
    tolerance = max(settings.tolerance, share * count)
    iterations = settings.max_iterations
    if dear:
        work = sum(assembly.tables.tree.factor_flops for assembly in assemblies if assembly.inputs)
        iterations = min(
            iterations, int(np.clip(FIELD.dear_work / max(work, 1.0), *FIELD.dear_iterations))
        )
    settings = LBFGS(iterations, tolerance, settings.restarts)
    report = Report(False, "interrupted; the best state so far is kept", interrupted=True)
    try:
        if warm is None:
            starts = _ranked(problem, target, assemblies[0], nearby)
            attempts = 1 + max(settings.restarts, several)
        else:
            starts, attempts = [warm], 1
        for start in starts[:attempts]:
            attempt = maximise(target, start, settings)
            if report.interrupted or attempt.interrupted or attempt.objective > report.objective:
                report = attempt
            if attempt.interrupted:
                break
    except KeyboardInterrupt:
        pass
    state = target.best[1] or warm
    if state is None:
        raise KeyboardInterrupt
    if "stopped after" in report.message and iterations < problem.settings.max_iterations:
        # The limit is not the user's: what the last steps gained says whether it mattered.
        report.converged = (gain := _late_gain(report)) <= FIELD.late_gain * count
        report.message = f"stopped after {iterations} iterations on all of the field, the last " + (
            f"quarter of which gained {gain:.2g} nats, {gain / count:.1g} per datum"
            + ("" if report.converged else "; to go on, fit again with kernel=kernel_")
        )
    report.evaluations = before.evaluations + target.evaluations
    report.seconds += before.seconds
    return state, report, target.bound(state)


def _late_gain(report: Report) -> float:
    """Nats that the last quarter of the evaluations gained."""
    start = -(-3 * len(report.trace) // 4)
    return max(report.trace) - max(report.trace[:start])


def _ranked(
    problem: Problem, target: FieldObjective, assembly: GridEngine, nearby: Nearby
) -> list[State]:
    """Distinct starting states by their bound on one assembly, the best first."""
    kernel, noise, along = problem.kernel, problem.noise, nearby.lengths
    near = (
        assembly.size >= FIELD.nearby_starts_from and len(target.assemblies) == 1
    )  # on boxes many are cheap
    proposals = candidates(kernel, noise, assembly.plan, assembly.statistics, along, near)
    if len(target.assemblies) > 1:
        target = FieldObjective(problem, [assembly], nearby, target.known_noise)
    states = list(dict.fromkeys(target.decode(target.encode(state)) for state in proposals))
    values = []
    for state in states:
        try:
            values.append(target.value(target.bound(state)))
        except np.linalg.LinAlgError:
            values.append(-np.inf)
    order = sorted(range(len(states)), key=lambda i: -values[i])
    return [states[i] for i in order]


def _by_name(kernel: Kernel, names: tuple[str, ...] | None, parameters: list[str]) -> list[str]:
    """Hyperparameters with columns as the user knows them."""
    parts = [renamed(part, names) for part in kernel.components]
    labelled = kernel.replace_parts(parts) if isinstance(kernel, Sum) else parts[0]
    known = dict(zip(kernel.parameters, labelled.parameters, strict=True))
    return [known.get(parameter, parameter) for parameter in parameters]


def _level(assembly: GridEngine, bound: Bound, state: State) -> Level:
    """The record of a stage."""
    plan, stats = assembly.plan, assembly.statistics
    share = bound.missed / (state[0].prior_variance * stats.weight)
    return Level(
        plan.functions,  # pyright: ignore[reportArgumentType]
        tuple(grid.spacing for grid in (*plan.grids, *plan.smooth_grids)),  # pyright: ignore[reportArgumentType]
        bound.elbo,
        float("nan"),
        share,
    )
