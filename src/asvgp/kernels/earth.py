"""Matérn kernels on the sphere: functions of the distance along great circles.

With distances in radians and ``s = lengthscale / sqrt(2 nu)`` the squared RKHS norm is ``1/q``
times the integral over the sphere of ``|(1 - s**2 Laplace)**(alpha / 2) f|**2``, as in the plane,
with ``alpha = nu + 1``. Its kernel is

    k(r) = q / (4 pi) sum_l (2 l + 1) P_l(cos r) / (1 + s**2 l (l + 1))**alpha,

and q is such that ``k(0)`` is the variance. At lengths that are short beside the radius it is the
Matérn kernel of the plane.
"""

# pyright: reportIncompatibleVariableOverride=false
# (class attributes of other components, properties here: both are read only)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, gamma, log2, pi, radians, sqrt
from typing import Any, NoReturn, Self

import numpy as np
from numpy.polynomial.chebyshev import chebfit

from asvgp.basis import Array
from asvgp.degrees import distances
from asvgp.kernels.base import Kernel
from asvgp.kernels.joint import AlongJoint, JointMatern

LONGEST = 90.0  # [degrees] Lengthscale: beyond, a process is a constant and a slope on the Earth.
_TERMS = 2000  # degrees l that are summed one by one; an integral has the others
_STEP = 1e-20  # of a derivative by an imaginary step, which loses no digits
_ORDER = 20  # of polynomials in the logarithm of the distance, on every octave of it


