"""Sufficient statistics for many inputs: a main block of cells, and global columns.

What `asvgp.statistics.one_input` does for one input, here in up to four: per cell of a grid
in D inputs,
moments of the local coordinates s_d in [0, 1]. On a cell every product of splines up to the
given degrees is a polynomial, so the moments determine every inner product with the data,
know nothing of the kernel, and add.

Beside the main block stand *columns*, which are alive on every cell: the splines of further
inputs, each with a grid of its own, and columns of given values. Without a main block
(D = 0) the columns alone are the additive model; all shapes below then lose their cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid, occupied
from asvgp.statistics.gridded import GridSums
from asvgp.statistics.nesting import coarsen_sums, each, longer_grids, placement, refinement
from asvgp.statistics.one_input import common_factors, too_little, too_much_log
from asvgp.statistics.pass_many import columns_of

Smooth = tuple[Grid, int]  # grid and degree: cells + degree columns
_SUMS = ("moments", "targets", "cross", "column_gram", "column_targets", "squares")


@dataclass(frozen=True, eq=False)
class FieldStatistics:
    """What a model of many inputs needs to know of the data.

    Attributes
    ----------
    grids : tuple of Grid
        One for each of the D inputs of the main block.
    degrees : tuple of int
        Splines up to these degrees can be fitted in the main block.
    smooths : tuple of (Grid, int)
        Grids and degrees of the columns that are splines of one further input.
    linear : int
        Number of columns with given values. The C columns are ordered as the smooths,
        ``grid.cells + degree`` each, and then these.
    moments : ndarray of shape (cells_1, ..., cells_D, 2 k_1 + 1, ..., 2 k_D + 1)
        Sums of ``w prod_d s_d**j_d``.
    targets : ndarray of shape (outputs, cells_1, ..., cells_D, k_1 + 1, ..., k_D + 1)
        Sums of ``w y prod_d s_d**j_d``.
    cross : ndarray of shape (cells_1, ..., cells_D, k_1 + 1, ..., k_D + 1, C)
        Sums of ``w c prod_d s_d**j_d`` for a column c.
    column_gram : ndarray of shape (C, C)
    column_targets : ndarray of shape (outputs, C)
    squares : ndarray of shape (outputs,)
        Weighted sums of y squared.
    count : int
        Observations, the missing not counted.
    missing : int
        Rows left out because an output was NaN.
    log_weights : float
        Sum of the logarithms of the weights.
    centre, column_centre : ndarray of shape (outputs,) and (linear,)
        What was taken off y and off the columns of given values before they were summed, as in
        `asvgp.statistics.one_input.Statistics`. Statistics with different centres add all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(0, 1, (1000, 2)), rng.standard_normal(1000)
    >>> grids = Grid(0.0, 1.0, cells=8), Grid(0.0, 1.0, cells=6)
    >>> whole = FieldStatistics.from_data(x, y, grids, degrees=(2, 1))
    >>> whole.moments.shape, whole.targets.shape
    ((8, 6, 5, 3), (1, 8, 6, 3, 2))
    >>> parts = [FieldStatistics.from_data(x[i::2], y[i::2], grids, (2, 1)) for i in (0, 1)]
    >>> bool(np.allclose((parts[0] + parts[1]).moments, whole.moments))
    True
    >>> [grid.cells for grid in whole.coarsen((4, 2)).grids]
    [2, 3]

    An additive model of two inputs and an intercept:

    >>> smooths = (grids[0], 2), (grids[1], 3)
    >>> additive = FieldStatistics.from_data(
    ...     None, y, smooths=smooths, smooth_inputs=x, linear_columns=np.ones((1000, 1))
    ... )
    >>> additive.column_gram.shape
    (20, 20)
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
    centre: Array = field(default_factory=lambda: np.empty(0))
    column_centre: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if len(self.centre) != len(self.squares):
            object.__setattr__(self, "centre", np.zeros(len(self.squares)))
        if len(self.column_centre) != self.linear:
            object.__setattr__(self, "column_centre", np.zeros(self.linear))

    @classmethod
    def from_data(
        cls,
        x,
        y,
        grids: Sequence[Grid] = (),
        degrees: Sequence[int] = (),
        sample_weight=None,
        *,
        smooths: Sequence[Smooth] = (),
        smooth_inputs=None,
        linear_columns=None,
        progress: Callable[[int], None] | None = None,
        like: FieldStatistics | None = None,
    ) -> FieldStatistics:
        """One pass over the data, in any order, on all cores.

        Rows in which an output is NaN are left out and counted. The values are taken as
        checked otherwise: inputs finite and inside their grids, columns finite, weights
        positive and finite.

        Parameters
        ----------
        x : array of shape (n, D), tuple of D arrays of length n, or None where D = 0
            Read column by column and batch by batch, whatever its layout: never copied.
        y : array of shape (n,) or (n, outputs)
        grids, degrees : sequences of Grid and int
        sample_weight : array of shape (n,), optional
        smooths : sequence of (Grid, int)
        smooth_inputs : like x, one column for each of the smooths
        linear_columns : like x, optional
        progress : callable, optional
            Told how many more rows are done.
        like : FieldStatistics, optional
            Whose centres to take off; none by default.
        """
        y = np.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        n, outputs = y.shape
        grids, degrees, smooths = tuple(grids), tuple(degrees), tuple(smooths)
        if len(grids) != len(degrees):
            raise ValueError(f"{len(grids)} grids but {len(degrees)} degrees: give one each.")
        inputs = columns_of("x", x, n, len(grids))
        smooth_inputs = columns_of("smooth_inputs", smooth_inputs, n, len(smooths))
        linear_columns = columns_of("linear_columns", linear_columns, n)
        if sample_weight is not None:
            (sample_weight,) = columns_of("sample_weight", sample_weight, n, 1)

        empty = cls.empty(grids, degrees, outputs, smooths=smooths, linear=len(linear_columns))
        if like is not None:
            empty = replace(empty, centre=like.centre, column_centre=like.column_centre)
        from asvgp.statistics.accumulator import FieldAccumulator

        sums = FieldAccumulator(empty)
        sums.add(inputs, y, sample_weight, smooth_inputs, linear_columns, progress)
        return sums.statistics()

    @classmethod
    def from_grid(
        cls,
        values,
        axes: Sequence,
        grids: Sequence[Grid],
        degrees: Sequence[int],
        sample_weight=None,
        like: FieldStatistics | None = None,
    ) -> FieldStatistics:
        """Statistics of gridded data, whose coordinates are never written out.

        The sums are separable: one axis after the other is contracted to its cells.

        Parameters
        ----------
        values : array of shape (n_1, ..., n_D) or (outputs, n_1, ..., n_D)
            NaN is missing.
        axes : sequence of D arrays, of lengths n_1, ..., n_D
            Coordinates, in any order, repeated or not.
        grids, degrees : sequences of Grid and int
        sample_weight : array of shape (n_1, ..., n_D), optional
        like : FieldStatistics, optional
            Whose centre of y to take off.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp.basis import Grid
        >>> longitude, latitude = np.linspace(0, 360, 721), np.linspace(-90, 90, 361)
        >>> field = np.cos(np.radians(longitude))[:, None] * np.cos(np.radians(latitude))
        >>> grids = Grid(0.0, 360.0, 72), Grid(-90.0, 90.0, 36)
        >>> stats = FieldStatistics.from_grid(field, (longitude, latitude), grids, (2, 2))
        >>> stats.count, stats.moments.shape
        (260281, (72, 36, 5, 5))
        """
        values = np.asarray(values)
        outputs = len(values) if values.ndim > len(axes) else 1
        sums = GridSums(grids, degrees, outputs, None if like is None else like.centre)
        sums.add(values, axes, sample_weight)
        return cls.of_grid(sums)

    @classmethod
    def of_grid(cls, sums: GridSums) -> FieldStatistics:
        """Sums over gridded data as statistics without columns."""
        outputs, *shape = sums.targets.shape
        return cls(
            sums.grids,
            sums.degrees,
            (),
            0,
            sums.moments,
            sums.targets,
            np.zeros((*shape, 0)),
            np.zeros((0, 0)),
            np.zeros((outputs, 0)),
            sums.squares,
            sums.count,
            sums.missing,
            sums.log_weights,
            sums.centre,
        )

    def with_intercept(self) -> FieldStatistics:
        """The same with one column, of ones; there must be none yet."""
        first = (..., *(slice(k + 1) for k in self.degrees), None)
        return replace(
            self,
            linear=1,
            cross=np.ascontiguousarray(self.moments[first]),
            column_gram=np.array([[self.weight]]),
            column_targets=self._total(self.targets, 1)[:, None],
            column_centre=np.zeros(1),
        )

    @classmethod
    def empty(
        cls,
        grids: Sequence[Grid],
        degrees: Sequence[int],
        outputs: int = 1,
        *,
        smooths: Sequence[Smooth] = (),
        linear: int = 0,
        centre: Array | None = None,
        column_centre: Array | None = None,
    ) -> FieldStatistics:
        """The statistics of no data."""
        grids, degrees, smooths = tuple(grids), tuple(degrees), tuple(smooths)
        cells = tuple(grid.cells for grid in grids)
        powers = tuple(k + 1 for k in degrees)
        columns = sum(grid.cells + degree for grid, degree in smooths) + linear
        return cls(
            grids,
            degrees,
            smooths,
            linear,
            np.zeros(cells + tuple(2 * k + 1 for k in degrees)),
            np.zeros((outputs, *cells, *powers)),
            np.zeros((*cells, *powers, columns)),
            np.zeros((columns, columns)),
            np.zeros((outputs, columns)),
            np.zeros(outputs),
            0,
            centre=np.zeros(outputs) if centre is None else centre,
            column_centre=np.zeros(linear) if column_centre is None else column_centre,
        )

    def emptied(self) -> FieldStatistics:
        """The same grids, columns and centres, without data."""
        return self.empty(
            self.grids,
            self.degrees,
            self.outputs,
            smooths=self.smooths,
            linear=self.linear,
            centre=self.centre,
            column_centre=self.column_centre,
        )

    @staticmethod
    def bytes_needed(
        grids: Sequence[Grid], degrees: Sequence[int], columns: int = 0, outputs: int = 1
    ) -> int:
        """Memory that statistics of these shapes take.

        Examples
        --------
        >>> from asvgp.basis import Grid
        >>> FieldStatistics.bytes_needed([Grid(0.0, 1.0, 1000)] * 2, [2, 2])
        272000008
        """
        powers = prod(k + 1 for k in degrees)
        sums = prod(2 * k + 1 for k in degrees) + powers * (outputs + columns)
        cells = prod(grid.cells for grid in grids)
        return 8 * (cells * sums + columns * (columns + outputs) + outputs)

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides what to send where."""
        return self.nbytes

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the cells that hold data, nothing that follows."""
        state = {own.name: getattr(self, own.name) for own in fields(self)}
        box = occupied(self.cell_weights)
        for name, lead in (("moments", ()), ("targets", (slice(None),)), ("cross", ())):
            state[name] = np.array(state[name][(*lead, *box)], order="C")
        return state | {"box": box}

    def __setstate__(self, state: dict[str, Any]) -> None:
        box = state.pop("box")
        kept = {"smooths": state["smooths"], "linear": state["linear"]}
        empty = self.empty(state["grids"], state["degrees"], len(state["squares"]), **kept)
        for name, lead in (("moments", ()), ("targets", (slice(None),)), ("cross", ())):
            whole = getattr(empty, name)
            whole[(*lead, *box)] = state[name]
            state[name] = whole
        vars(self).update(state)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.squares)

    @property
    def nbytes(self) -> int:
        """Memory the sums take."""
        return sum(getattr(self, name).nbytes for name in _SUMS)

    @property
    def cell_weights(self) -> Array:
        """Sum of the weights in every cell, (cells_1, ..., cells_D)."""
        return self.moments[(..., *[0] * len(self.grids))]

    @property
    def sums(self) -> Array:
        """Weighted sums of y, (outputs,)."""
        return self._total(self.targets, 1) + self.centre * self.weight

    def _total(self, sums: Array, leading: int = 0) -> Array:
        """Sums over all data, from those of the powers of every cell."""
        D = len(self.grids)
        first = sums[(*[slice(None)] * (leading + D), *[0] * D)]
        return first.sum(axis=tuple(range(leading, leading + D)))

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.cell_weights.sum())

    @cached_property
    def densest(self) -> float:
        """The largest sum of weights in one cell."""
        return float(self.cell_weights.max())

    def __add__(self, other: FieldStatistics) -> FieldStatistics:
        """The statistics of both data sets together."""
        if not isinstance(other, FieldStatistics):
            return NotImplemented
        self._check_compatible(other)
        return self._combined(other, 1)

    def __sub__(self, other: FieldStatistics) -> FieldStatistics:
        """The statistics without data that were added before.

        An error where ``other`` holds what was never added, as far as sums can show it: see
        `asvgp.statistics.one_input.Statistics`.
        """
        if not isinstance(other, FieldStatistics):
            return NotImplemented
        self._check_compatible(other)
        left = self._combined(other, -1)
        # What is left of a cell that lost all its data is rounding, of either sign.
        empty = np.abs(left.cell_weights) <= 1e-11 * self.cell_weights
        contradiction = left._contradicts(self, empty)
        left.moments[empty] = 0.0
        left.targets[:, empty] = 0.0
        left.cross[empty] = 0.0
        before, after = np.diag(self.column_gram), np.diag(left.column_gram)
        gone = np.abs(after) <= 1e-11 * before
        left.column_gram[gone] = 0.0
        left.column_gram[:, gone] = 0.0
        left.column_targets[:, gone] = 0.0
        left.cross[..., gone] = 0.0
        short = np.argwhere(left.cell_weights < 0.0).tolist() if self.grids else []
        if left.count < 0 or left.weight < 0.0 or short or contradiction:
            where = f", cell {tuple(short[0])} the first of {len(short)}" if short else ""
            raise ValueError(
                f"These data cannot be forgotten, because they were never added: {other.count} "
                f"observations from {self.count}{where}. Forget exactly what was added, with the "
                "same weights."
            )
        return left

    def _contradicts(self, before: FieldStatistics, empty: Array) -> bool:
        """Whether no data can have these sums, beyond rounding of those before."""
        D, first = len(self.grids), [0] * len(self.grids)
        empty = empty.reshape(-1)
        weight = np.where(empty, 0.0, self.cell_weights.reshape(-1))
        weights = weight, before.cell_weights.reshape(-1), empty
        sums = self.targets[(..., *first)].reshape(self.outputs, -1)
        columns = self.cross[(*[slice(None)] * D, *first)].reshape(weight.size, -1)
        squares, whole = np.diag(self.column_gram), np.diag(before.column_gram)
        return (
            too_little(*weights, sums, self.squares, before.squares)
            or too_little(*weights, columns.T, squares, whole)
            or too_much_log(self.log_weights, self.count, float(weight.sum()), before.weight)
        )

    def on_common_cells(self, other: FieldStatistics) -> tuple[FieldStatistics, FieldStatistics]:
        """Both on the wider of their cells along every input, where those nest."""
        mine = common_factors(self.grids, other.grids)
        theirs = common_factors(other.grids, self.grids)
        return self.coarsen(mine), other.coarsen(theirs)

    def _check_compatible(self, other: FieldStatistics) -> None:
        for name in ("grids", "degrees", "smooths", "linear", "outputs"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    "Statistics combine only on the same grids, degrees, columns and number of "
                    f"outputs; the {name} differ: {mine} against {theirs}. Give both fits the "
                    "same domain, num_basis and degree."
                )

    def recentred(self, centre: Array, column_centre: Array) -> FieldStatistics:
        """The same statistics with other numbers taken off y and the columns."""
        shift, own = self.centre - centre, self.column_centre - column_centre
        if not shift.any() and not own.any():
            return self
        lowest = tuple(slice(k + 1) for k in self.degrees)
        base = self.moments[(..., *lowest)]  # sums of w times powers
        columns = np.concatenate([np.zeros(len(self.column_gram) - self.linear), own])
        sums, of_columns = self._total(self.targets, 1), self._total(self.cross)
        twice = np.outer(columns, of_columns)
        return replace(
            self,
            targets=self.targets + np.multiply.outer(shift, base),
            cross=self.cross + np.multiply.outer(base, columns),
            column_gram=self.column_gram
            + twice
            + twice.T
            + self.weight * np.outer(columns, columns),
            column_targets=self.column_targets
            + np.outer(shift, of_columns + self.weight * columns)
            + np.outer(sums, columns),
            squares=self.squares + 2.0 * shift * sums + shift**2 * self.weight,
            centre=centre,
            column_centre=column_centre,
        )

    def _combined(self, other: FieldStatistics, sign: int) -> FieldStatistics:
        other = other.recentred(self.centre, self.column_centre)
        names = (*_SUMS, "count", "missing", "log_weights")
        both = {name: getattr(self, name) + sign * getattr(other, name) for name in names}
        # Without cells the sum of two arrays of no dimension is a number, not an array.
        return replace(self, **both | {"moments": np.asarray(both["moments"])})

    def extend(
        self,
        lower: Sequence[float] = (),
        upper: Sequence[float] = (),
        smooth_lower: Sequence[float] = (),
        smooth_upper: Sequence[float] = (),
        multiple: int | Sequence[int] = 1,
    ) -> FieldStatistics:
        """The same statistics on longer grids that hold ``[lower, upper]`` too.

        Bounds are given for all inputs of the main block, of the smooths, or both. The
        spacing and all sums stay; whole cells are added at the ends, those of the main
        block in multiples of ``multiple``, so that it can still be coarsened as before.
        """
        main = longer_grids(self.grids, lower, upper, each("multiple", multiple, len(self.grids)))
        others = [grid for grid, _ in self.smooths]
        columns = longer_grids(others, smooth_lower, smooth_upper, (1,) * len(others))
        if not any(max(added) for _, added in main + columns):
            return self
        cells, powers = [added for _, added in main], [(0, 0)] * len(main)
        longer = replace(
            self,
            grids=tuple(grid for grid, _ in main),
            moments=np.pad(self.moments, cells + powers) if main else self.moments,
            targets=np.pad(self.targets, [(0, 0), *cells, *powers]),
            cross=np.pad(self.cross, [*cells, *powers, (0, 0)]),
        )
        degrees = [degree for _, degree in self.smooths]
        smooths = [(grid, k) for (grid, _), k in zip(columns, degrees, strict=True)]
        pairs = zip(self.smooths, columns, strict=True)
        maps = [placement(grid.cells + k, *added) for (grid, k), (_, added) in pairs]
        return longer._mapped(smooths, maps)

    def coarsen(self, factors: int | Sequence[int] = 2) -> FieldStatistics:
        """The statistics on cells of the main block ``factors`` times as wide, exactly.

        Where the cells of an input do not divide evenly, its last parent reaches past the
        domain.
        """
        inputs = len(self.grids)
        moments, targets, cross = self.moments, self.targets, self.cross
        factors = each("factors", factors, inputs)
        for d, factor in enumerate(factors):
            if factor > 1:
                moments = coarsen_sums(moments, d, inputs + d, factor)
                targets = coarsen_sums(targets, 1 + d, 1 + inputs + d, factor)
                cross = coarsen_sums(cross, d, inputs + d, factor)
        grids = tuple(grid.coarsen(f) for grid, f in zip(self.grids, factors, strict=True))
        return replace(self, grids=grids, moments=moments, targets=targets, cross=cross)

    def coarsen_columns(self, factors: int | Sequence[int] = 2) -> FieldStatistics:
        """The statistics with cells of the smooths ``factors`` times as wide, exactly.

        A spline on wide cells is a sum of splines on narrow ones:
        `asvgp.statistics.nesting.refinement`.
        """
        factors = each("factors", factors, len(self.smooths))
        pairs = list(zip(self.smooths, factors, strict=True))
        return self._mapped(
            [(grid.coarsen(factor), degree) for (grid, degree), factor in pairs],
            [refinement(grid.cells, degree, factor) for (grid, degree), factor in pairs],
        )

    def _mapped(self, smooths: Sequence[Smooth], maps: Sequence) -> FieldStatistics:
        """The statistics in terms of other smooths, each a linear map of the one it was."""
        if not smooths:
            return self
        same = [placement(1, 0, 0)] * self.linear
        matrix = sparse.block_diag([*maps, *same], format="csr").T

        def mapped(sums: Array) -> Array:  # the columns are the last axis
            rows = sums.reshape(-1, sums.shape[-1]) @ matrix
            return np.ascontiguousarray(rows).reshape(*sums.shape[:-1], rows.shape[1])

        return replace(
            self,
            smooths=tuple(smooths),
            cross=mapped(self.cross),
            column_gram=mapped(mapped(self.column_gram).T),
            column_targets=mapped(self.column_targets),
        )
