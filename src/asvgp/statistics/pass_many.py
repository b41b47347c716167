"""The pass over data of several inputs: batches, shared tables, all cores.

Two steps alternate. Points of a batch are *located*, with every thread taking a share of the
rows; then they are *added*, with every thread taking a share of the tables. So there is one copy
of each table, however large, and the order of the sums does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, isfinite, log2, nan, prod
from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array, bspline_coefficients
from asvgp.linalg.cells.accumulate_columns import add_pair, spline_values
from asvgp.linalg.cells.accumulate_field import (
    add_cross,
    add_points,
    gather,
    locate,
    looped_inputs,
    sort_blocks,
)
from asvgp.linalg.unrolled import markers_of
from asvgp.runtime.parallel import as_doubles, each_share
from asvgp.statistics.nesting import closed

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Smooth, Statistics

BATCH = 1 << 18
BLOCKS = 1 << 12  # of cells: enough to share evenly, few enough to sort into

Columns = Sequence[Array]  # one array for each column, of any number type and stride


class ManyInputs:
    """Sums over rows of any number of inputs, smooths and columns of given values.

    The first block must be the longest. Blocks whose lengths are multiples of `BATCH`, except
    for the last, give the same bits as all rows at once. The sums have the grids, columns, centres
    and convention of ``like``.
    """

    def __init__(self, like: Statistics):
        # Smooths around circles are summed up along a line, and closed at the end.
        self.smooths = like.smooths
        line = tuple((replace(grid, cyclic=False), degree) for grid, degree in like.smooths)
        self.sums, self.count = replace(like, smooths=line).emptied(), 0
        self.cells: CellSums | None = None
        self.columns: ColumnSums | None = None

    def add(
        self,
        inputs: Columns,
        y: Array,
        sample_weight: Array | None = None,
        smooth_inputs: Columns = (),
        covariates: Columns = (),
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add a block of rows, with y of shape (n, outputs)."""
        if not self.count:
            self.observations = Observations(min(len(y), BATCH), self.sums.centre)
            if self.sums.grids:
                self.cells = CellSums(self.observations, self.sums)
            if len(self.sums.column_gram) or not self.sums.grids:
                self.columns = ColumnSums(self.observations, self.sums, self.smooths)
        self.observations.y, self.observations.sample_weight = y, sample_weight
        if self.cells is not None:
            self.cells.x = inputs
        if self.columns is not None:
            self.columns.smooth_inputs, self.columns.linear = smooth_inputs, covariates
        for begin in range(0, len(y), BATCH):
            rows = min(BATCH, len(y) - begin)
            self._add_batch(begin, rows)
            if progress is not None:
                progress(rows)
        self.count += len(y)

    def _add_batch(self, begin: int, rows: int) -> None:
        """Locate and add the rows from ``begin`` on."""
        observations, cells, columns = self.observations, self.cells, self.columns

        def locate_share(start: int, stop: int):
            totals = observations.read(begin, start, stop)
            if columns is not None:
                columns.locate(begin, start, stop)
            return totals, None if cells is None else cells.locate(begin, start, stop)

        def add_share(start: int, stop: int) -> None:
            if cells is not None:
                cells.add(start, stop, columns)
            if columns is not None:
                columns.add(start, stop, rows)

        located = each_share(rows, locate_share)
        for (squares, missing, log_weights), _ in located:
            observations.squares += squares
            observations.missing += missing
            observations.log_weights += log_weights
        if cells is not None:
            cells.offsets = [offsets for _, offsets in located]
        each_share(rows, add_share)

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far, less its centre; infinite where y is."""
        return self.observations.squares

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks so far."""
        sums, observations = self.sums, self.observations
        if self.columns is not None:
            gram, count = self.columns.symmetric(), len(sums.column_gram)
            sums = replace(
                sums,
                column_gram=gram[:count, :count].copy(),
                column_targets=gram[count:-1, :count].copy(),
            )
            if not sums.grids:  # then the column of ones holds the sums over all data
                sums = replace(
                    sums,
                    moments=np.asarray(gram[-1, -1]),
                    targets=gram[-1, count:-1].copy(),
                    cross=gram[-1, :count].copy(),
                )
        if any(grid.cyclic for grid, _ in self.smooths):
            sums = closed(sums, self.smooths)
        log_weights = observations.log_weights
        return replace(
            sums,
            squares=observations.squares,
            count=self.count - observations.missing,
            missing=observations.missing,
            log_weights=log_weights if isfinite(log_weights) else nan,
        )


