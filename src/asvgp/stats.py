"""Sufficient statistics: the one pass over the data.

Per cell, moments of the local coordinate s in [0, 1]: ``sum w s**j`` for j <= 2k and
``sum w y s**j`` for j <= k. They determine every inner product of splines of degree <= k
with the data, know nothing of the kernel, and add. All powers are non-negative, so
merging and coarsening lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.linalg.accumulate import accumulate, aligned_table
from asvgp.linalg.square_root import RANK_TOLERANCE, data_roots
from asvgp.parallel import as_doubles, each_chunk, each_share

Advance = Callable[[int], None]  # told how many more rows are done


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the model needs to know of the data, on one grid.

    Attributes
    ----------
    grid : Grid
    degree : int
        Splines up to this degree can be fitted.
    moments : ndarray of shape (cells, 2 * degree + 1)
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
    ) -> Statistics:
        """One pass over x, y and the columns of ``covariates``, in any order, on all cores.

        Rows in which an output is NaN are left out and counted. The values are taken as
        checked otherwise: x finite and inside the grid, weights positive and finite.
        """
        y = np.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        x = np.asarray(x).reshape(len(y))
        beside = np.empty((len(y), 0)) if covariates is None else covariates
        outputs, marker = y.shape[1], (0,) * degree
        rows = outputs + beside.shape[1]
        scale = grid.cells / (grid.upper - grid.lower)

        def share(start: int, stop: int) -> tuple[list[Array], Array, Array]:
            tables = [aligned_table(grid.cells, degree) for _ in range(rows)]
            totals = np.zeros((rows, 3))
            products = np.zeros((rows, rows - outputs))
            weights = np.empty(0)
            for begin, end in each_chunk(start, stop):
                points, values = as_doubles(x[begin:end]), as_doubles(y[begin:end].T)
                if rows > 1:  # a row is missing in all outputs and columns or in none
                    absent = np.isnan(values).any(axis=0)
                    values = np.concatenate([values, as_doubles(beside[begin:end].T)])
                    values[:, absent] = np.nan
                if sample_weight is not None:
                    weights = as_doubles(sample_weight[begin:end])
                for o in range(rows):
                    accumulate(
                        marker, points, values[o], weights, grid.lower, scale, tables[o], totals[o]
                    )
                if rows > outputs:
                    known = np.where(np.isnan(values), 0.0, values)
                    weighted = known[outputs:] * weights if len(weights) else known[outputs:]
                    products += known @ weighted.T
                if progress is not None:
                    progress(end - begin)
            return tables, totals, products

        # A table a share: not worth it where there are more cells than rows.
        shares = each_share(len(y), share, least=2 * grid.cells)
        tables, totals, products = shares[0]
        for others, other_totals, other_products in shares[1:]:
            for table, other in zip(tables, others, strict=True):
                table += other
            totals += other_totals
            products += other_products
        split, end = 2 * degree + 1, 3 * degree + 2
        missing = int(totals[0, 1])
        moments = np.ascontiguousarray(tables[0][:, :split])
        targets = np.stack([table[:, split:end] for table in tables])
        return cls(
            grid,
            degree,
            moments,
            targets[:outputs],
            totals[:outputs, 0].copy(),
            len(y) - missing,
            missing,
            float(totals[0, 2]),
            targets[outputs:],
            products,
        )

    @classmethod
    def empty(cls, grid: Grid, degree: int, outputs: int = 1, columns: int = 0) -> Statistics:
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
        )

    def __post_init__(self) -> None:
        if not len(self.columns):  # in the shapes that the sums below expect
            object.__setattr__(self, "columns", np.empty((0, *self.targets.shape[1:])))
            object.__setattr__(self, "products", np.empty((len(self.squares), 0)))

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both data sets together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        self._check_compatible(other)
        return self._combined(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        """The statistics without data that were added before.

        An error where ``other`` holds what was never added: negative sums show it.
        """
        if not isinstance(other, Statistics):
            return NotImplemented
        self._check_compatible(other)
        left = self._combined(other, -1)
        # What is left of a cell that lost all its data is rounding, of either sign.
        weight = self.moments[:, 0]
        empty = np.abs(left.moments[:, 0]) <= 1e-11 * weight
        left.moments[empty] = 0.0
        left.targets[:, empty] = 0.0
        left.columns[:, empty] = 0.0
        short = np.flatnonzero(left.moments[:, 0] < 0.0)
        if left.count < 0 or len(short) or np.any(left.squares < -1e-9 * self.squares):
            where = f", cell {short[0]} the first of {len(short)}" if len(short) else ""
            raise ValueError(
                f"These data cannot be forgotten, because they were never added: {other.count} "
                f"observations from {self.count}{where}. Forget exactly what was added, with the "
                "same weights."
            )
        return left

    def _check_compatible(self, other: Statistics) -> None:
        mine = (self.grid, self.degree, len(self.squares), len(self.columns))
        theirs = (other.grid, other.degree, len(other.squares), len(other.columns))
        if mine != theirs:
            raise ValueError(
                "Statistics combine only on the same grid, degree, and numbers of outputs and "
                f"columns: {mine} against {theirs}. Give both fits the same domain, num_basis, "
                "degree and effects."
            )

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        return replace(
            self,
            moments=self.moments + sign * other.moments,
            targets=self.targets + sign * other.targets,
            squares=self.squares + sign * other.squares,
            count=self.count + sign * other.count,
            missing=self.missing + sign * other.missing,
            log_weights=self.log_weights + sign * other.log_weights,
            columns=self.columns + sign * other.columns,
            products=self.products + sign * other.products,
        )

    def extend(self, lower: float, upper: float, multiple: int = 1) -> Statistics:
        """The same statistics on a longer grid that holds ``[lower, upper]`` too.

        The spacing and all sums stay; whole cells are added at the ends, in multiples of
        ``multiple`` so that the grid can still be coarsened as often as before.
        """
        grid, h = self.grid, self.grid.spacing
        before = multiple * max(0, -int(np.floor((lower - grid.lower) / (h * multiple))))
        after = multiple * max(0, int(np.ceil((upper - grid.upper) / (h * multiple))))
        if before == after == 0:
            return self
        pad = ((before, after), (0, 0))
        return replace(
            self,
            grid=Grid(grid.lower - before * h, grid.upper + after * h, before + grid.cells + after),
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

        def merged(sums: Array) -> Array:
            power = sums.shape[2] - 1
            out = np.zeros((len(sums), grid.cells, power + 1))
            for i in range(factor):
                part = sums[:, i::factor]
                out[:, : part.shape[1]] += part @ _rescaling(power, i, factor).T
            return out

        return replace(
            self,
            grid=grid,
            moments=merged(self.moments[None])[0],
            targets=merged(self.targets),
            columns=merged(self.columns),
        )

    @property
    def sums(self) -> Array:
        """Weighted sums of y, (outputs,)."""
        return self.targets[:, :, 0].sum(axis=1)

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.moments[:, 0].sum())

    @cached_property
    def densest(self) -> float:
        """The largest sum of weights in one cell."""
        return float(self.moments[:, 0].max())

    @cached_property
    def cumulative(self) -> Array:
        """Running sums of the moments, (cells + 1, 2 * degree + 1)."""
        sums = np.zeros((self.grid.cells + 1, 2 * self.degree + 1))
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
        data_roots(self.moments, self.targets, tolerance, roots, scores)
        return roots, scores


def _rescaling(power: int, offset: int, factor: int) -> Array:
    """Matrix of ``((s + offset) / factor)**j`` in powers of s."""
    matrix = np.zeros((power + 1, power + 1))
    for j in range(power + 1):
        for i in range(j + 1):
            matrix[j, i] = comb(j, i) * offset ** (j - i) / factor**j
    return matrix
