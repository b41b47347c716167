"""Sums over gridded data, one axis after the other.

A point of gridded data has the coordinates (axis_1[i_1], ..., axis_D[i_D]), so the powers of
its local coordinates are products over the axes, and the sums

    sum over i_1, ..., i_D of  values[i_1, ..., i_D] prod_d s_d(i_d)**j_d

are D contractions, each with the sparse matrix of one axis' powers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid


def gridded_sums(
    values,
    axes: Sequence,
    grids: Sequence[Grid],
    degrees: Sequence[int],
    sample_weight=None,
    centre: Array | None = None,
) -> dict[str, Any]:
    """The sums of `asvgp.field.stats.FieldStatistics` that gridded data have, by name.

    ``centre`` is taken off the values, a number an output.
    """
    values = np.asarray(values)
    shape = tuple(len(axis) for axis in axes)
    if not len(axes) == len(grids) == len(degrees):
        raise ValueError(
            f"{len(axes)} axes, {len(grids)} grids and {len(degrees)} degrees: give one each."
        )
    values = values[None] if values.ndim == len(shape) else values
    if values.shape[1:] != shape:
        raise ValueError(
            f"The axes have lengths {shape}, but the values have shape {values.shape}: give them "
            "as (n_1, ..., n_D) or (outputs, n_1, ..., n_D)."
        )
    absent = np.isnan(values).any(axis=0)
    missing, log_weights, weights = int(absent.sum()), 0.0, None
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != shape:
            raise ValueError(
                f"sample_weight has shape {weights.shape}, but the axes have lengths {shape}."
            )
        log_weights = float(np.log(weights[~absent]).sum())
    if missing:
        weights = np.where(absent, 0.0, 1.0 if weights is None else weights)

    double = [2 * k for k in degrees]
    if weights is None:
        ones = [np.ones(length) for length in shape]
        sides = [
            _contract(one, [axis], [grid], [k])
            for one, axis, grid, k in zip(ones, axes, grids, double, strict=True)
        ]
        moments = _cells_first(reduce(np.multiply.outer, sides), len(shape))
    else:
        moments = _cells_first(_contract(weights, axes, grids, double), len(shape))
    targets, squares = [], []
    for number, output in enumerate(values):  # one at a time: no second copy of them all
        if centre is not None and centre[number]:
            output = output - centre[number]
        output = np.where(absent, 0.0, output) if missing else output.astype(float, copy=False)
        weighted = output if weights is None else weights * output
        targets.append(_cells_first(_contract(weighted, axes, grids, degrees), len(shape)))
        squares.append(np.vdot(weighted, output))
    return {
        "moments": moments,
        "targets": np.stack(targets),
        "squares": np.array(squares),
        "count": absent.size - missing,
        "missing": missing,
        "log_weights": log_weights,
    }


def _contract(values: Array, axes: Sequence, grids: Sequence[Grid], powers: Sequence[int]) -> Array:
    """Sums per cell and power, (cells_1, powers_1 + 1, ..., cells_D, powers_D + 1)."""
    sizes = []
    for axis, grid, power in zip(axes, grids, powers, strict=True):
        matrix = _power_matrix(axis, grid, power)
        # The first axis is contracted and becomes the last; after all they are in order.
        values = (matrix @ values.reshape(len(axis), -1)).T
        sizes += [grid.cells, power + 1]
    return values.reshape(sizes)


def _power_matrix(axis, grid: Grid, power: int) -> sparse.csr_array:
    """Entry ``(cell (power + 1) + j, i)`` is s**j for the i-th coordinate, in its cell."""
    cell, s = grid.locate(axis)
    exponents = np.arange(power + 1)
    rows = cell[:, None] * (power + 1) + exponents
    columns = np.broadcast_to(np.arange(len(s))[:, None], rows.shape)
    entries = (s[:, None] ** exponents).ravel()
    shape = (grid.cells * (power + 1), len(s))
    return sparse.csr_array((entries, (rows.ravel(), columns.ravel())), shape=shape)


def _cells_first(sums: Array, inputs: int) -> Array:
    """From cells and powers in turn to all cells, then all powers."""
    order = [*range(0, 2 * inputs, 2), *range(1, 2 * inputs, 2)]
    return np.ascontiguousarray(sums.transpose(order))
