"""The finest cells of a series: about one per distinct input, and a whole number per period."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, lcm

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.policies import DATA, SERIES
from asvgp.training.season_notes import in_words


def series_grid(
    periods: Sequence[float],
    waves: Sequence[float],
    lower: float,
    upper: float,
    wanted: int,
    automatic: bool = False,
) -> Grid:
    """Return a grid of about the ``wanted`` number of cells, from ``lower`` to ``upper`` or beyond.

    Every one of the ``periods`` is a whole number of cells, to within a small part of a period
    over the whole domain; every one of the ``waves`` is at least some cells long. If the number was
    chosen ``automatic``ally, a few more cells may make wider ones possible.
    """
    span = upper - lower
    spacing = span / max(1, wanted)
    for wave in waves:
        spacing = min(spacing, wave / SERIES.cells_per_wave)
    if not periods:
        cells = floor(span / spacing + 1e-9) + 1  # the last input has a cell of its own
        return Grid(lower, lower + cells * spacing, cells)
    shortest = min(periods)
    parts = 1
    for period in periods:
        parts = lcm(parts, _denominator(period, shortest, span))
    each = shortest / spacing / parts
    each = parts * (_divisible(each) if automatic else max(1, ceil(each - 1e-9)))
    least = SERIES.fewest_phases
    while each < least:
        each += parts
    cells = floor(span * each / shortest + 1e-9) + 1  # the last input has a cell of its own
    if cells > max(SERIES.most_extra_cells * wanted, SERIES.least_most_cells):
        if parts == 1:
            raise ValueError(
                f"The period {in_words(shortest)} is too short beside the span of the data, "
                f"{in_words(type(shortest)(span))}: splines would need {cells:,} cells for "
                f"{wanted:,} inputs. Is it in the units of the input, and is none of the inputs "
                "far off?"
            )
        shown = ", ".join(map(in_words, sorted(set(periods))))
        raise ValueError(
            f"The periods {shown} have no common part that is long enough: splines for all of them "
            f"would need {cells:,} cells for {wanted:,} inputs. Give periods whose ratios are "
            "simpler, or take SHO for one of them."
        )
    return Grid(lower, lower + cells * shortest / each, cells)


def _divisible(wanted: float) -> int:
    """Return a number of cells of a period, at least that wanted, with a divisor of medium size.

    Functions around a circle have cells that divide the period. A prime number would leave only
    the finest of them, on which smooth seasons have no digits. Steps of regular inputs stay.

    Examples
    --------
    >>> [_divisible(wanted) for wanted in (24.0, 191.0, 190.3, 16.2)]
    [24, 191, 195, 18]
    """
    count = max(1, ceil(wanted - 1e-9))
    if abs(wanted - round(wanted)) < 1e-6 * wanted:
        return count
    wide = SERIES.medium_phases if count >= 2 * SERIES.medium_phases else SERIES.fewest_phases
    step = max(1, count // wide)
    return step * ceil(count / step)


def _denominator(period: float, shortest: float, span: float) -> int:
    """Return into how many parts the shortest period is cut, for a longer one to be whole."""
    ratio = period / shortest
    drift = SERIES.period_drift * period / max(span, period)  # tolerated error of the ratio
    for most in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        near = Fraction(ratio).limit_denominator(most)
        if abs(float(near) - ratio) <= drift:
            return near.denominator
    return Fraction(ratio).limit_denominator(4096).denominator


def wanted_cells(x: Array, lower: float, upper: float, whole: bool) -> int:
    """Return the number of cells worth accumulating: one for every distinct input, at most."""
    if not whole or len(x) > DATA.many_rows:
        return SERIES.most_finest_cells
    values = np.unique(x)
    gaps = np.diff(values)
    if not len(gaps):
        return SERIES.fewest_finest_cells
    gap = float(np.median(gaps))
    if in_steps(gaps):
        most = max(SERIES.cells_per_input * len(values), SERIES.least_most_cells)
        wanted = min((upper - lower) / gap, most)
    else:
        # between irregular inputs there is more to be seen; crowded ones make no cells narrow
        wanted = SERIES.cells_per_input * (upper - lower)
        wanted /= max(gap, float(values[-1] - values[0]) / len(values))
    return int(np.clip(round(wanted), SERIES.fewest_finest_cells, SERIES.most_finest_cells))


def clear_of_knots(grid: Grid, x: Array) -> Grid:
    """Return a grid whose knots are not at the inputs: moved by half a cell where all of them are.

    Rounding would put some inputs into the cell before their own, which then holds two.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.basis import Grid
    >>> clear_of_knots(Grid(0.0, 4.0, 4), np.arange(4.0))
    Grid(lower=-0.5, upper=3.5, cells=4, cyclic=False)
    """
    places = (x - grid.lower) / grid.spacing
    if np.any(np.abs(places - np.rint(places)) > 1e-6):
        return grid
    half = 0.5 * grid.spacing
    return Grid(grid.lower - half, grid.upper - half, grid.cells)


def in_steps(gaps: Array) -> bool:
    """Return True if next to all distances between inputs are multiples of the typical one."""
    steps = gaps / np.median(gaps)
    return bool(np.mean(np.abs(steps - np.rint(steps)) < 1e-3) > 0.99)


def is_regular(x: Array) -> bool:
    """Return True if there are inputs enough to see a step between them, and nearly all keep it.

    Examples
    --------
    >>> import numpy as np
    >>> is_regular(np.array([0.0, 1.0, 2.0, 5.0])), is_regular(np.array([0.0, 0.3, 1.7]))
    (True, False)
    """
    gaps = np.diff(np.unique(x[np.isfinite(x)]))
    return len(gaps) > 1 and in_steps(gaps)
