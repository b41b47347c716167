"""Moments on the finest cells along one input, and what every evaluation needs of them.

Sums on wider cells depend on the data alone. They are made when first needed and kept.
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.statistics.nesting import coarsen_sums, power_maps


class CellMoments:
    """Moments per finest cell in powers of s, (cells, powers).

    Examples
    --------
    >>> moments = CellMoments(np.array([[1.0, 0.5], [2.0, 1.0], [4.0, 4.0]]))
    >>> moments.coarse(1, 2).tolist()
    [[3.0, 1.75], [4.0, 2.0]]
    >>> moments.folded(2, 1).ravel().tolist()
    [5.0, 2.0]
    """

    def __init__(self, finest: Array):
        self.finest = finest
        self._levels = [finest]
        self._kept: dict[tuple, Array] = {}

    def coarse(self, level: int, size: int) -> Array:
        """Return the first ``size`` moments on cells ``2**level`` times as wide."""
        halves = power_maps(self.finest.shape[1] - 1, 2)
        while len(self._levels) <= level:
            self._levels.append(coarsen_sums(self._levels[-1], 0, 1, halves))
        return self._levels[level][:, :size]

    def cumulative(self, level: int, size: int) -> Array:
        """Return running sums of `coarse`, beginning with zeros."""
        key = "cumulative", level, size
        if key not in self._kept:
            coarse = self.coarse(level, size)
            sums = np.zeros((len(coarse) + 1, size))
            np.cumsum(coarse, axis=0, out=sums[1:])
            self._kept[key] = sums
        return self._kept[key]

    def folded(self, width: int, size: int) -> Array:
        """Return sums over cells whose numbers are equal modulo ``width``, (width, size)."""
        key = "folded", width, size
        if key not in self._kept:
            table = self.finest[:, :size]
            padded = np.zeros((-(-len(table) // width) * width, size))
            padded[: len(table)] = table
            self._kept[key] = padded.reshape(-1, width, size).sum(axis=0)
        return self._kept[key]

    def joined(self, parts: Array) -> Array:
        """Return sums over cells of their own, each from ``len(parts)`` finest ones by matrices.

        ``parts`` has the shape (width, out, powers).
        """
        key = "joined", parts.shape
        if key not in self._kept:
            width, out, size = parts.shape
            rows = -(-len(self.finest) // width)
            padded = np.zeros((rows * width, size))
            padded[: len(self.finest)] = self.finest[:, :size]
            flat = parts.transpose(0, 2, 1).reshape(width * size, out)
            self._kept[key] = padded.reshape(rows, width * size) @ flat
        return self._kept[key]
