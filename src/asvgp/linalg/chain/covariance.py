"""Covariances between linear functionals of a chain, far apart or near. Layout: `asvgp.linalg`.

A functional acts on the coefficients of one cell. Between two cells the chain forgets by
``x_{c+1} = closed_c x_c + ...`` with ``closed_c = shift (I; minus the gains)``, so the
covariance of a functional with everything to its right follows by n x n products.
"""

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.chain.cell import cell_of, complete, shift_forward
from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import Markers, magnitude, maximum, unrolled

FORGOTTEN = 1e-200  # nothing, and slow to compute with a little further down


@unrolled
def advance(markers, c, gain, vectors, v) -> float:
    """Carry ``vectors[v]`` from the cell before ``c`` to ``c``, and return its largest entry.

    A vector is the covariance of a functional with a cell's coefficients.
    """
    cell = cell_of(markers)
    state = shift_forward(cell, [vectors[v, i] for i in range(cell.size)])
    return _write(vectors, v, complete(cell, gain, c, state))


def add_covariance(
    markers: Markers,
    first: int,
    gain: Array,
    cell_covariance: Array,
    cells: Array,
    weights: Array,
    sign: float,
    out: Array,
) -> None:
    """Add ``sign`` times the covariance matrix of functionals to ``out``.

    ``cells`` (T,) must not decrease; ``weights`` is (T, n + S); ``cell_covariance`` (T,
    n + S, n + S) holds the covariance of each functional's own cell. Rows of ``gain``
    before ``first`` are taken to equal row ``first``.
    """
    n = cell_of(markers).n
    vectors = (cell_covariance @ weights[:, :, None])[:, :, 0]
    # bridges[b] carries a state from the right knot of functional b - 1's cell to b's own;
    # row j is what becomes of the j-th unit vector.
    bridges = np.repeat(np.eye(n)[None], len(cells), axis=0).reshape(-1, n)
    _add_covariance(markers, first, gain, cells, weights, sign, vectors, bridges, out)


@for_every_kind
def _add_covariance(markers, first, gain, cells, weights, sign, vectors, bridges, out):
    n = bridges.shape[1]
    for b in range(1, cells.shape[0]):
        for j in range(b * n, b * n + n):
            for c in range(cells[b - 1] + 1, cells[b]):
                if _cross(markers, c if c > first else first, gain, bridges, j) < FORGOTTEN:
                    for i in range(n):
                        bridges[j, i] = 0.0
                    break
    for a in range(cells.shape[0]):
        for b in range(a, cells.shape[0]):
            if b > a and cells[b] > cells[b - 1]:
                c = cells[b] if cells[b] > first else first
                _jump(markers, c, gain, bridges, b * n, vectors, a)
            value = sign * _dot(markers, weights, b, vectors, a)
            out[a, b] += value
            if b > a:
                out[b, a] += value


@unrolled
def _cross(markers, c, gain, vectors, v) -> float:
    """Carry ``vectors[v]``, a covariance with states, from the left knot of ``c`` to the right."""
    cell = cell_of(markers)
    values = complete(cell, gain, c, [vectors[v, i] for i in range(cell.n)])
    return _write(vectors, v, shift_forward(cell, values))


@unrolled
def _jump(markers, c, gain, bridges, bridge, vectors, v):
    """Carry ``vectors[v]`` to cell ``c`` over the bridge that begins at row ``bridge``."""
    cell = cell_of(markers)
    before = shift_forward(cell, [vectors[v, i] for i in range(cell.size)])
    state = [0.0] * cell.n
    for j, value in enumerate(before):
        for i in range(cell.n):
            state[i] += bridges[bridge + j, i] * value
    _write(vectors, v, complete(cell, gain, c, state))


@unrolled
def _dot(markers, left, i, right, j) -> float:
    """Return the product of two rows."""
    return sum(left[i, m] * right[j, m] for m in range(cell_of(markers).size))


def _write(vectors, v, values: list):
    """Write values to ``vectors[v]``; returns the largest in size."""
    largest = 0.0
    for i, value in enumerate(values):
        vectors[v, i] = value
        largest = maximum(largest, magnitude(value))
    return largest
