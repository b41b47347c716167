"""Sweeps along a chain: functionals that span many cells, and draws. Layout: `asvgp.linalg`.

A functional over a *stretch* of cells puts weights on the coefficients of its first cell, others
on those of every cell in between, and others on its last (none, where that is the first). One
walk over its cells gives what the rest of the chain needs to know of it: nothing is a difference
of running sums, so that short stretches keep their digits.
"""

import numba

from asvgp.linalg.chain.cell import cell_of, complete, shift_forward
from asvgp.linalg.chain.covariance import FORGOTTEN, advance
from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import unrolled


@for_every_kind
def stretches(markers, settled, gain, cov, begin, end, parts, carried, weights, bridges, variance):
    """Compute variances of functionals over the cells ``begin[a] .. end[a]``, T of them.

    ``parts`` (3 T, n + S) are the weights of each functional on its first cell, on every cell in
    between and on its last; rows of ``gain`` before ``settled`` are taken to equal row
    ``settled``. Fills ``variance`` (T,) and ``carried`` (T, n + S), zero at first: the covariance
    with the coefficients of the last cell. Where they have rows, fills what `assemble` needs
    besides: ``weights`` (T, n + S), zero at first, the expected functional given the coefficients
    of the first cell; ``bridges`` (T (n + S), n + S), identities at first, whose row j is what
    coefficient j of the first cell contributes to those expected of the last.
    """
    size, keep = parts.shape[1], weights.shape[0] > 0
    for a in range(begin.shape[0]):
        total = 0.0
        for c in range(begin[a], end[a] + 1):
            if c > begin[a]:
                row = c if c > settled else settled
                advance(markers, row, gain, carried, a)
                for j in range(a * size, (a + 1) * size if keep else a * size):
                    if advance(markers, row, gain, bridges, j) < FORGOTTEN:
                        for i in range(size):
                            bridges[j, i] = 0.0
            part = 3 * a + (0 if c == begin[a] else 2 if c == end[a] else 1)
            total += _observe(markers, c, cov, parts, part, carried, a)
            if keep:
                _expect(markers, a, a * size, parts, part, bridges, weights)
        variance[a] = total


@unrolled
def _observe(markers, c, cov, parts, part, carried, a) -> float:
    """Add the functional's part on cell ``c``; returns what its variance gains."""
    cell = cell_of(markers)
    weights, gained = [parts[part, i] for i in range(cell.size)], 0.0
    for i in range(cell.size):
        spread = sum(cov[c, i, j] * weights[j] for j in range(cell.size))
        before = carried[a, i]
        gained += weights[i] * (spread + 2.0 * before)
        carried[a, i] = before + spread
    return gained


@unrolled
def _expect(markers, a, bridge, parts, part, bridges, weights):
    """Add the functional's part on a cell to what the first cell makes one expect."""
    cell = cell_of(markers)
    for j in range(cell.size):
        weights[a, j] += sum(parts[part, i] * bridges[bridge + j, i] for i in range(cell.size))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def assemble(variance, cross, weights, bridges, sign, scratch, out):
    """Add ``sign`` times the covariance matrix of adjoining functionals to ``out`` (T, T).

    Each begins where the one before it ends; ``cross`` is ``carried`` of `stretches`, ``bridges``
    is (T, n + S, n + S), and ``scratch`` (2, n + S).
    """
    count, width = weights.shape
    for a in range(count):
        out[a, a] += sign * variance[a]
        for i in range(width):
            scratch[0, i] = cross[a, i]
        for b in range(a + 1, count):
            value = 0.0
            for i in range(width):
                value += weights[b, i] * scratch[0, i]
            out[a, b] += sign * value
            out[b, a] += sign * value
            largest = 0.0
            for i in range(width):
                total = 0.0
                for j in range(width):
                    total += bridges[b, j, i] * scratch[0, j]
                scratch[1, i] = total
                if abs(total) > largest:
                    largest = abs(total)
            if largest < FORGOTTEN:
                break
            for i in range(width):
                scratch[0, i] = scratch[1, i]


@for_every_kind
def draw(markers, gain, deviation, state, coef):
    """Run the chain forward from states (samples, n), which are overwritten.

    ``coef`` (samples, cells, n + S) comes with standard normal numbers in the innovations'
    places and leaves as Taylor coefficients of zero-mean draws, distributed as the chain;
    ``deviation`` is ``rho**-0.5``.
    """
    for a in range(coef.shape[0]):
        for c in range(coef.shape[1]):
            _draw_cell(markers, a, c, gain, deviation, state, coef)


@unrolled
def _draw_cell(markers, a, c, gain, deviation, state, coef):
    cell = cell_of(markers)
    offsets = [coef[a, c, cell.n + e] * deviation[c, e] for e in range(cell.size - cell.n)]
    values = complete(cell, gain, c, [state[a, i] for i in range(cell.n)], offsets)
    for i, value in enumerate(values):
        coef[a, c, i] = value
    for i, value in enumerate(shift_forward(cell, values)):
        state[a, i] = value
