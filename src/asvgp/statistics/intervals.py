"""Knots that cut none of the intervals that observations are averages over.

An average over part of a cell is a functional of the polynomial of that cell alone, so every
interval must lie between two neighbouring knots. On a lattice that contains the ends of all
intervals, these have integer coordinates, and knots at every m-th point from point r on cut
none of the intervals if (start - r) mod m + width <= m for all of them. This file searches for
the finest such knots. A coarser subset of them cuts no interval either.
"""

from __future__ import annotations

from math import ceil, floor

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.policies import LINE, halvings
from asvgp.runtime.parallel import each_chunk
from asvgp.times import Duration, TimeAxis

# Distance, in cells or in shortest intervals, that rounding may move an end by. The polynomials of
# neighbouring cells differ by its (k + 1)-th power that far from their knot.
TOLERANCE = 1e-6


def cut(x: Array, width: Array, grid: Grid) -> Array:
    """Return the rows whose intervals have a knot inside them or leave the domain.

    Examples
    --------
    >>> cut(np.array([0.0, 0.5, 2.0]), np.array([1.0, 1.0, 2.0]), Grid(0.0, 4.0, cells=4))
    array([1, 2])
    """
    rows = [np.empty(0, dtype=np.int64)]
    for begin, end in each_chunk(0, len(x)):
        _, s, t = grid.locate_intervals(x[begin:end], width[begin:end])
        rows.append(begin + np.flatnonzero((s < -TOLERANCE) | (t > 1.0 + TOLERANCE)))
    return np.concatenate(rows)


def aligned_grid(x: Array, width: Array, lower: float, upper: float, most: int) -> Grid | None:
    """Return the finest grid over ``[lower, upper]`` that cuts no interval, or None.

    It has about ``most`` cells at most, and may reach beyond both ends to hold whole cells.

    Examples
    --------
    >>> aligned_grid(np.array([0.0, 5.0, 60.0]), np.array([5.0, 5.0, 5.0]), 0.0, 65.0, most=99)
    Grid(lower=0.0, upper=65.0, cells=13, cyclic=False)
    >>> overlapping = np.arange(50.0)
    >>> aligned_grid(overlapping, np.full(50, 2.0), 0.0, 51.0, most=99) is None
    True
    """
    x, width = _averages(x, width)
    origin = float(x.min())
    unit = _unit(x - origin, width)
    if unit is None:
        return None
    spacing, offset = _spacing(*(np.rint(v / unit).astype(np.int64) for v in (x - origin, width)))
    if not spacing or unit * spacing > LINE.widest_lattice * float(width.max()):
        return None  # where intervals fit by chance, such wide cells tell too little about f
    spacing *= max(1, ceil((upper - lower) / (unit * spacing * most) - TOLERANCE))
    first = floor(((lower - origin) / unit - offset) / spacing + TOLERANCE)
    begin = origin + unit * (offset + spacing * first)
    cells = max(1, ceil((upper - begin) / (unit * spacing) - TOLERANCE))
    # rounding must not leave the outermost data outside
    grid = Grid(min(begin, lower), max(begin + unit * spacing * cells, upper), cells)
    return None if len(cut(x, width, grid)) else grid


