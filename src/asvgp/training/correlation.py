"""Matérn correlations of many pairs of places, compiled.

Those with half-integer smoothness are exponentials. The Bessel functions of the others are read
from a table, by cubic interpolation in the root of the distance: they have a logarithm at zero
and are smooth in the root, to about 1e-12.
"""

from __future__ import annotations

from math import gamma, sqrt

import numba
import numpy as np
from scipy.special import k0, k1

from asvgp.basis import Array

_NEAR = 1e-16  # squared decay lengths that stand for zero
_FAR = 8.0  # root of the decay lengths from which on nothing is left: exp(-64)
_CELLS = 4096


def correlation(nu: float, squared: Array) -> tuple[Array, Array]:
    """Return the Matérn correlation at squared distances in decay lengths, and a slope.

    The slope times the squared distance along an input is the derivative by the logarithm of the
    length along it.

    Examples
    --------
    >>> value, _ = correlation(0.5, np.array([0.0, 1.0]))
    >>> bool(np.allclose(value, np.exp([0.0, -1.0])))
    True
    """
    squared = np.maximum(squared, _NEAR)
    if nu % 1.0:
        r = np.sqrt(squared)
        high = np.exp(-r)
        low, scale = high / r, 1.0
        for order in range(round(nu - 0.5)):
            low, high = high, squared * low + (2.0 * order + 1.0) * high
            scale /= 2.0 * order + 1.0
        return scale * high, scale * low
    value, slope = np.empty_like(squared), np.empty_like(squared)
    scale = 2.0 ** (1.0 - nu) / gamma(nu)
    _integer(round(nu), scale, np.ascontiguousarray(squared), _TABLE, value, slope)
    return value, slope


def _table() -> Array:
    """Return ``r K1(r)`` and ``r**2 K0(r)`` with their slopes in units of cells, by the root u."""
    step = _FAR / _CELLS
    u = step * np.arange(1, _CELLS + 1)
    r = u**2
    table = np.zeros((_CELLS + 1, 4))
    table[0, 0] = 1.0
    table[1:, 0] = r * k1(r)
    table[1:, 1] = -2.0 * step * u * r * k0(r)
    table[1:, 2] = r**2 * k0(r)
    table[1:, 3] = 2.0 * step * u * (2.0 * r * k0(r) - r**2 * k1(r))
    return table


_TABLE = _table()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _integer(
    nu: int, scale: float, squared: Array, table: Array, value: Array, slope: Array
) -> None:
    """Fill in correlations of smoothness one and more, from the table."""
    for i in range(len(squared)):
        square = squared[i]
        place = sqrt(sqrt(square)) * (_CELLS / _FAR)
        if place >= _CELLS:
            value[i] = 0.0
            slope[i] = 0.0
            continue
        cell = int(place)
        s = place - cell
        left, right = table[cell], table[cell + 1]
        rest = 1.0 - s
        ahead, behind = s * s * (3.0 - 2.0 * s), rest * rest * (1.0 + 2.0 * s)
        rise, fall = s * rest * rest, -s * s * rest
        high = behind * left[0] + ahead * right[0] + rise * left[1] + fall * right[1]
        k0_squared = behind * left[2] + ahead * right[2] + rise * left[3] + fall * right[3]
        low = k0_squared / square
        for k in range(1, nu):
            low, high = high, square * low + 2.0 * k * high
        value[i] = scale * high
        slope[i] = scale * low
