"""Statistics of several inputs from data that come in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from asvgp.basis import Array
from asvgp.statistics.pass_many import CellSums, ColumnSums, Observations, pass_over
from asvgp.statistics.several_inputs import FieldStatistics


class FieldAccumulator:
    """Statistics of data that come in blocks, the first of them the longest.

    Blocks whose lengths are multiples of `asvgp.statistics.pass_many.BATCH`, but for the last, give
    the bits that all rows at once do.

    Parameters
    ----------
    empty : FieldStatistics
        Of no data: its arrays are added to.
    """

    def __init__(self, empty: FieldStatistics):
        self.empty, self.count = empty, 0

    def add(
        self,
        inputs: Sequence[Array],
        y: Array,
        sample_weight: Array | None = None,
        smooth_inputs: Sequence[Array] = (),
        linear: Sequence[Array] = (),
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """One block: a list of arrays each, y of shape (n, outputs)."""
        empty = self.empty
        if not self.count:
            self.observations = Observations(y, sample_weight, empty.centre)
            self.cells = self.columns = None
            if empty.grids:
                tables = empty.moments, empty.targets, empty.cross
                self.cells = CellSums(
                    self.observations, inputs, empty.grids, empty.degrees, *tables
                )
            if len(empty.column_gram) or not empty.grids:
                self.columns = ColumnSums(
                    self.observations, smooth_inputs, empty.smooths, linear, empty.column_centre
                )
        self.observations.take(y, sample_weight)
        if self.cells is not None:
            self.cells.x = inputs
        if self.columns is not None:
            self.columns.smooth_inputs, self.columns.linear = smooth_inputs, linear
        pass_over(self.observations, self.cells, self.columns, progress)
        self.count += len(y)

    @property
    def squares(self) -> Array:
        """Weighted sums of y squared so far; infinite where y is."""
        return self.observations.squares

    def statistics(self) -> FieldStatistics:
        """Of all blocks."""
        empty, observations = self.empty, self.observations
        sums = {"moments": empty.moments, "targets": empty.targets, "cross": empty.cross}
        if self.columns is not None:
            gram, count = self.columns.symmetric(), len(empty.column_gram)
            sums["column_gram"] = gram[:count, :count].copy()
            sums["column_targets"] = gram[count:-1, :count].copy()
            if not empty.grids:  # the sums over all data: the column of ones
                sums["moments"] = gram[-1, -1].reshape(())
                sums["targets"] = gram[-1, count:-1].copy()
                sums["cross"] = gram[-1, :count].copy()
        return replace(
            empty,
            **sums,
            squares=observations.squares,
            count=self.count - observations.missing,
            missing=observations.missing,
            log_weights=observations.log_weights,
        )
