"""K^-1 and K^-1 G K^-1 on the leaves, for two sums of leaf elements K and G, on the CPU.

The trace of K^-1 G changes with K by minus the trace of K^-1 dK K^-1 G. As dK is a sum of leaf
elements too, all derivatives need the same: K^-1 G K^-1 between functions of one leaf. It is the
covariance of x = K^-1 g for g with the covariance G, and is found like the inverse itself. A panel
of the factor is [R, B] with R = L_pp^T and B = L_bp^T. On the way up the pivots of a front of G
are carried through the elimination of K,

    C_pp = R^-T G_pp R^-1    T = R^-T G_pb    C_pb = T - C_pp B
    G_bb := G_bb - B^T S - S^T B              S = T - C_pp B / 2,

and C, which is what L^-1 G L^-T has in these rows, is kept. On the way down, with Z = K^-1,
N = K^-1 G K^-1, W = R^-1 B and E = R^-1 C_pb,

    Z_pb = -W Z_bb             Z_pp = R^-1 R^-T - Z_pb W^T
    N_pb = E Z_bb - W N_bb     N_pp = R^-1 C_pp R^-T - N_pb W^T + Z_pb E^T.

Nothing is differenced, so no digits are lost beyond those of K^-1.

Layout and letters: `asvgp.linalg.multifrontal.plan`; the order of boxes and where they hand on
what: `asvgp.linalg.multifrontal.sweeps`.
"""

import numba
import numpy as np

from asvgp.linalg.blas import gemm, symm, trsm
from asvgp.linalg.denormals import flush_denormals, restore
from asvgp.linalg.inner import block, copy, inner, segment
from asvgp.linalg.multifrontal.fronts import SMALL, back_substitute, mirror
from asvgp.linalg.multifrontal.plan import P, Q
from asvgp.linalg.multifrontal.sweeps import (
    give_element,
    highest,
    merge,
    panel_of,
    slot,
    take_boundary,
    take_element,
)

_STRIP = 32  # rows of an update that are changed together


@numba.njit(cache=True, nogil=True, error_model="numpy")
def carry(fronts, slots, level, start, stop, limit, elements, panels, carried, own, shared, work):
    """Fill the panels ``carried`` with C; boxes and their ``elements`` as in `sweeps.factor`.

    ``panels`` are those of the factor of K. ``work`` has room for p x q numbers of a front.
    """
    word = flush_denormals()
    for each in range(start, stop):
        box = each
        for here in range(level, limit + 1):
            front = fronts.level_start[here] + box
            panel, c = panel_of(fronts, front, panels), panel_of(fronts, front, carried)
            q = fronts.table[front, Q]
            update = block(slot(slots, here, box, own, shared), 0, q, q)
            if here == 0:
                take_element(fronts, box, elements[box - start], c, update)
            else:
                merge(fronts, slots, here, box, own, shared, c, np.int64(0))
                merge(fronts, slots, here, box, own, shared, update, fronts.table[front, P])
            _carry_front(panel, c, update, work)
            if box % 2 == 0:
                break
            box //= 2
    restore(word)


