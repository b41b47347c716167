"""A kernel's process in continuous time: ``exp(A t)`` and what follows from it.

With the state ``F = (f, f', ..., f^(p))``, ``dF = A F dt + noise`` and the stationary
covariance C, ``cov(F(x + t), F(x)) = exp(A t) C`` for ``t >= 0``.
"""

from __future__ import annotations

from math import ceil, exp, log2

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Component

_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix per row
# Nodes and weights on a panel: exact to rounding up to _NEAR memories
_GAUSS = np.polynomial.legendre.leggauss(20)
_NEAR = 4.0
_STEP = 2e-3  # of a log-hyperparameter: differences of fourth order are good to 1e-12


class Dynamics:
    """``exp(A t)`` of one component and its integrals, in the component's own unit of time.

    The state is ``(f, f' unit, ..., f^(p) unit**p)``. Since ``A`` is a companion matrix, row
    r of ``exp(A t)`` is row 0, the kernel's ``transition``, times ``A**r``.

    Examples
    --------
    >>> from asvgp import Matern12
    >>> Dynamics(Matern12(2.0)).matrices([0.0, 2.0]).round(3).tolist()
    [[[1.0]], [[0.368]]]
    """

    def __init__(self, kernel: Component):
        self.kernel = kernel
        size = kernel.order + 1
        self.size = size
        # In this unit the characteristic roots have a geometric mean of one.
        self.unit = float(kernel.memory / kernel.markov(kernel.memory).operator[0] ** (1.0 / size))
        process = kernel.markov(self.unit)
        self.stationary = process.covariance
        self.generator = np.eye(size, k=1)
        self.generator[-1] = -process.operator[:-1]
        self.powers = np.stack([np.linalg.matrix_power(self.generator, r) for r in range(size)])
        roots = np.abs(np.linalg.eigvals(self.generator))
        self.near = _NEAR * self.unit / float(roots.min())
        # Short of ``near``, integrals by quadrature on panels that shrink towards zero.
        panels = max(0, ceil(log2(roots.max() / roots.min()) - 1e-2))
        edges = np.concatenate([[0.0], 2.0 ** np.arange(-panels, 1)])
        nodes, weights = _GAUSS
        widths = np.diff(edges)
        self.nodes = (edges[:-1, None] + widths[:, None] * (nodes + 1.0) / 2.0).ravel()
        self.node_weights = (widths[:, None] * weights / 2.0).ravel()

    def rows(self, lag) -> Array:
        """Return row 0 of ``exp(A lag)``, shape (*lag.shape, p + 1)."""
        lag = np.asarray(lag, dtype=float)
        return self.kernel.transition(lag) / self.unit ** np.arange(self.size)

    def matrices(self, lag) -> Array:
        """Return ``exp(A lag)``, shape (*lag.shape, p + 1, p + 1)."""
        return np.einsum("...i,rij->...rj", self.rows(lag), self.powers)

    def average_rows(self, length) -> Array:
        """Return row 0 of the average of ``exp(A t)`` over t from 0 to each length, (m, p + 1)."""
        out = np.empty((len(length), self.size))
        near = length <= self.near
        for rows in _chunks(np.flatnonzero(near)):
            values = self.rows(length[rows, None] * self.nodes)
            out[rows] = np.einsum("q,tqi->ti", self.node_weights, values)
        t = length[~near, None] / self.unit
        change = self.rows(length[~near]) - np.eye(self.size)[0]
        out[~near] = change @ np.linalg.inv(self.generator) / t
        return out

    def average_variance(self, length) -> Array:
        """Return the prior variance of averages of f over intervals of these lengths, (m,)."""
        out = np.empty(len(length))
        near = length <= self.near
        weights = 2.0 * self.node_weights * (1.0 - self.nodes)
        for rows in _chunks(np.flatnonzero(near)):
            out[rows] = self.kernel.covariance(length[rows, None] * self.nodes) @ weights
        inverse = np.linalg.inv(self.generator)
        own = self.stationary[:, 0]
        t = length[~near] / self.unit
        change = self.rows(length[~near]) - np.eye(self.size)[0]
        out[~near] = 2.0 * (change @ (inverse @ inverse @ own) / t - inverse[0] @ own) / t
        return out


def average_variances(kernel: Component, length: Array) -> tuple[Array, Array]:
    """Return `Dynamics.average_variance` and its derivatives by the log-hyperparameters.

    The variance depends on a scale of the kernel through length / scale alone, and with
    ``V(L) = 2 / L**2 * integral of (L - t) k(t)`` the derivative with respect to log L is
    twice what the mean of k over [0, L] exceeds V by. Shapes: (m,) and (parameters, m).

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> variance, derivatives = average_variances(Matern32(1.0), np.array([0.0, 2.0]))
    >>> variance.round(3).tolist()
    [1.0, 0.688]
    >>> derivatives.round(3).tolist()
    [[0.0, 0.321], [1.0, 0.688]]
    """
    dynamics = Dynamics(kernel)
    variance = dynamics.average_variance(length)
    derivatives = np.empty((len(kernel.parameters), len(length)))
    for row, name in zip(derivatives, kernel.parameters, strict=True):
        if name in kernel.scales:
            row[:] = 2.0 * (variance - dynamics.average_rows(length) @ dynamics.stationary[:, 0])
        elif name == kernel.parameters[-1]:  # the variance
            row[:] = variance
        else:
            near, far = (_difference(kernel, name, step, length) for step in (_STEP, 2.0 * _STEP))
            row[:] = (8.0 * near - far) / (12.0 * _STEP)
    return variance, derivatives


def _difference(kernel: Component, name: str, step: float, length: Array) -> Array:
    """Return the difference of the variances at one log-step up and one down."""
    value, free = getattr(kernel, name), kernel.replace(fixed=(), bounds={})
    moved = (free.replace(**{name: value * exp(change)}) for change in (step, -step))
    up, down = (Dynamics(each).average_variance(length) for each in moved)
    return up - down


def _chunks(rows: np.ndarray):
    """Yield row numbers, a few thousand at a time."""
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]
