"""Adding points to the sums of their cells where the inputs are several.

A cell has many sums, ``prod(2 k_d + 1)`` moments and ``prod(k_d + 1)`` targets, and a large
field has millions of cells: one table, shared by all threads. So a batch of points is first
sorted by *blocks* of cells (`sort_blocks`, `gather`). A thread then adds whole blocks, no
two threads write to one cell, memory is walked through in order, and the result does not
depend on the number of threads.

Layout of a batch, one column per point:

=========== ========================= ====================================================
``cell``    (rows,) int64             the cell, numbered in C order over the inputs
``points``  (inputs + 1 + outputs,    local coordinates s_d in [0, 1], the weight w, and
            rows)                     the weighted outputs w y
``moments`` (cells, prod(2 k_d + 1))  sums of w prod s_d**j_d, C order, last input fastest
``targets`` (outputs, cells,          sums of w y prod s_d**j_d
            prod(k_d + 1))
``cross``   (cells, prod(k_d + 1),    sums of w prod s_d**j_d times a global column
            columns)
=========== ========================= ====================================================

The powers of the last inputs are written out (`asvgp.linalg.unrolled`). Inputs before them
are looped over, which costs nothing next to the 125 sums (three inputs of degree 2) within.
"""

from collections.abc import Sequence
from math import prod

import numba
import numpy as np

from asvgp.linalg.cells.accumulate import fetch_row
from asvgp.linalg.inner import for_every_kind, inner
from asvgp.linalg.unrolled import unrolled

AHEAD = 12  # points whose sums are fetched into the cache before they are needed
LINE = 8  # doubles per cache line
WRITTEN_OUT = 128  # sums; more take longer to compile and gain nothing


def looped_inputs(degrees: Sequence[int]) -> int:
    """Return how many of the first inputs are looped over.

    Examples
    --------
    >>> looped_inputs((2, 2, 2)), looped_inputs((2, 2, 2, 2)), looped_inputs((3, 3, 3))
    (0, 1, 1)
    """
    split = 0
    while prod(2 * k + 1 for k in degrees[split:]) > WRITTEN_OUT:
        split += 1
    return split


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def locate(x, lower, scale, cells, cell, local):
    """Compute local coordinates, and continue cell numbers by one more input."""
    last = float(cells - 1)
    for i in range(x.shape[0]):
        t = (x[i] - lower) * scale
        c = max(min(np.floor(t), last), 0.0)
        cell[i] = cell[i] * cells + np.int64(c)
        local[i] = t - c


def sort_blocks(cell: np.ndarray, shift: int, blocks: int, order: np.ndarray) -> np.ndarray:
    """Sort the points by ``cell >> shift`` into ``order``, and return where each block begins."""
    place = np.zeros(blocks + 2, np.int64)
    _sort_blocks(cell, shift, order, place)
    return place[:-1]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _sort_blocks(cell, shift, order, place):
    """Count, and put in place; a block's entry of ``place`` ends as the start of the block."""
    for i in range(cell.shape[0]):
        place[(cell[i] >> shift) + 2] += 1
    for b in range(2, place.shape[0]):
        place[b] += place[b - 1]
    for i in range(cell.shape[0]):
        b = (cell[i] >> shift) + 1
        order[place[b]] = i
        place[b] += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def gather(order, values, out):
    """Set ``out[p] = values[order[p]]``."""
    for p in range(order.shape[0]):
        out[p] = values[np.uint64(order[p])]


@inner(error_model="numpy")
def _products(first, points, p, times, degrees, out):
    """Write ``first * prod_d s_d**j_d`` for ``j_d <= times * degrees[d]``; returns how many."""
    out[0] = first
    count = 1
    for d in range(degrees.shape[0]):
        size = times * degrees[d] + 1
        for r in range(count - 1, -1, -1):  # from the end: nothing is overwritten unread
            product = out[r]
            for j in range(size):
                out[r * size + j] = product
                product *= points[d, p]
        count *= size
    return count


