"""Models of one input: grids for its statistics, training, and questions to the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Gridded, Table
from asvgp.data.inputs import read_columns, read_widths
from asvgp.data.settings import Settings
from asvgp.diagnostics.facts import Facts, line_facts
from asvgp.policies import LINE, MEMORY, SITES, halvings
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.chain_paths import draw_paths
from asvgp.posterior.posterior import LinePoints
from asvgp.runtime.memory import physical_memory
from asvgp.statistics import Statistics
from asvgp.statistics.intervals import check_uncut, cut, finest_uncut
from asvgp.structures.structure import Ends, Points, Structure
from asvgp.times import TimeAxis
from asvgp.training.finest import finest_cells
from asvgp.training.problem import Problem
from asvgp.training.schedule_line import LineSchedule


class Line(Structure[ChainPosterior]):
    """A model whose processes are all over one input."""

    def read(self, table: Table, width: Any = None) -> Points:
        """Return the rows of X as points, of the kind that the model was fitted to."""
        if isinstance(table.values, Gridded):
            raise ValueError(
                f"X has {table.width} axes of a grid, but the model has one input with a process: "
                "give X as rows."
            )
        columns = read_columns(table, self.layout, self.axes)
        x, ends = columns[self.layout.input]
        covariates = [columns[number].values for number in self.layout.linear]
        widths = None if width is None else read_widths(width, len(x), self.axis)
        return Points((x,), (), covariates, width=widths, ranges=(ends,))

    @property
    def effect_columns(self) -> tuple[int, ...]:
        """Columns of the linear effects beside that of the input."""
        return self.layout.linear

    def new_grids(
        self, settings: Settings, points: Points, y: Array, ends: Sequence[Ends], whole: bool
    ) -> tuple[list[Grid], list[int]]:
        """Return the grid of the input, and its splines' highest degree."""
        degrees, axis = self.degrees(settings), self.axis
        degree = max(degrees)
        functions = _num_basis(settings, degree)
        x, width, (domain,) = points.x, points.width, ends
        if functions is not None:
            grid = Grid(*domain, functions - degree)
        else:
            raised = self.raised(degrees)
            cells = finest_cells(x, *domain, whole, raised)
            if settings.family is not None and settings.family.one_read:
                cells = min(cells, SITES.finest_cells)
            grid = Grid(*domain, cells)
            if width is not None:
                grid = finest_uncut(x, width, grid, degree, axis, settings.domain is not None)
        if width is not None:
            check_uncut(x, width, grid, degree, axis)
        return [grid], [degree]

    def extended(self, settings: Settings, points: Points, stats: Statistics) -> Statistics:
        """Return statistics on a grid that holds further points, too."""
        (ends,) = self.ends(settings, points, first=False)
        if settings.domain is None:
            stats = _grown(stats, *ends, settings.automatic, self.axis)
        self._check_uncut(points, stats)
        return stats

    def check_inside(self, settings: Settings, points: Points, stats: Statistics) -> None:
        """Check that points, which must not extend the domain, lie inside it."""
        super().check_inside(settings, points, stats)
        self._check_uncut(points, stats)

    def _check_uncut(self, points: Points, stats: Statistics) -> None:
        if points.width is not None:
            check_uncut(points.x, points.width, stats.grid, stats.degree, self.axis)

    def never_added(self, points: Points, stats: Statistics) -> str | None:
        """Return why points cannot be among those added to statistics; None where they can."""
        if points.width is not None and len(rows := cut(points.x, points.width, stats.grid)):
            return f"knots cut {len(rows)} of {points.count} intervals, the first in row {rows[0]}"
        return super().never_added(points, stats)

    def schedule(self, settings: Settings, problem: Problem, stats: Statistics) -> LineSchedule:
        """Return the schedule of training on statistics."""
        return LineSchedule(problem, stats, settings.automatic)

    def pairs(self, settings: Settings) -> tuple:
        """Return the domain that the user gave, or None."""
        return (settings.domain,)

    def domain(self, stats: Statistics) -> tuple:
        """Return the interval of the splines."""
        return self.domains(stats)[0]

    def num_basis(self, posterior: ChainPosterior) -> int:
        """Return the number of basis functions of each component."""
        return posterior.stats.grid.cells + posterior.stats.degree

    # ------------------------------------------------------------ questions to the posterior

    def orders(self, posterior: ChainPosterior, order: Any) -> Any:
        """Return the order of a derivative, which the posterior checks."""
        return order or 0

    def places(self, points: Points, orders: Any = None) -> LinePoints:
        """Return points as the posterior takes them."""
        ends = points.ranges[0] if points.ranges else (-np.inf, np.inf)
        return LinePoints(points.x, points.covariates, points.width, ends)

    def size(self, posterior: ChainPosterior) -> int:
        """Return zero: covariances need no solution over all basis functions."""
        return 0

    def corners(self, a: Any, b: Any) -> tuple[LinePoints, LinePoints, bool]:
        """Return the ends of intervals as places, and True if there is only one interval."""
        axis, ends = self.axis, []
        for end in (a, b):
            values = axis.to_seconds(np.atleast_1d(end)) if axis else np.asarray(end, float)
            ends.append(LinePoints(np.atleast_1d(values)))
        return ends[0], ends[1], np.ndim(a) == 0 and np.ndim(b) == 0

    def effects(
        self, posterior: ChainPosterior, points: Points | None = None, order: Any = 0
    ) -> tuple[Array, Array, Array]:
        """Return coefficients (effects, outputs), their covariance, and the columns at points."""
        estimate = posterior.effects
        if estimate is None:
            return np.empty((0, 1)), np.empty((0, 0)), np.empty((0, 0))
        design = np.empty((0, 0))
        if points is not None:
            design = posterior.effect_values(
                points.x, points.covariates, power=order or 0, centred=False
            )
        return *estimate.given, design

    def paths(
        self, posterior: ChainPosterior, n_samples: int, random_state: Any, component: int | None
    ) -> Sequence[Any]:
        """Return sample paths, callable."""
        return draw_paths(posterior, n_samples, random_state, component)

    def facts(
        self, posterior: ChainPosterior, objective: str, stats: Statistics | None = None
    ) -> Facts:
        """Return what a summary asks."""
        return line_facts(posterior)


