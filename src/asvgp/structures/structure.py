"""The protocol of a model as an estimator sees it, whatever the number of its inputs.

Two classes implement it: `asvgp.structures.line.Line` for one input, and
`asvgp.structures.field.Field` for several. What they share is written here: also the points
that both turn rows of X into, columns of numbers in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, Protocol

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Layout, Table, spread
from asvgp.data.inputs import check_domain, check_pair
from asvgp.data.settings import Settings
from asvgp.degrees import Latitudes, Longitudes
from asvgp.diagnostics.facts import Facts
from asvgp.kernels import Kernel, Linear, in_time
from asvgp.model.effects import near_means
from asvgp.model.memory import require_joint
from asvgp.policies import DATA, MEMORY, PILOT
from asvgp.posterior.posterior import AnyPosterior
from asvgp.posterior.samples import sample
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import COUNTED, Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.structures.earth import check_poles, grid_kind, longitude_ends
from asvgp.times import TimeAxis
from asvgp.training.fit import Fit, fit
from asvgp.training.problem import Problem, State


@dataclass(frozen=True, eq=False)
class Points:
    """Columns of the main block, of the smooths and of the effects."""

    main: Sequence[Array]  # of points on a grid, its axes
    smooths: Sequence[Array] = ()
    effects: Sequence[Array] = ()
    shape: tuple[int, ...] | None = None  # that of the grid
    width: Array | None = None  # of the intervals that y is averaged over
    ranges: Sequence[tuple[float, float]] = ()  # of every column of main and smooths

    @property
    def count(self) -> int:
        """Number of rows."""
        if self.shape is not None:
            return prod(self.shape)
        return len((*self.main, *self.smooths)[0])

    @property
    def x(self) -> Array:
        """The only input, of a model of one."""
        return self.main[0]

    @cached_property
    def covariates(self) -> Array | None:
        """Columns of the effects as one array, (n, columns); None where there are none."""
        if not self.effects:
            return None
        if len(self.effects) == 1:
            return self.effects[0][:, None]
        return np.stack(self.effects, axis=1)

    def add_to(
        self,
        sums: Accumulator,
        y: Array,
        weights: Array | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add observations at these points, however many, to sums."""
        y = y.reshape(self.count, -1)
        if self.shape is None:
            sums.add(
                self.main,
                y,
                weights,
                smooth_inputs=self.smooths,
                covariates=self.effects,
                width=self.width,
                progress=progress,
            )
            return
        weights = None if weights is None else np.asarray(weights).reshape(self.shape)
        sums.add_grid(y.T.reshape(-1, *self.shape), self.main, weights)
        if progress is not None:
            progress(self.count)

    def expanded(self) -> Points:
        """Return the same points with the coordinates of a grid written out."""
        if self.shape is None:
            return self
        return replace(self, main=spread(self.main), shape=None)

    def rows(self, which: Array) -> Points:
        """Return some of the points, which must not be those of a grid."""

        def part(columns: Sequence[Array]) -> list[Array]:
            return [column[which] for column in columns]

        width = None if self.width is None else self.width[which]
        main, smooths, effects = map(part, (self.main, self.smooths, self.effects))
        return Points(main, smooths, effects, None, width, self.ranges)

    def some(self, which: Array) -> Points:
        """Return some of the points, of a grid without writing out the others."""
        if self.shape is None:
            return self.rows(which)
        places = np.unravel_index(which, self.shape)
        main = [x[i] for x, i in zip(self.main, places, strict=True)]
        return replace(self, main=main, shape=None)

    def spread_out(self, most: int) -> Points:
        """Return so many of the points at most, from the first to the last, written out."""
        return self.some(np.linspace(0, self.count - 1, min(self.count, most)).astype(int))

    def with_points(self, other: Points) -> Points:
        """Return these points and those of another, neither of which are those of a grid."""

        def part(mine: Sequence[Array], theirs: Sequence[Array]) -> list[Array]:
            return [np.concatenate(pair) for pair in zip(mine, theirs, strict=True)]

        effects = part(self.effects, other.effects)
        return Points(part(self.main, other.main), part(self.smooths, other.smooths), effects)

    def sampled(self, y: Array) -> tuple[Sequence[Array], Array, Sequence[Array]]:
        """Return columns of the main block, y and effects; of a large grid at random points."""
        if self.shape is None:
            return self.main, y, self.effects
        rows = np.arange(min(self.count, PILOT.rows))
        if self.count > PILOT.rows:
            rows = np.random.default_rng(0).integers(self.count, size=PILOT.rows)
        return self.some(rows).main, y[rows], []


Ends = tuple[float, float]
# The variance of every observation is one for all, or given; sums may also be of a likelihood that
# is not Gaussian.
Noise = Literal["same", "known", "ratios", "measures"]


