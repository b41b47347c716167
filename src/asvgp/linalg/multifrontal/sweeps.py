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
from asvgp.linalg.inner import inner
from asvgp.linalg.multifrontal.fronts import eliminate, invert, subtract_square
from asvgp.linalg.multifrontal.plan import Offset


class Slots(NamedTuple):
    """Room for what boxes hand on: from level ``top`` up shared, below it each thread's own.

    Box b of level l has the ``size[l]`` numbers from ``start[l] + b % kept[l] * size[l]`` on.
    """

    top: int
    start: Offset
    kept: Offset
    size: Offset


class Boxes(NamedTuple):
    """Boxes ``start .. stop - 1`` of a level, and the highest level to go up to."""

    level: int
    start: int
    stop: int
    limit: int


@inner()
def _slot(slots, level, box, own, shared):
    start = slots.start[level] + box % slots.kept[level] * slots.size[level]
    values = shared if level >= slots.top else own
    return values[start : start + slots.size[level]]


@inner()
def _square(values, n):
    return values[: n * n].reshape(n, n)


@inner()
def _panel(plan, front, panels):
    m = plan.p[front] + plan.q[front]
    return panels[plan.panel_start[front] : plan.panel_start[front + 1]].reshape(-1, m)


@inner()
def _runs(plan, front):
    return plan.runs[plan.run_start[front] : plan.run_start[front + 1]]


@inner()
def _pieces(plan, front):
    return plan.pieces[plan.piece_start[front] : plan.piece_start[front + 1]]


# --- factor ----------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def factor(plan, slots, level, start, stop, limit, elements, panels, logs, own, shared):
    """Eliminate boxes ``start .. stop - 1`` of a level and those above that become complete.

    Nothing above level ``limit`` is touched. ``elements`` belong to the boxes, if they are
    leaves. ``logs`` gets the log determinant of each front's L_pp. Returns the front and
    the pivot that failed, or -1.
    """
    word = flush_denormals()
    for each in range(start, stop):
        box = each
        for here in range(level, limit + 1):
            front = plan.level_start[here] + box
            panel = _panel(plan, front, panels)
            update = _square(_slot(slots, here, box, own, shared), plan.q[front])
            if here == 0:
                _take_element(plan, box, elements[box - start], panel, update)
                failed = eliminate(panel)
            else:
                pieces, below = _pieces(plan, front), plan.level_start[here - 1] + 2 * box
                first = _square(_slot(slots, here - 1, 2 * box, own, shared), plan.q[below])
                other = _slot(slots, here - 1, 2 * box + 1, own, shared)
                second = _square(other, plan.q[below + 1])
                _extend_add(pieces, first, second, panel, np.int64(0))
                failed = eliminate(panel)
                # not before: it would have left the caches
                _extend_add(pieces, first, second, update, np.int64(plan.p[front]))
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


@inner()
def _log_det(panel):
    """Of L_pp, while it is in a cache: later every pivot would be a journey to memory."""
    total = 0.0
    for k in range(len(panel)):
        total += np.log(panel[k, k])
    return total


@inner()
def _leaf_rows(plan, leaf):
    """Place in the leaf's element of every row of its front."""
    rows = np.empty(plan.p[leaf] + plan.q[leaf], dtype=np.uint64)
    for i in range(len(rows)):
        shift = plan.leaf_boundary - plan.p[leaf] if i >= plan.p[leaf] else 0
        rows[i] = plan.leaf_rows[leaf, i + shift]
    return rows


@inner()
def _take_element(plan, leaf, element, panel, update):
    p, m = panel.shape
    rows = _leaf_rows(plan, leaf)
    for i in range(p):
        target, values, places = panel[i, i:], element[rows[i]], rows[i:]
        for j in range(len(places)):
            target[j] = values[places[j]]
    for i in range(p, m):
        target, values, places = update[i - p, i - p :], element[rows[i]], rows[i:]
        for j in range(len(places)):
            target[j] = values[places[j]]


