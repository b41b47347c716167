"""Linear functionals of a field at points: evaluation and derivatives, anywhere.

Along each input a term's functional is a row of k + 1 weights on the functions of one cell
of its splines, beyond the ends too (by the Markov property, on those of the end cell); over
several inputs it is the product of such rows.
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array, bspline_coefficients
from asvgp.model.axis import Axis
from asvgp.posterior.tails import Splines


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
        self.splines = Splines(
            axis.process, axis.grid, axis.degree, (axis.fine.lower, axis.fine.upper)
        )
        self.first, self.taylor = self.splines.rows(x, order)
        self.weights = self.taylor @ bspline_coefficients(axis.degree).T
        self.prior = float(self.splines.covariance(np.zeros(1), order)[0])

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
