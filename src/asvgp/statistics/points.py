"""Statistics in few numbers: a cell that holds one distinct input needs no moments.

Where all data of a cell have the same inputs s, its sums are ``w prod_d s_d**j_d`` and the like:
the weight, the first moments and the sums of y and of the columns tell all others. Empty cells
need nothing. Model files hold statistics in this form where it is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import prod
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.runtime.memory import in_words, physical_memory
from asvgp.statistics.combining import TABLES
from asvgp.statistics.statistics import Statistics, shapes_of_sums

_ROUNDING = 1e-14  # of a cell's sums: so far they may be from those of one input
_WORTH = 0.75  # share of the size of whole tables that this form must not exceed


def to_points(stats: Statistics) -> dict[str, Any] | None:
    """Return the fields of statistics with points in place of tables; None if not smaller.

    In place of the tables there are ``point_cells``, the steps from one cell with a single input
    to the next, ``point_firsts``, their weights and first moments, (n, 1 + D), and
    ``point_sums``, of y and of the columns, (n, outputs + C). Cells with several inputs are
    ``other_cells``, with ``other_moments`` and ``other_sums``.

    Examples
    --------
    >>> from asvgp.basis import Grid
    >>> stats = Statistics.from_data([0.1, 0.6, 0.7], np.ones(3), Grid(0.0, 1.0, 40), degree=2)
    >>> parts = to_points(stats)
    >>> parts["point_firsts"].shape, parts["other_moments"].shape
    ((3, 2), (0, 5))
    >>> bool(np.allclose(from_points(parts)["moments"], stats.moments, rtol=1e-14))
    True
    """
    if not stats.grids or stats.all_pairs or not stats.weight > 0.0:
        return None
    moments, sums = _flat(stats)
    filled = np.asarray(moments.any(axis=1) | sums.any(axis=(1, 2)))
    cells = np.flatnonzero(filled & (moments[:, 0] > 0.0))
    firsts = moments[cells][:, [0, *_first_powers(stats.degrees)]]
    single = _single(stats, moments[cells], sums[cells], firsts)
    cells, firsts = cells[single], firsts[single]
    filled[cells] = False
    others = np.flatnonzero(filled)
    points = {
        "point_cells": _steps(cells),
        "point_firsts": firsts,
        "point_sums": sums[cells, 0],
        "other_cells": _steps(others),
        "other_moments": moments[others],
        "other_sums": sums[others],
    }
    whole = sum(getattr(stats, name).nbytes for name in TABLES)
    if sum(array.nbytes for array in points.values()) > _WORTH * whole:
        return None
    names = [item.name for item in fields(stats) if item.name not in TABLES]
    return {name: getattr(stats, name) for name in names} | points


def from_points(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of statistics, tables included; sizes that do not fit are refused."""
    parts = dict(parts)
    names = "cells", "firsts", "sums"
    steps, firsts, point_sums = (parts.pop(f"point_{name}") for name in names)
    other_steps, other_moments, other_sums = (
        parts.pop(f"other_{name}") for name in ("cells", "moments", "sums")
    )
    grids, degrees, outputs = parts["grids"], parts["degrees"], len(parts["squares"])
    columns = len(parts["column_gram"])
    shapes, count = shapes_of_sums(grids, degrees, columns, outputs), prod(g.cells for g in grids)
    if not grids or min(g.cells for g in grids) < 1 or min(degrees) < 1:
        raise ValueError(f"points on {grids} of degrees {degrees}")
    needed = 8 * sum(prod(shapes[name]) for name in TABLES)
    if needed > physical_memory():
        raise MemoryError(f"statistics on {count:,} cells need {in_words(needed)}")
    cells, others = _numbers(steps, count), _numbers(other_steps, count)
    if len(np.intersect1d(cells, others)):
        raise ValueError("a cell is both a point and not")
    powers = prod(k + 1 for k in degrees), prod(2 * k + 1 for k in degrees)
    for name, found, shape in (
        ("firsts of points", firsts, (len(cells), 1 + len(grids))),
        ("sums of points", point_sums, (len(cells), outputs + columns)),
        ("moments of cells", other_moments, (len(others), powers[1])),
        ("sums of cells", other_sums, (len(others), powers[0], outputs + columns)),
    ):
        if found.shape != shape or found.dtype != np.float64:
            raise ValueError(
                f"{name} are {found.dtype} in shape {found.shape}, where float64 in shape {shape} "
                "would fit the rest"
            )
    if not np.all(firsts[:, 0] > 0.0):
        raise ValueError("a point has no weight")
    moments, sums = np.zeros((count, powers[1])), np.zeros((count, *other_sums.shape[1:]))
    moments[cells], sums[cells] = _rebuilt(degrees, firsts, point_sums)
    moments[others], sums[others] = other_moments, other_sums
    targets, cross = np.split(sums, [outputs], axis=2)
    tables = {"moments": moments, "targets": targets.transpose(2, 0, 1), "cross": cross}
    reshaped = {name: table.reshape(shapes[name]) for name, table in tables.items()}
    return parts | {name: np.ascontiguousarray(table) for name, table in reshaped.items()}


