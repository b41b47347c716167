"""Covariances of functionals with f at the inputs, for posteriors that keep the inputs themselves.

On a lattice of inputs, points that lie alike between two of them share a table of lags.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Component, Product
from asvgp.model.exact import ExactEngine
from asvgp.posterior.covariances import Covariances

Part = Component | Product

NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
NODES, WEIGHTS = (NODES + 1.0) / 2.0, WEIGHTS / 2.0
_PANELS = 1 << 14  # at a time
_DIGITS = 1e8  # of a cell: places that are closer than 1 / _DIGITS are the same


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


class InputRows:
    """The inputs of an engine, and covariances with f there."""

    def __init__(self, engine: ExactEngine):
        self.spacing, self.regular = engine.lags.spacing, engine.lags.regular
        self.x, self.origin = engine.x, engine.statistics.grid.lower
        if self.regular:  # the places that the engine takes them to be at
            self.steps = engine.lags.steps
            self.origin = float(self.x[0])
            self.x = self.origin + self.spacing * self.steps

    def cross(self, parts: Sequence[Part], x: Array, order: int = 0) -> Array:
        """Return covariances of a derivative at x with f at the inputs, (m, n)."""
        if not self.regular or not len(x):
            return lag_covariance(parts, x[:, None] - self.x, order)
        place = (x - self.origin) / self.spacing
        whole = np.floor(place + 0.5 / _DIGITS)
        phases, group = np.unique(np.rint((place - whole) * _DIGITS), return_inverse=True)
        reach = np.ptp(whole) + self.steps[-1] + 1.0
        if len(phases) * reach > 0.25 * len(x) * len(self.x):
            return lag_covariance(parts, x[:, None] - self.x, order)
        out, last = np.empty((len(x), len(self.x))), self.steps[-1]
        for number, phase in enumerate(phases / _DIGITS):
            rows = np.flatnonzero(group == number)
            steps = whole[rows].astype(np.int64)
            first = int(steps.min()) - last
            lags = self.spacing * (np.arange(first, int(steps.max()) + 1) + phase)
            out[rows] = lag_covariance(parts, lags, order)[(steps - first)[:, None] - self.steps]
        return out

    def average_cross(self, parts: Sequence[Part], low: Array, high: Array) -> Array:
        """Return covariances of averages from ``low`` to ``high`` with f at the inputs, (m, n)."""
        out = np.zeros((len(low), len(self.x)))
        owner, start, stop, share = self._panels(low, high)
        # nodes of as many panels at a time as the rows of ``out`` have room for
        step = max(1, min(_PANELS, (1 << 21) // (len(NODES) * len(self.x))))
        for begin in range(0, len(owner), step):
            chunk = slice(begin, begin + step)
            nodes = start[chunk, None] + (stop - start)[chunk, None] * NODES
            rows = self.cross(parts, nodes.ravel()).reshape(*nodes.shape, -1)
            means = np.einsum("q,pqn->pn", WEIGHTS, rows, optimize=True)
            np.add.at(out, owner[chunk], share[chunk, None] * means)
        return out

    def _panels(self, low: Array, high: Array) -> tuple[np.ndarray, Array, Array, Array]:
        """Cut intervals into panels that no input is inside of; see `cut`."""
        owner, start, stop, share = cut(low, high, self.origin, self.spacing)
        if self.regular:
            return owner, start, stop, share
        after = np.append(self.x, np.inf)[np.searchsorted(self.x, start, side="right")]
        middle = np.minimum(after, stop)  # a cell has one input at most
        width = np.where(stop > start, stop - start, 1.0)
        left = np.where(stop > start, (middle - start) / width, 1.0)
        parts = (owner, start, middle, share * left), (owner, middle, stop, share * (1.0 - left))
        both = [np.concatenate(pair) for pair in zip(*parts, strict=True)]
        used = both[3] > 0.0
        return both[0][used], both[1][used], both[2][used], both[3][used]


def cut(
    low: Array, high: Array, origin: float, width: float
) -> tuple[np.ndarray, Array, Array, Array]:
    """Cut intervals at the places ``origin + k width``.

    Returns the number of the interval of every panel, its ends, and its share of the interval,
    which is one where that is a point.

    Examples
    --------
    >>> cut(np.array([0.5, 3.0]), np.array([2.0, 3.0]), 0.0, 1.0)[1:]
    (array([0.5, 1. , 3. ]), array([1., 2., 3.]), array([0.333..., 0.666..., 1.        ]))
    """
    first = np.floor((low - origin) / width).astype(np.int64)
    last = np.maximum(np.ceil((high - origin) / width).astype(np.int64), first + 1)
    counts = last - first
    owner = np.repeat(np.arange(len(low)), counts)
    cell = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first, counts)
    start = np.maximum(low[owner], origin + cell * width)
    stop = np.maximum(np.minimum(high[owner], origin + (cell + 1) * width), start)
    length = (high - low)[owner]
    share = np.where(length > 0.0, (stop - start) / np.where(length > 0.0, length, 1.0), 1.0)
    return owner, start, stop, share


class AveragePrior:
    """Prior covariances of averages over intervals, by integrals over lags.

    The lag between two uniform variables on intervals of lengths ``A >= B`` whose middles are d
    apart has a density that rises over a length B, is flat over A - B and falls again. All
    weights are positive: nothing cancels, however short the intervals are.
    """

    def __init__(self, parts: Sequence[Part], spacing: float):
        self.parts, self.spacing = parts, spacing

    def variances(self, length: Array) -> Array:
        """Return the variances of averages over intervals of these lengths."""
        lengths, index = np.unique(length, return_inverse=True)
        return self._mean(lengths, np.zeros(len(lengths)), rising=True)[index]

    def covariances(self, low: Array, high: Array) -> Array:
        """Return the covariances between averages over all intervals."""
        m = len(low)
        if not m:
            return np.empty((0, 0))
        middle, (lengths, of) = 0.5 * (low + high), np.unique(high - low, return_inverse=True)
        apart = np.abs(np.subtract.outer(middle, middle)).ravel()
        place = np.unique(np.rint(apart / self.spacing * _DIGITS), return_inverse=True)[1]
        longer, shorter = np.maximum.outer(of, of).ravel(), np.minimum.outer(of, of).ravel()
        code = (place.ravel() * len(lengths) + longer) * len(lengths) + shorter
        _, which, index = np.unique(code, return_index=True, return_inverse=True)
        values = self._pairs(apart[which], lengths[longer[which]], lengths[shorter[which]])
        return values[index].reshape(m, m)

    def _pairs(self, d: Array, long: Array, short: Array) -> Array:
        inner, outer = 0.5 * (long - short), 0.5 * (long + short)
        slope = np.where(long > 0.0, 0.5 * short / np.where(long > 0.0, long, 1.0), 0.0)
        out = (1.0 - 2.0 * slope) * self._mean(d - inner, d + inner)
        for side in (-1.0, 1.0):
            out += slope * self._mean(d + side * outer, d + side * inner, rising=True)
        return out

    def _mean(self, start: Array, stop: Array, rising: bool = False) -> Array:
        """Return averages of the covariance over lags, with weights that may rise from zero."""
        out = np.zeros(len(start))
        owner, low, high, share = cut(
            np.minimum(start, stop), np.maximum(start, stop), 0.0, self.spacing
        )
        length = (stop - start)[owner]
        for begin in range(0, len(owner), _PANELS):
            chunk = slice(begin, begin + _PANELS)
            lag = low[chunk, None] + (high - low)[chunk, None] * NODES
            values = lag_covariance(self.parts, lag)
            if rising:
                whole = np.where(length[chunk] == 0.0, 1.0, length[chunk])[:, None]
                weight = 2.0 * (lag - start[owner[chunk], None]) / whole
                values *= np.where(length[chunk, None] == 0.0, 1.0, weight)
            np.add.at(out, owner[chunk], share[chunk] * (values @ WEIGHTS))
        return out
