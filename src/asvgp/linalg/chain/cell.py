"""Moving quadratic forms and covariances across one cell. Layout: `asvgp.linalg`."""

import numba


@numba.njit(cache=True, nogil=True)
def pull_back(states, innovations, shift, carried, half, joint):
    """Upper triangle of ``joint = shift' carried shift``: a form on the next state, seen here."""
    n = len(states)
    size = n + len(innovations)
    for i in range(n):
        for j in range(size):
            total = 0.0
            for m in range(n):
                total += carried[i, m] * shift[m, j]
            half[i, j] = total
    for i in range(size):
        for j in range(i, size):
            total = 0.0
            for m in range(n):
                total += shift[m, i] * half[m, j]
            joint[i, j] = total


@numba.njit(cache=True, nogil=True)
def push_forward(states, innovations, shift, cell, half, state):
    """``state = shift cell shift'``: the next state's covariance from this cell's."""
    n = len(states)
    size = n + len(innovations)
    for i in range(n):
        for j in range(size):
            value = 0.0
            for m in range(size):
                value += shift[i, m] * cell[m, j]
            half[i, j] = value
    for i in range(n):
        for j in range(i, n):
            value = 0.0
            for m in range(size):
                value += half[i, m] * shift[j, m]
            state[i, j] = value
            state[j, i] = value


@numba.njit(cache=True, nogil=True)
def mirror(matrix):
    """Copy the upper triangle below the diagonal."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
