"""Covariances between linear functionals of a chain, far apart or near. Layout: `asvgp.linalg`.

A functional acts on the coefficients of one cell. Between two cells the chain forgets by
``x_{c+1} = closed_c x_c + ...`` with ``closed_c = shift (I; -gain_c)``, so the covariance
of a functional with everything to its right follows by k x k products.
"""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _advance(degree, shift, gain, vector, scratch):
    """``vector = shift (vector; -gain @ vector)``: a covariance carried to the next knot."""
    k = len(degree)
    innovation = 0.0
    for i in range(k):
        innovation -= gain[i] * vector[i]
    for i in range(k):
        total = shift[i, k] * innovation
        for j in range(i, k):
            total += shift[i, j] * vector[j]
        scratch[i] = total
    for i in range(k):
        vector[i] = scratch[i]


@numba.njit(cache=True, nogil=True)
def add_covariance(degree, shift, first, gain, cell_covariance, cells, weights, sign, out):
    """Add ``sign`` times the covariance matrix of functionals to ``out``.

    ``cells`` (T,) must not decrease; ``weights`` is (T, k + 1); ``cell_covariance`` (T,
    k + 1, k + 1) holds the covariance of each functional's own cell. Rows of ``gain``
    before ``first`` are taken to equal row ``first``.
    """
    k = len(degree)
    size = cells.shape[0]
    # bridges[b] carries a state from the right knot of functional b - 1's cell to b's own.
    bridges = np.zeros((size, k, k))
    scratch = np.zeros(k)
    column = np.zeros(k)
    for b in range(1, size):
        if cells[b] > cells[b - 1]:
            for j in range(k):
                column[:] = 0.0
                column[j] = 1.0
                for c in range(cells[b - 1] + 1, cells[b]):
                    _advance(degree, shift, gain[max(c, first)], column, scratch)
                    if np.abs(column).max() < 1e-200:  # forgotten, and slow to compute with
                        column[:] = 0.0
                        break
                for i in range(k):
                    bridges[b, i, j] = column[i]
    direct = np.zeros(k + 1)
    state = np.zeros(k)
    for a in range(size):
        for i in range(k + 1):
            total = 0.0
            for j in range(k + 1):
                total += cell_covariance[a, i, j] * weights[a, j]
            direct[i] = total
        inside = True
        for b in range(a, size):
            if cells[b] > cells[b - 1] and b > a:
                if inside:
                    for i in range(k):
                        total = 0.0
                        for j in range(i, k + 1):
                            total += shift[i, j] * direct[j]
                        state[i] = total
                    inside = False
                else:
                    _advance(degree, shift, gain[max(cells[b - 1], first)], state, scratch)
                for i in range(k):
                    total = 0.0
                    for j in range(k):
                        total += bridges[b, i, j] * state[j]
                    scratch[i] = total
                for i in range(k):
                    state[i] = scratch[i]
            value = 0.0
            if inside:
                for i in range(k + 1):
                    value += weights[b, i] * direct[i]
            else:
                row = max(cells[b], first)
                for i in range(k):
                    value += (weights[b, i] - weights[b, k] * gain[row, i]) * state[i]
            out[a, b] += sign * value
            if b > a:
                out[b, a] += sign * value
