"""Models of one input: reading it, its statistics, and what the posterior is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Layout
from asvgp.data.inputs import read_inputs, read_widths
from asvgp.data.validation import check_degree, check_domain, check_num_basis
from asvgp.diagnostics.facts import Facts, line_facts
from asvgp.kernels import Kernel, in_time
from asvgp.model.effects import near_means
from asvgp.model.memory import copies, require_joint
from asvgp.policies import LINE, halvings
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.chain_paths import draw_paths
from asvgp.posterior.leave_one_out import LeaveOneOut, leave_one_out
from asvgp.posterior.points import LinePoints
from asvgp.posterior.samples import sample
from asvgp.runtime.checks import finite_range
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.statistics.intervals import check_uncut, cut, finest_uncut
from asvgp.times import TimeAxis
from asvgp.training.finest import finest_cells
from asvgp.training.fit import Fit, fit
from asvgp.training.problem import Problem
from asvgp.training.schedule_line import LineSchedule


class LineSums(NamedTuple):
    """Sums over blocks of points."""

    sums: Accumulator

    def add(self, points: LinePoints, y, weights, progress=None) -> None:
        """One block."""
        columns = [] if points.covariates is None else list(points.covariates.T)
        self.sums.add(
            [points.x],
            np.asarray(y),
            weights,
            covariates=columns,
            width=points.width,
            progress=progress,
        )

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far."""
        return self.sums.squares

    def statistics(self) -> Statistics:
        """Of all blocks."""
        return self.sums.statistics()


