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

from asvgp.linalg.chain.cell import cell_of, mirror
from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import choose, magnitude, square_root, unrolled

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
    """Find per cell ``roots' roots = G`` and ``roots' scores = targets``.

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
def factor(
    shift, power, element_root, roots, scores, scale, work, gain, rho, offset, carried, explained
):
    """Eliminate the innovations of prior element plus data, right-hand sides included.

    ``shift``, ``power`` and ``element_root`` (rows, n + S) have their columns in the order of
    elimination, the last innovation first and the state last; ``scale`` is the square root of
    the noise precision, ``work`` (n + rows + k + 1, n + S + outputs) scratch; rows of data that
    are zero are left out. Fills ``gain``,
    ``rho`` and ``offset`` (outputs, cells, S). ``carried`` and ``explained`` (outputs,), zero at
    first, become the root of the form that is left on the first state beside its right-hand
    sides, and the explained part of ``b' P^-1 b``.
    """
    n, size = shift.shape
    s, outputs, degree = size - n, scores.shape[0], roots.shape[1]
    inner = element_root.shape[0]
    for c in range(rho.shape[0] - 1, -1, -1):
        for r in range(n):
            for j in range(size):
                total = 0.0
                for m in range(n):
                    total += carried[r, m] * shift[m, j]
                work[r, j] = total
            for p in range(outputs):
                work[r, size + p] = carried[r, n + p]
        for r in range(inner):
            for j in range(size):
                work[n + r, j] = element_root[r, j]
            for p in range(outputs):
                work[n + r, size + p] = 0.0
        rows = n + inner
        for r in range(degree):
            if not roots[c, r].any():  # `data_roots` leaves none after it
                break
            for j in range(size):
                work[rows, j] = scale * roots[c, r, power[j]]
            for p in range(outputs):
                work[rows, size + p] = scale * scores[p, c, r]
            rows += 1
        triangularise(work, rows, size)
        for e in range(s):
            row = s - 1 - e
            head = work[row, row]
            rho[c, e] = head * head
            for i in range(n + e):
                gain[c, e, i] = work[row, s + i if i < n else size - 1 - i] / head
            for p in range(outputs):
                value = work[row, size + p]
                offset[p, c, e] = value / head
                explained[p] += value * value
        for r in range(n):
            for j in range(n + outputs):
                carried[r, j] = work[s + r, s + j]


@for_every_kind
def marginals(markers, pair, gain, deviations, moments, root, total, cov):
    """Compute what `asvgp.linalg.chain.elimination.marginals` does from a root of the covariance.

    ``root`` is that of the first state, ``root @ root.T``, and is overwritten; ``deviations``
    are ``rho**-0.5``.
    """
    keep = cov.shape[0] == deviations.shape[0]
    trace = 0.0
    for c in range(deviations.shape[0]):
        row = c if keep else 0
        trace += _marginals_cell(markers, c, row, pair, gain, deviations, moments, root, total, cov)
    mirror(markers, total)
    return trace


@unrolled
def _marginals_cell(markers, c, row, pair, gain, deviations, moments, root, total, cov) -> float:
    cell = cell_of(markers)
    n, trace = cell.n, 0.0
    roots = [[root[i, j] for j in range(n)] for i in range(n)]
    for e in range(n, cell.size):
        below = [0.0] * e
        for i in range(e):
            for j, value in enumerate(roots[i]):
                below[j] -= gain[c, e - n, i] * value
        roots.append([*below, deviations[c, e - n]])
    for i, j in cell.upper:
        value = sum(left * right for left, right in zip(roots[i], roots[j], strict=False))
        trace += (value if i == j else 2.0 * value) * moments[c, pair[i, j]]
        total[i, j] += value
        cov[row, i, j] = value
        cov[row, j, i] = value
    work = [[0.0] * n for _ in range(cell.size)]
    for i, entries in enumerate(cell.shift):
        for m, entry in entries.items():
            for j, value in enumerate(roots[m]):
                work[j][i] += entry * value
    _reflect(work, n)
    for i in range(n):
        for j in range(n):
            root[i, j] = work[j][i]
    return trace


def _reflect(work: list[list], columns: int) -> None:
    """Do what `triangularise` does, rows exchanged by turns until the largest is first."""
    for j in range(columns):
        for r in range(j + 1, len(work)):
            left, right = magnitude(work[r][j]), magnitude(work[j][j])
            for c in range(j, columns):
                here, there = work[j][c], work[r][c]
                work[j][c] = choose(left, right, there, here)
                work[r][c] = choose(left, right, here, there)
        head = work[j][j]
        inverse = choose(magnitude(head), 0.0, 1.0 / choose(magnitude(head), 0.0, head, 1.0), 0.0)
        ratios = [work[r][j] * inverse for r in range(j + 1, len(work))]
        norm = square_root(1.0 + sum(ratio * ratio for ratio in ratios))
        tau = 1.0 / (norm * (1.0 + norm))
        for c in range(j + 1, columns):
            product = (1.0 + norm) * work[j][c]
            for r, ratio in enumerate(ratios, j + 1):
                product += ratio * work[r][c]
            product *= tau
            work[j][c] -= product * (1.0 + norm)
            for r, ratio in enumerate(ratios, j + 1):
                work[r][c] -= product * ratio
        work[j][j] = 0.0 - head * norm
        for r in range(j + 1, len(work)):
            work[r][j] = 0.0
