"""Resolutions of a series: cells for every component, from what its functions miss.

Where there are few distinct inputs, nothing is approximated at all: the field at the inputs takes
the place of splines. Otherwise training begins on cells that are as wide as a loose tolerance
allows. Whenever the hyperparameters have settled, the cells are chosen again, for these
hyperparameters and a tighter tolerance, until no component would get other cells.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import product
from math import nan

import numpy as np

from asvgp.basis import Grid
from asvgp.kernels import SHO, Kernel, Periodic, Sum
from asvgp.model.bound import Bound
from asvgp.model.effects import without_centres
from asvgp.model.exact import ExactEngine, distinct_inputs
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.levels import plan_for
from asvgp.model.series.plan import SeriesPlan
from asvgp.policies import LINE, SERIES, START
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.series import SeriesPosterior
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
        self.levels: list[Level] = []
        self._plain = without_effects(problem.kernel, self.stats)
        self._stage = 0
        self._explored: State | None = None  # on a stretch of a long series
        self._plans: list[SeriesPlan] = []
        self._exact = self._exact_engine(SERIES.exact_inputs) if auto else None

    def _exact_engine(self, most: int) -> ExactEngine | None:
        """Return the engine without splines, where it is possible for so many inputs."""
        if np.count_nonzero(self.stats.cell_weights) > most:
            return None
        inputs = distinct_inputs(self.stats)
        if inputs is None or len(inputs) < 2:
            return None
        engine = ExactEngine(self.problem.kernel, self.stats)
        irregular = not engine.lags.regular and len(inputs) > SERIES.exact_irregular_inputs
        return None if irregular else engine

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
        if self.stats.grid.cells > 2 * SERIES.window_cells:
            stretch = window(self._plain, SERIES.window_cells)
            # where next to nothing happens, there is nothing to learn
            if signal_spread(stretch) > SERIES.window_spread * signal_spread(self._plain):
                self._explored, report = self._explore(stretch)
        return self._engine(self._explored), None, report

    def _explore(self, stretch: Statistics) -> tuple[State, Report]:
        """Train on a stretch of a long series, where many starts are cheap.

        Scales that do not fit into it stay as they began.
        """
        problem = self.problem
        kernel = Sum(problem.kernel.components)
        schedule = SeriesSchedule(
            replace(problem, kernel=kernel, watch=None), stretch, True, SERIES.window_attempts
        )
        engine, _, report = schedule.begin(None, True)
        trained, report, _ = schedule.climb(engine, None, report)
        begun = self._starts[0]
        reach = SERIES.window_share * (stretch.grid.upper - stretch.grid.lower)
        parts = []
        pairs = zip(begun.kernel.components, trained.kernel.components, strict=True)
        for first, part in pairs:
            periods = [f.period for f in part.factors if isinstance(f, Periodic | SHO)]
            parts.append(first if any(period > reach for period in periods) else part)
        state = State(Sum(tuple(parts), problem.kernel.effects), trained.likelihood)
        if not isinstance(problem.kernel, Sum):
            state = State(parts[0], trained.likelihood)
        return state, report

    def _engine(self, state: State | None) -> AnyEngine:
        state = state or self._starts[0]
        tolerance = SERIES.tolerances[min(self._stage, len(SERIES.tolerances) - 1)]
        kernel, stats = self.problem.kernel, self.stats
        while True:
            plan = plan_for(state.kernel, state.noise, stats, self.powers, tolerance)
            engine = SeriesEngine(kernel, plan, stats)
            most = max(SERIES.most_functions * stats.count, SERIES.fewest_functions)
            if engine.size <= most or tolerance > 1.0 or not self.auto:
                break
            tolerance *= 4.0
        inputs = float(np.count_nonzero(stats.cell_weights))
        cost = engine.tables.tree.cost()
        if self.auto and cost.factor_flops + cost.inverse_flops > inputs**3:
            self._exact = self._exact_engine(SERIES.most_exact_inputs)
        return self._exact or engine

    def _factored(self, state: State) -> AnyEngine | None:
        """Return the engine for a state; None where P cannot be factored on its cells."""
        try:
            engine = self._engine(state)
        except np.linalg.LinAlgError:
            return None
        return engine if _factors(engine, state) else None

    def climb(
        self, engine: AnyEngine, state: State | None, report: Report
    ) -> tuple[State, Report, Bound]:
        """Train on one plan: from the best of some starts, or from the state reached so far."""
        problem, settings = self.problem, self.problem.settings
        objective = Objective(problem, [engine], self._limits())
        objective.shown_size = engine.size
        starts, attempts = [state] if state is not None else self._starts, 1
        if state is None:
            attempts = self.attempts + settings.restarts
            if self._explored is not None:
                few = engine.size <= SERIES.cheap_functions or not _factors(engine, self._explored)
                starts, attempts = [self._explored, *(starts if few else [])], attempts + few
        loose = replace(settings, tolerance=max(settings.tolerance, self._tolerance()))
        best, report = climb(objective, starts, loose, attempts, report, state)
        return best, report, objective.bound(best)

    def _tolerance(self) -> float:
        """Return the gain in nats below which climbing on the present cells is a waste."""
        last = self._exact is not None or self._stage >= len(SERIES.tolerances) - 1
        return (SERIES.last_gain if last else SERIES.loose_gain) * self.stats.count

    def following(self, engine: AnyEngine, state: State, report: Report) -> AnyEngine | None:
        """Return the engine of the next plan; None where the cells suit the state."""
        if isinstance(engine, ExactEngine):
            return None
        self._plans.append(engine.plan)
        self._stage += 1
        if self._stage > SERIES.stages:
            return None
        finer = self._factored(state)
        if finer is None:
            report.notes.append("finer cells were not taken: P cannot be factored on them")
            return None
        if isinstance(finer, ExactEngine):
            return finer
        if finer.plan in self._plans and self._stage >= len(SERIES.tolerances):
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
        self.levels.append(Level(engine.size, stats.grid.spacing, bound.elbo, upper, share))

    def posterior(self, engine: AnyEngine, state: State) -> AnyPosterior:
        """Return the posterior."""
        if isinstance(engine, ExactEngine):
            return ExactPosterior(*state, engine)
        return SeriesPosterior(*state, engine)

    def finish(self, posterior: AnyPosterior, bound: Bound, report: Report, trained: bool) -> None:
        """Say which seasons the data cannot show, and which components they have no use for."""
        kernel, noise = posterior.kernel, posterior.noise
        report.notes += season_notes(kernel, self.stats)
        for number, part in enumerate(kernel.components, 1):
            if trained and part.variance < SERIES.unused_variance * noise:
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
        return log_limits(self.problem, grids, spread, power, noise, {}, {})

    @cached_property
    def _starts(self) -> list[State]:
        """States worth trying: the kernel with unset scales at several lengths."""
        problem, plain = self.problem, self._plain
        power = signal_power(plain)
        share = power / max(1, len(problem.kernel.components))
        spacing, span = plain.grid.spacing, plain.grid.upper - plain.grid.lower
        lengths = np.geomspace(4.0 * spacing, span / 4.0, SERIES.start_lengths).tolist()
        peaks = spectral_peaks(plain)
        waves = any(isinstance(f, SHO) for part in problem.kernel.components for f in part.factors)
        qualities = (None, SERIES.start_quality) if waves else (None,)
        kernels = [
            _started(problem.kernel, length, share, span, peaks, quality)
            for length in lengths
            for quality in qualities
        ]
        kernels += problem.kernel.candidates(lengths, peaks, power)
        noises = [noise_estimate(plain), START.much_noise * power * mean_weight(plain)]
        return [State(*pair) for pair in product(kernels, problem.likelihoods(noises))]


def _factors(engine: AnyEngine, state: State) -> bool:
    """Return True if the matrices of an engine can be factored at a state."""
    try:
        engine.factor(*state)
    except np.linalg.LinAlgError:
        return False
    return True


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
    )


def _started(
    kernel: Kernel, length: float, share: float, span: float, peaks, quality: float | None
) -> Kernel:
    """Return a kernel with equal shares of the variance and its unset scales filled in.

    Oscillators get a ``quality``, if one is given.
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
                    changes[parameter] = SERIES.start_phase * factor.period
                elif isinstance(factor, SHO):
                    changes[parameter] = free[number % len(free)] if free else span / 10.0
                    number += 1
                elif len(part.factors) > 1:
                    changes[parameter] = SERIES.start_drift * span
                else:
                    changes[parameter] = length
        parts.append(part.replace_free(changes))
    return Sum(tuple(parts), kernel.effects) if isinstance(kernel, Sum) else parts[0]
