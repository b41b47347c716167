"""A periodic process along an input that is a circle, as an axis of a field.

The splines and their polynomials are those of a line on the cells of one period, but those that
reach past its end go on at its beginning: function ``count + j`` is function j. K is circulant and
has no boundary (`asvgp.model.circle`).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid, bspline_coefficients
from asvgp.kernels import AlongEarth, AlongJoint, Component, Periodic
from asvgp.model.axis import Axis
from asvgp.model.circle import CircleAxis
from asvgp.model.earth_axis import earth_axis
from asvgp.model.joint_axis import JointAxis
from asvgp.model.moments import CellMoments
from asvgp.runtime.lazy import cached_property


class ClosedAxis(Axis):
    """Cyclic splines of a periodic process, with the interface of `Axis`."""

    def __init__(self, process: Periodic, grid: Grid, degree: int, level: int, powers: int):
        super().__init__(process, grid, degree, level, powers)
        self.count = self.grid.cells
        self.circle = CircleAxis(process, grid, degree, self.count, 2**self.level)

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on each cell of their own, (cells, degree + 1)."""
        return self.circle.numbers

    def unfolded(self, values: Array) -> Array:
        """Return values of functions (count, ...), the first ones once more behind the last."""
        return np.concatenate([values, values[: self.degree]])

    @cached_property
    def covariances(self) -> Array:
        """Prior covariances of the Taylor coefficients on the cells of the splines."""
        first, basis = self.numbers[0], bspline_coefficients(self.degree)
        block = basis.T @ self.circle.inverse[np.ix_(first, first)] @ basis
        return np.broadcast_to(block, (self.count, *block.shape))

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        return self.circle.log_det

    @property
    def d_log_det(self) -> Array:
        """Derivatives of ``log|K|``."""
        return self.circle.d_log_det

    @cached_property
    def blocks(self) -> tuple[Array, Array]:
        """K as a block over the functions of every cell; there is no more at the first."""
        return self.circle.element, np.zeros_like(self.circle.element)

    @property
    def root_blocks(self) -> tuple[Array, Array]:
        """Square roots of `blocks`: rows over the functions of a cell."""
        return self.circle.element_root, np.zeros((0, self.degree + 1))

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """K as a sparse matrix."""
        rows, columns = np.broadcast_arrays(self.numbers[:, :, None], self.numbers[:, None, :])
        values = np.broadcast_to(self.circle.element, rows.shape)
        where = rows.ravel(), columns.ravel()
        return sparse.coo_array((values.ravel(), where), shape=(self.count,) * 2).tocsr()

    @cached_property
    def root(self) -> sparse.csr_array:
        """A square root of K."""
        return sparse.csr_array(self.circle.root)

    def energies(self, left: Array, right: Array) -> tuple[float, Array]:
        """Return ``tr(left' K right)`` of values (count, n), and its derivatives."""
        return self.circle.energies(left, right)

    def solve(self, right: Array) -> Array:
        """Return ``K^-1`` times right-hand sides, (count, n)."""
        return self.circle.inverse @ right

    @property
    def growth(self) -> Array:
        """Powers of the parameters that the stiffest part of K grows with."""
        return self.circle.growth

    def d_form(self, total: Array, start: Array) -> Array:
        """Return the derivatives of `form`."""
        return np.sum(self.circle.d_element * total, axis=(1, 2))

    @cached_property
    def variance_polynomials(self) -> Array:
        """``phi' K^-1 phi`` on the finest cells, interleaved powers up to 2 powers."""
        out = np.zeros((self.count, 2**self.level, 2 * self.powers + 1))
        out[:, :, : 2 * self.degree + 1] = self.circle.variance_polynomials
        return out.ravel()

    def trace(self, moments: Array) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` of moments along this input, and its derivatives as `d_form`."""
        return self.circle.trace(CellMoments(moments.reshape(self.fine.cells, -1)))

    def banded_trace(self, gram: Array) -> tuple[float, Array]:
        """Return `trace` of G itself, (count, count), of the functions of these splines."""
        slopes = np.sum(self.circle.d_inverse * gram, axis=(1, 2))
        return float(np.sum(self.circle.inverse * gram)), slopes


def axis_of(
    process: Component | None, grid: Grid, degree: int, level: int, powers: int, outer: int = 0
) -> Axis:
    """Return the axis of a process, or of a constant, along an input.

    One of a joint kernel has ``outer`` cells beyond the data.
    """
    if isinstance(process, AlongEarth):
        return earth_axis(process, grid, degree, level, powers, outer)
    if isinstance(process, AlongJoint):
        return JointAxis(process, grid, degree, level, powers, outer)
    if isinstance(process, Periodic):
        return ClosedAxis(process, grid, degree, level, powers)
    return Axis(process, grid, degree, level, powers)
