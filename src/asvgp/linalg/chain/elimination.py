"""Plain block elimination of a chain of cells: factor, solve, mean, marginals.

The arithmetic of a Cholesky factorisation, one cell at a time. Exact for the prior; for
the posterior its error grows with the information the data carry relative to the prior,
and `asvgp.linalg.chain.square_root` takes over where that matters (`asvgp.model.elimination`
chooses). Layout and letters: `asvgp.linalg`. What happens in a cell is straight-line code
(`asvgp.linalg.unrolled`).
"""

import numba
import numpy as np

from asvgp.basis import Array
from asvgp.linalg.chain.cell import cell_of, mirror, pull_back, push_forward
from asvgp.linalg.unrolled import Markers, unrolled


def factor(
    markers: Markers,
    pair: Array,
    element: Array,
    moments: Array,
    precision: float,
    gain: Array,
    rho: Array,
) -> Array:
    """Eliminate the innovations of ``sum_c element + precision * G_c``.

    Fills ``gain`` and ``rho`` and returns the (n, n) quadratic form that is left on the
    state at the first knot, so that for every spline

        sum_c v_c' (element + precision * G_c) v_c
            = x_0' C x_0 + sum_{c, i} rho_ci (e_ci + gain_ci @ (x_c, e_c1, ..., e_c,i-1))**2.
    """
    n = sum(map(len, markers))
    carried = np.zeros((n, n))
    _factor(markers, pair, element, moments, precision, gain, rho, carried)
    return carried


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _factor(markers, pair, element, moments, precision, gain, rho, carried):
    for c in range(rho.shape[0] - 1, -1, -1):
        _factor_cell(markers, c, pair, element, moments, precision, gain, rho, carried)


@unrolled
def _factor_cell(markers, c, pair, element, moments, precision, gain, rho, carried):
    cell = cell_of(markers)
    n = cell.n
    joint = pull_back(cell, carried)
    for i, j in cell.upper:
        joint[i, j] += element[i, j] + precision * moments[c, pair[i, j]]
    for e in range(cell.size - 1, n - 1, -1):
        rho[c, e - n] = joint[e, e]
        inverse = 1.0 / joint[e, e]
        for i in range(e):
            ratio = joint[i, e] * inverse
            gain[c, e - n, i] = ratio
            for j in range(i, e):
                joint[i, j] -= ratio * joint[j, e]
    for i, j in cell.upper_states:
        carried[i, j] = joint[i, j]
        carried[j, i] = joint[i, j]


def solve(
    markers: Markers,
    power: Array,
    targets: Array,
    precision: float,
    gain: Array,
    rho: Array,
    offset: Array,
) -> tuple[Array, float]:
    """Eliminate the innovations from the right-hand side ``precision * targets``.

    Fills ``offset`` and returns what is left on the first state and the part of
    ``b' P^-1 b`` that the innovations explain.
    """
    carried = np.zeros(sum(map(len, markers)))
    return carried, _solve(markers, power, targets, precision, gain, rho, offset, carried)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _solve(markers, power, targets, precision, gain, rho, offset, carried):
    explained = 0.0
    for c in range(rho.shape[0] - 1, -1, -1):
        explained += _solve_cell(markers, c, power, targets, precision, gain, rho, offset, carried)
    return explained


@unrolled
def _solve_cell(markers, c, power, targets, precision, gain, rho, offset, carried) -> float:
    cell = cell_of(markers)
    n, explained = cell.n, 0.0
    joint = [precision * targets[c, power[i]] for i in range(cell.size)]
    for m, row in enumerate(cell.shift):
        for i, entry in row.items():
            joint[i] += entry * carried[m]
    for e in range(cell.size - 1, n - 1, -1):
        value = joint[e] / rho[c, e - n]
        offset[c, e - n] = value
        explained += joint[e] * value
        for i in range(e):
            joint[i] -= gain[c, e - n, i] * joint[e]
    for i in range(n):
        carried[i] = joint[i]
    return explained


def means(
    markers: Markers, gain: Array, offset: Array, start: Array, total: Array, coef: Array
) -> None:
    """Run the chain forward from the state ``start`` at the first knot into ``coef``.

    Adds the sum of the outer products ``v_c v_c'`` to ``total``. ``coef`` is filled where
    it has a row per cell.
    """
    rows = coef if len(coef) else np.empty((1, len(total)))
    _means(markers, gain, offset, start.copy(), total, rows)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _means(markers, gain, offset, state, total, coef):
    keep = coef.shape[0] == gain.shape[0]
    for c in range(gain.shape[0]):
        _means_cell(markers, c, c if keep else 0, gain, offset, state, total, coef)
    mirror(markers, total)


@unrolled
def _means_cell(markers, c, row, gain, offset, state, total, coef):
    cell = cell_of(markers)
    n = cell.n
    values = [state[i] for i in range(n)]
    for e in range(n, cell.size):
        innovation = offset[c, e - n]
        for i in range(e):
            innovation -= gain[c, e - n, i] * values[i]
        values.append(innovation)
    for i, j in cell.upper:
        total[i, j] += values[i] * values[j]
    for i in range(cell.size):
        coef[row, i] = values[i]
    for i, entries in enumerate(cell.shift):
        state[i] = sum(entry * values[j] for j, entry in entries.items())


def marginals(
    markers: Markers,
    pair: Array,
    gain: Array,
    rho: Array,
    moments: Array,
    start: Array,
    total: Array,
    cov: Array,
) -> float:
    """Compute the covariance of every cell's coefficients from that of the first state.

    Adds the sum of the cell covariances to ``total`` and returns its trace against the
    data, ``tr(P^-1 G)``. ``cov`` is filled where it has a row per cell.
    """
    kept = cov if len(cov) else np.empty((1, *total.shape))
    return _marginals(markers, pair, gain, rho, moments, start.copy(), total, kept)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _marginals(markers, pair, gain, rho, moments, state, total, cov):
    keep = cov.shape[0] == rho.shape[0]
    trace = 0.0
    for c in range(rho.shape[0]):
        row = c if keep else 0
        trace += _marginals_cell(markers, c, row, pair, gain, rho, moments, state, total, cov)
    mirror(markers, total)
    return trace


@unrolled
def _marginals_cell(markers, c, row, pair, gain, rho, moments, state, total, cov) -> float:
    cell = cell_of(markers)
    n, trace = cell.n, 0.0
    covariance = {place: state[place] for place in cell.upper_states}
    for e in range(n, cell.size):
        variance = 1.0 / rho[c, e - n]
        for i in range(e):
            cross = 0.0
            for j in range(e):
                cross -= covariance[min(i, j), max(i, j)] * gain[c, e - n, j]
            covariance[i, e] = cross
            variance -= cross * gain[c, e - n, i]
        covariance[e, e] = variance
    for i, j in cell.upper:
        value = covariance[i, j]
        trace += (value if i == j else 2.0 * value) * moments[c, pair[i, j]]
        total[i, j] += value
        cov[row, i, j] = value
        cov[row, j, i] = value
    for place, value in push_forward(cell, covariance).items():
        state[place] = value
    return trace
