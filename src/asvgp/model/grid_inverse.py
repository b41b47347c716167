"""Read-outs of P^-1 on the leaves: sums for the gradient, and polynomials for variances.

A selected inversion visits P^-1 leaf by leaf; nothing of its size is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.model.devices import DeviceArray, Factor
from asvgp.model.elements import add_rows
from asvgp.model.grid_prior import GridPrior, Window
from asvgp.model.grid_tables import GridTables, LeafBlocks

Consumer = Callable[[int, int, DeviceArray], None]


class InverseSums(NamedTuple):
    """P^-1 as the gradient needs it."""

    terms: list[list[Window | None]]  # by term and input, P^-1 times K along all other inputs
    tables: list[Array]  # by term, P^-1 times products of tables: joint kernels only
    columns: Array  # P^-1 of the global columns
    data: Array  # traces of P^-1 G: those of the terms, then by column


class CellInverse(NamedTuple):
    """P^-1 as predictive variances need it."""

    squares: Array  # phi' P^-1 phi of the main block, (cells, powers)
    cross: Array  # P^-1 between the main block and the columns, (cells, powers, columns), if any
    columns: Array  # P^-1 of the global columns


def inverse_sums(
    tables: GridTables,
    prior: GridPrior,
    gram: LeafBlocks,
    selected_inverse: Callable[[Consumer], None],
) -> InverseSums:
    """Contract P^-1 with K and with G of the leaves, by one selected inversion."""
    leaves, device, columns = tables.leaves, tables.device, tables.plan.columns
    stiffness = leaves.stiffness(prior.axes)
    coefficients = [device.move(term.coefficients) for term in prior.terms]
    sums = [[device.zeros((len(table), table.shape[2])) for table in term] for term in stiffness]
    forms = [device.zeros(tuple(table.shape[1] for table in term)) for term in stiffness]
    of_columns, by_place = np.zeros((columns, columns)), device.zeros((leaves.block,))
    lock = Lock()  # leaves come from several threads

    def consume(start: int, stop: int, blocks: DeviceArray) -> None:
        parts = leaves.contract(blocks, stiffness, coefficients, start, stop)
        own = (blocks * gram[start:stop]).sum((0, 2))
        joint = {
            i: leaves.tables_form(blocks, stiffness[i], i, start, stop)
            for i, term in enumerate(prior.terms)
            if term.joint
        }
        with lock:
            by_place[:] += own
            for total, part in zip(sums, parts, strict=True):
                for d in range(leaves.inputs):
                    if part[d] is not None:
                        add_rows(total[d], leaves.intervals[d][start:stop], part[d])
            for i, form in joint.items():
                forms[i] += form
        if start == 0 and columns:
            of_columns[:] = device.back(blocks[0, -columns:, -columns:])

    selected_inverse(consume)
    windows = [
        [
            None if stiffness[i][d].shape[1] > 1 else _window(tables, i, d, device.back(total))
            for d, total in enumerate(term)
        ]
        for i, term in enumerate(sums)
    ]
    by_place, main = device.back(by_place), leaves.offsets[-1]
    of_terms = np.add.reduceat(by_place[:main], leaves.offsets[:-1])
    data = np.append(of_terms, by_place[main:])
    return InverseSums(windows, [device.back(form) for form in forms], of_columns, data)


def _window(tables: GridTables, number: int, d: int, sums: Array) -> Window:
    """Return sums by interval as sums over the cells of a spline, and at the first of them."""
    leaves, axis = tables.leaves, tables.axes[number][d]
    n, size = leaves.shapes[number][d], axis.degree + 1
    by_interval = sums.reshape(-1, n, n)
    interval, place = leaves.spline_cells(d, number)
    first = slice(place[0], place[0] + size)
    start = by_interval[interval[0], first, first]
    if axis.process is None:
        return np.zeros((1, 1)), start
    total = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            total[i, j] = by_interval[interval, place + i, place + j].sum()
    return total, start


def cell_inverse(tables: GridTables, factor: Factor) -> CellInverse:
    """Turn P^-1 into polynomials per cell, by one selected inversion."""
    leaves, plan, device = tables.leaves, tables.plan, tables.device
    columns, cells = plan.columns, [grid.cells for grid in plan.grids]
    once, twice = ([times * p + 1 for p in plan.powers] for times in (1, 2))
    squares = device.zeros(tuple(n * size for n, size in zip(cells, twice, strict=True)))
    cross = device.zeros((*(n * size for n, size in zip(cells, once, strict=True)), columns))
    of_columns = np.zeros((columns, columns))

    def consume(start: int, stop: int, blocks: DeviceArray) -> None:
        total = 0.0
        for i, j in leaves.pairs:
            part = leaves.polynomials(blocks, start, stop, (i, j))
            total = total + (part if i == j else 2.0 * part)
        leaves.paste(total, start, stop, twice, squares)
        if columns:
            if start == 0:
                of_columns[:] = device.back(blocks[0, -columns:, -columns:])
            part = leaves.expand(blocks[:, :, -columns:], leaves.values, start, stop)
            leaves.paste(part, start, stop, once, cross)

    factor.selected_inverse(consume)
    by_cell = tables.by_cell(device.back(squares), 2)
    if not columns:
        return CellInverse(by_cell, np.empty((len(by_cell), 0, 0)), of_columns)
    return CellInverse(by_cell, tables.by_cell(device.back(cross)), of_columns)
