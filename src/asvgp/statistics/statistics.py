"""Sufficient statistics: everything that a model needs to know about the data.

The D inputs of the *main block*, up to four of them, have a grid each. On every cell of their
product, the statistics are moments of the local coordinates s_d in [0, 1]. A product of splines
up to the given degrees is a polynomial on each cell, so the moments determine every inner
product of splines with the data. They do not depend on the kernel, and they add. All powers are
non-negative, so merging and coarsening lose no digits.

Beside the main block stand global *columns*, which are nonzero on all cells: the splines of
further inputs (*smooths*), each on a grid of its own, and columns of given values, such as
covariates with linear effects. Without a main block (D = 0) the columns alone are the additive
model; the shapes below then have no axes for cells and powers.

With one input, an observation may also be the average of f over part of a cell. The means
``m_j`` of ``s**j`` over that part take the place of the powers, and ``sum w m_i m_j`` is no
longer a function of i + j: as soon as there are averages among the data, the moments are these
sums for all i <= j <= k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, nan, prod
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid, pair_columns
from asvgp.linalg.chain.square_root import RANK_TOLERANCE, data_roots
from asvgp.runtime.lazy import cached_property
from asvgp.statistics.accumulator import Accumulator
from asvgp.statistics.combining import SUMS, combined, difference, packed, recentred, unpacked
from asvgp.statistics.ending import Ending
from asvgp.statistics.nesting import coarsened, coarsened_columns, common_factors, each, extended
from asvgp.statistics.pass_many import columns_of

COUNTED = "weights that count observations"  # the first words of a convention
Smooth = tuple[Grid, int]  # grid and degree: a column for every spline
_no_numbers = partial(np.empty, 0)


def shapes_of_sums(
    grids: Sequence[Grid], degrees: Sequence[int], columns: int, outputs: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all `SUMS`, where there are no averages among the data."""
    cells, powers = tuple(grid.cells for grid in grids), tuple(k + 1 for k in degrees)
    return {
        "moments": (*cells, *(2 * k + 1 for k in degrees)),
        "targets": (outputs, *cells, *powers),
        "cross": (*cells, *powers, columns),
        "column_gram": (columns, columns),
        "column_targets": (outputs, columns),
        "squares": (outputs,),
    }


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over the data, for any number of inputs.

    Attributes
    ----------
    grids, degrees : tuple of Grid and of int
        One for each of the D inputs of the main block; splines up to these degrees can be fitted.
    smooths : tuple of (Grid, int)
        Grids and degrees of the columns that are splines of one further input each.
    linear : int
        Number of columns with given values. The C columns are those of the smooths,
        ``grid.splines(degree)`` each, followed by these.
    moments : ndarray of shape (cells_1, ..., cells_D, 2 k_1 + 1, ..., 2 k_D + 1)
        Sums of ``w prod_d s_d**j_d``. With averages among the data,
        (cells, (k + 1) * (k + 2) / 2).
    targets : ndarray of shape (outputs, cells_1, ..., cells_D, k_1 + 1, ..., k_D + 1)
        Sums of ``w y prod_d s_d**j_d``.
    cross : ndarray of shape (cells_1, ..., cells_D, k_1 + 1, ..., k_D + 1, C)
        Sums of ``w c prod_d s_d**j_d`` for every column c.
    column_gram, column_targets : ndarray of shape (C, C) and (outputs, C)
        Weighted sums of the products of two columns, and of y with the columns.
    squares : ndarray of shape (outputs,)
        Weighted sums of y squared. NaN where y came multiplied by its weights.
    count, missing : int
        Number of observations, and of rows left out because an output was NaN.
    log_weights : float
        Sum of the logarithms of the weights. NaN where a weight is zero or negative: sums with
        such weights are right, but no density of Gaussian noise belongs to them.
    centre, column_centre : ndarray of shape (outputs,) and (linear,)
        Numbers subtracted from y and from the columns of given values before they were summed:
        where a large mean is estimated anyway, its digits need not be carried along. Statistics
        with different centres can still be added.
    convention : str
        The meaning of the weights and the origin of times, in words. Statistics with different
        conventions do not add. Where it begins with `COUNTED`, a weight says how often an
        observation is there; else it is an inverse relative noise variance.
    widths, width_weights : ndarray of shape (widths,)
        With averages among the data, the distinct widths of their intervals (zero for
        observations of f itself), and the sum of the weights for each width. Otherwise empty.
    ending : Ending
        With one input, the last of the data and their typical spacing, for forecasts.
    log_jacobian : ndarray of shape (outputs,)
        Where y was transformed before it was summed, the sum of the logarithms of the
        derivatives, by which densities of what was summed become those of y. Else zeros.
    constants : ndarray of shape (constants,)
        Of a likelihood that is not Gaussian, further sums over y that its densities need, and at
        last the number of rows, each as often as its weight says.
    lowest : float
        The smallest y, if none is below zero, else one that is. Data that are subtracted leave it.
        Minus infinity where it is not known, as for y that were transformed.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> x, y = np.linspace(0, 1, 100), np.ones(100)
    >>> grid = Grid(0.0, 1.0, cells=8)
    >>> whole = Statistics.from_data(x, y, grid, degree=2)
    >>> parts = [Statistics.from_data(x[i::2], y[i::2], grid, degree=2) for i in (0, 1)]
    >>> bool(np.allclose((parts[0] + parts[1]).moments, whole.moments))
    True
    >>> whole.coarsen().grid.cells
    4

    Two inputs:

    >>> x = np.random.default_rng(0).uniform(0, 1, (100, 2))
    >>> grids = Grid(0.0, 1.0, cells=8), Grid(0.0, 1.0, cells=6)
    >>> field = Statistics.from_data(x, y, grids, degree=(2, 1))
    >>> field.moments.shape, field.targets.shape
    ((8, 6, 5, 3), (1, 8, 6, 3, 2))
    >>> [grid.cells for grid in field.coarsen((4, 2)).grids]
    [2, 3]

    An additive model of two inputs:

    >>> smooths = (grids[0], 2), (grids[1], 3)
    >>> Statistics.from_data(None, y, smooths=smooths, smooth_inputs=x).column_gram.shape
    (19, 19)
    """

    grids: tuple[Grid, ...]
    degrees: tuple[int, ...]
    smooths: tuple[Smooth, ...]
    linear: int
    moments: Array
    targets: Array
    cross: Array
    column_gram: Array
    column_targets: Array
    squares: Array
    count: int
    missing: int = 0
    log_weights: float = 0.0
    centre: Array = field(default_factory=_no_numbers)
    column_centre: Array = field(default_factory=_no_numbers)
    convention: str = ""
    widths: Array = field(default_factory=_no_numbers)
    width_weights: Array = field(default_factory=_no_numbers)
    ending: Ending = Ending()  # noqa: RUF009 (it is immutable)
    log_jacobian: Array = field(default_factory=_no_numbers)
    constants: Array = field(default_factory=_no_numbers)
    lowest: float = -inf

    def __post_init__(self) -> None:
        for name in ("centre", "log_jacobian"):
            if len(getattr(self, name)) != len(self.squares):
                object.__setattr__(self, name, np.zeros(len(self.squares)))
        if not 0 <= self.linear <= len(self.column_gram):  # before there is room for so many
            raise ValueError(f"linear is {self.linear}, of {len(self.column_gram)} columns")
        if len(self.column_centre) != self.linear:
            object.__setattr__(self, "column_centre", np.zeros(self.linear))

    # ------------------------------------------------------------ from data

    @classmethod
    def from_data(
        cls,
        x: Any,
        y: Any,
        grid: Grid | Sequence[Grid] = (),
        degree: int | Sequence[int] = (),
        sample_weight: Any = None,
        *,
        smooths: Sequence[Smooth] = (),
        smooth_inputs: Any = None,
        covariates: Any = None,
        width: Any = None,
        progress: Callable[[int], None] | None = None,
        like: Statistics | None = None,
        premultiplied: bool = False,
    ) -> Statistics:
        """Compute the statistics in one pass over the data, in any order, on all cores.

        Rows in which an output is NaN are left out and counted. Other values must be finite,
        inputs inside their grids, and intervals inside one cell each; they are not checked.

        Parameters
        ----------
        x : array of shape (n,) or (n, D), tuple of D arrays of length n, or None where D = 0
            Read column by column and batch by batch, whatever its layout; never copied.
        y : array of shape (n,) or (n, outputs)
        grid, degree : Grid and int, or sequences of one for each input
        sample_weight : array of shape (n,), optional
            Weights may be zero or negative; `log_weights` is then NaN.
        smooths : sequence of (Grid, int)
        smooth_inputs : like x, one column for each of the smooths
        covariates : like x, optional
            Columns of given values.
        width : array of shape (n,), optional
            With one input, y is the average of f over ``[x, x + width]``.
        progress : callable, optional
            Called with the number of rows since the last call.
        like : Statistics, optional
            Statistics whose centres and convention to use.
        premultiplied : bool
            Whether y is multiplied by its weights already, as the sites of an approximate
            likelihood are: ``targets`` are then sums without w, and ``squares`` NaN.
        """
        y = np.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        n, outputs = y.shape
        linear = columns_of("covariates", covariates, n)
        empty = cls.empty(grid, degree, outputs, smooths=smooths, linear=len(linear))
        if min(empty.degrees, default=1) < 1:
            raise ValueError(f"Degrees must be at least one, got {empty.degrees}.")
        if like is not None:
            names = "centre", "column_centre", "convention"
            empty = replace(empty, **{name: getattr(like, name) for name in names})
        if sample_weight is not None:
            (sample_weight,) = columns_of("sample_weight", sample_weight, n, 1)
        if width is not None:
            (width,) = columns_of("width", width, n, 1)
        sums = Accumulator(empty, premultiplied)
        sums.add(
            columns_of("x", x, n, len(empty.grids)),
            y,
            sample_weight,
            smooth_inputs=columns_of("smooth_inputs", smooth_inputs, n, len(smooths)),
            covariates=linear,
            width=width,
            progress=progress,
        )
        return sums.statistics()

    @classmethod
    def from_grid(
        cls,
        values: Any,
        axes: Sequence,
        grid: Grid | Sequence[Grid],
        degree: int | Sequence[int],
        sample_weight: Any = None,
    ) -> Statistics:
        """Compute the statistics of gridded data, without columns.

        Values have the shape (n_1, ..., n_D) or (outputs, n_1, ..., n_D), weights the former; axes
        are D arrays of coordinates. Points where an output is NaN are left out and counted.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp.basis import Grid
        >>> axes = np.linspace(0.0, 1.0, 30), np.linspace(0.0, 2.0, 20)
        >>> grids = Grid(0.0, 1.0, 5), Grid(0.0, 2.0, 4)
        >>> Statistics.from_grid(np.ones((30, 20)), axes, grids, (2, 2)).count
        600
        """
        values = np.asarray(values)
        outputs = len(values) if values.ndim > len(axes) else 1
        sums = Accumulator(cls.empty(grid, degree, outputs))
        sums.add_grid(values, axes, sample_weight)
        return sums.statistics()

    @classmethod
    def empty(
        cls,
        grid: Grid | Sequence[Grid],
        degree: int | Sequence[int],
        outputs: int = 1,
        *,
        smooths: Sequence[Smooth] = (),
        linear: int = 0,
        centre: Array | None = None,
        column_centre: Array | None = None,
        convention: str = "",
    ) -> Statistics:
        """Return the statistics of no data."""
        grids = (grid,) if isinstance(grid, Grid) else tuple(grid)
        degrees = (int(degree),) if isinstance(degree, int | np.integer) else tuple(degree)
        if len(grids) != len(degrees):
            raise ValueError(f"{len(grids)} grids but {len(degrees)} degrees: give one each.")
        columns = sum(grid.splines(degree) for grid, degree in smooths) + linear
        shapes = shapes_of_sums(grids, degrees, columns, outputs)
        sums: dict[str, Any] = {name: np.zeros(shape) for name, shape in shapes.items()}
        return cls(
            grids,
            degrees,
            tuple(smooths),
            linear,
            **sums,
            count=0,
            missing=0,
            log_weights=0.0,
            centre=np.zeros(outputs) if centre is None else centre,
            column_centre=np.zeros(linear) if column_centre is None else column_centre,
            convention=convention,
        )

    def emptied(self) -> Statistics:
        """Return statistics of no data with the same grids, columns, centres and convention."""
        names = "smooths", "linear", "centre", "column_centre", "convention"
        described = {name: getattr(self, name) for name in names}
        return self.empty(self.grids, self.degrees, self.outputs, **described)

    def of_outputs(self, which: slice) -> Statistics:
        """Return the statistics of some of the outputs; what does not depend on y is shared."""
        names = "targets", "column_targets", "squares", "centre", "log_jacobian"
        return replace(self, **{name: getattr(self, name)[which].copy() for name in names})

    def with_tables(
        self,
        moments: Array,
        targets: Array,
        *,
        squares: Array | None = None,
        log_weights: float = nan,
    ) -> Statistics:
        """Return the statistics with other moments and targets, for instance of other weights.

        Sums of squares and of log weights are NaN unless given. All other fields stay.
        """
        if (moments.shape, targets.shape) != (self.moments.shape, self.targets.shape):
            raise ValueError(
                f"The tables have shapes {moments.shape} and {targets.shape}; on these grids they "
                f"must have {self.moments.shape} and {self.targets.shape}."
            )
        squares = np.full(self.outputs, nan) if squares is None else squares
        tables = replace(self, moments=moments, targets=targets)
        return replace(tables, squares=squares, log_weights=log_weights)

    @staticmethod
    def bytes_needed(
        grids: Sequence[Grid], degrees: Sequence[int], columns: int = 0, outputs: int = 1
    ) -> int:
        """Return the memory that statistics of these shapes take, in bytes."""
        return 8 * sum(map(prod, shapes_of_sums(grids, degrees, columns, outputs).values()))

    @property
    def nbytes(self) -> int:
        """Memory that the sums take."""
        return sum(getattr(self, name).nbytes for name in SUMS)

    def __sizeof__(self) -> int:  # Dask decides by it where to send objects
        return self.nbytes

    def __getstate__(self) -> dict[str, Any]:
        return packed(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in unpacked(state).items():
            object.__setattr__(self, name, value)

    # ------------------------------------------------------------ totals and views

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.squares)

    @property
    def cell_weights(self) -> Array:
        """Sum of the weights in every cell, (cells_1, ..., cells_D)."""
        return self.moments[(..., *[0] * len(self.grids))]

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.cell_weights.sum())

    @property
    def counted(self) -> bool:
        """True where weights say how often observations are there."""
        return self.convention.startswith(COUNTED)

    @property
    def observations(self) -> float:
        """Number of observations of the likelihood: the sum of weights that count them."""
        return self.weight if self.counted else float(self.count)

    @property
    def log_precisions(self) -> float:
        """Sum of the logarithms of relative noise precisions; zero where weights count."""
        return 0.0 if self.counted else self.log_weights

    @cached_property
    def densest(self) -> float:
        """Largest sum of weights in one cell."""
        return float(self.cell_weights.max())

    @cached_property
    def sums(self) -> Array:
        """Weighted sums of y, (outputs,)."""
        return self.centred_sums + self.centre * self.weight

    @property
    def centred_sums(self) -> Array:
        """Weighted sums of y less its centre, (outputs,)."""
        return self.targets[(..., *[0] * len(self.grids))].reshape(self.outputs, -1).sum(axis=1)

    @property
    def column_sums(self) -> Array:
        """Weighted sums of the columns less their centres, (C,)."""
        D = len(self.grids)
        lowest = self.cross[(*[slice(None)] * D, *[0] * D)]
        by_cell = lowest.reshape(prod(grid.cells for grid in self.grids), self.cross.shape[-1])
        return np.ascontiguousarray(by_cell.T).sum(axis=1)  # pairwise along the cells

    @property
    def column_means(self) -> Array:
        """Weighted means of the columns with given values, (linear,)."""
        sums = self.column_sums
        return sums[len(sums) - self.linear :] / self.weight + self.column_centre

    @cached_property
    def grid(self) -> Grid:
        """The grid of statistics of one input."""
        if len(self.grids) != 1:
            raise AttributeError("Use `grids`: there is one per input.")
        return self.grids[0]

    @cached_property
    def degree(self) -> int:
        """The degree of statistics of one input."""
        if len(self.degrees) != 1:
            raise AttributeError("Use `degrees`: there is one per input.")
        return self.degrees[0]

    @cached_property
    def pair(self) -> Array:
        """The column of ``moments`` for the powers i and j, (degree + 1, degree + 1)."""
        hankel, triangle = pair_columns(self.degree)
        return triangle if self.all_pairs else hankel

    @property
    def all_pairs(self) -> bool:
        """Whether the moments have a column for every pair of powers, not for every sum of two."""
        return len(self.grids) == 1 and self.moments.shape[1] != 2 * self.degrees[0] + 1

    @cached_property
    def columns(self) -> Array:
        """The sums ``cross`` of statistics of one input, column by column, (C, cells, k + 1)."""
        return np.ascontiguousarray(self.cross.transpose(2, 0, 1))

    @cached_property
    def products(self) -> Array:
        """Weighted sums of y and of the columns, times the columns, (outputs + C, C)."""
        return np.concatenate([self.column_targets, self.column_gram])

    @property
    def averaged(self) -> bool:
        """Whether there are averages over intervals among the data."""
        return len(self.widths) > 0

    @property
    def by_width(self) -> tuple[Array, Array]:
        """The distinct widths, zero where there are no averages, and the weight of each."""
        if self.averaged:
            return self.widths, self.width_weights
        return np.zeros(1), np.array([self.weight])

    @cached_property
    def cumulative(self) -> Array:
        """Running sums of the moments of one input, with one row more than these."""
        sums = np.zeros((self.grid.cells + 1, self.moments.shape[1]))
        np.cumsum(self.moments, axis=0, out=sums[1:])
        return sums

    @cached_property
    def roots(self) -> tuple[Array, Array]:
        """Square roots of every cell's Gram matrix, for weights >= 0, and targets in them."""
        size = self.degree + 1
        roots = np.empty((self.grid.cells, size, size))
        scores = np.empty((len(self.targets), self.grid.cells, size))
        # Sums of N terms are good to about N times rounding at worst (equal x).
        tolerance = max(RANK_TOLERANCE, 1e-16 * self.count)
        data_roots(self.pair, self.moments, self.targets, tolerance, roots, scores)
        return roots, scores

    # ------------------------------------------------------------ adding and forgetting

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both data sets together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        return combined(self, other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        """Return the statistics without data that were added before.

        Raise an error where ``other`` was never added, as far as sums show it: no weight, square
        or count may become negative, and no cell may keep more of y than its squares allow. With
        weights that are zero or negative only the count can tell.
        """
        if not isinstance(other, Statistics):
            return NotImplemented
        return difference(self, other)

    def recentred(self, centre: Array, column_centre: Array) -> Statistics:
        """Return the same statistics with other numbers subtracted from y and the columns."""
        return recentred(self, centre, column_centre)

    # ------------------------------------------------------------ other grids

    def on_common_cells(self, other: Statistics) -> tuple[Statistics, Statistics]:
        """Return both on the wider of their cells along every input, where those nest."""
        mine = common_factors(self.grids, other.grids)
        theirs = common_factors(other.grids, self.grids)
        return self.coarsen(mine), other.coarsen(theirs)

    def extend(
        self,
        lower: float | Sequence[float] = (),
        upper: float | Sequence[float] = (),
        *,
        smooth_lower: Sequence[float] = (),
        smooth_upper: Sequence[float] = (),
        multiple: int | Sequence[int] = 1,
    ) -> Statistics:
        """Return the same statistics on longer grids that hold ``[lower, upper]`` too.

        Bounds are given for all inputs of the main block, of the smooths, or both. Whole cells are
        added at the ends; in multiples, so that the main block can be coarsened as before.
        """
        ends = np.atleast_1d(lower), np.atleast_1d(upper)
        multiples = each("multiple", multiple, len(self.grids))
        return extended(self, *ends, smooth_lower, smooth_upper, multiples)

    def coarsen(self, factors: int | Sequence[int] = 2) -> Statistics:
        """Return the statistics on cells of the main block ``factors`` times as wide, exactly.

        Where cells do not divide evenly, the last wide cell reaches past the domain.
        """
        return coarsened(self, each("factors", factors, len(self.grids)))

    def coarsen_columns(self, factors: int | Sequence[int] = 2) -> Statistics:
        """Return the statistics with cells of the smooths ``factors`` times as wide, exactly."""
        return coarsened_columns(self, each("factors", factors, len(self.smooths)))
