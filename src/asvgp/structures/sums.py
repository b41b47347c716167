"""Sums over blocks of points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asvgp.basis import Array
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.structures.points import Points


class Sums:
    """Sums over blocks of points, of rows or of grids, on the grids of ``stats``."""

    def __init__(self, stats: Statistics):
        self.accumulator = Accumulator(stats)

    def add(
        self,
        points: Points,
        y: Array,
        weights: Array | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add points, however many."""
        y, shape = y.reshape(points.count, -1), points.shape
        if shape is not None:
            weights = None if weights is None else np.asarray(weights).reshape(shape)
            self.accumulator.add_grid(y.T.reshape(-1, *shape), points.main, weights)
            if progress is not None:
                progress(points.count)
            return
        self.accumulator.add(
            points.main,
            y,
            weights,
            smooth_inputs=points.smooths,
            covariates=points.effects,
            width=points.width,
            progress=progress,
        )

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far; infinite where y is."""
        return self.accumulator.squares

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks."""
        return self.accumulator.statistics()