class Observations:
    """Weights and outputs, less their centre, of a batch; rows that are missing weigh nothing."""

    y: Array
    sample_weight: Array | None

    def __init__(self, rows: int, centre: Array):
        self.rows, self.centre = rows, centre
        self.weights, self.outputs = np.empty(rows), np.empty((len(centre), rows))
        self.squares, self.missing, self.log_weights = np.zeros(len(centre)), 0, 0.0

    def read(self, begin: int, start: int, stop: int) -> tuple[Array, int, float]:
        """Read rows ``start`` to ``stop`` of the batch from ``begin`` on, and return totals."""
        rows, share = slice(begin + start, begin + stop), slice(start, stop)
        weights, outputs = self.weights[share], self.outputs[:, share]
        np.subtract(self.y[rows].T, self.centre[:, None], out=outputs)
        weights[:] = 1.0 if self.sample_weight is None else self.sample_weight[rows]
        absent = np.isnan(outputs).any(axis=0)
        missing, log_weights = int(absent.sum()), 0.0
        if missing:
            outputs[:, absent] = 0.0
            weights[absent] = 1.0
        if self.sample_weight is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # of weights not positive
                log_weights = float(np.log(weights).sum())
        if missing:
            weights[absent] = 0.0
        return (weights * outputs * outputs).sum(axis=1), missing, log_weights


class CellSums:
    """Moments, targets and cross products of the cells of the main block."""

    x: Columns

    def __init__(self, observations: Observations, sums: Statistics):
        self.observations, self.grids, rows = observations, sums.grids, observations.rows
        cells, outputs = prod(grid.cells for grid in sums.grids), sums.outputs
        self.inputs = len(sums.grids)
        self.degrees = np.array(sums.degrees, dtype=np.int64)
        split = looped_inputs(sums.degrees)
        self.lead, self.markers = self.degrees[:split], markers_of(sums.degrees[split:])
        self.moments = sums.moments.reshape(cells, -1)  # views: sums are added in place
        self.targets = sums.targets.reshape(outputs, cells, -1)
        self.cross = sums.cross.reshape(cells, self.targets.shape[2], sums.cross.shape[-1])
        self.shift = max(0, ceil(log2(cells / BLOCKS)))
        self.blocks = ((cells - 1) >> self.shift) + 1
        self.cell, self.sorted_cell = np.empty((2, rows), dtype=np.int64)
        self.order = np.empty(rows, dtype=np.int32)
        self.points = np.zeros((self.inputs + 1 + outputs, rows))
        self.sorted_points = np.empty_like(self.points)
        self.offsets: list[Array] = []  # of the blocks in every share of the batch

    def locate(self, begin: int, start: int, stop: int) -> Array:
        """Sort a share of the rows by blocks of cells, and return where each block begins."""
        share, inputs = slice(start, stop), self.inputs
        cell, order = self.cell[share], self.order[share]
        cell[:] = 0
        for d, (column, grid) in enumerate(zip(self.x, self.grids, strict=True)):
            x = grid.around(as_doubles(column[begin + start : begin + stop]))
            scale = grid.cells / (grid.upper - grid.lower)
            local = self.points[d, share]
            locate(x, grid.lower, scale, grid.cells, cell, local)
        weights = self.observations.weights[share]
        self.points[inputs, share] = weights
        self.points[inputs + 1 :, share] = weights * self.observations.outputs[:, share]
        offsets = sort_blocks(cell, self.shift, self.blocks, order)
        gather(order, cell, self.sorted_cell[share])
        for values, into in zip(self.points, self.sorted_points, strict=True):
            gather(order, values[share], into[share])
        order += start
        return offsets + start

    def add(self, start: int, stop: int, columns: ColumnSums | None) -> None:
        """Add the blocks that begin between ``start`` and ``stop`` if all rows were sorted."""
        begins = np.sum([offsets - offsets[0] for offsets in self.offsets], axis=0)
        b, e = np.searchsorted(begins[:-1], [start, stop])
        for offsets in self.offsets:
            cell, points = self.sorted_cell, self.sorted_points
            at = offsets[b], offsets[e]
            into = np.empty(self.moments.shape[1]), self.moments, self.targets
            add_points(self.markers, self.lead, cell, points, *at, *into)
            if columns is not None:
                first = columns.first[: columns.model_groups]
                values = first, columns.offsets, columns.values
                into = np.empty(self.cross.shape[1]), self.cross
                add_cross(self.degrees, self.order, cell, points, *at, *values, *into)


