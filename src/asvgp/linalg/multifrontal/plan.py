"""The fronts as the CPU wants them: bare, one after another, their index arrays as runs.

Fronts are numbered level after level, leaves first, boxes in their order; no row is padded.
A front is kept in two parts, both C-contiguous, of which only the upper half is used:

    panel   (p, p + q)   the pivots' rows. Afterwards row k is column k of [L_pp; L_bp]
    update  (q, q)       the boundary's rows. Afterwards the Schur complement U

With this layout every row is contiguous, so are the runs of neighbouring rows that
extend-add copies, and to BLAS both parts are lower halves of column-major matrices.
"""

from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from asvgp.linalg.multifrontal.dissection import Index
from asvgp.linalg.multifrontal.symbolic import Level, Tree

Offset = NDArray[np.int64]

P, Q, PIVOTS, PANEL, RUNS, PIECES, ROWS = range(7)  # columns of `Fronts.table`


class Fronts(NamedTuple):
    """Index arrays of all fronts for compiled code: few, because handing them over takes long.

    A *run* are neighbouring boundary rows which are neighbours in the parent's front too: the
    first of them, its row there (0 .. p + q - 1 of the parent), and how many. A *piece* is the
    same seen from above, neighbouring rows of a front which are neighbours in its children's
    boundaries too: the first of them, its row in either child's boundary (-1: not from there),
    and how many. Neither holds both pivots and boundary rows of the parent.
    """

    table: Offset  # (fronts + 1, 7): p, q, starts of pivots, panel, runs, pieces and rows
    level_start: Offset  # (levels + 1,): first front of each level
    runs: Index  # (runs, 3)
    pieces: Index  # (pieces, 4); leaves have none
    leaf_places: NDArray[np.uint64]  # place in its element of every row of the leaves' fronts


class Plan(NamedTuple):
    """The fronts, and what is known of them all."""

    order: Index  # (size,): number of the function that is eliminated first, second, ...
    largest_q: Offset  # (levels,): most boundary rows of a level's fronts
    largest_m: Offset  # (levels,): most rows p + q
    fronts: Fronts


_plans: WeakKeyDictionary[Tree, Plan] = WeakKeyDictionary()


def plan(tree: Tree) -> Plan:
    """Return the bare fronts of a tree: laid out once, and kept as long as the tree is."""
    if tree not in _plans:
        _plans[tree] = _lay_out(tree)
    return _plans[tree]


def _lay_out(tree: Tree) -> Plan:
    levels = tree.levels
    p = np.concatenate([level.num_pivots for level in levels])
    q = np.concatenate([level.num_boundary for level in levels])
    found = [_find_runs(child, parent) for child, parent in pairwise(levels)]
    runs = np.concatenate([np.empty((0, 3), dtype=np.int32), *(runs for runs, _ in found)])
    num_runs = np.concatenate([*(counts for _, counts in found), [0]])
    level_start = _starts([len(level.rows) for level in levels])
    pieces, num_pieces = _find_pieces(p, q, int(level_start[1]), runs, num_runs)
    counts = p, p.astype(np.int64) * (p + q), num_runs, num_pieces, p + q
    table = np.stack([np.append(p, 0), np.append(q, 0), *map(_starts, counts)], axis=1)
    leaves = np.arange(level_start[1])
    column = np.arange(levels[0].source.shape[1])
    is_row = (column < p[leaves, None]) | (
        (column >= levels[0].p) & (column < levels[0].p + q[leaves, None])
    )
    places = levels[0].source[is_row].astype(np.uint64)
    return Plan(
        order=np.concatenate([level.pivots[level.pivots >= 0] for level in levels]),
        largest_q=np.maximum.reduceat(q, level_start[:-1]).astype(np.int64),
        largest_m=np.maximum.reduceat(p + q, level_start[:-1]).astype(np.int64),
        fronts=Fronts(np.ascontiguousarray(table), level_start, runs, pieces, places),
    )


def _starts(counts) -> Offset:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _find_runs(child: Level, parent: Level) -> tuple[Index, Offset]:
    """Return the runs of all fronts of a level, and how many each has."""
    place, summed = parent.scatter.reshape(len(child.rows), -1), parent.num_summed.reshape(-1)
    column = np.arange(place.shape[1])
    begins = column < child.num_boundary[:, None]
    jumps = place[:, 1:] != place[:, :-1] + 1
    begins[:, 1:] &= jumps | (column[1:] == summed[:, None])
    front, first = np.nonzero(begins)
    # the parent's boundary follows its pivots at once, not at row parent.p
    shift = np.where(first >= summed[front], (parent.p - parent.num_pivots)[front // 2], 0)
    stop = np.roll(first, -1)
    last = np.roll(front, -1) != front
    last[-1:] = True
    stop[last] = child.num_boundary[front[last]]
    runs = np.stack([first, place[front, first] - shift, stop - first], axis=1)
    return runs.astype(np.int32), np.bincount(front, minlength=len(child.rows))


def _find_pieces(
    p: Index, q: Index, num_leaves: int, runs: Index, num_runs: Offset
) -> tuple[Index, Offset]:
    """Return the pieces of all fronts, and how many each has."""
    above = np.arange(num_leaves, len(p))
    offset = _starts((p + q)[above])  # of a front's rows among those of all above the leaves
    child = np.repeat(np.arange(len(p), dtype=np.int32), num_runs)
    begin = offset[child // 2] + runs[:, 1]
    # a piece begins where a run begins or ends, with its front, or with the boundary
    begins = np.zeros(offset[-1] + 1, dtype=bool)
    for places in (offset, offset[:-1] + p[above], begin, begin + runs[:, 2]):
        begins[places] = True
    first = np.flatnonzero(begins[:-1])
    source = np.full((2, len(first)), -1, dtype=np.int32)  # row in either child's boundary
    for side, rows in enumerate(source):
        of_side = np.flatnonzero(child % 2 == side)
        of_side = of_side[np.argsort(begin[of_side])]
        run = of_side[np.searchsorted(begin[of_side], first, "right") - 1]
        within = first - begin[run]
        inside = (within >= 0) & (within < runs[run, 2])
        rows[inside] = (runs[run, 0] + within)[inside]
    front = np.searchsorted(offset, first, "right") - 1
    length = np.diff(np.append(first, offset[-1]))
    pieces = np.stack([first - offset[front], *source, length], axis=1)
    counts = np.bincount(front, minlength=len(above))
    return pieces.astype(np.int32), np.append(np.zeros(num_leaves, dtype=counts.dtype), counts)
