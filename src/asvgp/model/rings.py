"""What a process on the sphere does on the rings where splines end, wave by wave around the pole.

All splines vanish between a ring and its pole, with as many derivatives as the norm knows of. By
the Markov property, what these leave out of a process depends on its *jets* on the rings alone:
means over a ring of f and of its first alpha - 1 derivatives across it, times cos(m lon) or
sin(m lon). Smooth functions are like ``r**m`` at a distance r from the pole, so that only waves
with small m are of any size on a ring this small.

With ``p_lm`` the Legendre functions whose products sum to ``P_l(cos r)``, covariances are sums over
the degree l of those of the kernel (`asvgp.kernels.earth`), times ``p_lm`` at places or its
derivatives on the ring.
"""

from __future__ import annotations

from functools import lru_cache
from math import pi, radians, sin

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander

from asvgp.basis import Array
from asvgp.degrees import POLE
from asvgp.kernels import EarthMatern
from asvgp.kernels.earth import level_sum
from asvgp.model.earth_axis import LAST_KNOT

# m, at most. Measured: at 86 degrees more would add less than 1e-5 of the variance with lengths
# of 10 degrees and more, and up to 1e-3 with 2
WAVES = 6
_RADIUS = radians(POLE - LAST_KNOT)
_DEGREES = 2000, 8000  # l that are summed at places and on the ring, where an integral has the rest
_NODES = 16  # on each panel of latitudes; panels double from the ring to the equator
_ALIKE = 1e-12  # [variance] Of a combination of jets, scaled to one each: rounding, not taken
# [prior variance] That a column adds at latitudes of data: one that adds less is left out
_UNNOTICED = 1e-8


def legendre(colatitudes: Array, degrees: int, waves: int) -> Array:
    """Return ``sqrt((l - m)! / (l + m)!) P_l^m(cos)`` of all l and m, (degrees, waves, n).

    Examples
    --------
    >>> legendre(np.array([0.5]), 3, 2)[2, :, 0].round(6).tolist()
    [0.655227, 0.515294]
    >>> round(float(1.5 * np.cos(0.5) ** 2 - 0.5), 6), round(float(1.5**0.5 * np.sin(1.0) / 2), 6)
    (0.655227, 0.515294)
    """
    x, out = np.cos(colatitudes), np.zeros((degrees, waves, len(colatitudes)))
    first, m = np.ones(len(x)), np.arange(waves)[:, None]
    for degree in range(degrees):
        if degree < waves:
            out[degree, degree] = first
            first = first * np.sin(colatitudes) * np.sqrt((2 * degree + 1) / (2 * degree + 2))
        low = m[: min(degree, waves)]
        norm = np.sqrt((degree - low) * (degree + low))
        if degree > 0:
            out[degree, : len(low)] = (2 * degree - 1) / norm * x * out[degree - 1, : len(low)]
        if degree > 1:
            before = np.sqrt(np.maximum((degree - 1) ** 2 - low**2, 0)) / norm
            out[degree, : len(low)] -= before * out[degree - 2, : len(low)]
    return out


@lru_cache
def _jets(alpha: int) -> Array:
    """Return derivatives across the ring of Legendre functions, (alpha, waves + 1, degrees).

    Each derivative is a difference between the functions of the waves before and after.
    """
    top = WAVES + alpha
    values = legendre(np.array([_RADIUS]), _DEGREES[1], top + 1)[:, :, 0]
    values = np.concatenate([values[:, :0:-1] * (-1.0) ** np.arange(top, 0, -1), values], axis=1)
    out, degree, m = [], np.arange(_DEGREES[1])[:, None], np.arange(-top, top)
    steps = 0.5 * np.sqrt(np.maximum((degree - m) * (degree + m + 1.0), 0.0))  # from m to m + 1
    for _ in range(alpha):
        out.append(values[:, top : top + WAVES + 1].T)
        slopes = np.zeros_like(values)
        slopes[:, 1:] += steps * values[:, :-1]
        slopes[:, :-1] -= steps * values[:, 1:]
        values = slopes
    return np.stack(out)


@lru_cache
def _panels() -> tuple[Array, Array]:
    """Return ends of panels of colatitude from ring to ring, and nodes on them."""
    half = np.append(_RADIUS * 2.0 ** np.arange(np.log2(0.5 * pi / _RADIUS)), 0.5 * pi)
    ends = np.append(half, pi - half[-2::-1])
    middle, width = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    return ends, (middle[:, None] + width[:, None] * chebpts1(_NODES)).ravel()


