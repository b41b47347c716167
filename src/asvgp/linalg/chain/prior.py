"""The prior's chain: its factor, its marginals and their tangents.

Every cell of the prior carries the same element, so away from the ends the recursions
settle to a fixed point (a Riccati equation backwards, a Lyapunov equation forwards). Both
sweeps stop as soon as nothing changes in double precision, and what is a sum over cells
is finished with a prefix sum of the moments: the prior costs a few lengthscales of cells,
whatever M is. Components are independent under the prior, so each has its own chain, with
one innovation per cell: ``gain`` is (cells, k) and ``rho`` (cells,) here. Layout and other
letters: `asvgp.linalg`; a leading axis ``q`` of the tangents
runs over the kernel's hyperparameters.
"""

import numpy as np

from asvgp.linalg.chain.cell import cell_of, pull_back, push_forward
from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import maximum, unrolled

# A step that changes less than this, relative to the diagonal, changes nothing: what is
# left to come is at most (lengthscale / h) times more, and far below rounding of K.
_SETTLED = (4.0 * np.finfo(np.float64).eps) ** 2
_TANGENT_SETTLED = 8.0**2 * _SETTLED


@for_every_kind
def factor(markers, element, d_element, gain, rho, d_gain, d_rho, carried, d_carried, scale):
    """Eliminate the innovations of ``sum_c element``, with tangents.

    Fills rows ``first ..`` of the outputs, the rows before being equal to row ``first``, which
    is returned. ``carried`` and its tangents, zero at first, become the form left on the first
    state; ``scale`` (k,) is scratch.
    """
    first = 0
    for c in range(rho.shape[0] - 1, -1, -1):
        excess = _factor_cell(markers, c, element, gain, rho, carried, scale)
        for q in range(d_element.shape[0]):
            other = _factor_tangent(
                markers, q, c, d_element, gain, rho, d_gain, d_rho, d_carried, scale
            )
            if other > excess:
                excess = other
        if not excess > 0.0:
            first = c
            break
    return first


@unrolled
def _factor_cell(markers, c, element, gain, rho, carried, scale) -> float:
    """Eliminate one innovation, and return a positive number if the form still changes."""
    cell = cell_of(markers)
    k = cell.n
    joint = pull_back(cell, carried)
    for place in cell.upper:
        joint[place] += element[place]
    rho[c] = joint[k, k]
    inverse = 1.0 / joint[k, k]
    ratio = [joint[i, k] * inverse for i in range(k)]
    excess = -1.0
    for i, j in cell.upper_states:
        value = joint[i, j] - ratio[i] * joint[j, k]
        change = value - carried[i, j]
        excess = maximum(excess, change * change - _SETTLED * joint[i, i] * joint[j, j])
        carried[i, j] = value
        carried[j, i] = value
    for i in range(k):
        gain[c, i] = ratio[i]
        scale[i] = joint[i, i]
    return excess


@unrolled
def _factor_tangent(markers, q, c, d_element, gain, rho, d_gain, d_rho, d_carried, scale) -> float:
    """Differentiate `_factor_cell`; ``scale`` is the diagonal of the form before it."""
    cell = cell_of(markers)
    k = cell.n
    tangent = {place: d_carried[q, *place] for place in cell.upper_states}
    joint = pull_back(cell, tangent)
    for i, j in cell.upper:
        joint[i, j] += d_element[q, i, j]
    pivot, inverse = joint[k, k], 1.0 / rho[c]
    d_rho[q, c] = pivot
    ratio = [gain[c, i] for i in range(k)]
    excess = -1.0
    for i in range(k):
        left = joint[i, k] - ratio[i] * pivot
        d_gain[q, c, i] = left * inverse
        for j in range(i, k):
            value = joint[i, j] - left * ratio[j] - ratio[i] * joint[j, k]
            change = value - tangent[i, j]
            excess = maximum(excess, change * change - _TANGENT_SETTLED * scale[i] * scale[j])
            d_carried[q, i, j] = value
            d_carried[q, j, i] = value
    return excess