def _num_basis(settings: Settings, degree: int) -> int | None:
    """Return the number of basis functions that the user wants, None where it is automatic."""
    given = settings.num_basis
    if isinstance(given, tuple):
        if len(given) != 1:
            raise ValueError(
                f"num_basis has {len(given)} entries but there is one input: {given!r}."
            )
        (given,) = given
    if given is not None:
        check_size(given, degree)
    return given


def check_size(num_basis: int, degree: int) -> None:
    """Check that a number of basis functions is possible, and that they fit in memory."""
    if num_basis < degree + 1:
        raise ValueError(f"num_basis must be at least degree + 1 = {degree + 1}, got {num_basis}.")
    each = MEMORY.bytes_per_line_function
    needed, available = each * float(num_basis), physical_memory()
    if needed > available:
        raise ValueError(
            f"num_basis={num_basis} needs about {needed / 2**30:.1f} GiB, and this machine has "
            f"{available / 2**30:.1f} GiB. Take at most {int(available / each)}, or "
            "'auto'."
        )


def _grown(
    stats: Statistics, lower: float, upper: float, auto: bool, axis: TimeAxis | None = None
) -> Statistics:
    """Return the statistics on a grid that holds the new inputs, too.

    An automatic grid keeps within its largest number of cells, by wider ones.
    """
    grid = stats.grid

    def needed(width: float) -> float:
        return (max(upper, grid.upper) - min(lower, grid.lower)) / width

    times = needed(grid.upper - grid.lower)
    shown = "{:g}".format if axis is None else axis.shown
    far = (
        f"The new X reach from {shown(lower)} to {shown(upper)}, {times:.3g} times the domain so "
        f"far, {shown(grid.lower)} to {shown(grid.upper)}. Fix those X, or give a domain from the "
        "start."
    )
    if not auto:
        try:
            check_size(int(min(needed(grid.spacing), 1e15)) + stats.degree, stats.degree)
        except ValueError as error:
            raise ValueError(f"{far} On knots as close as they are, {error}") from None
        return stats.extend(lower, upper)
    held = min(2 * grid.cells, max(LINE.most_finest_cells_in_memory))
    wider, most = 1, max(LINE.most_finest_cells, held)
    while needed(wider * grid.spacing) > most and wider < grid.cells:
        wider *= 2
    if needed(wider * grid.spacing) > most:
        raise ValueError(far)
    if wider > 1:
        stats = stats.coarsen(wider)
    return stats.extend(lower, upper, multiple=halvings(stats.grid.cells))
