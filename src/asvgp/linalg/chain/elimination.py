"""Plain block elimination of a chain of cells: factor, solve, mean, marginals.

The arithmetic of a Cholesky factorisation, one cell at a time. Exact for the prior; for
the posterior its error grows with the information the data carry relative to the prior,
and `asvgp.linalg.chain.square_root` takes over where that matters (`asvgp.model.elimination`
chooses). Layout and letters: `asvgp.linalg`.
"""

import numba
import numpy as np

from asvgp.linalg.chain.cell import mirror, pull_back, push_forward


@numba.njit(cache=True, nogil=True)
def factor(states, innovations, shift, pair, element, moments, precision, gain, rho):
    """Eliminate the innovations of ``sum_c element + precision * G_c``.

    Fills ``gain`` and ``rho`` and returns the (n, n) quadratic form that is left on the
    state at the first knot, so that for every spline

        sum_c v_c' (element + precision * G_c) v_c
            = x_0' C x_0 + sum_{c, i} rho_ci (e_ci + gain_ci @ (x_c, e_c1, ..., e_c,i-1))**2.
    """
    n = len(states)
    size = n + len(innovations)
    carried = np.zeros((n, n))
    half = np.zeros((n, size))
    joint = np.zeros((size, size))
    for c in range(rho.shape[0] - 1, -1, -1):
        pull_back(states, innovations, shift, carried, half, joint)
        for i in range(size):
            for j in range(i, size):
                joint[i, j] += element[i, j] + precision * moments[c, pair[i, j]]
        for e in range(size - 1, n - 1, -1):
            rho[c, e - n] = joint[e, e]
            inverse = 1.0 / joint[e, e]
            for i in range(e):
                gain[c, e - n, i] = joint[i, e] * inverse
            for i in range(e):
                for j in range(i, e):
                    joint[i, j] -= gain[c, e - n, i] * joint[j, e]
        for i in range(n):
            for j in range(i, n):
                carried[i, j] = joint[i, j]
                carried[j, i] = joint[i, j]
    return carried


@numba.njit(cache=True, nogil=True)
def solve(states, innovations, shift, power, targets, precision, gain, rho, offset):
    """Eliminate the innovations from the right-hand side ``precision * targets``.

    Fills ``offset`` and returns what is left on the first state and the part of
    ``b' P^-1 b`` that the innovations explain.
    """
    n = len(states)
    size = n + len(innovations)
    carried = np.zeros(n)
    joint = np.zeros(size)
    explained = 0.0
    for c in range(rho.shape[0] - 1, -1, -1):
        for i in range(size):
            total = precision * targets[c, power[i]]
            for m in range(n):
                total += shift[m, i] * carried[m]
            joint[i] = total
        for e in range(size - 1, n - 1, -1):
            offset[c, e - n] = joint[e] / rho[c, e - n]
            explained += joint[e] * offset[c, e - n]
            for i in range(e):
                joint[i] -= gain[c, e - n, i] * joint[e]
        for i in range(n):
            carried[i] = joint[i]
    return carried, explained


@numba.njit(cache=True, nogil=True)
def means(states, innovations, shift, gain, offset, start, total, coef):
    """Run the chain forward from the state ``start`` at the first knot into ``coef``.

    Adds the sum of the outer products ``v_c v_c'`` to ``total``. ``coef`` is filled where
    it has a row per cell.
    """
    n = len(states)
    size = n + len(innovations)
    keep = coef.shape[0] > 0
    cell = np.zeros(size)
    state = start.copy()
    for c in range(gain.shape[0]):
        for i in range(n):
            cell[i] = state[i]
        for e in range(n, size):
            innovation = offset[c, e - n]
            for i in range(e):
                innovation -= gain[c, e - n, i] * cell[i]
            cell[e] = innovation
        for i in range(size):
            for j in range(i, size):
                total[i, j] += cell[i] * cell[j]
            if keep:
                coef[c, i] = cell[i]
        for i in range(n):
            value = 0.0
            for j in range(size):
                value += shift[i, j] * cell[j]
            state[i] = value
    mirror(total)


@numba.njit(cache=True, nogil=True)
def marginals(states, innovations, shift, pair, gain, rho, moments, start, total, cov):
    """Covariance of every cell's coefficients, from the covariance of the first state.

    Adds the sum of the cell covariances to ``total`` and returns its trace against the
    data, ``tr(P^-1 G)``. ``cov`` is filled where it has a row per cell.
    """
    n = len(states)
    size = n + len(innovations)
    keep = cov.shape[0] > 0
    state = start.copy()
    cell = np.zeros((size, size))
    half = np.zeros((n, size))
    trace = 0.0
    for c in range(rho.shape[0]):
        for i in range(n):
            for j in range(n):
                cell[i, j] = state[i, j]
        for e in range(n, size):
            variance = 1.0 / rho[c, e - n]
            for i in range(e):
                cross = 0.0
                for j in range(e):
                    cross -= cell[i, j] * gain[c, e - n, j]
                cell[i, e] = cross
                cell[e, i] = cross
                variance -= cross * gain[c, e - n, i]
            cell[e, e] = variance
        for i in range(size):
            trace += cell[i, i] * moments[c, pair[i, i]]
            total[i, i] += cell[i, i]
            for j in range(i + 1, size):
                trace += 2.0 * cell[i, j] * moments[c, pair[i, j]]
                total[i, j] += cell[i, j]
        if keep:
            for i in range(size):
                for j in range(size):
                    cov[c, i, j] = cell[i, j]
        push_forward(states, innovations, shift, cell, half, state)
    mirror(total)
    return trace
