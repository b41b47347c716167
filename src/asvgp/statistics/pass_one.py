"""The pass over data of one input: vectors of sums per row, one table for each thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.cells.accumulate import (
    accumulate,
    accumulate_averages,
    aligned_table,
    average_table,
)
from asvgp.linalg.unrolled import markers_of
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share, split
from asvgp.statistics.combining import grouped
from asvgp.statistics.ending import Ending

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics


class _Share(NamedTuple):
    """Sums of one thread; the values are the outputs, followed by the columns."""

    tables: list[Array]  # for each value, moments and targets of every cell
    totals: Array  # (values, 3): weighted squares, missing rows, log weights
    products: Array  # (values, columns): weighted sums of values times columns


class OneInput:
    """Sums over rows of one input and columns of given values, with y at points or averaged.

    They have the grid, columns, centres and convention of ``like``.
    """

    def __init__(self, like: Statistics, averaged: bool = False):
        self.like, self.averaged = like, averaged
        (self.grid,), (self.degree,) = like.grids, like.degrees
        self.values = like.outputs + like.linear
        self.centres = np.concatenate([like.centre, like.column_centre])
        self.shares: dict[int, _Share] = {}
        self.widths = np.empty(0), np.empty(0)  # distinct ones, and their weights
        self.count = 0
        self.ending = Ending()

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far, less its centre; infinite where y is."""
        totals = [share.totals[: self.like.outputs, 0] for share in self.shares.values()]
        return np.sum(totals, axis=0)

    @property
    def missing(self) -> int:
        """Number of rows so far in which an output is NaN."""
        return int(sum(share.totals[0, 1] for share in self.shares.values()))

    def add(
        self,
        x: Array,
        y: Array,
        sample_weight: Array | None = None,
        covariates: Sequence[Array] = (),
        width: Array | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add a block of rows."""
        grid, outputs, missing = self.grid, self.like.outputs, self.missing
        markers = markers_of((self.degree,))
        place = grid.lower, grid.cells / (grid.upper - grid.lower)
        centred = bool(self.centres.any())
        # Each share has tables of its own: not worth it where there are more cells than rows.
        least = 2 * grid.cells
        numbers = {start: number for number, (start, _) in enumerate(split(len(y), least))}

        def add_share(start: int, stop: int) -> None:
            tables, totals, products = self._share(numbers[start])
            weights = np.empty(0)
            for begin, end in each_chunk(start, stop):
                points, values = as_doubles(x[begin:end]), as_doubles(y[begin:end].T)
                if self.values > 1:  # a row is missing in all outputs and columns or in none
                    absent = np.isnan(values).any(axis=0)
                    columns = [as_doubles(column[begin:end])[None] for column in covariates]
                    values = np.concatenate([values, *columns])
                    values[:, absent] = np.nan
                if centred:
                    values = values - self.centres[:, None]
                if sample_weight is not None:
                    weights = as_doubles(sample_weight[begin:end])
                lengths = None if width is None else as_doubles(width[begin:end])
                for row, table, total in zip(values, tables, totals, strict=True):
                    into = row, weights, *place, table, total
                    if lengths is None:
                        accumulate(self.degree, points, *into)
                    else:
                        accumulate_averages(markers, points, lengths, *into)
                if self.values > outputs:
                    known = np.where(np.isnan(values), 0.0, values)
                    weighted = known[outputs:] * weights if len(weights) else known[outputs:]
                    products += known @ weighted.T
                if progress is not None:
                    progress(end - begin)

        each_share(len(y), add_share, least)
        self.count += len(y)
        present = x if self.missing == missing else x[~np.isnan(y).any(axis=1)]
        self.ending = self.ending.joined(Ending.of(present))
        if width is not None:
            self._add_widths(width, y, sample_weight)

    def _add_widths(self, width: Array, y: Array, sample_weight: Array | None) -> None:
        present = ~np.isnan(y).any(axis=1)
        weights = np.ones(len(y)) if sample_weight is None else as_doubles(sample_weight)
        widths, weights = grouped(width[present], weights[present])
        if len(self.widths[0]):
            before = self.widths
            widths, weights = grouped(np.append(before[0], widths), np.append(before[1], weights))
        self.widths = widths, weights

    def _share(self, number: int) -> _Share:
        """Return the sums that one thread adds to."""
        if number not in self.shares:
            make = average_table if self.averaged else aligned_table
            tables = [make(self.grid.cells, self.degree) for _ in range(self.values)]
            products = np.zeros((self.values, self.like.linear))
            self.shares[number] = _Share(tables, np.zeros((self.values, 3)), products)
        return self.shares[number]

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks so far."""
        degree, outputs = self.degree, self.like.outputs
        first = (degree + 1) * (degree + 2) // 2 if self.averaged else 2 * degree + 1
        powers = slice(first, first + degree + 1)
        shares = [self._share(0), *(self.shares[i] for i in sorted(self.shares) if i)]

        def summed(pick: Callable[[_Share], Array]) -> Array:
            out = np.array(pick(shares[0]), order="C")
            for other in shares[1:]:
                out += pick(other)
            return out

        totals = summed(lambda share: share.totals)
        targets = np.stack(
            [summed(lambda share, i=i: share.tables[i][:, powers]) for i in range(self.values)]
        )
        products = summed(lambda share: share.products)
        missing, log_weights = int(totals[0, 1]), float(totals[0, 2])
        widths, width_weights = self.widths
        return replace(
            self.like,
            moments=summed(lambda share: share.tables[0][:, :first]),
            targets=targets[:outputs],
            cross=np.ascontiguousarray(targets[outputs:].transpose(1, 2, 0)),
            column_gram=products[outputs:],
            column_targets=products[:outputs],
            squares=totals[:outputs, 0].copy(),
            count=self.count - missing,
            missing=missing,
            log_weights=log_weights if isfinite(log_weights) else nan,
            widths=widths,
            width_weights=width_weights,
            ending=self.ending,
        )
