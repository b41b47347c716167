"""Adding, subtracting and packing statistics, and checks on what a subtraction leaves."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from asvgp.basis import Array, occupied

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics

TABLES = {"moments": 0, "targets": 1, "cross": 0}  # sums of each cell: axes before the cells
SUMS = (*TABLES, "column_gram", "column_targets", "squares")
_ROUNDING = 1e-11  # of a sum of weights: what may be left of it after all data were subtracted
_SAME_WIDTH = 1e-7  # widths of intervals that differ by less, relatively, are one
_TOLERANCE = 1e-9  # of squares and logarithms, which cancel less well than weights


def combined(stats: Statistics, other: Statistics, sign: int) -> Statistics:
    """Return the sum (``sign = 1``) or the difference (-1) of all sums."""
    _check_compatible(stats, other)
    other = other.recentred(stats.centre, stats.column_centre)
    names = (*SUMS[1:], "count", "missing", "log_weights", "log_jacobian")
    with np.errstate(invalid="ignore"):  # of two infinite sums of a transform that is ruled out
        sums = {name: getattr(stats, name) + sign * getattr(other, name) for name in names}
    if len(stats.constants) or len(other.constants):
        mine, theirs = (part.constants if len(part.constants) else 0.0 for part in (stats, other))
        sums["constants"] = mine + sign * theirs
    moments, others = stats.moments, other.moments
    if stats.all_pairs != other.all_pairs:
        upper = np.triu_indices(stats.degree + 1)
        moments, others = moments[:, stats.pair[upper]], others[:, other.pair[upper]]
    if stats.averaged or other.averaged:
        mine, theirs = stats.by_width, other.by_width
        sums["widths"], sums["width_weights"] = grouped(
            np.append(mine[0], theirs[0]), np.append(mine[1], sign * theirs[1])
        )
    if sign > 0:
        sums["lowest"] = min(stats.lowest, other.lowest)
        sums["ending"] = stats.ending.joined(other.ending)
    # Without cells, the sum of two arrays of no dimension is a number, not an array.
    return replace(stats, **sums, moments=np.asarray(moments + sign * others))


def difference(stats: Statistics, other: Statistics) -> Statistics:
    """Return the statistics without data that were added before; see `Statistics.__sub__`."""
    left = combined(stats, other, -1)
    signed = isnan(left.log_weights)  # then a cell may have no weight, or a negative one
    limit = _ROUNDING * stats.cell_weights
    empty = np.abs(left.cell_weights) <= limit
    short = np.argwhere(left.cell_weights < -limit)
    if left.count < 0 or (not signed and (len(short) or _contradicts(left, stats, empty))):
        where = ""
        if stats.grids and len(short):
            cell = short[0].tolist()
            shown = cell[0] if len(cell) == 1 else tuple(cell)
            where = f", cell {shown} the first of {len(short)}"
        raise ValueError(
            f"These data cannot be forgotten, because they were never added: {other.count} "
            f"observations from {stats.count}{where}. Forget exactly what was added, with the "
            f"same weights{' and widths' if stats.averaged else ''}."
        )
    if not signed:
        _clear(left, stats, empty)
    return _shortened(left)


def _shortened(left: Statistics) -> Statistics:
    """Return statistics without the note of their last input, if that is in an empty cell."""
    last = left.ending.last
    if last is None:
        return left
    grid = left.grid
    cell = int((last - grid.lower) * (grid.cells / (grid.upper - grid.lower)))  # as in the pass
    if left.cell_weights[min(cell, grid.cells - 1)] != 0.0:
        return left
    return replace(left, ending=replace(left.ending, last=None))


def recentred(stats: Statistics, centre: Array, column_centre: Array) -> Statistics:
    """Return the same statistics with other numbers subtracted from y and the columns."""
    shift, linear_shift = stats.centre - centre, stats.column_centre - column_centre
    if not shift.any() and not linear_shift.any():
        return stats
    base = stats.moments[(..., *(slice(k + 1) for k in stats.degrees))]  # sums of w and powers
    column_shift = np.concatenate([np.zeros(len(stats.column_gram) - stats.linear), linear_shift])
    sums, column_sums, weight = stats.centred_sums, stats.column_sums, stats.weight
    shared = np.outer(column_shift, column_sums)
    return replace(
        stats,
        targets=stats.targets + np.multiply.outer(shift, base),
        cross=stats.cross + np.multiply.outer(base, column_shift),
        column_gram=stats.column_gram
        + shared
        + shared.T
        + np.outer(column_shift, column_shift) * weight,
        column_targets=stats.column_targets
        + np.outer(shift, column_sums)
        + np.outer(sums, column_shift)
        + np.outer(shift, column_shift) * weight,
        squares=stats.squares + 2.0 * shift * sums + shift**2 * weight,
        centre=centre,
        column_centre=column_centre,
    )


def _check_compatible(stats: Statistics, other: Statistics) -> None:
    """Check that the sums of two statistics mean the same."""
    if stats.convention != other.convention:
        raise ValueError(
            "Statistics combine only where weights mean the same and inputs are counted from "
            f"the same origin: {stats.convention!r} against {other.convention!r}."
        )
    for name in ("grids", "degrees", "smooths", "linear", "outputs"):
        mine, theirs = getattr(stats, name), getattr(other, name)
        if mine != theirs:
            raise ValueError(
                "Statistics combine only on the same grids, degrees, columns and number of "
                f"outputs; the {name} differ: {mine} against {theirs}. Give both fits the "
                "same domain, num_basis, degree and effects. Trained models with automatic cells "
                "are saved for this with full=True."
            )


def _clear(left: Statistics, before: Statistics, empty: Array) -> None:
    """Set to zero, in place, what rounding left of the sums of empty cells and columns."""
    left.moments[empty] = 0.0
    left.targets[:, empty] = 0.0
    left.cross[empty] = 0.0
    gone = np.abs(np.diag(left.column_gram)) <= _ROUNDING * np.diag(before.column_gram)
    left.column_gram[gone] = 0.0
    left.column_gram[:, gone] = 0.0
    left.column_targets[:, gone] = 0.0
    left.cross[..., gone] = 0.0


def _contradicts(left: Statistics, before: Statistics, empty: Array) -> bool:
    """Return whether no data can have the sums ``left``, beyond rounding of those ``before``.

    The sums may change afterwards, so nothing here asks ``left`` for a property that is cached.
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
        or bool(np.any(left.width_weights < -_ROUNDING * before.weight))
        or _too_large_log(left.log_weights, left.count, float(weight.sum()), before.weight)
    )


