"""Checks on whether statistics left after a subtraction can be sums of any data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics

ROUNDING = 1e-11  # of a sum of weights: what may be left of it after all data were subtracted
_TOLERANCE = 1e-9  # of squares and logarithms, which cancel less well than weights


def contradicts(left: Statistics, before: Statistics, empty: Array) -> bool:
    """Return whether no data can have the sums ``left``, beyond rounding of those ``before``.

    ``empty`` marks the cells in which nothing but rounding is left. The sums may still be
    changed afterwards, so nothing here asks ``left`` for a property that is cached.
    """
    first, empty = [0] * len(left.grids), empty.reshape(-1)
    weight = np.where(empty, 0.0, left.cell_weights.reshape(-1))
    weights = weight, before.cell_weights.reshape(-1), empty
    sums = left.targets[(..., *first)].reshape(left.outputs, -1)
    columns = left.cross[(*[slice(None)] * len(left.grids), *first)].reshape(weight.size, -1)
    squares, whole = np.diag(left.column_gram), np.diag(before.column_gram)
    return (
        _too_small(*weights, sums, left.squares, before.squares)
        or _too_small(*weights, columns.T, squares, whole)
        or bool(np.any(left.width_weights < -ROUNDING * before.weight))
        or _too_large_log(left.log_weights, left.count, float(weight.sum()), before.weight)
    )


def _too_small(
    weight: Array, before: Array, empty: Array, sums: Array, squares: Array, whole: Array
) -> bool:
    """Return whether squares are smaller than the sums in the cells require, beyond rounding.

    ``sums`` are (rows, cells) and ``squares`` (rows,), which were ``whole`` before the
    subtraction; ``weight`` and ``before`` are the weights of the cells after and before it.
    """
    tolerance = _TOLERANCE * np.sqrt(np.outer(np.abs(whole), before))
    if np.any(np.abs(sums[:, empty]) > tolerance[:, empty] + 1e-300):
        return True
    needed = np.divide(sums**2, weight, out=np.zeros(sums.shape), where=weight > 0.0)
    return bool(np.any(needed.sum(axis=1) > squares + _TOLERANCE * np.abs(whole)))


def _too_large_log(log_weights: float, count: int, weight: float, before: float) -> bool:
    """Return whether ``count`` weights of this sum cannot have this sum of logarithms."""
    if count == 0:
        return weight > _TOLERANCE * before
    # The mean of logarithms is at most the logarithm of the mean.
    limit = float(np.log(weight / count)) if weight > 0.0 else -np.inf
    return log_weights / count > limit + _TOLERANCE * (1.0 + abs(limit))
