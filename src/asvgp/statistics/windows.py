"""Quadrature rules of windows: what of the inputs was observed, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.statistics.nodes import Nodes

Box = tuple[tuple[float, float], ...]  # one interval per input


class Pieces(NamedTuple):
    """Parts of cells, each a box."""

    low: tuple[Array, ...]  # one array for each input
    high: tuple[Array, ...]
    cells: Array  # flat index of the cell that a piece is of

    @property
    def sizes(self) -> Array:
        """Length, area or volume of every piece."""
        return np.prod(np.subtract(self.high, self.low), axis=0)

    def at(self, *shares: Array) -> tuple[Array, ...]:
        """Return places in the pieces, given by shares of their sides."""
        ends = zip(self.low, self.high, shares, strict=True)
        return tuple(low + share * (high - low) for low, high, share in ends)


def window_pieces(grids: Sequence[Grid], boxes: Sequence[Box]) -> Pieces:
    """Return the parts of cells that boxes hold.

    Examples
    --------
    >>> from asvgp.basis import Grid
    >>> pieces = window_pieces([Grid(0.0, 6.0, cells=2)], [((2.0, 5.0),)])
    >>> pieces.low[0].tolist(), pieces.high[0].tolist(), pieces.cells.tolist()
    ([2.0, 3.0], [3.0, 5.0], [0, 1])
    """
    shape = tuple(grid.cells for grid in grids)
    found = []
    for box in boxes:
        cuts = [_cut(grid, *ends) for grid, ends in zip(grids, box, strict=True)]
        cells, low, high = (np.meshgrid(*[cut[i] for cut in cuts], indexing="ij") for i in range(3))
        found.append((*low, *high, np.ravel_multi_index(cells, shape)))
    columns = [np.concatenate([np.ravel(part[i]) for part in found]) for i in range(len(found[0]))]
    inputs = len(shape)
    return Pieces(tuple(columns[:inputs]), tuple(columns[inputs:-1]), columns[-1])


def _cut(grid: Grid, low: float, high: float) -> tuple[Array, Array, Array]:
    """Return the cells that an interval meets, and where it begins and ends in each."""
    knots = grid.lower + np.arange(grid.cells + 1) * grid.spacing
    knots[-1] = grid.upper
    begin, end = np.maximum(knots[:-1], low), np.minimum(knots[1:], high)
    cells = np.flatnonzero(end > begin)
    return cells, begin[cells], end[cells]


def window_nodes(grids: Sequence[Grid], boxes: Sequence[Box], number: Sequence[int]) -> Nodes:
    """Return Gauss's rule of length, area or volume on the parts of cells that boxes hold.

    A part has ``number`` nodes along each input. Masses are in the units of the inputs multiplied;
    their sum is the size of the boxes, which do not overlap.

    Examples
    --------
    >>> from asvgp.basis import Grid
    >>> nodes = window_nodes([Grid(0.0, 6.0, cells=2)], [((2.0, 5.0),)], [1])
    >>> nodes.inputs[0].tolist(), nodes.masses.tolist(), nodes.cells.tolist()
    ([2.5, 4.0], [1.0, 2.0], [0, 1])
    """
    pieces = window_pieces(grids, boxes)
    rules = [np.polynomial.legendre.leggauss(n) for n in number]
    shares = np.meshgrid(*[0.5 + 0.5 * nodes for nodes, _ in rules], indexing="ij")
    weights = np.ones(1)
    for _, along in rules:
        weights = np.multiply.outer(weights, 0.5 * along).ravel()
    each = np.repeat(np.arange(len(pieces.cells)), len(weights))
    wide = Pieces(
        tuple(low[each] for low in pieces.low), tuple(high[each] for high in pieces.high), each
    )
    inputs = wide.at(*[np.tile(share.ravel(), len(pieces.cells)) for share in shares])
    return Nodes(inputs, np.multiply.outer(pieces.sizes, weights).ravel(), pieces.cells[each])


def inside(boxes: Sequence[Box], columns: Sequence[Array]) -> Array:
    """Return True for places that any box holds, its ends included."""
    out = np.zeros(len(columns[0]), dtype=bool)
    for box in boxes:
        here = np.ones(len(out), dtype=bool)
        for (low, high), x in zip(box, columns, strict=True):
            here &= (x >= low) & (x <= high)
        out |= here
    return out
