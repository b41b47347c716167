"""Sums over the cells of a line, in blocks of the functions that are alive on a leaf.

A leaf is an interval of finest cells, ``edges[leaf]`` to ``edges[leaf + 1]``. Functions are given
by groups: on cell c the functions of group g are polynomials in s, the row ``c % patterns[g]`` of
the group's table, and ``places[c]`` are their places in the block of the leaf, group after group.
"""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _polynomials(c, alive, patterns, starts, table, out):
    """Copy the polynomials of all functions alive on a cell, (functions, powers)."""
    powers = out.shape[1]
    row = 0
    for g in range(alive.shape[0]):
        place = starts[g] + (c % patterns[g]) * alive[g] * powers
        for _ in range(alive[g]):
            for j in range(powers):
                out[row, j] = table[place + j]
            place += powers
            row += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_gram(first, last, edges, groups, table, places, moments, cross, work, out):
    """Add the sums of products of functions over the data, for leaves ``first`` to ``last``.

    ``groups`` holds alive, patterns and starts; ``cross`` (cells, powers, columns) are products
    with further columns, which are the last of a block; ``work`` has room for the polynomials of
    a cell, twice.
    """
    alive, patterns, starts = groups[0], groups[1], groups[2]
    functions, powers = places.shape[1], work.shape[2]
    columns = cross.shape[2]
    phi = work[0]
    turned = work[1].reshape(powers, functions)  # functions last, for vector instructions
    row = np.empty(functions)
    for leaf in range(first, last):
        block = out[leaf]
        size = block.shape[0]
        for c in range(edges[leaf], edges[leaf + 1]):
            if moments[c, 0] == 0.0:
                continue
            _polynomials(c, alive, patterns, starts, table, phi)
            for a in range(functions):
                for j in range(powers):
                    turned[j, a] = phi[a, j]
            for a in range(functions):
                p = places[c, a]
                for b in range(functions):
                    row[b] = 0.0
                for j in range(powers):
                    value = 0.0
                    for i in range(powers):
                        value += phi[a, i] * moments[c, i + j]
                    for b in range(functions):
                        row[b] += value * turned[j, b]
                for b in range(functions):
                    block[p, places[c, b]] += row[b]
                for k in range(columns):
                    total = 0.0
                    for j in range(powers):
                        total += phi[a, j] * cross[c, j, k]
                    q = size - columns + k
                    block[p, q] += total
                    block[q, p] += total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_targets(groups, table, numbers, targets, work, out):
    """Add the sums of functions times targets (outputs, cells, powers) to out (size, outputs)."""
    alive, patterns, starts = groups[0], groups[1], groups[2]
    phi = work[0]
    for c in range(numbers.shape[0]):
        _polynomials(c, alive, patterns, starts, table, phi)
        for a in range(numbers.shape[1]):
            for o in range(targets.shape[0]):
                total = 0.0
                for j in range(phi.shape[1]):
                    total += phi[a, j] * targets[o, c, j]
                out[numbers[c, a], o] += total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_mean(groups, table, numbers, chosen, mean, work, out):
    """Add polynomials per cell of coefficients, (size, outputs) to (outputs, cells, powers).

    ``chosen`` is one for the places that count, zero for others.
    """
    alive, patterns, starts = groups[0], groups[1], groups[2]
    phi = work[0]
    for c in range(numbers.shape[0]):
        _polynomials(c, alive, patterns, starts, table, phi)
        for a in range(numbers.shape[1]):
            if chosen[a]:
                for o in range(out.shape[0]):
                    for j in range(phi.shape[1]):
                        out[o, c, j] += phi[a, j] * mean[numbers[c, a], o]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_squares(first, last, edges, groups, table, places, chosen, inverse, work, out):
    """Add ``phi' Z phi`` of leaves, a polynomial per cell; ``inverse`` has the leaves' blocks Z."""
    alive, patterns, starts = groups[0], groups[1], groups[2]
    phi, applied = work[0], work[1]
    functions, powers = places.shape[1], phi.shape[1]
    for leaf in range(first, last):
        block = inverse[leaf - first]
        for c in range(edges[leaf], edges[leaf + 1]):
            _polynomials(c, alive, patterns, starts, table, phi)
            for a in range(functions):
                if not chosen[a]:
                    continue
                p = places[c, a]
                for j in range(powers):
                    applied[a, j] = 0.0
                for b in range(functions):
                    if chosen[b]:
                        value = block[p, places[c, b]]
                        for j in range(powers):
                            applied[a, j] += value * phi[b, j]
                for i in range(powers):
                    for j in range(powers):
                        out[c, i + j] += phi[a, i] * applied[a, j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_cross(first, last, edges, groups, table, places, inverse, work, out):
    """Add ``phi' Z`` of leaves with the last columns of their blocks, (cells, powers, columns)."""
    alive, patterns, starts = groups[0], groups[1], groups[2]
    phi, columns = work[0], out.shape[2]
    for leaf in range(first, last):
        block = inverse[leaf - first]
        start = block.shape[0] - columns
        for c in range(edges[leaf], edges[leaf + 1]):
            _polynomials(c, alive, patterns, starts, table, phi)
            for a in range(places.shape[1]):
                for j in range(phi.shape[1]):
                    for k in range(columns):
                        out[c, j, k] += phi[a, j] * block[places[c, a], start + k]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_elements(first, last, begins, places, element, out):
    """Add one element for every cell of a component to the blocks of leaves, in place.

    Cells ``begins[leaf]`` to ``begins[leaf + 1]`` belong to a leaf; ``places`` (cells, n) are the
    places of their functions in its block.
    """
    n = places.shape[1]
    for leaf in range(first, last):
        block = out[leaf - first]
        for c in range(begins[leaf], begins[leaf + 1]):
            for i in range(n):
                p = places[c, i]
                for j in range(n):
                    block[p, places[c, j]] += element[i, j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sum_elements(first, last, begins, places, inverse, total):
    """Add up the blocks of a component's cells, the reverse of `add_elements`."""
    n = places.shape[1]
    for leaf in range(first, last):
        block = inverse[leaf - first]
        for c in range(begins[leaf], begins[leaf + 1]):
            for i in range(n):
                p = places[c, i]
                for j in range(n):
                    total[i, j] += block[p, places[c, j]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def contract_powers(moments, polynomials, out):
    """Write moments weighted with polynomials, which repeat where there are fewer than cells."""
    count, size = polynomials.shape
    for c in range(out.shape[0]):
        p = c % count
        for j in range(out.shape[1]):
            value = 0.0
            for i in range(size):
                value += polynomials[p, i] * moments[c, i + j]
            out[c, j] = value
