"""Choose the cells of the grids of a model of several inputs, within memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Layout
from asvgp.data.settings import Settings
from asvgp.degrees import TURN, cosines
from asvgp.kernels import AlongEarth, EarthMatern, JointMatern, Periodic
from asvgp.kernels.algebra import renamed
from asvgp.model.devices import device_for
from asvgp.model.levels import scale_of
from asvgp.model.memory import MemoryBudget, Need, fitting_cells
from asvgp.model.plan import Plan
from asvgp.model.room import with_room
from asvgp.policies import DATA, FIELD, MEMORY
from asvgp.runtime.progress import Progress
from asvgp.statistics import Statistics
from asvgp.structures.earth import grid_for
from asvgp.structures.structure import Points
from asvgp.training.finest import doublings, halved, shared_out, smooth_cells
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
        {factor.dim: next(degrees) for factor in part.along} for part in layout.kernel.components
    ]


def degrees_by_input(layout: Layout, flat: Sequence[int]) -> list[int]:
    """Return the highest degree along every column of ``layout.used``."""
    by_term = degrees_by_term(layout, flat)
    return [max(term[column] for term in by_term if column in term) for column in layout.used]


def check_circles(layout: Layout) -> None:
    """Check that a column that is a circle to one kernel is the same to all on its grid."""
    periods, names = layout.periods, layout.names
    for number, part in enumerate(layout.kernel.components):
        over = [factor.dim for factor in part.along]
        for factor in part.along:
            if isinstance(factor, Periodic) and factor.centred:
                raise ValueError(
                    f"{renamed(part, names)!r}: centred=True is for models of one input. With "
                    "several, leave it out."
                )
            period = periods[layout.place(number, factor)]
            own = factor.period if isinstance(factor, Periodic) else None
            if isinstance(factor, AlongEarth) and factor.latitudes is not None:
                own = period if period == TURN else None  # data say whether they go round
            if own == period and over.count(factor.dim) == 1:
                continue
            name = names[factor.dim] if names and isinstance(factor.dim, int) else factor.dim
            raise ValueError(
                f"{renamed(part, names)!r}: column {name!r} goes around a circle of {period:g} for "
                "one kernel, and not for another. With several inputs that takes two columns: the "
                "phase in one of its own, for example hours of the day beside times, and a "
                "Periodic over that."
            )


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
    rows = zip(layout.used, degrees, layout.periods, names, strict=True)
    for column, degree, period, name in rows:
        count = counts[over.index(column)]
        assert count is not None
        if period is not None:
            if count < FIELD.fewest_circle_cells:
                raise ValueError(
                    f"num_basis must be at least {FIELD.fewest_circle_cells} for {name}, around "
                    f"which a kernel is periodic, got {count}."
                )
            cells.append(count)
            continue
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
    raised: bool,
) -> list[int]:
    """Return the finest cells that are worth accumulating, more where the data vary faster.

    There are fewer where all splines have a degree that is ``raised`` above the smallest.
    """
    present = int(np.isfinite(y.reshape(points.count, -1)).all(axis=1).sum())
    rows = present if whole else max(present, DATA.many_rows)
    split, cells = len(points.main), []
    if split:
        widths = np.array([upper - lower for lower, upper in domains[:split]])
        grids = [grid_for(layout, place, ends, 1) for place, ends in enumerate(domains[:split])]
        if settings.spacing:
            cells = _as_wide(widths / np.array([settings.spacing[c] for c in layout.inputs]))
        else:
            along = _lengths(points, y, grids) if settings.trained else _shortest(layout)
            along = _levelled(layout, along, domains)
            cells = shared_out(doublings(split, rows), widths, along)
            cells = halved(cells, widths, along) if raised else cells
        for d, grid in enumerate(grids):
            if grid.cyclic:
                cells[d] = max(cells[d], FIELD.fewest_circle_cells)
    smooths = len(points.smooths)
    return [*cells, *([smooth_cells(rows, smooths)] * smooths)]


def _as_wide(wanted: Array) -> list[int]:
    """Return no more cells than wanted, as often even as a long term may want to join them."""
    times = [min(FIELD.grown_cells, 1 << max(int(n).bit_length() - 4, 0)) for n in wanted]
    fewest = 4  # which a long term may still join
    return [max(k * int(n / k), fewest) for n, k in zip(wanted, times, strict=True)]


def _lengths(points: Points, y: Array, grids: Sequence[Grid]) -> Array:
    """Return lengths that neighbours suggest; NaN where too long to show in part of the domain."""
    columns, y, effects = points.sampled(y)
    columns = [grid.around(x) for grid, x in zip(grids, columns, strict=True)]
    widths = np.array([grid.upper - grid.lower for grid in grids])
    along = lengths(list(columns), y, list(effects))
    ranges = np.array([float(np.ptp(x)) for x in columns])
    return np.where((along >= ranges) & (4.0 * ranges < widths), np.nan, along)


def _levelled(layout: Layout, along: Array, domains: Sequence[tuple[float, float]]) -> Array:
    """Return lengths that are equal along inputs with one lengthscale for all of them.

    Those along longitude are equal where degrees are longest.
    """
    out = along.copy()
    for part in layout.kernel.components:
        for factor in part.factors:
            if isinstance(factor, JointMatern) and len(factor.scales) == 1:
                places = [layout.inputs.index(column) for column in factor.dim or ()]
                scale = np.ones(len(places))
                if isinstance(factor, EarthMatern):
                    scale[0] = cosines(*domains[places[1]])[0]
                out[places] = np.exp(np.log(along[places] * scale).mean()) / scale
    return out


def _shortest(layout: Layout) -> Array:
    """Return the kernel's shortest length along every input of the main block."""
    factors = [factor for part in layout.kernel.components for factor in part.along]
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

    def grids_of(cells) -> list[Grid]:
        circles = zip(cells, layout.periods, strict=True)
        return [Grid(0.0, period or 1.0, n, period is not None) for n, period in circles]

    def needed(cells) -> float:
        grids = grids_of(cells)
        columns = sum(g.splines(k) for g, k in zip(grids[main:], degrees[main:], strict=True))
        grids = grids[:main]
        return Statistics.bytes_needed(grids, degrees[:main], columns + effects, outputs)

    def plan(cells) -> Plan:
        grids = grids_of(cells)
        smooths = tuple(zip(grids[main:], degrees[main:], strict=True))
        plan = plan_for(layout, grids[:main], degrees[:main], smooths, flat)
        return with_room(plan, kernel, 0.0, FIELD.middle_fraction)

    if settings.automatic:
        cells = fitting_cells(cells, main, needed, MEMORY.sums_share * memory.limit)
        start = memory.starting_plan(plan(cells), kernel)
        return [grid.cells for grid in (*start.grids, *start.smooth_grids)]
    if needed(cells) > memory.limit:
        alone = Need(needed(cells), needed(cells))
        memory.refuse("The statistics alone need", alone, plan(cells), kernel)
    return cells
