"""Models of several inputs: reading them, their statistics, and what the posterior is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Gridded, Layout, spread
from asvgp.data.inputs import read_columns
from asvgp.data.validation import check_domain
from asvgp.diagnostics.checking import LeaveOneOut
from asvgp.diagnostics.field_facts import field_facts
from asvgp.diagnostics.field_verdict import stopped_short
from asvgp.diagnostics.summary import Facts
from asvgp.kernels import Constant, Kernel, in_time
from asvgp.model.devices import engine_for
from asvgp.model.effects import near_means
from asvgp.model.levels import least_levels, scale_of
from asvgp.model.memory import Need, Room, copies, fitting_cells, require_joint
from asvgp.model.plan import Plan
from asvgp.policies import DATA, MEMORY
from asvgp.posterior.field import FieldPosterior
from asvgp.posterior.field_functionals import Points
from asvgp.posterior.field_paths import FieldPath, sample
from asvgp.runtime.checks import finite_range, non_negative_integer
from asvgp.runtime.memory import as_bytes
from asvgp.runtime.progress import Progress
from asvgp.statistics import Statistics
from asvgp.structures.points import FieldPoints, FieldSums
from asvgp.times import TimeAxis
from asvgp.training.climb import Problem
from asvgp.training.field_fit import fit_field
from asvgp.training.finest import doublings, shared_out, smooth_cells
from asvgp.training.fit import Fit
from asvgp.training.pilot import lengths


def _room(estimator) -> Room:
    """The memory that an estimator may use."""
    auto, announce = isinstance(estimator.num_basis, str), Progress(estimator.progress).announce
    return Room(as_bytes(estimator.memory_limit), engine_for(estimator.device), announce, auto)


class Field:
    """A model whose processes are over several inputs.

    Parameters
    ----------
    layout : Layout
    axes : tuple of TimeAxis or None
        For every column of ``layout.used``.
    """

    def __init__(self, layout: Layout, axes: tuple[TimeAxis | None, ...]):
        self.layout, self.axes = layout, axes

    @property
    def axis(self) -> TimeAxis | None:
        """None: there is no one time axis."""
        return None

    @property
    def key(self):
        """What two models must share for their statistics to add."""
        return self.axes, self.layout.used, self.layout.linear

    @property
    def columns(self):
        """Columns of X that are used."""
        return self.layout.used, self.layout.linear

    def with_layout(self, layout: Layout) -> Field:
        """The same inputs under another kernel."""
        return Field(layout, self.axes)

    def timed(self, kernel: Kernel) -> tuple:
        """Columns that are times, as a kernel names them."""
        pairs = zip(self.layout.used, self.axes, strict=True)
        numbers = [number for number, axis in pairs if axis is not None]
        return tuple(self.layout.names[n] if self.layout.names else n for n in numbers)

    # ------------------------------------------------------------ reading

    def read(self, estimator, X, reset: bool = False, width=None) -> FieldPoints:
        """New inputs, of the kind seen."""
        layout = self.layout
        if width is not None:
            raise ValueError("Averages over intervals (width) are for models of one input.")
        columns = read_columns(estimator, X, layout, self.axes, reset)
        shape = X.shape if isinstance(X, Gridded) else None
        if shape and (layout.smooths or layout.linear):
            columns = dict(enumerate(spread([columns[d] for d in range(len(shape))], shape)))
            shape = None
        rows = prod(shape) if shape else len(columns[layout.used[0]])
        effects = [
            np.broadcast_to(1.0, (rows,)) if isinstance(effect, Constant) else columns[effect.dim]  # pyright: ignore[reportAttributeAccessIssue]
            for effect in layout.kernel.effects
        ]
        inputs = [columns[number] for number in layout.used]
        main = len(layout.inputs)
        return FieldPoints(inputs[:main], inputs[main:], effects, shape)

    def degrees(self, estimator) -> tuple[int, ...]:
        """Spline degree of every factor of every term."""
        out = []
        for part in self.layout.kernel.components:
            for factor in part.factors:
                least = factor.order + 1
                degree = estimator.degree
                if degree is None:
                    degree = factor.default_degree
                elif not isinstance(degree, int | np.integer) or not least <= degree <= 4:
                    raise ValueError(
                        f"degree must be None or an integer from {least} (for {factor!r}) to 4, "
                        f"got {degree!r}."
                    )
                out.append(int(degree))
        return tuple(out)

    def _degrees_by_term(self, estimator) -> list[dict[int, int]]:
        flat = iter(self.degrees(estimator))
        return [
            {factor.dim: next(flat) for factor in part.factors}
            for part in self.layout.kernel.components
        ]

    def plan(self, estimator, stats: Statistics) -> Plan:
        """The structure of P on the statistics' grids."""
        return self._plan(estimator, stats.grids, stats.degrees, stats.smooths)

    def _plan(self, estimator, grids, degrees, smooths) -> Plan:
        layout, by_term = self.layout, self._degrees_by_term(estimator)
        terms = tuple(i for i in range(len(layout.kernel.components)) if i not in layout.smooths)
        return Plan(
            layout.inputs,
            tuple(grids),
            tuple(degrees),
            terms,
            tuple(tuple(by_term[t].get(column, 0) for column in layout.inputs) for t in terms),
            tuple((0,) * len(layout.inputs) for _ in terms),
            layout.smooths,
            tuple(grid for grid, _ in smooths),
            tuple(degree for _, degree in smooths),
            len(layout.kernel.effects),
            layout.names,
        )

    # ------------------------------------------------------------ statistics

    def prepare(
        self,
        estimator,
        points: FieldPoints,
        y: Array,
        stats: Statistics | None,
        known_noise: bool = False,
        extent: FieldPoints | None = None,
        whole: bool = True,
    ) -> Statistics:
        """Statistics on grids that hold the points: empty ones, or those given, grown.

        Where the points are not the ``whole`` of the data, the grids hold those of ``extent``
        instead: the outermost of all.
        """
        outputs = 1 if y.ndim == 1 else y.shape[1]
        reach, effects = points if extent is None else extent, points.effects
        main, smooths = reach.main, reach.smooths
        ranges = [finite_range(x, self._name(i)) for i, x in enumerate((*main, *smooths))]
        domains = self._domains(estimator, (*main, *smooths), ranges, stats is None)
        split = len(main)
        if stats is not None:
            if estimator.domain is not None:
                return stats
            lower, upper = [a for a, _ in ranges], [b for _, b in ranges]
            stats = stats.extend(
                lower[:split],
                upper[:split],
                smooth_lower=lower[split:],
                smooth_upper=upper[split:],
                multiple=8,
            )
            return self._fitting(estimator, stats)
        by_term = self._degrees_by_term(estimator)
        degrees = [
            max(own[column] for own in by_term if column in own) for column in self.layout.used
        ]
        if isinstance(estimator.num_basis, str) and estimator.num_basis == "auto":
            present = int(np.isfinite(y.reshape(points.count, -1)).all(axis=1).sum())
            rows = present if whole else max(present, DATA.many_rows)
            cells = self._automatic_cells(estimator, points, y, domains, rows)
        else:
            cells = self._asked_cells(estimator, degrees)
        cells = self._within_memory(estimator, cells, degrees, len(effects), outputs)
        grids = [Grid(*domain, n) for domain, n in zip(domains, cells, strict=True)]
        stats = Statistics.empty(
            tuple(grids[:split]),
            tuple(degrees[:split]),
            outputs,
            smooths=tuple(zip(grids[split:], degrees[split:], strict=True)),
            linear=len(effects),
            convention=self.convention(known_noise),
            **self._centres(y, effects),
        )
        return self._fitting(estimator, stats)

    def convention(self, known_noise: bool) -> str:
        """Return the meaning of the weights and the origins of times, in words."""
        weights = "known noise variances" if known_noise else "relative weights"
        times = [f"time since {axis.origin} ({axis.tz})" for axis in self.axes if axis is not None]
        return ", ".join([weights, *times])

    def _fitting(self, estimator, stats: Statistics) -> Statistics:
        """The same, if what is to be eliminated on grids as fine as asked for fits in memory."""
        if not isinstance(estimator.num_basis, str):
            kernel, plan = self.layout.kernel, self.plan(estimator, stats)
            if estimator.optimizer is None and len(kernel.components) > 1:
                plan = replace(plan, levels=least_levels(kernel, plan))
            _room(estimator).check(plan, kernel)
        return stats

    def _centres(self, y: Array, effects: Sequence[Array]) -> dict[str, Array]:
        """Numbers near the means of y and the effects, where there is an intercept."""
        intercept = self.layout.kernel.intercept
        if intercept is None:
            return {}
        beside = near_means(effects)
        beside[intercept] = 0.0
        return {"centre": near_means(list(y.reshape(len(y), -1).T)), "column_centre": beside}

    def _within_memory(self, estimator, cells, degrees, effects: int, outputs: int) -> list[int]:
        """Cells whose statistics fit in memory: fewer where they are automatic, or an error."""
        room, main = _room(estimator), len(self.layout.inputs)

        def needed(cells) -> float:
            columns = sum(n + k for n, k in zip(cells[main:], degrees[main:], strict=True))
            grids = [Grid(0.0, 1.0, n) for n in cells[:main]]
            return Statistics.bytes_needed(grids, degrees[:main], columns + effects, outputs)

        def plan(cells) -> Plan:
            grids = [Grid(0.0, 1.0, n) for n in cells]
            smooths = tuple(zip(grids[main:], degrees[main:], strict=True))
            return self._plan(estimator, grids[:main], degrees[:main], smooths)

        kernel = self.layout.kernel
        if isinstance(estimator.num_basis, str):
            cells = fitting_cells(cells, main, needed, MEMORY.sums_share * room.limit)
            begun = room.begun(plan(cells), kernel)
            return [grid.cells for grid in (*begun.grids, *begun.smooth_grids)]
        if needed(cells) > room.limit:
            alone = Need(needed(cells), needed(cells))
            room.refuse("The statistics alone need", alone, plan(cells), kernel)
        return cells

    def _name(self, place: int) -> str:
        column = self.layout.used[place]
        return f"column {self.layout.names[column] if self.layout.names else column!r} of X"

    def _domains(self, estimator, columns, ranges, first: bool) -> list[tuple[float, float]]:
        """The interval of every input: the data's own, or the user's."""
        given, over = estimator.domain, self.layout.over
        if given is None:
            given = [None] * len(over)
            if not first:
                return ranges
        if not isinstance(given, Sequence | np.ndarray) or len(given) != len(over):
            raise ValueError(
                f"domain must be None or one pair (a, b) for each of {len(over)} inputs, in the "
                f"order of their columns; got {given!r}."
            )
        out = []
        for place, column in enumerate(self.layout.used):
            number = over.index(column)
            pair, axis = given[number], self.axes[place]
            if pair is not None and axis is not None:
                pair = axis.to_seconds(list(pair), name="domain")
            lower, upper = ranges[place]
            if pair is None and not lower < upper:
                pairs = ["None"] * len(over)
                pairs[number] = "(a, b)"
                raise ValueError(
                    f"{self._name(place)} is constant ({lower:g}, n_samples = "
                    f"{len(columns[place])}): there is no range to put splines on. Give one, "
                    f"domain=({', '.join(pairs)}), or drop the column."
                )
            try:
                out.append(check_domain(pair, columns[place], lower, upper, axis=axis))
            except ValueError as error:
                raise ValueError(f"{self._name(place)}: {error}") from None
        return out

    def _automatic_cells(self, estimator, points: FieldPoints, y, domains, rows) -> list[int]:
        """The finest cells that are worth accumulating, more where the data vary faster."""
        split, cells = len(points.main), []
        if split:
            widths = np.array([upper - lower for lower, upper in domains[:split]])
            along = self._lengths(points, y, widths) if estimator.optimizer else self._shortest()
            cells = shared_out(doublings(split, rows), widths, along)
        smooths = len(points.smooths)
        return [*cells, *([smooth_cells(rows, smooths)] * smooths)]

    def _lengths(self, points: FieldPoints, y: Array, widths: Array) -> Array:
        """Lengths that neighbours suggest; NaN where too long to show in a part of the domain."""
        columns, y, effects = points.sampled(y)
        along = lengths(columns, y, effects)
        ranges = np.array([float(np.ptp(x)) for x in columns])
        return np.where((along >= ranges) & (4.0 * ranges < widths), np.nan, along)

    def _shortest(self) -> Array:
        """The kernel's own shortest length along every input of the main block."""
        factors = [f for part in self.layout.kernel.components for f in part.factors]
        return np.array(
            [min(scale_of(f) for f in factors if f.dim == column) for column in self.layout.inputs]
        )

    def _asked_cells(self, estimator, degrees) -> list[int]:
        """Cells of every input for the number of functions that is asked for."""
        given = estimator.num_basis
        over = self.layout.over
        counts = given if isinstance(given, Sequence | np.ndarray) else [given] * len(over)
        if len(counts) != len(over) or isinstance(given, str):
            raise ValueError(
                f"num_basis must be 'auto', one number, or one for each of {len(over)} inputs, "
                f"got {given!r}."
            )
        out = []
        for place, column in enumerate(self.layout.used):
            count = counts[over.index(column)]
            if not isinstance(count, int | np.integer) or isinstance(count, bool):
                raise TypeError(f"num_basis must be 'auto' or whole numbers, got {given!r}.")
            least = degrees[place] + 1
            if count < least:
                raise ValueError(
                    f"num_basis must be at least degree + 1 = {least} for {self._name(place)}, "
                    f"got {count}."
                )
            out.append(int(count) - degrees[place])
        return out

    def covers(self, stats: Statistics, points: FieldPoints) -> bool:
        """Whether all points are inside the statistics' domain."""
        grids = [*stats.grids, *(grid for grid, _ in stats.smooths)]
        for x, grid in zip((*points.main, *points.smooths), grids, strict=True):
            lower, upper = finite_range(x)
            if lower < grid.lower or upper > grid.upper:
                return False
        return True

    def accumulate(self, points: FieldPoints, y, stats: Statistics, weights, progress=None):
        """Statistics of new data, on the grids of ``stats``."""
        sums = self.accumulator(stats)
        sums.add(points, y, weights, progress)
        return sums.statistics()

    def accumulator(self, stats: Statistics) -> FieldSums:
        """What adds up data that come in blocks, on the grids of ``stats``."""
        return FieldSums(stats)

    def fit(self, estimator, problem: Problem, stats: Statistics, warm) -> Fit:
        """Train on statistics."""
        auto = isinstance(estimator.num_basis, str) and estimator.num_basis == "auto"
        plan = self.plan(estimator, stats)
        room = _room(estimator)
        fitted = fit_field(
            problem,
            stats,
            plan,
            auto=auto,
            trained=estimator.optimizer is not None,
            warm=warm,
            engine=room.engine,
            room=room,
        )
        ends = fitted.posterior.plan.grids  # pyright: ignore[reportAttributeAccessIssue]
        if auto and self._cut_short(stats, ends):
            room.stopped()
            fitted.report.notes += [note for note in room.notes if note not in fitted.report.notes]
        elif auto and problem.objective == "elbo" and not (room.notes or fitted.report.interrupted):
            fitted.report.notes += stopped_short(fitted.posterior, stats)  # pyright: ignore[reportArgumentType]
        return fitted

    def _cut_short(self, stats: Statistics, ends: tuple[Grid, ...]) -> bool:
        """Whether training ended on the finest cells, which memory had made wider."""
        inputs = len(stats.grids)
        if not any(grid == end for grid, end in zip(stats.grids, ends, strict=True)):
            return False
        fewer = doublings(inputs, stats.count) - 2 * inputs
        return prod(grid.cells for grid in stats.grids) <= 2**fewer

    # ------------------------------------------------------------ what can be asked

    def table_points(self, X) -> Points:
        """Points of X, for paths."""
        return self._points(self.read(None, X))

    def _points(self, points: FieldPoints, orders: Mapping[int, int] | None = None) -> Points:
        """Points as matrices; of the effects, their derivatives where asked."""
        points = points.expanded()
        main, smooths, effects = points.main, points.smooths, points.effects

        def matrix(columns) -> Array:
            if not len(columns):
                return np.empty((points.count, 0))
            return np.stack([np.asarray(c, dtype=float) for c in columns], axis=1)

        design = matrix(effects)
        if orders:
            design = np.zeros_like(design)
            for number, effect in enumerate(self.layout.kernel.effects):
                if dict(orders) == {getattr(effect, "dim", None): 1}:
                    design[:, number] = 1.0
        return Points(matrix(main), matrix(smooths), design)

    def _orders(self, posterior: FieldPosterior, order) -> dict[int, int]:
        """Orders of a derivative by column, checked to exist."""
        if isinstance(order, Mapping):
            pairs = list(order.items())
        elif isinstance(order, Sequence) and not isinstance(order, str):
            pairs = list(enumerate(order))
        elif not order:
            return {}
        else:
            raise ValueError(
                f"There are {len(self.layout.over)} inputs: say along which to differentiate, "
                "derivative={column: order}."
            )
        names, columns = self.layout.names, sorted({*self.layout.used, *self.layout.linear})
        orders: dict[int, int] = {}
        for given, wanted in pairs:
            known = isinstance(given, str) and names is not None and given in names
            column = names.index(given) if known and names is not None else given
            if column not in columns:
                inputs = ", ".join(repr(names[c] if names else c) for c in columns)
                raise ValueError(f"derivative: {given!r} is no input; they are {inputs}.")
            what = f"derivative: the order along {given!r}"
            orders[column] = non_negative_integer(wanted, what)
        orders = {column: wanted for column, wanted in orders.items() if wanted}
        for column, wanted in orders.items():
            name = names[column] if names else column
            for part in posterior.kernel.components:
                for factor in part.factors:
                    if factor.dim == column and wanted > factor.order:
                        raise ValueError(
                            f"The derivative of order {wanted} of f along {name!r} does not "
                            f"exist: {factor!r} has {factor.order}. Take a smoother kernel there."
                        )
        return orders

    def predict(self, posterior: FieldPosterior, points: FieldPoints, variance, component, order):
        """Mean (outputs, n) and variance (n,)."""
        orders = self._orders(posterior, order)
        places = self._points(points, orders)
        if component is None and not orders:
            return posterior.predict(places, variance)
        return posterior.functionals(places, orders, component, variance)

    def covariance(
        self, posterior: FieldPosterior, points: FieldPoints, order, limit: float | None = None
    ) -> Array:
        """Posterior covariance matrix, where it fits in ``limit`` bytes."""
        if self._orders(posterior, order):
            raise ValueError("Covariances of derivatives are for models of one input.")
        size, outputs = posterior.assembly.size, posterior.outputs
        require_joint("The covariance", points.count, size, limit, copies(outputs))
        return posterior.covariance(self._points(points))

    def effects(self, posterior: FieldPosterior, points: FieldPoints | None, order):
        """Coefficients (effects, outputs), their covariance, and the columns at points."""
        count = len(self.layout.kernel.effects)
        if not count:
            return np.empty((0, 1)), np.empty((0, 0)), np.empty((0, 0))
        orders = self._orders(posterior, order)
        design = np.empty((0, 0)) if points is None else self._points(points, orders).effects
        return *posterior.given_effects, design

    def sample(
        self,
        posterior: FieldPosterior,
        points: FieldPoints,
        n_samples,
        random_state,
        limit: float | None = None,
    ):
        """Joint draws, (outputs, n, samples), where their covariance fits in ``limit`` bytes."""
        return sample(posterior, self._points(points), n_samples, random_state, limit)

    def paths(self, posterior: FieldPosterior, n_samples, random_state, component):
        """Sample paths, callable."""
        if component is not None:
            raise ValueError("Paths of single components are for models of one input.")
        return FieldPath.draw(posterior, self, n_samples, random_state)

    def leave_one_out(self, posterior: FieldPosterior, points: FieldPoints, y, weights):
        """Predictions of the training data, each without itself."""
        places = self._points(points)
        single = np.ndim(y) == 1
        table = np.asarray(y, dtype=float).reshape(points.count, -1).T
        mean, variance = posterior.predict(places)
        own = posterior.fitted_variance(places, variance)
        private = posterior.noise / (1.0 if weights is None else np.asarray(weights, dtype=float))
        leverage = own / private
        left = 1.0 - leverage
        with np.errstate(divide="ignore", invalid="ignore"):
            total = variance + own * leverage / left + private
            total = np.where(left > 1e-12, total, np.nan)
            residual = (table - mean) / np.where(left > 1e-12, left, np.nan)
            std = np.where(np.isnan(table).any(axis=0), np.nan, np.sqrt(total))
            z = residual / std
            density = -0.5 * np.log(2.0 * np.pi * total) - 0.5 * z**2
        parts = table - residual, np.broadcast_to(std, mean.shape), residual, z, density
        return LeaveOneOut(*((part[0] for part in parts) if single else parts))

    def facts(
        self, posterior: FieldPosterior, objective: str, stats: Statistics | None = None
    ) -> Facts:
        """What a summary asks; ``stats`` are those on the finest grids."""
        return field_facts(posterior, objective, posterior.stats if stats is None else stats)

    def labelled(self, kernel: Kernel) -> Kernel:
        """A kernel as the user would write it."""
        pairs = zip(self.layout.used, self.axes, strict=True)
        timed = [number for number, axis in pairs if axis is not None]
        return self.layout.relabelled(in_time(kernel, timed) if timed else kernel)

    def num_basis(self, posterior: FieldPosterior) -> tuple[int, ...]:
        """Number of basis functions along every input, in the order of their columns.

        Where several smooths are over one, those of the finest.
        """
        counts = dict.fromkeys(self.layout.over, 0)
        for column, count in zip(self.layout.used, posterior.plan.functions, strict=True):
            counts[column] = max(counts[column], count)
        return tuple(counts.values())

    def domain(self, stats: Statistics) -> tuple:
        """The interval of every input, in the order of their columns."""
        grids = [*stats.grids, *(grid for grid, _ in stats.smooths)]
        out = []
        for i in map(self.layout.used.index, self.layout.over):
            ends, axis = (grids[i].lower, grids[i].upper), self.axes[i]
            out.append(ends if axis is None else tuple(axis.to_times(np.array(ends))))
        return tuple(out)