class ColumnSums:
    """Gram matrix of the global columns, bordered by the outputs and a column of ones.

    The border holds the products of the columns with the outputs and their sums.
    """

    smooth_inputs: Columns
    linear: Columns

    def __init__(self, observations: Observations, sums: Statistics, smooths: Sequence[Smooth]):
        self.observations, self.centres, self.smooths = observations, sums.column_centre, smooths
        rows, dense = observations.rows, sums.linear + sums.outputs + 1
        groups = len(smooths) + dense
        self.model_groups = len(smooths) + sums.linear
        lengths = [grid.cells + degree for grid, degree in smooths] + [1] * dense
        self.sizes = [degree + 1 for _, degree in smooths] + [1] * dense
        self.begins = np.concatenate([[0], np.cumsum(lengths)])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.first = np.empty((groups, rows), dtype=np.int32)
        self.first[:] = self.begins[:-1, None]
        self.values = np.ones((self.offsets[-1], rows))  # the last row stays so
        self.gram = np.zeros((self.begins[-1], self.begins[-1]))
        # Pairs of groups, a smooth first; the block of the dense columns is one more product.
        self.pairs = [(g, h) for g in range(len(smooths)) for h in range(g, groups)]

    def locate(self, begin: int, start: int, stop: int) -> None:
        """Compute the values of the columns in a share of the rows."""
        rows, share = slice(begin + start, begin + stop), slice(start, stop)
        for j, (grid, degree) in enumerate(self.smooths):
            place = grid.lower, grid.cells / (grid.upper - grid.lower), grid.cells, self.begins[j]
            x = grid.around(as_doubles(self.smooth_inputs[j][rows]))
            splines = bspline_coefficients(degree)
            spline_values(x, *place, splines, start, *self._group(j))
        dense = self.values[self.offsets[len(self.smooths)] :, share]
        for i, column in enumerate(self.linear):
            np.subtract(column[rows], self.centres[i], out=dense[i])
        dense[len(self.linear) : -1] = self.observations.outputs[:, share]

    def add(self, start: int, stop: int, rows: int) -> None:
        """Add the part ``start / rows`` to ``stop / rows`` of the pairs."""
        weights, tasks = self.observations.weights[:rows], len(self.pairs) + 1
        for task in range(-(-start * tasks // rows), -(-stop * tasks // rows)):
            if task == len(self.pairs):
                m, c = self.offsets[len(self.smooths)], self.begins[len(self.smooths)]
                dense = self.values[m:, :rows]
                self.gram[c:, c:] += (dense * weights) @ dense.T
                continue
            g, h = self.pairs[task]
            markers = markers_of((self.sizes[g], self.sizes[h]))
            add_pair(markers, weights, *self._group(g), *self._group(h), self.gram)

    def _group(self, g: int) -> tuple[Array, Array]:
        """Return the first column of a group that is not zero at each row, and the values."""
        return self.first[g], self.values[self.offsets[g] : self.offsets[g + 1]]

    def symmetric(self) -> Array:
        """Return the whole matrix: only pairs in order were added."""
        return np.triu(self.gram) + np.triu(self.gram, 1).T


def columns_of(name: str, given, rows: int, count: int | None = None) -> list[Array]:
    """Return views of the columns of an array, or the arrays of a tuple, of checked shapes."""
    if given is None:
        columns = []
    elif isinstance(given, tuple):
        columns = [np.asarray(column) for column in given]
    else:
        array = np.asarray(given)
        columns = list((array[:, None] if array.ndim == 1 else array).T)
    expected = len(columns) if count is None else count
    if len(columns) != expected or any(column.shape != (rows,) for column in columns):
        shapes = [column.shape for column in columns]
        raise ValueError(
            f"{name} must have {expected} columns of {rows} rows, as y has; got {shapes}."
        )
    return columns
