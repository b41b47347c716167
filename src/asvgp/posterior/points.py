"""Places to ask a posterior about, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.runtime.checks import finite_range


class LinePoints(NamedTuple):
    """Places along one input.

    Attributes
    ----------
    x : ndarray of shape (n,)
    covariates : ndarray of shape (n, columns), optional
        Columns of linear effects beside the input; without them, these effects are left out.
    width : ndarray of shape (n,), optional
        Widths of the intervals from x on that y is averaged over.
    ends : tuple of float
        The smallest and the largest x, where they are known.
    """

    x: Array
    covariates: Array | None = None
    width: Array | None = None
    ends: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of(cls, points, name: str = "x") -> LinePoints:
        """Return points as they are, or an array, if finite, as points without covariates."""
        if isinstance(points, LinePoints):
            return points
        x = np.asarray(points).ravel()
        return cls(x, ends=finite_range(x, name))

    @property
    def count(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Number of rows."""
        return len(self.x)

    @property
    def middle(self) -> Array:
        """Middles of the intervals, x itself where there are none."""
        return self.x if self.width is None else self.x + 0.5 * self.width


@dataclass(frozen=True, eq=False)
class GridPoints:
    """Places in several inputs.

    Attributes
    ----------
    main : ndarray of shape (n, D)
        Inputs of the main block.
    smooths : ndarray of shape (n, smooths)
        Inputs of the one-input components outside it.
    effects : ndarray of shape (n, effects)
        Columns of all fixed effects, as given; for a derivative, the derivatives of them.
    """

    main: Array
    smooths: Array
    effects: Array

    def take(self, rows) -> GridPoints:
        """Return some of them."""
        return GridPoints(self.main[rows], self.smooths[rows], self.effects[rows])

    def __len__(self) -> int:
        return len(self.main)
