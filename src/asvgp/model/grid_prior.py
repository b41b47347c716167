"""K over several inputs, one object per component.

A component of the main block is a product over inputs times 1 / variance, so that everything
about its K alone is done input by input. A smooth has one input, and its functions are global
columns. What the rest of the model asks of either is in the methods below: a component whose K
is of another kind needs a class with the same ones.
"""

from __future__ import annotations

from itertools import pairwise
from math import log, prod
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.axis import Axis
from asvgp.model.devices import Device, DeviceArray
from asvgp.model.elements import permute
from asvgp.model.plan import Plan

Window = tuple[Array, Array]  # a form summed over the cells of a spline, and at its first cell


class TermForms(NamedTuple):
    """Forms of one component with P^-1 and with the mean."""

    trace: float  # tr(P^-1 K)
    energy: float  # alpha' K alpha, summed over outputs
    gradient: Array  # of the fit, with respect to the logarithms of the component's parameters


class ComponentPrior:
    """K of a component: a Kronecker product of K along the axes, over its variance."""

    def __init__(self, axes: list[Axis], variance: float):
        self.axes, self.variance = axes, variance
        self.size = prod(axis.count for axis in axes)

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        along = sum(self.size / axis.count * axis.log_det for axis in self.axes)
        return along - self.size * log(self.variance)

    def forms(self, mean: Array, inverse: list[Window], outputs: int) -> TermForms:
        """Return the forms of K with P^-1 and with the mean.

        ``mean`` is (n_1, ..., n_D, outputs). ``inverse`` is P^-1 against K of all inputs but one,
        for that one each.
        """
        scale = 1.0 / self.variance
        trace = energy = 0.0
        slopes = []
        for d, axis in enumerate(self.axes):
            total, start = inverse[d]
            first = np.moveaxis(mean, d, 0)
            applied = first
            for e, other in enumerate(self.axes):
                if e != d:
                    applied = _apply(other, applied, e + (e < d))
            rows = first.reshape(axis.count, -1), applied.reshape(axis.count, -1)
            mean_total, mean_start = pair_sums(*rows, axis)
            if d == 0:
                trace = scale * axis.form(total, start)
                energy = scale * axis.form(mean_total, mean_start)
            if axis.process is not None:
                form = axis.d_form(outputs * total + mean_total, outputs * start + mean_start)
                d_log_det = self.size / axis.count * axis.d_log_det
                slopes.append(0.5 * (outputs * d_log_det - scale * form))
        slopes.append(np.array([0.5 * (outputs * (trace - self.size) + energy)]))
        return TermForms(trace, energy, np.concatenate(slopes))


class TermPrior(ComponentPrior):
    """K of a component of the main block, with one axis per input of the block."""

    def missed(
        self, moments: DeviceArray, device: Device, weight: float, derivatives: bool = True
    ) -> tuple[float, Array]:
        """Return the prior variance that the splines miss at the data, and its derivatives.

        ``moments`` are interleaved; ``weight`` is the sum of the weights.
        """
        # tr(K^-1 G) of variance one is a sum of moments times products of polynomials.
        polynomials = [device.move(axis.variance_polynomials) for axis in self.axes]
        slopes, trace = [], 0.0
        for d, axis in enumerate(self.axes):
            along = moments
            for e in reversed(range(len(self.axes))):
                if e != d:
                    order = [*(i for i in range(along.ndim) if i != e), e]
                    along = permute(along, order) @ polynomials[e]
            trace, d_trace = axis.trace(device.back(along))
            slopes.append(-self.variance * d_trace)
            if not derivatives:
                return self.variance * max(weight - trace, 0.0), np.empty(0)
        missed = self.variance * max(weight - trace, 0.0)
        return missed, np.concatenate([*slopes, [missed]])


class SmoothPrior(ComponentPrior):
    """K of a component over an input of its own, whose functions are global columns."""

    @property
    def axis(self) -> Axis:
        """The splines along the input."""
        return self.axes[0]

    @property
    def matrix(self) -> Array:
        """K as a dense matrix."""
        return self.axis.matrix.toarray() / self.variance

    def missed(self, gram: Array, weight: float) -> tuple[float, Array]:
        """Return the variance that the splines miss, from G of the smooth, and derivatives."""
        trace, d_trace = self.axis.banded_trace(gram)
        missed = self.variance * max(weight - trace, 0.0)
        return missed, np.append(-self.variance * d_trace, missed)

    def windows(self, matrix: Array) -> Window:
        """Return the sum of a dense matrix's blocks over the cells, and the first block."""
        size, cells = self.axis.degree + 1, self.axis.grid.cells
        matrix = self.axis.unfolded(self.axis.unfolded(matrix).T)
        total = np.empty((size, size))
        for i in range(size):
            for j in range(size):
                total[i, j] = np.diagonal(matrix[i : i + cells, j : j + cells]).sum()
        return total, matrix[:size, :size]


class GridPrior:
    """K at some hyperparameters: the terms of the main block, and the smooths."""

    def __init__(self, plan: Plan, kernel: Kernel):
        self.plan, self.kernel = plan, kernel
        components = kernel.components
        self.terms = [
            TermPrior(axes, components[number].variance)
            for axes, number in zip(plan.axes(kernel), plan.terms, strict=True)
        ]
        self.smooths = [
            SmoothPrior([axis], components[number].variance)
            for axis, number in zip(plan.smooth_axes(kernel), plan.smooths, strict=True)
        ]

    @property
    def log_det(self) -> float:
        """``log|K|`` of all components; effects are not included."""
        return sum(part.log_det for part in (*self.terms, *self.smooths))

    @property
    def axes(self) -> list[list[Axis]]:
        """Axes of the terms of the main block."""
        return [term.axes for term in self.terms]

    @property
    def columns(self) -> list[slice]:
        """Places of each smooth among the global columns."""
        edges = np.cumsum([0, *(smooth.size for smooth in self.smooths)]).tolist()
        return [slice(*pair) for pair in pairwise(edges)]


def pair_sums(left: Array, right: Array, axis: Axis) -> Window:
    """Return sums over a spline's cells of products of neighbouring coefficients.

    ``left`` and ``right`` are (functions, rest).
    """
    size, cells = axis.degree + 1, axis.grid.cells
    if axis.process is None:
        return np.zeros((1, 1)), np.array([[float(np.sum(left * right))]])
    left, right = axis.unfolded(left), axis.unfolded(right)
    total, start = np.empty((size, size)), np.empty((size, size))
    for i in range(size):
        for j in range(size):
            total[i, j] = np.vdot(left[i : i + cells], right[j : j + cells])
            start[i, j] = np.vdot(left[i], right[j])
    return total, start


def _apply(axis: Axis, tensor: Array, where: int) -> Array:
    """Multiply one axis of a tensor by K of an input."""
    moved = np.moveaxis(tensor, where, 0)
    out = axis.matrix @ moved.reshape(axis.count, -1)
    return np.moveaxis(out.reshape(moved.shape), 0, where)
