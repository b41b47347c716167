"""The spline prior along one input: K of one component, factored, and of a sum of them.

The squared RKHS norm of a stationary Markov process with operator L, noise density q and
stationary covariance P is, exactly,

    |f|^2 = 1/q integral_a^b (L f)^2 dx + F(a)' P^-1 F(a),    F = (f, f', ..., f^(p)):

an element for every cell and a boundary form at the left end (derivation in the
documentation, "The mathematics").
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, factorial
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, Grid, operator_gram, operator_nodes, taylor_shift
from asvgp.kernels import Component, Kernel
from asvgp.kernels.dynamics import average_variances
from asvgp.linalg.chain import prior as chain
from asvgp.linalg.unrolled import Markers, markers_of
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics

_FACTORIALS = np.array([factorial(i) for i in range(8)], dtype=float)


def data_variance(kernel: Component, stats: Statistics) -> tuple[float, Array]:
    """Return the weighted sum of the prior variances of the observations, and its derivatives."""
    if not stats.averaged:
        return kernel.prior_variance * stats.weight, kernel.d_prior_variance * stats.weight
    variance, d_variance = average_variances(kernel, stats.widths)
    return float(variance @ stats.width_weights), d_variance @ stats.width_weights


class Prior:
    """K = Kuu of ``kernel`` on ``grid``, in the chain coordinates of `asvgp.linalg`.

    Leading axes of the ``d_`` arrays run over ``kernel.parameters`` (their logarithms).
    """

    def __init__(self, kernel: Component, grid: Grid, degree: int):
        self.kernel, self.grid, self.degree = kernel, grid, degree
        self.markers = markers_of((degree,))
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

    @property
    def growth(self) -> Array:
        """Powers of the parameters that K grows with, but for lower derivatives."""
        return -self._process.d_log_density

    @property
    def innovation_rows(self) -> Array:
        """Rows, one a cell, whose squares on its coefficients add up to K but for the first state.

        What K is on the first state is ``start``.
        """
        row = np.maximum(np.arange(len(self.rho)), self.first)
        gain = np.append(self.gain[row], np.ones((len(row), 1)), axis=1)
        return gain * np.sqrt(self.rho[row])[:, None]

    def _factor(self) -> None:
        n, k, parameters = self.grid.cells, self.degree, len(self.kernel.parameters)
        self.gain, self.rho = np.empty((n, k)), np.empty(n)
        self.d_gain, self.d_rho = np.empty((parameters, n, k)), np.empty((parameters, n))
        out = self.gain, self.rho, self.d_gain, self.d_rho
        carried, d_carried = np.zeros((k, k)), np.zeros((parameters, k, k))
        state = carried, d_carried, np.empty(k)
        self.first = chain.factor(self.markers, self.element, self.d_element, *out, *state)
        start = self.boundary + carried
        self.start = start  # the form left on the first state
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
        """Return the prior variance that the splines miss at the data, summed, and derivatives."""
        variance, d_variance = data_variance(self.kernel, stats)
        trace, d_trace = self.trace(stats.pair, stats.cumulative)
        return variance - trace, d_variance - d_trace

    def trace(self, pair: Array, cumulative: Array) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` and its derivatives.

        ``cumulative`` are running sums of moments, laid out by ``pair``; see `Statistics`.
        """
        traces = self._marginals(pair, cumulative, np.empty((0, 0, 0)))
        return float(traces[0]), traces[1:]

    def d_form(self, total: Array, start: Array) -> Array:
        """Return the derivatives of ``tr(element total) + tr(boundary start)``."""
        of_cells = np.sum(self.d_element * total, axis=(1, 2))
        return of_cells + np.sum(self.d_boundary * start, axis=(1, 2))

    def covariances(self) -> Array:
        """Return the prior covariance of every cell's coefficients, (cells, k + 1, k + 1)."""
        n, k = self.grid.cells, self.degree
        cov = np.empty((n, k + 1, k + 1))
        self._marginals(np.zeros((k + 1, k + 1), dtype=np.uint32), np.zeros((n + 1, 1)), cov)
        return cov

    def _marginals(self, pair: Array, cumulative: Array, cov: Array) -> Array:
        """Return ``tr(K^-1 G)``, followed by its derivatives."""
        size, count = self.degree + 1, 1 + len(self.d_rho)
        traces, scratch = np.zeros(count), (np.empty((count, size, size)), np.empty((size, size)))
        factor = self.gain, self.rho, self.d_gain, self.d_rho
        states = self.start_covariance.copy(), self.d_start_covariance.copy()
        chain.marginals(
            self.markers, self.first, factor, *states, pair, cumulative, *scratch, traces, cov
        )
        return traces


class Layout(NamedTuple):
    """Places of the components' coefficients in a cell of their joint chain."""

    markers: Markers  # as long as the degrees, in the order of the cell: compiled code goes by them
    power: np.ndarray  # power of s that each coefficient of a cell multiplies
    shift: Array  # takes a cell's coefficients to the states at its end
    where: tuple[np.ndarray, ...]  # places of each component's coefficients, the innovation last


