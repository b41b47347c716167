"""Products of global columns, summed over the data: all pairs of smooths in one pass.

The columns come in *groups*: a smooth of one input has cells + k splines, of which a point
sees k + 1 neighbours; a linear column is a group of one. For a batch of points,

=========== ================= ============================================================
``first``   (groups, rows)    the first column of the group that is not zero at a point
``values``  (sum of k + 1,    the values there; rows ``offsets[g]`` to ``offsets[g + 1]``
            rows)             are those of group g
=========== ================= ============================================================

`add_pair` adds one pair of groups over the whole batch, so that the block of the Gram
matrix it writes to (320 kB for two smooths of 200 splines) stays in the cache meanwhile.
"""

import numba
import numpy as np

from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import unrolled

BLOCK = 1024  # points whose polynomials are evaluated together, in the nearest cache


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def spline_values(x, lower, scale, cells, begin, coefficients, start, first, values):
    """Evaluate the splines alive at every point: the first one's column, and the values of all.

    Point i of ``x`` is point ``start + i`` of the batch; the smooth's columns begin at
    ``begin``.
    """
    last = float(cells - 1)
    k = coefficients.shape[0] - 1
    local = np.empty(BLOCK)
    for at in range(0, x.shape[0], BLOCK):
        size = min(BLOCK, x.shape[0] - at)
        for i in range(size):
            t = (x[at + i] - lower) * scale
            c = max(min(np.floor(t), last), 0.0)
            first[start + at + i] = begin + np.int32(c)
            local[i] = t - c
        for j in range(k + 1):  # Horner's rule, all points at once
            out = values[j, start + at : start + at + size]
            out[:] = coefficients[j, k]
            for power in range(k - 1, -1, -1):
                coefficient = coefficients[j, power]
                for i in range(size):
                    out[i] = out[i] * local[i] + coefficient


@for_every_kind
def add_pair(markers, weights, first, values, other_first, other_values, gram):
    """Add ``w c_i c_j`` to the Gram matrix for the columns i of one group, j of another.

    ``markers`` are two tuples as long as the groups have values at a point.
    """
    for p in range(weights.shape[0]):
        row, column = first[p], other_first[p]
        _add_products(markers, p, row, column, weights, values, other_values, gram)


@unrolled
def _add_products(markers, p, row, column, weights, values, other_values, gram):
    rows, columns = map(len, markers)
    right = [other_values[j, p] for j in range(columns)]
    for i in range(rows):
        left = weights[p] * values[i, p]
        for j in range(columns):
            gram[row + i, column + j] += left * right[j]