class Structure(Protocol[AnyPosterior]):
    """A kernel over columns of X, and what can be done with it."""

    layout: Layout
    axes: tuple[TimeAxis | None, ...]  # of ``layout.used``; None where a column holds numbers

    def __init__(self, layout: Layout, axes: tuple[TimeAxis | None, ...]):
        self.layout, self.axes = layout, axes

    @property
    def axis(self) -> TimeAxis | None:
        """The time axis of a model of one input; None where there are several."""
        return self.axes[0] if len(self.axes) == 1 else None

    @property
    def columns(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Columns of X that are used: those of processes, and those of linear effects."""
        return self.layout.used, self.layout.linear

    @property
    def timed(self) -> dict[int, TimeAxis]:
        """Time axes by their column."""
        pairs = zip(self.layout.used, self.axes, strict=True)
        return {column: axis for column, axis in pairs if axis is not None}

    def timed_effects(self) -> set[int]:
        """Return the numbers of the linear effects of times, whose slopes are per second."""
        only = self.layout.intervals  # the input of an effect that names no column
        effects = enumerate(self.layout.kernel.effects)
        return {
            number
            for number, effect in effects
            if isinstance(effect, Linear)
            and (only if effect.dim is None else effect.dim) in self.timed
        }

    def labelled(self, kernel: Kernel) -> Kernel:
        """Return a kernel as the user would write it: columns by name, scales as durations."""
        if None not in self.axes:
            kernel = in_time(kernel)
        elif self.timed:
            kernel = in_time(kernel, list(self.timed))
        return self.layout.relabelled(kernel)

    def convention(self, noise: Noise) -> str:
        """Return what the weights and the times of statistics mean, for those that add them."""
        weights = {
            "same": COUNTED,
            "known": "known noise variances",
            "ratios": "relative weights",
            "measures": "measures of a likelihood",
        }
        origins = [
            f"time since {axis.origin} ({axis.tz})" for axis in self.axes if axis is not None
        ]
        return ", ".join([weights[noise], *origins])

    # ------------------------------------------------------------ reading and adding data

    def read(self, table: Table, width: Any = None) -> Points:
        """Return the rows of X as points, of the kind that the model was fitted to."""
        ...

    @property
    def effect_columns(self) -> tuple[int | None, ...]:
        """Columns of X that ``Points.effects`` are, in their order; None for a column of ones."""
        ...

    def columns_at(self, points: Points) -> dict[int, Array]:
        """Return the columns of X that points were read from; of intervals, their middles."""
        points = points.expanded()
        columns = dict(zip(self.layout.used, (*points.main, *points.smooths), strict=True))
        if points.width is not None:
            columns[self.layout.input] = points.x + 0.5 * points.width
        for column, values in zip(self.effect_columns, points.effects, strict=True):
            if column is not None:
                columns.setdefault(column, values)
        return columns

    def points_at(self, columns: Mapping[int, Array]) -> Points:
        """Return the points with these columns of X, as numbers."""
        used = [columns[column] for column in self.layout.used]
        effects = [
            np.ones(len(used[0])) if column is None else np.asarray(columns[column], dtype=float)
            for column in self.effect_columns
        ]
        main = len(self.layout.inputs)
        return Points(used[:main], used[main:], effects)

    def empty(
        self,
        settings: Settings,
        points: Points,
        y: Array,
        noise: Noise = "same",
        extent: Points | None = None,
        whole: bool = True,
        centre: Array | None = None,
    ) -> Statistics:
        """Return statistics of no data on grids that hold the points.

        Where the points are not the ``whole`` of the data, the grids hold those of ``extent``
        instead: the outermost of all. The ``centre`` is about the mean of what will be summed,
        where that is not y.
        """
        known = points if extent is None else extent
        self.settle(settings, known, extent is None)
        ends = self.ends(settings, known)
        grids, degrees = self.new_grids(settings, points, y, ends, whole)
        main, centres = len(self.layout.inputs), {}
        if self.layout.kernel.intercept is not None:
            beside = near_means(points.effects)
            beside[[column is None for column in self.effect_columns]] = 0.0
            if centre is None:
                centre = near_means(list(y.reshape(len(y), -1).T))
            centres = {"centre": centre, "column_centre": beside}
        return Statistics.empty(
            grids[:main],
            degrees[:main],
            1 if y.ndim == 1 else y.shape[1],
            smooths=tuple(zip(grids[main:], degrees[main:], strict=True)),
            linear=len(points.effects),
            convention=self.convention(noise),
            **centres,
        )

    def settle(self, settings: Settings, points: Points, every: bool) -> None:
        """Settle what depends on where the data lie, before there are grids.

        The points are ``every`` one, or the outermost of all.
        """

    def new_grids(
        self, settings: Settings, points: Points, y: Array, ends: Sequence[Ends], whole: bool
    ) -> tuple[list[Grid], list[int]]:
        """Return the grid and the highest degree of every column of ``layout.used``."""
        ...

    def extended(self, settings: Settings, points: Points, stats: Statistics) -> Statistics:
        """Return statistics on grids that hold further points, too."""
        ...

    def covers(self, points: Points, stats: Statistics) -> bool:
        """Return True if all points lie inside the statistics' domain."""
        pairs = zip(points.ranges, self.grids(stats), strict=True)
        return all(bool(grid.holds(ends).all()) for ends, grid in pairs)

    def check_inside(self, settings: Settings, points: Points, stats: Statistics) -> None:
        """Check that points, which must not extend the domain, lie inside it."""
        self.ends(settings, points, first=False)
        if not self.covers(points, stats):
            raise ValueError(
                f"Inputs lie outside the range {self.domain(stats)} that the source was found to "
                "have: it has changed, or its statistics are wrong. Give the domain."
            )

    def never_added(self, points: Points, stats: Statistics) -> str | None:
        """Return why points cannot be among those added to statistics; None where they can."""
        if self.covers(points, stats):
            return None
        return f"some of X lies outside the domain {self.domain(stats)}"

    def schedule(self, settings: Settings, problem: Problem, stats: Statistics) -> Any:
        """Return the schedule of training on statistics."""
        ...

    def fit(
        self, settings: Settings, problem: Problem, stats: Statistics, warm: State | None
    ) -> Fit[AnyPosterior]:
        """Train on statistics."""
        schedule = self.schedule(settings, problem, stats)
        return fit(schedule, trained=settings.trained, warm=warm)

    def degrees(self, settings: Settings, stats: Statistics | None = None) -> tuple[int, ...]:
        """Return the spline degree of every factor of every component.

        Defaults are no higher than the degree of the ``stats``, which may be those of an older
        version.
        """
        kernel = self.layout.kernel
        degrees = settings.degrees(kernel)
        if stats is None or settings.degree is not None:
            return degrees
        summed = [*stats.degrees, *(degree for _, degree in stats.smooths)]
        most = {None: summed[0], **dict(zip(self.layout.used, summed, strict=True))}
        factors = (factor for part in kernel.components for factor in part.along)
        return tuple(
            max(min(degree, most[factor.dim]), factor.least_degree)
            for degree, factor in zip(degrees, factors, strict=True)
        )

    def raised(self, degrees: Sequence[int]) -> bool:
        """Return True if all of the degrees of the factors are above the smallest."""
        factors = (factor for part in self.layout.kernel.components for factor in part.along)
        return all(k > factor.least_degree for k, factor in zip(degrees, factors, strict=True))

    # ------------------------------------------------------------ domains and grids

    def grids(self, stats: Statistics) -> Sequence[Grid]:
        """Return the grid of every column of ``layout.used``."""
        return [*stats.grids, *(grid for grid, _ in stats.smooths)]

    def pairs(self, settings: Settings) -> Sequence[Any]:
        """Return the domain that the user gave for every column of ``layout.over``, or None."""
        given, over = settings.domain, self.layout.over
        if given is None:
            return [None] * len(over)
        if len(given) != len(over):
            raise ValueError(
                f"domain must be None or one pair (a, b) for each of {len(over)} inputs, in the "
                f"order of their columns; got {given!r}."
            )
        return given

    def domain(self, stats: Statistics) -> tuple:
        """Return the interval of the splines; with several inputs one per input."""
        return tuple(self.domains(stats))

    def domains(self, stats: Statistics) -> list[tuple]:
        """Return the interval of every column of ``layout.over``, as numbers or times."""
        grids, found = self.grids(stats), []
        for place in map(self.layout.used.index, self.layout.over):
            ends, axis = (grids[place].lower, grids[place].upper), self.axes[place]
            found.append(ends if axis is None else axis.span(*ends))
        return found

    def ends(self, settings: Settings, points: Points, first: bool = True) -> list[Ends]:
        """Return the interval of every column of ``layout.used``: the user's, or the data's.

        Points must lie in the user's. Those that are not the ``first`` need no range.
        """
        pairs, over, found = self.pairs(settings), self.layout.over, []
        periods = self.layout.periods
        for place, column in enumerate(self.layout.used):
            pair, axis = pairs[over.index(column)], self.axes[place]
            lower, upper = points.ranges[place]
            width = 0.0
            if points.width is not None:
                width = points.width
                upper = float((points.x + width).max())
            x, kind = (*points.main, *points.smooths)[place], grid_kind(self.layout, column)
            if kind is Longitudes and upper > lower:
                name = self.name(place)
                found.append(longitude_ends(self.layout, place, x, (lower, upper), pair, name))
                continue
            if kind is Latitudes:
                check_poles(x, (lower, upper) if pair is None else pair, self.name(place))
            if (period := periods[place]) is not None:
                found.append(self._circle(place, pair, period))
                continue
            usual = 0.0 < upper - lower < DATA.widest_range
            if pair is None and (usual or not first):
                found.append((lower, upper))
                continue
            if pair is not None and axis is not None:
                pair = axis.to_seconds(list(pair), name="domain")
            example = "(a, b)"
            if len(over) > 1:
                example = f"({', '.join('(a, b)' if c == column else 'None' for c in over)})"
            name = self.name(place)
            found.append(check_domain(pair, x, lower, upper, width, axis, name, example))
        return found

    def _circle(self, place: int, pair: Any, period: float) -> Ends:
        """Return one period from zero on, or from the beginning of the user's domain."""
        if pair is None:
            return 0.0, period
        axis = self.axes[place]
        ends = pair if axis is None else axis.to_seconds(list(pair), name="domain")
        lower, upper = check_pair(ends, axis, self.name(place))
        if abs(upper - lower - period) > 1e-9 * period:
            raise ValueError(
                f"{self.name(place)}: the domain of a periodic kernel is one period, "
                f"{period:g}{' seconds' * (axis is not None)}, and domain={pair!r} is "
                f"{upper - lower:g} long. Any X is inside it, modulo the period; None in its place "
                "does as well."
            )
        return lower, lower + period

    def name(self, place: int) -> str:
        """Return what messages call the column of an input."""
        column, names = self.layout.used[place], self.layout.names
        if names is None and len(self.axes) == 1:
            return "X"
        return f"column {repr(names[column]) if names else column} of X"

    def num_basis(self, posterior: AnyPosterior) -> int | tuple[int, ...]:
        """Return the number of basis functions; with several inputs one per input."""
        ...

    # ------------------------------------------------------------ questions to the posterior

    def orders(self, posterior: AnyPosterior, order: Any) -> Any:
        """Return the order of a derivative as the posterior takes it, checked to exist."""
        ...

    def places(self, points: Points, orders: Any = None) -> Any:
        """Return points as the posterior takes them."""
        ...

    def size(self, posterior: AnyPosterior) -> int:
        """Return the number of rows of a solution beside which a covariance is computed."""
        ...

    def predict(
        self,
        posterior: AnyPosterior,
        points: Points,
        variance: bool = True,
        component: int | None = None,
        order: Any = 0,
    ) -> tuple[Array, Array]:
        """Return the mean (outputs, n) and the variance (n,) of f, or of a derivative."""
        orders = self.orders(posterior, order)
        return posterior.predict(self.places(points, orders), variance, component, orders)

    def covariance(
        self, posterior: AnyPosterior, points: Points, order: Any = 0, limit: float | None = None
    ) -> Array:
        """Return the posterior covariance matrix, where it fits in ``limit`` bytes."""
        orders, outputs = self.orders(posterior, order), len(posterior.stats.squares)
        matrices = 1.0 if outputs == 1 else 1.0 + outputs  # it is repeated for each output
        require_joint("The covariance", points.count, self.size(posterior), limit, matrices)
        return posterior.covariance(self.places(points, orders), orders)

    def sample(
        self,
        posterior: AnyPosterior,
        points: Points,
        n_samples: int,
        random_state: Any,
        limit: float | None = None,
    ) -> Array:
        """Return joint draws, (outputs, n, samples), where they fit in ``limit`` bytes."""
        size = self.size(posterior)
        require_joint("A joint sample", points.count, size, limit, MEMORY.sample_matrices)
        return sample(posterior, self.places(points), n_samples, random_state)

    def corners(self, a: Any, b: Any) -> tuple[Any, Any, bool]:
        """Return opposite corners of boxes as places, and True if there is only one box."""
        ...

    def effects(
        self, posterior: AnyPosterior, points: Points | None = None, order: Any = 0
    ) -> tuple[Array, Array, Array]:
        """Return coefficients (effects, outputs), their covariance, and the columns at points."""
        ...

    def paths(
        self, posterior: AnyPosterior, n_samples: int, random_state: Any, component: int | None
    ) -> Sequence[Any]:
        """Return sample paths, callable."""
        ...

    def facts(
        self, posterior: AnyPosterior, objective: str, stats: Statistics | None = None
    ) -> Facts:
        """Return what a summary asks; ``stats`` are those on the finest grids."""
        ...