@inner(error_model="numpy", fastmath={"contract"})
def _carry_front(panel, c, update, work):
    """Turn G of a front into C and what its boundary hands on."""
    p, m = panel.shape
    q = m - p
    if p == 0:
        return
    r, g = panel.ctypes.data, c.ctypes.data
    for i in range(p):
        for j in range(i):
            c[i, j] = c[j, i]
    trsm(True, m, p, 1, r, m, g, m)
    for i in range(p):
        for j in range(i):
            c[i, j], c[j, i] = c[j, i], c[i, j]
    trsm(True, p, p, 1, r, m, g, m)
    if q == 0:
        return
    b, s, u = r + 8 * p, work.ctypes.data, update.ctypes.data
    gemm(False, False, q, p, p, 1, b, m, g, m, 0, s, q)
    for i in range(p):
        row, half = segment(c, i * m + p, q), segment(work, i * q, q)
        for j in range(q):
            known, change = row[j], half[j]
            row[j] = known - change
            half[j] = known - 0.5 * change
    for i in range(0, q, _STRIP):
        rows, columns, to = q - i, min(_STRIP, q - i), u + 8 * (i * q + i)
        gemm(False, True, rows, columns, p, -1, b + 8 * i, m, s + 8 * i, q, 1, to, q)
        gemm(False, True, rows, columns, p, -1, s + 8 * i, q, b + 8 * i, m, 1, to, q)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def invert_both(
    fronts, slots, level, start, stop, limit, out_z, out_n, panels, carried, own, shared, work
):
    """Compute Z and N on the fronts of boxes ``start .. stop - 1`` of a level.

    The order of boxes is that of `sweeps.selected_inverse`. ``own`` and ``shared`` are two rows of
    memory, one of Z and one of N. Leaves are written to ``out_z`` and ``out_n``. ``work`` has room
    for p x (p + q) numbers of a front.
    """
    word = flush_denormals()
    for each in range(start, stop):
        for here in range(highest(each, level, limit), level - 1, -1):
            box = each >> (here - level)
            front = fronts.level_start[here] + box
            panel, c = panel_of(fronts, front, panels), panel_of(fronts, front, carried)
            p, m = panel.shape
            z = block(slot(slots, here, box, own[0], shared[0]), 0, m, m)
            n = block(slot(slots, here, box, own[1], shared[1]), 0, m, m)
            if m > p:
                take_boundary(fronts, slots, here, box, own[0], shared[0], z)
                take_boundary(fronts, slots, here, box, own[1], shared[1], n)
            _invert_front(panel, c, z, n, work)
            if here == 0:
                give_element(fronts, box, z, out_z[box - start])
                give_element(fronts, box, n, out_n[box - start])
    restore(word)


@inner(error_model="numpy")
def _invert_front(panel, c, z, n, work):
    """Compute Z and N on the rows of a front, of which the boundary's blocks are there.

    The upper halves are used and filled. ``c`` is overwritten.
    """
    p, m = panel.shape
    q = m - p
    if p == 0:
        return
    for i in range(p):  # work becomes [R^-1, W], and c [R^-1 C_pp, E]
        row = segment(work, i * m, p)
        for j in range(p):
            row[j] = 0.0
        row[i] = 1.0
        copy(panel, i * m + p, work, i * m + p, q)
    back_substitute(panel, 0, p, work)
    back_substitute(panel, 0, p, c)
    t, g, z_pp, n_pp = work.ctypes.data, c.ctypes.data, z.ctypes.data, n.ctypes.data
    gemm(True, False, p, p, p, 1, t, m, t, m, 0, z_pp, m)
    gemm(True, False, p, p, p, 1, t, m, g, m, 0, n_pp, m)
    if q == 0:
        return
    w, e, z_pb, n_pb = t + 8 * p, g + 8 * p, z_pp + 8 * p, n_pp + 8 * p
    if m <= SMALL:
        mirror(z, p, m)
        mirror(n, p, m)
    _times_boundary(z, p, -1, w, 0, z_pb)
    _times_boundary(z, p, 1, e, 0, n_pb)
    _times_boundary(n, p, -1, w, 1, n_pb)
    gemm(True, False, p, p, q, -1, w, m, z_pb, m, 1, z_pp, m)
    gemm(True, False, p, p, q, -1, w, m, n_pb, m, 1, n_pp, m)
    gemm(True, False, p, p, q, 1, e, m, z_pb, m, 1, n_pp, m)


@inner(error_model="numpy")
def _times_boundary(z, p, alpha, rows, beta, out):
    """Set ``out := beta out + alpha rows Z_bb`` for p rows, both with rows as long as Z's."""
    m = len(z)
    z_bb = z.ctypes.data + 8 * (p * m + p)
    if m <= SMALL:
        gemm(False, False, m - p, p, m - p, alpha, z_bb, m, rows, m, beta, out, m)
    else:
        symm(m - p, p, alpha, z_bb, m, rows, m, beta, out, m)