@inner()
def _extend_add(pieces, first, second, rows, top):
    """Sum of both children's Schur complements: the rows of a front from ``top`` on.

    ``rows`` begin with column ``top`` too. Block by block, each of which comes from one
    child, from both or from none: so everything is written once, and nothing cleared before.
    """
    stop, ld = top + len(rows), np.uint64(rows.shape[1])
    ld_x, ld_y = np.uint64(len(first)), np.uint64(len(second))
    to, x, y = rows.reshape(-1), first.reshape(-1), second.reshape(-1)
    for a in range(len(pieces)):
        if not top <= pieces[a, 0] < stop:
            continue
        height = pieces[a, 3]
        for b in range(a, len(pieces)):
            in_first = pieces[a, 1] >= 0 and pieces[b, 1] >= 0
            in_second = pieces[a, 2] >= 0 and pieces[b, 2] >= 0
            # unsigned numbers, which are no places counted from the end
            width, slope = np.uint64(pieces[b, 3]), np.uint64(1 if a == b else 0)
            at = _place(pieces[a, 0] - top, pieces[b, 0] - top, ld)
            at_x = _place(pieces[a, 1], pieces[b, 1], ld_x)
            at_y = _place(pieces[a, 2], pieces[b, 2], ld_y)
            if in_first and in_second:
                _sum_block(height, width, slope, to, at, ld, x, at_x, ld_x, y, at_y, ld_y)
            elif in_first:
                _copy_block(height, width, slope, to, at, ld, x, at_x, ld_x)
            elif in_second:
                _copy_block(height, width, slope, to, at, ld, y, at_y, ld_y)
            else:
                _clear_block(height, width, to, at, ld)


@inner()
def _sum_block(height, width, slope, to, at, ld, x, at_x, ld_x, y, at_y, ld_y):
    left = np.uint64(0)
    for _ in range(height):
        for j in range(left, width):
            to[at + j] = x[at_x + j] + y[at_y + j]
        at, at_x, at_y, left = at + ld, at_x + ld_x, at_y + ld_y, left + slope


@inner()
def _copy_block(height, width, slope, to, at, ld, x, at_x, ld_x):
    left = np.uint64(0)
    for _ in range(height):
        for j in range(left, width):
            to[at + j] = x[at_x + j]
        at, at_x, left = at + ld, at_x + ld_x, left + slope


@inner()
def _clear_block(height, width, to, at, ld):
    for _ in range(height):
        for j in range(width):
            to[at + j] = 0.0
        at += ld


@inner()
def _place(row, column, ld):
    return np.uint64(row) * ld + np.uint64(column)