def aligned_cells(x: Array, width: Array, lower: float, upper: float, most: int) -> int | None:
    """Return the largest number of cells, up to ``most``, by which a domain cuts no interval.

    Examples
    --------
    >>> aligned_cells(np.array([1.0, 4.0]), np.array([2.0, 2.0]), 0.0, 30.0, most=99)
    10
    """
    x, width = _averages(x, width)
    unit = _unit(np.append(x - lower, upper - lower), width)
    if unit is None:
        return None
    points = round((upper - lower) / unit)
    finest = min(most, points // round(float(width.max()) / unit))
    for cells in range(finest, min(LINE.fewest_uncut_cells, finest) - 1, -1):
        if points % cells == 0 and not len(cut(x, width, Grid(lower, upper, cells))):
            return cells
    return None


def _averages(x: Array, width: Array) -> tuple[Array, Array]:
    """Return the rows that are averages, in double precision."""
    rows = width > 0.0
    return np.asarray(x[rows], dtype=float), width[rows]


def _unit(places: Array, width: Array) -> float | None:
    """Return the largest length of which places and widths are multiples, by Euclid's algorithm."""
    shortest = float(width[width < (1.0 + TOLERANCE) * width.min()].mean())
    lengths = np.concatenate([places, width])
    unit = shortest
    while unit > LINE.finest_lattice * shortest:
        count = np.rint(lengths / unit)
        exact = float(count @ lengths / (count @ count))
        if np.abs(lengths - exact * count).max() <= TOLERANCE * shortest:
            return exact
        rest = np.abs(lengths - unit * count)
        rest = rest[rest > 10.0 * TOLERANCE * shortest]
        if not len(rest):
            return None
        unit = float(rest.min())
    return None


def _spacing(start: Array, length: Array) -> tuple[int, int]:
    """Return the smallest distance of knots that cut no interval, and the first knot, or zeros.

    A few cells that hold many overlapping intervals each are not worth having.
    """
    widest, end = int(length.max()), int((start + length).max())
    codes = np.sort(start * (widest + 1) + length)
    codes = codes[np.append(True, np.diff(codes) > 0)]
    start, length = np.divmod(codes, widest + 1)
    sample = slice(None, None, max(1, len(codes) // 1000))  # most distances fail on these already
    largest = max(widest, 2 * end // min(LINE.fewest_uncut_cells, len(codes)))
    for spacing in [*range(widest, widest + LINE.lattice_tries), int(np.gcd.reduce(start))]:
        if widest <= spacing <= largest and len(_uncut(start[sample], length[sample], spacing)):
            free = _uncut(start, length, spacing)
            if len(free):
                return spacing, int(free[0])
    return 0, 0


def _uncut(start: Array, length: Array, spacing: int) -> Array:
    """Return the remainders by ``spacing`` of points that lie inside no interval."""
    first = start % spacing
    changes = np.bincount(first + 1, minlength=2 * spacing + 1)
    changes -= np.bincount(first + length, minlength=2 * spacing + 1)
    inside = np.cumsum(changes[:-1]).reshape(2, spacing).sum(axis=0)
    return np.flatnonzero(inside == 0)


def finest_uncut(
    x: Array, width: Array, grid: Grid, degree: int, axis: TimeAxis | None, given: bool
) -> Grid:
    """Return a grid of about as many cells that cuts no interval and can be coarsened.

    It covers the same domain, and may reach beyond unless that is ``given``.
    """
    if given:
        cells = aligned_cells(x, width, grid.lower, grid.upper, grid.cells)
        if cells is not None:
            return Grid(grid.lower, grid.upper, cells)
        ends = f"{_shown(grid.lower, axis)} to {_shown(grid.upper, axis)}"
        raise ValueError(
            f"No equidistant knots on the domain, {ends}, avoid cutting the averaging intervals. "
            + _advice(x, width, grid, degree, axis)
        )
    uncut = aligned_grid(x, width, grid.lower, grid.upper, grid.cells)
    if uncut is None:
        raise ValueError(_advice(x, width, grid, degree, axis))
    multiple = halvings(uncut.cells)
    cells = multiple * ceil(uncut.cells / multiple)
    return Grid(uncut.lower, uncut.lower + cells * uncut.spacing, cells)


def check_uncut(x: Array, width: Array, grid: Grid, degree: int, axis: TimeAxis | None) -> None:
    """Check that knots cut no interval; the error names the first and knots that would do."""
    rows = cut(x, width, grid)
    if not len(rows):
        return
    start, length = float(x[rows[0]]), float(width[rows[0]])
    first = f"from {_shown(start, axis)} to {_shown(start + length, axis)}"
    raise ValueError(
        f"Knots cut {len(rows)} of {np.count_nonzero(width)} intervals that y is averaged over, "
        f"the first in row {rows[0]}, {first}: they are "
        f"{_length(grid.spacing, axis)} apart, from {_shown(grid.lower, axis)} to "
        f"{_shown(grid.upper, axis)}. " + _advice(x, width, grid, degree, axis)
    )


def _advice(x: Array, width: Array, grid: Grid, degree: int, axis: TimeAxis | None) -> str:
    """Say which knots to use instead, about as many over the same grid, or why there are none."""
    better = aligned_grid(x, width, grid.lower, grid.upper, grid.cells)
    if better is not None:
        domain = ", ".join(_shown(end, axis, exact=True) for end in (better.lower, better.upper))
        return f"Take num_basis={better.cells + degree} and domain=({domain}), from the start."
    positive = width[width > 0.0]
    shortest, longest = (_length(v, axis) for v in (positive.min(), positive.max()))
    return (
        f"No equidistant knots leave {len(positive)} intervals of widths from {shortest} to "
        f"{longest} whole: lengths and distances must be multiples of one length, and intervals "
        "must not overlap at all places where a knot could be. Bring them to such a raster, drop "
        "those that do not fit, or take averages over short intervals for values at their middle."
    )


def _length(value: float, axis: TimeAxis | None) -> str:
    return str(Duration(value)) if axis else f"{value:g}"


def _shown(value: float, axis: TimeAxis | None, exact: bool = False) -> str:
    """Return a place on the line as the user would write it."""
    if axis is None:
        return repr(float(value)) if exact else f"{value:g}"
    time = str(np.datetime_as_string(axis.to_times(np.array([value]))[0]))
    time = time.rstrip("0").rstrip(".") if "." in time else time
    return f"np.datetime64({time!r})" if exact else time
