"""The symbolic phase: which functions every front holds, and where its rows go.

It depends on the grid alone. The layout is described in `asvgp.linalg.multifrontal`.

Two facts about products of ranges give everything. The functions alive on a box are the
product over inputs of those alive on its intervals. And a function is eliminated in the
smallest box that contains its support; the depth of that box is the least, over the inputs,
of the depths down to which one interval contains it. So the rows of a front are the functions
alive on its box that are eliminated at its own depth (pivots) or at smaller ones (boundary).
"""

from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numba
import numpy as np

from asvgp.linalg.multifrontal.dissection import Dissection, Index, Line, Range, Space, dissect
from asvgp.runtime.lazy import cached_property

LEAF = {1: 16, 2: 4, 3: 4}  # cells of a leaf in each input, by the number of inputs


@dataclass(frozen=True)
class Level:
    """The fronts of all boxes of one depth; `asvgp.linalg.multifrontal` names the arrays."""

    p: int
    rows: Index
    num_pivots: Index
    num_boundary: Index
    source: Index
    scatter: Index
    num_summed: Index

    @property
    def q(self) -> int:
        """Boundary rows of a padded front."""
        return self.rows.shape[1] - self.p

    @property
    def pivots(self) -> Index:
        """Functions eliminated in each front."""
        return self.rows[:, : self.p]

    @property
    def boundary(self) -> Index:
        """Functions that each front passes on to its parent."""
        return self.rows[:, self.p :]


class Cost(NamedTuple):
    """Costs of the numeric phases: floating point operations, and doubles held at once.

    A multiplication and an addition are two operations; of symmetric results one half is
    counted. The peaks are those of phases that go level by level, keep the factor with
    whole p x p blocks (``factor_held``) and build the fronts in place: the leaves' elements
    come on top if the caller holds them all at once.
    """

    factor_nonzeros: float
    factor_flops: float
    inverse_flops: float
    factor_peak: float
    inverse_peak: float
    factor_held: float


@dataclass(frozen=True, eq=False)
class Tree:
    """Nested dissection of a grid; `asvgp.linalg.multifrontal` names the arrays.

    ``splits[depth]`` is the input in which the boxes of a depth (0: the root) are halved.
    """

    cells: tuple[int, ...]
    spaces: tuple[Space, ...]
    columns: int
    size: int
    splits: tuple[int, ...]
    leaf_intervals: tuple[Index, ...]
    leaves: Index
    leaf_ranges: tuple[tuple[Range, ...], ...]
    leaf_index: Index
    levels: tuple[Level, ...]

    @cached_property
    def leaf_numbers(self) -> Index:
        """Leaves by their intervals along the inputs."""
        out = np.empty([len(edges) - 1 for edges in self.leaf_intervals], dtype=np.int32)
        out[tuple(self.leaves.T)] = np.arange(len(self.leaves))
        return out

    def cost(self, padded: bool = False) -> Cost:
        """Return operations and memory of the numeric phases, on padded fronts or on bare ones."""
        nonzeros = factor_flops = inverse_flops = 0.0
        factor = update = inverse = factor_peak = inverse_peak = 0.0
        for level in self.levels:
            p, q = level.num_pivots.astype(float), level.num_boundary.astype(float)
            if padded:
                p[:], q[:] = level.p, level.q
            nonzeros += np.sum(p * (p + 1) / 2 + p * q)
            # L_pp; L_bp; one half of U
            factor_flops += np.sum(p**3 / 3 + p**2 * q + p * q**2)
            # W = L_bp L_pp^-1; Z_bp = -Z_bb W; L_pp^-T L_pp^-1; one half of -W^T Z_bp
            inverse_flops += np.sum(p**2 * q + 2 * p * q**2 + 2 * p**3 / 3 + p**2 * q)
            # the factor so far, the children's updates, the fronts
            front = np.sum((p + q) ** 2)
            factor_peak = max(factor_peak, factor + update + front)
            factor, update = factor + np.sum(p * (p + q)), np.sum(q**2)
            # besides the factor, the inverse on the fronts of two neighbouring levels
            inverse_peak = max(inverse_peak, inverse + front)
            inverse = front
        inverse_peak += factor
        peaks = float(factor_peak), float(inverse_peak)
        flops = float(factor_flops), float(inverse_flops)
        return Cost(float(nonzeros), *flops, *peaks, float(factor))

    @cached_property
    def factor_flops(self) -> float:
        """Operations of the factorisation."""
        return self.cost().factor_flops