# --- selected inverse ------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def selected_inverse(plan, slots, level, start, stop, limit, leaves, panels, own, shared, work):
    """P^-1 on the fronts of boxes ``start .. stop - 1`` of a level.

    A box above, up to level ``limit``, comes before the first of the boxes below it; what
    lies above ``limit`` has been done. Leaves are written to ``leaves``.
    """
    word = flush_denormals()
    for each in range(start, stop):
        highest = level
        while highest < limit and (each >> (highest - level)) % 2 == 0:
            highest += 1
        for here in range(highest, level - 1, -1):
            box = each >> (here - level)
            front = plan.level_start[here] + box
            panel = _panel(plan, front, panels)
            p, m = panel.shape
            z = _square(_slot(slots, here, box, own, shared), m)
            if m > p:
                parent = plan.level_start[here + 1] + box // 2
                above = _slot(slots, here + 1, box // 2, own, shared)
                n = plan.p[parent] + plan.q[parent]
                _take_rows(_runs(plan, front), _square(above, n), z, p)
            invert(panel, z, work)
            if here == 0:
                _give_element(plan, box, z, leaves[box - start])
    restore(word)


@inner()
def _take_rows(runs, above, z, p):
    """Copy the boundary's block from the parent's: the inverse of extend-add's map."""
    for a in range(len(runs)):
        for i in range(runs[a, 0], runs[a, 0] + runs[a, 2]):
            source, target = above[runs[a, 1] + i - runs[a, 0]], z[p + i]
            for b in range(a, len(runs)):
                begin, end = max(i, runs[b, 0]), runs[b, 0] + runs[b, 2]
                shift = runs[b, 1] - runs[b, 0]
                to, take = target[p + begin : p + end], source[begin + shift : end + shift]
                for j in range(len(take)):
                    to[j] = take[j]


@inner()
def _give_element(plan, leaf, z, element):
    rows = _leaf_rows(plan, leaf)
    element[:] = 0.0
    for i in range(len(rows)):
        for j in range(i, len(rows)):
            element[rows[i], rows[j]] = z[i, j]
            element[rows[j], rows[i]] = z[i, j]


# --- solve -----------------------------------------------------------------------------


@inner()
def _copy(values, to):
    """Copy all rows to the first rows of another array."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            to[i, j] = values[i, j]


@numba.njit(cache=True, nogil=True)
def forward(plan, slots, level, start, stop, limit, y, panels, own, shared):
    """Replace y by L^-1 y, rows in the order of elimination; boxes as in `factor`."""
    word, width = flush_denormals(), y.shape[1]
    for each in range(start, stop):
        box = each
        for here in range(level, limit + 1):
            front = plan.level_start[here] + box
            panel = _panel(plan, front, panels)
            p, m = panel.shape
            x = _slot(slots, here, box, own, shared)[: m * width].reshape(m, width)
            pivots = y[plan.pivot_start[front] : plan.pivot_start[front + 1]]
            for i in range(m):
                for j in range(width):
                    x[i, j] = pivots[i, j] if i < p else 0.0
            for c in range(2 if here > 0 else 0):
                child = plan.level_start[here - 1] + 2 * box + c
                below = _slot(slots, here - 1, 2 * box + c, own, shared)[plan.p[child] * width :]
                for first, place, length in _runs(plan, child):
                    to = x[place : place + length].reshape(-1)
                    take = below[first * width : (first + length) * width]
                    for j in range(len(take)):
                        to[j] += take[j]
            _forward(panel, x)
            _copy(x[:p], pivots)
            if box % 2 == 0:
                break
            box //= 2
    restore(word)


@numba.njit(cache=True, nogil=True)
def backward(plan, slots, level, start, stop, limit, y, panels, own, shared):
    """Replace y by L^-T y, rows in the order of elimination; boxes as in `selected_inverse`."""
    word, width = flush_denormals(), y.shape[1]
    for each in range(start, stop):
        highest = level
        while highest < limit and (each >> (highest - level)) % 2 == 0:
            highest += 1
        for here in range(highest, level - 1, -1):
            box = each >> (here - level)
            front = plan.level_start[here] + box
            panel = _panel(plan, front, panels)
            p, m = panel.shape
            x = _slot(slots, here, box, own, shared)[: m * width].reshape(m, width)
            pivots = y[plan.pivot_start[front] : plan.pivot_start[front + 1]]
            _copy(pivots, x)
            for first, place, length in _runs(plan, front):
                above = _slot(slots, here + 1, box // 2, own, shared)
                to = x[p + first : p + first + length].reshape(-1)
                take = above[place * width : (place + length) * width]
                for j in range(len(take)):
                    to[j] = take[j]
            _backward(panel, x)
            _copy(x[:p], pivots)
    restore(word)


@inner(fastmath={"contract", "reassoc"})
def _forward(panel, x):
    """x_p := L_pp^-1 x_p, then x_b := x_b - L_bp x_p."""
    (p, m), width = panel.shape, x.shape[1]
    if width == 1:
        values = x.reshape(-1)
        for k in range(p):
            row, rest = panel[k, k + 1 :], values[k + 1 :]
            values[k] /= panel[k, k]
            value = values[k]
            for j in range(len(row)):
                rest[j] -= value * row[j]
    elif p > 0:
        a, b = panel.ctypes.data, x.ctypes.data
        trsm(True, width, p, 1, a, m, b, width)
        if m > p:
            c = b + 8 * p * width
            gemm(False, True, width, m - p, p, -1, b, width, a + 8 * p, m, 1, c, width)


@inner(fastmath={"contract", "reassoc"})
def _backward(panel, x):
    """x_p := L_pp^-T (x_p - L_bp^T x_b)."""
    (p, m), width = panel.shape, x.shape[1]
    if width == 1:
        values = x.reshape(-1)
        for k in range(p - 1, -1, -1):
            row, rest = panel[k, k + 1 :], values[k + 1 :]
            total = values[k]
            for j in range(len(row)):
                total -= row[j] * rest[j]
            values[k] = total / panel[k, k]
    elif p > 0:
        a, b = panel.ctypes.data, x.ctypes.data
        if m > p:
            c = b + 8 * p * width
            gemm(False, False, width, p, m - p, -1, c, width, a + 8 * p, m, 1, b, width)
        trsm(False, width, p, 1, a, m, b, width)
