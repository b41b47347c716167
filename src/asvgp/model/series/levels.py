"""Cells for every component of a series, from the variance that its functions miss.

What the functions of a component miss lowers the bound by ``missed / (2 noise)``, whatever the
other components do. So each gets the widest cells on which it misses no more than its share of a
tolerance, and nothing has to be eliminated to find them.
"""

from __future__ import annotations

from math import floor, inf, log2
from typing import NamedTuple

from asvgp.basis import Grid
from asvgp.kernels import SHO, Component, Kernel, Periodic
from asvgp.model.moments import CellMoments
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.model.series.terms import terms_of
from asvgp.policies import SERIES
from asvgp.statistics import Statistics


class Data(NamedTuple):
    """What the choice asks of the data."""

    grid: Grid
    moments: CellMoments
    weight: float


def plan_for(
    kernel: Kernel,
    noise: float,
    stats: Statistics,
    powers: int,
    tolerance: float,
    moments: CellMoments | None = None,
    phases: int = SERIES.most_phases,
) -> SeriesPlan:
    """Return a plan that loses at most ``tolerance`` nats per datum, as far as cells allow.

    Seasons that drift have at most so many ``phases``.
    """
    data = Data(stats.grid, moments or CellMoments(stats.moments), stats.weight)
    parts, _ = _parts(kernel, data, noise * stats.observations, tolerance, phases)
    return SeriesPlan(stats.grid, powers, parts, len(kernel.effects))


def noise_beside(
    kernel: Kernel, noise: float, stats: Statistics, moments: CellMoments | None = None
) -> float:
    """Return the noise, or the variance that components miss on the finest cells, if that is more.

    It is noise to all other components, and to training, which would end with about as much.
    """
    data = Data(stats.grid, moments or CellMoments(stats.moments), stats.weight)
    given = noise * stats.observations, SERIES.tolerances[-1], SERIES.most_phases
    return max(noise, _parts(kernel, data, *given)[1] / stats.observations)


def _parts(
    kernel: Kernel, data: Data, noise: float, tolerance: float, phases: int
) -> tuple[tuple[Part, ...], float]:
    """Return parts for the noise of all data together, and the variance missed beyond shares."""
    each = 2.0 * noise / max(1, len(kernel.components))
    # seasons have few functions, whatever is asked of them
    share = {True: each * min(tolerance, SERIES.tolerances[-1]), False: each * tolerance}
    found = [
        _part(part, data, share[all(isinstance(f, Periodic) for f in part.factors)], phases)
        for part in kernel.components
    ]
    return tuple(part for part, _ in found), sum(beyond for _, beyond in found)


def degree_of(process: Component) -> int:
    """Return the highest degree that the functions of a process may have."""
    return SERIES.wave_degree if isinstance(process, SHO) else process.default_degree


def _part(component, data: Data, share: float, phases: int) -> tuple[Part, float]:
    """Return the part of one component that misses ``share`` at the data, and what it misses more.

    Only parts on the finest cells, or with all phases that there may be, miss more.
    """
    along = around = None
    share, beyond = share / len(component.factors), 0.0
    for factor in component.factors:
        factor = factor.replace(variance=component.variance)
        if isinstance(factor, Periodic):
            most = phases if len(component.factors) > 1 else SERIES.most_phases
            around, missed = _around(factor, data, share, most)
        else:
            along, missed = _along(factor, data, share)
        beyond += max(missed - share, 0.0)
    return Part(along, around), beyond


def _along(process: Component, data: Data, share: float) -> tuple[Along, float]:
    """Return the functions that miss at most ``share``, and what they miss.

    Of an oscillator's two kinds, splines must be far fewer to be taken: they suit one quality,
    and training on them would not find another.
    """
    if not isinstance(process, SHO):
        return _widest(process, data, share, wave=False)[:2]
    wave = _widest(process, data, share, wave=True)
    most = wave[2] / SERIES.spline_handicap if wave[1] <= share else inf
    splines = _widest(process, data, share, wave=False, most=most)
    handicap = splines[0], splines[1], SERIES.spline_handicap * splines[2]
    # those that miss too much even on the finest cells do not count, unless neither suffices
    return min(wave, handicap, key=lambda option: (option[1] > share, option[2]))[:2]


def _widest(
    process: Component, data: Data, share: float, wave: bool, most: float = inf
) -> tuple[Along, float, int]:
    """Return functions on the widest cells that will do, what they miss, and their number.

    The search ends at ``most`` functions.
    """
    degree = SERIES.wave_degree if wave else process.default_degree
    grid, least = data.grid, SERIES.least_wave_level if wave else 0
    longest = process.period / 1.5 if isinstance(process, SHO) else process.resolved_length
    level = floor(log2(max(longest / grid.spacing, 1.0)))
    level = max(least, min(level, floor(log2(max(grid.cells / SERIES.fewest_cells, 1.0)))))
    while True:
        along = Along(degree, level, wave)
        missed, size = _missed(process, Part(along), data)
        if missed <= share or level <= least or size >= most:
            return along, missed, size
        level -= 1


def _around(process: Periodic, data: Data, share: float, most: int) -> tuple[Around, float]:
    """Return the fewest functions around a circle that miss ``share``, and what they miss."""
    degree = degree_of(process)
    whole = cells_of(process.period, data)
    fewest = max(degree + 1, SERIES.fewest_phases)
    counts = [n for n in range(fewest, whole + 1) if whole % n == 0] or [whole]
    counts = [n for n in counts if n <= most] or counts[:1]
    while True:
        around = Around(degree, counts[0], whole // counts[0])
        missed = _missed(process, Part(around=around), data)[0]
        if missed <= share or len(counts) == 1:
            return around, missed
        counts = counts[1:]


def cells_of(period: float, data: Data) -> int:
    """Return the number of finest cells of a period."""
    return round(period / data.grid.spacing)


def _missed(process: Component, part: Part, data: Data) -> tuple[float, int]:
    """Return the variance that the functions of a part miss at the data, and their number."""
    plan = SeriesPlan(data.grid, part.power, (part,))
    (term,) = terms_of(process, plan)
    return term.missed(data.moments, data.weight)[0], term.size
