"""Polynomials in several variables, one for every cell of a grid."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def evaluate(coef, sizes, cells, s, out):
    """Values at points: ``coef`` (cells, powers), powers in C order of ``sizes``.

    ``cells`` (n,) are flat cell numbers, ``s`` (n, D) local coordinates. One Horner scheme
    an input, the last one first.
    """
    inputs = sizes.shape[0]
    work = np.empty(coef.shape[1])
    for n in range(cells.shape[0]):
        size = coef.shape[1]
        for j in range(size):
            work[j] = coef[cells[n], j]
        for d in range(inputs - 1, -1, -1):
            p = sizes[d]
            size //= p
            t = s[n, d]
            for i in range(size):
                value = work[i * p + p - 1]
                for j in range(p - 2, -1, -1):
                    value = value * t + work[i * p + j]
                work[i] = value
        out[n] = work[0]


@numba.njit(cache=True, nogil=True)
def bilinear(blocks, block, i, u, j, v, out):
    """``u' Z v`` of rows with few weights, u on rows i and v on columns j of their blocks Z."""
    for n in range(block.shape[0]):
        total = 0.0
        for a in range(i.shape[1]):
            if u[n, a] == 0.0:
                continue
            part = 0.0
            for b in range(j.shape[1]):
                part += blocks[block[n], i[n, a], j[n, b]] * v[n, b]
            total += u[n, a] * part
        out[n] = total
