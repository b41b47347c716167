"""The structure of a model over several inputs: what couples what, and how finely.

Chosen once for a kernel and a grid; hyperparameters do not enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from asvgp.basis import Grid
from asvgp.kernels import Component, Kernel
from asvgp.linalg.multifrontal import Space, Tree, symbolic
from asvgp.model.axis import Axis


@dataclass(frozen=True)
class Plan:
    """Which terms live on the main block's grid, with which splines; the rest are columns.

    Attributes
    ----------
    inputs : tuple of int
        Columns of X that make the main block; none for an additive model.
    grids : tuple of Grid
        Their finest cells.
    powers : tuple of int
        The largest degree along each.
    terms : tuple of int
        Numbers of the kernel's terms on the main block.
    degrees, levels : tuples, a tuple of int a term
        Of the splines along every input of the block, zero where a term is constant.
    smooths : tuple of int
        Numbers of the kernel's terms that are columns, each over an input of its own.
    smooth_grids : tuple of Grid
    smooth_degrees : tuple of int
    effects : int
        Number of fixed effects, the last columns.
    names : tuple of str, optional
        Of all columns of X, for messages.
    """

    inputs: tuple[int, ...]
    grids: tuple[Grid, ...]
    powers: tuple[int, ...]
    terms: tuple[int, ...]
    degrees: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[int, ...], ...]
    smooths: tuple[int, ...] = ()
    smooth_grids: tuple[Grid, ...] = ()
    smooth_degrees: tuple[int, ...] = ()
    effects: int = 0
    names: tuple[str, ...] | None = None

    @property
    def columns(self) -> int:
        """Number of global columns."""
        return sum(self.smooth_counts) + self.effects

    @property
    def smooth_counts(self) -> tuple[int, ...]:
        """Number of columns of each smooth."""
        pairs = zip(self.smooth_grids, self.smooth_degrees, strict=True)
        return tuple(grid.cells + degree for grid, degree in pairs)

    @property
    def functions(self) -> tuple[int, ...]:
        """Number of splines along every input, of the term that has most; then the smooths."""
        along = []
        for d, grid in enumerate(self.grids):
            pairs = [(k[d], level[d]) for k, level in zip(self.degrees, self.levels, strict=True)]
            along.append(max(-(-grid.cells // 2**level) + k for k, level in pairs if k))
        return (*along, *self.smooth_counts)

    def num_basis(self, kernel: Kernel) -> tuple[int, ...]:
        """Return numbers of basis functions as a user gives them: one per input of the splines.

        In the order of the columns of X. Of several smooths over one column, the largest counts,
        as in the attribute ``num_basis_``.
        """
        over = [kernel.components[term].factors[0].dim for term in self.smooths]
        along = [grid.cells + k for grid, k in zip(self.grids, self.powers, strict=True)]
        counts: dict[int, int] = {}
        pairs = zip((*self.inputs, *over), (*along, *self.smooth_counts), strict=True)
        for column, count in pairs:
            counts[column] = max(count, counts.get(column, 0))
        return tuple(counts[column] for column in sorted(counts))

    def column(self, number: int) -> int | str:
        """A column of X as the user knows it."""
        return number if self.names is None else self.names[number]

    def axes(self, kernel: Kernel) -> list[list[Axis]]:
        """The main block's terms with a kernel's hyperparameters."""
        out = []
        for term, degrees, levels in zip(self.terms, self.degrees, self.levels, strict=True):
            factors = {factor.dim: factor for factor in kernel.components[term].factors}
            out.append(
                [
                    Axis(factors.get(column), grid, degree, level, power)
                    for column, grid, degree, level, power in zip(
                        self.inputs, self.grids, degrees, levels, self.powers, strict=True
                    )
                ]
            )
        return out

    def smooth_axes(self, kernel: Kernel) -> list[Axis]:
        """The smooths with a kernel's hyperparameters."""
        return [
            Axis(self._only(kernel, term), grid, degree, 0, degree)
            for term, grid, degree in zip(
                self.smooths, self.smooth_grids, self.smooth_degrees, strict=True
            )
        ]

    @staticmethod
    def _only(kernel: Kernel, term: int) -> Component:
        (factor,) = kernel.components[term].factors
        return factor

    def spaces(self, kernel: Kernel) -> tuple[Space, ...]:
        """The terms' functions as the elimination sees them."""
        return tuple(
            Space(
                tuple(None if axis.process is None else axis.degree for axis in axes),
                tuple(axis.level for axis in axes),
            )
            for axes in self.axes(kernel)
        )

    def tree(self, kernel: Kernel) -> Tree:
        """The symbolic phase."""
        cells = tuple(grid.cells for grid in self.grids)
        return symbolic(cells, self.spaces(kernel), self.columns)

    def counts(self, kernel: Kernel) -> list[int]:
        """Number of functions of each term of the main block."""
        return [prod(axis.count for axis in axes) for axes in self.axes(kernel)]
