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
from asvgp.diagnostics.facts import Facts, field_facts
from asvgp.diagnostics.verdict import stopped_short
from asvgp.kernels import Constant, Kernel, in_time
from asvgp.model.devices import device_for
from asvgp.model.effects import near_means
from asvgp.model.levels import levels_by_digits, scale_of
from asvgp.model.memory import MemoryBudget, Need, copies, fitting_cells, require_joint
from asvgp.model.plan import Plan
from asvgp.policies import DATA, MEMORY
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.grid_paths import FieldPath, draw_paths
from asvgp.posterior.leave_one_out import leave_one_out
from asvgp.posterior.points import Points
from asvgp.posterior.samples import sample
from asvgp.runtime.checks import finite_range, non_negative_integer
from asvgp.runtime.memory import as_bytes
from asvgp.runtime.progress import Progress
from asvgp.statistics import Statistics
from asvgp.structures.points import FieldPoints, FieldSums
from asvgp.times import TimeAxis
from asvgp.training.finest import doublings, shared_out, smooth_cells
from asvgp.training.fit import Fit, fit
from asvgp.training.pilot import lengths
from asvgp.training.problem import Problem
from asvgp.training.schedule_field import FieldSchedule

SAMPLE_MATRICES = 6.0  # of all pairs of points: the covariance, its root, and LAPACK's work


def _room(estimator) -> MemoryBudget:
    """The memory that an estimator may use."""
    auto, announce = isinstance(estimator.num_basis, str), Progress(estimator.progress).announce
    return MemoryBudget(
        as_bytes(estimator.memory_limit), device_for(estimator.device), announce, auto
    )


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
                plan = replace(plan, levels=levels_by_digits(kernel, plan))
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
            start = room.starting_plan(plan(cells), kernel)
            return [grid.cells for grid in (*start.grids, *start.smooth_grids)]
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
        schedule = FieldSchedule(problem, stats, plan, auto, room.device, room)
        fitted = fit(schedule, trained=estimator.optimizer is not None, warm=warm)
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

    def _orders(self, posterior: GridPosterior, order) -> dict[int, int]:
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

    def predict(self, posterior: GridPosterior, points: FieldPoints, variance, component, order):
        """Mean (outputs, n) and variance (n,)."""
        orders = self._orders(posterior, order)
        return posterior.predict(self._points(points, orders), variance, component, orders)

    def covariance(
        self, posterior: GridPosterior, points: FieldPoints, order, limit: float | None = None
    ) -> Array:
        """Posterior covariance matrix, where it fits in ``limit`` bytes."""
        orders = self._orders(posterior, order)
        size, outputs = posterior.engine.size, posterior.outputs
        require_joint("The covariance", points.count, size, limit, copies(outputs))
        return posterior.covariance(self._points(points, orders), orders)

    def effects(self, posterior: GridPosterior, points: FieldPoints | None, order):
        """Coefficients (effects, outputs), their covariance, and the columns at points."""
        count = len(self.layout.kernel.effects)
        if not count:
            return np.empty((0, 1)), np.empty((0, 0)), np.empty((0, 0))
        orders = self._orders(posterior, order)
        design = np.empty((0, 0)) if points is None else self._points(points, orders).effects
        return *posterior.given_effects, design

    def sample(
        self,
        posterior: GridPosterior,
        points: FieldPoints,
        n_samples,
        random_state,
        limit: float | None = None,
    ):
        """Joint draws, (outputs, n, samples), where their covariance fits in ``limit`` bytes."""
        size, matrices = posterior.engine.size, SAMPLE_MATRICES
        require_joint("A joint sample", points.count, size, limit, matrices)
        return sample(posterior, self._points(points), n_samples, random_state)

    def paths(
        self, posterior: GridPosterior, n_samples, random_state, component
    ) -> list[FieldPath]:
        """Sample paths, callable."""
        return draw_paths(posterior, self.table_points, n_samples, random_state, component)

    def corners(self, a, b) -> tuple[Points, Points, bool]:
        """Return opposite corners of boxes as numbers, and whether there is only one box."""
        lower, upper = self._corner(a, "a"), self._corner(b, "b")
        single = lower[0].ndim == upper[0].ndim == 0
        for d, ends in enumerate(zip(lower, upper, strict=True)):
            lower[d], upper[d] = np.broadcast_arrays(*map(np.atleast_1d, ends))
        return self._at_corner(lower), self._at_corner(upper), single

    def _corner(self, given, name: str) -> list[Array]:
        """Return one array for every input that splines are over: of no dimension, or (m,)."""
        over = self.layout.over
        table = given if isinstance(given, np.ndarray) else np.asarray(given, dtype=object)
        if table.ndim not in (1, 2) or table.shape[-1] != len(over):
            raise ValueError(
                f"{name} must have shape ({len(over)},) or (m, {len(over)}), one number for each "
                f"input in the order of their columns; it has shape {table.shape}."
            )
        out = []
        for number, column in enumerate(over):
            axis = self.axes[self.layout.used.index(column)]
            values = np.atleast_1d(table[..., number])
            values = np.asarray(values, float) if axis is None else axis.to_seconds(list(values))
            finite_range(values, f"{name}, {self._name(self.layout.used.index(column))}")
            out.append(values.reshape(table.shape[:-1]))
        return out

    def _at_corner(self, columns: list[Array]) -> Points:
        """Return corners as points; effects of columns that no splines are over are left out."""
        layout, count = self.layout, len(columns[0])
        by_column = dict(zip(layout.over, columns, strict=True))
        inputs = [by_column[column] for column in layout.used]
        effects = [
            np.ones(count)
            if isinstance(effect, Constant)
            else by_column.get(getattr(effect, "dim", -1), np.zeros(count))
            for effect in layout.kernel.effects
        ]
        main = len(layout.inputs)
        return self._points(FieldPoints(inputs[:main], inputs[main:], effects, None))

    def leave_one_out(self, posterior: GridPosterior, points: FieldPoints, y, weights):
        """Predictions of the training data, each without itself."""
        return leave_one_out(posterior, self._points(points), y, weights)

    def facts(
        self, posterior: GridPosterior, objective: str, stats: Statistics | None = None
    ) -> Facts:
        """What a summary asks; ``stats`` are those on the finest grids."""
        return field_facts(posterior, objective, posterior.stats if stats is None else stats)

    def labelled(self, kernel: Kernel) -> Kernel:
        """A kernel as the user would write it."""
        pairs = zip(self.layout.used, self.axes, strict=True)
        timed = [number for number, axis in pairs if axis is not None]
        return self.layout.relabelled(in_time(kernel, timed) if timed else kernel)

    def num_basis(self, posterior: GridPosterior) -> tuple[int, ...]:
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
