"""Resolutions of a series: cells for every component, from what its functions miss.

Where there are few distinct inputs, nothing is approximated at all: the field at the inputs takes
the place of splines. Otherwise training begins on cells that are as wide as a loose tolerance
allows. Whenever the hyperparameters have settled, the cells are chosen again, for these
hyperparameters and a tighter tolerance, until no component would get other cells.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import nan

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import SHO, Component, Kernel, Matern, Periodic, Product, Sum
from asvgp.model.bound import Bound
from asvgp.model.effects import without_centres
from asvgp.model.exact import ExactEngine, distinct_inputs
from asvgp.model.information import regular_information
from asvgp.model.moments import CellMoments
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.levels import noise_beside, plan_for
from asvgp.model.series.plan import SeriesPlan
from asvgp.model.series.tables import SeriesTables
from asvgp.policies import LINE, SERIES, START
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.series import SeriesPosterior
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics
from asvgp.training.climb import climb
from asvgp.training.objective import Limits, Objective, log_limits
from asvgp.training.optimise import Report
from asvgp.training.problem import Level, Problem, State
from asvgp.training.season_notes import season_notes
from asvgp.training.starts import (
    mean_weight,
    noise_estimate,
    signal_power,
    signal_spread,
    spectral_peaks,
    without_effects,
)

AnyEngine = SeriesEngine | ExactEngine
AnyPosterior = SeriesPosterior | ExactPosterior


class SeriesSchedule:
    """The schedule of a series; ``powers`` is the largest power in the statistics."""

    def __init__(self, problem: Problem, stats: Statistics, auto: bool, attempts: int = 1):
        self.problem, self.auto, self.attempts = problem, auto, attempts
        self.stats = without_centres(problem.kernel, stats)
        self.powers = stats.degree
        self._moments = CellMoments(self.stats.moments)
        self.levels: list[Level] = []
        self._plain = without_effects(problem.kernel, self.stats)
        self._stage = 0
        self._explored: State | None = None  # on a stretch of a long series
        self._plans: list[SeriesPlan] = []
        self._last: SeriesEngine | None = None
        self._planned: SeriesPlan | None = None  # its plan, on the finest cells
        self._inputs = float(np.count_nonzero(self.stats.cell_weights))
        self._exact = self._exact_engine(SERIES.exact_inputs) if auto else None

    def _exact_engine(self, most: int) -> ExactEngine | None:
        """Return the engine without splines, where it is possible for so many inputs.

        More are possible where they are regular, so that no matrix is needed for training.
        """
        if self._inputs > max(most, SERIES.regular_inputs):
            return None
        inputs = distinct_inputs(self.stats)
        if inputs is None or len(inputs) < 2:
            return None
        engine = ExactEngine(self.problem.kernel, self.stats)
        if engine.cheap:
            return engine
        most = most if engine.lags.regular else SERIES.exact_irregular_inputs
        return engine if len(inputs) <= most else None

    # ------------------------------------------------------------ the stages

    def begin(self, state: State | None, trained: bool) -> tuple[AnyEngine, State | None, Report]:
        """Return the engine to begin with."""
        report = Report()
        if self._exact is not None:
            usable = state is None or not trained or _factors(self._exact, state)
            return self._exact, state if usable else None, report
        if not trained:
            self._stage = len(SERIES.tolerances) - 1
            return self._engine(state), state, report
        if state is not None:
            self._stage = 1
            warm = self._factored(state)
            if warm is not None:
                return warm, state, report
        self._stage = 0
        engine = self._engine(None)
        if engine.size <= SERIES.cheap_functions or isinstance(engine, ExactEngine):
            return engine, None, report
        self._explored, report = self._explore()
        if self._explored is None:
            return engine, None, report
        self._stage = len(SERIES.tolerances) - 1  # cells for hyperparameters that are known
        if not self.problem.fixed_likelihood:
            kernel, likelihood = self._explored
            noise = noise_beside(kernel, likelihood.noise, self.stats, self._moments)
            self._explored = State(kernel, likelihood.with_noise(noise))
        return self._engine(self._explored), None, report

    def _explore(self) -> tuple[State | None, Report]:
        """Train on stretches of a long series: many starts on a short one, then a longer one.

        Where next to nothing happens in the short one, there is nothing to learn from it.
        """
        report, state = Report(), None
        per_input = self.stats.grid.cells / max(1.0, self._inputs)
        for inputs in SERIES.window_inputs:
            cells = round(inputs * per_input)
            if self.stats.grid.cells <= 2 * cells:
                break
            stretch = window(self._plain, cells)
            held = np.count_nonzero(stretch.cell_weights)
            if held > inputs:  # in the fullest stretch there are more than on average
                stretch = window(self._plain, round(cells * inputs / held))
            schedule = self._on_stretch(stretch, state, 1 if state else SERIES.window_attempts)
            if state is None:
                if signal_spread(stretch) <= SERIES.window_spread * signal_spread(self._plain):
                    break
            elif not (schedule._exact and schedule._exact.cheap):
                break
            state, report = self._learn(schedule, stretch, state, report)
        return state, report

    def _on_stretch(
        self, stretch: Statistics, state: State | None, attempts: int
    ) -> SeriesSchedule:
        """Return the schedule of a stretch, without fixed effects.

        Components whose lengthscale the user gave, and of which a stretch shows next to nothing,
        are held there: else others would take their part.
        """
        begun = (state or self._starts[0]).kernel.components
        parts = [
            replace(first, fixed=first.parameters) if _beyond(given, first, stretch) else given
            for given, first in zip(self.problem.kernel.components, begun, strict=True)
        ]
        problem = replace(self.problem, kernel=Sum(tuple(parts)), watch=None)
        return SeriesSchedule(problem, stretch, True, attempts)

    def _learn(
        self, schedule: SeriesSchedule, stretch: Statistics, state: State | None, report: Report
    ) -> tuple[State, Report]:
        """Train on a stretch; scales that do not fit into it stay as they began."""
        problem = self.problem
        begun = state or self._starts[0]
        if state is not None:
            state = State(Sum(state.kernel.components), state.likelihood)
        engine, state, _ = schedule.begin(state, True)
        _, trained, report, _ = schedule.climb(engine, state, report)
        parts = []
        for given, first, part in zip(
            *(k.components for k in (problem.kernel, begun.kernel, trained.kernel)), strict=True
        ):
            periods = [f.period for f in part.factors if isinstance(f, Periodic | SHO)]
            beyond = any(period > _reach(stretch) for period in periods)
            parts.append(first if beyond or _beyond(given, first, stretch) else part)
        if not isinstance(problem.kernel, Sum):
            return State(parts[0], trained.likelihood), report
        return State(Sum(tuple(parts), problem.kernel.effects), trained.likelihood), report

    def _engine(self, state: State | None) -> AnyEngine:
        """Return the engine for a state, on cells as the present stage wants them."""
        plan = self._plan(state or _demanding(self._starts[0], self.problem.sites))
        if self._last is not None and self._planned == plan:
            return self._last
        engine = SeriesEngine(self.problem.kernel, plan, self.stats, moments=self._moments)
        engine = engine.on_widest_cells()
        if self.auto and engine.flops > self._inputs**3:
            self._exact = self._exact_engine(SERIES.most_exact_inputs)
        if self._exact is None:
            self._last, self._planned = engine, plan
        return self._exact or engine

    def _plan(self, state: State) -> SeriesPlan:
        """Return cells for a state; wider ones where there were too many functions."""
        tolerance = SERIES.tolerances[min(self._stage, len(SERIES.tolerances) - 1)]
        most = max(SERIES.most_functions * self._inputs, SERIES.fewest_functions)
        phases, given = SERIES.most_phases, (self.stats, self.powers)
        noise = noise_beside(state.kernel, state.noise, self.stats, self._moments)
        while True:
            plan = plan_for(state.kernel, noise, *given, tolerance, self._moments, phases)
            tables = SeriesTables(state.kernel, plan)
            if tables.size > most and tolerance <= 1.0 and self.auto:
                tolerance *= 2.0
            elif (
                self.auto
                and phases > SERIES.fewest_phases
                and (
                    tables.leaf_bytes > SERIES.most_leaf_bytes
                    or tables.flops > SERIES.most_drift_flops
                )
            ):
                phases //= 2
            else:
                return self._no_wider(plan)

    def _no_wider(self, plan: SeriesPlan) -> SeriesPlan:
        """Return a plan without wider cells than the last: they would make scales grow on.

        A longer scale would get wider cells, whose bound is higher for a longer scale still.
        """
        if not self._plans:
            return plan
        pairs = zip(plan.parts, self._plans[-1].parts, strict=True)
        return replace(plan, parts=tuple(part.no_wider(last) for part, last in pairs))

    def _factored(self, state: State) -> AnyEngine | None:
        """Return the engine for a state; None where P cannot be factored on its cells."""
        try:
            engine = self._engine(state)
        except np.linalg.LinAlgError:
            return None
        return engine if engine is self._last or _factors(engine, state) else None

    def climb(
        self, engine: AnyEngine, state: State | None, report: Report
    ) -> tuple[AnyEngine, State, Report, Bound]:
        """Train on one plan: from the best of some starts, or from the state reached so far."""
        problem, settings = self.problem, self.problem.settings
        exact = engine if isinstance(engine, ExactEngine) else None
        information = exact.information if exact else self._information
        objective = Objective(problem, [engine], self._limits(), information=information)
        objective.shown_size = engine.size
        starts, attempts = [] if state is None else [state], 1
        if state is None:
            starts = [start for start in self._starts if not _has_twins(start.kernel)]
            starts = starts or self._starts
            small = engine.size <= SERIES.cheap_functions
            cheap = exact.cheap if exact else small
            cheap = cheap and len(problem.kernel.components) > 1
            attempts = max(self.attempts, SERIES.cheap_attempts * cheap) + settings.restarts
            if self._explored is not None:
                known = _factors(engine, self._explored)
                # a stretch may mislead
                again = not isinstance(engine, ExactEngine) and (
                    engine.flops <= SERIES.second_start_flops
                )
                starts = [self._explored, *starts] if again or not known else [self._explored]
                attempts = max(attempts, 1 + again)
        before = report.evaluations
        loose = replace(settings, tolerance=max(settings.tolerance, self._tolerance(engine)))
        agreement = SERIES.agreement * self.stats.observations * (not settings.restarts)
        best, report = climb(objective, starts, loose, attempts, report, state, agreement=agreement)
        for _ in range(SERIES.second_looks if state is None else 0):
            others = other_qualities(objective, SERIES.loose_gain * self.stats.observations)
            if not others or report.interrupted:
                break
            best, report = climb(objective, others, loose, 1, report, best)
        bound = objective.bound(best)
        report.evaluations = before + objective.evaluations
        return engine, best, report, bound

    def _information(self, kernel: Kernel, noise: float) -> Array | None:
        """Return roughly what the data tell about log-hyperparameters and the log noise.

        As if there were one input in each finest cell; None where most of these are empty.
        """
        stats, inputs = self.stats, int(self._inputs)
        lags = stats.grid.spacing * np.arange(stats.grid.cells)
        noise = noise * inputs / stats.weight
        return regular_information(kernel, noise, lags, inputs, stats.outputs)

    def _tolerance(self, engine: AnyEngine) -> float:
        """Return the gain in nats below which climbing on the present cells is a waste."""
        last = isinstance(engine, ExactEngine) or (
            self._stage >= len(SERIES.tolerances) - 1 and engine.flops <= SERIES.costly_flops
        )
        return (SERIES.last_gain if last else SERIES.loose_gain) * self.stats.observations

    def following(self, engine: AnyEngine, state: State, report: Report) -> AnyEngine | None:
        """Return the engine of the next plan; None where the cells suit the state."""
        if isinstance(engine, ExactEngine):
            return None
        planned = self._planned
        assert planned is not None
        self._plans.append(planned)
        self._stage += 1
        # a tighter tolerance that changes nothing is passed over
        while self._stage < len(SERIES.tolerances) - 1 and self._plan(state) == planned:
            self._stage += 1
        if self._stage > SERIES.stages or engine.flops > SERIES.costly_flops:
            return None
        finer = self._factored(state)
        if finer is None:
            report.notes.append("finer cells were not taken: P cannot be factored on them")
            return None
        if isinstance(finer, ExactEngine):
            return finer
        if finer is engine:
            return None
        if self._planned in self._plans and self._stage >= len(SERIES.tolerances):
            return None
        return finer

    def final(self, engine: AnyEngine) -> AnyEngine:
        """Return the engine that training ended on."""
        return engine

    def record(self, engine: AnyEngine, state: State, bound: Bound) -> None:
        """Add a level to the record."""
        stats = engine.statistics
        share = bound.missed / (state.kernel.prior_variance * stats.weight)
        upper = bound.elbo if isinstance(engine, ExactEngine) else nan
        spacing = self.stats.grid.spacing
        self.levels.append(Level(engine.size, spacing, bound.elbo, upper, share))

    def posterior(self, engine: AnyEngine, state: State) -> AnyPosterior:
        """Return the posterior."""
        if isinstance(engine, ExactEngine):
            return ExactPosterior(*state, engine)
        return SeriesPosterior(*state, engine)

    def finish(self, posterior: AnyPosterior, bound: Bound, report: Report, trained: bool) -> None:
        """Say which seasons the data cannot show, and which components they have no use for."""
        kernel, noise, weight = posterior.kernel, posterior.noise, mean_weight(self.stats)
        report.notes += season_notes(kernel, self.stats)
        for number, part in enumerate(kernel.components, 1):
            if trained and part.variance < SERIES.unused_variance * noise / weight:
                report.notes.append(
                    f"component {number}, {part!r}, ended with next to no variance: the data do "
                    "not need it"
                )

    # ------------------------------------------------------------ starts and limits

    def _limits(self) -> Limits:
        plain, stats = self._plain, self.stats
        power, spread, weight = signal_power(plain), signal_spread(plain), mean_weight(stats)
        least = max(LINE.least_noise * spread, LINE.least_noise_of_power * power)
        noise = weight * least, weight * LINE.most_noise * power
        grids = dict.fromkeys(
            (factor.dim for part in self.problem.kernel.components for factor in part.factors),
            stats.grid,
        )
        given = self._given_periods
        shortest = {name: period / SERIES.given_period for name, period in given.items()}
        shortest |= self._shortest_drifts
        longest = {name: period * SERIES.given_period for name, period in given.items()}
        return log_limits(self.problem, grids, spread, power, noise, shortest, longest)

    @property
    def _given_periods(self) -> dict[str, float]:
        """Periods of oscillators that the user gave, by name."""
        return {
            prefix + part.name_of(factor, "period"): factor.period
            for prefix, part in self.problem.kernel.labelled
            for factor in part.factors
            if isinstance(factor, SHO) and "period" not in factor.unset
        }

    @property
    def _shortest_drifts(self) -> dict[str, float]:
        """Shortest lengthscales of drifts by name: a season outlasts its period.

        A drift that is rougher is no season but one more trend, for which functions of all phases
        are a waste. Values that the user gave are kept.
        """
        out = {}
        for prefix, part in self.problem.kernel.labelled:
            periods = [factor.period for factor in part.factors if isinstance(factor, Periodic)]
            for factor in part.factors if periods else ():
                if isinstance(factor, Matern):
                    least = SERIES.shortest_drift * min(periods)
                    given = "lengthscale" not in factor.unset
                    name = prefix + part.name_of(factor, "lengthscale")
                    out[name] = min(least, factor.lengthscale) if given else least
        return out

    def _near_given(self, kernel: Kernel) -> bool:
        """Return True if no period is further from the one given than training may move it."""
        values = dict(zip(kernel.parameters, kernel.values, strict=True))
        far = SERIES.given_period
        return all(p / far <= values[name] <= p * far for name, p in self._given_periods.items())

    @cached_property
    def _starts(self) -> list[State]:
        """States worth trying: the kernel with unset scales at several lengths."""
        problem, plain = self.problem, self._plain
        power = signal_power(plain)
        share = power / max(1, len(problem.kernel.components))
        spacing, span = plain.grid.spacing, plain.grid.upper - plain.grid.lower
        lengths = np.geomspace(4.0 * spacing, span / 4.0, SERIES.start_lengths).tolist()
        peaks = spectral_peaks(plain)
        waves = any(
            isinstance(f, SHO) and p.name_of(f, "quality") not in p.fixed
            for p in problem.kernel.components
            for f in p.factors
        )
        qualities = (None, SERIES.start_quality) if waves else (None,)
        periods = _periods(problem.kernel)
        sharp = (None, SERIES.sharp_phase * min(periods)) if periods else (None,)
        kernels = [
            _started(problem.kernel, length, share, span, peaks, quality, phase)
            for length in lengths
            for quality in qualities
            for phase in sharp
        ]
        kernels += [
            kernel
            for kernel in problem.kernel.candidates(lengths, peaks, power)
            if self._near_given(kernel)
        ]
        noises = [noise_estimate(plain), START.much_noise * power * mean_weight(plain)]
        return [State(*pair) for pair in product(kernels, problem.likelihoods(noises))]


def _factors(engine: AnyEngine, state: State) -> bool:
    """Return True if the matrices of an engine can be factored at a state."""
    try:
        engine.factor(*state)
    except np.linalg.LinAlgError:
        return False
    return True


def _reach(stretch: Statistics) -> float:
    """Return the longest scale that can be learnt from a stretch."""
    return SERIES.window_share * (stretch.grid.upper - stretch.grid.lower)


def _beyond(given: Component | Product, first: Component | Product, stretch: Statistics) -> bool:
    """Return True for a Matérn whose lengthscale, as the user gave it, exceeds a stretch."""
    return isinstance(first, Matern) and not given.unset and first.lengthscale > _reach(stretch)


def _has_twins(kernel: Kernel) -> bool:
    """Return True if two components are equal: their gradients are, too, and they stay twins."""
    return len(set(kernel.components)) < len(kernel.components)


def _demanding(state: State, sites: bool) -> State:
    """Return a state whose functions suit other states, too.

    Its oscillators live long, and its seasons may change within a part of the shortest period, as
    a working day does in a week: on cells too wide for that, training would lose such a season to
    a process of short range. Of ``sites``, seasons that drift are sharp as well, because first
    sites may say so little that they ask for wide cells.
    """
    changes = {}
    shortest = min(_periods(state.kernel), default=0.0)
    for prefix, part in state.kernel.labelled:
        for factor in part.factors:
            if isinstance(factor, SHO):
                name = prefix + part.name_of(factor, "quality")
                changes[name] = max(factor.quality, SERIES.start_quality)
            elif isinstance(factor, Periodic) and (sites or len(part.factors) == 1):
                name = prefix + part.name_of(factor, "lengthscale")
                period = factor.period if len(part.factors) > 1 else shortest
                changes[name] = min(factor.lengthscale, SERIES.sharp_phase * period)
    return State(state.kernel.replace_free(changes), state.likelihood)


def _periods(kernel: Kernel) -> list[float]:
    """Return the periods of all seasons."""
    factors = [factor for part in kernel.components for factor in part.factors]
    return [factor.period for factor in factors if isinstance(factor, Periodic)]


def other_qualities(objective: Objective, gain: float) -> list[State]:
    """Return the best state with an oscillator that lives longer or shorter, if it gains.

    Between a short-lived oscillator and a long-lived one there may be a valley.
    """
    value, best = objective.best
    if best is None:
        return []
    better: list[tuple[float, State]] = []
    for prefix, part in best.kernel.labelled:
        for factor in part.factors:
            name = prefix + part.name_of(factor, "quality")
            if not isinstance(factor, SHO) or name in best.kernel.fixed:
                continue
            for times in SERIES.other_qualities:
                kernel = best.kernel.replace_free({name: times * factor.quality})
                state = objective.decode(objective.encode(State(kernel, best.likelihood)))
                reached = objective.value_at(state)
                if reached > value + gain:
                    better.append((reached, state))
    return [max(better, key=lambda pair: pair[0])[1]] if better else []


def window(stats: Statistics, cells: int) -> Statistics:
    """Return the statistics of a stretch of cells, with their share of the scatter within cells.

    It is the one with the fewest empty cells that is nearest to the middle.
    """
    weight = stats.cell_weights
    before = np.concatenate([[0], np.cumsum(weight > 0.0)])
    held = before[cells:] - before[:-cells]
    fullest = np.flatnonzero(held == held.max())
    first = int(fullest[np.argmin(np.abs(fullest - (stats.grid.cells - cells) // 2))])
    chosen = slice(first, first + cells)
    moments, targets = stats.moments[chosen], stats.targets[:, chosen]
    between = np.zeros_like(stats.targets[:, :, 0])
    np.divide(stats.targets[:, :, 0] ** 2, weight, out=between, where=weight > 0.0)
    share = float(moments[:, 0].sum() / weight.sum())
    within = np.maximum(stats.squares - between.sum(axis=1), 0.0)
    lower = stats.grid.lower + first * stats.grid.spacing
    return replace(
        stats,
        grids=(Grid(lower, lower + cells * stats.grid.spacing, cells),),
        moments=moments,
        targets=targets,
        cross=np.empty((cells, stats.degree + 1, 0)),
        column_gram=np.empty((0, 0)),
        column_targets=np.empty((len(stats.squares), 0)),
        linear=0,
        column_centre=np.empty(0),
        squares=between[:, chosen].sum(axis=1) + share * within,
        count=max(1, round(share * stats.count)),
        missing=0,
        log_weights=share * stats.log_weights,
        log_jacobian=share * stats.log_jacobian,
    )


def _started(
    kernel: Kernel,
    length: float,
    share: float,
    span: float,
    peaks,
    quality: float | None,
    phase: float | None,
) -> Kernel:
    """Return a kernel with equal shares of the variance and its unset scales filled in.

    Oscillators get a ``quality``, if one is given; seasons ``phase`` as their lengthscale, or a
    part of their period.
    """
    free, number = list(peaks), 0
    parts = []
    for part in kernel.components:
        changes = {"variance": share}
        for factor in part.factors:
            if quality is not None and isinstance(factor, SHO):
                changes[part.name_of(factor, "quality")] = quality
            for name in factor.unset:
                parameter = part.name_of(factor, name)
                if isinstance(factor, Periodic):
                    changes[parameter] = phase or SERIES.start_phase * factor.period
                elif isinstance(factor, SHO):
                    changes[parameter] = free[number % len(free)] if free else span / 10.0
                    number += 1
                elif len(part.factors) > 1:
                    changes[parameter] = SERIES.start_drift * span
                else:
                    changes[parameter] = length
        parts.append(part.replace_free(changes))
    return Sum(tuple(parts), kernel.effects) if isinstance(kernel, Sum) else parts[0]
