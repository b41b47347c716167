"""Read-outs of P^-1 of a series: polynomials per cell for variances, and blocks at both ends.

A selected inversion visits P^-1 leaf by leaf; nothing of its size is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.linalg.cells import elements as loops
from asvgp.model.series.engine import SeriesFactored
from asvgp.model.series.tables import SeriesTables
from asvgp.model.series.terms import Season


class SeriesInverse(NamedTuple):
    """P^-1 as predictions need it."""

    squares: Array  # phi' P^-1 phi of all components, (cells, powers)
    cross: Array  # P^-1 between them and the effects, (cells, powers, effects)
    ends: Array  # P^-1 of the functions that act beyond each end, (2, n, n)


def end_numbers(tables: SeriesTables) -> np.ndarray:
    """Return the numbers of all functions that values beyond each end depend on, (2, n).

    These are the functions along the line on the end cell, for every phase, all functions around
    circles, and the effects.
    """
    last = tables.plan.grid.cells - 1
    ends = []
    for cell in (0, last):
        parts = []
        for term, offset in zip(tables.terms, tables.offsets, strict=True):
            if isinstance(term, Season):
                own = np.arange(term.size)
            else:
                own = term.element_numbers[cell >> term.level]
            parts.append(own + offset)
        effects = np.arange(tables.size - tables.plan.effects, tables.size)
        ends.append(np.concatenate([*parts, effects]))
    return np.stack(ends)


def series_inverse(factored: SeriesFactored) -> SeriesInverse:
    """Turn P^-1 into polynomials per cell and blocks at the ends, by one selected inversion."""
    tables = factored.engine.tables
    cells, powers, effects = tables.plan.grid.cells, tables.plan.powers, tables.plan.effects
    squares, cross = np.zeros((cells, 2 * powers + 1)), np.zeros((cells, powers + 1, effects))
    numbers, edges, chosen = end_numbers(tables), tables.edges, tables.chosen(None)
    leaves = len(edges) - 1
    places = tables.places_on_leaves(np.array([0, leaves - 1]), numbers)
    ends = np.empty((2, numbers.shape[1], numbers.shape[1]))
    groups, table = tables.groups

    def consume(start: int, stop: int, blocks: Array) -> None:
        where = start, stop, edges, groups, table, tables.places
        loops.add_squares(*where, chosen, blocks, tables.work(), squares)
        if effects:
            loops.add_cross(*where, blocks, tables.work(), cross)
        for side, leaf in enumerate((0, leaves - 1)):
            if start <= leaf < stop:
                ends[side] = blocks[leaf - start][np.ix_(places[side], places[side])]

    factored.solution.factor.selected_inverse(consume)
    return SeriesInverse(squares, cross, ends)


def component_squares(factored: SeriesFactored, order: int = 0) -> Array:
    """Return ``phi' P^-1 phi`` of a derivative of each component, (components, cells, powers).

    The last row is of their sum.
    """
    tables = factored.engine.tables
    grid, powers, count = tables.plan.grid, tables.plan.powers, len(tables.terms)
    out = np.zeros((count + 1, grid.cells, 2 * powers + 1))
    edges, (groups, table) = tables.edges, tables.groups
    table = differentiate(table.reshape(-1, powers + 1), grid, order).ravel()
    which = [tables.chosen(number) for number in [*range(count), None]]

    def consume(start: int, stop: int, blocks: Array) -> None:
        where = start, stop, edges, groups, table, tables.places
        for chosen, part in zip(which, out, strict=True):
            loops.add_squares(*where, chosen, blocks, tables.work(), part)

    factored.solution.factor.selected_inverse(consume)
    return out


def differentiate(polynomials: Array, grid: Grid, order: int, axis: int = -1) -> Array:
    """Return derivatives along the input of polynomials in s, with as many powers."""
    out = np.moveaxis(polynomials, axis, -1)
    for _ in range(order):
        down = np.zeros_like(out)
        down[..., :-1] = out[..., 1:] * np.arange(1, out.shape[-1]) / grid.spacing
        out = down
    return np.ascontiguousarray(np.moveaxis(out, -1, axis))
