"""What splines that end before the poles leave out of a process on the sphere.

A process f on the sphere is the sum of two independent parts: one that vanishes beyond the rings
where splines end, with the same norm, and ``u(x)' b`` with independent standard normals b, which
depends on what f does on the rings (`asvgp.model.rings`). Splines have the first part. The second
one is smooth away from the poles: on the cells of the splines, u is all but a spline itself, with
coefficients A. So the coefficients of f are ``c + A b``, with the covariance ``K^-1 + A A'``.

The inverse of that is never formed. It would have the differences of large numbers, because as
splines, which have to end, the columns of A are stiff. With G of the data, c and b together have
the precision

    P    G A             P = K + G,
    A'G  1 + A'G A

which is eliminated by ``Y = A - P^-1 G A`` and ``C = (1 + A' G Y)^-1``: the coefficients of f have
the covariance ``P^-1 + Y C Y'`` under the data (`asvgp.model.pole_factor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.linalg import solve

from asvgp.basis import Array, Grid
from asvgp.kernels import AlongEarth, EarthMatern
from asvgp.kernels.earth import correlations
from asvgp.model.earth_axis import LAST_KNOT
from asvgp.model.joint_axis import JointAxis
from asvgp.model.rings import WAVES, columns, from_nodes
from asvgp.runtime.lazy import cached_property

_UNNOTICED = 1e-6  # [correlation] Between a ring and the data: the ring need not be told of
_PLACES = 300  # along the latitudes of the data, where columns are looked at
_CELLS_PER_WAVE = 4  # along longitude: on fewer, splines do not have the wave


class Poles:
    """The functions u of a kernel on the sphere at variance one, as splines.

    Those of one wave, cos(m lon) or sin(m lon), come together. Arrays that begin with ``d_`` are
    derivatives by the logarithm of the lengthscale.
    """

    def __init__(self, axes: Sequence[JointAxis], process: EarthMatern, waves: int, orders: int):
        self.lon, self.lat = axes
        (lon, to_lon), (lat, to_lat) = (
            _sites(type(a), a.grid, a.degree, a.outer, process.alpha) for a in axes
        )
        north, south = near_rings(process, self.lat.grid)
        to_splines = to_lat @ from_nodes(lat)
        grid = self.lat.grid
        inside = from_nodes(np.linspace(grid.lower, grid.upper, _PLACES))
        around, along, d_along = [], [], []
        for m in range(min(waves, self._most_waves) + 1):
            told = columns(process, north, south, inside, m, orders)
            seen, d_seen = (to_splines @ u for u in told)
            for turn in (np.cos, np.sin)[: m + 1]:
                around.append(turn(m * np.radians(lon)))
                along.append(seen)
                d_along.append(d_seen)
        self.wave = to_lon @ np.stack(around, axis=1)
        self.of_column = np.repeat(np.arange(len(around)), [u.shape[1] for u in along])
        # Coefficients along the meridian, (functions, columns)
        self.along, self.d_along = np.concatenate(along, axis=1), np.concatenate(d_along, axis=1)

    @property
    def _most_waves(self) -> int:
        """The largest m that splines along longitude have."""
        return self.lon.grid.cells // _CELLS_PER_WAVE if self.lon.grid.cyclic else WAVES

    @cached_property
    def coefficients(self) -> tuple[Array, Array]:
        """A and its derivative, (functions, columns)."""
        wave = self.wave[:, self.of_column][:, None, :]
        both = wave * self.along, wave * self.d_along
        return both[0].reshape(-1, len(self.of_column)), both[1].reshape(-1, len(self.of_column))

    def squares(self, derivative: bool = False) -> Array:
        """Return ``u'u`` on the cells of the data, interleaved powers, or its derivative."""
        lon, lat = self.lon.alone(), self.lat.alone()
        waves = _on_cells(lon, self.wave)
        left = right = _on_cells(lat, self.along)
        if derivative:
            left = 2.0 * _on_cells(lat, self.d_along)
        total = 0.0
        for number in range(waves.shape[1]):
            own = self.of_column == number
            wave = waves[:, [number]]
            around, along = _product(wave, wave), _product(left[:, own], right[:, own])
            total = total + np.multiply.outer(around.ravel(), along.ravel())
        return np.asarray(total)

    def captured(self, rows) -> Array:
        """Return ``u'u`` at rows along both inputs: a cell, and weights on its functions."""
        (around, lon), (first, lat) = rows
        waves = np.einsum("nr,nrm->nm", lon, self.wave[self.lon.numbers[around]])
        values = np.einsum("nr,nrm->nm", lat, self.along[self.lat.numbers[first]])
        return np.sum((values * waves[:, self.of_column]) ** 2, axis=1)

    def solve(self, right: Array) -> Array:
        """Return ``A A'`` times right-hand sides, (functions, n)."""
        A, _ = self.coefficients
        return A @ (A.T @ right)


def _on_cells(axis: JointAxis, coefficients: Array) -> Array:
    """Return splines with these coefficients on the cells of the data, (cells, columns, powers)."""
    return np.einsum("crp,crm->cmp", axis.pieces, coefficients[axis.numbers[axis.first]])


def _product(left: Array, right: Array) -> Array:
    """Return the sum of products of polynomials, (cells, powers)."""
    size = left.shape[2]
    pairs = np.einsum("cip,ciq->cpq", left, right)
    out = np.zeros((len(left), 2 * size - 1))
    for p in range(size):
        out[:, p : p + size] += pairs[:, p]
    return out


def poles_of(process: EarthMatern, axes: Sequence[JointAxis], most: int) -> Poles | None:
    """Return what splines leave out at the poles, in so many columns at ``most``.

    None if that is nothing, or if no columns may be had.
    """
    near, alpha = sum(near_rings(process, axes[1].grid)), process.alpha
    told = [(waves, alpha) for waves in range(WAVES, 0, -1)] + [(1, 1), (0, 1)]
    for waves, orders in told:
        if 0 < near * orders * (2 * waves + 1) <= most:
            poles = Poles(axes, process, waves, orders)
            return poles if len(poles.of_column) else None
    return None


def near_rings(process: EarthMatern, grid: Grid) -> tuple[bool, bool]:
    """Return whether data on a grid of latitudes know of the northern ring, and of the southern."""
    distance = np.radians(np.array([LAST_KNOT - grid.upper, LAST_KNOT + grid.lower]))
    north, south = correlations(distance, process.decay, process.alpha) > _UNNOTICED
    return bool(north), bool(south)


@lru_cache(maxsize=64)
def _sites(
    kind: type[JointAxis], grid: Grid, degree: int, outer: int, alpha: int
) -> tuple[Array, Array]:
    """Return places on all full cells, and the matrix from values there to coefficients."""
    axis = kind(AlongEarth(nu=alpha - 1.0, lengthscale=1.0), grid, degree, 0, degree, outer)
    knots = axis.knots[degree : len(axis.knots) - degree]
    nodes, _ = np.polynomial.legendre.leggauss(degree + 1)
    places = knots[:-1, None] + 0.5 * np.diff(knots)[:, None] * (nodes + 1.0)
    x = grid.lower + grid.spacing * places.ravel()
    first, weights = axis.rows(x)
    design = np.zeros((len(x), axis.count))
    np.put_along_axis(design, axis.numbers[first], weights, axis=1)
    return x, solve(design.T @ design, design.T, assume_a="pos")
