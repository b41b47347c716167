"""Splines of a joint kernel along one of its inputs: uniform on the data, graded beyond.

The squared norm is an integral over the whole space, so that splines go on past the data, on cells
that grow from one to the next. All of them vanish at the outermost knots. With k the degree, the
last k cells at either end have fewer than k + 1 functions: these *tails* are not counted among the
cells, and what they add to K is added to the first and the last cell, whose functions theirs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from scipy import sparse

from asvgp.basis import (
    Array,
    Grid,
    operator_gram,
    operator_nodes,
    rescaling,
    spline_pieces,
)
from asvgp.kernels import AlongJoint
from asvgp.linalg.multifrontal import Space, Tree, symbolic
from asvgp.model.axis import Axis
from asvgp.model.joint_share import missed_share
from asvgp.policies import FIELD
from asvgp.runtime.lazy import cached_property


def widths_beyond(outer: int, tails: int = 0) -> Array:
    """Return the widths of cells beyond the data and of the tails, in cells of the data.

    Each is wider than the one before, by less where there are more of them: finer cells of the
    data come with finer ones everywhere, so that the splines converge.

    Examples
    --------
    >>> widths_beyond(2).tolist()
    [1.5, 2.25]
    >>> widths_beyond(16).tolist()[:2]
    [1.25, 1.5625]
    """
    growth = float(np.clip(1.0 + max(outer, 1) ** -0.5, *FIELD.joint_growth))
    return growth ** np.arange(1, outer + tails + 1)


class JointAxis(Axis):
    """Splines along one input of a joint kernel, with ``outer`` full cells beyond either end."""

    process: AlongJoint

    def __init__(
        self, process: AlongJoint, grid: Grid, degree: int, level: int, powers: int, outer: int
    ):
        super().__init__(process, grid, degree, level, powers)
        self.outer = outer
        self.cells = self.grid.cells + 2 * outer
        self.count = self.cells + degree

    def alone(self) -> Self:
        """Return the same splines on their own cells, with no more powers than they have."""
        return type(self)(self.process, self.grid, self.degree, 0, self.degree, self.outer)

    @cached_property
    def knots(self) -> Array:
        """All knots in units of the spacing, the first of the data at zero."""
        beyond = np.cumsum(widths_beyond(self.outer, self.degree))
        cells = self.grid.cells
        return np.concatenate([-beyond[::-1], np.arange(cells + 1), cells + beyond])

    @cached_property
    def _polynomials(self) -> Array:
        """Polynomials of the functions on all cells, the tails' included."""
        return spline_pieces(self.knots, self.degree)

    @cached_property
    def pieces(self) -> Array:
        """Polynomials of the functions alive on each finest cell, (cells, k + 1, powers + 1)."""
        size, width, cells = self.degree + 1, 2**self.level, self.fine.cells
        own = self._polynomials[self.degree + self.outer :][np.arange(cells) >> self.level]
        phases = np.stack([rescaling(self.degree, i, width) for i in range(width)])
        out = np.zeros((cells, size, self.powers + 1))
        out[:, :, :size] = own @ phases[np.arange(cells) % width]
        return out

    @property
    def first(self) -> np.ndarray:
        """The cell of their own that each finest cell is in, and its first function's number."""
        return self.outer + (np.arange(self.fine.cells) >> self.level)

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on each cell of their own, (cells, degree + 1)."""
        return np.arange(self.cells)[:, None] + np.arange(self.degree + 1)

    @cached_property
    def elements(self) -> Array:
        """Tables of K by powers of omega and cells, (powers, cells, k + 1, k + 1).

        For an even power these are products of equal derivatives; for an odd one, of neighbouring
        ones, of which only the antisymmetric part is left in the sum over cells.
        """
        k, top = self.degree, 2 * self.process.alpha
        width, pieces = np.diff(self.knots), self._polynomials
        gram = operator_gram(self.process.alpha, k)
        out = []
        for power in range(0, top + 1, 1 if self.process.turned else 2):
            high, low = (power + 1) // 2, power // 2
            block = pieces @ gram[high, low] @ pieces.transpose(0, 2, 1)
            block *= (width ** (1.0 - power))[:, None, None]
            if power % 2:
                block = 0.5 * (block - block.transpose(0, 2, 1))
            out.append(folded_tails(block, k))
        return np.stack(out)

    def trace(self, moments: Array) -> tuple[float, Array]:
        """Return about ``tr(K^-1 G)`` of moments, from what splines miss on equal cells anywhere.

        All inputs are taken to have as many cells per lengthscale as this one.
        """
        missed = missed_share(self.process, self.process.decay / self.grid.spacing, self.degree)
        weight = float(moments.reshape(self.fine.cells, -1)[:, 0].sum())
        return weight * (1.0 - missed), np.zeros(1)

    @cached_property
    def matrices(self) -> list[sparse.csr_array]:
        """The tables as sparse matrices."""
        return [self.assembled(block) for block in self.elements]

    @cached_property
    def derivatives(self) -> list[sparse.csr_array]:
        """Derivatives of orders 0 to alpha at Gauss nodes, (n, count) each, by roots of weights.

        Products of two are the tables. Functions that are differentiated first keep digits where
        tables, of which smooth functions have next to nothing, lose them.
        """
        k, width, cells = self.degree, np.diff(self.knots), len(self._polynomials)
        nodes = operator_nodes(self.process.alpha, k)
        numbers = np.arange(cells)[:, None, None] + np.arange(-k, 1)
        rows = np.arange(cells * (k + 1)).reshape(cells, k + 1, 1)
        there = np.broadcast_to((numbers >= 0) & (numbers < self.count), (cells, k + 1, k + 1))
        rows, numbers = (np.broadcast_to(each, there.shape)[there] for each in (rows, numbers))
        out = []
        for order in range(self.process.alpha + 1):
            values = np.einsum("qp,crp->cqr", nodes[:, order], self._polynomials)
            values *= (width ** (0.5 - order))[:, None, None]
            shape = cells * (k + 1), self.count
            matrix = sparse.coo_array((values[there], (rows, numbers)), shape=shape).tocsr()
            if not self.process.turned:  # fewer rows do: a triangle as narrow as the tables
                triangle = np.linalg.qr(matrix.toarray(), mode="r")
                matrix = sparse.csr_array(np.tril(triangle, k))
            out.append(matrix)
        return out

    def assembled(self, block: Array) -> sparse.csr_array:
        """Return the sum of blocks of all cells, (cells, k + 1, k + 1), as a sparse matrix."""
        numbers = self.numbers
        rows, columns = np.broadcast_arrays(numbers[:, :, None], numbers[:, None, :])
        where, shape = (rows.ravel(), columns.ravel()), (self.count, self.count)
        return sparse.coo_array((block.ravel(), where), shape=shape).tocsr()

    def averages(self, low: Array, high: Array) -> Array:
        """Return the averages of all functions over intervals, (m, count).

        Where an interval has no length, these are the functions' values.
        """
        k, h, width = self.degree, self.grid.spacing, np.diff(self.knots)
        powers = np.arange(1, k + 2)
        whole = (self._polynomials / powers).sum(axis=2) * width[:, None]
        before = np.zeros((len(width) + 1, self.count + 2 * k))  # up to a cell, past the ends too
        for r in range(k + 1):
            cells = np.arange(len(width))
            before[cells + 1, cells + r] = whole[:, r]
        before = np.cumsum(before, axis=0)

        def integrals(x: Array) -> Array:
            place = np.clip((x - self.grid.lower) / h, self.knots[0], self.knots[-1])
            cell = np.clip(np.searchsorted(self.knots, place, "right") - 1, 0, len(width) - 1)
            s = (place - self.knots[cell]) / width[cell]
            part = np.einsum("mrp,mp->mr", self._polynomials[cell] / powers, s[:, None] ** powers)
            out, rows = before[cell].copy(), np.arange(len(x))
            for r in range(k + 1):
                out[rows, cell + r] += part[:, r] * width[cell]
            return out[:, k : k + self.count]

        length = (high - low) / h
        out = (integrals(high) - integrals(low)) / np.where(length > 0.0, length, 1.0)[:, None]
        points = np.flatnonzero(length == 0.0)
        first, weights = self.rows(low[points])
        out[points[:, None], self.numbers[first]] = weights
        return out

    def rows(self, x: Array, order: int = 0) -> tuple[np.ndarray, Array]:
        """Return cells and weights (n, k + 1) on their functions of f, or of a derivative."""
        k, h = self.degree, self.grid.spacing
        place = (np.asarray(x, dtype=float) - self.grid.lower) / h
        cell = np.searchsorted(self.knots, place, "right") - 1
        inside = (place >= self.knots[0]) & (place <= self.knots[-1])
        cell = np.clip(cell, 0, len(self.knots) - 2)
        of_data = self.fine.holds(x)  # ends of the domain, which rounding may move out of its cells
        begin = k + self.outer
        cell[of_data] = np.clip(cell[of_data], begin, begin + self.grid.cells - 1)
        width = np.diff(self.knots)[cell]
        s = np.where(inside, (place - self.knots[cell]) / width, 0.0)
        powers = np.arange(k + 1)
        factors = np.ones(k + 1)
        for i in range(order):
            factors = factors * np.maximum(powers - i, 0)
        taylor = factors * s[:, None] ** np.maximum(powers - order, 0)
        taylor *= (inside / (width * h) ** order)[:, None]
        values = np.einsum("nrp,np->nr", self._polynomials[cell], taylor)
        first = np.clip(cell - k, 0, self.cells - 1)
        # In the tails the functions of the cell are counted from another one on.
        shift = cell - k - first
        out = np.zeros((len(values), 3 * k + 1))
        slots = np.arange(k + 1) + (shift + k)[:, None]
        np.put_along_axis(out, slots, values, axis=1)
        return first, np.ascontiguousarray(out[:, k : 2 * k + 1])


def folded_tails(block: Array, k: int) -> Array:
    """Return blocks (cells, k + 1, k + 1) of full cells, with those of the tails added to the ends.

    Functions 0 to i are alive on the i-th cell of a tail.
    """
    full = block[k : len(block) - k].copy()
    for i in range(k):
        full[0, : i + 1, : i + 1] += block[i, k - i :, k - i :]
        full[-1, k - i :, k - i :] += block[-1 - i, : i + 1, : i + 1]
    return full


def own_tree(axes: Sequence[JointAxis]) -> Tree:
    """Return the symbolic elimination of K alone, on the cells of its splines."""
    beyond = tuple(axis.outer for axis in axes)
    circles = tuple(d for d, axis in enumerate(axes) if axis.closed)
    levels = (0,) * len(axes)
    space = Space(tuple(axis.degree for axis in axes), levels, circles, beyond, beyond)
    return symbolic(tuple(axis.cells for axis in axes), (space,))
