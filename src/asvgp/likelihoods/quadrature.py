"""Rules for expectations under a Gaussian, with as few places as its variance allows.

The integrands are log densities, analytic in a strip around the real line: log(1 + exp(f)) has
its first singularity at a distance of pi from it. In units where that distance is pi, a variance
of q needs 3 places of the Gauss-Hermite rule up to q = 0.01, 7 up to 0.1, 13 up to 0.4, 21 up to
1; beyond that the trapezoidal rule on 15 standard deviations is the better one. Its step of one
such unit makes an error of exp(-2 pi**2), about 3e-9, however large the variance is; it only takes
more places. All rules are symmetric about the mean: a place of weight ``WEIGHTS[START[r]]`` in the
middle, and pairs.

Of a logit, few places are enough where the variance is large. A logistic variable is a Gaussian
one with a random variance W (Andrews and Mallows, 1974), so that the mean of 1 / (1 + exp(-f))
under N(m, v) is the mean of Phi(m / sqrt(W + v)), which varies the less with W, the larger v is.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numba
import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from asvgp.basis import Array

# Variances, in units where the singularity is pi away, up to which each of the rules serves.
# The first is for no variance at all, the last goes on for ever.
LARGEST = np.array([0.0, 0.01, 0.1, 0.4] + [4.0**power for power in range(7)])
_REACH = 7.5  # standard deviations on each side: what is beyond has a probability of 6e-14
MOST_EXPONENT = 600.0  # exp of more would overflow once it is multiplied


def _half(nodes: Array, weights: Array) -> tuple[Array, Array]:
    """Return a symmetric rule's middle and its places to the right."""
    keep = nodes > -1e-12
    order = np.argsort(nodes[keep])
    return np.where(nodes < 1e-12, 0.0, nodes)[keep][order], weights[keep][order] / weights.sum()


def _rules() -> list[tuple[Array, Array]]:
    """Return middle and right halves of all rules."""
    rules = [(np.zeros(1), np.ones(1))]
    rules += [_half(*hermegauss(places)) for places in (3, 7, 13, 21)]
    for power in range(1, 1 + len(LARGEST) - len(rules)):
        x = np.arange(-int(_REACH * 2**power), int(_REACH * 2**power) + 1) / 2.0**power
        rules.append(_half(x, np.exp(-0.5 * x * x)))
    return rules


_HALVES = _rules()
NODES = np.concatenate([nodes for nodes, _ in _HALVES])
WEIGHTS = np.concatenate([weights for _, weights in _HALVES])
START = np.cumsum([0] + [len(nodes) for nodes, _ in _HALVES])


def _scales(places: int) -> tuple[Array, Array]:
    """Return the Gauss rule of the variance W that makes a Gaussian variable a logistic one.

    ``E exp(t W)`` is ``z / sin(z)`` at ``z = pi sqrt(2 t)``, so that the moments of W / pi**2 are
    rational. Recurrence coefficients follow from them exactly, by Chebyshev's algorithm.
    """
    series, moments = [Fraction(1)], list[Fraction]()
    for k in range(2 * places):
        moments.append(2**k * math.factorial(k) * series[k])
        terms = range(1, k + 2)
        series.append(
            sum(
                (-((-1) ** j) * series[k + 1 - j] / math.factorial(2 * j + 1) for j in terms),
                Fraction(0),
            )
        )
    last, now = [Fraction(0)] * len(moments), moments
    middle, beside = [now[1] / now[0]], [now[0]]
    for k in range(1, places):
        following = [Fraction(0)] * len(now)
        for i in range(k, 2 * places - k):
            following[i] = now[i + 1] - middle[-1] * now[i] - beside[-1] * last[i]
        middle.append(following[k + 1] / following[k] - now[k] / now[k - 1])
        beside.append(following[k] / now[k - 1])
        last, now = now, following
    off = np.sqrt(np.array(beside[1:], dtype=float))
    jacobi = np.diag(np.array(middle, dtype=float)) + np.diag(off, 1) + np.diag(off, -1)
    values, vectors = np.linalg.eigh(jacobi)
    return math.pi**2 * values, vectors[0] ** 2


