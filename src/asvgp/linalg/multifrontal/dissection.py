"""Geometry of nested dissection: functions along an input, intervals, boxes.

Everything is a product over inputs of ranges; see `asvgp.linalg.multifrontal`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asvgp.runtime.lazy import cached_property

Index = NDArray[np.int32]

# A split moves to a coarser knot (where fewer functions straddle it) if that is at most
# this part of the box away from the middle.
IMBALANCE = 1 / 32


@dataclass(frozen=True)
class Space:
    """A component: tensor products of B-splines, of their own degree and width per input.

    Function i of an input with degree k and level r lives on the finest cells
    ``[(i - k) 2**r, (i + 1) 2**r)`` that the grid has; the last cell may reach past the end.
    Around a circle they go on from its last cell to its first. Where the grid has cells beyond the
    data at both ends (``pads``), those of the component begin after them, or with some of them.
    """

    degrees: tuple[int | None, ...]  # None in an input in which the component is constant
    levels: tuple[int, ...]  # without meaning where the degree is None
    circles: tuple[int, ...] = ()  # inputs that are circles
    pads: tuple[int, ...] = ()  # finest cells at both ends of each input that hold no data
    outer: tuple[int, ...] = ()  # how many of them, the nearest, are cells of this component

    def lines(self, cells: tuple[int, ...]) -> tuple["Line", ...]:
        """Return the component's functions along each input."""
        none = (0,) * len(cells)
        pads, outer = self.pads or none, self.outer or none
        along = enumerate(zip(self.degrees, self.levels, cells, pads, outer, strict=True))
        return tuple(
            Line(0, n, n)
            if degree is None
            else Line(degree, 2**level, n, d in self.circles, pad, own)
            for d, (degree, level, n, pad, own) in along
        )

    def counts(self, cells: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of functions in each input.

        Examples
        --------
        >>> Space(degrees=(2, 1, None), levels=(0, 1, 0)).counts((10, 5, 7))
        (12, 4, 1)
        """
        return tuple(line.count for line in self.lines(cells))


@dataclass(frozen=True)
class Range:
    """Functions alive on each interval of an input: the first, and how many."""

    first: Index
    count: Index

    @property
    def length(self) -> int:
        """The longest range, to which the others are padded in a leaf's block."""
        return int(self.count.max())


@dataclass(frozen=True)
class Line:
    """Functions of one component along one input of ``cells`` finest cells.

    A ``cyclic`` line is a circle, on which function ``count + i`` is function i. Of the ``pad``
    cells at both ends the nearest ``outer`` ones to the data are cells of the functions, too.
    """

    degree: int
    width: int
    cells: int
    cyclic: bool = False
    pad: int = 0
    outer: int = 0

    @cached_property
    def edges(self) -> Index:
        """Ends of the functions' own cells, in finest cells."""
        inside = self.cells - 2 * self.pad
        own = np.append(np.arange(0, inside, self.width), inside) + self.pad
        beyond = np.arange(1, self.outer + 1)
        edges = np.concatenate([self.pad - beyond[::-1], own, self.pad + inside + beyond])
        return edges.astype(np.int32)

    @property
    def count(self) -> int:
        """Number of functions."""
        return len(self.edges) - 1 + (0 if self.cyclic else self.degree)

    def alive(self, edges: Index) -> Range:
        """Return the functions alive on each interval between the edges."""
        own = self.edges
        first = np.searchsorted(own, np.maximum(edges[:-1], own[0]), "right") - 1
        stop = np.searchsorted(own, np.minimum(edges[1:], own[-1]), "left") + self.degree
        count = np.minimum(stop - first, self.count)
        none = (edges[1:] <= own[0]) | (edges[:-1] >= own[-1])
        first, count = np.where(none, 0, first), np.where(none, 0, count)
        return Range(first.astype(np.int32), count.astype(np.int32))

    @property
    def numbers(self) -> Index:
        """Numbers of the functions that a line of these cells would have."""
        return (np.arange(self.count + self.degree * self.cyclic) % self.count).astype(np.int32)

    def halvings(self, nested: list[Index]) -> Index:
        """Count the halvings of the input that leave each function inside one interval."""
        i, own = self.numbers, self.edges
        first = own[np.maximum(i - self.degree, 0)]
        stop = own[np.minimum(i + 1, len(own) - 1)]
        if self.cyclic:  # these are alive at both ends
            stop[i < self.degree] = self.cells
        inside = [edges[np.searchsorted(edges, first, "right")] >= stop for edges in nested]
        return np.count_nonzero(inside, axis=0).astype(np.int32) - 1


class Dissection(NamedTuple):
    """Boxes of every depth, from the root (depth 0) down to the leaves."""

    splits: tuple[int, ...]  # the input in which the boxes of a depth are halved
    nested: list[list[Index]]  # [d][t]: edges of the intervals of input d after t halvings
    halvings: Index  # (depths, D): how often each input is halved above a depth
    boxes: list[Index]  # (2**depth, D): interval number of every box in each input

    def alive(self, line: Line, d: int, depth: int) -> Range:
        """Return the functions of a line along input d alive on each box of a depth."""
        ranges = line.alive(self.nested[d][self.halvings[depth, d]])
        interval = self.boxes[depth][:, d]
        return Range(ranges.first[interval], ranges.count[interval])

    def last_depth(self, line: Line, d: int) -> Index:
        """Return the last depth at which one interval of input d contains each function."""
        halvings = line.halvings(self.nested[d])
        depth = np.searchsorted(self.halvings[:, d], halvings, "right") - 1
        return depth.astype(np.int32)


def dissect(cells: tuple[int, ...], leaf: tuple[int, ...], widths: list[set[int]]) -> Dissection:
    """Halve all boxes in the input in which they are longest, until they are leaves."""
    nested = [bisect(*input_) for input_ in zip(cells, leaf, widths, strict=True)]
    longest = [[int(np.diff(edges).max()) for edges in each] for each in nested]
    splits, halvings = [], [[0] * len(cells)]
    boxes = [np.zeros((1, len(cells)), dtype=np.int32)]
    while left := [d for d, t in enumerate(halvings[-1]) if t + 1 < len(nested[d])]:
        split = max(left, key=lambda d: longest[d][halvings[-1][d]])
        splits.append(split)
        halvings.append([t + (d == split) for d, t in enumerate(halvings[-1])])
        children = np.repeat(boxes[-1], 2, axis=0)
        children[:, split] *= 2
        children[1::2, split] += 1
        boxes.append(children)
    return Dissection(tuple(splits), nested, np.array(halvings, dtype=np.int32), boxes)


def bisect(n: int, leaf: int, widths: set[int]) -> list[Index]:
    """Return the edges of 1, 2, 4, ... intervals of n cells, down to ``leaf`` cells at most.

    Halving stops earlier where it would leave an interval empty. Without coarse cells in
    ``widths`` the lengths of the intervals differ by at most one.

    Examples
    --------
    >>> [edges.tolist() for edges in bisect(10, leaf=3, widths={1})]
    [[0, 10], [0, 5, 10], [0, 2, 5, 7, 10]]
    """
    nested = [np.array([0, n], dtype=np.int32)]
    while np.diff(nested[-1]).max() > leaf and np.diff(nested[-1]).min() > 1:
        lower, upper = nested[-1][:-1], nested[-1][1:]
        middle = (lower + upper) // 2
        for width in sorted(widths):
            knot = (middle + width // 2) // width * width
            near = np.abs(2 * knot - lower - upper) <= 2 * IMBALANCE * (upper - lower)
            middle = np.where(near, knot, middle)
        nested.append(np.sort(np.concatenate([nested[-1], middle])).astype(np.int32))
    return nested
