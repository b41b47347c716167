"""Walks over the tree: what passes between the fronts on the way up and on the way down.

Layout and letters: `asvgp.linalg.multifrontal.plan`. Boxes are visited so that as little as
possible is held at once: up, a box follows its second child at once; down, it goes before
its first. So of every level only two siblings' results are alive on the way up, and only
one box's on the way down; each level has fixed *slots* for them.
"""

from typing import NamedTuple

import numba
import numpy as np

from asvgp.linalg.blas import gemm, trsm
from asvgp.linalg.denormals import flush_denormals, restore
from asvgp.linalg.inner import block, copy, inner, segment
from asvgp.linalg.multifrontal.fronts import eliminate, invert, subtract_square
from asvgp.linalg.multifrontal.plan import PANEL, PIECES, PIVOTS, ROWS, RUNS, Offset, P, Q


class Slots(NamedTuple):
    """Room for what boxes hand on: from level ``top`` up shared, below it each thread's own.

    Box b of level l has the ``size`` numbers from ``start + b % kept * size`` on, where
    ``start, kept, size = table[l]``.
    """

    top: int
    table: Offset


class Boxes(NamedTuple):
    """Boxes ``start .. stop - 1`` of a level, and the highest level to go up to."""

    level: int
    start: int
    stop: int
    limit: int


@inner(error_model="numpy")
def slot(slots, level, box, own, shared):
    """Return a box's slot, and what follows it."""
    start = slots.table[level, 0] + box % slots.table[level, 1] * slots.table[level, 2]
    values = shared if level >= slots.top else own
    return segment(values, start, values.shape[0] - start)


@inner(error_model="numpy")
def panel_of(fronts, front, panels):
    """Return the panel [R, B] of a front."""
    p = fronts.table[front, P]
    return block(panels, fronts.table[front, PANEL], p, p + fronts.table[front, Q])


@inner(error_model="numpy")
def highest(box, level, limit):
    """Return the level of the highest box, up to ``limit``, below which a box is the first."""
    above = level
    while above < limit and (box >> (above - level)) % 2 == 0:
        above += 1
    return above


# --- factor ----------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factor(fronts, slots, level, start, stop, limit, elements, panels, logs, own, shared):
    """Eliminate boxes ``start .. stop - 1`` of a level and those above that become complete.

    Nothing above level ``limit`` is touched. ``elements`` belong to the boxes, if they are
    leaves. ``logs`` gets the log determinant of each front's L_pp. Returns the front and
    the pivot that failed, or -1.
    """
    word = flush_denormals()
    for each in range(start, stop):
        box = each
        for here in range(level, limit + 1):
            front = fronts.level_start[here] + box
            panel = panel_of(fronts, front, panels)
            q = fronts.table[front, Q]
            update = block(slot(slots, here, box, own, shared), 0, q, q)
            if here == 0:
                take_element(fronts, box, elements[box - start], panel, update)
            else:
                merge(fronts, slots, here, box, own, shared, panel, np.int64(0))
            failed = eliminate(panel)
            if here > 0:  # not before: it would have left the caches
                merge(fronts, slots, here, box, own, shared, update, fronts.table[front, P])
            if failed:
                restore(word)
                return front, failed - 1
            logs[front] = _log_det(panel)
            subtract_square(panel, update)
            if box % 2 == 0:
                break
            box //= 2
    restore(word)
    return -1, -1


@inner(error_model="numpy")
def _log_det(panel):
    """Return log |L_pp| while it is in a cache: later every pivot would be a journey to memory."""
    total = 0.0
    for k in range(len(panel)):
        total += np.log(panel[k, k])
    return total


@inner(error_model="numpy")
def _leaf_rows(fronts, leaf):
    """Return the place in the leaf's element of every row of its front."""
    start = fronts.table[leaf, ROWS]
    return segment(fronts.leaf_places, start, fronts.table[leaf + 1, ROWS] - start)


@inner(error_model="numpy")
def take_element(fronts, leaf, element, panel, update):
    """Put the upper half of a leaf's element into its front, pivots in the panel."""
    p, m = panel.shape
    rows = _leaf_rows(fronts, leaf)
    size, q = element.shape[1], m - p
    for i in range(m):
        values, places = segment(element, np.int64(rows[i]) * size, size), segment(rows, i, m - i)
        if i < p:
            target = segment(panel, i * m + i, m - i)
        else:
            target = segment(update, (i - p) * q + i - p, m - i)
        for j in range(places.shape[0]):
            target[j] = values[places[j]]


