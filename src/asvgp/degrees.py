"""Grids of longitudes and latitudes, in degrees.

Longitudes a turn apart are the same place. A grid of them is closed to a circle where data go
round the Earth; else it covers an arc, and any longitude is moved to within half a turn of its
middle. Cells of latitudes never reach past a pole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians

import numpy as np

from asvgp.basis import Array, Grid

TURN, POLE = 360.0, 90.0  # [degrees]
LAST = 87.0  # [degrees] Of latitude: cells of data end here, so that splines have room to end


@dataclass(frozen=True)
class Longitudes(Grid):
    """Uniform knots along a circle of latitude, or along a part of it.

    Examples
    --------
    >>> Longitudes(-20.0, 40.0, 6).around([350.0, -190.0, 30.0]).tolist()
    [-10.0, 170.0, 30.0]
    >>> Longitudes(0.0, 360.0, 36, cyclic=True).around([-10.0]).tolist()
    [350.0]
    """

    def around(self, x) -> Array:
        """Return longitudes by the same place on the circle, or nearest to the middle."""
        if self.cyclic:
            return super().around(x)
        x = np.asarray(x, dtype=float)
        turns = np.ceil((x - 0.5 * (self.lower + self.upper)) / TURN - 0.5)
        return x - TURN * turns


@dataclass(frozen=True)
class Latitudes(Grid):
    """Uniform knots along a meridian.

    Examples
    --------
    >>> grid = Latitudes(60.0, 80.0, 5)
    >>> grid.coarsens(4), grid.coarsens(8)
    (False, False)
    """

    def coarsens(self, factor: int) -> bool:
        """Return True if cells so many times as wide end before the pole."""
        return self.lower + -(-self.cells // factor) * factor * self.spacing <= LAST

    def extend(self, lower: float, upper: float, multiple: int = 1) -> tuple[Grid, tuple[int, int]]:
        """Return a longer grid that ends before the poles, and the cells added."""
        for step in (multiple, 1):
            grid, added = super().extend(lower, upper, step)
            if grid.lower >= -POLE and grid.upper <= POLE:
                return grid, added
        raise ValueError(
            f"Latitudes from {lower:g} to {upper:g} do not fit on cells {self.spacing:g} degrees "
            f"wide from {self.lower:g} on, which would reach past the pole. Give the domain of "
            "the latitudes before the first data, such as (-80, 85)."
        )

    @property
    def cosines(self) -> tuple[float, float]:
        """Cosines of the latitudes that are nearest to the equator and furthest from it.

        Examples
        --------
        >>> [round(c, 3) for c in Latitudes(-60.0, 30.0, 9).cosines]
        [1.0, 0.5]
        """
        return cosines(self.lower, self.upper)


def cosines(lower: float, upper: float) -> tuple[float, float]:
    """Return the largest and the smallest cosine of latitudes; the latter is never zero."""
    near = 0.0 if lower <= 0.0 <= upper else min(abs(lower), abs(upper))
    far = min(max(abs(lower), abs(upper)), POLE - 0.5)
    return cos(radians(min(near, far))), cos(radians(far))


def distances(x: Array, y: Array) -> Array:
    """Return great-circle distances in radians between places (..., 2) of longitude, latitude.

    Examples
    --------
    >>> np.degrees(distances(np.array([10.0, 80.0]), np.array([190.0, 80.0]))).round(6).item()
    20.0
    """
    x, y = np.radians(x), np.radians(y)
    half = 0.5 * (x - y)
    product = np.cos(x[..., 1]) * np.cos(y[..., 1])
    square = np.sin(half[..., 1]) ** 2 + product * np.sin(half[..., 0]) ** 2
    return 2.0 * np.arcsin(np.sqrt(np.clip(square, 0.0, 1.0)))
