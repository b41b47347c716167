"""How fine the splines of every term are along every input.

Along one input the share of its variance that a process loses on splines is a matter of
that input alone. So it is known from the marginal moments, at any width of the cells, what
a term's splines miss: the cells are made as wide as a tolerance on that allows, within
limits on the lengthscale in cells. Fewer than `FIELD.shortest_length` are no longer the
process. With too many the matrices lose their digits: K's condition number grows like the
product over inputs of (lengthscale in cells)**(2 degree), and is kept below
`FIELD.longest_condition`.

What is tolerable depends on the objective. The bound pays for missed variance in units of
the noise. The evidence of the spline field does not pay, but predictions add what is missed
to their variance: it is kept below a share of how much neighbouring data differ, and cells
much finer than the data are of no use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil, log2, prod

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import SHO, Component, Kernel
from asvgp.model.axis import Axis
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.statistics import Statistics


def marginal_moments(stats: Statistics) -> list[Array]:
    """Return the moments along each input of the main block, the others summed over."""
    D, out = len(stats.grids), []
    for d in range(D):
        index: list[slice | int] = [slice(None)] * (2 * D)
        for e in range(D):
            if e != d:
                index[D + e] = 0
        reduced = stats.moments[tuple(index)]  # (cells..., powers_d)
        out.append(reduced.sum(axis=tuple(e for e in range(D) if e != d)))
    return out


def scale_of(process: Component) -> float:
    """The length that cells must resolve."""
    return process.period / 4.0 if isinstance(process, SHO) else process.values[0]


def most_cells(degrees: Iterable[int]) -> float:
    """The longest lengthscale in cells, of a term with these degrees along its inputs."""
    return max(FIELD.longest_condition ** (0.5 / sum(degrees)), FIELD.shortest_length)


def wanted_level(
    process: Component,
    grid: Grid,
    degree: int,
    moments: Array,
    tolerated: float,
    finest: float,
) -> int:
    """How often the cells of a grid may be doubled for this process.

    ``tolerated`` is the share of its variance that may be missed; ``moments`` are the
    marginal ones along this input, (cells, 2 powers + 1); ``finest`` is the longest
    lengthscale in cells.
    """
    ratio = scale_of(process) / grid.spacing
    most = int(log2(max(grid.cells / 2, 1)))
    highest = int(np.floor(log2(max(ratio / FIELD.shortest_length, 1.0))))
    weight = float(moments[:, 0].sum())
    powers = (moments.shape[1] - 1) // 2
    level = min(highest, most)
    while level > 0:
        axis = Axis(process, grid, degree, level, powers)
        missed = 1.0 - axis.trace(moments)[0] / weight
        if missed <= tolerated:
            break
        level -= 1
    return int(np.clip(level, _least_level(process, grid, finest), most))


def _least_level(process: Component, grid: Grid, finest: float) -> int:
    """The least level at which a lengthscale is at most ``finest`` cells, if two can do that."""
    least = ceil(log2(scale_of(process) / grid.spacing / finest))
    return int(np.clip(least, 0, int(log2(max(grid.cells / 2, 1)))))


def least_levels(kernel: Kernel, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Levels that are as fine as the plan's grids, but for what could not be factored."""
    levels = []
    for term, degrees in zip(plan.terms, plan.degrees, strict=True):
        factors = {factor.dim: factor for factor in kernel.components[term].factors}
        finest = most_cells(k for k in degrees if k)
        levels.append(
            tuple(
                _least_level(factors[column], grid, finest) if column in factors else 0
                for column, grid in zip(plan.inputs, plan.grids, strict=True)
            )
        )
    return tuple(levels)