@lru_cache(maxsize=8)
def symbolic(
    cells: tuple[int, ...],
    spaces: tuple[Space, ...],
    columns: int = 0,
    leaf: tuple[int, ...] | None = None,
) -> Tree:
    """Dissect a grid and lay out the fronts; the same arguments give the same, immutable object.

    ``columns`` are functions alive everywhere, numbered last and eliminated at the root. Boxes
    are halved until leaves have at most ``leaf`` cells in each input, by default as many as
    `default_leaf` returns, or until an interval would become empty.

    Examples
    --------
    >>> tree = symbolic((8,), (Space(degrees=(1,), levels=(0,)),), leaf=(2,))
    >>> tree.leaf_index.tolist()
    [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8]]
    >>> [level.pivots.tolist() for level in tree.levels]
    [[[0, 1], [3, -1], [5, -1], [7, 8]], [[2], [6]], [[4]]]
    """
    numbering = _number(cells, spaces, columns)
    lines = numbering.lines
    widths = [{component[d].width for component in lines} for d in range(len(cells))]
    leaf = _within_circles(leaf or default_leaf(spaces), lines)
    dissection = dissect(cells, leaf, widths)
    intervals = tuple(nested[-1] for nested in dissection.nested)
    leaf_index = _leaf_index(numbering, dissection)
    tree = Tree(
        cells=cells,
        spaces=spaces,
        columns=columns,
        size=numbering.size,
        splits=dissection.splits,
        leaf_intervals=intervals,
        leaves=dissection.boxes[-1],
        leaf_ranges=tuple(
            tuple(line.alive(edges) for line, edges in zip(component, intervals, strict=True))
            for component in lines
        ),
        leaf_index=leaf_index,
        levels=tuple(_levels(numbering, dissection, leaf_index)),
    )
    _freeze(tree)
    return tree


def default_leaf(spaces: tuple[Space, ...]) -> tuple[int, ...]:
    """Return the number of cells of a leaf in each input.

    Operations and non-zeros change little up to about these sizes: larger leaves mean fewer
    boxes and levels, but larger elements to hold. Leaves narrower than the degree have
    next to nothing to eliminate.
    """
    inputs = list(zip(*(space.degrees for space in spaces), strict=True))
    least = LEAF.get(len(inputs), 2)
    return tuple(max(least, *(degree or 0 for degree in degrees)) for degrees in inputs)


