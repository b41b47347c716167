"""Averages of covariances over ranges of lags, of any length, by quadrature that resolves them.

A covariance is smooth but at lag zero and, if it is periodic, at whole periods. Ranges shorter than
what it changes over are cut there and take a few Gauss nodes. Longer ones are differences of
integrals from zero, which are tabulated once, on panels that the covariance is smooth on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, comb, inf, pi, sqrt

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import SHO, Component, Periodic, Product
from asvgp.posterior.covariances import Covariances
from asvgp.runtime.lazy import cached_property

Part = Component | Product

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0
_FORGOTTEN = 45.0  # decay lengths: exp(-45) times a cubic is below rounding
_PANELS = 1 << 14  # at a time


def lag_covariance(parts: Sequence[Part], lag: Array, i: int = 0, j: int = 0) -> Array:
    """Return the prior covariance of derivative i at x + lag with derivative j at x."""
    out = np.zeros(np.shape(lag))
    for part in parts:
        processes = [Covariances(factor) for factor in part.factors]
        out += part.variance * _product(processes, lag, i, j)
    return out


def _product(processes: list[Covariances], lag: Array, i: int, j: int) -> Array:
    """Apply the rule of Leibniz to a product of processes of variance one."""
    first, *rest = processes
    if not rest:
        return first(lag, i, j)
    out = np.zeros(np.shape(lag))
    for a in range(i + 1):
        for b in range(j + 1):
            both = first(lag, a, b) * _product(rest, lag, i - a, j - b)
            out += comb(i, a) * comb(j, b) * both
    return out


class LagIntegrals:
    """Averages over lags of the covariance of one part of a kernel.

    Examples
    --------
    >>> from asvgp import Matern12
    >>> averages = LagIntegrals(Matern12())
    >>> lags = np.array([-1.0]), np.array([2.0])  # a third of 2 - exp(-1) - exp(-2)
    >>> averages.mean(*lags).round(6)
    array([0.498928])
    """

    def __init__(self, part: Part):
        self.part = part
        widths, reaches = zip(*(_scales(factor) for factor in part.factors), strict=True)
        self.panel, self.reach, self.period = min(widths), min(reaches), inf
        for factor in part.factors:
            if isinstance(factor, Periodic):
                self.period = factor.period
                self.panel = factor.period / ceil(factor.period / self.panel)

    def mean(self, low: Array, high: Array) -> Array:
        """Return averages over the lags from ``low`` to ``high``; at a lag if both are the same."""
        return self._average(low, high, rising=False)

    def rising(self, start: Array, stop: Array) -> Array:
        """Return averages with weights that rise in proportion to the distance from ``start``."""
        return self._average(start, stop, rising=True)

    def _average(self, start: Array, stop: Array, rising: bool) -> Array:
        start, stop = np.broadcast_arrays(start, stop)
        short = np.abs(stop - start) <= self.panel
        if short.all():
            return self._short(start, stop, rising)
        if not short.any():
            return self._long(start, stop, rising)
        out = np.empty(start.shape)
        out[short] = self._short(start[short], stop[short], rising)
        out[~short] = self._long(start[~short], stop[~short], rising)
        return out

    def _short(self, start: Array, stop: Array, rising: bool) -> Array:
        """Take Gauss nodes on both sides of the one kink that a short range may have inside."""
        middle = 0.5 * (start + stop)
        kink = self.period * np.rint(middle / self.period) if self.period < inf else 0.0
        kink = np.clip(kink, np.minimum(start, stop), np.maximum(start, stop))
        length = np.where(stop == start, 1.0, stop - start)
        out = np.zeros(start.shape)
        for a, b in ((start, kink), (kink, stop)):
            share = np.where(stop == start, 0.5, (b - a) / length)
            if not np.any(share):
                continue
            lag = a[..., None] + (b - a)[..., None] * _NODES
            values = lag_covariance([self.part], lag)
            if rising:
                weight = 2.0 * (lag - start[..., None]) / length[..., None]
                values *= np.where((stop == start)[..., None], 1.0, weight)
            out += share * (values @ _WEIGHTS)
        return out

    def _long(self, start: Array, stop: Array, rising: bool) -> Array:
        """Take differences of integrals from zero."""
        (zeroth_a, first_a), (zeroth_b, first_b) = self._from_zero(start), self._from_zero(stop)
        length, inside = stop - start, zeroth_b - zeroth_a
        if not rising:
            return inside / length
        return 2.0 * (first_b - first_a - start * inside) / length**2

    def _from_zero(self, lag: Array) -> tuple[Array, Array]:
        """Return the integrals of k(s) and of s k(s) over s from zero to the lag."""
        t = np.minimum(np.abs(lag), self.reach)
        turns = np.floor(t / self.period) if self.repeats else np.zeros(())
        within = t - turns * self.period if self.repeats else t
        zeroth, first = self._table(float(within.max(initial=0.0)))
        cell = np.minimum((within / self.panel).astype(np.int64), len(zeroth) - 2)
        begin = cell * self.panel
        rest = within - begin
        nodes = begin[..., None] + rest[..., None] * _NODES
        k = lag_covariance([self.part], nodes) * (rest[..., None] * _WEIGHTS)
        zero, one = zeroth[cell] + k.sum(axis=-1), first[cell] + (nodes * k).sum(axis=-1)
        if self.repeats:  # whole periods before, each with its own distance from zero
            whole, moment = zeroth[-1], first[-1]
            one += turns * moment + self.period * whole * turns * (turns - 1.0) / 2.0
            one += self.period * turns * zero
            zero += turns * whole
        return np.sign(lag) * zero, one

    @cached_property
    def repeats(self) -> bool:
        """Whether the covariance is the same in every period."""
        return self.period < inf and self.reach == inf

    def _table(self, longest: float) -> tuple[Array, Array]:
        """Return the integrals of k and s k from zero to the ends of the panels."""
        found = self.__dict__.get("_known")
        longest = self.period if self.repeats else longest
        count = max(1, ceil(longest / self.panel * (1.0 - 1e-12)))
        if found is not None and len(found[0]) > count:
            return found
        zeroth, first = np.zeros(count + 1), np.zeros(count + 1)
        for begin in range(0, count, _PANELS):
            cells = np.arange(begin, min(begin + _PANELS, count))
            nodes = self.panel * (cells[:, None] + _NODES)
            k = lag_covariance([self.part], nodes) * (self.panel * _WEIGHTS)
            zeroth[cells + 1], first[cells + 1] = k.sum(axis=1), (nodes * k).sum(axis=1)
        self._known = np.cumsum(zeroth), np.cumsum(first)
        return self._known


def _scales(factor: Component) -> tuple[float, float]:
    """Return the width on which a covariance is all but a polynomial, and how far it reaches."""
    if isinstance(factor, Periodic):
        return min(0.5 * factor.lengthscale, factor.period / 8.0), inf
    if isinstance(factor, SHO):
        omega, damping = 2.0 * pi / factor.period, 0.5 / factor.quality
        fast = damping + sqrt(max(0.0, damping**2 - 1.0))
        slow = damping if damping <= 1.0 else 1.0 / fast
        return 1.0 / (omega * max(1.0, fast)), _FORGOTTEN / (omega * slow)
    rate = sqrt(2.0 * factor.order + 1.0) / factor.resolved_length
    return 1.0 / rate, _FORGOTTEN / rate
