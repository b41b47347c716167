"""Covariances between linear functionals of a chain, far apart or near. Layout: `asvgp.linalg`.

A functional acts on the coefficients of one cell. Between two cells the chain forgets by
``x_{c+1} = closed_c x_c + ...`` with ``closed_c = shift (I; minus the gains)``, so the
covariance of a functional with everything to its right follows by n x n products.
"""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _complete(states, innovations, gain, vector):
    """Fill in the innovations' part of a covariance from the states' part."""
    n = len(states)
    for e in range(n, n + len(innovations)):
        total = 0.0
        for i in range(e):
            total -= gain[e - n, i] * vector[i]
        vector[e] = total


@numba.njit(cache=True, nogil=True)
def _advance(states, innovations, shift, vector, scratch):
    """Carry a covariance with a cell's coefficients to the state at its right knot."""
    n = len(states)
    for i in range(n):
        total = 0.0
        for j in range(n + len(innovations)):
            total += shift[i, j] * vector[j]
        scratch[i] = total
    for i in range(n):
        vector[i] = scratch[i]


@numba.njit(cache=True, nogil=True)
def add_covariance(
    states, innovations, shift, first, gain, cell_covariance, cells, weights, sign, out
):
    """Add ``sign`` times the covariance matrix of functionals to ``out``.

    ``cells`` (T,) must not decrease; ``weights`` is (T, n + S); ``cell_covariance`` (T,
    n + S, n + S) holds the covariance of each functional's own cell. Rows of ``gain``
    before ``first`` are taken to equal row ``first``.
    """
    n = len(states)
    width = n + len(innovations)
    count = cells.shape[0]
    # bridges[b] carries a state from the right knot of functional b - 1's cell to b's own.
    bridges = np.zeros((count, n, n))
    scratch = np.zeros(n)
    vector = np.zeros(width)
    for b in range(1, count):
        if cells[b] > cells[b - 1]:
            for j in range(n):
                vector[:] = 0.0
                vector[j] = 1.0
                for c in range(cells[b - 1] + 1, cells[b]):
                    _complete(states, innovations, gain[max(c, first)], vector)
                    _advance(states, innovations, shift, vector, scratch)
                    if np.abs(vector[:n]).max() < 1e-200:  # forgotten, and slow to compute with
                        vector[:] = 0.0
                        break
                for i in range(n):
                    bridges[b, i, j] = vector[i]
    for a in range(count):
        for i in range(width):
            total = 0.0
            for j in range(width):
                total += cell_covariance[a, i, j] * weights[a, j]
            vector[i] = total
        for b in range(a, count):
            if b > a and cells[b] > cells[b - 1]:
                _advance(states, innovations, shift, vector, scratch)
                for i in range(n):
                    total = 0.0
                    for j in range(n):
                        total += bridges[b, i, j] * vector[j]
                    scratch[i] = total
                for i in range(n):
                    vector[i] = scratch[i]
                _complete(states, innovations, gain[max(cells[b], first)], vector)
            value = 0.0
            for i in range(width):
                value += weights[b, i] * vector[i]
            out[a, b] += sign * value
            if b > a:
                out[b, a] += sign * value
