"""The structure of a model over several inputs: what couples what, and how finely.

A plan is chosen once for a kernel and its grids; values of hyperparameters do not enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from asvgp.basis import Grid
from asvgp.kernels import Component, Kernel
from asvgp.linalg.multifrontal import Space, Tree, symbolic
from asvgp.model.axis import Axis
from asvgp.model.closed import axis_of
from asvgp.model.earth_axis import at_latitudes


@dataclass(frozen=True)
class Plan:
    """The terms of the main block with their splines, and the global columns.

    Terms and smooths are numbers of the kernel's components. Cells of level l are ``2**l`` finest
    cells wide; degrees and levels are zero along inputs in which a term is constant.
    """

    inputs: tuple[int, ...]  # columns of X that make the main block; none in an additive model
    grids: tuple[Grid, ...]  # the finest cells along each of them
    powers: tuple[int, ...]  # the largest degree along each of them
    terms: tuple[int, ...]  # components in the main block
    degrees: tuple[tuple[int, ...], ...]  # by term and input
    levels: tuple[tuple[int, ...], ...]  # by term and input
    smooths: tuple[int, ...] = ()  # components that are columns, each over an input of its own
    smooth_grids: tuple[Grid, ...] = ()
    smooth_degrees: tuple[int, ...] = ()
    effects: int = 0  # number of fixed effects, the last columns
    names: tuple[str, ...] | None = None  # of all columns of X, for messages
    outer: tuple[tuple[int, ...], ...] = ()  # cells beyond the data, of joint terms, as ``levels``

    @property
    def columns(self) -> int:
        """Number of global columns."""
        return sum(self.smooth_counts) + self.effects

    @property
    def smooth_counts(self) -> tuple[int, ...]:
        """Number of columns of each smooth."""
        pairs = zip(self.smooth_grids, self.smooth_degrees, strict=True)
        return tuple(grid.splines(degree) for grid, degree in pairs)

    @property
    def functions(self) -> tuple[int, ...]:
        """Number of splines along every input of the finest term, and of every smooth."""
        along = []
        for d, grid in enumerate(self.grids):
            pairs = [(k[d], level[d]) for k, level in zip(self.degrees, self.levels, strict=True)]
            along.append(max(grid.coarsen(2**level).splines(k) for k, level in pairs if k))
        return (*along, *self.smooth_counts)

    def num_basis(
        self, kernel: Kernel, combine: Callable[[int, int], int] = max
    ) -> tuple[int, ...]:
        """Return the numbers of basis functions as users give them: one per input, by column.

        Several smooths over one input may have different numbers, while a user gives one for all
        of them: with `max` as ``combine`` no smooth gets fewer functions than in this plan, with
        `min` none gets more.
        """
        pairs = zip(self.inputs, self.grids, self.powers, strict=True)
        counts = {column: grid.splines(degree) for column, grid, degree in pairs}
        for number, count in zip(self.smooths, self.smooth_counts, strict=True):
            column = self._process(kernel, number).dim
            counts[column] = combine(count, counts.get(column, count))
        return tuple(counts[column] for column in sorted(counts))

    def column(self, number: int) -> int | str:
        """Return the name of a column of X, or its number where there are no names."""
        return number if self.names is None else self.names[number]

    @property
    def pads(self) -> tuple[int, ...]:
        """Cells beyond the data at both ends of every input: those of the widest term."""
        if not self.outer:
            return (0,) * len(self.inputs)
        return tuple(map(max, zip(*self.outer, strict=True)))

    def axes(self, kernel: Kernel) -> list[list[Axis]]:
        """Return the axes of every term of the main block, with a kernel's hyperparameters."""
        out = []
        beyond = self.outer or ((0,) * len(self.inputs),) * len(self.terms)
        rows = zip(self.terms, self.degrees, self.levels, beyond, strict=True)
        grids = dict(zip(self.inputs, self.grids, strict=True))
        for term, degrees, levels, outer in rows:
            processes = {process.dim: process for process in kernel.components[term].along}
            out.append(
                [
                    axis_of(
                        at_latitudes(processes.get(column), grids),
                        grid,
                        degree,
                        level,
                        power,
                        cells,
                    )
                    for column, grid, degree, level, power, cells in zip(
                        self.inputs, self.grids, degrees, levels, self.powers, outer, strict=True
                    )
                ]
            )
        return out

    def smooth_axes(self, kernel: Kernel) -> list[Axis]:
        """Return the axis of every smooth, with a kernel's hyperparameters."""
        return [
            axis_of(self._process(kernel, number), grid, degree, 0, degree)
            for number, grid, degree in zip(
                self.smooths, self.smooth_grids, self.smooth_degrees, strict=True
            )
        ]

    @staticmethod
    def _process(kernel: Kernel, number: int) -> Component:
        (process,) = kernel.components[number].factors
        return process

    def spaces(self, kernel: Kernel) -> tuple[Space, ...]:
        """Return the terms' functions as the elimination sees them."""
        padded = {"pads": self.pads} if any(self.pads) else {}
        return tuple(
            Space(
                tuple(None if axis.process is None else axis.degree for axis in axes),
                tuple(axis.level for axis in axes),
                tuple(d for d, axis in enumerate(axes) if axis.closed),
                **padded,
                outer=tuple(axis.outer for axis in axes) if padded else (),
            )
            for axes in self.axes(kernel)
        )

    def tree(self, kernel: Kernel, columns: bool = True) -> Tree:
        """Return the symbolic elimination, with or without the global columns."""
        pairs = zip(self.grids, self.pads, strict=True)
        cells = tuple(grid.cells + 2 * pad for grid, pad in pairs)
        return symbolic(cells, self.spaces(kernel), self.columns if columns else 0)

    def counts(self, kernel: Kernel) -> list[int]:
        """Return the number of functions of each term of the main block."""
        return [prod(axis.count for axis in axes) for axes in self.axes(kernel)]
