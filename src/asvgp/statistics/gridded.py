"""Sums over gridded data, one axis after the other.

A point of gridded data has the coordinates (axis_1[i_1], ..., axis_D[i_D]), so the powers of
its local coordinates are products over the axes, and the sums

    sum over i_1, ..., i_D of  values[i_1, ..., i_D] prod_d s_d(i_d)**j_d

are D contractions, each with the sparse matrix of one axis' powers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics


class GridSums:
    """Sums over gridded data that come in blocks, each on coordinates of its own.

    A block costs no more than the cells that it touches. The sums have the grids, centres and
    convention of ``like``, and beside the grids at most the column of ones.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.statistics import Statistics
    >>> sums = GridSums(Statistics.empty([Grid(0.0, 1.0, 100), Grid(0.0, 1.0, 4)], [2, 1]))
    >>> for part in np.split(np.linspace(0.0, 1.0, 20), 4):
    ...     sums.add(np.ones((5, 3)), (part, np.array([0.1, 0.2, 0.3])))
    >>> sums.statistics().count
    60
    """

    def __init__(self, like: Statistics):
        self.sums, self.squares = like.emptied(), np.zeros(like.outputs)
        self.grids, self.degrees, self.centre = like.grids, like.degrees, like.centre
        self.count, self.missing, self.log_weights = 0, 0, 0.0

    def add(self, values, axes: Sequence, sample_weight=None) -> None:
        """Add values of shape (n_1, ..., n_D) or (outputs, n_1, ..., n_D) on axes of lengths n."""
        values = np.asarray(values)
        shape = tuple(len(axis) for axis in axes)
        if not len(axes) == len(self.grids) == len(self.degrees):
            raise ValueError(
                f"{len(axes)} axes, {len(self.grids)} grids and {len(self.degrees)} degrees: give "
                "one each."
            )
        values = values[None] if values.ndim == len(shape) else values
        if values.shape[1:] != shape:
            raise ValueError(
                f"The axes have lengths {shape}, but the values have shape {values.shape}: give "
                "them as (n_1, ..., n_D) or (outputs, n_1, ..., n_D)."
            )
        absent = np.isnan(values).any(axis=0)
        missing, weights = int(absent.sum()), None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            if weights.shape != shape:
                raise ValueError(
                    f"sample_weight has shape {weights.shape}, but the axes have lengths {shape}."
                )
            with np.errstate(divide="ignore", invalid="ignore"):  # of weights not positive
                self.log_weights += float(np.log(weights[~absent]).sum())
        if missing:
            weights = np.where(absent, 0.0, 1.0 if weights is None else weights)
        self.count += absent.size - missing
        self.missing += missing
        if not absent.size:
            return

        placed = [Placed(axis, grid) for axis, grid in zip(axes, self.grids, strict=True)]
        box = tuple(slice(axis.first, axis.first + axis.cells) for axis in placed)
        double, inputs = [2 * k for k in self.degrees], len(shape)
        if weights is None:
            pairs = zip(placed, double, strict=True)
            sides = [_contract(np.ones(len(axis.s)), [axis], [k]) for axis, k in pairs]
            self.sums.moments[box] += _cells_first(reduce(np.multiply.outer, sides), inputs)
        else:
            self.sums.moments[box] += _cells_first(_contract(weights, placed, double), inputs)
        for number, output in enumerate(values):  # one at a time: no second copy of them all
            if self.centre[number]:
                output = output - self.centre[number]
            output = np.where(absent, 0.0, output) if missing else output.astype(float, copy=False)
            weighted = output if weights is None else weights * output
            sums = _cells_first(_contract(weighted, placed, self.degrees), inputs)
            self.sums.targets[(number, *box)] += sums
            self.squares[number] += np.vdot(weighted, output)

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks so far."""
        log_weights = self.log_weights
        new = replace(
            self.sums,
            squares=self.squares,
            count=self.count,
            missing=self.missing,
            log_weights=log_weights if isfinite(log_weights) else nan,
            column_centre=np.zeros(self.sums.linear),
        )
        if not new.linear:
            return new
        lowest = (..., *(slice(k + 1) for k in self.degrees), None)
        return replace(
            new,
            cross=np.ascontiguousarray(new.moments[lowest]),
            column_gram=np.array([[new.weight]]),
            column_targets=new.centred_sums[:, None],
        )


class Placed:
    """Cells and local coordinates along one axis, counted from the first cell that has any."""

    def __init__(self, axis, grid: Grid):
        cell, self.s = grid.locate(axis)
        self.first = int(cell.min())
        self.cell, self.cells = cell - self.first, int(cell.max()) + 1 - self.first

    def matrix(self, power: int) -> sparse.csr_array:
        """Return a matrix whose entry ``(cell (power + 1) + j, i)`` is s**j of coordinate i."""
        exponents = np.arange(power + 1)
        rows = self.cell[:, None] * (power + 1) + exponents
        columns = np.broadcast_to(np.arange(len(self.s))[:, None], rows.shape)
        entries = (self.s[:, None] ** exponents).ravel()
        shape = (self.cells * (power + 1), len(self.s))
        return sparse.csr_array((entries, (rows.ravel(), columns.ravel())), shape=shape)


def _contract(values: Array, axes: Sequence[Placed], powers: Sequence[int]) -> Array:
    """Return sums per cell and power, (cells_1, powers_1 + 1, ..., cells_D, powers_D + 1)."""
    sizes = []
    for axis, power in zip(axes, powers, strict=True):
        # The first axis is contracted and becomes the last; after all they are in order.
        values = (axis.matrix(power) @ values.reshape(len(axis.s), -1)).T
        sizes += [axis.cells, power + 1]
    return values.reshape(sizes)


def _cells_first(sums: Array, inputs: int) -> Array:
    """Reorder axes from cells and powers in turn to all cells, then all powers."""
    order = [*range(0, 2 * inputs, 2), *range(1, 2 * inputs, 2)]
    return np.ascontiguousarray(sums.transpose(order))
