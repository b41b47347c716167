"""Choose the cells of the grids of a model of several inputs, within memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Layout
from asvgp.data.settings import Settings
from asvgp.model.devices import device_for
from asvgp.model.levels import scale_of
from asvgp.model.memory import MemoryBudget, Need, fitting_cells
from asvgp.model.plan import Plan
from asvgp.policies import DATA, MEMORY
from asvgp.runtime.progress import Progress
from asvgp.statistics import Statistics
from asvgp.structures.structure import Points
from asvgp.training.finest import doublings, shared_out, smooth_cells
from asvgp.training.pilot import lengths


def memory_for(settings: Settings) -> MemoryBudget:
    """Return the memory that a model may use."""
    announce = Progress(settings.progress).announce
    device = device_for(settings.device)
    return MemoryBudget(settings.memory_limit, device, announce, settings.automatic)


def plan_for(
    layout: Layout,
    grids: Sequence[Grid],
    degrees: Sequence[int],
    smooths: Sequence[tuple[Grid, int]],
    flat: Sequence[int],
) -> Plan:
    """Return the structure of P on these grids; ``flat`` are the degrees of all factors."""
    by_term = degrees_by_term(layout, flat)
    terms = tuple(i for i in range(len(layout.kernel.components)) if i not in layout.smooths)
    return Plan(
        layout.inputs,
        tuple(grids),
        tuple(degrees),
        terms,
        tuple(tuple(by_term[t].get(column, 0) for column in layout.inputs) for t in terms),
        tuple((0,) * len(layout.inputs) for _ in terms),
        layout.smooths,
        tuple(grid for grid, _ in smooths),
        tuple(degree for _, degree in smooths),
        len(layout.kernel.effects),
        layout.names,
    )


def degrees_by_term(layout: Layout, flat: Sequence[int]) -> list[dict[int, int]]:
    """Return the degrees of every term by column, from those of all factors in order."""
    degrees = iter(flat)
    return [
        {factor.dim: next(degrees) for factor in part.factors} for part in layout.kernel.components
    ]


def degrees_by_input(layout: Layout, flat: Sequence[int]) -> list[int]:
    """Return the highest degree along every column of ``layout.used``."""
    by_term = degrees_by_term(layout, flat)
    return [max(term[column] for term in by_term if column in term) for column in layout.used]


def requested_cells(
    layout: Layout, settings: Settings, degrees: Sequence[int], names: Sequence[str]
) -> list[int]:
    """Return the cells of every input for the number of functions that the user wants."""
    given, over = settings.num_basis, layout.over
    counts = given if isinstance(given, tuple) else (given,) * len(over)
    if len(counts) != len(over):
        raise ValueError(
            f"num_basis must be 'auto', one number, or one for each of {len(over)} inputs, got "
            f"{given!r}."
        )
    cells = []
    for column, degree, name in zip(layout.used, degrees, names, strict=True):
        count = counts[over.index(column)]
        assert count is not None
        if count < degree + 1:
            raise ValueError(
                f"num_basis must be at least degree + 1 = {degree + 1} for {name}, got {count}."
            )
        cells.append(count - degree)
    return cells


def automatic_cells(
    layout: Layout,
    settings: Settings,
    points: Points,
    y: Array,
    domains: Sequence[tuple[float, float]],
    whole: bool,
) -> list[int]:
    """Return the finest cells that are worth accumulating, more where the data vary faster."""
    present = int(np.isfinite(y.reshape(points.count, -1)).all(axis=1).sum())
    rows = present if whole else max(present, DATA.many_rows)
    split, cells = len(points.main), []
    if split:
        widths = np.array([upper - lower for lower, upper in domains[:split]])
        along = _lengths(points, y, widths) if settings.trained else _shortest(layout)
        cells = shared_out(doublings(split, rows), widths, along)
    smooths = len(points.smooths)
    return [*cells, *([smooth_cells(rows, smooths)] * smooths)]


def _lengths(points: Points, y: Array, widths: Array) -> Array:
    """Return lengths that neighbours suggest; NaN where too long to show in part of the domain."""
    columns, y, effects = points.sampled(y)
    along = lengths(list(columns), y, list(effects))
    ranges = np.array([float(np.ptp(x)) for x in columns])
    return np.where((along >= ranges) & (4.0 * ranges < widths), np.nan, along)


def _shortest(layout: Layout) -> Array:
    """Return the kernel's shortest length along every input of the main block."""
    factors = [factor for part in layout.kernel.components for factor in part.factors]
    return np.array(
        [min(scale_of(f) for f in factors if f.dim == column) for column in layout.inputs]
    )


def cells_within_memory(
    layout: Layout,
    settings: Settings,
    cells: list[int],
    degrees: Sequence[int],
    flat: Sequence[int],
    effects: int,
    outputs: int,
) -> list[int]:
    """Return cells whose statistics fit in memory: fewer where they are automatic, or an error."""
    memory, main, kernel = memory_for(settings), len(layout.inputs), layout.kernel

    def needed(cells) -> float:
        columns = sum(n + k for n, k in zip(cells[main:], degrees[main:], strict=True))
        grids = [Grid(0.0, 1.0, n) for n in cells[:main]]
        return Statistics.bytes_needed(grids, degrees[:main], columns + effects, outputs)

    def plan(cells) -> Plan:
        grids = [Grid(0.0, 1.0, n) for n in cells]
        smooths = tuple(zip(grids[main:], degrees[main:], strict=True))
        return plan_for(layout, grids[:main], degrees[:main], smooths, flat)

    if settings.automatic:
        cells = fitting_cells(cells, main, needed, MEMORY.sums_share * memory.limit)
        start = memory.starting_plan(plan(cells), kernel)
        return [grid.cells for grid in (*start.grids, *start.smooth_grids)]
    if needed(cells) > memory.limit:
        alone = Need(needed(cells), needed(cells))
        memory.refuse("The statistics alone need", alone, plan(cells), kernel)
    return cells