def _within_circles(leaf: tuple[int, ...], lines: list[tuple[Line, ...]]) -> tuple[int, ...]:
    """Return leaves of at most half a circle, on which no function meets itself again."""
    sizes = list(leaf)
    for line, d in ((line, d) for component in lines for d, line in enumerate(component)):
        if line.cyclic:
            sizes[d] = min(sizes[d], line.cells // 2)
            whole = line.pad or line.cells % line.width == 0  # with cells of no data, any number
            if not whole or line.count < max(2 * line.degree, 2):
                raise ValueError(
                    f"{line.cells} cells around a circle, {line.width} to a spline's, are too few "
                    f"or do not divide evenly: degree {line.degree} needs "
                    f"{max(2 * line.degree, 2)} whole ones."
                )
    return tuple(sizes)


class _Numbering(NamedTuple):
    """Function i of component c has the number ``starts[c] + strides[c] @ i``.

    Around a circle i is modulo its count.
    """

    lines: list[tuple[Line, ...]]
    starts: Index
    strides: Index
    size: int
    columns: int


def _number(cells: tuple[int, ...], spaces: tuple[Space, ...], columns: int) -> _Numbering:
    counts = [space.counts(cells) for space in spaces]
    starts = [0, *accumulate(prod(count) for count in counts)]
    strides = [[prod(count[d + 1 :]) for d in range(len(cells))] for count in counts]
    size = starts[-1] + columns
    if size >= 2**31:
        raise ValueError(f"{size} functions are more than 32-bit numbers can count.")
    return _Numbering(
        lines=[space.lines(cells) for space in spaces],
        starts=np.array(starts[:-1], dtype=np.int32),
        strides=np.array(strides, dtype=np.int32),
        size=size,
        columns=columns,
    )


def _leaf_index(numbering: _Numbering, dissection: Dissection) -> Index:
    """Return the numbers of the functions alive on each leaf, as products of padded ranges."""
    depth = len(dissection.splits)
    num_leaves = 2**depth
    blocks = []
    for c, component in enumerate(numbering.lines):
        number = np.full((num_leaves, 1), numbering.starts[c])
        alive = np.full((num_leaves, 1), True)
        for d, line in enumerate(component):
            here = dissection.alive(line, d, depth)
            i = np.arange(here.length, dtype=np.int32)
            step = (here.first[:, None] + i) % line.count * numbering.strides[c, d]
            number = (number[:, :, None] + step[:, None]).reshape(num_leaves, -1)
            alive = (alive[:, :, None] & (i < here.count[:, None])[:, None]).reshape(num_leaves, -1)
        blocks.append(np.where(alive, number, np.int32(-1)))
    return np.hstack([*blocks, np.tile(_column_numbers(numbering), (num_leaves, 1))])


def _column_numbers(numbering: _Numbering) -> Index:
    return np.arange(numbering.size - numbering.columns, numbering.size, dtype=np.int32)


def _levels(numbering: _Numbering, dissection: Dissection, leaf_index: Index) -> list[Level]:
    """Return the fronts of all levels, from the leaves to the root."""
    last_depth = [
        [dissection.last_depth(line, d) for d, line in enumerate(component)]
        for component in numbering.lines
    ]
    levels: list[Level] = []
    for depth in reversed(range(len(dissection.boxes))):
        rows, p, num_pivots, num_boundary = _fronts(numbering, dissection, last_depth, depth)
        num_boxes = len(rows)
        source = np.empty((num_boxes, 0), dtype=np.int32)
        scatter = np.empty((num_boxes, 0, 0), dtype=np.int32)
        if not levels:
            source = _locate(leaf_index, rows, numbering.size)
        else:
            below = levels[-1].boundary.reshape(num_boxes, -1)
            scatter = _locate(rows, below, numbering.size).reshape(num_boxes, 2, -1)
        num_summed = np.count_nonzero((scatter >= 0) & (scatter < p), axis=2).astype(np.int32)
        levels.append(Level(p, rows, num_pivots, num_boundary, source, scatter, num_summed))
    return levels


def _fronts(
    numbering: _Numbering, dissection: Dissection, last_depth: list[list[Index]], depth: int
) -> tuple[Index, int, Index, Index]:
    """Return the rows of the fronts of one depth, padded, p, and the counts of both parts.

    A counting sort by the depth of elimination: functions are visited in the order of their
    numbers, once to count those of every depth, once to put them in their places.
    """
    ranges = [
        [dissection.alive(line, d, depth) for d, line in enumerate(component)]
        for component in numbering.lines
    ]
    # (boxes, components, inputs)
    first = np.array([[r.first for r in each] for each in ranges]).transpose(2, 0, 1).copy()
    count = np.array([[r.count for r in each] for each in ranges]).transpose(2, 0, 1).copy()
    sizes = [[each.size for each in component] for component in last_depth]
    offsets = np.cumsum([0, *np.ravel(sizes)[:-1]]).reshape(np.shape(sizes))
    lasts = np.concatenate([each for component in last_depth for each in component])
    stays = np.where(lasts <= depth, np.arange(lasts.size), lasts.size)
    following = np.append(np.minimum.accumulate(stays[::-1])[::-1], lasts.size)
    along = np.concatenate([line.numbers for component in numbering.lines for line in component])
    lines = first, count, along, lasts, following, offsets
    functions = *lines, numbering.starts, numbering.strides, depth

    counts = np.zeros((len(first), depth + 1), dtype=np.int32)
    _visit(counts, np.empty((0, 0), dtype=np.int32), *functions)
    counts[:, depth] += numbering.columns
    num_pivots, num_boundary = counts[:, 0].copy(), counts[:, 1:].sum(axis=1, dtype=np.int32)
    p, q = int(num_pivots.max()), int(num_boundary.max())

    rows = np.full((len(first), p + q), -1, dtype=np.int32)
    places = p + np.cumsum(counts, axis=1, dtype=np.int32) - counts - num_pivots[:, None]
    places[:, 0] = 0
    _visit(places, rows, *functions)
    columns = _column_numbers(numbering)
    places = places[:, depth, None] + np.arange(numbering.columns)
    np.put_along_axis(rows, places, columns[None], axis=1)
    if any(line.cyclic for component in numbering.lines for line in component):
        _sort(rows, p, counts, numbering.size)
    return rows, p, num_pivots, num_boundary


def _sort(rows: Index, p: int, counts: Index, size: int) -> None:
    """Sort rows of the same depth of elimination by their numbers, in place.

    Fronts copy halves of symmetric matrices, so that rows must come in the same order in all of
    them; the rows of a box at the seam of a circle were visited in another one.
    """
    begins = np.zeros((len(rows), rows.shape[1] + 1), dtype=np.int64)
    ends = p + np.cumsum(counts[:, 1:], axis=1)
    np.add.at(begins, (np.arange(len(rows))[:, None], ends), 1)
    begins[:, p] += 1
    group = np.cumsum(begins, axis=1)[:, :-1]
    key = group * np.int64(size + 1) + np.where(rows < 0, size, rows)
    rows[:] = np.take_along_axis(rows, np.argsort(key, axis=1, kind="stable"), axis=1)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _visit(places, rows, first, count, along, lasts, following, offsets, starts, strides, depth):
    """Pass over the rows of every front in the order of their numbers.

    A function eliminated e levels above the front is written to ``rows[b, places[b, e]]``
    (unless there are no rows), and that place moves on by one. ``along`` holds the numbers of
    the functions along their lines, ``following`` the next function along a line that its input
    alone keeps from being eliminated below.
    """
    num_boxes, num_components, num_inputs = first.shape
    inner = num_inputs - 1
    for b in range(num_boxes):
        for c in range(num_components):
            num_lines = 1
            for d in range(inner):
                num_lines *= count[b, c, d]
            begin = offsets[c, inner] + first[b, c, inner]
            stop = begin + count[b, c, inner]
            for line in range(num_lines):
                number = starts[c]
                outer = depth + 1  # depth of elimination by the outer inputs
                for d in range(inner - 1, -1, -1):
                    i = first[b, c, d] + line % count[b, c, d]
                    line //= count[b, c, d]
                    number += along[offsets[c, d] + i] * strides[c, d]
                    last = lasts[offsets[c, d] + i]
                    outer = last if last < outer else outer
                i = begin if outer <= depth else following[begin]
                while i < stop:
                    e = depth - (outer if outer < lasts[i] else lasts[i])
                    if rows.shape[0] > 0:
                        rows[b, places[b, e]] = number + along[i]
                    places[b, e] += 1
                    i = i + 1 if outer <= depth else following[i + 1]


def _locate(table: Index, queries: Index, size: int) -> Index:
    """Return the position in row b of the table of every entry of row b of the queries, or -1."""
    found = np.full(queries.shape, -1, dtype=np.int32)
    _fill_positions(table, queries, np.empty(size, dtype=np.int32), found)
    return found


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill_positions(table, queries, position, found):
    for b in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[b, j] >= 0:
                position[table[b, j]] = j
        for j in range(queries.shape[1]):
            if queries[b, j] >= 0:
                found[b, j] = position[queries[b, j]]


def _freeze(value) -> None:
    """Make all arrays of a nest of tuples and dataclasses read-only."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, tuple):
        for each in value:
            _freeze(each)
    elif is_dataclass(value):
        for field in fields(value):
            _freeze(getattr(value, field.name))
