"""Linear functionals of a field at points: evaluation and derivatives, anywhere.

Along each input a term's functional is a row of k + 1 weights on the functions of one cell
of its splines, beyond the ends too (by the Markov property, on those of the end cell); over
several inputs it is the product of such rows.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from asvgp.basis import Array, bspline_coefficients
from asvgp.kernels.dynamics import Dynamics
from asvgp.model.axis import Axis


class Rows:
    """Functionals along one input, of one term.

    Attributes
    ----------
    first : ndarray of int, (n,)
        First function of each row.
    weights : ndarray of shape (n, k + 1)
    prior : float
        Variance of the functional under the process of variance one.
    """

    def __init__(self, axis: Axis, x: Array, order: int = 0):
        self.axis, n = axis, len(x)
        if axis.process is None:
            self.first = np.zeros(n, dtype=np.int64)
            self.weights = np.full((n, 1), float(order == 0))
            self.prior = float(order == 0)
            self.taylor = self.weights
            return
        fine, grid, k = axis.fine, axis.grid, axis.degree
        inside = np.clip(x, fine.lower, fine.upper)
        self.first, s = grid.locate(inside)
        powers = np.arange(k + 1)
        falling = [factorial(i) / factorial(i - order) if i >= order else 0.0 for i in powers]
        taylor = np.where(
            powers >= order, s[:, None] ** np.maximum(powers - order, 0) * np.array(falling), 0.0
        )
        taylor /= grid.spacing**order
        dynamics = Dynamics(axis.process)
        power = dynamics.powers[order] / dynamics.unit**order
        size = axis.process.order + 1
        for beyond, lag, sign in (
            (x > fine.upper, x - fine.upper, 1.0),
            (x < fine.lower, fine.lower - x, -1.0),
        ):
            if beyond.any():
                state = sign**order * dynamics.rows(lag[beyond]) @ power
                ratio = sign * dynamics.unit / grid.spacing
                state = state * np.array([factorial(i) * ratio**i for i in range(size)])
                taylor[beyond] = np.einsum("ni,nij->nj", state, _taylor_at(s[beyond], size, k))
        self.taylor = taylor
        self.weights = taylor @ bspline_coefficients(k).T
        column = dynamics.powers[order] @ dynamics.stationary[:, order]
        self.prior = float((dynamics.rows(np.zeros(1)) @ column)[0] / dynamics.unit ** (2 * order))

    @property
    def captured(self) -> Array:
        """``phi' K^-1 phi``: the part of ``prior`` that the splines have, (n,)."""
        if self.axis.process is None:
            return self.weights[:, 0] ** 2
        covariances = self.axis.covariances
        out = np.empty(len(self.first))
        for start in range(0, len(out), 1 << 14):
            rows = slice(start, start + (1 << 14))
            t = self.taylor[rows]
            out[rows] = np.einsum("ni,nij,nj->n", t, covariances[self.first[rows]], t)
        return out


def _taylor_at(s: Array, size: int, degree: int) -> Array:
    """Taylor coefficients at s, of powers of s: (n, size, degree + 1)."""
    # The ends are knots of the finest cells, not always of a coarser spline's last cell.
    out = np.zeros((len(s), size, degree + 1))
    for i in range(size):
        for j in range(i, degree + 1):
            out[:, i, j] = factorial(j) / (factorial(i) * factorial(j - i)) * s ** (j - i)
    return out