@for_every_kind
def marginals(
    markers, first, factor, state, d_state, pair, cumulative, cells, weights, traces, cov
):
    """Compute ``tr(K^-1 G)`` and its tangents, and the cell covariances where wanted.

    ``factor`` are gain, rho and their tangents; ``cumulative`` holds the running sums of the
    moments, a row more than these. Adds to ``traces`` (1 + tangents,) and fills ``cov`` where it
    has rows. The states are overwritten; ``cells`` (1 + tangents, k + 1, k + 1) and ``weights``
    (k + 1, k + 1) are scratch.
    """
    gain, rho, d_gain, d_rho = factor
    keep = cov.shape[0] > 0
    c = 0
    while c < cumulative.shape[0] - 1:
        row = c if c > first else first
        excess = _marginals_cell(markers, row, gain, rho, state, cells)
        for q in range(d_state.shape[0]):
            other = _marginals_tangent(markers, row, q, gain, rho, d_gain, d_rho, d_state, cells)
            if other > excess:
                excess = other
        # A settled cell stands for all cells up to where the right end makes itself felt.
        after = c + 1
        if c < first and not excess > 0.0:
            after = first
        _weigh(markers, c, after, pair, cumulative, weights)
        for q in range(cells.shape[0]):
            traces[q] += _trace(markers, q, cells, weights)
        while c < after:
            if keep:
                _copy(markers, c, cells, cov)
            c += 1


@unrolled
def _marginals_cell(markers, row, gain, rho, state, cells) -> float:
    """Write a cell's covariance to ``cells[0]``, and go on to the next state."""
    cell = cell_of(markers)
    k = cell.n
    covariance = {place: state[place] for place in cell.upper_states}
    variance = 1.0 / rho[row]
    for i in range(k):
        cross = 0.0
        for j in range(k):
            cross -= covariance[min(i, j), max(i, j)] * gain[row, j]
        covariance[i, k] = cross
        variance -= cross * gain[row, i]
    covariance[k, k] = variance
    for i, j in cell.upper:
        cells[0, i, j] = covariance[i, j]
    excess = -1.0
    for (i, j), value in push_forward(cell, covariance).items():
        change = value - covariance[i, j]
        bound = _SETTLED * covariance[i, i] * covariance[j, j]
        excess = maximum(excess, change * change - bound)
        state[i, j] = value
    return excess


@unrolled
def _marginals_tangent(markers, row, q, gain, rho, d_gain, d_rho, d_state, cells) -> float:
    """Differentiate `_marginals_cell`, which was called before, and write to ``cells[q + 1]``."""
    cell = cell_of(markers)
    k = cell.n
    covariance = {place: cells[0, *place] for place in cell.upper}
    tangent = {place: d_state[q, *place] for place in cell.upper_states}
    d_ratio = [d_gain[q, row, i] for i in range(k)]
    inverse = 1.0 / rho[row]
    d_variance = (-1.0 * inverse) * inverse * d_rho[q, row]
    for i in range(k):
        d_cross = 0.0
        for j in range(k):
            place = min(i, j), max(i, j)
            d_cross -= tangent[place] * gain[row, j] + covariance[place] * d_ratio[j]
        tangent[i, k] = d_cross
        d_variance -= d_cross * gain[row, i] + covariance[i, k] * d_ratio[i]
    tangent[k, k] = d_variance
    for i, j in cell.upper:
        cells[q + 1, i, j] = tangent[i, j]
    excess = -1.0
    for (i, j), value in push_forward(cell, tangent).items():
        change = value - tangent[i, j]
        bound = _TANGENT_SETTLED * covariance[i, i] * covariance[j, j]
        excess = maximum(excess, change * change - bound)
        d_state[q, i, j] = value
    return excess


@unrolled
def _copy(markers, c, cells, cov):
    """Write the covariance in ``cells[0]`` to ``cov[c]``."""
    for i, j in cell_of(markers).upper:
        cov[c, i, j] = cells[0, i, j]
        cov[c, j, i] = cells[0, i, j]


@unrolled
def _weigh(markers, c, after, pair, cumulative, weights):
    """Sum the moments of the cells ``c`` to ``after``; what is twice in a trace, doubled."""
    for i, j in cell_of(markers).upper:
        weight = cumulative[after, pair[i, j]] - cumulative[c, pair[i, j]]
        weights[i, j] = weight if i == j else 2.0 * weight


@unrolled
def _trace(markers, q, cells, weights) -> float:
    """Return the trace of a cell's covariance, or of its tangent, against the moments."""
    return sum(cells[q, i, j] * weights[i, j] for i, j in cell_of(markers).upper)
