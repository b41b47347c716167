"""The prior's chain: its factor, its marginals and their tangents.

Every cell of the prior carries the same element, so away from the ends the recursions
settle to a fixed point (a Riccati equation backwards, a Lyapunov equation forwards). Both
sweeps stop as soon as nothing changes in double precision, and what is a sum over cells
is finished with a prefix sum of the moments: the prior costs a few lengthscales of cells,
whatever M is. Components are independent under the prior, so each has its own chain, with
one innovation a cell: ``gain`` is (cells, k) and ``rho`` (cells,) here. Layout and other
letters: `asvgp.linalg`; a leading axis ``q`` of the tangents
runs over the kernel's hyperparameters.
"""

import numba
import numpy as np

from asvgp.linalg.chain.cell import pull_back, push_forward

# A step that changes less than this, relative to the diagonal, changes nothing: what is
# left to come is at most (lengthscale / h) times more, and far below rounding of K.
_SETTLED = 4.0 * np.finfo(np.float64).eps


@numba.njit(cache=True, nogil=True)
def factor(states, shift, element, d_element, gain, rho, d_gain, d_rho):
    """Eliminate the innovations of ``sum_c element``, with tangents.

    Fills rows ``first ..`` of the outputs, the rows before being equal to row ``first``;
    returns ``first``, the form left on the first state, and its tangents.
    """
    k = len(states)
    parameters = d_element.shape[0]
    carried = np.zeros((k, k))
    d_carried = np.zeros((parameters, k, k))
    half = np.zeros((k, k + 1))
    joint = np.zeros((k + 1, k + 1))
    d_joint = np.zeros((k + 1, k + 1))
    first = 0
    for c in range(rho.shape[0] - 1, -1, -1):
        pull_back(states, (0,), shift, carried, half, joint)
        for i in range(k + 1):
            for j in range(i, k + 1):
                joint[i, j] += element[i, j]
        pivot = joint[k, k]
        rho[c] = pivot
        for i in range(k):
            gain[c, i] = joint[i, k] / pivot
        settled = True
        for i in range(k):
            for j in range(i, k):
                value = joint[i, j] - gain[c, i] * joint[j, k]
                if (value - carried[i, j]) ** 2 > _SETTLED**2 * joint[i, i] * joint[j, j]:
                    settled = False
                carried[i, j] = value
                carried[j, i] = value
        for q in range(parameters):
            pull_back(states, (0,), shift, d_carried[q], half, d_joint)
            for i in range(k + 1):
                for j in range(i, k + 1):
                    d_joint[i, j] += d_element[q, i, j]
            d_pivot = d_joint[k, k]
            d_rho[q, c] = d_pivot
            for i in range(k):
                d_gain[q, c, i] = (d_joint[i, k] - gain[c, i] * d_pivot) / pivot
            for i in range(k):
                for j in range(i, k):
                    value = (
                        d_joint[i, j]
                        - d_joint[i, k] * gain[c, j]
                        - gain[c, i] * d_joint[j, k]
                        + gain[c, i] * gain[c, j] * d_pivot
                    )
                    change = value - d_carried[q, i, j]
                    if change**2 > (8.0 * _SETTLED) ** 2 * joint[i, i] * joint[j, j]:
                        settled = False
                    d_carried[q, i, j] = value
                    d_carried[q, j, i] = value
        if settled:
            first = c
            break
    return first, carried, d_carried


@numba.njit(cache=True, nogil=True)
def marginals(
    states, shift, first, gain, rho, d_gain, d_rho, start, d_start, pair, cumulative, d_trace, cov
):
    """Traces ``tr(K^-1 G)`` and their tangents, and the cell covariances where wanted.

    ``cumulative`` holds the running sums of the moments, a row more than these. Fills
    ``d_trace`` and, where it has a row per cell, ``cov``; returns the trace.
    """
    k = len(states)
    n = cumulative.shape[0] - 1
    parameters = d_gain.shape[0]
    keep = cov.shape[0] > 0
    state = start.copy()
    d_state = d_start.copy()
    following = np.zeros((k, k))
    half = np.zeros((k, k + 1))
    cell = np.zeros((k + 1, k + 1))
    d_cell = np.zeros((parameters, k + 1, k + 1))
    trace = 0.0
    d_trace[:] = 0.0
    c = 0
    while c < n:
        row = max(c, first)
        cell[k, k] = 1.0 / rho[row]
        for i in range(k):
            cross = 0.0
            for j in range(k):
                cell[i, j] = state[i, j]
                cross -= state[i, j] * gain[row, j]
            cell[i, k] = cross
            cell[k, i] = cross
            cell[k, k] -= cross * gain[row, i]
        push_forward(states, (0,), shift, cell, half, following)
        settled = c < first
        for i in range(k):
            for j in range(k):
                change = following[i, j] - state[i, j]
                if change**2 > _SETTLED**2 * state[i, i] * state[j, j]:
                    settled = False
        for q in range(parameters):
            d_cell[q, k, k] = -d_rho[q, row] / rho[row] ** 2
            for i in range(k):
                d_cross = 0.0
                for j in range(k):
                    d_cell[q, i, j] = d_state[q, i, j]
                    d_cross -= d_state[q, i, j] * gain[row, j] + state[i, j] * d_gain[q, row, j]
                d_cell[q, i, k] = d_cross
                d_cell[q, k, i] = d_cross
                d_cell[q, k, k] -= d_cross * gain[row, i] + cell[i, k] * d_gain[q, row, i]
            push_forward(states, (0,), shift, d_cell[q], half, d_state[q])
            for i in range(k):
                for j in range(k):
                    change = d_state[q, i, j] - d_cell[q, i, j]
                    if change**2 > (8.0 * _SETTLED) ** 2 * state[i, i] * state[j, j]:
                        settled = False
        state[:] = following
        # A settled cell stands for all cells up to where the right end makes itself felt.
        after = first if settled else c + 1
        for i in range(k + 1):
            for j in range(k + 1):
                weight = cumulative[after, pair[i, j]] - cumulative[c, pair[i, j]]
                trace += cell[i, j] * weight
                for q in range(parameters):
                    d_trace[q] += d_cell[q, i, j] * weight
        if keep:
            for other in range(c, after):
                cov[other] = cell
        c = after
    return trace
