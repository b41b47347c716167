"""Plain block elimination of a chain of cells: factor, solve, mean, marginals.

The arithmetic of a Cholesky factorisation, one cell at a time. Exact for the prior; for
the posterior its error grows with the information the data carry relative to the prior,
and `asvgp.linalg.square_root` takes over where that matters (`asvgp.inference.elimination`
chooses). Layout and letters: `asvgp.linalg`.
"""

import numba
import numpy as np

from asvgp.linalg.cell import mirror, pull_back, push_forward


@numba.njit(cache=True, nogil=True)
def factor(degree, shift, element, moments, precision, gain, rho):
    """Eliminate the innovations of ``sum_c element + precision * Hankel(moments_c)``.

    Fills ``gain`` and ``rho`` and returns the (k, k) quadratic form that is left on the
    state at the first knot, so that for every spline

        sum_c v_c' (element + precision * Hankel_c) v_c
            = x_0' C x_0 + sum_c rho_c (e_c + gain_c @ x_c)**2.
    """
    k = len(degree)
    carried = np.zeros((k, k))
    half = np.zeros((k, k + 1))
    joint = np.zeros((k + 1, k + 1))
    for c in range(rho.shape[0] - 1, -1, -1):
        pull_back(degree, shift, carried, half, joint)
        for i in range(k + 1):
            for j in range(i, k + 1):
                joint[i, j] += element[i, j] + precision * moments[c, i + j]
        rho[c] = joint[k, k]
        inverse = 1.0 / joint[k, k]
        for i in range(k):
            gain[c, i] = joint[i, k] * inverse
        for i in range(k):
            for j in range(i, k):
                value = joint[i, j] - gain[c, i] * joint[j, k]
                carried[i, j] = value
                carried[j, i] = value
    return carried


@numba.njit(cache=True, nogil=True)
def solve(degree, shift, targets, precision, gain, rho, offset):
    """Eliminate the innovations from the right-hand side ``precision * targets``.

    Fills ``offset`` and returns what is left on the first state and the part of
    ``b' P^-1 b`` that the innovations explain.
    """
    k = len(degree)
    carried = np.zeros(k)
    joint = np.zeros(k + 1)
    explained = 0.0
    for c in range(rho.shape[0] - 1, -1, -1):
        for i in range(k + 1):
            total = precision * targets[c, i]
            for m in range(min(i + 1, k)):
                total += shift[m, i] * carried[m]
            joint[i] = total
        offset[c] = joint[k] / rho[c]
        explained += joint[k] * offset[c]
        for i in range(k):
            carried[i] = joint[i] - gain[c, i] * joint[k]
    return carried, explained


@numba.njit(cache=True, nogil=True)
def means(degree, shift, gain, offset, start, total, coef):
    """Run the chain forward from the state ``start`` at the first knot into ``coef``.

    Adds the sum of the outer products ``v_c v_c'`` to ``total``. ``coef`` is filled where
    it has a row per cell.
    """
    k = len(degree)
    keep = coef.shape[0] > 0
    state = start.copy()
    cell = np.zeros(k + 1)
    for c in range(gain.shape[0]):
        innovation = offset[c]
        for i in range(k):
            cell[i] = state[i]
            innovation -= gain[c, i] * state[i]
        cell[k] = innovation
        for i in range(k + 1):
            for j in range(i, k + 1):
                total[i, j] += cell[i] * cell[j]
            if keep:
                coef[c, i] = cell[i]
        for i in range(k):
            value = 0.0
            for j in range(i, k + 1):
                value += shift[i, j] * cell[j]
            state[i] = value
    mirror(total)


@numba.njit(cache=True, nogil=True)
def marginals(degree, shift, gain, rho, moments, start, total, cov):
    """Covariance of every cell's coefficients, from the covariance of the first state.

    Adds the sum of the cell covariances to ``total`` and returns its trace against the
    data, ``tr(P^-1 G)``. ``cov`` is filled where it has a row per cell.
    """
    k = len(degree)
    keep = cov.shape[0] > 0
    state = start.copy()
    cell = np.zeros((k + 1, k + 1))
    half = np.zeros((k, k + 1))
    trace = 0.0
    for c in range(rho.shape[0]):
        variance = 1.0 / rho[c]
        for i in range(k):
            cross = 0.0
            for j in range(k):
                cell[i, j] = state[i, j]
                cross -= state[i, j] * gain[c, j]
            cell[i, k] = cross
            cell[k, i] = cross
            variance -= cross * gain[c, i]
        cell[k, k] = variance
        for i in range(k + 1):
            trace += cell[i, i] * moments[c, 2 * i]
            total[i, i] += cell[i, i]
            for j in range(i + 1, k + 1):
                trace += 2.0 * cell[i, j] * moments[c, i + j]
                total[i, j] += cell[i, j]
        if keep:
            for i in range(k + 1):
                for j in range(k + 1):
                    cov[c, i, j] = cell[i, j]
        push_forward(degree, shift, cell, half, state)
    mirror(total)
    return trace
