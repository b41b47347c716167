"""Functionals around a circle: values and derivatives at points, averages over intervals."""

from __future__ import annotations

from math import factorial

import numpy as np

from asvgp.basis import Array, bspline_coefficients
from asvgp.model.circle import CircleAxis

_POINT = 1e-5  # of a cell: over less, differences of integrals have fewer digits than the middle


class CircleRows:
    """Derivatives of the orders 0 to ``order`` at points, of functions around a circle."""

    def __init__(self, circle: CircleAxis, x: Array, order: int):
        self.circle, degree = circle, circle.degree
        spacing = circle.width * circle.fine.spacing
        turns = (np.asarray(x, dtype=float) - circle.fine.lower) / spacing
        cells = np.floor(turns)
        s, powers = (turns - cells)[:, None], np.arange(degree + 1)
        self.numbers = circle.numbers[cells.astype(np.int64) % circle.count]
        self.weights = []
        for i in range(order + 1):
            falling = np.array([factorial(p) / factorial(p - i) if p >= i else 0.0 for p in powers])
            taylor = falling / spacing**i * s ** np.maximum(powers - i, 0)
            self.weights.append(taylor @ bspline_coefficients(degree).T)

    def covariance(self, i: int, j: int) -> Array:
        """Return what the functions have of the covariance of two derivatives, (n,)."""
        first = self.circle.numbers[0]
        block = self.circle.inverse[np.ix_(first, first)]
        return np.einsum("na,ab,nb->n", self.weights[i], block, self.weights[j])


def around_averages(circle: CircleAxis, start: Array, stop: Array) -> Array:
    """Return averages of the functions around a circle over intervals, (intervals, functions).

    They may be longer than a period.
    """
    degree, count = circle.degree, circle.count
    spacing = circle.width * circle.fine.spacing
    basis = bspline_coefficients(degree)
    powers = np.arange(degree + 1)
    whole = np.zeros((count + 1, count))  # integrals over the first cells of the circle
    for cell in range(count):
        whole[cell + 1] = whole[cell]
        np.add.at(whole[cell + 1], circle.numbers[cell], basis @ (1.0 / (powers + 1.0)))

    def integral(x: Array) -> tuple[np.ndarray, Array]:
        """Return full turns up to x, and the integrals over what is left."""
        t = (x - circle.fine.lower) / spacing
        turns = np.floor(t / count)
        left = t - turns * count
        cell = np.clip(left.astype(np.int64), 0, count - 1)
        s = (left - cell)[:, None]
        part = (s ** (powers + 1) / (powers + 1.0)) @ basis.T
        out = whole[cell]
        np.add.at(out, (np.arange(len(x))[:, None], circle.numbers[cell]), part)
        return turns, out

    (before, low), (after, high) = integral(start), integral(stop)
    length = (stop - start) / spacing
    point = length < _POINT
    out = high - low + (after - before)[:, None] * whole[-1]
    out /= np.where(point, 1.0, length)[:, None]
    if point.any():
        middle = CircleRows(circle, 0.5 * (start + stop)[point], 0)
        rows = np.zeros((len(middle.numbers), count))
        np.add.at(rows, (np.arange(len(rows))[:, None], middle.numbers), middle.weights[0])
        out[point] = rows
    return out
