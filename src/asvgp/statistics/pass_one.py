"""The pass over data of one input: block by block, on all cores, into tables that stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.linalg.cells.accumulate import (
    accumulate,
    accumulate_averages,
    aligned_table,
    average_table,
)
from asvgp.policies import DATA
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share, split
from asvgp.statistics.one_input import Advance, Statistics, grouped


class Accumulator:
    """Statistics of data that come in blocks, with tables that stay from block to block.

    The sums depend on the rows, their order and where blocks begin, not on who brings them:
    the same blocks give the same bits.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> sums = Accumulator(Grid(0.0, 1.0, cells=8), degree=2)
    >>> for part in np.split(np.linspace(0, 1, 100), 4):
    ...     sums.add(part, np.sin(part))
    >>> sums.statistics().count
    100
    """

    def __init__(
        self,
        grid: Grid,
        degree: int,
        outputs: int = 1,
        columns: int = 0,
        like: Statistics | None = None,
    ):
        self.grid, self.degree, self.outputs = grid, degree, outputs
        self.rows = outputs + columns  # of values that are summed
        self.like = like
        self.centres = np.zeros(self.rows)
        if like is not None:
            self.centres = np.concatenate([like.centre, like.column_centre])
        self.done: Statistics | None = None
        self._begin(False)

    def _begin(self, averaged: bool) -> None:
        self.averaged = averaged
        self.shares: dict[int, tuple[list[Array], Array, Array]] = {}
        self.spread = np.empty(0), np.empty(0)
        self.count = 0

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far, less its centre; infinite where y is."""
        return np.sum([totals[: self.outputs, 0] for _, totals, _ in self.shares.values()], axis=0)

    def add(
        self,
        x,
        y,
        sample_weight=None,
        progress: Advance | None = None,
        covariates=None,
        width=None,
    ) -> None:
        """One block: as `Statistics.from_data` has them."""
        if self.count and self.averaged != (width is not None):
            self.done = self.statistics()
        if not self.count or self.averaged != (width is not None):
            self._begin(width is not None)
        y = y[:, None] if y.ndim == 1 else y
        grid, degree, rows, outputs = self.grid, self.degree, self.rows, self.outputs
        marker = (0,) * degree
        scale = grid.cells / (grid.upper - grid.lower)
        centred = bool(self.centres.any())
        # A table a share: not worth it where there are more cells than rows.
        least = 2 * grid.cells
        numbers = {start: number for number, (start, _) in enumerate(split(len(y), least))}

        def share(start: int, stop: int) -> None:
            tables, totals, products = self._tables(numbers[start])
            weights = np.empty(0)
            for begin, end in each_chunk(start, stop):
                points, values = as_doubles(x[begin:end]), as_doubles(y[begin:end].T)
                if rows > 1:  # a row is missing in all outputs and columns or in none
                    absent = np.isnan(values).any(axis=0)
                    others = [] if covariates is None else [as_doubles(covariates[begin:end].T)]
                    values = np.concatenate([values, *others])
                    values[:, absent] = np.nan
                if centred:
                    values = values - self.centres[:, None]
                if sample_weight is not None:
                    weights = as_doubles(sample_weight[begin:end])
                where = (grid.lower, scale)
                for o in range(rows):
                    into = (tables[o], totals[o])
                    if width is None:
                        accumulate(marker, points, values[o], weights, *where, *into)
                    else:
                        lengths = as_doubles(width[begin:end])
                        accumulate_averages(
                            marker, points, lengths, values[o], weights, *where, *into
                        )
                if rows > outputs:
                    known = np.where(np.isnan(values), 0.0, values)
                    weighted = known[outputs:] * weights if len(weights) else known[outputs:]
                    products += known @ weighted.T
                if progress is not None:
                    progress(end - begin)

        each_share(len(y), share, least)
        self.count += len(y)
        if width is not None:
            present = ~np.isnan(y).any(axis=1)
            own = np.ones(len(y)) if sample_weight is None else as_doubles(sample_weight)
            new = grouped(width[present], own[present])
            mine = self.spread
            self.spread = (
                grouped(np.append(mine[0], new[0]), np.append(mine[1], new[1]))
                if len(mine[0])
                else new
            )

    def _tables(self, number: int) -> tuple[list[Array], Array, Array]:
        """What one thread adds to."""
        if number not in self.shares:
            make = average_table if self.averaged else aligned_table
            tables = [make(self.grid.cells, self.degree) for _ in range(self.rows)]
            products = np.zeros((self.rows, self.rows - self.outputs))
            self.shares[number] = tables, np.zeros((self.rows, 3)), products
        return self.shares[number]

    def statistics(self) -> Statistics:
        """Of all blocks so far."""
        degree, outputs = self.degree, self.outputs
        split = (degree + 1) * (degree + 2) // 2 if self.averaged else 2 * degree + 1
        end = split + degree + 1
        own = [self._tables(0), *(self.shares[i] for i in sorted(self.shares) if i)]

        def summed(pick: Callable) -> Array:
            out = np.array(pick(own[0]), order="C")
            for other in own[1:]:
                out += pick(other)
            return out

        totals = summed(lambda part: part[1])
        missing = int(totals[0, 1])
        targets = np.stack(
            [summed(lambda part, o=o: part[0][o][:, split:end]) for o in range(self.rows)]
        )
        found = Statistics(
            self.grid,
            degree,
            summed(lambda part: part[0][0][:, :split]),
            targets[:outputs],
            totals[:outputs, 0].copy(),
            self.count - missing,
            missing,
            float(totals[0, 2]),
            targets[outputs:],
            summed(lambda part: part[2]),
            *self.spread,
            self.centres[:outputs],
            self.centres[outputs:],
            "" if self.like is None else self.like.convention,
        )
        return found if self.done is None else self.done + found


def block_rows(columns: int) -> int:
    """Rows of a block of data with so many columns, X and y together.

    Wherever data come from they are summed in these blocks. No block is so short that the
    number of rows, where it is not all of them, would change an automatic grid.

    Examples
    --------
    >>> block_rows(2), block_rows(20)
    (4194304, 524288)
    """
    rows = 1 << 22
    while rows > DATA.many_rows and rows * columns > 1 << 24:
        rows //= 2
    return rows