def least_widths(kernel: Kernel, plan: Plan) -> tuple[int, ...]:
    """The same of a plan's only term, in cells of the grids, which need not be powers of two."""
    (term,), (degrees,) = plan.terms, plan.degrees
    factors = {factor.dim: factor for factor in kernel.components[term].factors}
    finest = most_cells(k for k in degrees if k)
    widths = []
    for column, grid in zip(plan.inputs, plan.grids, strict=True):
        width = ceil(scale_of(factors[column]) / grid.spacing / finest)
        widths.append(int(np.clip(width, 1, max(grid.cells // 2, 1))))
    return tuple(widths)


def levels_for(
    kernel: Kernel,
    noise: float,
    plan: Plan,
    moments: list[Array],
    count: int,
    objective: str,
    scatter: float = 0.0,
) -> tuple[tuple[int, ...], ...]:
    """Levels of every term and input of the main block, for these hyperparameters.

    ``moments`` are the marginal ones, on the plan's grids; ``scatter`` is the variance that
    neighbouring data differ by.
    """
    levels, floor = [], (0,) * len(plan.grids)
    if objective == "evidence":
        floor = finest_levels(kernel, plan, moments, count)
    for term, degrees in zip(plan.terms, plan.degrees, strict=True):
        part = kernel.components[term]
        factors = {factor.dim: factor for factor in part.factors}
        own, finest = [], most_cells(k for k in degrees if k)
        for d, column in enumerate(plan.inputs):
            if column not in factors:
                own.append(0)
                continue
            mean_weight = float(moments[d][:, 0].sum()) / count
            if objective == "evidence":
                tolerated = (
                    FIELD.tolerated_scatter * max(scatter, noise) / (part.variance * mean_weight)
                )
            else:
                tolerated = 2.0 * FIELD.tolerated_loss * noise / (part.variance * mean_weight)
            level = wanted_level(
                factors[column], plan.grids[d], degrees[d], moments[d], tolerated, finest
            )
            own.append(max(level, floor[d]))
        levels.append(tuple(own))
    return tuple(levels)


def finest_levels(
    kernel: Kernel | None, plan: Plan, moments: list[Array], count: int
) -> tuple[int, ...]:
    """Levels below which there are more cells than data: wider first where lengths allow.

    Data on a grid leave cells empty along an input that are narrower than its spacing. Where
    there is no kernel yet, lengths are taken to be alike in cells.
    """
    lengths = np.full(len(plan.grids), np.inf if kernel else 1.0)
    parts = [kernel.components[term] for term in plan.terms] if kernel else []
    for part in parts:
        for factor in part.factors:
            d = plan.inputs.index(factor.dim)
            lengths[d] = min(lengths[d], scale_of(factor) / plan.grids[d].spacing)
    levels = [0] * len(plan.grids)
    cells = np.array([float(grid.cells) for grid in plan.grids])

    def widen(d: int) -> None:
        levels[d] += 1
        cells[d] /= 2.0
        lengths[d] /= 2.0

    for d, own in enumerate(moments):
        occupied = np.count_nonzero(own[:, 0])
        while cells[d] > max(FIELD.cells_per_place * occupied, 2.0):
            widen(d)
    while cells.prod() > FIELD.cells_per_datum * count and cells.max() > 2.0:
        widen(int(np.argmax(np.where(cells > 2.0, lengths, -1.0))))
    return tuple(levels)


def coarsened(plan: Plan, factors: tuple[int, ...]) -> Plan:
    """The plan on cells so many times as wide, with levels zero."""
    grids = tuple(grid.coarsen(f) for grid, f in zip(plan.grids, factors, strict=True))
    return replace(plan, grids=grids, levels=tuple((0,) * len(grids) for _ in plan.terms))


def first_factors(plan: Plan, along: Mapping[int, float] | None = None) -> tuple[int, ...]:
    """Factors that leave few enough cells to explore on, as many more along one as in the plan.

    More where lengths are known, ``along`` inputs, that such cells would not show.
    """
    inputs = len(plan.grids)
    few = FIELD.first_cells[inputs] ** inputs
    cells = [grid.cells for grid in plan.grids]
    factors = [1] * inputs
    while prod(ceil(n / f) for n, f in zip(cells, factors, strict=True)) > few:
        wide = [d for d in range(inputs) if cells[d] > 4 * factors[d]]
        if not wide:
            break
        for d in wide:
            factors[d] *= 2
    for d, (column, grid) in enumerate(zip(plan.inputs, plan.grids, strict=True)):
        while (
            along
            and factors[d] > 1
            and along[column] < FIELD.visible_length * factors[d] * grid.spacing
        ):
            factors[d] //= 2
    return tuple(factors)


def next_factors(
    factors: tuple[int, ...],
    levels: tuple[tuple[int, ...], ...],
    plan: Plan,
    kernel: Kernel,
    at_once: bool = False,
) -> tuple[int, ...]:
    """Factors to go on with, towards the finest that some term wants, if not ``at_once`` stepwise.

    A step is to cells a quarter as wide, or of more than two inputs half: work on them grows so
    fast that the step before is next to nothing, and starts the last one nearer to its end.
    """
    step = 4 if len(factors) < 3 else 2
    out = []
    for d, (column, factor) in enumerate(zip(plan.inputs, factors, strict=True)):
        involved = [
            own[d]
            for own, term in zip(levels, plan.terms, strict=True)
            if column in [f.dim for f in kernel.components[term].factors]
        ]
        finest = 2 ** min(involved)
        out.append(max(min(factor, finest), 1 if at_once else factor // step, 1))
    return tuple(out)