def _flat(stats: Statistics) -> tuple[Array, Array]:
    """Return the moments, (cells, powers), and sums of y and columns, (cells, powers, sums)."""
    count = prod(grid.cells for grid in stats.grids)
    powers = prod(k + 1 for k in stats.degrees)
    targets = stats.targets.reshape(stats.outputs, count, powers).transpose(1, 2, 0)
    cross = stats.cross.reshape(count, powers, stats.cross.shape[-1])
    moments = stats.moments.reshape(count, prod(2 * k + 1 for k in stats.degrees))
    return moments, np.concatenate([targets, cross], axis=2)


def _first_powers(degrees: Sequence[int]) -> list[int]:
    """Return the places of the first moments among all, one for every input."""
    sizes = [2 * k + 1 for k in degrees]
    return [prod(sizes[d + 1 :]) for d in range(len(sizes))]


def _single(stats: Statistics, moments: Array, sums: Array, firsts: Array) -> Array:
    """Return True for cells whose sums are those of one input, to rounding."""
    squares = np.append(stats.squares, np.diag(stats.column_gram))
    scales = np.sqrt(np.abs(squares) / stats.weight)  # of y and of the columns
    own_moments, own_sums = _rebuilt(stats.degrees, firsts, sums[:, 0])
    weight = firsts[:, :1]
    close = np.abs(moments - own_moments) <= _ROUNDING * weight
    limit = _ROUNDING * (np.abs(sums[:, 0]) + weight * scales)[:, None, :]
    return np.asarray(close.all(axis=1) & (np.abs(sums - own_sums) <= limit).all(axis=(1, 2)))


def _rebuilt(degrees: Sequence[int], firsts: Array, sums: Array) -> tuple[Array, Array]:
    """Return the moments and sums of cells that hold one input each; first moments as given."""
    weight = firsts[:, :1]
    inside = firsts[:, 1:] / weight
    moments = weight * _monomials(inside, [2 * k for k in degrees])
    moments[:, _first_powers(degrees)] = firsts[:, 1:]
    return moments, _monomials(inside, degrees)[:, :, None] * sums[:, None, :]


def _monomials(s: Array, degrees: Sequence[int]) -> Array:
    """Return the products of all powers, (n, prod(degrees + 1))."""
    out = np.ones((len(s), 1))
    for d, degree in enumerate(degrees):
        powers = s[:, d, None] ** np.arange(degree + 1)
        out = (out[:, :, None] * powers[:, None, :]).reshape(len(s), out.shape[1] * (degree + 1))
    return out


def _steps(cells: np.ndarray) -> Array:
    """Return increasing numbers as steps from one to the next, which compress well."""
    return np.diff(cells, prepend=-1).astype(float)


def _numbers(steps: Array, count: int) -> np.ndarray:
    """Return the numbers of cells, of which there are ``count``, from the steps between them."""
    if steps.dtype != np.float64 or steps.ndim != 1:
        raise ValueError(f"the numbers of cells are {steps.dtype} in shape {steps.shape}")
    if not np.all((steps >= 1.0) & (steps <= count) & (steps % 1.0 == 0.0)):
        raise ValueError("the numbers of cells do not increase")
    numbers = np.cumsum(steps) - 1.0
    if len(numbers) and numbers[-1] >= count:
        raise ValueError(f"cell {numbers[-1]:.0f} of {count}")
    return numbers.astype(np.int64)
