"""Sufficient statistics: the one pass over the data.

Per cell, moments of the local coordinate s in [0, 1]: ``sum w s**j`` for j <= 2k and
``sum w y s**j`` for j <= k. They determine every inner product of splines of degree <= k
with the data, know nothing of the kernel, and add. All powers are non-negative, so
merging and coarsening lose no digits.

An observation may also be the average of f over part of a cell. It takes the means ``m_j``
of ``s**j`` there in place of the powers, and ``sum w m_i m_j`` is no function of i + j any
more: once there are such data, the moments are those sums for all i <= j <= k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid, occupied, pair_columns, rescaling
from asvgp.linalg.cells.accumulate import merge_cells
from asvgp.linalg.chain.square_root import RANK_TOLERANCE, data_roots

Advance = Callable[[int], None]  # told how many more rows are done
_SAME_WIDTH = 1e-7  # widths that differ by less, relatively, are one


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the model needs to know of the data, on one grid.

    Attributes
    ----------
    grid : Grid
    degree : int
        Splines up to this degree can be fitted.
    moments : ndarray of shape (cells, 2 * degree + 1)
        With averages among the data (cells, (degree + 1) * (degree + 2) / 2).
    targets : ndarray of shape (outputs, cells, degree + 1)
    squares : ndarray of shape (outputs,)
        Weighted sums of y squared.
    count : int
        Observations, the missing not counted.
    missing : int
        Rows left out because y was NaN.
    log_weights : float
        Sum of the logarithms of the weights.
    columns : ndarray of shape (columns, cells, degree + 1)
        What ``targets`` is for y, for further columns: covariates with linear effects.
    products : ndarray of shape (outputs + columns, columns)
        Weighted sums of y and of the columns, times the columns.
    widths, width_weights : ndarray of shape (widths,)
        The distinct widths of the intervals averaged over, zero for observations of f itself,
        and the sum of the weights of each. Empty where all are of f itself.
    centre, column_centre : ndarray of shape (outputs,) and (columns,)
        What was taken off y and off the columns before they were summed: where a large mean
        is to be estimated anyway, its digits need not be carried along. Statistics with
        different centres add all the same.
    convention : str
        What the weights mean and where the input is counted from, in words; statistics with
        different ones do not add.

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
    """

    grid: Grid
    degree: int
    moments: Array
    targets: Array
    squares: Array
    count: int
    missing: int = 0
    log_weights: float = 0.0
    columns: Array = field(default_factory=lambda: np.empty((0, 0, 0)))
    products: Array = field(default_factory=lambda: np.empty((0, 0)))
    widths: Array = field(default_factory=lambda: np.empty(0))
    width_weights: Array = field(default_factory=lambda: np.empty(0))
    centre: Array = field(default_factory=lambda: np.empty(0))
    column_centre: Array = field(default_factory=lambda: np.empty(0))
    convention: str = ""

    @classmethod
    def from_data(
        cls,
        x,
        y,
        grid: Grid,
        degree: int,
        sample_weight=None,
        progress: Advance | None = None,
        covariates=None,
        width=None,
        like: Statistics | None = None,
    ) -> Statistics:
        """One pass over x, y and the columns of ``covariates``, in any order, on all cores.

        With ``width``, one number a row, y is an average over ``[x, x + width]``. Centres and
        convention are those of ``like``. Rows in
        which an output is NaN are left out and counted. The values are taken as checked
        otherwise: x finite and inside the grid, intervals inside one cell each, weights
        positive and finite.
        """
        from asvgp.statistics.pass_one import (  # which builds what this module defines
            Accumulator,
            block_rows,
        )

        y = np.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        x = np.asarray(x).reshape(len(y))
        columns = 0 if covariates is None else covariates.shape[1]
        sums = Accumulator(grid, degree, y.shape[1], columns, like)
        rows = block_rows(1 + columns + y.shape[1])
        for begin in range(0, max(len(y), 1), rows):
            block = slice(begin, begin + rows)
            sums.add(
                x[block],
                y[block],
                None if sample_weight is None else sample_weight[block],
                progress,
                None if covariates is None else covariates[block],
                None if width is None else width[block],
            )
        return sums.statistics()

    @classmethod
    def empty(
        cls,
        grid: Grid,
        degree: int,
        outputs: int = 1,
        columns: int = 0,
        centre: Array | None = None,
        column_centre: Array | None = None,
        convention: str = "",
    ) -> Statistics:
        """The statistics of no data."""
        return cls(
            grid,
            degree,
            np.zeros((grid.cells, 2 * degree + 1)),
            np.zeros((outputs, grid.cells, degree + 1)),
            np.zeros(outputs),
            0,
            columns=np.zeros((columns, grid.cells, degree + 1)),
            products=np.zeros((outputs + columns, columns)),
            centre=np.zeros(outputs) if centre is None else centre,
            column_centre=np.zeros(columns) if column_centre is None else column_centre,
            convention=convention,
        )

    def __post_init__(self) -> None:
        if not len(self.centre):
            object.__setattr__(self, "centre", np.zeros(len(self.squares)))
        if len(self.column_centre) != len(self.columns):
            object.__setattr__(self, "column_centre", np.zeros(len(self.columns)))
        if not len(self.columns):  # in the shapes that the sums below expect
            object.__setattr__(self, "columns", np.empty((0, *self.targets.shape[1:])))
            object.__setattr__(self, "products", np.empty((len(self.squares), 0)))

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides what to send where."""
        return sum(getattr(self, name).nbytes for name in ("moments", "targets", "columns"))

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the cells that hold data, nothing that follows."""
        state = {own.name: getattr(self, own.name) for own in fields(self)}
        (cells,) = occupied(self.moments[:, 0])
        state["moments"] = self.moments[cells]
        for name in ("targets", "columns"):
            state[name] = np.ascontiguousarray(state[name][:, cells])
        return state | {"cells": cells}

    def __setstate__(self, state: dict[str, Any]) -> None:
        cells, count = state.pop("cells"), state["grid"].cells
        for name, at in (
            ("moments", cells),
            ("targets", np.s_[:, cells]),
            ("columns", np.s_[:, cells]),
        ):
            part = state[name]
            shape = list(part.shape)
            shape[0 if name == "moments" else 1] = count
            state[name] = np.zeros(shape)
            state[name][at] = part
        vars(self).update(state)

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both data sets together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        self._check_compatible(other)
        return self._combined(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        """The statistics without data that were added before.

        An error where ``other`` holds what was never added, as far as sums can show it: no
        weight, square or count may become negative, nor more be left of y in a cell than its
        squares allow. Other data of the same cells and magnitude go unnoticed.
        """
        if not isinstance(other, Statistics):
            return NotImplemented
        self._check_compatible(other)
        left = self._combined(other, -1)
        # What is left of a cell that lost all its data is rounding, of either sign.
        weight = self.moments[:, 0]
        empty = np.abs(left.moments[:, 0]) <= 1e-11 * weight
        short = np.flatnonzero(left.moments[:, 0] < -1e-11 * weight)
        if left.count < 0 or len(short) or left._contradicts(self, empty):
            where = f", cell {short[0]} the first of {len(short)}" if len(short) else ""
            raise ValueError(
                f"These data cannot be forgotten, because they were never added: {other.count} "
                f"observations from {self.count}{where}. Forget exactly what was added, with the "
                "same weights and widths."
            )
        left.moments[empty] = 0.0
        left.targets[:, empty] = 0.0
        left.columns[:, empty] = 0.0
        return left

    def _contradicts(self, before: Statistics, empty: Array) -> bool:
        """Whether no data can have these sums, beyond rounding of those before."""
        squares = np.diag(before.products[len(self.squares) :])
        left_squares = np.diag(self.products[len(self.squares) :])
        weight = np.where(empty, 0.0, self.moments[:, 0])
        weights = weight, before.moments[:, 0], empty
        return (
            too_little(*weights, self.targets[:, :, 0], self.squares, before.squares)
            or too_little(*weights, self.columns[:, :, 0], left_squares, squares)
            or bool(np.any(self.width_weights < -1e-11 * before.weight))
            or too_much_log(self.log_weights, self.count, float(weight.sum()), before.weight)
        )

    def recentred(self, centre: Array, column_centre: Array) -> Statistics:
        """The same statistics with other numbers taken off y and the columns."""
        shift, column_shift = self.centre - centre, self.column_centre - column_centre
        if not shift.any() and not column_shift.any():
            return self
        base = self.moments[:, self.pair[0]]  # sums of w s**j
        sums = np.concatenate([self.targets[:, :, 0], self.columns[:, :, 0]]).sum(axis=1)
        shifts = np.concatenate([shift, column_shift])
        outputs = len(shift)
        return replace(
            self,
            targets=self.targets + shift[:, None, None] * base,
            columns=self.columns + column_shift[:, None, None] * base,
            squares=self.squares + 2.0 * shift * sums[:outputs] + shift**2 * self.weight,
            products=self.products
            + np.outer(shifts, sums[outputs:])
            + np.outer(sums, column_shift)
            + np.outer(shifts, column_shift) * self.weight,
            centre=centre,
            column_centre=column_centre,
        )

    def on_common_cells(self, other: Statistics) -> tuple[Statistics, Statistics]:
        """Both on the wider of their cells, where those nest."""
        (mine,) = common_factors([self.grid], [other.grid])
        (theirs,) = common_factors([other.grid], [self.grid])
        return self.coarsen(mine), other.coarsen(theirs)

    def _check_compatible(self, other: Statistics) -> None:
        if self.convention != other.convention:
            raise ValueError(
                "Statistics combine only where weights mean the same and inputs are counted from "
                f"the same origin: {self.convention!r} against {other.convention!r}."
            )
        mine = (self.grid, self.degree, len(self.squares), len(self.columns))
        theirs = (other.grid, other.degree, len(other.squares), len(other.columns))
        if mine != theirs:
            raise ValueError(
                "Statistics combine only on the same grid, degree, and numbers of outputs and "
                f"columns: {mine} against {theirs}. Give both fits the same domain, num_basis, "
                "degree and effects."
            )

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        other = other.recentred(self.centre, self.column_centre)
        moments, others = self.moments, other.moments
        widths, width_weights = self.widths, self.width_weights
        if moments.shape != others.shape:
            moments, others = self._all_pairs, other._all_pairs
        if self.averaged or other.averaged:
            mine, theirs = self.by_width, other.by_width
            widths, width_weights = grouped(
                np.append(mine[0], theirs[0]), np.append(mine[1], sign * theirs[1])
            )
        return replace(
            self,
            moments=moments + sign * others,
            targets=self.targets + sign * other.targets,
            squares=self.squares + sign * other.squares,
            count=self.count + sign * other.count,
            missing=self.missing + sign * other.missing,
            log_weights=self.log_weights + sign * other.log_weights,
            columns=self.columns + sign * other.columns,
            products=self.products + sign * other.products,
            widths=widths,
            width_weights=width_weights,
        )

    def extend(self, lower: float, upper: float, multiple: int = 1) -> Statistics:
        """The same statistics on a longer grid that holds ``[lower, upper]`` too.

        The spacing and all sums stay; whole cells are added at the ends, in multiples of
        ``multiple`` so that the grid can still be coarsened as often as before.
        """
        grid, (before, after) = self.grid.extend(lower, upper, multiple)
        if grid is self.grid:
            return self
        pad = ((before, after), (0, 0))
        return replace(
            self,
            grid=grid,
            moments=np.pad(self.moments, pad),
            targets=np.pad(self.targets, ((0, 0), *pad)),
            columns=np.pad(self.columns, ((0, 0), *pad)),
        )

    def coarsen(self, factor: int = 2) -> Statistics:
        """The statistics on cells ``factor`` times as wide, exactly, without the data.

        The i-th of the merged cells covers the parent coordinate ``(s + i) / factor``; the
        moments follow by the binomial theorem. Where the cells do not divide evenly, the
        last parent reaches past the domain.
        """
        grid = self.grid.coarsen(factor)

        def merged(sums: Array, maps_of: Callable, power: int) -> Array:
            out = np.zeros((len(sums), grid.cells, sums.shape[2]))
            maps = np.stack([maps_of(power, i, factor) for i in range(factor)])
            merge_cells(np.ascontiguousarray(sums), maps, out)
            return out

        moments, k = self.moments[None], self.degree
        return replace(
            self,
            grid=grid,
            moments=(
                merged(moments, rescaling, 2 * k)
                if self._hankel
                else merged(moments, _rescaling_of_pairs, k)
            )[0],
            targets=merged(self.targets, rescaling, k),
            columns=merged(self.columns, rescaling, k),
        )

    @property
    def sums(self) -> Array:
        """Weighted sums of y, (outputs,)."""
        return self.targets[:, :, 0].sum(axis=1) + self.centre * self.weight

    @property
    def pair(self) -> Array:
        """The column of ``moments`` that goes with the powers i and j, (degree + 1, degree + 1)."""
        hankel, triangle = pair_columns(self.degree)
        return hankel if self._hankel else triangle

    @property
    def _hankel(self) -> bool:
        """Whether the moments are sums of powers; for degree 1 there is no difference."""
        return self.moments.shape[1] == 2 * self.degree + 1

    @property
    def _all_pairs(self) -> Array:
        """The moments with a column for every pair of powers."""
        upper = np.triu_indices(self.degree + 1)
        return self.moments[:, self.pair[upper]]

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
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.moments[:, 0].sum())

    @cached_property
    def densest(self) -> float:
        """The largest sum of weights in one cell."""
        return float(self.moments[:, 0].max())

    @cached_property
    def cumulative(self) -> Array:
        """Running sums of the moments, a row more than these."""
        sums = np.zeros((self.grid.cells + 1, self.moments.shape[1]))
        np.cumsum(self.moments, axis=0, out=sums[1:])
        return sums

    @cached_property
    def roots(self) -> tuple[Array, Array]:
        """Square roots of every cell's Gram matrix, and the targets in their terms."""
        size = self.degree + 1
        roots = np.empty((self.grid.cells, size, size))
        scores = np.empty((len(self.targets), self.grid.cells, size))
        # Sums of N terms are good to about N times rounding at worst (equal x).
        tolerance = max(RANK_TOLERANCE, 1e-16 * self.count)
        data_roots(self.pair, self.moments, self.targets, tolerance, roots, scores)
        return roots, scores


