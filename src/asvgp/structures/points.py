"""Rows of X as columns of numbers, in the order of a model's inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import spread
from asvgp.policies import PILOT
from asvgp.statistics.accumulator import Accumulator


@dataclass(frozen=True, eq=False)
class Points:
    """Columns of the main block, of the smooths and of the effects."""

    main: Sequence[Array]  # of points on a grid, its axes
    smooths: Sequence[Array] = ()
    effects: Sequence[Array] = ()
    shape: tuple[int, ...] | None = None  # that of the grid
    width: Array | None = None  # of the intervals that y is averaged over
    ranges: Sequence[tuple[float, float]] = ()  # of every column of main and smooths

    @property
    def count(self) -> int:
        """Number of rows."""
        if self.shape is not None:
            return prod(self.shape)
        return len((*self.main, *self.smooths)[0])

    @property
    def x(self) -> Array:
        """The only input, of a model of one."""
        return self.main[0]

    @cached_property
    def covariates(self) -> Array | None:
        """Columns of the effects as one array, (n, columns); None where there are none."""
        if not self.effects:
            return None
        if len(self.effects) == 1:
            return self.effects[0][:, None]
        return np.stack(self.effects, axis=1)

    def add_to(
        self,
        sums: Accumulator,
        y: Array,
        weights: Array | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add observations at these points, however many, to sums."""
        y = y.reshape(self.count, -1)
        if self.shape is None:
            sums.add(
                self.main,
                y,
                weights,
                smooth_inputs=self.smooths,
                covariates=self.effects,
                width=self.width,
                progress=progress,
            )
            return
        weights = None if weights is None else np.asarray(weights).reshape(self.shape)
        sums.add_grid(y.T.reshape(-1, *self.shape), self.main, weights)
        if progress is not None:
            progress(self.count)

    def expanded(self) -> Points:
        """Return the same points with the coordinates of a grid written out."""
        if self.shape is None:
            return self
        return replace(self, main=spread(self.main), shape=None)

    def sampled(self, y: Array) -> tuple[Sequence[Array], Array, Sequence[Array]]:
        """Return columns of the main block, y and effects; of a large grid at random points."""
        if self.shape is None:
            return self.main, y, self.effects
        rows = np.arange(min(self.count, PILOT.rows))
        if self.count > PILOT.rows:
            rows = np.random.default_rng(0).integers(self.count, size=PILOT.rows)
        places = np.unravel_index(rows, self.shape)
        return [x[i] for x, i in zip(self.main, places, strict=True)], y[rows], []
