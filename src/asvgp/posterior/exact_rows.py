"""Covariances of functionals with f at the inputs, for posteriors that keep the inputs themselves.

On a lattice of inputs, points that lie alike between two of them share a table of lags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

from asvgp.basis import Array
from asvgp.model.exact import ExactEngine
from asvgp.posterior.lag_integrals import LagIntegrals, Part, lag_covariance

_DIGITS = 1e8  # of a cell: places that are closer than 1 / _DIGITS are the same
_ENTRIES = 1 << 18  # of a matrix of averages at a time
_FEW_LENGTHS = 8  # of intervals at regular inputs: then tables of lags are shared


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
        return self._by_lags(lambda lag: lag_covariance(parts, lag, order), x)

    def _by_lags(self, function: Callable[[Array], Array], x: Array) -> Array:
        """Return a function of the lags between x and the inputs, (m, n)."""
        if not self.regular or not len(x):
            return function(x[:, None] - self.x)
        place = (x - self.origin) / self.spacing
        whole = np.floor(place + 0.5 / _DIGITS)
        phases, group = np.unique(np.rint((place - whole) * _DIGITS), return_inverse=True)
        reach = np.ptp(whole) + self.steps[-1] + 1.0
        if len(phases) * reach > 0.25 * len(x) * len(self.x):
            return function(x[:, None] - self.x)
        out, last = np.empty((len(x), len(self.x))), self.steps[-1]
        for number, phase in enumerate(phases / _DIGITS):
            rows = np.flatnonzero(group == number)
            steps = whole[rows].astype(np.int64)
            first = int(steps.min()) - last
            lags = self.spacing * (np.arange(first, int(steps.max()) + 1) + phase)
            out[rows] = function(lags)[(steps - first)[:, None] - self.steps]
        return out

    def average_cross(self, parts: Sequence[Part], low: Array, high: Array) -> Array:
        """Return covariances of averages from ``low`` to ``high`` with f at the inputs, (m, n)."""
        integrals = [LagIntegrals(part) for part in parts]
        out, step = np.empty((len(low), len(self.x))), max(1, _ENTRIES // len(self.x))
        lengths, of = np.unique(np.rint((high - low) / self.spacing * _DIGITS), return_inverse=True)
        if self.regular and len(lengths) <= _FEW_LENGTHS:
            for number in range(len(lengths)):
                rows = np.flatnonzero(of == number)
                length = float((high - low)[rows[0]])
                for chunk in np.array_split(rows, ceil(len(rows) / step)):
                    out[chunk] = self._by_lags(
                        lambda lag, length=length: _summed(integrals, lag, lag + length), low[chunk]
                    )
            return out
        for begin in range(0, len(low), step):
            chunk = slice(begin, begin + step)
            ends = (end[chunk, None] - self.x for end in (low, high))
            out[chunk] = _summed(integrals, *ends)
        return out


def _summed(integrals: Sequence[LagIntegrals], low: Array, high: Array) -> Array:
    """Return averages over lags of a sum of covariances."""
    out = np.zeros(np.shape(low))
    for part in integrals:
        out += part.mean(low, high)
    return out


class AveragePrior:
    """Prior covariances of averages over intervals, by integrals over lags.

    The lag between two uniform variables on intervals of lengths ``A >= B`` whose middles are d
    apart has a density that rises over a length B, is flat over A - B and falls again. All
    weights are positive: nothing cancels, however short the intervals are.
    """

    def __init__(self, parts: Sequence[Part], spacing: float):
        self.integrals, self.spacing = [LagIntegrals(part) for part in parts], spacing

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
        for part in self.integrals:
            out += part.rising(start, stop) if rising else part.mean(start, stop)
        return out