@inner(error_model="numpy")
def merge(fronts, slots, here, box, own, shared, rows, top):
    """Sum both children's Schur complements: the rows of a front from ``top`` on.

    ``rows`` begin with column ``top`` too. Block by block, each of which comes from one child,
    from both or from none: so everything is written once, and nothing cleared before.
    """
    front, below = fronts.level_start[here] + box, fronts.level_start[here - 1] + 2 * box
    x = slot(slots, here - 1, 2 * box, own, shared)
    y = slot(slots, here - 1, 2 * box + 1, own, shared)
    ld, ld_x, ld_y = rows.shape[1], fronts.table[below, Q], fronts.table[below + 1, Q]
    pieces, stop = fronts.pieces, fronts.table[front + 1, PIECES]
    for a in range(fronts.table[front, PIECES], stop):
        if pieces[a, 0] < top or pieces[a, 0] >= top + rows.shape[0]:
            continue
        for b in range(a, stop):
            in_x = pieces[a, 1] >= 0 and pieces[b, 1] >= 0
            in_y = pieces[a, 2] >= 0 and pieces[b, 2] >= 0
            at = (pieces[a, 0] - top) * ld + pieces[b, 0] - top
            at_x = pieces[a, 1] * ld_x + pieces[b, 1]
            at_y = pieces[a, 2] * ld_y + pieces[b, 2]
            count, slope = pieces[b, 3], 1 if a == b else 0
            for _ in range(pieces[a, 3]):
                if in_x and in_y:
                    to = segment(rows, at, count)
                    first, second = segment(x, at_x, count), segment(y, at_y, count)
                    for j in range(to.shape[0]):
                        to[j] = first[j] + second[j]
                elif in_x:
                    copy(x, at_x, rows, at, count)
                elif in_y:
                    copy(y, at_y, rows, at, count)
                else:
                    to = segment(rows, at, count)
                    for j in range(to.shape[0]):
                        to[j] = 0.0
                at, at_x, at_y = at + ld + slope, at_x + ld_x + slope, at_y + ld_y + slope
                count -= slope


# --- selected inverse ------------------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def selected_inverse(fronts, slots, level, start, stop, limit, leaves, panels, own, shared, work):
    """Compute P^-1 on the fronts of boxes ``start .. stop - 1`` of a level.

    A box above, up to level ``limit``, comes before the first of the boxes below it; what
    lies above ``limit`` has been done. Leaves are written to ``leaves``.
    """
    word = flush_denormals()
    for each in range(start, stop):
        for here in range(highest(each, level, limit), level - 1, -1):
            box = each >> (here - level)
            front = fronts.level_start[here] + box
            panel = panel_of(fronts, front, panels)
            p, m = panel.shape
            z = block(slot(slots, here, box, own, shared), 0, m, m)
            if m > p:
                take_boundary(fronts, slots, here, box, own, shared, z)
            invert(panel, z, work)
            if here == 0:
                give_element(fronts, box, z, leaves[box - start])
    restore(word)


