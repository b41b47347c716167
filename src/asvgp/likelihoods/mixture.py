"""Distributions of new observations: mixtures of p(y | f) over a Gaussian f.

A mixture's moments and its distribution function are sums over the places of a rule
(`quadrature.py`), and quantiles are roots of the latter. Its density is integrated around the
mode of p(y | f) N(f; m, v) instead, which may be far from m and much narrower than v.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asvgp.basis import Array
from asvgp.likelihoods.quadrature import LARGEST, full

_ELEMENTS = 1 << 18  # places that are held at once
_REACH = 8.0  # standard deviations of f beyond which nothing is looked for
# Around its mode, a density is integrated on so many standard deviations of its own, at so many
# places. Log-concave densities may fall off as slowly as the Gaussian on one side.
_WIDE, _PLACES = 20.0, 121
_STEPS = 100  # of Newton's method, which takes five as a rule, and halvings


def _pieces(numbers: Array):
    """Yield the rule and the rows, a piece at a time, of all rows that share a rule."""
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        places = len(full(int(number))[0])
        for piece in np.array_split(rows, 1 + len(rows) * places // _ELEMENTS):
            yield int(number), piece


def expectation(function: Callable, m: Array, v: Array, sharpness: Array | float = 1.0) -> Array:
    """Return the mean of a function of f under N(m, v), row by row.

    ``function(f, rows)`` is called with places of shape (rows, places) and the rows' numbers. It
    varies over distances of 1 / sqrt(sharpness) or more.
    """
    out = np.empty(len(m))
    q = np.maximum(v, 0.0) * np.broadcast_to(sharpness, m.shape)
    numbers = np.minimum(np.searchsorted(LARGEST, q), len(LARGEST) - 1)
    for number, rows in _pieces(numbers):
        nodes, weights = full(number)
        f = m[rows, None] + np.sqrt(np.maximum(v[rows, None], 0.0)) * nodes
        out[rows] = function(f, rows) @ weights
    return out


def moments(function: Callable, m: Array, v: Array, sharpness: Array | float = 1.0):
    """Return mean and variance of ``function(f, rows)`` under N(m, v), without cancellation."""
    mean = expectation(function, m, v, sharpness)

    def squares(f, rows):
        return (function(f, rows) - mean[rows, None]) ** 2

    return mean, expectation(squares, m, v, 4.0 * np.asarray(sharpness))


def mode(value: Callable, start: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """Return by how much the mode of p(y | f) N(f; m, v) differs from m, and the curvature there.

    ``value(f)`` returns log p, its slope and minus its second derivative. ``start`` is near the
    maximum of p: as a rule the mode is between it and m. Newton's steps that leave the bracket, or
    are not half as long as those before, are replaced by halving it.
    """
    ahead = start - m
    _, g, w = value(start)
    _, slope, _ = value(m)
    # A concave log p is steepest at m, on the way to its mode.
    end = v * slope
    between = (ahead * slope > 0.0) & ((g - ahead / v) * slope <= 0.0)
    end = np.where(between & (np.abs(ahead) < np.abs(end)), ahead, end)
    low, high = np.minimum(end, 0.0), np.maximum(end, 0.0)
    w = np.maximum(w, 0.0)
    shift = np.clip((w * ahead + g) / (w + 1.0 / v), low, high)
    last = high - low
    for _ in range(_STEPS):
        _, g, w = value(m + shift)
        rest, curvature = g - shift / v, np.maximum(w, 0.0) + 1.0 / v
        low, high = np.where(rest > 0.0, shift, low), np.where(rest > 0.0, high, shift)
        step = rest / curvature
        if np.all(np.abs(step) * np.sqrt(curvature) < 1e-3):
            break
        safe = (shift + step >= low) & (shift + step <= high) & (np.abs(step) <= 0.5 * last)
        step = np.where(safe, step, 0.5 * (low + high) - shift)
        shift, last = shift + step, np.abs(step)
    _, _, w = value(m + shift)
    return shift, np.maximum(w, 0.0) + 1.0 / v


def log_density(value: Callable, start: Array, m: Array, v: Array) -> Array:
    """Return log of the mean of p(y | f) under N(m, v), for p log-concave in f or nearly so."""
    v = np.maximum(v, 1e-30)
    shift, curvature = mode(value, start, m, v)
    half = np.minimum(_REACH * np.sqrt(v), _WIDE / np.sqrt(curvature))
    steps = np.linspace(-1.0, 1.0, _PLACES)
    highest, total = np.full(len(m), -np.inf), np.zeros(len(m))
    for step in steps:  # a running log-sum-exp: no arrays of rows by places
        away = shift + step * half
        term = value(m + away)[0] - 0.5 * away**2 / v
        top = np.maximum(highest, term)
        total = total * np.exp(highest - top) + np.exp(term - top)
        highest = top
    return highest + np.log(total * half * (steps[1] - steps[0])) - 0.5 * np.log(2.0 * np.pi * v)


def log_mean_exp(function: Callable, m: Array, v: Array, sharpness: Array | float) -> Array:
    """Return log of the mean of exp(``function(f, rows)``) under N(m, v), for any function."""
    out = np.empty(len(m))
    q = np.maximum(v, 0.0) * np.broadcast_to(sharpness, m.shape)
    numbers = np.minimum(np.searchsorted(LARGEST, q), len(LARGEST) - 1)
    for number, rows in _pieces(numbers):
        nodes, weights = full(number)
        f = m[rows, None] + np.sqrt(np.maximum(v[rows, None], 0.0)) * nodes
        terms = function(f, rows)
        top = terms.max(axis=1)
        out[rows] = top + np.log(np.exp(terms - top[:, None]) @ weights)
    return out


def root(function: Callable, low: Array, high: Array, tolerance: float = 1e-11) -> Array:
    """Return where increasing functions, one per row, cross zero between low and high.

    Chandrupatla's method: inverse quadratic interpolation where it is safe, halving elsewhere.
    """
    a, b = np.array(high), np.array(low)
    fa, fb = function(a), function(b)
    c, fc, t = a.copy(), fa.copy(), np.full(len(a), 0.5)
    for _ in range(100):
        x = a + t * (b - a)
        fx = function(x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        width = np.abs(b - a)
        enough = tolerance * (1.0 + np.abs(best))
        if np.all((width <= 2.0 * enough) | (fa == 0.0) | (fb == 0.0)):
            break
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inner = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
                fc - fb
            )
            least = enough / width
        t = np.where(inner & np.isfinite(t), t, 0.5)
        t = np.clip(t, np.minimum(least, 0.5), np.maximum(1.0 - least, 0.5))
    return np.where(np.abs(fa) < np.abs(fb), a, b)


def first_whole(function: Callable, low: Array, high: Array) -> Array:
    """Return the least whole number above low at which increasing functions are not negative.

    They are negative at ``low`` and not so at ``high``.
    """
    low, high = np.floor(low), np.ceil(high)
    while True:
        middle = np.floor(low + 0.5 * (high - low))
        if not np.any((low < middle) & (middle < high)):  # no number is left between them
            return high
        below = function(middle) < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
