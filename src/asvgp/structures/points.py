"""Points of a model of several inputs, and sums over blocks of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import spread
from asvgp.policies import PILOT
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator


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
    stats : Statistics
        Whose grids they are on.
    """

    def __init__(self, stats: Statistics):
        self.sums = Accumulator(stats)

    def add(self, points: FieldPoints, y, weights, progress=None) -> None:
        """Add one block."""
        shape, y = points.shape, np.asarray(y).reshape(points.count, -1)
        if shape is None:
            self.sums.add(
                points.main,
                y,
                weights,
                smooth_inputs=points.smooths,
                covariates=points.effects,
                progress=progress,
            )
            return
        weights = None if weights is None else np.asarray(weights).reshape(shape)
        self.sums.add_grid(y.T.reshape(-1, *shape), points.main, weights)
        if progress is not None:
            progress(points.count)

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far."""
        return self.sums.squares

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks."""
        return self.sums.statistics()
