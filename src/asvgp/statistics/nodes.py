"""Quadrature rules of the inputs: few points with masses in place of many rows.

A sum over all rows of a smooth function of the inputs is an integral by the weighted measure that
the rows are. On every cell of the main block, the moments that `Statistics` keep give a rule for
it with few nodes and positive masses, exact for polynomials whose moments are kept. Functions that
are no polynomials, such as log likelihoods, can then be summed without the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.linalg.cells.cubature import cubature, legendre_tables, small_powers
from asvgp.linalg.cells.gauss import MOST_NODES, gauss_rules, legendre_moments
from asvgp.runtime.parallel import each_share
from asvgp.statistics.nesting import each
from asvgp.statistics.statistics import Statistics

# [total degree] By inputs: what rules reproduce at most. Of one input digits end here, of several
# a rule would take more time than it saves.
MOST_TOTAL = {1: 2 * MOST_NODES - 1, 2: 6, 3: 4, 4: 4}


class Nodes(NamedTuple):
    """Points with masses, in the order of their cells.

    Attributes
    ----------
    inputs : tuple of ndarray of shape (n,)
        One array for each input of the main block, in its units.
    masses : ndarray of shape (n,)
        All positive.
    cells : ndarray of shape (n,)
        Flat index of the cell that a node belongs to. One that is on a knot belongs to the cell
        that it came from.
    """

    inputs: tuple[Array, ...]
    masses: Array
    cells: Array


def nodes_of(stats: Statistics) -> Nodes:
    """Return a quadrature rule of the weighted measure of the inputs, cell by cell.

    With one input, a cell gets ``degree + 1`` nodes at most, seven at most, which reproduce all
    moments of the cell (with seven nodes, those up to s**13); fewer where it holds fewer distinct
    points, which then are the nodes themselves. Cells without data get none.

    With several inputs, a cell gets at most the product of ``degree + 1`` over the inputs, with at
    most 4 (two inputs) or 3 along each. Mass and means are exact to rounding, and so are all
    moments up to the total degree ``2 * max(degrees)``, at most 6 (two inputs) or 4, in cells
    whose points are many, or so few that they are found; between the two, where hardly any
    positive rule but the points themselves is exact, they are wrong by up to some 1e-4 of the
    mass. `matched` tells.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> x = np.array([0.1, 0.1, 0.7, 2.5])
    >>> stats = Statistics.from_data(x, np.zeros(4), Grid(0.0, 3.0, cells=3), degree=2)
    >>> nodes = nodes_of(stats)
    >>> nodes.inputs[0].round(6).tolist(), nodes.masses.round(6).tolist(), nodes.cells.tolist()
    ([0.1, 0.7, 2.5], [2.0, 1.0, 1.0], [0, 0, 2])
    """
    _check(stats)
    if len(stats.grids) == 1:
        local, masses = _line_rules(stats.moments, _rows(stats))
        local = local[:, :, None]
    else:
        local, masses = _box_rules(stats)
    cells, at = np.nonzero(masses)
    places = np.unravel_index(cells, tuple(grid.cells for grid in stats.grids))
    inputs = tuple(
        _unit(grid, place, local[cells, at, d])
        for d, (grid, place) in enumerate(zip(stats.grids, places, strict=True))
    )
    return Nodes(inputs, masses[cells, at], cells)


def lebesgue_nodes(grids: Sequence[Grid], number: int | Sequence[int]) -> Nodes:
    """Return Gauss's rule of length, area or volume on every cell, ``number`` nodes along inputs.

    Masses are in the units of the inputs multiplied; their sum is the size of the domain.

    Examples
    --------
    >>> from asvgp.basis import Grid
    >>> nodes = lebesgue_nodes([Grid(0.0, 6.0, cells=2)], 2)
    >>> nodes.inputs[0].round(3).tolist(), nodes.masses.tolist(), nodes.cells.tolist()
    ([0.634, 2.366, 3.634, 5.366], [1.5, 1.5, 1.5, 1.5], [0, 0, 1, 1])
    """
    numbers = each("number", number, len(grids))
    rules = [np.polynomial.legendre.leggauss(n) for n in numbers]
    shape = tuple(grid.cells for grid in grids)
    cells = np.arange(int(np.prod(shape)))
    corners = np.meshgrid(*[(t + 1.0) / 2.0 for t, _ in rules], indexing="ij")
    masses = np.ones(1)
    for grid, (_, weights) in zip(grids, rules, strict=True):
        masses = np.multiply.outer(masses, weights * (0.5 * grid.spacing)).ravel()
    inputs = tuple(
        _unit(grid, place[:, None], corner.ravel()).ravel()
        for grid, place, corner in zip(grids, np.unravel_index(cells, shape), corners, strict=True)
    )
    return Nodes(inputs, np.tile(masses, len(cells)), np.repeat(cells, len(masses)))


def local_coordinates(grids: Sequence[Grid], nodes: Nodes) -> tuple[Array, ...]:
    """Return the places of nodes in their own cells, in [0, 1], one array for each input."""
    places = np.unravel_index(nodes.cells, tuple(grid.cells for grid in grids))
    return tuple(
        np.clip((x - grid.lower) / grid.spacing - place, 0.0, 1.0)
        for grid, x, place in zip(grids, nodes.inputs, places, strict=True)
    )


def matched(stats: Statistics, nodes: Nodes, *, all_powers: bool = False) -> float:
    """Return the largest error of a moment by the nodes, as a share of its cell's mass.

    Moments are those that `nodes_of` means to reproduce, or all that the statistics hold.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> x = np.random.default_rng(0).uniform(0.0, 1.0, 1000)
    >>> stats = Statistics.from_data(x, x, Grid(0.0, 1.0, cells=10), degree=3)
    >>> matched(stats, nodes_of(stats)) < 1e-12
    True
    """
    _check(stats)
    inputs = len(stats.grids)
    wanted = stats.moments.reshape(stats.cell_weights.size, *stats.moments.shape[inputs:])
    mass = wanted[(slice(None), *[0] * inputs)]
    there, scale = mass > 0.0, np.where(mass > 0.0, mass, 1.0)
    local = local_coordinates(stats.grids, nodes)
    worst, total = 0.0, sum(wanted.shape) if all_powers else _total(stats.degrees)
    for powers in small_powers(wanted.shape[1:], total):
        values = nodes.masses.copy()
        for s, power in zip(local, powers, strict=True):
            values *= s**power
        have = np.bincount(nodes.cells, values, len(wanted))
        error = np.abs(have - wanted[(slice(None), *powers)]) / scale
        worst = max(worst, float(error[there].max(initial=0.0)))
    return worst


def _total(degrees: tuple[int, ...]) -> int:
    """Return the total degree up to which rules reproduce moments."""
    return min(2 * max(degrees), MOST_TOTAL[len(degrees)])


def _line_rules(moments: Array, rows: Array) -> tuple[Array, Array]:
    """Return local nodes and masses of one-dimensional measures, both (cells, n)."""
    most = min((moments.shape[1] + 1) // 2, MOST_NODES)
    legendre, b = legendre_moments(min(moments.shape[1], 2 * most))
    nodes, masses = np.empty((len(moments), most)), np.empty((len(moments), most))
    moments = np.ascontiguousarray(moments)
    each_share(
        len(moments),
        lambda begin, end: gauss_rules(moments, legendre, b, rows, begin, end, nodes, masses),
    )
    return nodes, masses


def _box_rules(stats: Statistics) -> tuple[Array, Array]:
    """Return local nodes (cells, n, D) and masses (cells, n) of measures on boxes."""
    inputs = len(stats.grids)
    total = _total(stats.degrees)
    sizes = tuple(min(2 * k, total) + 1 for k in stats.degrees)
    kept = stats.moments[(..., *[slice(size) for size in sizes])]
    moments = np.ascontiguousarray(kept.reshape(-1, prod(sizes)))
    powers = small_powers(sizes, total)
    legendre, b, norms = legendre_tables(max(sizes))
    mass = np.where(moments[:, 0] > 0.0, moments[:, 0], 1.0)
    wanted = (moments / mass[:, None]).reshape(-1, *sizes)
    for d, size in enumerate(sizes):
        wanted = np.moveaxis(np.moveaxis(wanted, d + 1, -1) @ legendre[:size, :size].T, -1, d + 1)
    wanted = np.ascontiguousarray(wanted[(slice(None), *powers.T)])
    most = prod((size + 1) // 2 for size in sizes)
    places, masses = np.empty((len(moments), most, inputs)), np.empty((len(moments), most))
    tables = powers, _multiplied(sizes), wanted, legendre, b, norms, _rows(stats)

    def work(begin: int, end: int) -> None:
        share = begin // len(powers), end // len(powers)
        cubature(moments, np.array(sizes), *tables, *share, places, masses)

    each_share(wanted.size, work)  # a cell costs as much as many rows
    return places, masses


def _multiplied(sizes: tuple[int, ...]) -> Array:
    """Return the flat places of powers whose products, times an input, are below ``sizes``.

    The last one is a power of the first input more, of which products without one are there.
    """
    below = tuple((size - 1) // 2 for size in sizes)
    powers = [*sorted(np.ndindex(*below), key=sum), (below[0], *[0] * (len(sizes) - 1))]
    return np.array([np.ravel_multi_index(p, sizes) for p in powers], dtype=np.int64)


def _unit(grid: Grid, cells: Array, local: Array) -> Array:
    """Return places in cells in the units of the input, not past the end by rounding."""
    return np.minimum(grid.lower + (cells + local) * grid.spacing, grid.upper)


def _rows(stats: Statistics) -> Array:
    """Return about how many rows were added up in every cell: their share by weight."""
    weights = np.maximum(stats.cell_weights.ravel(), 0.0)
    return weights * (stats.count / weights.sum()) if weights.any() else weights


def _check(stats: Statistics) -> None:
    """Refuse statistics whose moments are not those of a positive measure of points."""
    if stats.all_pairs:
        raise ValueError(
            f"{len(stats.widths)} widths of intervals are among the data: moments of averages over "
            "intervals are not moments of points, so there is no quadrature rule of the inputs. "
            "Give observations of single points."
        )
    if not stats.grids:
        raise ValueError("There is no quadrature rule of an additive model: no input has cells.")
    weights = stats.cell_weights
    lost = 1e-15 * max(stats.count, 1) * max(float(weights.max(initial=0.0)), 0.0)
    if not np.all(weights >= -lost):
        cell = np.unravel_index(int(np.argmin(weights)), weights.shape)
        raise ValueError(
            f"Cell {tuple(map(int, cell))} has the negative mass {weights[cell]:.3g}: quadrature "
            "rules of the inputs need weights that are not negative."
        )
