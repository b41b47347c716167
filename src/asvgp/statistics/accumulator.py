"""Statistics of data that come in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import nan
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array
from asvgp.policies import DATA
from asvgp.statistics.gridded import GridSums
from asvgp.statistics.pass_many import ManyInputs
from asvgp.statistics.pass_one import OneInput

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics


class Accumulator:
    """Sums over data that come in blocks, in tables that stay from block to block.

    The sums depend on the rows, their order and where blocks begin, not on where they come
    from: the same blocks give the same bits. The first block must be the longest. The sums have
    the grids, columns, centres and convention of ``like``, whose data are not added;
    ``premultiplied`` as in `Statistics.from_data`.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> sums = Accumulator(Statistics.empty(Grid(0.0, 1.0, cells=8), degree=2))
    >>> for part in np.split(np.linspace(0, 1, 100), 4):
    ...     sums.add([part], np.sin(part))
    >>> sums.statistics().count
    100
    """

    def __init__(self, like: Statistics, premultiplied: bool = False):
        self.like = like
        self.parts: dict[str, OneInput | ManyInputs | GridSums] = {}
        self.unweighted: Accumulator | None = None
        if premultiplied:  # then the centre of y is subtracted afterwards
            plain = replace(like, centre=np.zeros(like.outputs))
            self.weighted, self.unweighted = Accumulator(plain), Accumulator(plain)

    def add(
        self,
        inputs: Sequence[Array],
        y: Array,
        sample_weight: Array | None = None,
        *,
        smooth_inputs: Sequence[Array] = (),
        covariates: Sequence[Array] = (),
        width: Array | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add rows, however many: one array for each column, y of shape (n,) or (n, outputs)."""
        y = y[:, None] if y.ndim == 1 else y
        columns = inputs, smooth_inputs, covariates
        rows = block_rows(sum(map(len, columns)) + y.shape[1])
        for begin in range(0, max(len(y), 1), rows):
            block = slice(begin, begin + rows)
            main, smooths, linear = ([column[block] for column in part] for part in columns)
            weights = None if sample_weight is None else sample_weight[block]
            lengths = None if width is None else width[block]
            self._add_block(main, y[block], weights, smooths, linear, lengths, progress)

    def _add_block(
        self,
        inputs: Sequence[Array],
        y: Array,
        sample_weight: Array | None,
        smooth_inputs: Sequence[Array],
        covariates: Sequence[Array],
        width: Array | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        if self.unweighted is not None:
            columns = smooth_inputs, covariates, width
            absent = np.isnan(y).any(axis=1, keepdims=True)
            zeros = np.broadcast_to(np.where(absent, nan, 0.0), y.shape)
            self.weighted._add_block(inputs, zeros, sample_weight, *columns, progress)
            self.unweighted._add_block(inputs, y, None, *columns, None)
            return
        if len(self.like.grids) == 1 and not self.like.smooths:
            kind = "points" if width is None else "averages"
            part = self.parts.get(kind)
            if not isinstance(part, OneInput):
                part = self.parts[kind] = OneInput(self.like, averaged=width is not None)
            part.add(inputs[0], y, sample_weight, covariates, width, progress)
            return
        if width is not None:
            raise ValueError("Averages over intervals are for models of one input.")
        part = self.parts.get("points")
        if not isinstance(part, ManyInputs):
            part = self.parts["points"] = ManyInputs(self.like)
        part.add(inputs, y, sample_weight, smooth_inputs, covariates, progress)

    def add_grid(self, values, axes: Sequence, sample_weight=None) -> None:
        """Add a block of gridded data; see `GridSums.add`."""
        part = self.parts.get("grid")
        if not isinstance(part, GridSums):
            part = self.parts["grid"] = GridSums(self.like)
        part.add(values, axes, sample_weight)

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far, less its centre; infinite where y is."""
        if self.unweighted is not None:
            return self.unweighted.squares
        return np.sum([part.squares for part in self.parts.values()], axis=0)

    def statistics(self) -> Statistics:
        """Return the statistics of all blocks so far."""
        if self.unweighted is None:
            parts = [part.statistics() for part in self.parts.values()]
            return reduce(add, parts) if parts else self.like.emptied()
        values = self.unweighted.statistics()
        both = replace(
            self.weighted.statistics(),
            targets=values.targets,
            column_targets=values.column_targets,
            squares=np.full(self.like.outputs, nan),
        )
        return both.recentred(self.like.centre, self.like.column_centre)


def block_rows(columns: int) -> int:
    """Return the number of rows in a block of data with so many columns, X and y together.

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
