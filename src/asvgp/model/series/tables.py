"""The structure of a series, ready for elimination: numbers, places, and G of the leaves.

Everything but G depends on the plan alone, so that engines with other statistics share it.
"""

from __future__ import annotations

from contextlib import suppress
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.linalg.cells import elements as loops
from asvgp.linalg.multifrontal import Space, Tree, symbolic
from asvgp.model.series.plan import SeriesPlan
from asvgp.model.series.terms import Drift, Season, Term, terms_of
from asvgp.policies import MEMORY, SERIES
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.memory import in_words, physical_memory
from asvgp.runtime.parallel import each_share
from asvgp.statistics import Statistics


class Cells(NamedTuple):
    """Cells of a component: the first one of each leaf, and places of functions in its block."""

    begins: np.ndarray  # (leaves + 1,)
    places: np.ndarray  # (cells, n)


class SeriesTables:
    """Numbers of all functions, and the symbolic elimination, made when they are first needed.

    Functions are numbered component by component, those of seasons and the fixed effects last.
    """

    def __init__(self, kernel: Kernel, plan: SeriesPlan):
        self.plan = plan
        self.terms: list[Term] = terms_of(kernel, plan)
        local = [0 if isinstance(term, Season) else term.size for term in self.terms]
        columns = [term.columns for term in self.terms]
        self.main = sum(local)
        self.columns = sum(columns) + plan.effects
        self.size = self.main + self.columns
        first_local = np.cumsum([0, *local])
        first_column = self.main + np.cumsum([0, *columns])
        self.offsets = [
            int(first_column[i] if isinstance(term, Season) else first_local[i])
            for i, term in enumerate(self.terms)
        ]

    @cached_property
    def inner(self) -> np.ndarray:
        """True for the functions that are alive on one cell of their own, (size,)."""
        out = np.zeros(self.size, dtype=bool)
        for number, term in enumerate(self.terms):
            out[self.where(number)] = term.inner
        return out

    def coupled(self, statistics: Statistics) -> int:
        """Return the number of functions that share data with those of other cells.

        Those of one cell are eliminated first, as if they were not there, and those that are zero
        at all data have no say in what is learnt.
        """
        alive = np.zeros(self.size, dtype=bool)
        alive[self.numbers[statistics.cell_weights > 0.0]] = True
        alive[self.main :] = True
        return int(np.count_nonzero(alive & ~self.inner))

    def where(self, number: int) -> slice:
        """Return the numbers of a component's functions."""
        first = self.offsets[number]
        return slice(first, first + self.terms[number].size)

    @cached_property
    def tree(self) -> Tree:
        """The symbolic elimination."""
        spaces = tuple(space for term in self.terms for space in term.spaces)
        columns = self.columns
        if not spaces:  # the elimination wants one: the first column, which is alive everywhere
            spaces, columns = (Space((None,), (0,)),), columns - 1
        return symbolic((self.plan.grid.cells,), spaces, columns, (self._leaf_cells,))

    @property
    def _leaf_cells(self) -> int:
        """Finest cells of the intervals that elimination begins with, a power of two."""
        wanted = max(SERIES.leaf_functions, SERIES.leaf_columns * self.columns)
        each = max(self.main / self.plan.grid.cells, 1e-3)
        cells = 2 ** max(2, round(log2(wanted / each)))
        # the matrices of all intervals hold what is alive everywhere: fewer may take less
        while self._bytes(cells) > max(
            SERIES.leaf_bytes, SERIES.leaf_saving * self._bytes(2 * cells)
        ):
            cells *= 2
        return cells

    def _bytes(self, cells: int) -> float:
        """Return about the bytes of the matrices of all leaves, of so many cells each."""
        leaves = 2.0 ** ceil(log2(max(self.plan.grid.cells / cells, 1.0)))
        alive = sum(term.alive for term in self.terms if isinstance(term, Drift))
        return 8.0 * leaves * (self.main / leaves + self.columns + alive) ** 2

    @property
    def edges(self) -> np.ndarray:
        """The leaves' ends, in finest cells."""
        return self.tree.leaf_intervals[0].astype(np.int64)

    @cached_property
    def block(self) -> int:
        """Number of rows of a leaf's block."""
        return self.tree.leaf_index.shape[1]

    def places_on_leaves(self, leaf: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return places in the blocks of leaves, (n,), of functions by number, (n, m)."""
        tree = self.tree
        counts = [space.counts(tree.cells)[0] for space in tree.spaces]
        starts = np.cumsum([0, *counts])
        offsets = np.cumsum([0, *(ranges[0].length for ranges in tree.leaf_ranges)])
        firsts = np.array([ranges[0].first for ranges in tree.leaf_ranges]).reshape(len(counts), -1)
        space = np.minimum(np.searchsorted(starts, numbers, "right") - 1, len(counts))
        column = space == len(counts)
        space[column] = 0
        place = offsets[space] + numbers - starts[space]
        if len(counts):
            place = place - firsts[space, leaf[:, None]]
        out = np.where(column, self.block - self.columns + numbers - self.main, place)
        return np.ascontiguousarray(out, dtype=np.int32)

    @cached_property
    def _leaf(self) -> np.ndarray:
        """The leaf of every finest cell."""
        cells = np.arange(self.plan.grid.cells)
        return np.searchsorted(self.edges, cells, "right") - 1

    @cached_property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on every finest cell, component by component."""
        cells = np.arange(self.plan.grid.cells)
        pairs = zip(self.terms, self.offsets, strict=True)
        parts = [term.numbers(cells) + offset for term, offset in pairs]
        return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.int32)

    @cached_property
    def places(self) -> np.ndarray:
        """Places of these functions in the blocks of the leaves."""
        return self.places_on_leaves(self._leaf, self.numbers)

    @cached_property
    def groups(self) -> tuple[np.ndarray, Array]:
        """Alive functions, patterns and starts by component, and the table of polynomials."""
        powers, flat, start = self.plan.powers + 1, [], 0
        rows = np.empty((3, len(self.terms)), dtype=np.int64)
        for g, term in enumerate(self.terms):
            table = term.table
            wide = np.zeros((*table.shape[:2], powers))
            wide[:, :, : table.shape[2]] = table
            rows[:, g] = table.shape[1], table.shape[0], start
            flat.append(wide.ravel())
            start += wide.size
        return rows, np.concatenate(flat)

    def work(self) -> Array:
        """Return room for the polynomials of a cell, twice."""
        return np.empty((2, self.numbers.shape[1], self.plan.powers + 1))

    def chosen(self, component: int | None) -> np.ndarray:
        """Return ones for the functions alive on a cell that belong to a component, or to any."""
        alive = self.groups[0][0]
        own = [component in (None, g) for g in range(len(alive))]
        return np.repeat(own, alive).astype(np.uint8)

    @cached_property
    def cells(self) -> list[Cells | None]:
        """Cells of every component, None for seasons."""
        out: list[Cells | None] = []
        for term, offset in zip(self.terms, self.offsets, strict=True):
            if isinstance(term, Season):
                out.append(None)
                continue
            numbers = term.element_numbers + offset
            leaf = self._leaf[np.arange(len(numbers)) << term.level]
            begins = np.searchsorted(leaf, np.arange(len(self.edges)))
            out.append(Cells(begins.astype(np.int64), self.places_on_leaves(leaf, numbers)))
        return out

    @property
    def leaf_bytes(self) -> float:
        """Bytes of the matrices of all leaves."""
        return 8.0 * (len(self.edges) - 1) * self.block**2

    @property
    def flops(self) -> float:
        """Operations of one bound with its gradient."""
        cost = self.tree.cost()
        return cost.factor_flops + cost.inverse_flops

    def _blocks(self, leaves: int) -> Array:
        """Return zeros for the matrices of all leaves, or raise an error that says why not."""
        needed, limit = self.leaf_bytes, MEMORY.share * physical_memory()
        with suppress(MemoryError):
            if needed <= limit:
                return np.zeros((leaves, self.block, self.block))
        raise MemoryError(
            f"The functions of this series need {in_words(needed)}, {leaves:,} parts with up to "
            f"{self.block:,} functions each: the shape of a season is far finer than the time "
            "over which it drifts. Give Periodic a longer lengthscale, or the kernel that it is "
            "multiplied by a longer or a rougher one."
        )

    def gram(self, statistics: Statistics) -> Array:
        """Return G of every leaf, (leaves, block, block)."""
        edges = self.edges
        out = self._blocks(len(edges) - 1)
        groups, table = self.groups
        arguments = self.places, statistics.moments, statistics.cross

        def share(start: int, stop: int) -> None:
            loops.add_gram(start, stop, edges, groups, table, *arguments, self.work(), out)

        each_share(len(out), share)
        if self.plan.effects:
            effects = slice(self.block - self.plan.effects, None)
            out[0, effects, effects] += statistics.column_gram
        return out

    def right(self, statistics: Statistics) -> Array:
        """Return ``Phi' W y``, (size, outputs)."""
        out = self.sums(statistics.targets)
        if self.plan.effects:
            out[-self.plan.effects :] = statistics.column_targets.T
        return out

    def sums(self, targets: Array) -> Array:
        """Return sums of functions times data, (size, outputs), from (outputs, cells, powers)."""
        out = np.zeros((self.size, len(targets)))
        targets = np.ascontiguousarray(targets)
        loops.add_targets(*self.groups, self.numbers, targets, self.work(), out)
        return out

    def polynomials(self, mean: Array, component: int | None = None) -> Array:
        """Return polynomials per cell from coefficients, (outputs, cells, powers)."""
        shape = mean.shape[1], self.plan.grid.cells, self.plan.powers + 1
        out, chosen = np.zeros(shape), self.chosen(component)
        mean = np.ascontiguousarray(mean)
        loops.add_mean(*self.groups, self.numbers, chosen, mean, self.work(), out)
        return out
