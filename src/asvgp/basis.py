"""Uniform B-splines: the grid of cells and the local polynomials on it.

Only small arrays that depend on the degree live here; see `asvgp.linalg` for the
coordinates. A grid of ``n`` cells carries ``n + degree`` basis functions; one that is closed to a
circle, ``n``.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb, factorial, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float64 throughout


@dataclass(frozen=True)
class Grid:
    """Uniform knots ``lower = x_0 < x_1 < ... < x_cells = upper``.

    A ``cyclic`` grid is closed to a circle: its ends are the same place, and every x is on it.

    Examples
    --------
    >>> grid = Grid(0.0, 10.0, cells=5)
    >>> grid.spacing
    2.0
    >>> cell, s = grid.locate([0.0, 3.0, 10.0])
    >>> cell.tolist(), s.tolist()
    ([0, 1, 4], [0.0, 0.5, 1.0])
    >>> Grid(0.0, 10.0, cells=5, cyclic=True).inside([-1.0, 23.0]).tolist()
    [9.0, 3.0]
    """

    lower: float
    upper: float
    cells: int
    cyclic: bool = False

    @property
    def spacing(self) -> float:
        """Distance between neighbouring knots."""
        return (self.upper - self.lower) / self.cells

    @property
    def knots(self) -> Array:
        """The ``cells + 1`` knots."""
        return np.linspace(self.lower, self.upper, self.cells + 1)

    def splines(self, degree: int) -> int:
        """Return the number of basis functions."""
        return self.cells if self.cyclic else self.cells + degree

    def around(self, x: Any) -> Array:
        """Return points of a circle by their place from its lower end on; others as they are."""
        if not self.cyclic:
            return x
        return self.lower + np.mod(np.asarray(x, dtype=float) - self.lower, self.upper - self.lower)

    def inside(self, x: Any) -> Array:
        """Return points moved into the domain: around the circle, or to the nearer end."""
        x = self.around(x)
        return x if self.cyclic else np.clip(x, self.lower, self.upper)

    def holds(self, x: Any) -> NDArray[np.bool_]:
        """Return which points are inside the domain."""
        x = np.asarray(self.around(x))
        return np.full(x.shape, True) if self.cyclic else (x >= self.lower) & (x <= self.upper)

    def coarsens(self, factor: int) -> bool:
        """Return True if cells ``factor`` times as wide fit: around a circle, a whole number."""
        return not self.cyclic or self.cells % factor == 0

    def locate(self, x: Any) -> tuple[NDArray[np.int64], Array]:
        """Return cell index and local coordinate in [0, 1] of points inside the domain."""
        x = self.around(np.asarray(x, dtype=float))
        t = (x - self.lower) * (self.cells / (self.upper - self.lower))
        cell = np.clip(t.astype(np.int64), 0, self.cells - 1)
        return cell, t - cell

    def locate_intervals(self, x: Any, width: Any) -> tuple[NDArray[np.int64], Array, Array]:
        """Return cell index and local coordinates of both ends, of intervals inside one cell each.

        The cell is that of the middle: rounding may move an end out of it, not the middle.
        """
        scale = self.cells / (self.upper - self.lower)
        start, length = (np.asarray(x, dtype=float) - self.lower) * scale, width * scale
        cell = np.clip((start + 0.5 * length).astype(np.int64), 0, self.cells - 1)
        return cell, start - cell, start - cell + length

    def extend(
        self, lower: float, upper: float, multiple: int = 1
    ) -> tuple["Grid", tuple[int, int]]:
        """Return a grid of this spacing that holds ``[lower, upper]`` too, and the cells added.

        They are added at both ends in multiples of ``multiple``; a circle holds everything.

        Examples
        --------
        >>> grid, added = Grid(0.0, 1.0, 4).extend(-0.3, 0.5)
        >>> grid.lower, grid.upper, added
        (-0.5, 1.0, (2, 0))
        """
        if self.cyclic:
            return self, (0, 0)
        h = self.spacing
        before = multiple * max(0, -int(np.floor((lower - self.lower) / (h * multiple))))
        after = multiple * max(0, int(np.ceil((upper - self.upper) / (h * multiple))))
        if before == after == 0:
            return self, (0, 0)
        ends = self.lower - before * h, self.upper + after * h
        longer = replace(self, lower=ends[0], upper=ends[1], cells=before + self.cells + after)
        return longer, (before, after)

    def coarsen(self, factor: int = 2) -> "Grid":
        """Return a grid of cells ``factor`` times as wide, from the same lower end."""
        cells = -(-self.cells // factor)
        if cells * factor == self.cells:
            return replace(self, cells=cells)
        if self.cyclic:
            raise ValueError(
                f"{self.cells} cells around a circle cannot be joined by {factor} at a time."
            )
        return replace(self, upper=self.lower + cells * factor * self.spacing, cells=cells)


def occupied(weights: Array) -> tuple[slice, ...]:
    """Return the smallest box of cells outside which all weights are zero.

    Examples
    --------
    >>> occupied(np.array([[0.0, 1.0, 0.0], [0.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
    (slice(0, 2, None), slice(1, 3, None))
    >>> occupied(np.zeros(4))
    (slice(0, 0, None),)
    """
    box = []
    for d in range(weights.ndim):
        others = tuple(e for e in range(weights.ndim) if e != d)
        some = np.flatnonzero(weights.any(axis=others))
        box.append(slice(int(some[0]), int(some[-1]) + 1) if len(some) else slice(0, 0))
    return tuple(box)


def mean_powers(s: Array, t: Array, degree: int) -> Array:
    """Return means of ``u**j`` over u from s to t, (n, degree + 1), to all digits for s = t too.

    Each is the mean of all products ``s**i t**(j - i)``.

    Examples
    --------
    >>> mean_powers(np.array([0.0, 0.5]), np.array([1.0, 0.5]), degree=2).round(3).tolist()
    [[1.0, 0.5, 0.333], [1.0, 0.5, 0.25]]
    """
    sums = np.ones((len(s), degree + 1))
    for j in range(1, degree + 1):
        sums[:, j] = sums[:, j - 1] * t + s**j
    return sums / np.arange(1, degree + 2)


@lru_cache
def taylor_shift(degree: int) -> Array:
    """Return ``shift[i, j] = binomial(j, i)``: Taylor coefficients at the next knot."""
    return np.array([[float(comb(j, i)) for j in range(degree + 1)] for i in range(degree)])


def by_power(values: Array, powers: Array, size: int | None = None) -> Array:
    """Add up the last axis by the power of s that an entry multiplies."""
    out = np.zeros((*values.shape[:-1], size or int(powers.max()) + 1))
    for i, power in enumerate(powers):
        out[..., power] += values[..., i]
    return out


@lru_cache
def bspline_coefficients(degree: int) -> Array:
    """Return in row j the monomial coefficients of the j-th B-spline alive on a cell.

    From the recursion ``k B_k(x) = x B_{k-1}(x) + (k + 1 - x) B_{k-1}(x - 1)`` on [0, k + 1].

    Examples
    --------
    >>> bspline_coefficients(1)
    array([[ 1., -1.],
           [ 0.,  1.]])
    """
    pieces = [np.array([1.0])]  # pieces[r]: coefficients in s on [r, r + 1], x = r + s
    for k in range(1, degree + 1):
        longer = []
        for r in range(k + 1):
            piece = np.zeros(k + 1)
            if r < k:
                piece[:-1] += r * pieces[r]
                piece[1:] += pieces[r]
            if r > 0:
                piece[:-1] += (k + 1 - r) * pieces[r - 1]
                piece[1:] -= pieces[r - 1]
            longer.append(piece / k)
        pieces = longer
    return np.array(pieces[::-1])


def spline_pieces(knots: Array, degree: int) -> Array:
    """Return B-splines as polynomials on the cells of any knots, (cells, degree + 1, degree + 1).

    Entry (c, r) has the coefficients, in powers of s in [0, 1], of the function that is alive on
    the cells from ``c - degree + r`` on; zeros where that would reach past the ends.

    Examples
    --------
    >>> spline_pieces(np.arange(8.0), 2)[3].tolist() == bspline_coefficients(2).tolist()
    True
    """
    cells = len(knots) - 1
    cell, width = np.arange(cells), np.diff(knots)
    pieces = np.ones((cells, 1, 1))
    for k in range(1, degree + 1):
        longer = np.zeros((cells, k + 1, k + 1))
        for r in range(k + 1):
            i = cell - k + r  # the first cell of the function
            there = (i >= 0) & (i + k < cells)
            low, high = knots[np.clip(i, 0, cells)], knots[np.clip(i + k + 1, 0, cells)]
            for side in (0, 1):  # the two functions of the degree below
                if not 0 <= r - 1 + side < k:
                    continue
                piece = pieces[:, r - 1 + side]
                span = knots[np.clip(i + k + side, 0, cells)] - knots[np.clip(i + side, 0, cells)]
                at = (high - knots[:-1] if side else knots[:-1] - low) / np.where(there, span, 1.0)
                slope = (-width if side else width) / np.where(there, span, 1.0)
                longer[:, r, :-1] += (there * at)[:, None] * piece
                longer[:, r, 1:] += (there * slope)[:, None] * piece
        pieces = longer
    return pieces


@lru_cache
def log_jacobian(degree: int, cells: int) -> float:
    """Return ``log |K|`` in B-spline coefficients minus ``log |K|`` in chain coordinates."""
    first_state = bspline_coefficients(degree)[:degree, :degree]
    _, log_det = np.linalg.slogdet(first_state)
    return 2.0 * (log_det - cells * log(factorial(degree)))


@lru_cache
def operator_gram(order: int, degree: int) -> Array:
    """Return ``H[i, m, j, l] = integral over [0, 1] of (s**j)^(i) (s**l)^(m)``, none negative.

    For ``L = sum_i a_i d**i``, ``a a' : H`` is one cell's Gram matrix of ``L s**j``.
    """
    gram = np.zeros((order + 1, order + 1, degree + 1, degree + 1))
    for i in range(order + 1):
        for m in range(order + 1):
            for j in range(i, degree + 1):
                for k in range(m, degree + 1):
                    falling = factorial(j) / factorial(j - i) * factorial(k) / factorial(k - m)
                    gram[i, m, j, k] = falling / (j - i + k - m + 1)
    return gram


@lru_cache
def operator_nodes(order: int, degree: int) -> Array:
    """Return ``D[q, i, j] = sqrt(weight_q) (s**j)^(i)`` at the Gauss nodes of a cell.

    ``a @ D`` has ``a a' : H`` as its Gram matrix, exactly, with ``degree + 1`` nodes.
    """
    nodes, weights = np.polynomial.legendre.leggauss(degree + 1)
    nodes, weights = (nodes + 1.0) / 2.0, weights / 2.0
    values = np.zeros((degree + 1, order + 1, degree + 1))
    for i in range(order + 1):
        for j in range(i, degree + 1):
            falling = factorial(j) / factorial(j - i)
            values[:, i, j] = np.sqrt(weights) * falling * nodes ** (j - i)
    return values


@lru_cache
def rescaling(power: int, offset: int, factor: int) -> Array:
    """Return the matrix of ``((s + offset) / factor)**j`` in powers of s."""
    matrix = np.zeros((power + 1, power + 1))
    for j in range(power + 1):
        for i in range(j + 1):
            matrix[j, i] = comb(j, i) * offset ** (j - i) / factor**j
    return matrix


@lru_cache(maxsize=16)
def rescalings(power: int, factor: int) -> Array:
    """Return `rescaling` for all offsets below the factor beside each other.

    Examples
    --------
    >>> rescalings(1, 2)
    array([[1. , 0. , 1. , 0. ],
           [0. , 0.5, 0.5, 0.5]])
    """
    j, i = np.arange(power + 1)[:, None, None], np.arange(power + 1)
    binomials = np.array([[comb(a, b) for b in i] for a in range(power + 1)], dtype=float)
    shifts = np.arange(float(factor))[:, None] ** np.maximum(j - i, 0)
    out = binomials[:, None, :] * shifts / float(factor) ** j
    return out.reshape(power + 1, -1)


@lru_cache
def pair_columns(degree: int) -> tuple[Array, Array]:
    """Return `Statistics.pair` of Hankel matrices, and of any: the upper triangle, row by row.

    Unsigned, so that compiled loops need not look out for indices from the end.
    """
    powers = np.arange(degree + 1, dtype=np.uint32)
    triangle = np.zeros((degree + 1, degree + 1), dtype=np.uint32)
    upper = np.triu_indices(degree + 1)
    triangle[upper] = np.arange(len(upper[0]))
    return powers[:, None] + powers, np.maximum(triangle, triangle.T)