@dataclass(frozen=True, repr=False)
class EarthMatern(JointMatern):
    """A Matérn kernel of great-circle distance, as `Matern` makes it with coordinates.

    ``dim`` names the columns of the longitude and of the latitude, in this order, both in degrees;
    the lengthscale is in degrees along a great circle.
    """

    coordinates: str = "degrees"

    def __post_init__(self) -> None:
        if self.coordinates != "degrees":
            raise ValueError(
                f"Matern: coordinates must be None or 'degrees', got {self.coordinates!r}."
            )
        several = isinstance(self.lengthscale, Sequence) and not isinstance(self.lengthscale, str)
        if several or self.rotation is not None:
            what = "a rotation" if self.rotation is not None else f"{self.lengthscale!r}"
            raise ValueError(
                "Matern: with coordinates='degrees' all directions are alike: there is one "
                f"lengthscale, in degrees along a great circle, and not {what}."
            )
        if self.dim is not None and len(self.dim) != 2:
            raise ValueError(
                "Matern: coordinates='degrees' takes two inputs, the longitude and the latitude: "
                f"dim=('lon', 'lat'), not dim={self.dim!r}. Multiply by a kernel over another "
                "input, for example * Matern32(dim='time')."
            )
        super().__post_init__()
        if self.inputs != 2:
            raise ValueError(f"Matern: coordinates='degrees' takes nu=1, 2 or 3, not {self.nu:g}.")
        if self.lengthscale > LONGEST:  # pyright: ignore[reportOperatorIssue]
            raise ValueError(
                f"Matern: with coordinates='degrees' a lengthscale is at most {LONGEST:g}, got "
                f"{self.lengthscale!r} degrees. What varies less than that is nearly constant: add "
                "Constant()."
            )

    def written(self, fixed: Any, bounds: Any) -> str:
        """Return the kernel as code, with these settings for training."""
        return f"{super().written(fixed, bounds)[:-1]}, coordinates={self.coordinates!r})"

    # ------------------------------------------------------------ the process

    @property
    def decay(self) -> float:
        """``s``, in radians."""
        return radians(float(self.lengths[0])) / sqrt(2.0 * self.nu)

    @property
    def along(self) -> tuple[AlongEarth, ...]:
        """The process along the equator and along a meridian."""
        lon, lat = self.dim or (None, None)
        length = float(self.lengths[0])
        return (
            AlongEarth(nu=self.nu, lengthscale=length, dim=lon, latitudes=lat),
            AlongEarth(nu=self.nu, lengthscale=length, dim=lat),
        )

    def covariance(self, lag: Any) -> Array:
        """Evaluate the covariance at great-circle distances in degrees."""
        r = np.radians(np.abs(np.asarray(lag, dtype=float)))
        return self.variance * correlations(r, self.decay, self.alpha)

    def between(self, x: Array, y: Array, orders: Sequence[int] = ()) -> Array:
        """Return the prior covariance between places (n, 2) and (m, 2), in degrees."""
        if any(orders):
            refuse_derivative(self)
        return self.covariance(np.degrees(distances(x[:, None], y)))

    def stencil(self, spacing: Sequence[float]) -> tuple[Array, Array]:
        """Return coefficients of K at variance one, and their derivatives by log lengthscale.

        Rows are powers of the frequency around the Earth, halved, and columns the tables along the
        meridian (`meridian_tables`). Of the ``spacing`` that of longitudes counts.
        """
        total, slope = level_sum(self.decay, self.alpha)
        h, pairs = radians(spacing[0]), meridian_tables(self.alpha)
        value = np.zeros((self.alpha + 1, len(pairs)))
        d_value = np.zeros_like(value)
        for column, (a, j) in enumerate(pairs):
            number = total / (4.0 * pi) * self.decay ** (2 * j) * h ** (1 - 2 * a)
            value[a, column], d_value[a, column] = number, (2.0 * j + slope / total) * number
        return value, d_value[None]

    # ------------------------------------------------------------ training

    def replace_free(self, changes: Mapping[str, float]) -> Self:
        """Return a copy with other hyperparameters, within bounds; fixed ones do not change."""
        if "lengthscale" in changes:
            changes = {**changes, "lengthscale": min(changes["lengthscale"], LONGEST)}
        return super().replace_free(changes)

    def limits(self, grid: Any, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return bounds from far below the knot spacing to a quarter of the Earth."""
        out = super().limits(grid, spread, power)
        return out | {"lengthscale": (out["lengthscale"][0], LONGEST)}


@dataclass(frozen=True, repr=False)
class AlongEarth(AlongJoint):
    """A Matérn kernel on the sphere along one of its inputs, the other at rest."""

    latitudes: int | str | None = None  # of a longitude, the column of its latitudes


def refuse_derivative(kernel: Kernel) -> NoReturn:
    """Raise an error: there are no derivatives along degrees."""
    raise ValueError(
        f"{kernel!r}: derivatives along longitude or latitude are not to be had with "
        "coordinates='degrees'. Take differences of predictions at neighbouring places, or project "
        "the places and use a kernel without coordinates."
    )


def meridian_tables(alpha: int) -> list[tuple[int, int]]:
    """Return the tables along a meridian: derivatives around the Earth, and powers of s**2.

    Examples
    --------
    >>> meridian_tables(2)
    [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    """
    return [(a, j) for a in range(alpha + 1) for j in range(a, alpha + 1)]


@lru_cache(maxsize=256)
def level_sum(s: float, alpha: int) -> tuple[float, float]:
    """Return ``sum_l (2 l + 1) / (1 + s**2 l (l + 1))**alpha``, and its derivative by log s.

    In the plane it is ``1 / ((alpha - 1) s**2)``, which short lengths come near to.

    Examples
    --------
    >>> round(level_sum(0.01, 2)[0], 4), round(level_sum(1e-3, 3)[0] * 1e-6, 6)
    (10000.3333, 0.5)
    """
    step = complex(0.0, _STEP)
    s2 = s * s * (1.0 + 2.0 * step)  # of log s, to first order
    x = np.arange(_TERMS) + 0.5
    total = np.sum(2.0 * x * (1.0 + s2 * (x * x - 0.25)) ** -alpha)
    # The rest by the midpoint rule: the integral, and derivatives of the summand at its beginning
    n = float(_TERMS)
    u, v = 1.0 + s2 * (n * n - 0.25), s2 * n * n
    first = 2.0 * u**-alpha - 4.0 * alpha * v * u ** (-alpha - 1)
    third = -12.0 * alpha * s2 * u ** (-alpha - 1)
    third += 48.0 * alpha * (alpha + 1) * s2 * v * u ** (-alpha - 2)
    third -= 16.0 * alpha * (alpha + 1) * (alpha + 2) * s2 * v * v * u ** (-alpha - 3)
    total += u ** (1 - alpha) / ((alpha - 1) * s2) + first / 24.0 - 7.0 * third / 5760.0
    return float(total.real), float(total.imag / _STEP)


def correlations(r: Array, s: float, alpha: int) -> Array:
    """Return k at variance one at distances in radians."""
    low, table = _octaves(s, alpha)
    octave = np.log2(np.clip(r, low, pi) / low)
    panel = np.minimum(octave.astype(np.int64), len(table) - 1)
    t = 2.0 * (octave - panel) - 1.0
    last, now = np.zeros(r.shape), table[panel, -1]
    for column in range(_ORDER - 1, 0, -1):  # Clenshaw's rule
        last, now = now, table[panel, column] + 2.0 * t * now - last
    return table[panel, 0] + t * now - last


@lru_cache(maxsize=32)
def _octaves(s: float, alpha: int) -> tuple[float, Array]:
    """Return Chebyshev coefficients of k at variance one, (octaves, order + 1), from a distance on.

    Up to that distance k is one to all digits.
    """
    octaves = ceil(log2(pi / (1e-8 * min(s, 1.0))))
    low = pi / 2.0**octaves
    nodes = np.cos((np.arange(_ORDER + 1) + 0.5) * pi / (_ORDER + 1))
    r = low * 2.0 ** (np.arange(octaves)[:, None] + 0.5 * (nodes + 1.0))
    values = _legendre_sum(r.ravel(), s, alpha).reshape(r.shape) / level_sum(s, alpha)[0]
    return low, chebfit(nodes, values.T, _ORDER).T


@lru_cache
def _nodes() -> tuple[Array, Array]:
    """Return nodes t in (0, 1) and weights for integrands with roots at the ends."""
    y = np.arange(-3.4, 3.4, 0.05)
    e = np.exp(np.pi * np.sinh(y))
    t, rest = e / (1.0 + e), 1.0 / (1.0 + e)
    return t, 0.05 * np.pi * np.cosh(y) * t * rest


def _legendre_sum(r: Array, s: float, alpha: int) -> Array:
    """Return ``sum_l (2 l + 1) P_l(cos r) / (1 + s**2 l (l + 1))**alpha`` at distances (n,).

    With ``w = 1 / s**2 = tau**2 + 1/4`` and alpha one it is ``w pi / cosh(pi tau)`` times the
    conical function ``P_{i tau - 1/2}(-cos r)``, an integral over u from 0 to ``pi - r`` of
    ``cosh(tau u)`` (Mehler and Dirichlet). Other alpha are derivatives of that by w.
    """
    w = 1.0 / s**2
    tau = sqrt(w - 0.25)
    t, weights = _nodes()
    r = np.minimum(r, pi - 1e-6)[:, None]  # as smooth at the antipodes as anywhere
    gap = (pi - r) * t  # pi - r - u
    u = pi - r - gap
    root = np.sqrt(np.maximum(np.sin(r + 0.5 * gap) * np.sin(0.5 * gap), 1e-300))
    # cosh(tau u) / cosh(pi tau), its sinh twin, and tanh(pi tau), without large numbers
    up, down = np.exp(tau * (u - pi)), np.exp(-tau * (u + pi))
    scale = 1.0 / (1.0 + np.exp(-2.0 * pi * tau))
    even, odd = (up + down) * scale, (up - down) * scale
    steep = np.tanh(pi * tau)
    flat = 1.0 - steep**2
    # Derivatives by tau of E = even, by E' = u O - pi steep E and O' = u E - pi steep O
    slope = u * odd - pi * steep * even
    if alpha == 2:
        value = -slope / (2.0 * tau)
    else:
        odd_slope = u * even - pi * steep * odd
        bend = u * odd_slope - pi * steep * slope - pi**2 * flat * even
        value = (bend - slope / tau) / (4.0 * tau**2)
        if alpha == 4:
            odd_bend = u * slope - pi * steep * odd_slope - pi**2 * flat * odd
            twist = u * odd_bend - pi * steep * bend - 2.0 * pi**2 * flat * slope
            twist += 2.0 * pi**3 * steep * flat * even
            value = -(twist - 3.0 * bend / tau + 3.0 * slope / tau**2) / (8.0 * tau**3)
    integral = ((pi - r) * value / root) @ weights
    return w**alpha / gamma(alpha) * integral
