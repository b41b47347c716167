"""Products with the covariance of the coefficients along a chain of cells.

The coefficients of a cell are Gaussian and depend on the cells before through the state at its
left knot. Nothing is inverted here that a long process could make singular.
"""

import numba
import numpy as np

from asvgp.linalg.denormals import flush_denormals, restore


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add(factor, x, y):
    """Add ``factor * x`` to y."""
    if factor != 0.0:
        for n in range(y.shape[0]):
            y[n] += factor * x[n]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def covariance_times(cov, gain, shift, right, out):
    """Write the covariance of all coefficients times right-hand sides, (cells, w, n).

    ``cov`` (cells, w, w) are the cells' covariances, ``gain`` (cells, w, states) their
    coefficients given the state at the left knot, and ``shift`` (states, w) takes the coefficients
    of a cell to the state at its right knot.
    """
    word = flush_denormals()
    cells, w, n = right.shape
    states = shift.shape[0]
    state, work = np.zeros((states, n)), np.zeros((w, n))
    for c in range(cells):  # what the cells up to c tell about those after it
        for i in range(w):
            out[c, i] = 0.0
            for j in range(w):
                _add(cov[c, i, j], right[c, j], out[c, i])
            for j in range(states):
                _add(gain[c, i, j], state[j], out[c, i])
        state[:] = 0.0
        for i in range(states):
            for j in range(w):
                _add(shift[i, j], out[c, j], state[i])
    state[:] = 0.0
    for c in range(cells - 1, -1, -1):  # and the other way round
        work[:] = 0.0
        for j in range(w):
            for i in range(states):
                _add(shift[i, j], state[i], work[j])
        state[:] = 0.0
        for i in range(w):
            for j in range(w):
                _add(cov[c, i, j], work[j], out[c, i])
        for j in range(w):
            _add(1.0, right[c, j], work[j])
            for i in range(states):
                _add(gain[c, j, i], work[j], state[i])
    restore(word)