def _too_small(
    weight: Array, before: Array, empty: Array, sums: Array, squares: Array, whole: Array
) -> bool:
    """Return whether squares are smaller than the sums in the cells require, beyond rounding.

    Squares were ``whole`` before the subtraction, and the weights of the cells ``before``.
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


def packed(stats: Statistics) -> dict[str, Any]:
    """Return the fields for another process: of tables the box of cells with any sum but zero."""
    D = len(stats.grids)  # sums, not weights, as weights of both signs may cancel
    filled = stats.moments.any(axis=tuple(range(D, 2 * D)))
    filled = filled | stats.targets.any(axis=(0, *range(1 + D, 1 + 2 * D)))
    box = occupied(np.asarray(filled | stats.cross.any(axis=tuple(range(D, 2 * D + 1)))))
    state = {item.name: getattr(stats, item.name) for item in fields(stats)}
    for name, lead in TABLES.items():
        state[name] = np.array(state[name][(*[slice(None)] * lead, *box)], order="C")
    return state | {"box": box}


def unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with whole tables."""
    box = state.pop("box")
    cells = tuple(grid.cells for grid in state["grids"])
    for name, lead in TABLES.items():
        part = state[name]
        whole = np.zeros((*part.shape[:lead], *cells, *part.shape[lead + len(cells) :]))
        whole[(*[slice(None)] * lead, *box)] = part
        state[name] = whole
    return state