def common_factors(grids: Sequence[Grid], others: Sequence[Grid]) -> tuple[int, ...]:
    """How many cells of each grid make one of the other, of the same ends; one where none do."""
    factors = []
    for grid, other in zip(grids, others, strict=True):
        same = (grid.lower, grid.upper) == (other.lower, other.upper)
        factors.append(grid.cells // other.cells if same and grid.cells % other.cells == 0 else 1)
    return tuple(max(1, factor) for factor in factors)


def too_little(
    weight: Array, before: Array, empty: Array, sums: Array, squares: Array, whole: Array
) -> bool:
    """Whether squares are less than sums in the cells need, beyond rounding.

    ``sums`` are (rows, cells) and ``squares`` (rows,), which were ``whole`` before anything was
    taken out; ``weight`` and ``before`` are the weights of the cells, those of ``empty`` ones
    rounding only.
    """
    tolerance = 1e-9 * np.sqrt(np.outer(np.abs(whole), before))
    if np.any(np.abs(sums[:, empty]) > tolerance[:, empty] + 1e-300):
        return True
    needed = np.divide(sums**2, weight, out=np.zeros(sums.shape), where=weight > 0.0)
    return bool(np.any(needed.sum(axis=1) > squares + 1e-9 * np.abs(whole)))


def too_much_log(log_weights: float, count: int, weight: float, before: float) -> bool:
    """Whether so many weights of this sum cannot have this sum of logarithms."""
    if count == 0:
        return weight > 1e-9 * before
    # The mean of logarithms is at most the logarithm of the mean.
    most = float(np.log(weight / count)) if weight > 0.0 else -np.inf
    return log_weights / count > most + 1e-9 * (1.0 + abs(most))


def grouped(widths: Array, weights: Array) -> tuple[Array, Array]:
    """Distinct widths and the sums of their weights; what rounding separates is one.

    Of the widths in a group the mean is kept, which leaves no error of first order. Weights
    may be negative; where nothing but rounding is left of a group it is dropped.
    """
    if not len(widths):
        return np.empty(0), np.empty(0)
    order = np.argsort(widths)
    widths, weights = widths[order], weights[order]
    first = np.flatnonzero(np.append(True, np.diff(widths) > _SAME_WIDTH * widths[1:]))
    total, size = (np.add.reduceat(w, first) for w in (weights, np.abs(weights)))
    kept = np.abs(total) > 1e-11 * size
    means = np.add.reduceat(weights * widths, first)[kept] / total[kept]
    return means, total[kept]


@lru_cache
def _rescaling_of_pairs(degree: int, offset: int, factor: int) -> Array:
    """`rescaling` of both factors of all products of two powers, the upper triangle."""
    matrix, pair = rescaling(degree, offset, factor), pair_columns(degree)[1]
    rows = []
    for i, j in zip(*np.triu_indices(degree + 1), strict=True):
        rows.append(np.bincount(pair.ravel(), np.outer(matrix[i], matrix[j]).ravel()))
    return np.array(rows)