@lru_cache(maxsize=256)
def layout(degrees: tuple[int, ...]) -> Layout:
    """Return the layout of components with these degrees.

    Components lie in the order of their degrees, whatever their order in the kernel: sums that
    differ in nothing else share compiled code.
    """
    n, size = sum(degrees), sum(degrees) + len(degrees)
    order = sorted(range(len(degrees)), key=degrees.__getitem__)
    power, shift = np.zeros(size, dtype=np.int64), np.zeros((n, size))
    where, first = [np.empty(0, dtype=np.int64)] * len(degrees), 0
    for place, number in enumerate(order):
        k = degrees[number]
        places = np.append(np.arange(first, first + k), n + place)
        where[number] = places
        power[places] = np.arange(k + 1)
        shift[np.ix_(places[:k], places)] = taylor_shift(k)
        first += k
    return Layout(markers_of(tuple(sorted(degrees))), power, shift, tuple(where))


class ChainPrior:
    """K of a kernel on one grid: block-diagonal over its components, joined into one chain.

    ``degree`` is the spline degree of all components, or has one per component.
    """

    def __init__(self, kernel: Kernel, grid: Grid, degree: int | tuple[int, ...]):
        self.kernel, self.grid, components = kernel, grid, kernel.components
        self.degrees = (degree,) * len(components) if isinstance(degree, int) else degree
        self.num_states = sum(self.degrees)  # derivatives carried from knot to knot
        self.size = self.num_states + len(components) * grid.cells  # number of basis functions
        self.priors = [Prior(c, grid, k) for c, k in zip(components, self.degrees, strict=True)]
        self.markers, self.power, self.shift, self.where = layout(self.degrees)
        if len(self.priors) == 1:
            (prior,) = self.priors
            self.element, self.boundary = prior.element, prior.boundary
            return
        n, size = self.num_states, len(self.power)
        self.element, self.boundary = np.zeros((size, size)), np.zeros((n, n))
        for where, prior in zip(self.where, self.priors, strict=True):
            self.element[np.ix_(where, where)] = prior.element
            self.boundary[np.ix_(where[:-1], where[:-1])] = prior.boundary

    def pair(self, stats: Statistics) -> Array:
        """Return the column of the moments that multiplies each two coefficients of a cell."""
        if len(self.power) == len(stats.pair):  # one component
            return stats.pair
        return stats.pair[self.power[:, None], self.power]

    @cached_property
    def element_root(self) -> Array:
        """A root of ``element``, the components' rows one after the other."""
        roots = [prior.element_root for prior in self.priors]
        out = np.zeros((sum(len(root) for root in roots), len(self.power)))
        first = 0
        for where, root in zip(self.where, roots, strict=True):
            out[first : first + len(root), where] = root
            first += len(root)
        return out

    @cached_property
    def boundary_root(self) -> Array:
        """A root of ``boundary``."""
        out = np.zeros_like(self.boundary)
        for where, prior in zip(self.where, self.priors, strict=True):
            out[np.ix_(where[:-1], where[:-1])] = prior.boundary_root
        return out

    @property
    def log_det(self) -> float:
        """``log|K|`` in chain coordinates."""
        return float(sum(prior.log_det for prior in self.priors))

    def missed(self, stats: Statistics) -> tuple[Array, Array]:
        """Return the variance that the splines miss at the data per component, and derivatives."""
        parts = [prior.missed(stats) for prior in self.priors]
        return np.array([t for t, _ in parts]), np.concatenate([d for _, d in parts])

    def d_log_det(self) -> Array:
        """Return the derivatives of ``log|K|``."""
        return np.concatenate([prior.d_log_det for prior in self.priors])

    def d_form(self, total: Array, start: Array) -> Array:
        """Return the derivatives of `form`."""
        parts = []
        for where, prior in zip(self.where, self.priors, strict=True):
            cells, first = total, start
            if len(self.priors) > 1:
                cells = total[np.ix_(where, where)]
                first = start[np.ix_(where[:-1], where[:-1])]
            parts.append(prior.d_form(cells, first))
        return np.concatenate(parts)

    def form(self, total: Array, start: Array) -> float:
        """Return ``tr(element total) + tr(boundary start)``, ``total`` being summed over cells."""
        return float(np.sum(self.element * total) + np.sum(self.boundary * start))


def inverse_and_log_det(matrix: Array) -> tuple[Array, float]:
    """Return inverse and log-determinant of a small positive definite matrix, after scaling it."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    root = np.linalg.cholesky(matrix * scale[:, None] * scale)
    log_det = 2.0 * float(np.log(np.diag(root) / scale).sum())
    half = np.linalg.inv(root) * scale
    return half.T @ half, log_det
