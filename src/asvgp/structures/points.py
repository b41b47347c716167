"""Points of a model of several inputs, and sums over blocks of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import add

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import spread
from asvgp.policies import PILOT
from asvgp.statistics.accumulator import FieldAccumulator
from asvgp.statistics.gridded import GridSums
from asvgp.statistics.several_inputs import FieldStatistics


@dataclass(frozen=True, eq=False)
class FieldPoints:
    """Columns of the main block, of the smooths and of the effects, each a list of arrays.

    Of points on a grid, ``shape`` is the grid's and the main block's columns are its axes.
    """

    main: list[Array]
    smooths: list[Array]
    effects: list[Array]
    shape: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        if self.shape is not None:
            return prod(self.shape)
        return len((*self.main, *self.smooths)[0])

    def expanded(self) -> FieldPoints:
        """The same points with their coordinates written out."""
        if self.shape is None:
            return self
        return FieldPoints(spread(self.main, self.shape), self.smooths, self.effects)

    def sampled(self, y: Array) -> tuple[list[Array], Array, list[Array]]:
        """Columns of the main block, y and effects, of a large grid at some points at random."""
        if self.shape is None:
            return self.main, y, self.effects
        rows = np.arange(min(self.count, PILOT.rows))
        if self.count > PILOT.rows:
            rows = np.random.default_rng(0).integers(self.count, size=PILOT.rows)
        places = np.unravel_index(rows, self.shape)
        return [x[i] for x, i in zip(self.main, places, strict=True)], y[rows], []


class FieldSums:
    """Sums over blocks of points, of rows or of grids.

    Parameters
    ----------
    stats : FieldStatistics
        Whose grids they are on.
    """

    def __init__(self, stats: FieldStatistics):
        self.stats = stats
        self.rows: FieldAccumulator | None = None
        self.grid: GridSums | None = None

    def add(self, points: FieldPoints, y, weights, progress=None) -> None:
        """One block."""
        stats, shape = self.stats, points.shape
        y = np.asarray(y).reshape(points.count, -1)
        if shape is None:
            if self.rows is None:
                self.rows = FieldAccumulator(stats.emptied())
            self.rows.add(points.main, y, weights, points.smooths, points.effects, progress)
            return
        if self.grid is None:
            self.grid = GridSums(stats.grids, stats.degrees, stats.outputs, stats.centre)
        weights = None if weights is None else np.asarray(weights).reshape(shape)
        self.grid.add(y.T.reshape(-1, *shape), points.main, weights)
        if progress is not None:
            progress(points.count)

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far."""
        return np.sum([part.squares for part in (self.rows, self.grid) if part is not None], axis=0)

    def statistics(self) -> FieldStatistics:
        """Of all blocks."""
        parts = [] if self.rows is None else [self.rows.statistics()]
        if self.grid is not None:  # beside which at most an intercept stands
            new = FieldStatistics.of_grid(self.grid)
            parts.append(new.with_intercept() if self.stats.linear else new)
        return reduce(add, parts) if parts else self.stats.emptied()