@inner(error_model="numpy")
def take_boundary(fronts, slots, here, box, own, shared, z):
    """Copy the boundary's block of a front from the parent's: the inverse of extend-add's map."""
    front, parent = fronts.level_start[here] + box, fronts.level_start[here + 1] + box // 2
    p, m = fronts.table[front, P], z.shape[1]
    n = fronts.table[parent, P] + fronts.table[parent, Q]
    above = slot(slots, here + 1, box // 2, own, shared)
    begin = fronts.table[front, RUNS]
    runs = block(fronts.runs, 3 * begin, fronts.table[front + 1, RUNS] - begin, 3)
    for a in range(runs.shape[0]):
        for i in range(runs[a, 0], runs[a, 0] + runs[a, 2]):
            source, target = (runs[a, 1] + i - runs[a, 0]) * n, (p + i) * m + p
            for b in range(a, runs.shape[0]):
                first, end = i if i > runs[b, 0] else runs[b, 0], runs[b, 0] + runs[b, 2]
                shift = runs[b, 1] - runs[b, 0]
                copy(above, source + first + shift, z, target + first, end - first)


@inner(error_model="numpy")
def give_element(fronts, leaf, z, element):
    """Spread the upper half of a front's inverse over a leaf's element."""
    rows = _leaf_rows(fronts, leaf)
    for i in range(element.shape[0]):
        for j in range(element.shape[1]):
            element[i, j] = 0.0
    for i in range(rows.shape[0]):
        for j in range(i, rows.shape[0]):
            element[rows[i], rows[j]] = z[i, j]
            element[rows[j], rows[i]] = z[i, j]


# --- solve -----------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def forward(fronts, slots, level, start, stop, limit, y, panels, own, shared):
    """Replace y by L^-1 y, rows in the order of elimination; boxes as in `factor`."""
    word, width = flush_denormals(), y.shape[1]
    for each in range(start, stop):
        box = each
        for here in range(level, limit + 1):
            front = fronts.level_start[here] + box
            panel = panel_of(fronts, front, panels)
            p, m = panel.shape
            x = block(slot(slots, here, box, own, shared), 0, m, width)
            pivots = block(y, fronts.table[front, PIVOTS] * width, p, width)
            copy(pivots, 0, x, 0, p * width)
            rest = segment(x, p * width, (m - p) * width)
            for i in range(rest.shape[0]):
                rest[i] = 0.0
            for c in range(2 if here > 0 else 0):
                child = fronts.level_start[here - 1] + 2 * box + c
                below = slot(slots, here - 1, 2 * box + c, own, shared)
                for r in range(fronts.table[child, RUNS], fronts.table[child + 1, RUNS]):
                    count = fronts.runs[r, 2] * width
                    first = fronts.table[child, P] + fronts.runs[r, 0]
                    to = segment(x, fronts.runs[r, 1] * width, count)
                    take = segment(below, first * width, count)
                    for j in range(to.shape[0]):
                        to[j] += take[j]
            _forward(panel, x)
            copy(x, 0, pivots, 0, p * width)
            if box % 2 == 0:
                break
            box //= 2
    restore(word)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def backward(fronts, slots, level, start, stop, limit, y, panels, own, shared):
    """Replace y by L^-T y, rows in the order of elimination; boxes as in `selected_inverse`."""
    word, width = flush_denormals(), y.shape[1]
    for each in range(start, stop):
        for here in range(highest(each, level, limit), level - 1, -1):
            box = each >> (here - level)
            front = fronts.level_start[here] + box
            panel = panel_of(fronts, front, panels)
            p, m = panel.shape
            x = block(slot(slots, here, box, own, shared), 0, m, width)
            pivots = block(y, fronts.table[front, PIVOTS] * width, p, width)
            copy(pivots, 0, x, 0, p * width)
            for r in range(fronts.table[front, RUNS], fronts.table[front + 1, RUNS]):
                above = slot(slots, here + 1, box // 2, own, shared)
                at, count = (p + fronts.runs[r, 0]) * width, fronts.runs[r, 2] * width
                copy(above, fronts.runs[r, 1] * width, x, at, count)
            _backward(panel, x)
            copy(x, 0, pivots, 0, p * width)
    restore(word)


@inner(error_model="numpy", fastmath={"contract", "reassoc"})
def _forward(panel, x):
    """Set x_p := L_pp^-1 x_p, then x_b := x_b - L_bp x_p."""
    (p, m), width = panel.shape, x.shape[1]
    if width == 1:
        for k in range(p):
            row, rest = segment(panel, k * m + k + 1, m - k - 1), segment(x, k + 1, m - k - 1)
            value = x[k, 0] / panel[k, k]
            x[k, 0] = value
            for j in range(row.shape[0]):
                rest[j] -= value * row[j]
    elif p > 0:
        a, b = panel.ctypes.data, x.ctypes.data
        trsm(True, width, p, 1, a, m, b, width)
        if m > p:
            c = b + 8 * p * width
            gemm(False, True, width, m - p, p, -1, b, width, a + 8 * p, m, 1, c, width)


@inner(error_model="numpy", fastmath={"contract", "reassoc"})
def _backward(panel, x):
    """Set x_p := L_pp^-T (x_p - L_bp^T x_b)."""
    (p, m), width = panel.shape, x.shape[1]
    if width == 1:
        for k in range(p - 1, -1, -1):
            row, rest = segment(panel, k * m + k + 1, m - k - 1), segment(x, k + 1, m - k - 1)
            total = x[k, 0]
            for j in range(row.shape[0]):
                total -= row[j] * rest[j]
            x[k, 0] = total / panel[k, k]
    elif p > 0:
        a, b = panel.ctypes.data, x.ctypes.data
        if m > p:
            c = b + 8 * p * width
            gemm(False, False, width, p, m - p, -1, c, width, a + 8 * p, m, 1, b, width)
        trsm(False, width, p, 1, a, m, b, width)
