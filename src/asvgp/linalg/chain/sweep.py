"""Sweeps along a chain: functionals that span many cells, and draws. Layout: `asvgp.linalg`.

A functional over a *stretch* of cells puts the weights ``head`` on the coefficients of its
first cell, ``full * whole`` on those of every cell in between and ``tail`` on its last
(nothing, where that is the first). One walk over its cells gives what the rest of the
chain needs to know of it: nothing is a difference of running sums, so that short stretches
keep their digits.
"""

import numba
import numpy as np

from asvgp.linalg.chain.covariance import _advance, _complete

_FORGOTTEN = 1e-200  # nothing, and slow to compute with a little further down


@numba.njit(cache=True, nogil=True)
def stretches(
    states,
    innovations,
    shift,
    settled,
    gain,
    cov,
    whole,
    begin,
    end,
    head,
    tail,
    full,
    variance,
    cross,
    weights,
    bridges,
):
    """Variances of functionals over the cells ``begin[a] .. end[a]``, T of them.

    ``head`` and ``tail`` are (T, n + S), ``whole`` (n + S,), ``full`` (T,); rows of ``gain``
    before ``settled`` are taken to equal row ``settled``. Fills ``variance`` (T,) and, where
    they have a row per functional, what `assemble` needs: ``cross`` (T, n + S), the
    covariance with the coefficients of the last cell; ``weights`` (T, n + S), the expected
    functional given the coefficients of the first cell; ``bridges`` (T, n + S, n + S), whose
    row j is what coefficient j of the first cell contributes to those expected of the last.
    """
    n = len(states)
    width = n + len(innovations)
    keep = cross.shape[0] > 0
    own = np.zeros(width)
    spread = np.zeros(width)
    carried = np.zeros(width)
    columns = np.zeros((width, width))
    scratch = np.zeros(n)
    for a in range(begin.shape[0]):
        c = begin[a]
        carried[:] = 0.0
        total = 0.0
        if keep:
            weights[a] = 0.0
            columns[:] = 0.0
            for j in range(width):
                columns[j, j] = 1.0
        while True:
            for i in range(width):
                if c == begin[a]:
                    own[i] = head[a, i]
                elif c == end[a]:
                    own[i] = tail[a, i]
                else:
                    own[i] = full[a] * whole[i]
            for i in range(width):
                value = 0.0
                for j in range(width):
                    value += cov[c, i, j] * own[j]
                spread[i] = value
            for i in range(width):
                total += own[i] * (spread[i] + 2.0 * carried[i])
                carried[i] += spread[i]
            if keep:
                for j in range(width):
                    for i in range(width):
                        weights[a, j] += own[i] * columns[j, i]
            if c == end[a]:
                break
            c += 1
            row = max(c, settled)
            _advance(states, innovations, shift, carried, scratch)
            _complete(states, innovations, gain[row], carried)
            if keep:
                for j in range(width):
                    _advance(states, innovations, shift, columns[j], scratch)
                    _complete(states, innovations, gain[row], columns[j])
                    if np.abs(columns[j]).max() < _FORGOTTEN:
                        columns[j] = 0.0
        variance[a] = total
        if keep:
            cross[a] = carried
            bridges[a] = columns


@numba.njit(cache=True, nogil=True)
def assemble(variance, cross, weights, bridges, sign, out):
    """Add ``sign`` times the covariance matrix of adjoining functionals to ``out`` (T, T).

    Each begins where the one before it ends; arguments as `stretches` fills them.
    """
    count, width = weights.shape
    carried = np.zeros(width)
    scratch = np.zeros(width)
    for a in range(count):
        out[a, a] += sign * variance[a]
        carried[:] = cross[a]
        for b in range(a + 1, count):
            value = 0.0
            for i in range(width):
                value += weights[b, i] * carried[i]
            out[a, b] += sign * value
            out[b, a] += sign * value
            for i in range(width):
                total = 0.0
                for j in range(width):
                    total += bridges[b, j, i] * carried[j]
                scratch[i] = total
            if np.abs(scratch).max() < _FORGOTTEN:
                break
            carried[:] = scratch


@numba.njit(cache=True, nogil=True)
def draw(states, innovations, shift, gain, rho, start, coef):
    """Run the chain forward from the states ``start`` (samples, n), in place.

    ``coef`` (samples, cells, n + S) comes with standard normal numbers in the innovations'
    places and leaves as Taylor coefficients of zero-mean draws, distributed as the chain.
    """
    n = len(states)
    size = n + len(innovations)
    state = np.zeros(n)
    for a in range(coef.shape[0]):
        state[:] = start[a]
        for c in range(coef.shape[1]):
            cell = coef[a, c]
            for i in range(n):
                cell[i] = state[i]
            for e in range(n, size):
                value = cell[e] / np.sqrt(rho[c, e - n])
                for i in range(e):
                    value -= gain[c, e - n, i] * cell[i]
                cell[e] = value
            for i in range(n):
                value = 0.0
                for j in range(size):
                    value += shift[i, j] * cell[j]
                state[i] = value
