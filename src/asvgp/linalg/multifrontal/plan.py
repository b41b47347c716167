"""The fronts as the CPU wants them: bare, one after another, their index arrays as runs.

Fronts are numbered level after level, leaves first, boxes in their order; no row is padded.
A front is kept in two parts, both C-contiguous, of which only the upper half is used:

    panel   (p, p + q)   the pivots' rows. Afterwards row k is column k of [L_pp; L_bp]
    update  (q, q)       the boundary's rows. Afterwards the Schur complement U

With this layout every row is contiguous, so are the runs of neighbouring rows that
extend-add copies, and to BLAS both parts are lower halves of column-major matrices.
"""

import weakref
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from asvgp.linalg.multifrontal.dissection import Index
from asvgp.linalg.multifrontal.symbolic import Tree

Offset = NDArray[np.int64]

P, Q, PIVOTS, PANEL, RUNS, PIECES, ROWS = range(7)  # columns of `Fronts.table`


class Fronts(NamedTuple):
    """What compiled code needs of a `Plan`, in few arrays: each takes long to hand over."""

    table: Offset  # (fronts + 1, 7): p, q, starts of pivots, panel, runs, pieces and rows
    level_start: Offset
    runs: Index
    pieces: Index
    leaf_places: NDArray[np.uint64]  # place in its element of every row of the leaves' fronts


class Plan(NamedTuple):
    """Index arrays of all fronts; "start" arrays have one entry more, the end.

    A *run* are neighbouring boundary rows which are neighbours in the parent's front too: the
    first of them, its row there (0 .. p + q - 1 of the parent), and how many. A *piece* is the
    same seen from above, neighbouring rows of a front which are neighbours in its children's
    boundaries too: the first of them, its row in either child's boundary (-1: not from there),
    and how many. Neither holds both pivots and boundary rows of the parent.
    """

    p: Index  # (fronts,): pivots
    q: Index  # (fronts,): boundary rows
    pivot_start: Offset  # (fronts + 1,): a front's pivots in the order of elimination
    panel_start: Offset  # (fronts + 1,): its panel among all panels
    order: Index  # (size,): number of the function that is eliminated first, second, ...
    runs: Index  # (runs, 3)
    run_start: Offset  # (fronts + 1,)
    pieces: Index  # (pieces, 4)
    piece_start: Offset  # (fronts + 1,); leaves have none
    level_start: Offset  # (levels + 1,): first front of each level
    largest_q: Offset  # (levels,): most boundary rows of a level's fronts
    largest_m: Offset  # (levels,): most rows p + q
    fronts: Fronts  # the same for compiled code


_plans: dict[int, Plan] = {}


def plan(tree: Tree) -> Plan:
    """The bare fronts of a tree: laid out once, and kept as long as the tree is."""
    key = id(tree)
    if key not in _plans:
        _plans[key] = _lay_out(tree)
        weakref.finalize(tree, _plans.pop, key, None)
    return _plans[key]


def _lay_out(tree: Tree) -> Plan:
    levels = tree.levels
    p = np.concatenate([level.num_pivots for level in levels])
    q = np.concatenate([level.num_boundary for level in levels])
    found_runs, num_runs = [np.empty((0, 3), dtype=np.int32)], []
    for child, parent in pairwise(levels):
        # the parent's boundary follows its pivots at once, not at row parent.p
        shift = parent.p - parent.num_pivots
        place = parent.scatter, parent.num_summed, shift, child.num_boundary
        counts = np.zeros(len(child.rows), dtype=np.int32)
        _find_runs(*place, counts, found_runs[0])
        found = np.empty((counts.sum(), 3), dtype=np.int32)
        _find_runs(*place, counts, found)
        found_runs.append(found)
        num_runs.append(counts)
    level_start = _starts([len(level.rows) for level in levels])
    runs, run_start = np.concatenate(found_runs), _starts(np.concatenate([*num_runs, [0]]))
    # a piece begins where a run begins or ends, or with the boundary
    pieces = np.empty((2 * len(runs) + len(p), 4), dtype=np.int32)
    num_pieces = np.zeros(len(p), dtype=np.int32)
    source = np.empty((2, np.max(p + q) + 1), dtype=np.int32)
    total = _find_pieces(p, q, int(level_start[1]), runs, run_start, source, pieces, num_pieces)
    pieces = pieces[:total].copy()
    starts = {
        "pivot_start": _starts(p),
        "panel_start": _starts(p.astype(np.int64) * (p + q)),
        "run_start": run_start,
        "piece_start": _starts(num_pieces),
    }
    table = np.stack([np.append(p, 0), np.append(q, 0), *starts.values(), _starts(p + q)], axis=1)
    leaves = np.arange(level_start[1])
    column = np.arange(levels[0].source.shape[1])
    is_row = (column < p[leaves, None]) | (
        (column >= levels[0].p) & (column < levels[0].p + q[leaves, None])
    )
    places = levels[0].source[is_row].astype(np.uint64)
    return Plan(
        p=p,
        q=q,
        order=np.concatenate([level.pivots[level.pivots >= 0] for level in levels]),
        runs=runs,
        pieces=pieces,
        level_start=level_start,
        largest_q=np.maximum.reduceat(q, level_start[:-1]).astype(np.int64),
        largest_m=np.maximum.reduceat(p + q, level_start[:-1]).astype(np.int64),
        fronts=Fronts(np.ascontiguousarray(table), level_start, runs, pieces, places),
        **starts,
    )


def _starts(counts) -> Offset:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _find_runs(scatter, num_summed, shift, num_boundary, counts, runs):
    """Count the runs of every child, and write them down if there is room."""
    n = 0
    for b in range(len(scatter)):
        for c in range(2):
            child, place, summed = 2 * b + c, scatter[b, c], num_summed[b, c]
            before, begin = n, 0
            for i in range(1, num_boundary[child] + 1):
                ends = i == num_boundary[child] or i == summed or place[i] != place[i - 1] + 1
                if not ends:
                    continue
                if len(runs) > 0:
                    runs[n, 0] = begin
                    runs[n, 1] = place[begin] - (shift[b] if begin >= summed else 0)
                    runs[n, 2] = i - begin
                begin = i
                n += 1
            counts[child] = n - before


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _find_pieces(p, q, num_leaves, runs, run_start, source, pieces, counts):
    """Write down the pieces of all fronts and how many each has; returns how many there are."""
    n = 0
    for front in range(num_leaves, len(p)):
        before, begin, m = n, 0, p[front] + q[front]
        for c in range(2):
            for i in range(m):
                source[c, i] = -1
            child = 2 * (front - num_leaves) + c
            for r in range(run_start[child], run_start[child + 1]):
                for i in range(runs[r, 2]):
                    source[c, runs[r, 1] + i] = runs[r, 0] + i
        for i in range(1, m + 1):
            ends = i == m or i == p[front]
            for c in range(2):
                last = source[c, i - 1]
                ends = ends or source[c, i] != (last + 1 if last >= 0 else -1)
            if ends:
                pieces[n, 0], pieces[n, 3] = begin, i - begin
                pieces[n, 1], pieces[n, 2] = source[0, begin], source[1, begin]
                begin = i
                n += 1
        counts[front] = n - before
    return n
