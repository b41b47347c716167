"""How fine the splines of every term are along every input.

The *level* of a term along an input says how often its cells are the grid's cells doubled. Along
one input the share of its variance that a process loses on splines depends on that input alone,
so that the marginal moments tell, at any width of the cells, what a term's splines miss. There are
two answers to "which level?":

- `levels_by_tolerance`: cells as wide as a tolerance on the missed variance allows, with at
  least `FIELD.shortest_length` of them per lengthscale, fewer being no longer the process;
- `levels_by_data`: cells as fine as the data are dense.

Whether so many cells leave enough digits is measured where P is factored
(`asvgp.model.conditioning`); where they do not, `widest_side` says which cells to double.

The tolerance depends on the objective. The bound pays for missed variance in units of the noise.
The evidence of the spline field does not pay, but predictions add what is missed to their
variance: it is kept below a share of how much neighbouring data differ, and cells are never
finer than the data. A *coarsening* is the width of a stage's cells in finest cells along every
input (`first_coarsening`, `next_coarsening`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, exp, log, log2, prod

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import AlongJoint, Component, Kernel, Periodic
from asvgp.model.axis import Axis
from asvgp.model.closed import axis_of
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.statistics import Statistics

_EPS = float(np.finfo(float).eps)
_LARGEST = 500.0  # logarithm, so that sums and products of what is larger stay finite


def marginal_moments(stats: Statistics) -> list[Array]:
    """Return the moments along each input of the main block, the others summed over."""
    D, out = len(stats.grids), []
    for d in range(D):
        powers = (slice(None) if e == d else 0 for e in range(D))
        reduced = stats.moments[..., *powers]  # (cells..., powers_d)
        out.append(reduced.sum(axis=tuple(e for e in range(D) if e != d)))
    return out


def scale_of(process: Component) -> float:
    """Return the length that cells must resolve."""
    return process.resolved_length


def most_doublings(grid: Grid) -> int:
    """Return how often cells may be doubled: until there are two, or around a circle a few.

    Examples
    --------
    >>> most_doublings(Grid(0.0, 1.0, 48)), most_doublings(Grid(0.0, 1.0, 48, cyclic=True))
    (4, 2)
    """
    if not grid.cyclic:
        return _allowed(grid, int(log2(max(grid.cells / 2, 1))))
    return len(circle_widths(grid, 2)) - 1


def _allowed(grid: Grid, level: int) -> int:
    """Return a number of doublings, or the next smaller one that a grid has."""
    while level > 0 and not grid.coarsens(2**level):
        level -= 1
    return level


def circle_widths(grid: Grid, base: int = 1) -> list[int]:
    """Return the widths of wider cells that divide a circle evenly; the powers of a base, if any.

    Examples
    --------
    >>> circle_widths(Grid(0.0, 1.0, 48, cyclic=True)), circle_widths(Grid(0.0, 1.0, 40, True), 2)
    ([1, 2, 3, 4, 6], [1, 2, 4])
    """
    most = max(grid.cells // FIELD.fewest_circle_cells, 1)
    widths = [n for n in range(1, most + 1) if grid.cells % n == 0]
    return [n for n in widths if base == 1 or base ** round(log2(n) / log2(base)) == n]


def _widest_level(axis: Axis, moments: Array, tolerated: float) -> int:
    """Return how often the cells of an axis may be doubled.

    ``tolerated`` is the share of its variance that may be missed; ``moments`` are the marginal
    ones along this input, (cells, 2 powers + 1).
    """
    process, grid = axis.process, axis.fine
    assert process is not None
    ratio, weight = scale_of(process) / grid.spacing, float(moments[:, 0].sum())
    level = min(int(log2(max(ratio / FIELD.shortest_length, 1.0))), most_doublings(grid))
    while level > 0:
        wide = axis_of(process, grid, axis.degree, level, axis.powers)
        if 1.0 - wide.trace(moments)[0] / weight <= tolerated:
            break
        level -= 1
    return level


def levels_by_tolerance(
    kernel: Kernel,
    noise: float,
    plan: Plan,
    moments: list[Array],
    count: float,
    objective: str,
    scatter: float = 0.0,
) -> tuple[tuple[int, ...], ...]:
    """Return the widest levels that a tolerance on the missed variance allows.

    One per term and input of the main block, at these hyperparameters. ``moments`` are the
    marginal ones, on the plan's grids; ``scatter`` is the variance between neighbouring data.
    """
    least, tolerated = (0,) * len(plan.grids), 2.0 * FIELD.tolerated_loss * noise
    if objective == "evidence":
        least = levels_by_data(kernel, plan, moments, count)
        tolerated = FIELD.tolerated_scatter * max(scatter, noise)
    levels = []
    for term, axes in zip(plan.terms, plan.axes(kernel), strict=True):
        along = []
        for axis, marginal, lowest in zip(axes, moments, least, strict=True):
            level = 0
            if axis.process is not None:
                share = float(marginal[:, 0].sum()) / count
                variance = kernel.components[term].variance * share
                level = max(_widest_level(axis, marginal, tolerated / variance), lowest)
            along.append(level)
        levels.append(tuple(along))
    return tuple(levels)


def levels_by_data(
    kernel: Kernel | None, plan: Plan, moments: list[Array], count: float
) -> tuple[int, ...]:
    """Return levels below which there are more cells than data, along every input.

    Data on a grid leave cells empty along an input that are narrower than its spacing. Beyond
    that, cells become wider first where lengths allow; without a kernel, lengths are taken to
    be alike in cells.
    """
    lengths = np.full(len(plan.grids), np.inf if kernel else 1.0)
    for axes in plan.axes(kernel) if kernel else ():
        for d, axis in enumerate(axes):
            if axis.process is not None:
                lengths[d] = min(lengths[d], scale_of(axis.process) / axis.fine.spacing)
    levels = np.zeros(len(plan.grids), dtype=np.int64)
    cells = np.array([float(grid.cells) for grid in plan.grids])
    most = np.array([_doublings_by_data(grid) for grid in plan.grids])

    def widen(d: int) -> None:
        levels[d] += 1
        cells[d] /= 2.0
        lengths[d] /= 2.0

    for d, marginal in enumerate(moments):
        occupied = np.count_nonzero(marginal[:, 0])
        while cells[d] > FIELD.cells_per_place * occupied and levels[d] < most[d]:
            widen(d)
    while cells.prod() > FIELD.cells_per_datum * count and np.any(levels < most):
        widen(int(np.argmax(np.where(levels < most, lengths, -1.0))))
    return tuple(levels.tolist())


def _doublings_by_data(grid: Grid) -> int:
    """Return how often cells may be doubled for want of data: a line's until two are left."""
    if grid.cyclic:
        return most_doublings(grid)
    return _allowed(grid, ceil(log2(max(grid.cells / 2, 1))))


