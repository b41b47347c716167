"""Leaf elements of P, and sums and polynomials from the inverse on the leaves.

A leaf is a box of finest cells, an interval along every input. What couples functions on it is a
sum of products over inputs, so the element of a leaf comes from one small table per input and
interval:

- ``grams``, (intervals, cells x moments, n x m): moments along the input to the products of
  functions of two terms, G;
- ``values``, (intervals, cells x powers, n): targets to functions, for the global columns;
- ``stiffness``, (intervals, tables, n n): the interval's share of K along the input, one table;
  of a joint kernel one per power of the frequency, which the term's coefficients combine.

The code works for NumPy and torch arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.multifrontal import Tree
from asvgp.model.axis import Axis
from asvgp.model.devices import DeviceArray
from asvgp.runtime.lazy import cached_property

Move = Callable[[Array], DeviceArray]  # a NumPy array to where the work is done


class Leaves:
    """Tables of all leaves of a tree, for terms given by one axis per input.

    ``move`` copies a NumPy array to the device.
    """

    def __init__(self, tree: Tree, terms: list[list[Axis]], move: Move):
        self.tree, self.terms, self.move = tree, terms, move
        self.inputs = len(tree.cells)
        self.pads = tree.spaces[0].pads or (0,) * self.inputs  # cells beyond the data
        self.lengths = [int(np.diff(edges).max()) for edges in tree.leaf_intervals]
        self.shapes = [
            tuple(tree.leaf_ranges[i][d].length for d in range(self.inputs))
            for i in range(len(terms))
        ]
        sizes = [prod(shape) for shape in self.shapes]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.block = int(self.offsets[-1]) + tree.columns
        self.intervals = [
            self.move(np.ascontiguousarray(tree.leaves[:, d])) for d in range(self.inputs)
        ]
        self._placed: dict[tuple[int, int], tuple[DeviceArray, DeviceArray | None]] = {}
        self.pairs = list(combinations_with_replacement(range(len(terms)), 2))
        self.grams = {
            (i, j): [self.move(self._gram(d, i, j)) for d in range(self.inputs)]
            for i, j in self.pairs
        }

    def _local(self, d: int, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the interval of every cell of data, its place there, and its first function's."""
        edges = self.tree.leaf_intervals[d]
        cells = np.arange(self.pads[d], self.tree.cells[d] - self.pads[d])
        interval = np.searchsorted(edges, cells, "right") - 1
        first = self.terms[i][d].first - self.tree.leaf_ranges[i][d].first[interval]
        return interval, cells - edges[interval], first

    def _gram(self, d: int, i: int, j: int) -> Array:
        """Return a table of one input, from moments to products of functions of two terms."""
        a, b = self.terms[i][d], self.terms[j][d]
        powers = a.powers
        product = np.zeros((a.fine.cells, 2 * powers + 1, a.degree + 1, b.degree + 1))
        for p in range(a.degree + 1):
            for q in range(b.degree + 1):
                product[:, p + q] += a.pieces[:, :, None, p] * b.pieces[:, None, :, q]
        interval, place, first_a = self._local(d, i)
        first_b = self._local(d, j)[2]
        n, m = self.shapes[i][d], self.shapes[j][d]
        out = np.zeros(
            (len(self.tree.leaf_intervals[d]) - 1, self.lengths[d], 2 * powers + 1, n, m)
        )
        for r in range(a.degree + 1):
            for s in range(b.degree + 1):
                out[interval, place, :, first_a + r, first_b + s] = product[:, :, r, s]
        return out.reshape(len(out), -1, n * m)

    @cached_property
    def values(self) -> list[list[DeviceArray]]:
        """Tables from powers to functions by term and input, (intervals, cells x powers, n)."""
        return [[self._values(d, i) for d in range(self.inputs)] for i in range(len(self.terms))]

    def _values(self, d: int, i: int) -> DeviceArray:
        axis = self.terms[i][d]
        interval, place, first = self._local(d, i)
        n = self.shapes[i][d]
        out = np.zeros((len(self.tree.leaf_intervals[d]) - 1, self.lengths[d], axis.powers + 1, n))
        for r in range(axis.degree + 1):
            out[interval, place, :, first + r] = axis.pieces[:, r]
        return self.move(out.reshape(len(out), -1, n))

    def stiffness(self, axes: list[list[Axis]]) -> list[list[DeviceArray]]:
        """Return tables of K by term and input; a cell of a spline belongs to one interval."""
        return [
            [self.move(self._stiffness(d, i, axis)) for d, axis in enumerate(term)]
            for i, term in enumerate(axes)
        ]

    def _stiffness(self, d: int, i: int, axis: Axis) -> Array:
        n, size, elements = self.shapes[i][d], axis.degree + 1, axis.elements
        out = np.zeros((len(self.tree.leaf_intervals[d]) - 1, len(elements), n, n))
        interval, place = self.spline_cells(d, i)
        for table, element in enumerate(elements):
            for r in range(size):
                for s in range(size):
                    np.add.at(out[:, table], (interval, place + r, place + s), element[:, r, s])
        return out.reshape(len(out), len(elements), n * n)

    def spline_cells(self, d: int, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval of every cell of a term's splines, and its first function's place."""
        starts = self.tree.spaces[i].lines(self.tree.cells)[d].edges[:-1]
        interval = np.searchsorted(self.tree.leaf_intervals[d], starts, "right") - 1
        return interval, np.arange(len(starts)) - self.tree.leaf_ranges[i][d].first[interval]

    def gram(self, moments: DeviceArray, start: int, stop: int, out: DeviceArray) -> None:
        """Add G of leaves ``start`` to ``stop`` to ``out``, (leaves, s, s)."""
        local = self.cut(moments, start, stop, [2 * axis.powers + 1 for axis in self.terms[0]])
        for i, j in self.pairs:
            self._add(out, i, j, self.apply(self.grams[i, j], local, start, stop))

    def apply(
        self,
        tables: list[DeviceArray],
        value: DeviceArray,
        start: int,
        stop: int,
        turn: bool = False,
    ) -> DeviceArray:
        """Apply one table per input to the axes after the leaves', which become the last ones.

        With ``turn``, tables are transposed.
        """
        for d, table in enumerate(tables):
            part = table[self.intervals[d][start:stop]]
            part = permute(part, [0, 2, 1]) if turn else part
            flat = permute(value.reshape(*value.shape[:2], -1), [0, 2, 1]) @ part
            value = flat.reshape(len(flat), *value.shape[2:], part.shape[2])
        return value

    def _add(self, out: DeviceArray, i: int, j: int, value: DeviceArray) -> None:
        """Add a block, from (leaves, n_1 m_1, n_2 m_2, ...) to functions by functions."""
        rows, columns = self.shapes[i], self.shapes[j]
        split = [size for pair in zip(rows, columns, strict=True) for size in pair]
        order = [0, *range(1, 2 * self.inputs, 2), *range(2, 2 * self.inputs + 1, 2)]
        value = permute(value.reshape(-1, *split), order)
        value = value.reshape(-1, prod(rows), prod(columns))
        a, b = self.offsets[i], self.offsets[j]
        out[:, a : a + prod(rows), b : b + prod(columns)] += value
        if i != j:
            out[:, b : b + prod(columns), a : a + prod(rows)] += permute(value, [0, 2, 1])

    def add_stiffness(
        self,
        tables: list[list[DeviceArray]],
        coefficients: list[DeviceArray],
        start: int,
        stop: int,
        out: DeviceArray,
    ) -> None:
        """Add K of leaves ``start`` to ``stop``: sums of products over inputs of tables.

        A term's ``coefficients`` have one axis per input, as long as there are tables along it.
        """
        for i, term in enumerate(tables):
            self._add(out, i, i, self.apply(term, coefficients[i][None], start, stop))

    def polynomials(
        self, blocks: DeviceArray, start: int, stop: int, pair: tuple[int, int]
    ) -> DeviceArray:
        """Return ``phi_i' Z phi_j`` on the cells of leaves, (leaves, cells x moments, ...)."""
        return self.apply(self.grams[pair], self._pairs(blocks, *pair), start, stop, turn=True)

    def _pairs(self, blocks: DeviceArray, i: int, j: int) -> DeviceArray:
        """Return a block of the inverse as (leaves, n_1 m_1, n_2 m_2, ...)."""
        rows, columns = self.shapes[i], self.shapes[j]
        a, b = self.offsets[i], self.offsets[j]
        value = blocks[:, a : a + prod(rows), b : b + prod(columns)].reshape(-1, *rows, *columns)
        D = self.inputs
        value = permute(value, [0, *(axis for d in range(D) for axis in (1 + d, 1 + D + d))])
        return value.reshape(-1, *(n * m for n, m in zip(rows, columns, strict=True)))

    def contract(
        self,
        blocks: DeviceArray,
        tables: list[list[DeviceArray]],
        coefficients: list[DeviceArray],
        start: int,
        stop: int,
    ) -> list[list[DeviceArray]]:
        """Contract the inverse with K along all other inputs, by term and input, (leaves, n n).

        Joint inputs have nothing of their own there; see `tables_form`.
        """
        out = []
        for i, term in enumerate(tables):
            whole, parts = self._pairs(blocks, i, i), []
            for d in range(self.inputs):
                if term[d].shape[1] > 1:
                    parts.append(None)
                    continue
                value = whole
                for e in reversed(range(self.inputs)):
                    if e == d:
                        continue
                    part = term[e][self.intervals[e][start:stop]]
                    if part.shape[1] == 1:
                        value = _contract(value, part[:, 0], 1 + e)
                    else:
                        value = _contract_all(value, part, 1 + e)
                if value.ndim > 2:  # tables of joint inputs, the last one's first
                    weights = coefficients[i].reshape([n for n in coefficients[i].shape if n > 1])
                    weights = permute(weights, list(reversed(range(weights.ndim))))
                    value = (value.reshape(*value.shape[:2], -1) @ weights.reshape(-1, 1))[..., 0]
                parts.append(value)
            out.append(parts)
        return out

    def tables_form(
        self, blocks: DeviceArray, tables: list[DeviceArray], i: int, start: int, stop: int
    ) -> DeviceArray:
        """Contract the inverse with products of tables along all inputs, summed over leaves."""
        return self.apply(tables, self._pairs(blocks, i, i), start, stop, turn=True).sum(0)

    def expand(
        self, blocks: DeviceArray, tables: list[list[DeviceArray]], start: int, stop: int
    ) -> DeviceArray:
        """Turn functions into polynomials, for each column, (leaves, cells x powers, ..., C)."""
        total = 0.0
        for i, term in enumerate(tables):
            a, b = self.offsets[i], self.offsets[i + 1]
            value = blocks[:, a:b].reshape(len(blocks), *self.shapes[i], -1)
            # (leaves, C, cells x powers, ...)
            total = total + self.apply(term, value, start, stop, turn=True)
        return permute(total, [0, *range(2, self.inputs + 2), 1])

    def paste(
        self, parts: DeviceArray, start: int, stop: int, powers: list[int], tensor: DeviceArray
    ) -> None:
        """Write the parts of leaves into an interleaved tensor, which is the reverse of `cut`."""
        where, inside = self._where(start, stop, powers)
        if inside is None:
            tensor[where] = parts
        else:
            spread = [index + 0 * inside for index in where]
            tensor[tuple(index[inside > 0] for index in spread)] = parts[inside > 0]

    def cut(self, tensor: DeviceArray, start: int, stop: int, powers: list[int]) -> DeviceArray:
        """Return the parts of an interleaved tensor on leaves, (leaves, cells x powers, ...).

        They are padded with zeros.
        """
        where, inside = self._where(start, stop, powers)
        out = tensor[where]
        if inside is None:
            return out
        return out * inside.reshape(*inside.shape, *([1] * (out.ndim - inside.ndim)))

    def _where(self, start: int, stop: int, powers: list[int]) -> tuple[tuple, DeviceArray]:
        """Return the places of leaves in an interleaved tensor, and 1 where there is no padding."""
        where, inside = [], None
        for d, p in enumerate(powers):
            index, good = self._places(d, p)
            interval = self.intervals[d][start:stop]
            shape = [stop - start, *([1] * self.inputs)]
            shape[1 + d] = index.shape[1]
            where.append(index[interval].reshape(shape))
            if good is not None:
                along = good[interval].reshape(shape)
                inside = along if inside is None else inside * along
        if inside is not None:
            for index in where:
                inside = inside + 0 * index
        return tuple(where), inside

    def _places(self, d: int, p: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Return the places of intervals in a tensor of p powers a cell, and 1 where they are.

        The latter is None if there is no padding.
        """
        if (d, p) not in self._placed:
            edges, pad = self.tree.leaf_intervals[d], self.pads[d]
            begin, cells = edges - pad, self.tree.cells[d] - 2 * pad
            index = begin[:-1, None] * p + np.arange(self.lengths[d] * p)
            good = (index >= 0) & (index < np.minimum(begin[1:, None], cells) * p)
            inside = None if good.all() else self.move(good.astype(np.int64))
            self._placed[d, p] = self.move(np.where(good, index, 0)), inside
        return self._placed[d, p]


def _contract(value: DeviceArray, vector: DeviceArray, axis: int) -> DeviceArray:
    """Sum one axis against a vector per leaf."""
    shape = [len(vector), *([1] * (value.ndim - 1))]
    shape[axis] = vector.shape[1]
    return (value * vector.reshape(shape)).sum(axis)


def _contract_all(value: DeviceArray, part: DeviceArray, axis: int) -> DeviceArray:
    """Contract one axis with several vectors per leaf, (leaves, vectors, n), which go last."""
    order = [*(d for d in range(value.ndim) if d != axis), axis]
    moved = permute(value, order)
    flat = moved.reshape(len(moved), -1, moved.shape[-1]) @ permute(part, [0, 2, 1])
    return flat.reshape(*moved.shape[:-1], part.shape[1])


def permute(array: DeviceArray, order: list[int]) -> DeviceArray:
    """Return an array with its axes in another order."""
    return array.permute(order) if hasattr(array, "permute") else array.transpose(order)


def add_rows(total: DeviceArray, rows: DeviceArray, values: DeviceArray) -> None:
    """Do ``total[rows] += values``, where rows may be repeated."""
    if hasattr(total, "index_add_"):
        total.index_add_(0, rows, values)
    else:
        np.add.at(total, rows, values)


def outer(parts, counts) -> tuple[np.ndarray, Array]:
    """Return flat function numbers and weights of products of rows, (n, functions).

    ``parts`` are the numbers along every input, of ``counts`` functions, and the weights.
    """
    n = len(parts[0][0])
    index, weights = np.zeros((n, 1), dtype=np.int64), np.ones((n, 1))
    for (place, factors), count in zip(parts, counts, strict=True):
        shape = n, index.shape[1] * factors.shape[1]
        index = (index[:, :, None] * count + place[:, None, :]).reshape(shape)
        weights = (weights[:, :, None] * factors[:, None, :]).reshape(shape)
    return index, weights