class Line:
    """A model whose processes are all over one input.

    Parameters
    ----------
    layout : Layout
    axis : TimeAxis, optional
        Where the input is time.
    """

    def __init__(self, layout: Layout, axis: TimeAxis | None):
        self.layout, self.axis = layout, axis

    @property
    def key(self):
        """What two models must share for their statistics to add."""
        return self.axis, self.layout.inputs, self.layout.linear

    @property
    def columns(self):
        """Columns of X that are used."""
        return self.layout.inputs, self.layout.linear

    def with_layout(self, layout: Layout) -> Line:
        """The same inputs under another kernel."""
        return Line(layout, self.axis)

    def timed(self, kernel: Kernel) -> tuple:
        """Columns that are times, as a kernel names them."""
        return () if self.axis is None else (kernel.components[0].factors[0].dim,)

    def read(self, estimator, X, reset: bool = False, width=None) -> LinePoints:
        """New inputs, of the kind seen."""
        x, covariates = read_inputs(estimator, X, self.layout, self.axis, reset)
        names = self.layout.names
        ends = finite_range(x, f"column {names[self.layout.input]!r} of X" if names else "X")
        return LinePoints(x, covariates, read_widths(width, len(x), self.axis), ends)

    def prepare(
        self,
        estimator,
        points: LinePoints,
        y: Array,
        stats: Statistics | None,
        known_noise: bool = False,
        extent: LinePoints | None = None,
        whole: bool = True,
    ) -> Statistics:
        """Statistics on a grid that holds the points: empty ones, or those given, grown.

        Where the points are not the ``whole`` of the data, the grid holds those of ``extent``
        instead: the outermost of all.
        """
        x, _, width, _ = points
        degree = max(check_degree(estimator.degree, self.layout.kernel))
        num_basis = check_num_basis(estimator.num_basis, degree)
        reach = points if extent is None else extent
        ends, domain = reach.ends, estimator.domain
        if reach.width is not None:
            ends = ends[0], float((reach.x + reach.width).max())
        if domain is not None and self.axis is not None:
            domain = self.axis.to_seconds(list(domain), name="domain")
        if stats is None or domain is not None:
            widths = 0.0 if reach.width is None else reach.width
            ends = check_domain(domain, reach.x, *ends, widths, self.axis)
        if stats is None:
            cells = finest_cells(x, *ends, whole) if num_basis is None else num_basis - degree
            grid = Grid(*ends, cells)
            if width is not None and num_basis is None:
                grid = finest_uncut(x, width, grid, degree, self.axis, domain is not None)
            outputs = 1 if y.ndim == 1 else y.shape[1]
            centre, column_centre = self._centres(y, points.covariates)
            stats = Statistics.empty(
                grid,
                degree,
                outputs,
                linear=len(self.layout.linear),
                centre=centre,
                column_centre=column_centre,
                convention=self.convention(known_noise),
            )
        elif domain is None:
            stats = _grown(stats, *ends, num_basis is None, self.axis)
        if width is not None:
            check_uncut(x, width, stats.grid, degree, self.axis)
        return stats

    def _centres(self, y: Array, covariates: Array | None):
        """Numbers near the means of y and the covariates, where there is an intercept."""
        if self.layout.kernel.intercept is None:
            return None, None
        beside = None if covariates is None else near_means(list(covariates.T))
        return near_means(list(y.reshape(len(y), -1).T)), beside

    def convention(self, known_noise: bool) -> str:
        """Return the meaning of the weights and the origin of times, in words."""
        weights = "known noise variances" if known_noise else "relative weights"
        if self.axis is None:
            return weights
        return f"{weights}, time since {self.axis.origin} ({self.axis.tz})"

    def covers(self, stats: Statistics, points: LinePoints) -> bool:
        """Whether all points are inside the statistics' domain; an error if one is cut."""
        lower, upper = points.ends
        if points.width is not None and len(rows := cut(points.x, points.width, stats.grid)):
            raise ValueError(
                "These data cannot be forgotten, because they were never added: knots cut "
                f"{len(rows)} of {points.count} intervals, the first in row {rows[0]}."
            )
        return stats.grid.lower <= lower and upper <= stats.grid.upper

    def accumulate(self, points: LinePoints, y, stats: Statistics, weights, progress=None):
        """Statistics of new data, on the grid of ``stats``."""
        x, covariates, width, _ = points
        return Statistics.from_data(
            x,
            y,
            stats.grid,
            stats.degree,
            weights,
            covariates=covariates,
            width=width,
            progress=progress,
            like=stats,
        )

    def accumulator(self, stats: Statistics) -> LineSums:
        """What adds up data that come in blocks, on the grid of ``stats``."""
        return LineSums(Accumulator(stats))

    def fit(self, estimator, problem: Problem, stats: Statistics, warm) -> Fit:
        """Train on statistics."""
        auto = check_num_basis(estimator.num_basis, stats.degree) is None
        schedule = LineSchedule(problem, stats, auto)
        return fit(schedule, trained=estimator.optimizer is not None, warm=warm)

    def degrees(self, estimator) -> tuple[int, ...]:
        """Spline degree of every component."""
        return check_degree(estimator.degree, self.layout.kernel)

    # ------------------------------------------------------------ what can be asked

    def predict(self, posterior: ChainPosterior, points: LinePoints, variance, component, order):
        """Mean (outputs, n) and variance (n,)."""
        return posterior.predict(points, variance, component, order)

    def covariance(
        self, posterior: ChainPosterior, points: LinePoints, order, limit: float | None = None
    ) -> Array:
        """ChainPosterior covariance matrix, where it fits in ``limit`` bytes."""
        outputs = len(posterior.stats.squares)
        require_joint("The covariance", len(points.x), 0, limit, copies(outputs))
        return posterior.covariance(points, order)

    def effects(self, posterior: ChainPosterior, points: LinePoints | None, order):
        """Coefficients (effects, outputs), their covariance, and the columns at points."""
        found = posterior.effects
        if found is None:
            return np.empty((0, 1)), np.empty((0, 0)), np.empty((0, 0))
        design = np.empty((0, 0))
        if points is not None:
            design = posterior.effect_values(
                points.x, points.covariates, power=order or 0, centred=False
            )
        return *found.given, design

    def sample(
        self,
        posterior: ChainPosterior,
        points: LinePoints,
        n_samples: int,
        random_state,
        limit: float | None = None,
    ):
        """Joint draws, (outputs, n, samples); their covariance is small, whatever the limit."""
        return sample(posterior, points, n_samples, random_state)

    def corners(self, a, b) -> tuple[LinePoints, LinePoints, bool]:
        """Return the ends of intervals as numbers, and whether there is only one interval."""
        axis, ends = self.axis, []
        for end in (a, b):
            values = axis.to_seconds(np.atleast_1d(end)) if axis else np.asarray(end, float)
            ends.append(LinePoints(np.atleast_1d(values)))
        return ends[0], ends[1], np.ndim(a) == 0 and np.ndim(b) == 0

    def paths(self, posterior: ChainPosterior, n_samples: int, random_state, component):
        """Sample paths, callable."""
        return draw_paths(posterior, n_samples, random_state, component)

    def leave_one_out(
        self, posterior: ChainPosterior, points: LinePoints, y, weights
    ) -> LeaveOneOut:
        """Predictions of the training data, each without itself."""
        return leave_one_out(posterior, points, y, weights)

    def facts(self, posterior: ChainPosterior, objective: str, stats=None) -> Facts:
        """What a summary asks."""
        return line_facts(posterior)

    def labelled(self, kernel: Kernel) -> Kernel:
        """A kernel as the user would write it."""
        kernel = self.layout.relabelled(kernel)
        return kernel if self.axis is None else in_time(kernel)

    def num_basis(self, posterior: ChainPosterior) -> int:
        """Number of basis functions, of each component."""
        return posterior.stats.grid.cells + posterior.stats.degree

    def domain(self, stats: Statistics) -> tuple:
        """The interval of the splines."""
        ends = (stats.grid.lower, stats.grid.upper)
        return ends if self.axis is None else self.axis.span(*ends)


def _grown(
    stats: Statistics, lower: float, upper: float, auto: bool, axis: TimeAxis | None = None
) -> Statistics:
    """The statistics on a grid that holds the new inputs too.

    An automatic grid keeps within its largest number of cells, by wider ones.
    """
    grid = stats.grid

    def needed(width: float) -> float:
        return (max(upper, grid.upper) - min(lower, grid.lower)) / width

    times = needed(grid.upper - grid.lower)
    shown = "{:g}".format if axis is None else axis.shown
    far = (
        f"The new X reach from {shown(lower)} to {shown(upper)}, {times:.3g} times the domain so "
        f"far, {shown(grid.lower)} to {shown(grid.upper)}. Mend those X, or give a domain from the "
        "start."
    )
    if not auto:
        try:
            check_num_basis(int(min(needed(grid.spacing), 1e15)) + stats.degree, stats.degree)
        except ValueError as error:
            raise ValueError(f"{far} On knots as close as they are, {error}") from None
        return stats.extend(lower, upper)
    wider, most = (
        1,
        max(LINE.most_finest_cells, min(2 * grid.cells, LINE.most_finest_cells_in_memory)),
    )
    while needed(wider * grid.spacing) > most and wider < grid.cells:
        wider *= 2
    if needed(wider * grid.spacing) > most:
        raise ValueError(far)
    if wider > 1:
        stats = stats.coarsen(wider)
    return stats.extend(lower, upper, multiple=halvings(stats.grid.cells))
