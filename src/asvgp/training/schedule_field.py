"""Resolutions of several inputs, from coarse to fine.

A resolution is a plan: the width of the cells along every input, and the level of every term,
which says how often its cells are doubled. A coarsening is a width in finest cells.
Training begins on few cells, or on boxes of a large field, which are as fine as the data, and
goes on until the cells suit the lengths that were found, as far as memory allows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import ceil, floor, log2, nan

import numpy as np

from asvgp.kernels import Kernel, Sum
from asvgp.kernels.algebra import renamed
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.breakdown import all_axes
from asvgp.model.conditioning import (
    few_digits,
    fewer_than_requested,
    least_noise,
    wide_deviations,
)
from asvgp.model.devices import Cpu, Device
from asvgp.model.effects import without_centres
from asvgp.model.grid import GridEngine
from asvgp.model.levels import (
    coarsened_plan,
    first_coarsening,
    levels_by_data,
    levels_by_tolerance,
    marginal_moments,
    most_doublings,
    next_coarsening,
    scale_of,
    widest_side,
)
from asvgp.model.memory import MemoryBudget
from asvgp.model.plan import Plan
from asvgp.model.room import has_room, little_room, with_room
from asvgp.policies import FIELD, SAMPLE
from asvgp.posterior.grid import GridPosterior
from asvgp.statistics import Statistics
from asvgp.training.boxes import boxes
from asvgp.training.climb import climb, keeping
from asvgp.training.curvature import Curvature
from asvgp.training.nearby import Nearby, field_limits, grids_by_input
from asvgp.training.objective import Objective, total
from asvgp.training.optimise import LBFGS, Report
from asvgp.training.pilot import cell_lengths
from asvgp.training.problem import Level, Problem, State
from asvgp.training.second_look import look_again
from asvgp.training.starts import field_starts, without_effects

Coarsening = tuple[int, ...]  # width of a cell in finest cells, along every input
Levels = tuple[tuple[int, ...], ...]  # of every term, along every input

_WIDEST = 2**20  # finest cells: wider than any domain


class FieldSchedule:
    """The schedule of several inputs.

    Statistics and plan are on the finest grids. Unless the resolution is ``auto``, training ends
    on them. ``room`` is the memory that may be used.
    """

    def __init__(
        self,
        problem: Problem,
        stats: Statistics,
        plan: Plan,
        auto: bool,
        device: Device | None = None,
        room: MemoryBudget | None = None,
    ):
        stats = without_centres(problem.kernel, stats)
        self.problem, self.stats, self.plan, self.auto = problem, stats, plan, auto
        self.device, self.room = device or Cpu(), room
        self.levels: list[Level] = []
        self.marginals = marginal_moments(stats)
        self.nearby = Nearby.of(problem.kernel, plan, stats)
        self._smooth_widths: list[int] | None = None  # of the stage before
        self._coarsening: Coarsening = ()  # of the present stage
        self._explored = False  # True if boxes have told the levels
        self._plans: list[Plan] = []  # of the stages so far, and those that lost digits
        self._blocked = False  # True if digits were lost somewhere on the last climb
        known = problem.information
        self._curvature = None if known is None else Curvature(known)

    # ------------------------------------------------------------ the stages

    def begin(self, state: State | None, trained: bool) -> tuple[GridEngine, State | None, Report]:
        """Return the engine to begin with: coarse, or where a state is known, as fine as wanted."""
        search = trained and state is None
        self._coarsening = self._first() if search else self._target(state)
        if search and self.auto and self.problem.objective == "evidence":
            state, report, engine = self._explore()
            if engine is not None:
                self._explored = True
                return engine, state, report
        else:
            report = Report()
        engine = self._engine(self._coarsening, state)
        if self.auto and not trained and state is not None:
            engine = self._factorable(engine, state)
        return engine, state, report

    def following(self, engine: GridEngine, state: State, report: Report) -> GridEngine | None:
        """Return the engine of the next stage; None where the present one is fine enough."""
        self._plans.append(engine.plan)
        if len(self._plans) == FIELD.stages:
            return None
        if self._explored:
            finer = self._refined(engine, state)
        else:
            self._coarsening = self._next(state)
            finer = self._engine(self._coarsening, state)
        # Where training goes back and forth between two resolutions, it ends on the finer one.
        visits = self._plans.count(finer.plan) - (finer.size > engine.size)
        if visits > 0 or self._goes_back(engine, finer, state):
            # Training would go in circles, or end on cells that fit worse.
            return self._with_more_room(engine, state)
        return finer

    def _with_more_room(self, engine: GridEngine, state: State) -> GridEngine | None:
        """Return an engine with more cells beyond the data; None where lengths have enough.

        A length that has outgrown them makes the data likely by what the splines lack.
        """
        if has_room(engine.plan, with_room(engine.plan, state.kernel)):
            return None
        plan = with_room(engine.plan, state.kernel, FIELD.joint_growing)
        if plan in self._plans or (
            self.room is not None and not self.room.fits(plan, state.kernel)
        ):
            return None
        return GridEngine(self.problem.kernel, plan, engine.statistics, self.device)

    def _goes_back(self, engine: GridEngine, wider: GridEngine, state: State) -> bool:
        """Return True if an automatic plan only has wider cells than an engine that is trained.

        Under the evidence, cells are widened for the density of the data; those of a joint
        kernel, of which rougher ones are not the kernel any more, only where the fit allows.
        """
        evidence = self.problem.objective == "evidence"
        if not self.auto or (evidence and not wider.plan.outer):
            return False
        spacings = [
            [axis.grid.spacing for axes in all_axes(each.plan, state.kernel) for axis in axes]
            for each in (engine, wider)
        ]
        if any(new < old for old, new in zip(*spacings, strict=True)):
            return False
        if evidence:
            with suppress(np.linalg.LinAlgError):
                fit = lower_bound(engine.factor(*state), "evidence", False, "left out").fit
                engine.release()  # or there would be the factors of two engines
                other = lower_bound(wider.factor(*state), "evidence", False, "left out").fit
                return other < fit - FIELD.coarsening_loss * self.stats.observations
        return True

    def final(self, engine: GridEngine) -> GridEngine:
        """Return the engine that training ended on."""
        return engine

    def record(self, engine: GridEngine, state: State, bound: Bound) -> None:
        """Add a level to the record."""
        plan, stats = engine.plan, engine.statistics
        spacing = tuple(grid.spacing for grid in (*plan.grids, *plan.smooth_grids))
        share = bound.missed / (state.kernel.prior_variance * stats.weight)
        self.levels.append(Level(plan.functions, spacing, bound.elbo, nan, share))

    def _first(self) -> Coarsening:
        """Return a coarsening to begin with, fine enough to show the lengths of neighbours."""
        if not self.plan.inputs:
            return ()
        along = cell_lengths(without_effects(self.problem.kernel, self.stats))
        coarse = first_coarsening(self.plan)
        if not np.isfinite(along).all():
            return coarse
        lengths = dict(zip(self.plan.inputs, map(float, along), strict=True))
        self.nearby = replace(self.nearby, lengths=lengths)
        wanted = first_coarsening(self.plan, lengths)
        # A given num_basis fits, if on disk; an automatic one training may never want.
        return self._within_memory(coarse, wanted, note=False) if self.auto else wanted

    def _target(self, state: State | None) -> Coarsening:
        """Return the coarsening to end with, for known hyperparameters."""
        if not self.auto or state is None:
            return (1,) * len(self.plan.grids)
        widest = (_WIDEST,) * len(self.plan.grids)
        wanted = next_coarsening(widest, self._suitable(state), self.plan, state.kernel, True)
        return self._within_memory(widest, wanted, state)

    def _next(self, state: State) -> Coarsening:
        """Return the coarsening of the next stage; the same where it is fine enough."""
        now = self._coarsening
        if not self.auto:
            return tuple(max(1, width // 4) for width in now)
        wanted = next_coarsening(now, self._suitable(state), self.plan, state.kernel)
        return self._within_memory(now, wanted, state)

    def _within_memory(
        self, now: Coarsening, wanted: Coarsening, state: State | None = None, note: bool = True
    ) -> Coarsening:
        """Return the wanted coarsening, or one as near to it as memory allows."""
        if self.room is None or not self.plan.terms:
            return wanted
        allowed, kernel = wanted, state.kernel if state else self.problem.kernel
        while allowed != now and not self.room.fits(self._plan(allowed, state), kernel):
            allowed = tuple(min(2 * a, b) for a, b in zip(allowed, now, strict=True))
        if allowed != wanted and note:
            self.room.stopped()
        return allowed

    # ------------------------------------------------------------ the plan of a stage

    def _engine(self, coarsening: Coarsening, state: State | None) -> GridEngine:
        """Return the engine of a stage, with levels that suit the state."""
        stats = self._coarse(self._widths(coarsening, state))
        plan, stats = self._smooths(self._plan(coarsening, state), stats, state)
        if self.room is not None:
            self.room.require(plan, self.problem.kernel)
        return GridEngine(self.problem.kernel, plan, stats, self.device)

    def _coarse(self, widths: Coarsening) -> Statistics:
        return self.stats.coarsen(widths) if any(w > 1 for w in widths) else self.stats

    def _plan(self, coarsening: Coarsening, state: State | None) -> Plan:
        """Return the plan of a stage."""
        plan = coarsened_plan(self.plan, self._widths(coarsening, state))
        if state is not None and self.auto and len(plan.terms) > 1:
            doubled = [int(log2(width)) for width in coarsening]
            plan = replace(plan, levels=_less(self._suitable(state), doubled))
        return self._with_room(plan, state)

    def _with_room(self, plan: Plan, state: State | None) -> Plan:
        """Return the plan with cells beyond the data for joint terms, where lengths may grow.

        The plan of a stage before will do if it has enough of them.
        """
        if state is None:
            kernel, least = self.problem.kernel, FIELD.middle_fraction
            return with_room(plan, kernel, 0.0 if any_unset(kernel) else 1.0, least)
        enough = with_room(plan, state.kernel)
        known = (each for each in reversed(self._plans) if has_room(each, enough))
        return next(known, with_room(plan, state.kernel, FIELD.joint_growing))

    def _suitable(self, state: State) -> Levels:
        """Return the levels that suit the hyperparameters.

        Where a part of the rows has told them, it has chosen cells, too, which the shortest terms
        have.
        """
        levels = levels_by_tolerance(
            state.kernel,
            state.noise,
            self.plan,
            self.marginals,
            self.stats.observations,
            self.problem.objective,
            self.nearby.scatter,
        )
        few = self.stats.observations <= SAMPLE.whole_rows * self.stats.outputs
        if self.problem.near is None or self.problem.objective != "evidence" or few:
            return levels
        joined = []
        for d, along in enumerate(zip(*levels, strict=True)):
            over = [level for level, term in zip(along, self.plan.degrees, strict=True) if term[d]]
            joined.append(min(over, default=0))
        return _less(levels, joined)

    def _widths(self, coarsening: Coarsening, state: State | None) -> Coarsening:
        """Return the cells of a stage in finest cells, which those of a single term are."""
        if state is None or not self.auto or len(self.plan.terms) != 1:
            return coarsening
        (levels,) = self._suitable(state)
        return tuple(max(width, 2**n) for width, n in zip(coarsening, levels, strict=True))

    def _smooths(
        self, plan: Plan, stats: Statistics, state: State | None
    ) -> tuple[Plan, Statistics]:
        """Return plan and statistics with smooths on cells that suit their lengths."""
        if not plan.smooths:
            return plan, stats
        widths = []
        smooths = zip(plan.smooths, plan.smooth_grids, plan.smooth_degrees, strict=True)
        for term, grid, degree in smooths:
            if state is None:
                level = ceil(log2(grid.cells / FIELD.first_smooth_cells))
                level = min(level, most_doublings(grid))
            elif not self.auto:
                level = 0
            else:
                (process,) = state.kernel.components[term].factors
                ratio = scale_of(process) / grid.spacing
                level = floor(log2(ratio / FIELD.smooth_length[min(degree, 3) - 1]))
                level = min(level, most_doublings(grid) - (0 if grid.cyclic else 1))
            widths.append(2 ** max(0, level))
        if state is not None:
            # From stage to stage in one direction only, or training would go in circles.
            widths = list(map(min, self._smooth_widths or widths, widths))
            self._smooth_widths = widths
        if all(width == 1 for width in widths):
            return plan, stats
        stats = stats.coarsen_columns(widths)
        grids = tuple(grid for grid, _ in stats.smooths)
        return replace(plan, smooth_grids=grids), stats

    # ------------------------------------------------------------ cells that digits allow

    def _factorable(self, engine: GridEngine, state: State) -> GridEngine:
        """Return the engine, or one with cells as much wider as it takes to keep digits."""
        while True:
            try:
                engine.factor(*state).forms()
            except np.linalg.LinAlgError:
                coarser = self._coarser(engine, state)
                if coarser is None:
                    raise
                engine = coarser
            else:
                return engine

    def _coarser(self, engine: GridEngine, state: State | None) -> GridEngine | None:
        """Return an engine with wider cells where most digits are lost; None if there are two."""
        plan, stats = engine.plan, engine.statistics
        kernel = state.kernel if state else self.problem.kernel
        place = widest_side(all_axes(plan, kernel))
        if place is None:
            return None
        self._plans.append(plan)  # not to be tried again
        number, d = place
        if number >= len(plan.terms):
            smooth = number - len(plan.terms)
            stats = stats.coarsen_columns([1 + (i == smooth) for i in range(len(plan.smooths))])
            plan = replace(plan, smooth_grids=tuple(grid for grid, _ in stats.smooths))
        elif len(plan.terms) == 1:
            widths = tuple(1 + (i == d) for i in range(len(plan.grids)))
            plan, stats = coarsened_plan(plan, widths), stats.coarsen(widths)
        else:
            levels = [list(term) for term in plan.levels]
            levels[number][d] += 1
            plan = replace(plan, levels=tuple(map(tuple, levels)))
        plan = self._with_room(plan, state)
        return GridEngine(self.problem.kernel, plan, stats, self.device)

    # ------------------------------------------------------------ boxes of a large field

    def _explore(self) -> tuple[State | None, Report, GridEngine | None]:
        """Train on boxes of a large field, as fine as the data, then choose its levels.

        Many starts are cheap there, and levels that lose nothing there lose nothing on the whole
        field. No engine is returned where boxes are of no use.
        """
        kernel, report = self.problem.kernel, Report()
        finest = levels_by_data(None, self.plan, self.marginals, self.stats.count)
        coarsening = tuple(2**level for level in finest)
        plan = self._with_room(coarsened_plan(self.plan, coarsening), None)
        parts = self._boxes(plan, coarsening)
        if not parts:
            return None, report, None
        try:
            state, report, bound = self._climb(parts[:2], None, report, FIELD.box_attempts)
        except np.linalg.LinAlgError:
            return None, report, None  # from coarse to fine, then
        used = 2
        if len(parts) > 2 and not report.interrupted:
            # Rounding may forbid this state on a further box: the first two then decide.
            with suppress(np.linalg.LinAlgError):
                state, report, bound = self._climb(parts, state, report)
                used = len(parts)
        count = sum(part.statistics.observations for part in parts[:used])
        widest = FIELD.box_alignment[len(finest)].bit_length() - 1  # that fits into boxes
        suitable = _less(self._suitable(state), finest)
        wanted = tuple(tuple(min(level, widest) for level in term) for term in suitable)
        for step in range(widest + 1):
            plan = replace(plan, levels=_less(wanted, [step] * len(finest)))
            plan = self._with_room(plan, state)
            if not any(map(any, plan.levels)) or report.interrupted:
                break
            fit = -np.inf
            with suppress(np.linalg.LinAlgError), keeping(state, report):
                factored = (e.factor(*state) for e in self._boxes(plan, coarsening)[:used])
                bounds = (lower_bound(each, "evidence", False, "left out") for each in factored)
                fit = total(bounds).fit
            if fit >= bound.fit - FIELD.coarsening_loss * count:
                break
        if self.room is not None and not self.room.fits(plan, kernel):
            return state, report, None  # from coarse to fine, then, as far as memory goes
        return state, report, GridEngine(kernel, plan, self._coarse(coarsening), self.device)

    def _refined(self, engine: GridEngine, state: State) -> GridEngine:
        """Return an explored field's engine, finer where lengths have become shorter since."""
        plan = engine.plan
        pairs = zip(plan.grids, self.plan.grids, strict=True)
        finest = [round(log2(coarse.spacing / fine.spacing)) for coarse, fine in pairs]
        both = zip(plan.levels, _less(self._suitable(state), finest), strict=True)
        levels = tuple(tuple(map(min, now, new)) for now, new in both)
        if levels == plan.levels:
            return engine
        plan = self._with_room(replace(plan, levels=levels), state)
        return GridEngine(self.problem.kernel, plan, engine.statistics, self.device)

    def _boxes(self, plan: Plan, coarsening: Coarsening) -> list[GridEngine]:
        """Return the engines of boxes of the field, where it is large."""
        kernel = self.problem.kernel
        parts = boxes(kernel, plan, self.stats, coarsening)
        plans = [replace(plan, grids=part.grids) for part in parts]
        return [GridEngine(kernel, *each, self.device) for each in zip(plans, parts, strict=True)]

    # ------------------------------------------------------------ training on one stage

    def climb(
        self, engine: GridEngine, state: State | None, report: Report
    ) -> tuple[GridEngine, State, Report, Bound]:
        """Train on one resolution, from the best of many starts or from a coarser optimum.

        Where digits are lost, the cells of the term that loses most become wider: at once if that
        is so of all starts, and if it kept training from going on, as long as that is of use.
        """
        while True:
            try:
                found = self._climb([engine], state, report)
                break
            except np.linalg.LinAlgError:
                coarser = self._coarser(engine, state)
                if coarser is None:
                    raise
                engine = coarser
        while self._blocked and not found[1].interrupted:
            state, report, bound = found
            coarser = self._coarser(engine, state)
            if coarser is None:
                break
            try:
                other = self._climb([coarser], state, report)
            except np.linalg.LinAlgError:
                break
            gain = self._reached(other[2]) - self._reached(bound)
            if gain <= FIELD.worthwhile_gain * self.stats.observations:
                break
            engine, found = coarser, other
        return engine, *found

    def _reached(self, bound: Bound) -> float:
        return bound.elbo if self.problem.objective == "elbo" else bound.fit

    def _climb(
        self, engines: list[GridEngine], state: State | None, before: Report, attempts: int = 1
    ) -> tuple[State, Report, Bound]:
        """Train on the sum of the bounds of engines, the field's or those of its parts."""
        problem, size = self.problem, sum(engine.size for engine in engines)
        dear = size >= FIELD.dear_functions or len(engines) > 1
        warm = FIELD.warm_step if self._curvature is None else FIELD.informed_step
        step = warm if dear and state is not None else 1.0
        objective, ranking = self._objective(engines, step), None
        objective.shown_size = size
        count = sum(engine.statistics.observations for engine in engines)
        settings = _settings(problem.settings, engines, count, dear)
        if state is not None:
            starts = [state]
        else:
            first, attempts = engines[0], max(attempts, 1 + settings.restarts)
            starts = field_starts(
                problem,
                grids_by_input(problem.kernel, first.plan),
                first.statistics,
                self.nearby.lengths,
                # On boxes many are cheap.
                only_nearby=size >= FIELD.nearby_starts_from and len(engines) == 1,
            )
            if len(engines) > 1:
                ranking = self._objective(engines[:1])
        found, report = climb(objective, starts, settings, attempts, before, state, ranking)
        if state is None and size < FIELD.nearby_starts_from and len(engines) == 1:
            found, report = look_again(engines[0], objective, found, report, settings)
        if settings.max_iterations < problem.settings.max_iterations:
            _judge(report, settings.max_iterations, count)
        self._blocked = objective.blocked(found)
        return found, report, objective.bound(found)

    def _objective(self, engines: list[GridEngine], step: float = 1.0) -> Objective:
        problem, plan, price = self.problem, engines[0].plan, None
        if problem.objective == "evidence" and problem.near is None:
            price = self.nearby.price(problem.kernel, plan, engines[0].outputs)
            price = price if price.prices.any() else None
        limits = field_limits(problem, plan, engines[0].statistics, self.nearby.scatter)
        curvature = self._curvature
        tells = (None, None) if curvature is None else (curvature.at, curvature.learn)
        objective = Objective(problem, engines, limits, price, step, *tells)
        if problem.near is not None:
            objective.stay_near(problem.near, FIELD.near_ratio)
        return objective

    # ------------------------------------------------------------ the end

    def posterior(self, engine: GridEngine, state: State) -> GridPosterior:
        """Return the posterior."""
        return GridPosterior(*state, engine)

    def finish(self, posterior: GridPosterior, bound: Bound, report: Report, trained: bool) -> None:
        """Add notes on memory, digits and missed variance, and name columns as the user does."""
        plan, notes = self.plan, report.notes
        notes += self.room.notes if self.room else []
        report.at_bounds = _by_name(self.problem.kernel, plan.names, report.at_bounds)
        notes += few_digits(posterior.factored)
        notes += little_room(posterior.prior)
        if not self.auto and not report.interrupted:
            notes += fewer_than_requested(plan, posterior.factored)
        if self.problem.objective == "evidence" and trained:
            missed = bound.missed / self.stats.observations
            notes += wide_deviations(missed, self.nearby.scatter, posterior.noise)
            notes += least_noise(self.nearby.scatter, posterior.noise, report.at_bounds)


