"""A sum of kernels on one grid: the components' priors joined into one chain."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel
from asvgp.model.prior import Prior
from asvgp.statistics.one_input import Statistics


class Model:
    """K of a kernel on a grid: block-diagonal over its components, one chain with the data.

    Parameters
    ----------
    kernel : Kernel
    grid : Grid
    degree : int or tuple of int
        Spline degree, of all components or of each.
    """

    def __init__(self, kernel: Kernel, grid: Grid, degree: int | tuple[int, ...]):
        self.kernel, self.grid = kernel, grid
        components = kernel.components
        degrees = (degree,) * len(components) if isinstance(degree, int) else degree
        self.degrees = degrees
        self.priors = [Prior(c, grid, k) for c, k in zip(components, degrees, strict=True)]
        n, size = sum(degrees), sum(degrees) + len(degrees)
        self.states, self.innovations = (0,) * n, (0,) * len(degrees)
        self.where: list[Array]
        if len(self.priors) == 1:  # the common case, without the bookkeeping
            (prior,) = self.priors
            self.power = np.arange(size)
            self.shift, self.element, self.boundary = prior.shift, prior.element, prior.boundary
            self.where = [self.power]
            return
        self.power = np.zeros(size, dtype=np.int64)
        self.shift = np.zeros((n, size))
        self.element, self.boundary = np.zeros((size, size)), np.zeros((n, n))
        self.where = []  # positions of each component's coefficients
        first = 0
        for number, prior in enumerate(self.priors):
            k = prior.degree
            where = np.append(np.arange(first, first + k), n + number)
            self.where.append(where)
            self.power[where] = np.arange(k + 1)
            self.shift[np.ix_(where[:k], where)] = prior.shift
            self.element[np.ix_(where, where)] = prior.element
            self.boundary[np.ix_(where[:k], where[:k])] = prior.boundary
            first += k

    @property
    def num_states(self) -> int:
        """Derivatives carried from knot to knot, over all components."""
        return len(self.states)

    @property
    def size(self) -> int:
        """Number of basis functions, over all components."""
        return len(self.states) + len(self.innovations) * self.grid.cells

    def pair(self, stats: Statistics) -> Array:
        """The column of the moments that multiplies each two coefficients of a cell."""
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

    def missed(self, stats: Statistics) -> tuple[float, Array]:
        """The prior variance that the splines miss, summed over the data, and its derivatives."""
        parts = [prior.missed(stats) for prior in self.priors]
        return float(sum(t for t, _ in parts)), np.concatenate([d for _, d in parts])

    def d_log_det(self) -> Array:
        """Derivatives of ``log|K|``."""
        return np.concatenate([prior.d_log_det for prior in self.priors])

    def d_form(self, total: Array, start: Array) -> Array:
        """Derivatives of ``sum_c tr(element total_c) + tr(boundary start)``, total summed."""
        parts = []
        for where, prior in zip(self.where, self.priors, strict=True):
            own, own_start = total, start
            if len(self.priors) > 1:
                own = total[np.ix_(where, where)]
                own_start = start[np.ix_(where[:-1], where[:-1])]
            parts.append(
                np.sum(prior.d_element * own, axis=(1, 2))
                + np.sum(prior.d_boundary * own_start, axis=(1, 2))
            )
        return np.concatenate(parts)

    def form(self, total: Array, start: Array) -> float:
        """``sum_c tr(element total_c) + tr(boundary start)``."""
        return float(np.sum(self.element * total) + np.sum(self.boundary * start))
