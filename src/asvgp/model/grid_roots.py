"""P of several inputs factored by square roots, where its elimination loses too many digits.

A leaf's element is A^T A, with the rows of the terms' operators at the Gauss nodes of its cells,
input by input, above a square root of its G. Global columns have no share of their own in a leaf:
the main block is factored without them, and they border it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag

from asvgp.basis import Array
from asvgp.linalg.multifrontal.bordered import BorderedFactor, root_of
from asvgp.linalg.multifrontal.dense import DenseFactor
from asvgp.linalg.multifrontal.roots import RootFactor
from asvgp.model.axis import Axis
from asvgp.model.devices import Cpu, Factor
from asvgp.model.elements import Leaves
from asvgp.model.grid_prior import GridPrior

if TYPE_CHECKING:
    from asvgp.model.grid import GridEngine


def root_factor(engine: GridEngine, prior: GridPrior, noise: float) -> Factor:
    """Return P's factor by square roots, on the CPU."""
    plan, tables, stats = engine.plan, engine.tables, engine.statistics
    of_smooths = [part.axis.root.toarray() * part.variance**-0.5 for part in prior.smooths]
    rows = np.asarray(block_diag(*of_smooths, root_of(engine.effects_prior)))
    if not engine.inputs:
        return DenseFactor.of_rows(np.append(rows, root_of(stats.column_gram / noise), axis=0))
    main = _main_factor(engine, prior, noise)
    if not plan.columns:
        return main
    units = np.zeros((engine.size, plan.columns))
    np.fill_diagonal(units[tables.main :], 1.0)
    cross = tables.multiply(engine.gram, units)[: tables.main] / noise

    def multiply(values: Array) -> Array:
        padded = np.append(values, np.zeros((plan.columns, values.shape[1])), axis=0)
        return engine.multiply(prior, noise, padded)[0][: tables.main]

    return BorderedFactor(main, cross, stats.column_gram / noise, rows, multiply)


def _main_factor(engine: GridEngine, prior: GridPrior, noise: float) -> RootFactor:
    """Return the factor of the main block."""
    device, leaves = engine.device, engine.tables.leaves
    assert isinstance(device, Cpu)
    own, data = leaves.block - engine.plan.columns, engine.gram_roots
    tables = [
        [_root_table(leaves, d, i, axis) for d, axis in enumerate(term)]
        for i, term in enumerate(prior.axes)
    ]

    def elements(start: int, stop: int) -> Array:
        parts = [_products(leaves, term, start, stop) for term in tables]
        out = np.zeros((stop - start, sum(part.shape[1] for part in parts) + own, own))
        first = 0
        for i, (part, term) in enumerate(zip(parts, prior.terms, strict=True)):
            columns = slice(leaves.offsets[i], leaves.offsets[i + 1])
            out[:, first : first + part.shape[1], columns] = part * term.variance**-0.5
            first += part.shape[1]
        out[:, first:] = data[start:stop] * noise**-0.5
        return out

    return RootFactor(
        engine.tables.main_tree,
        elements,
        workspace=device.workspace,
        panels=engine.tables.panels,
    )


def _root_table(leaves: Leaves, d: int, i: int, axis: Axis) -> Array:
    """Return rows of K along one input by interval, (intervals, rows, n), triangular."""
    n, size = leaves.shapes[i][d], axis.degree + 1
    intervals = len(leaves.tree.leaf_intervals[d]) - 1
    element, boundary = axis.root_blocks
    if axis.process is None:
        out = np.zeros((intervals, len(boundary), n))
    else:
        interval, place = leaves.spline_cells(d, i)
        begin = np.searchsorted(interval, interval, "left")
        turn = np.arange(len(interval)) - begin  # number of a cell in its interval
        shape = intervals, int(turn.max()) + 1, len(element), n
        out = np.zeros(shape)
        for r in range(size):
            out[interval, turn, :, place + r] = element[:, r]
        out = out.reshape(intervals, -1, n)
        first = np.zeros((intervals, len(boundary), n))
        out = np.concatenate([first, out], axis=1)
    out[0, : len(boundary), :size] = boundary
    return np.asarray(np.linalg.qr(out, mode="r")) if out.shape[1] > n else out


def _products(leaves: Leaves, tables: list[Array], start: int, stop: int) -> Array:
    """Return Kronecker products of the tables of leaves, (leaves, rows, functions)."""
    value = np.ones((stop - start, 1, 1))
    for table, places in zip(tables, leaves.intervals, strict=True):
        part = table[places[start:stop]]
        value = value[:, :, None, :, None] * part[:, None, :, None, :]
        rows, columns = value.shape[1] * value.shape[2], value.shape[3] * value.shape[4]
        value = value.reshape(stop - start, rows, columns)
    return value
