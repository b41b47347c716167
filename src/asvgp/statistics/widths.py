"""Widths of the intervals that observations are averages over, and their weights."""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array

_SAME_WIDTH = 1e-7  # widths that differ by less, relatively, are one


def grouped(widths: Array, weights: Array) -> tuple[Array, Array]:
    """Return the distinct widths and the sums of their weights.

    Widths that differ by rounding only are one; their weighted mean stands for them, which
    leaves no error of first order. Weights may be negative; a group of which nothing but
    rounding is left is dropped.

    Examples
    --------
    >>> grouped(np.array([1.0, 0.0, 1.0, 2.0]), np.array([1.0, 5.0, 2.0, 3.0]))
    (array([0., 1., 2.]), array([5., 3., 3.]))
    """
    if not len(widths):
        return np.empty(0), np.empty(0)
    order = np.argsort(widths)
    widths, weights = widths[order], weights[order]
    first = np.flatnonzero(np.append(True, np.diff(widths) > _SAME_WIDTH * widths[1:]))
    total, size = (np.add.reduceat(w, first) for w in (weights, np.abs(weights)))
    present = np.abs(total) > 1e-11 * size
    means = np.add.reduceat(weights * widths, first)[present] / total[present]
    return means, total[present]