@for_every_kind
def add_points(markers, degrees, cell, points, start, stop, lead, moments, targets):
    """Add the points ``start`` to ``stop`` of a batch to the rows of their cells.

    ``markers`` holds tuples as long as the degrees of the last inputs; ``degrees`` are those
    of the inputs before them. ``lead`` is room for as many products as these have.
    """
    before, once, twice = degrees.shape[0], np.int64(1), np.int64(2)
    weight = points.shape[0] - targets.shape[0] - 1  # the row after the coordinates
    for p in range(start, stop):
        c = cell[p]
        ahead = cell[p + AHEAD if p + AHEAD < stop else stop - 1]
        for at in range(0, moments.shape[1], LINE):
            fetch_row(moments[ahead], np.intp(at))
        for at in range(0, targets.shape[2], LINE):
            fetch_row(targets[0, ahead], np.intp(at))
        for r in range(_products(points[weight, p], points, p, twice, degrees, lead)):
            _add_moments(markers, lead[r], r, points, before, p, c, moments)
        for o in range(targets.shape[0]):
            for r in range(_products(points[weight + 1 + o, p], points, p, once, degrees, lead)):
                _add_targets(markers, lead[r], r, points, before, p, o, c, targets)


@unrolled
def _add_moments(markers, factor, r, points, before, p, c, moments):
    """Add ``factor`` times all powers of the last inputs to a cell's moments."""
    products = _outer(factor, points, before, p, [2 * len(each) + 1 for each in markers])
    place = r * len(products)
    for j, value in enumerate(products):
        moments[c, place + j] += value


@unrolled
def _add_targets(markers, factor, r, points, before, p, o, c, targets):
    """Add ``factor`` times all powers of the last inputs to a cell's targets."""
    products = _outer(factor, points, before, p, [len(each) + 1 for each in markers])
    place = r * len(products)
    for j, value in enumerate(products):
        targets[o, c, place + j] += value


def _outer(factor, points, before, p, sizes: list[int]) -> list:
    """Return ``factor prod_d s_d**j_d`` for ``j_d < sizes[d]``, the last input the fastest."""
    products = [factor]
    for d, size in enumerate(sizes):
        s, powers = points[before + d, p], [1.0]
        for _ in range(size - 1):
            powers.append(powers[-1] * s)
        products = [product * power for product in products for power in powers]
    return products


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_cross(degrees, order, cell, points, start, stop, first, offsets, values, products, cross):
    """Add the products of the powers with the columns of the same points.

    Of every group of columns (see `asvgp.linalg.cells.accumulate_columns`) a point has only the
    ``offsets[g + 1] - offsets[g]`` neighbours from ``first[g]`` on. The columns lie in the
    order of the data, which ``order`` leads back to.
    """
    weight = degrees.shape[0]  # the row after the coordinates
    for p in range(start, stop):
        i = np.uint64(order[p])
        c = cell[p]
        _products(points[weight, p], points, p, np.int64(1), degrees, products)
        for q in range(cross.shape[1]):
            row = cross[c, q]
            for g in range(first.shape[0]):
                for m in range(offsets[g], offsets[g + 1]):
                    row[first[g, i] + m - offsets[g]] += products[q] * values[m, i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def merge_cells(sums, maps, merged):
    """Add the cells of one input, (any, cells, any, powers, any), to those of their parents.

    ``maps[i]`` expresses the powers of the parent's coordinate in those of its i-th cell. It is
    lower triangular.
    """
    factor, powers, size = maps.shape[0], maps.shape[1], sums.shape[4]
    row = np.empty(size)
    for a in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            part, parent = c % factor, c // factor
            for b in range(sums.shape[2]):
                for j in range(powers):
                    if size == 1:  # a loop of one step would cost as much as ten of these
                        total = 0.0
                        for i in range(j + 1):
                            total += maps[part, j, i] * sums[a, c, b, i, 0]
                        merged[a, parent, b, j, 0] += total
                        continue
                    row[:] = 0.0
                    for i in range(j + 1):
                        for e in range(size):
                            row[e] += maps[part, j, i] * sums[a, c, b, i, e]
                    for e in range(size):
                        merged[a, parent, b, j, e] += row[e]
