"""Square-root elimination of a chain of cells: QR where plain elimination loses digits.

The same results as `asvgp.linalg.chain.elimination`, from factors of the quadratic forms rather
than the forms themselves: each cell stacks a root of what is carried, a root of the
prior's element and a root of its data, and Householder reflections triangularise the
stack. The error depends on the rows, not on their squares, so noise at 1e-20 of the
signal beside cells without data is no difficulty. Rows of very different size keep their
digits because every reflection pivots on the largest entry of its column.
Layout and letters: `asvgp.linalg`.
"""

import numba
import numpy as np

# Below this fraction of a monomial's own moment, what the other monomials leave unexplained
# is rounding of the sums, not information: points nearer than 1e-6 cells count as one.
RANK_TOLERANCE = 1e-12


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangularise(work, rows, columns):
    """Reflect ``work[:rows]`` in place until its first ``columns`` are upper triangular."""
    width = work.shape[1]
    for j in range(min(rows, columns)):
        largest = j
        for r in range(j + 1, rows):
            if abs(work[r, j]) > abs(work[largest, j]):
                largest = r
        if work[largest, j] == 0.0:
            continue
        if largest != j:
            for c in range(j, width):
                work[j, c], work[largest, c] = work[largest, c], work[j, c]
        head = work[j, j]
        inverse = 1.0 / head
        square = 0.0
        for r in range(j + 1, rows):
            work[r, j] *= inverse
            square += work[r, j] * work[r, j]
        norm = np.sqrt(1.0 + square)
        # Reflector v = (1 + norm, ratios), tau = 1 / (norm (1 + norm)).
        tau = 1.0 / (norm * (1.0 + norm))
        for c in range(j + 1, width):
            product = (1.0 + norm) * work[j, c]
            for r in range(j + 1, rows):
                product += work[r, j] * work[r, c]
            product *= tau
            work[j, c] -= product * (1.0 + norm)
            for r in range(j + 1, rows):
                work[r, c] -= product * work[r, j]
        work[j, j] = -head * norm
        for r in range(j + 1, rows):
            work[r, j] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def data_roots(pair, moments, targets, tolerance, roots, scores):
    """Per cell, ``roots' roots = G`` and ``roots' scores = targets``.

    A Cholesky factorisation with pivoting on the relative size of what is left, stopped
    where that is rounding: a cell with one distinct x has one row.
    """
    n = moments.shape[0]
    size = roots.shape[2]
    outputs = targets.shape[0]
    left = np.empty((size, size))
    order = np.empty(size, np.int64)
    for c in range(n):
        for i in range(size):
            order[i] = i
            for j in range(size):
                left[i, j] = moments[c, pair[i, j]]
                roots[c, i, j] = 0.0
        for step in range(size):
            best = -1
            best_ratio = tolerance
            for r in range(step, size):
                i = order[r]
                own = moments[c, pair[i, i]]
                if own > 0.0 and left[i, i] > best_ratio * own:
                    best_ratio = left[i, i] / own
                    best = r
            for p in range(outputs):
                scores[p, c, step] = 0.0
            if best < 0:
                continue
            order[step], order[best] = order[best], order[step]
            pivot = order[step]
            root = np.sqrt(left[pivot, pivot])
            for r in range(step, size):
                roots[c, step, order[r]] = left[pivot, order[r]] / root
            for r in range(step + 1, size):
                for s in range(step + 1, size):
                    i, j = order[r], order[s]
                    left[i, j] -= roots[c, step, i] * roots[c, step, j]
            for p in range(outputs):
                total = targets[p, c, pivot]
                for r in range(step):
                    total -= roots[c, r, pivot] * scores[p, c, r]
                scores[p, c, step] = total / root


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factor(shift, power, element_root, roots, scores, scale, gain, rho, offset):
    """Eliminate the innovations of prior element plus data, right-hand sides included.

    ``element_root`` is (rows, n + S); ``scale`` is the square root of the noise precision.
    Fills ``gain``, ``rho`` and ``offset`` (outputs, cells, S); returns an (n, n + outputs)
    array, the root of the form that is left on the first state beside its right-hand
    sides, and the explained part of ``b' P^-1 b`` per output.
    """
    n, size = shift.shape
    s = size - n
    outputs = scores.shape[0]
    degree = roots.shape[1]
    inner = element_root.shape[0]
    rows = n + inner + degree
    work = np.zeros((rows, size + outputs))
    carried = np.zeros((n, n + outputs))
    explained = np.zeros(outputs)
    # Columns in the order of elimination: the last innovation first, the state last.
    column = np.empty(size, np.int64)
    for i in range(size):
        column[i] = s + i if i < n else size - 1 - i
    for c in range(rho.shape[0] - 1, -1, -1):
        for r in range(n):
            for j in range(size):
                total = 0.0
                for m in range(n):
                    total += carried[r, m] * shift[m, j]
                work[r, column[j]] = total
            for p in range(outputs):
                work[r, size + p] = carried[r, n + p]
        for r in range(inner):
            for j in range(size):
                work[n + r, column[j]] = element_root[r, j]
            for p in range(outputs):
                work[n + r, size + p] = 0.0
        for r in range(degree):
            for j in range(size):
                work[n + inner + r, column[j]] = scale * roots[c, r, power[j]]
            for p in range(outputs):
                work[n + inner + r, size + p] = scale * scores[p, c, r]
        triangularise(work, rows, size)
        for e in range(s):
            row = s - 1 - e
            head = work[row, row]
            rho[c, e] = head * head
            for i in range(n + e):
                gain[c, e, i] = work[row, column[i]] / head
            for p in range(outputs):
                value = work[row, size + p]
                offset[p, c, e] = value / head
                explained[p] += value * value
        for r in range(n):
            for j in range(n + outputs):
                carried[r, j] = work[s + r, s + j]
    return carried, explained


@numba.njit(cache=True, nogil=True, error_model="numpy")
def marginals(shift, pair, gain, rho, moments, start, total, cov):
    """`asvgp.linalg.chain.elimination.marginals`, propagating a root of the covariance.

    ``start`` is a root of the first state's covariance, ``start @ start.T``.
    """
    n, size = shift.shape
    keep = cov.shape[0] > 0
    root = start.copy()
    cell_root = np.zeros((size, size))
    cell = np.zeros((size, size))
    work = np.zeros((size, n))
    trace = 0.0
    for c in range(rho.shape[0]):
        for i in range(n):
            for j in range(n):
                cell_root[i, j] = root[i, j]
        for e in range(n, size):
            for j in range(e):
                below = 0.0
                for i in range(e):
                    below -= gain[c, e - n, i] * cell_root[i, j]
                cell_root[e, j] = below
            cell_root[e, e] = 1.0 / np.sqrt(rho[c, e - n])
        for i in range(size):
            for j in range(i, size):
                value = 0.0
                for m in range(size):
                    value += cell_root[i, m] * cell_root[j, m]
                cell[i, j] = value
                cell[j, i] = value
        for i in range(size):
            for j in range(size):
                trace += cell[i, j] * moments[c, pair[i, j]]
                total[i, j] += cell[i, j]
                if keep:
                    cov[c, i, j] = cell[i, j]
        for i in range(n):
            for j in range(size):
                value = 0.0
                for m in range(size):
                    value += shift[i, m] * cell_root[m, j]
                work[j, i] = value
        triangularise(work, size, n)
        for i in range(n):
            for j in range(n):
                root[i, j] = work[j, i]
    return trace
