"""Plain block elimination of a chain of cells: factor, solve, mean, marginals.

The arithmetic of a Cholesky factorisation, one cell at a time. Exact for the prior; for
the posterior its error grows with the information the data carry relative to the prior,
and `asvgp.linalg.chain.square_root` takes over where that matters (`asvgp.model.elimination`
chooses). Layout and letters: `asvgp.linalg`. What happens in a cell is straight-line code
(`asvgp.linalg.unrolled`).
"""

import numba

from asvgp.linalg.chain.cell import (
    cell_of,
    complete,
    mirror,
    pull_back,
    push_forward,
    shift_forward,
)
from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import unrolled


@for_every_kind
def factor(markers, pair, element, moments, precision, gain, rho, carried):
    """Eliminate the innovations of ``sum_c element + precision * G_c``.

    Fills ``gain`` and ``rho``. ``carried`` (n, n), zero at first, becomes the quadratic form C
    that is left on the state at the first knot, so that for every spline

        sum_c v_c' (element + precision * G_c) v_c
            = x_0' C x_0 + sum_{c, i} rho_ci (e_ci + gain_ci @ (x_c, e_c1, ..., e_c,i-1))**2.
    """
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


@for_every_kind
def solve(markers, power, targets, precision, gain, rho, offset, carried):
    """Eliminate the innovations from the right-hand side ``precision * targets``.

    Fills ``offset``. ``carried`` (n,), zero at first, becomes what is left on the first state.
    Returns the part of ``b' P^-1 b`` that the innovations explain.
    """
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


@for_every_kind
def means(markers, gain, offset, state, total, coef):
    """Run the chain forward from the ``state`` at the first knot, which is overwritten.

    Adds the sum of the outer products ``v_c v_c'`` to ``total``. ``coef`` is filled where it
    has a row per cell; otherwise it has one row, for all of them in turn.
    """
    keep = coef.shape[0] == gain.shape[0]
    for c in range(gain.shape[0]):
        _means_cell(markers, c, c if keep else 0, gain, offset, state, total, coef)
    mirror(markers, total)


@unrolled
def _means_cell(markers, c, row, gain, offset, state, total, coef):
    cell = cell_of(markers)
    offsets = [offset[c, e] for e in range(cell.size - cell.n)]
    values = complete(cell, gain, c, [state[i] for i in range(cell.n)], offsets)
    for i, j in cell.upper:
        total[i, j] += values[i] * values[j]
    for i in range(cell.size):
        coef[row, i] = values[i]
    for i, value in enumerate(shift_forward(cell, values)):
        state[i] = value


@numba.njit(cache=True, nogil=True, error_model="numpy")
def data_form(pair, moments, coef):
    """Return ``v' G v`` for coefficients v of all cells, as `means` keeps them."""
    total, size = 0.0, coef.shape[1]
    for c in range(coef.shape[0]):
        if moments[c, 0] == 0.0:
            continue
        for i in range(size):
            product = 0.5 * moments[c, pair[i, i]] * coef[c, i]
            for j in range(i + 1, size):
                product += moments[c, pair[i, j]] * coef[c, j]
            total += 2.0 * product * coef[c, i]
    return total


@for_every_kind
def marginals(markers, pair, gain, rho, moments, state, total, cov):
    """Compute the covariance of every cell's coefficients from that of the first state.

    Adds the sum of the cell covariances to ``total`` and returns its trace against the data,
    ``tr(P^-1 G)``. ``state`` is overwritten; ``cov`` as ``coef`` in `means`.
    """
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
