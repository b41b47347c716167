"""The spline prior of one component on a grid: the chain of K, factored.

The squared RKHS norm of a stationary Markov process with operator L, noise density q and
stationary covariance P is, exactly,

    |f|^2 = 1/q integral_a^b (L f)^2 dx + F(a)' P^-1 F(a),    F = (f, f', ..., f^(p)):

an element for every cell and a boundary form at the left end (derivation in the
documentation, "The mathematics").
"""

from math import exp, factorial

import numpy as np

from asvgp.basis import Array, Grid, operator_gram, operator_nodes, taylor_shift
from asvgp.kernels import Component
from asvgp.kernels.dynamics import average_variances
from asvgp.linalg.chain import prior as chain
from asvgp.linalg.small import inverse_and_log_det
from asvgp.statistics.one_input import Statistics

_FACTORIALS = np.array([factorial(i) for i in range(8)], dtype=float)


def data_variance(kernel: Component, stats: Statistics) -> tuple[float, Array]:
    """Prior variances of what was observed, summed with their weights, and the derivatives."""
    if not stats.averaged:
        return kernel.prior_variance * stats.weight, kernel.d_prior_variance * stats.weight
    variance, d_variance = average_variances(kernel, stats.widths)
    return float(variance @ stats.width_weights), d_variance @ stats.width_weights


class Prior:
    """K = Kuu of ``kernel`` on ``grid``, in the chain coordinates of `asvgp.linalg`.

    Leading axes of the ``d_`` arrays run over ``kernel.parameters`` (their logarithms).
    """

    def __init__(self, kernel: Component, grid: Grid, degree: int):
        self.kernel = kernel
        self.grid = grid
        self.degree = degree
        self.states = (0,) * degree
        self.shift = taylor_shift(degree)
        process = kernel.markov(grid.spacing)
        order, operator = kernel.order, process.operator
        density = exp(process.log_density)
        gram = operator_gram(order + 1, degree).reshape(len(operator) ** 2, -1) / density
        square = (degree + 1, degree + 1)
        self.element = (np.outer(operator, operator).ravel() @ gram).reshape(square)
        half = (process.d_operator[:, :, None] * operator).reshape(len(process.d_operator), -1)
        half = (half @ gram).reshape(-1, *square)
        self.d_element = (
            half + half.transpose(0, 2, 1) - process.d_log_density[:, None, None] * self.element
        )
        # The stationary covariance is graded like powers of the rate: equilibrate it, so
        # that inverse and root are good to rounding at any lengthscale.
        size = order + 1
        scale = 1.0 / np.sqrt(np.diag(process.covariance))
        self._unit = process.covariance * scale[:, None] * scale
        self._taylor = _FACTORIALS[:size] * scale
        inverse = np.linalg.inv(self._unit)
        d_unit = process.d_covariance * scale[:, None] * scale
        taylor = self._taylor[:, None] * self._taylor
        self.boundary = np.zeros((degree, degree))
        self.boundary[:size, :size] = inverse * taylor
        self.d_boundary = np.zeros((len(kernel.parameters), degree, degree))
        self.d_boundary[:, :size, :size] = (-inverse @ d_unit @ inverse) * taylor
        self._process = process
        self._factor()

    @property
    def element_root(self) -> Array:
        """Rows whose Gram matrix is ``element``: the operator at the Gauss nodes of a cell."""
        nodes = operator_nodes(self.kernel.order + 1, self.degree)
        root = np.tensordot(nodes, self._process.operator, axes=(1, 0))
        return root * exp(-0.5 * self._process.log_density)

    @property
    def boundary_root(self) -> Array:
        """Rows whose Gram matrix is ``boundary``."""
        size = len(self._unit)
        root = np.zeros((self.degree, self.degree))
        root[:size, :size] = np.linalg.inv(np.linalg.cholesky(self._unit)) * self._taylor
        return root

    def _factor(self) -> None:
        n, k, parameters = self.grid.cells, self.degree, len(self.kernel.parameters)
        self.gain, self.rho = np.empty((n, k)), np.empty(n)
        self.d_gain, self.d_rho = np.empty((parameters, n, k)), np.empty((parameters, n))
        self.first, carried, d_carried = chain.factor(
            self.states,
            self.shift,
            self.element,
            self.d_element,
            self.gain,
            self.rho,
            self.d_gain,
            self.d_rho,
        )
        start = self.boundary + carried
        d_start = self.d_boundary + d_carried
        self.start_covariance, log_det = inverse_and_log_det(start)
        self.d_start_covariance = -self.start_covariance @ d_start @ self.start_covariance
        rho, d_rho = self.rho[self.first :], self.d_rho[:, self.first :]
        repeats = np.ones(len(rho))
        repeats[0] += self.first
        self.log_det = log_det + repeats @ np.log(rho)
        self.d_log_det = (d_rho / rho) @ repeats + np.sum(
            self.start_covariance * d_start, axis=(1, 2)
        )

    def missed(self, stats: Statistics) -> tuple[float, Array]:
        """The prior variance that the splines miss, summed over the data, and its derivatives."""
        variance, d_variance = data_variance(self.kernel, stats)
        trace, d_trace = self.trace(stats)
        return variance - trace, d_variance - d_trace

    def trace(self, stats: Statistics) -> tuple[float, Array]:
        """``tr(K^-1 G)`` and its derivatives."""
        return self.trace_of(stats.pair, stats.cumulative)

    def trace_of(self, pair: Array, cumulative: Array) -> tuple[float, Array]:
        """The same from running sums of moments and their places; see `Statistics`."""
        d_trace = np.empty(len(self.kernel.parameters))
        trace = self._marginals(pair, cumulative, d_trace, np.empty((0, 0, 0)))
        return trace, d_trace

    def covariances(self) -> Array:
        """Covariance of every cell's coefficients, (cells, k + 1, k + 1)."""
        n, k = self.grid.cells, self.degree
        cov = np.empty((n, k + 1, k + 1))
        pair, nothing = np.zeros((k + 1, k + 1), dtype=np.uint32), np.zeros((n + 1, 1))
        self._marginals(pair, nothing, np.empty(len(self.kernel.parameters)), cov)
        return cov

    def _marginals(self, pair: Array, cumulative: Array, d_trace: Array, cov: Array) -> float:
        return chain.marginals(
            self.states,
            self.shift,
            self.first,
            self.gain,
            self.rho,
            self.d_gain,
            self.d_rho,
            self.start_covariance,
            self.d_start_covariance,
            pair,
            cumulative,
            d_trace,
            cov,
        )