# Variances of f from which rules of so many scales serve, with errors below 3e-9.
_SCALES_FROM = {4.0: 12, 8.0: 8, 16.0: 5, 32.0: 4}
_LEAST_WIDE = min(_SCALES_FROM)
_WIDE_FROM = np.array(list(_SCALES_FROM))
_WIDE_RULES = [_scales(places) for places in _SCALES_FROM.values()]
_SCALES = np.concatenate([scales for scales, _ in _WIDE_RULES])
_SHARES = np.concatenate([shares for _, shares in _WIDE_RULES])
_WIDE_START = np.cumsum([0] + [len(scales) for scales, _ in _WIDE_RULES])
_ROOT_HALF, _PHI_0 = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def rule(q):
    """Return the number of the rule for a variance, in units where the singularity is pi away."""
    number = 0
    while number < LARGEST.shape[0] - 1 and q > LARGEST[number]:
        number += 1
    return number


def full(number: int) -> tuple[Array, Array]:
    """Return all places, in standard deviations from the mean, and weights of a rule.

    Examples
    --------
    >>> nodes, weights = full(rule(0.01))
    >>> nodes.round(3), weights.round(3)
    (array([-1.732,  0.   ,  1.732]), array([0.167, 0.667, 0.167]))
    """
    nodes, weights = _HALVES[number]
    return np.concatenate([-nodes[:0:-1], nodes]), np.concatenate([weights[:0:-1], weights])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _far_softplus(m, s, first, last):
    """Return what `softplus` does, place by place, where exp(m) could overflow."""
    value, slope, bend = 0.0, 0.0, 0.0
    for j in range(first, last):
        for side in range(2):
            if side == 1 and j == first:
                continue
            f = m + s * NODES[j] if side == 0 else m - s * NODES[j]
            e = math.exp(-abs(f))
            part = 1.0 / (1.0 + e)
            value += WEIGHTS[j] * (math.log1p(e) + max(f, 0.0))
            slope += WEIGHTS[j] * (part if f > 0.0 else e * part)
            bend += WEIGHTS[j] * e * part * part
    return value, slope, bend


@numba.njit(cache=True, nogil=True, error_model="numpy")
def softplus(m, v):
    """Return the means of log(1 + exp(f)) and of its first two derivatives under N(m, v).

    One exponential and one logarithm serve a pair of places.
    """
    number = rule(v)
    first, last = START[number], START[number + 1]
    s = math.sqrt(v) if v > 0.0 else 0.0
    if abs(m) + s * NODES[last - 1] > 0.5 * MOST_EXPONENT:
        return _far_softplus(m, s, first, last)
    middle = math.exp(m)
    part = 1.0 / (1.0 + middle)
    value = WEIGHTS[first] * math.log(1.0 + middle)
    slope = WEIGHTS[first] * middle * part
    bend = slope * part
    for j in range(first + 1, last):
        e = math.exp(s * NODES[j])
        right, left = middle * e, middle / e
        product = (1.0 + right) * (1.0 + left)
        inverse = 1.0 / product
        at_right, at_left = (1.0 + left) * inverse, (1.0 + right) * inverse
        value += WEIGHTS[j] * math.log(product)
        slope += WEIGHTS[j] * (right * at_right + left * at_left)
        bend += WEIGHTS[j] * (right * at_right * at_right + left * at_left * at_left)
    return value, slope, bend


@numba.njit(cache=True, nogil=True, error_model="numpy")
def logistic(m, v):
    """Return what `softplus` does, faster for large variances, to within some 3e-9.

    Means that are smaller than that have no digits: `softplus` is for what multiplies them.
    """
    if v <= _LEAST_WIDE:
        return softplus(m, v)
    number = 0
    while number < _WIDE_FROM.shape[0] - 1 and v > _WIDE_FROM[number + 1]:
        number += 1
    far, value, slope, bend = abs(m), 0.0, 0.0, 0.0
    for j in range(_WIDE_START[number], _WIDE_START[number + 1]):
        s = math.sqrt(_SCALES[j] + v)
        z = far / s
        below = 0.5 * math.erfc(_ROOT_HALF * z)
        density = _PHI_0 * math.exp(-0.5 * z * z)
        value += _SHARES[j] * (s * density - far * below)
        slope += _SHARES[j] * below
        bend += _SHARES[j] * density / s
    return (value + m, 1.0 - slope, bend) if m > 0.0 else (value, slope, bend)
