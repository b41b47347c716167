"""Dense algebra of one front: elimination, and a block of the inverse.

Layout and letters: `asvgp.linalg.multifrontal.plan`. OpenBLAS multiplies small matrices as
fast as large ones but is slow at triangular systems (measured: a quarter of the speed at
300 pivots). So a few rows at a time are treated by loops, which are fast along rows, and
everything else is left to products of matrices.
"""

import numpy as np

from asvgp.linalg.blas import gemm, symm, syrk
from asvgp.linalg.inner import copy, inner, segment

FEW = 8  # rows treated by loops
MANY = 128  # pivots inverted together, at most
# Below this many rows a front stays in the second cache and OpenBLAS multiplies without
# copying; its products of whole symmetric matrices only pay above.
SMALL = 256


@inner(error_model="numpy")
def eliminate(panel):
    """Factor the pivots, F_pp = L_pp L_pp^T, and form L_bp.

    Returns the number of the pivot (from 1) that is not positive, or 0.

    Blocks of `FEW` rows are the leaves of a recursion that halves the panel: once 2^n
    blocks are done they change the next 2^n, where n counts the factors two in the number
    of blocks done so far.
    """
    p, m = panel.shape
    first = panel.ctypes.data
    for block in range(1, (p + FEW - 1) // FEW + 1):
        done = block * FEW if block * FEW < p else p
        failed = _eliminate_rows(panel, (block - 1) * FEW, done)
        if failed or done == p:
            return failed
        width = (block & -block) * FEW
        a, c = first + 8 * ((done - width) * m + done), first + 8 * (done * m + done)
        columns = width if width < p - done else p - done
        gemm(False, True, m - done, columns, width, -1, a, m, a, m, 1, c, m)
    return 0


@inner(error_model="numpy", fastmath={"contract"})
def _eliminate_rows(panel, first, stop):
    """Factor some rows which the rows before have been subtracted from: four at a time."""
    m = panel.shape[1]
    for top in range(first, stop, 4):
        end = top + 4 if top + 4 < stop else stop
        for k in range(top, end):
            row = segment(panel, k * m + k, m - k)
            for i in range(top, k):
                above = segment(panel, i * m + k, m - k)
                a0 = above[0]
                for j in range(row.shape[0]):
                    row[j] -= a0 * above[j]
            if not row[0] > 0.0:
                return k + 1
            scale = 1.0 / np.sqrt(row[0])
            for j in range(row.shape[0]):
                row[j] *= scale
        for k in range(end, stop):
            row = segment(panel, k * m + k, m - k)
            at = top * m + k
            a, b = segment(panel, at, m - k), segment(panel, at + m, m - k)
            c, d = segment(panel, at + 2 * m, m - k), segment(panel, at + 3 * m, m - k)
            a0, b0, c0, d0 = a[0], b[0], c[0], d[0]
            for j in range(row.shape[0]):
                row[j] -= a0 * a[j] + b0 * b[j] + c0 * c[j] + d0 * d[j]
    return 0


@inner(error_model="numpy")
def subtract_square(panel, update):
    """Set U := F_bb - L_bp L_bp^T, the upper half (and, of small fronts, a bit more)."""
    p, m = panel.shape
    q = m - p
    if p == 0 or q == 0:
        return
    below, u = panel.ctypes.data + 8 * p, update.ctypes.data
    if q > SMALL:
        syrk(q, p, -1, below, m, 1, u, q)
        return
    for i in range(0, q, 32):
        a, columns = below + 8 * i, 32 if q - i > 32 else q - i
        gemm(False, True, q - i, columns, p, -1, a, m, a, m, 1, u + 8 * (i * q + i), q)


@inner(error_model="numpy")
def invert(panel, z, work):
    """Compute P^-1 on the rows of a front, Z (m, m), of which the boundary's block is there.

    The upper half is used and filled. A few pivots K at a time, from the last, with J all
    the rows behind them,

        T = L_KK^-T,   W = T L_JK^T,   Z_KJ = -W Z_JJ,   Z_KK = T T^T - W Z_KJ^T.

    ``work`` has room for [T, W], which are the solution of one triangular system.
    """
    p, m = panel.shape
    small = m <= SMALL
    few = 32 if small else MANY
    if small:
        mirror(z, p, m)
    for first in range((p - 1) // few * few, -1, -few):
        stop = first + few if first + few < p else p
        w, n, ld = stop - first, m - stop, m - first
        for i in range(w):
            row = segment(work, i * ld, w)
            for j in range(w):
                row[j] = 0.0
            row[i] = 1.0
            copy(panel, (first + i) * m + stop, work, i * ld + w, n)
        back_substitute(panel, first, stop, work)
        t, z_kk = work.ctypes.data, z.ctypes.data + 8 * (first * m + first)
        gemm(True, False, w, w, w, 1, t, ld, t, ld, 0, z_kk, m)
        if n == 0:
            continue
        z_kj, z_jj = z_kk + 8 * w, z.ctypes.data + 8 * (stop * m + stop)
        if small:
            gemm(False, False, n, w, n, -1, z_jj, m, t + 8 * w, ld, 0, z_kj, m)
        else:
            symm(n, w, -1, z_jj, m, t + 8 * w, ld, 0, z_kj, m)
        gemm(True, False, w, w, n, -1, t + 8 * w, ld, z_kj, m, 1, z_kk, m)
        if small:
            mirror(z, first, stop)


@inner(error_model="numpy")
def mirror(z, first, stop):
    """Copy the upper half of some rows to the lower half of the same columns."""
    for i in range(first, stop):
        for j in range(i + 1, len(z)):
            z[j, i] = z[i, j]


@inner(error_model="numpy", fastmath={"contract"})
def back_substitute(panel, first, stop, right):
    """Set B := R^-1 B in place, where R is the upper half of ``panel[first:stop, first:stop]``.

    B begins with ``right``, and its rows are as long as those of the panel from ``first`` on.
    """
    n, m = stop - first, panel.shape[1]
    width = m - first
    upper, b = panel.ctypes.data + 8 * (first * m + first), right.ctypes.data
    for top in range((n - 1) // FEW * FEW, -1, -FEW):
        end = top + FEW if top + FEW < n else n
        if end < n:
            few, rest = end - top, n - end
            known, r, c = b + 8 * end * width, upper + 8 * (top * m + end), b + 8 * top * width
            gemm(False, False, width, few, rest, -1, known, width, r, m, 1, c, width)
        for k in range(end - 1, top - 1, -1):
            row = segment(right, k * width, width)
            for i in range(k + 1, end):
                below, factor = segment(right, i * width, width), panel[first + k, first + i]
                for j in range(width):
                    row[j] -= factor * below[j]
            scale = 1.0 / panel[first + k, first + k]
            for j in range(width):
                row[j] *= scale
