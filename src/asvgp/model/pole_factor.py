"""P of splines and of what they leave out at the poles, factored from that of the splines."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.model.devices import Device, DeviceArray, Factor


class PoleForms(NamedTuple):
    """What poles of a term add to its forms, at the variance that the term has.

    Derivatives are by the logarithm of the lengthscale on the sphere.
    """

    freedom: float  # of b
    energy: float
    d_trace: float
    d_energy: float
    spread: Array  # a root of the covariance of the term's b, (columns, columns of all)
    mean: Array  # of b, (columns, outputs)


class PoleFactor:
    """A factor of P for the coefficients ``c + A b`` (`asvgp.model.poles`).

    The determinant is that of c and b together; that of their K is K's. ``pulled`` is ``G A``, and
    ``solved`` is ``P^-1 G A``.
    """

    def __init__(
        self,
        factor: Factor,
        A: Array,
        pulled: Array,
        solved: Array,
        leaf_index: Array,
        device: Device,
    ):
        self.factor, self._device = factor, device
        self.A, self.pulled, self.solved, self.Y = A, pulled, solved, A - solved
        inner = self.Y.T @ pulled
        precision = np.eye(A.shape[1]) + 0.5 * (inner + inner.T)
        self.C = np.linalg.inv(precision)
        self._root = np.linalg.cholesky(self.C)
        self._spread = device.move(self.Y @ self._root)  # whose squares are Y C Y'
        self.log_det = factor.log_det + float(np.linalg.slogdet(precision)[1])
        self._index = device.move(np.maximum(leaf_index, 0).astype(np.int64))
        self._there = device.move((leaf_index >= 0).astype(float)[:, :, None])

    @property
    def nbytes(self) -> int:
        """Bytes that the factorisation holds."""
        return self.factor.nbytes + 5 * self.A.nbytes

    @property
    def normals(self) -> int:
        """The number of standard normals that a draw takes."""
        return sum(self.A.shape)

    def at_poles(self, right: Array) -> Array:
        """Return b of right-hand sides of the coefficients, (columns, n)."""
        return self.C @ (self.Y.T @ right)

    def solve(self, b: DeviceArray, /) -> DeviceArray:
        """Return the solutions of right-hand sides."""
        return self.factor.solve(b) + self._spread @ (self._spread.T @ b)

    def sample(self, z: DeviceArray, /) -> DeviceArray:
        """Return draws, made from standard normals, those of b last."""
        size = len(self.A)
        return self.factor.sample(z[:size]) + self._spread @ z[size:]

    def selected_inverse(self, consume: Callable[[int, int, DeviceArray], None]) -> None:
        """Pass the inverse on the functions of each leaf to ``consume(start, stop, blocks)``."""
        self._selected_inverse(self._spread, consume)

    def of_splines(self, consume: Callable[[int, int, DeviceArray], None]) -> None:
        """Pass the covariance of c, as `selected_inverse` does that of ``c + A b``."""
        self._selected_inverse(self._device.move(self.solved @ self._root), consume)

    def _selected_inverse(
        self, spread: DeviceArray, consume: Callable[[int, int, DeviceArray], None]
    ) -> None:
        def updated(start: int, stop: int, blocks: DeviceArray) -> None:
            own = spread[self._index[start:stop]] * self._there[start:stop]
            consume(start, stop, blocks + own @ own.swapaxes(1, 2))

        self.factor.selected_inverse(updated)

    def freedoms(self, pulled: Array) -> Array:
        """Return what is added to traces with G by row, where c is taken for ``c + A b``.

        ``pulled`` is G Y.
        """
        left = self.pulled - pulled  # of P^-1 G A
        return np.sum((self.Y @ self.C) * pulled - (self.solved @ self.C) * left, axis=1)

    def forms(
        self, b: Array, left: Array, pulled: Array, d_A: Array, places: list[slice]
    ) -> list[PoleForms]:
        """Return what poles add to the forms of every term, whose columns are at ``places``.

        ``b`` is their mean, (columns, outputs), ``left`` what the mean leaves of the right-hand
        side, and ``pulled`` is G Y.
        """
        freedom = 1.0 - np.diag(self.C)
        energy = np.sum(b**2, axis=1)
        d_trace = 2.0 * np.sum((pulled @ self.C) * d_A, axis=0)
        d_energy = -2.0 * np.sum((d_A.T @ left) * b, axis=1)
        return [
            PoleForms(
                freedom=float(freedom[own].sum()),
                energy=float(energy[own].sum()),
                d_trace=float(d_trace[own].sum()),
                d_energy=float(d_energy[own].sum()),
                spread=self._root[own],
                mean=b[own],
            )
            for own in places
        ]
