"""Moving quadratic forms and covariances across one cell. Layout: `asvgp.linalg`."""

import numba


@numba.njit(cache=True, nogil=True)
def pull_back(degree, shift, carried, half, joint):
    """Upper triangle of ``joint = shift' carried shift``: a form on the next state, seen here."""
    k = len(degree)
    for i in range(k):
        for j in range(k + 1):
            total = 0.0
            for m in range(min(j + 1, k)):
                total += carried[i, m] * shift[m, j]
            half[i, j] = total
    for i in range(k + 1):
        for j in range(i, k + 1):
            total = 0.0
            for m in range(min(i + 1, k)):
                total += shift[m, i] * half[m, j]
            joint[i, j] = total


@numba.njit(cache=True, nogil=True)
def push_forward(degree, shift, cell, half, state):
    """``state = shift cell shift'``: the next state's covariance from this cell's."""
    k = len(degree)
    for i in range(k):
        for j in range(k + 1):
            value = 0.0
            for m in range(i, k + 1):
                value += shift[i, m] * cell[m, j]
            half[i, j] = value
    for i in range(k):
        for j in range(i, k):
            value = 0.0
            for m in range(j, k + 1):
                value += half[i, m] * shift[j, m]
            state[i, j] = value
            state[j, i] = value


@numba.njit(cache=True, nogil=True)
def mirror(matrix):
    """Copy the upper triangle below the diagonal."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
