"""Prior covariances between a process and its derivatives, on a line and around a circle."""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Component, Matern12, Matern32, Matern52, Periodic
from asvgp.kernels.dynamics import Dynamics
from asvgp.runtime.lazy import cached_property

_MATERNS = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}


class Covariances:
    """Covariances between derivatives of a process of variance one, on a line or on a circle."""

    def __init__(self, process: Component):
        self.process = process

    @cached_property
    def _dynamics(self) -> Dynamics:
        process = self.process
        if isinstance(process, Periodic):
            return Dynamics(_MATERNS[process.nu](process.lengthscale))
        return Dynamics(process)

    @cached_property
    def _wrapped(self) -> tuple[Array, float]:
        """Stationary covariance of the state with all turns added up, and what is variance one."""
        assert isinstance(self.process, Periodic)
        dynamics = self._dynamics
        turn = dynamics.matrices(np.array(self.process.period))
        total = np.linalg.solve(np.eye(dynamics.size) - turn, dynamics.stationary)
        variance = float(total[0, 0] + (turn @ total)[0, 0])
        return total, variance * self.process.swings

    def __call__(self, lag: Array, i: int = 0, j: int = 0) -> Array:
        """Return the covariance of derivative i at x + lag with derivative j at x."""
        if i == j == 0:
            return self.process.covariance(np.abs(lag))
        if not isinstance(self.process, Periodic):
            stationary = self._dynamics.stationary
            ahead, behind = (self._ahead(np.abs(lag), stationary, *p) for p in ((i, j), (j, i)))
            return np.where(lag >= 0.0, ahead, behind)
        total, variance = self._wrapped
        near = np.mod(lag, self.process.period)
        ahead = self._ahead(near, total, i, j)
        return (ahead + self._ahead(self.process.period - near, total, j, i)) / variance

    def _ahead(self, lag: Array, stationary: Array, i: int, j: int) -> Array:
        dynamics = self._dynamics
        column = dynamics.powers[i] @ stationary[:, j]
        return dynamics.rows(lag) @ column / dynamics.unit ** (i + j)