@lru_cache
def _at_nodes() -> Array:
    """Return Legendre functions at the nodes, (waves + 1, nodes, degrees)."""
    values = legendre(_panels()[1], _DEGREES[0], WAVES + 1)
    return np.ascontiguousarray(values.transpose(1, 2, 0))


def from_nodes(latitudes: Array) -> Array:
    """Return the matrix from values at the nodes to those at latitudes between the rings.

    Examples
    --------
    >>> values = np.cos(_panels()[1])
    >>> (from_nodes(np.array([30.0, -87.0])) @ values).round(6).tolist()
    [0.5, -0.99863]
    """
    ends, x = _panels()[0], np.radians(POLE - latitudes)
    panel = np.clip(np.searchsorted(ends, x, "right") - 1, 0, len(ends) - 2)
    t = (2.0 * x - ends[panel] - ends[panel + 1]) / (ends[panel + 1] - ends[panel])
    weights = chebvander(t, _NODES - 1) @ np.linalg.inv(chebvander(chebpts1(_NODES), _NODES - 1))
    out = np.zeros((len(x), len(ends) - 1, _NODES))
    out[np.arange(len(x)), panel] = weights
    return out.reshape(len(x), -1)


def _levels(s: float, alpha: int) -> tuple[Array, Array]:
    """Return the share of every degree in the variance, and its derivative by log s."""
    total, slope = level_sum(s, alpha)
    x = np.arange(_DEGREES[1]) + 0.5
    grown = s**2 * (x**2 - 0.25)
    share = 2.0 * x * (1.0 + grown) ** -alpha / total
    return share, -share * (2.0 * alpha * grown / (1.0 + grown) + slope / total)


def _rest(s: float, alpha: int) -> tuple[Array, Array]:
    """Return what degrees that are not summed add between jets on a ring, and its derivative.

    There, Legendre functions are waves across the ring of equal height.
    """
    total, slope = level_sum(s, alpha)
    orders = np.add.outer(np.arange(alpha), np.arange(alpha))
    turned = np.cos(0.5 * pi * np.subtract.outer(np.arange(alpha), np.arange(alpha)))
    power = 2 * alpha - 1 - orders
    height = 2.0 / (pi * sin(_RADIUS) * total * s ** (2 * alpha))
    value = height * turned * float(_DEGREES[1]) ** -power / power
    return value, -(2.0 * alpha + slope / total) * value


def columns(
    process: EarthMatern, north: bool, south: bool, inside: Array, wave: int, orders: int
) -> tuple[Array, Array]:
    """Return independent parts of the process that rings tell of, at the nodes, and derivatives.

    The covariance of what jets of a ``wave`` tell, with so many ``orders`` of derivatives, is the
    product of what is returned, (nodes, columns), with its transpose. Columns that are nowhere of
    any size ``inside``, at the latitudes of the data, are left out. Derivatives are by the
    logarithm of the lengthscale.
    """
    s, alpha = process.decay, process.alpha
    share, d_share = _levels(s, alpha)
    scales = s ** np.arange(orders)
    own = _jets(alpha)[:orders, wave] * scales[:, None]
    mirrored = own * (-1.0) ** (np.arange(_DEGREES[1]) + wave)
    jets = np.concatenate([own] * north + [mirrored] * south)
    rest = (np.multiply.outer(scales, scales) * each[:orders, :orders] for each in _rest(s, alpha))
    half = 0.5 if wave else 1.0  # the mean square of the wave
    spread, d_spread = (
        half * ((jets * each) @ jets.T + np.kron(np.eye(north + south), more))
        for each, more in zip((share, d_share), rest, strict=True)
    )
    size = 1.0 / np.sqrt(np.diag(spread))
    values, vectors = np.linalg.eigh(spread * np.multiply.outer(size, size))
    kept = values > _ALIKE
    whiten = size[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    near, few = _at_nodes()[wave], slice(_DEGREES[0])
    seen, d_seen = (near @ (jets * each)[:, few].T @ whiten for each in (share, d_share))
    # Of what is scaled to the covariance one, which changes by the last term
    d_seen = d_seen - 0.5 * seen @ (whiten.T @ d_spread @ whiten)
    _, _, turned = np.linalg.svd(inside @ seen, full_matrices=False)
    there = np.max((inside @ seen @ turned.T) ** 2, axis=0, initial=0.0) > _UNNOTICED
    return seen @ turned[there].T, d_seen @ turned[there].T
