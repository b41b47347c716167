"""One process along one input: its splines as polynomials on the finest cells, and its K.

K here is in B-spline coefficients (those of `asvgp.model.prior` are Taylor
coefficients), because the multifrontal elimination wants functions with small support.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from asvgp.basis import (
    Array,
    Grid,
    bspline_coefficients,
    by_power,
    log_jacobian,
    pair_columns,
    rescaling,
    rescalings,
)
from asvgp.kernels import Component
from asvgp.model.prior import Prior
from asvgp.runtime.lazy import cached_property


class Axis:
    """Splines of one process along one input.

    The process has variance one; it is None for a term that is constant along the input. The
    splines' cells are ``2**level`` cells of ``grid`` wide, which has the finest. ``powers`` is the
    largest power of s in the statistics along this input, the degree at least.
    """

    def __init__(self, process: Component | None, grid: Grid, degree: int, level: int, powers: int):
        self.process, self.fine, self.powers = process, grid, powers
        self.degree, self.level = (0, 0) if process is None else (degree, level)
        self.grid = grid.coarsen(2**self.level)
        self.outer = 0  # cells beyond the data, which joint kernels have
        self.count = 1 if process is None else self.grid.cells + self.degree

    @property
    def closed(self) -> bool:
        """True if the splines go round a circle."""
        return self.grid.cyclic

    @cached_property
    def pieces(self) -> Array:
        """Polynomials of the functions alive on each finest cell, (cells, k + 1, powers + 1)."""
        size, width, cells = self.degree + 1, 2**self.level, self.fine.cells
        basis = bspline_coefficients(self.degree)
        phases = np.stack([basis @ rescaling(self.degree, i, width) for i in range(width)])
        out = np.zeros((cells, size, self.powers + 1))
        out[:, :, :size] = phases[np.arange(cells) % width]
        return out

    @property
    def first(self) -> np.ndarray:
        """The cell of their own that each finest cell is in, and its first function's number."""
        cells = np.arange(self.fine.cells)
        return np.zeros_like(cells) if self.process is None else cells >> self.level

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on each cell of their own, (cells, degree + 1)."""
        cells = 1 if self.process is None else self.grid.cells
        return np.arange(cells)[:, None] + np.arange(self.degree + 1)

    def unfolded(self, values: Array) -> Array:
        """Return values of functions (count, ...) so that those of any cell are neighbours."""
        return values

    @cached_property
    def spline_matrix(self) -> sparse.csr_array:
        """Functions by interleaved powers: row m holds the polynomials of function m."""
        cells, size = self.fine.cells, self.powers + 1
        rows = self.numbers[self.first, :, None]
        columns = np.arange(cells)[:, None, None] * size + np.arange(size)
        where = tuple(np.broadcast_to(i, self.pieces.shape).ravel() for i in (rows, columns))
        shape = (self.count, cells * size)
        return sparse.coo_array((self.pieces.ravel(), where), shape=shape).tocsr()

    @cached_property
    def prior(self) -> Prior:
        """K of the process on the cells of its splines, in Taylor coefficients."""
        assert self.process is not None
        return Prior(self.process, self.grid, self.degree)

    @cached_property
    def covariances(self) -> Array:
        """Prior covariances of the Taylor coefficients on the cells of the splines."""
        return self.prior.covariances()

    @property
    def log_det(self) -> float:
        """``log|K|``; zero for a constant."""
        if self.process is None:
            return 0.0
        return float(self.prior.log_det) + log_jacobian(self.degree, self.grid.cells)

    @property
    def d_log_det(self) -> Array:
        """Derivatives of ``log|K|``, as `d_form`."""
        return self.prior.d_log_det[:-1]

    @cached_property
    def blocks(self) -> tuple[Array, Array]:
        """K as a block over the k + 1 functions of every cell, and one more at the first."""
        if self.process is None:
            return np.zeros((1, 1)), np.ones((1, 1))
        basis = bspline_coefficients(self.degree)
        start = basis[:, : self.degree]
        return basis @ self.prior.element @ basis.T, start @ self.prior.boundary @ start.T

    @property
    def root_blocks(self) -> tuple[Array, Array]:
        """Square roots of `blocks`: rows over the functions of a cell."""
        if self.process is None:
            return np.zeros((0, 1)), np.ones((1, 1))
        basis, prior = bspline_coefficients(self.degree), self.prior
        return prior.element_root @ basis.T, prior.boundary_root @ basis[:, : self.degree].T

    @cached_property
    def elements(self) -> Array:
        """K by cells of its own, (1, cells, k + 1, k + 1); joint kernels have several tables."""
        element, boundary = self.blocks
        cells = 1 if self.process is None else self.grid.cells
        out = np.repeat(element[None, None], cells, axis=1)
        out[0, 0] += boundary
        return out

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """K as a banded sparse matrix."""
        element, boundary = self.blocks
        cells = self.grid.cells
        if self.process is None:
            return sparse.csr_array(np.ones((1, 1)))
        values = np.repeat(element[None], cells, axis=0)
        values[0] += boundary
        indices, pointer, place = _pattern(cells, self.degree)
        entries = np.bincount(place, values.ravel())
        return sparse.csr_array((entries, indices, pointer), shape=(self.count, self.count))

    @cached_property
    def root(self) -> sparse.csr_array:
        """A square root of K: ``K = root.T @ root``.

        What it makes of a smooth function is good to rounding times the square root of K's
        condition number; what K makes of it only to rounding times all of it.
        """
        if self.process is None:
            return sparse.csr_array(np.ones((1, 1)))
        k, cells, prior = self.degree, self.grid.cells, self.prior
        basis = bspline_coefficients(k)
        scale = np.sqrt(np.diag(prior.start))
        start = np.linalg.cholesky(prior.start / np.outer(scale, scale)).T * scale
        values = np.concatenate([start @ basis[:, :k].T, prior.innovation_rows @ basis.T])
        first = np.append(np.zeros(k, dtype=np.int64), np.arange(cells))
        indices = (first[:, None] + np.arange(k + 1)).ravel()
        pointer = np.arange(self.count + 1) * (k + 1)
        return sparse.csr_array((values.ravel(), indices, pointer), shape=(self.count,) * 2)

    @property
    def inverse_root(self) -> Array:
        """A matrix whose product with its transpose is the inverse of K."""
        return np.linalg.inv(np.linalg.qr(self.root.toarray(), mode="r"))

    def energies(self, left: Array, right: Array) -> tuple[float, Array]:
        """Return ``tr(left' K right)`` of values (count, n), and its derivatives as `d_form`.

        Values are differentiated before they are multiplied, which keeps the digits of smooth
        functions.
        """
        if self.process is None:
            return float(np.vdot(left, right)), np.empty(0)
        powers, cells = self.degree + 1, self.grid.cells
        polynomials = _polynomials(cells, self.degree)
        first = (polynomials @ left).reshape(powers, cells, -1)
        second = first if left is right else (polynomials @ right).reshape(powers, cells, -1)
        total = first.reshape(powers, -1) @ second.reshape(powers, -1).T
        start = first[:-1, 0] @ second[:-1, 0].T
        prior = self.prior
        energy = float(np.sum(prior.element * total) + np.sum(prior.boundary * start))
        return energy, prior.d_form(total, start)[:-1]

    @cached_property
    def _factored(self) -> SuperLU:
        return splu(self.root.tocsc(), permc_spec="NATURAL")

    def solve(self, right: Array) -> Array:
        """Return ``K^-1`` times right-hand sides, (count, n), by K's root, which keeps digits."""
        return self._factored.solve(self._factored.solve(right, "T"))

    def form(self, total: Array, start: Array) -> float:
        """Return ``tr(element total) + tr(boundary start)``, ``total`` being summed over cells."""
        element, boundary = self.blocks
        return float(np.sum(element * total) + np.sum(boundary * start))

    @property
    def growth(self) -> Array:
        """Powers of the parameters, as in `d_form`, that the stiffest part of K grows with."""
        return self.prior.growth[:-1]

    def d_form(self, total: Array, start: Array) -> Array:
        """Return the derivatives of `form`, but for that of the variance, which is the term's."""
        assert self.process is not None
        basis = bspline_coefficients(self.degree)
        ends = basis[:, : self.degree]
        return self.prior.d_form(basis.T @ total @ basis, ends.T @ start @ ends)[:-1]

    @cached_property
    def variance_polynomials(self) -> Array:
        """``phi' K^-1 phi`` on the finest cells, interleaved powers up to 2 powers."""
        cells, size = self.fine.cells, 2 * self.powers + 1
        if self.process is None:
            out = np.zeros((cells, size))
            out[:, 0] = 1.0
            return out.ravel()
        k = self.degree
        pairs = np.add.outer(np.arange(k + 1), np.arange(k + 1)).ravel()
        coarse = by_power(self.covariances.reshape(self.grid.cells, -1), pairs)
        if self.level == 0 and size == 2 * k + 1:
            return coarse.ravel()
        parts = (coarse @ rescalings(2 * k, 2**self.level)).reshape(-1, 2 * k + 1)
        out = np.zeros((cells, size))
        out[:, : 2 * k + 1] = parts[:cells]
        return out.ravel()

    def trace(self, moments: Array) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` of moments along this input, and its derivatives as `d_form`."""
        moments = moments.reshape(self.fine.cells, -1)
        if self.process is None:
            return float(moments[:, 0].sum()), np.empty(0)
        size, width = 2 * self.degree + 1, 2**self.level
        sums = np.zeros((self.grid.cells + 1, size))
        for i in range(width):
            part = moments[i::width, :size] @ rescaling(2 * self.degree, i, width).T
            sums[1 : len(part) + 1] += part
        hankel, _ = pair_columns(self.degree)
        trace, d_trace = self.prior.trace(hankel, np.cumsum(sums, axis=0))
        return trace, d_trace[:-1]

    def banded_trace(self, gram: Array) -> tuple[float, Array]:
        """Return `trace` of G itself, (count, count), of the functions of these splines.

        Every product of two functions is counted on the first cell where both are alive, and
        from there by the cell's Taylor coefficients. K, which may be all but singular where a
        process is long, is not inverted.
        """
        k, cells = self.degree, self.grid.cells
        pairs = np.zeros((cells, k + 1, k + 1))
        for apart in range(k + 1):
            i = np.arange(cells + k - apart)
            cell = np.minimum(i, cells - 1)
            a, b = i - cell, i - cell + apart
            pairs[cell, a, b] = pairs[cell, b, a] = np.diagonal(gram, apart)
        turn = np.linalg.inv(bspline_coefficients(k))
        upper = np.triu_indices(k + 1)
        sums = np.zeros((cells + 1, len(upper[0])))
        sums[1:] = (turn @ pairs @ turn.T)[:, *upper]
        _, triangle = pair_columns(k)
        trace, d_trace = self.prior.trace(triangle, np.cumsum(sums, axis=0))
        return trace, d_trace[:-1]


@lru_cache(maxsize=16)
def _polynomials(cells: int, degree: int) -> sparse.csr_array:
    """Return the map from coefficients of splines to those of powers, (powers * cells, count)."""
    count = cells + degree
    values = np.repeat(bspline_coefficients(degree).T[:, None], cells, axis=1)
    indices = np.tile(np.arange(cells)[:, None] + np.arange(degree + 1), (degree + 1, 1))
    pointer = np.arange(cells * (degree + 1) + 1) * (degree + 1)
    shape = cells * (degree + 1), count
    return sparse.csr_array((values.ravel(), indices.ravel(), pointer), shape=shape)


@lru_cache(maxsize=64)
def _pattern(cells: int, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pattern of a sparse matrix that is a sum of one block per cell.

    These are its column indices, its row pointers, and the place of every entry of the blocks.
    """
    size, count = degree + 1, cells + degree
    rows = np.arange(cells)[:, None, None] + np.arange(size)[:, None]
    columns = np.arange(cells)[:, None, None] + np.arange(size)
    keys, place = np.unique((rows * count + columns).ravel(), return_inverse=True)
    return keys % count, np.searchsorted(keys, np.arange(count + 1) * count), place.ravel()
