"""Models of several inputs: their statistics, training, and questions to the posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Gridded, Table, spread
from asvgp.data.inputs import read_columns
from asvgp.data.settings import Settings
from asvgp.degrees import Longitudes
from asvgp.diagnostics.facts import Facts, field_facts
from asvgp.diagnostics.verdict import stopped_short
from asvgp.kernels import EarthMatern
from asvgp.kernels.algebra import renamed
from asvgp.kernels.earth import refuse_derivative
from asvgp.model.plan import Plan
from asvgp.model.room import with_room
from asvgp.policies import FIELD
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.grid_paths import draw_paths
from asvgp.posterior.posterior import GridPoints
from asvgp.runtime.checks import finite_range, non_negative_integer
from asvgp.statistics import Statistics
from asvgp.structures.earth import check_arc, check_latitudes, grid_for, moved, with_circles
from asvgp.structures.field_cells import (
    automatic_cells,
    cells_within_memory,
    check_circles,
    degrees_by_input,
    memory_for,
    plan_for,
    requested_cells,
)
from asvgp.structures.structure import Ends, Points, Structure
from asvgp.training.finest import doublings
from asvgp.training.fit import Fit, fit
from asvgp.training.problem import Problem, State
from asvgp.training.schedule_field import FieldSchedule


class Field(Structure[GridPosterior]):
    """A model whose processes are over several inputs."""

    def read(self, table: Table, width: Any = None) -> Points:
        """Return the rows of X as points, of the kind that the model was fitted to."""
        layout = self.layout
        if width is not None:
            raise ValueError("Averages over intervals (width) are for models of one input.")
        read = read_columns(table, layout, self.axes)
        ranges = [read[number].range for number in layout.used]
        columns = {number: column.values for number, column in read.items()}
        check_latitudes(layout, columns, {number: table.column_name(number) for number in columns})
        shape = table.values.shape if isinstance(table.values, Gridded) else None
        if shape and (layout.smooths or layout.linear):
            columns = dict(enumerate(spread([columns[d] for d in range(len(shape))])))
            shape = None
        rows = prod(shape) if shape else len(columns[layout.used[0]])
        effects = [
            np.broadcast_to(1.0, (rows,)) if column is None else columns[column]
            for column in self.effect_columns
        ]
        inputs = [columns[number] for number in layout.used]
        main = len(layout.inputs)
        return Points(inputs[:main], inputs[main:], effects, shape, ranges=ranges)

    @property
    def effect_columns(self) -> tuple[int | None, ...]:
        """Columns of all effects; None for the intercept."""
        effects = self.layout.kernel.effects
        dims = (getattr(effect, "dim", None) for effect in effects)
        return tuple(dim if isinstance(dim, int) else None for dim in dims)

    def plan(self, settings: Settings, stats: Statistics) -> Plan:
        """Return the structure of P on the statistics' grids."""
        flat = self.degrees(settings, stats)
        return plan_for(self.layout, stats.grids, stats.degrees, stats.smooths, flat)

    # ------------------------------------------------------------ statistics

    def settle(self, settings: Settings, points: Points, every: bool) -> None:
        """Settle which longitudes go round the Earth, as in `Structure`."""
        if self.layout.degrees:
            self.layout = with_circles(self.layout, points, every, self.pairs(settings))
            check_circles(self.layout)

    def covers(self, points: Points, stats: Statistics) -> bool:
        """Return True if all points lie inside the statistics' domain."""
        return super().covers(moved(points, stats.grids), stats)

    def new_grids(
        self, settings: Settings, points: Points, y: Array, ends: Sequence[Ends], whole: bool
    ) -> tuple[list[Grid], list[int]]:
        """Return the grid of every input, as fine as memory allows, and its splines' degree."""
        layout, flat, main = self.layout, self.degrees(settings), len(self.layout.inputs)
        degrees = degrees_by_input(layout, flat)
        if settings.automatic:
            cells = automatic_cells(layout, settings, points, y, ends, whole, self.raised(flat))
        else:
            names = [self.name(place) for place in range(len(layout.used))]
            cells = requested_cells(layout, settings, degrees, names)
        outputs, effects = 1 if y.ndim == 1 else y.shape[1], len(points.effects)
        cells = cells_within_memory(layout, settings, cells, degrees, flat, effects, outputs)
        rows = enumerate(zip(ends, cells, strict=True))
        grids = [grid_for(layout, place, domain, n) for place, (domain, n) in rows]
        smooths = tuple(zip(grids[main:], degrees[main:], strict=True))
        self._check_memory(settings, plan_for(layout, grids[:main], degrees[:main], smooths, flat))
        return grids, degrees

    def _check_memory(self, settings: Settings, plan: Plan) -> None:
        """Check that what is eliminated on grids as fine as the user wants fits in memory."""
        if settings.automatic:
            return
        kernel = self.layout.kernel
        memory_for(settings).check(with_room(plan, kernel), kernel)

    def extended(self, settings: Settings, points: Points, stats: Statistics) -> Statistics:
        """Return statistics on grids that hold further points, too."""
        points = moved(points, stats.grids)
        ends = self.ends(settings, points, first=False)
        if settings.domain_known:
            return stats
        for place, grid in enumerate(stats.grids):
            if isinstance(grid, Longitudes) and not grid.cyclic:
                ends[place] = points.ranges[place]
                low, high = zip(ends[place], (grid.lower, grid.upper), strict=True)
                check_arc((min(low), max(high)), self.name(place))
        main = len(stats.grids)
        lower, upper = [a for a, _ in ends], [b for _, b in ends]
        stats = stats.extend(
            lower[:main],
            upper[:main],
            smooth_lower=lower[main:],
            smooth_upper=upper[main:],
            multiple=FIELD.grown_cells,
        )
        self._check_memory(settings, self.plan(settings, stats))
        return stats

    def num_basis(self, posterior: GridPosterior) -> tuple[int, ...]:
        """Return the number of basis functions along every input, in the order of their columns.

        Where several smooths are over one, those of the finest.
        """
        counts = dict.fromkeys(self.layout.over, 0)
        for column, count in zip(self.layout.used, posterior.plan.functions, strict=True):
            counts[column] = max(counts[column], count)
        return tuple(counts.values())

    # ------------------------------------------------------------ training

    def schedule(self, settings: Settings, problem: Problem, stats: Statistics) -> Any:
        """Return the schedule of training on statistics."""
        plan, memory = self.plan(settings, stats), memory_for(settings)
        return FieldSchedule(problem, stats, plan, settings.automatic, memory.device, memory)

    def fit(
        self, settings: Settings, problem: Problem, stats: Statistics, warm: State | None
    ) -> Fit[GridPosterior]:
        """Train on statistics."""
        schedule = self.schedule(settings, problem, stats)
        auto, memory = settings.automatic, schedule.room
        try:
            fitted = fit(schedule, trained=settings.trained, warm=warm)
        except np.linalg.LinAlgError as error:
            raise ValueError(str(error)) from error
        free = auto and problem.near is None
        if free and self._cut_short(settings, stats, fitted.posterior.plan.grids):
            memory.stopped()
            notes = [note for note in memory.notes if note not in fitted.report.notes]
            fitted.report.notes += notes
        elif (
            auto and problem.objective == "elbo" and not (memory.notes or fitted.report.interrupted)
        ):
            fitted.report.notes += stopped_short(fitted.posterior, stats)
        return fitted

    def _cut_short(self, settings: Settings, stats: Statistics, ends: tuple[Grid, ...]) -> bool:
        """Return True if training ended on the finest cells, which memory had made wider.

        Those of a model file are joined without need: with them, halves would fit.
        """
        inputs = len(stats.grids)
        if not any(grid == end for grid, end in zip(stats.grids, ends, strict=True)):
            return False
        fewer = doublings(inputs, stats.count) - 2 * inputs
        if prod(grid.cells for grid in stats.grids) > 2**fewer:
            return False
        halves = [2 * grid.cells for grid in stats.grids]
        smooths = [grid.cells for grid, _ in stats.smooths]
        flat, sizes = self.degrees(settings, stats), (len(self.effect_columns), len(stats.squares))
        degrees = [*stats.degrees, *(degree for _, degree in stats.smooths)]
        cells = cells_within_memory(
            self.layout, settings, [*halves, *smooths], degrees, flat, *sizes
        )
        return cells[:inputs] != halves

    # ------------------------------------------------------------ questions to the posterior

    def table_points(self, X) -> GridPoints:
        """Return the points of X, for paths."""
        return self.places(self.read(Table.of(X)))

    def places(self, points: Points, orders: Any = None) -> GridPoints:
        """Return points as matrices; of the effects, their derivatives where there are orders."""
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
        return GridPoints(matrix(main), matrix(smooths), design)

    def orders(self, posterior: GridPosterior, order: Any) -> dict[int, int]:
        """Return the orders of a derivative by column, checked to exist."""
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
        for part in posterior.kernel.components:
            for factor in part.factors:
                if isinstance(factor, EarthMatern) and set(factor.dim or ()) & set(orders):
                    refuse_derivative(renamed(part, names))
        for column, wanted in orders.items():
            name = names[column] if names else column
            for part in posterior.kernel.components:
                for factor in part.along:
                    if factor.dim == column and wanted > factor.order:
                        raise ValueError(
                            f"The derivative of order {wanted} of f along {name!r} does not "
                            f"exist: {factor!r} has {factor.order}. Take a smoother kernel there."
                        )
        return orders

    def size(self, posterior: GridPosterior) -> int:
        """Return the number of unknowns."""
        return posterior.engine.size

    def effects(
        self, posterior: GridPosterior, points: Points | None = None, order: Any = 0
    ) -> tuple[Array, Array, Array]:
        """Return coefficients (effects, outputs), their covariance, and the columns at points."""
        count = len(self.layout.kernel.effects)
        if not count:
            return np.empty((0, 1)), np.empty((0, 0)), np.empty((0, 0))
        orders = self.orders(posterior, order)
        design = np.empty((0, 0)) if points is None else self.places(points, orders).effects
        return *posterior.given_effects, design

    def paths(
        self, posterior: GridPosterior, n_samples: int, random_state: Any, component: int | None
    ) -> Sequence[Any]:
        """Return sample paths, callable."""
        return draw_paths(posterior, self.table_points, n_samples, random_state, component)

    def corners(self, a: Any, b: Any) -> tuple[GridPoints, GridPoints, bool]:
        """Return opposite corners of boxes as numbers, and True if there is only one box."""
        if self.layout.degrees:
            raise ValueError(
                "Integrals over boxes are not to be had with coordinates='degrees'. Average "
                "predictions on a grid with weights cos(latitude); predict(..., return_cov=True) "
                "has what their standard deviation takes."
            )
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
            finite_range(values, f"{name}, {self.name(self.layout.used.index(column))}")
            out.append(values.reshape(table.shape[:-1]))
        return out

    def _at_corner(self, columns: list[Array]) -> GridPoints:
        """Return corners as points; effects of columns that no splines are over are left out."""
        nothing = dict.fromkeys(self.layout.linear, np.zeros(len(columns[0])))
        known = dict(zip(self.layout.over, columns, strict=True))
        return self.places(self.points_at({**nothing, **known}))

    def facts(
        self, posterior: GridPosterior, objective: str, stats: Statistics | None = None
    ) -> Facts:
        """Return what a summary asks; ``stats`` are those on the finest grids."""
        return field_facts(posterior, objective, posterior.stats if stats is None else stats)