def any_unset(kernel: Kernel) -> bool:
    """Return True if the user has left some scale to be found."""
    return any(part.unset for part in kernel.components)


def _less(levels: Levels, steps: list[int] | tuple[int, ...]) -> Levels:
    """Return levels lowered by a number of doublings along every input, zero at the least."""
    return tuple(
        tuple(max(0, level - step) for level, step in zip(term, steps, strict=True))
        for term in levels
    )


def _settings(settings: LBFGS, engines: list[GridEngine], count: float, dear: bool) -> LBFGS:
    """Return settings that stop where an iteration gains nothing that a prediction would show.

    A bound of many functions is dear, and the next resolution changes the optimum by more.
    """
    share = FIELD.unnoticed_gain_when_dear if dear else FIELD.unnoticed_gain
    iterations = settings.max_iterations
    if dear:
        work = sum(engine.tables.tree.factor_flops for engine in engines if engine.inputs)
        allowed = np.clip(FIELD.dear_work / max(work, 1.0), *FIELD.dear_iterations)
        iterations = min(iterations, int(allowed))
    return LBFGS(iterations, max(settings.tolerance, share * count), settings.restarts)


def _judge(report: Report, iterations: int, count: float) -> None:
    """Judge a limit on iterations that is not the user's by what the last of them gained."""
    if "stopped after" not in report.message:
        return
    start = -(-3 * len(report.trace) // 4)
    gain = max(report.trace) - max(report.trace[:start])
    report.converged = gain <= FIELD.late_gain * count
    report.message = (
        f"stopped after {iterations} iterations on the whole field; the last quarter of them "
        f"gained {gain:.2g} nats, {gain / count:.1g} per datum"
        + ("" if report.converged else "; to go on, fit again with kernel=kernel_")
    )


def _by_name(kernel: Kernel, names: tuple[str, ...] | None, parameters: list[str]) -> list[str]:
    """Return hyperparameters with columns as the user knows them."""
    parts = [renamed(part, names) for part in kernel.components]
    labelled = kernel.replace_parts(parts) if isinstance(kernel, Sum) else parts[0]
    known = dict(zip(kernel.parameters, labelled.parameters, strict=True))
    return [known.get(parameter, parameter) for parameter in parameters]