def stiffness(axes: Sequence[Axis]) -> float:
    """Return by how much rough functions of a term are stiffer than smooth ones, in logarithms.

    That is about the product over inputs of (lengthscale in cells)**(2 order + 2). The highest
    power of a joint kernel is one for all of its inputs, here shared out among them.
    """
    total = 0.0
    for axis in axes:
        if axis.process is None:
            continue
        power = 2.0 * (axis.process.order + 1.0)
        if isinstance(axis.process, AlongJoint):
            power = axis.process.alpha / (axis.process.alpha - axis.process.nu)
        cells = _in_cells(axis)
        if isinstance(axis.process, Periodic):  # longer than its period
            cells = max(cells, axis.process.lengthscale / axis.grid.spacing)
        total += power * log(max(cells, 1.0))
    return total


def rounding_error(terms: Sequence[Sequence[Axis]], signal: float) -> float:
    """Return about the most that rounding can add to log|P|, to see where it is to be measured.

    ``terms`` are the axes of all of them, ``signal`` is the variance of the prior over that of the
    noise, summed over the data. Most data leave an error thousands of times smaller.
    """
    stiff = sum(exp(min(stiffness(axes), _LARGEST)) for axes in terms)
    return _EPS * (stiff + signal)


def _in_cells(axis: Axis) -> float:
    """Return the lengthscale in cells; zero for a constant."""
    return 0.0 if axis.process is None else scale_of(axis.process) / axis.grid.spacing


def widest_side(terms: Sequence[Sequence[Axis]]) -> tuple[int, int] | None:
    """Return the term, and its input, whose cells to double first to regain digits.

    ``terms`` are the axes of all of them. Of the stiffest that can have wider cells, it is the
    input with the longest lengthscale in cells. None if all have two.
    """
    wide = [[_in_cells(a) if most_doublings(a.grid) else 0.0 for a in axes] for axes in terms]
    able = [number for number, along in enumerate(wide) if max(along) > 0.0]
    if not able:
        return None
    worst = max(able, key=lambda number: stiffness(terms[number]))
    return worst, int(np.argmax(wide[worst]))


def coarsened_plan(plan: Plan, coarsening: tuple[int, ...]) -> Plan:
    """Return the plan on cells so many times as wide, with levels zero."""
    grids = tuple(grid.coarsen(times) for grid, times in zip(plan.grids, coarsening, strict=True))
    return replace(plan, grids=grids, levels=tuple((0,) * len(grids) for _ in plan.terms))


def first_coarsening(plan: Plan, lengths: Mapping[int, float] | None = None) -> tuple[int, ...]:
    """Return a coarsening with few enough cells to explore on, in the plan's proportions.

    Inputs along which known ``lengths`` would not show on such cells get finer ones.
    """
    inputs = len(plan.grids)
    few = FIELD.first_cells[inputs] ** inputs
    cells = [grid.cells for grid in plan.grids]
    coarsening = [1] * inputs
    while prod(ceil(n / times) for n, times in zip(cells, coarsening, strict=True)) > few:
        wide = [
            d
            for d, grid in enumerate(plan.grids)
            if cells[d] > 4 * coarsening[d] and coarsening[d] < 2 ** most_doublings(grid)
        ]
        if not wide:
            break
        for d in wide:
            coarsening[d] *= 2
    for d, (column, grid) in enumerate(zip(plan.inputs, plan.grids, strict=True)):
        visible = FIELD.visible_length * grid.spacing
        while lengths and coarsening[d] > 1 and lengths[column] < coarsening[d] * visible:
            coarsening[d] //= 2
    return tuple(coarsening)


def next_coarsening(
    now: tuple[int, ...],
    levels: tuple[tuple[int, ...], ...],
    plan: Plan,
    kernel: Kernel,
    at_once: bool = False,
) -> tuple[int, ...]:
    """Return the next coarsening on the way to the finest of the terms' levels.

    Without ``at_once`` that is one step: to cells a quarter as wide, or with more than two
    inputs half, where work grows so fast that the step before is next to nothing, and starts
    the last one nearer to its end.
    """
    step = 4 if len(now) < 3 else 2
    terms = list(zip(plan.axes(kernel), levels, strict=True))
    coarsening = []
    for d, times in enumerate(now):
        finest = 2 ** min(along[d] for axes, along in terms if axes[d].process is not None)
        coarsening.append(max(min(times, finest), 1 if at_once else times // step, 1))
    return tuple(coarsening)
