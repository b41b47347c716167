"""Places to ask a posterior about, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array
from asvgp.runtime.checks import finite_range


@dataclass(frozen=True, eq=False)
class LinePoints:
    """Places along one input."""

    x: Array  # (n,)
    covariates: Array | None = None  # (n, columns), of linear effects beside the input
    width: Array | None = None  # of the intervals from x on that y is averaged over
    ends: tuple[float, float] = (-np.inf, np.inf)  # smallest and largest x

    @classmethod
    def of(cls, points, name: str = "x") -> LinePoints:
        """Return points as they are, or an array, if finite, as points without covariates."""
        if isinstance(points, LinePoints):
            return points
        x = np.asarray(points).ravel()
        return cls(x, ends=finite_range(x, name))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def middle(self) -> Array:
        """Middles of the intervals, x itself where there are none."""
        return self.x if self.width is None else self.x + 0.5 * self.width


@dataclass(frozen=True, eq=False)
class GridPoints:
    """Places in several inputs."""

    main: Array  # inputs of the main block, (n, D)
    smooths: Array  # inputs of the components outside it, (n, smooths)
    effects: Array  # columns of the effects; for a derivative, their derivatives

    def take(self, rows) -> GridPoints:
        """Return some of them."""
        return GridPoints(self.main[rows], self.smooths[rows], self.effects[rows])

    def __len__(self) -> int:
        return len(self.main)
