"""Sums over blocks of points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asvgp.basis import Array
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator, block_rows
from asvgp.structures.points import Points


class Sums:
    """Sums over blocks of points, of rows or of grids.

    Parameters
    ----------
    stats : Statistics
        On whose grids they are; the data in them are not added.
    """

    def __init__(self, stats: Statistics):
        self.accumulator = Accumulator(stats)

    def add(
        self,
        points: Points,
        y: Array,
        weights: Array | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add points, however many: rows in blocks of the length that every source has."""
        y, shape = y.reshape(points.count, -1), points.shape
        if shape is not None:
            weights = None if weights is None else np.asarray(weights).reshape(shape)
            self.accumulator.add_grid(y.T.reshape(-1, *shape), points.main, weights)
            if progress is not None:
                progress(points.count)
            return
        main, smooths, effects, width = points.main, points.smooths, points.effects, points.width
        rows = block_rows(len(main) + len(smooths) + len(effects) + y.shape[1])
        for begin in range(0, max(len(y), 1), rows):
            block = slice(begin, begin + rows)
            self.accumulator.add(
                [column[block] for column in main],
                y[block],
                None if weights is None else weights[block],
                smooth_inputs=[column[block] for column in smooths],
                covariates=[column[block] for column in effects],
                width=None if width is None else width[block],
                progress=progress,
            )

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far; infinite where y is."""
        return self.accumulator.squares

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks."""
        return self.accumulator.statistics()
