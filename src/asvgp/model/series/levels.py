"""Cells for every component of a series, from the variance that its functions miss.

What the functions of a component miss lowers the bound by ``missed / (2 noise)``, whatever the
other components do. So each gets the widest cells on which it misses no more than its share of a
tolerance, and nothing has to be eliminated to find them.
"""

from __future__ import annotations

from math import floor, log2

from asvgp.kernels import SHO, Component, Kernel, Periodic
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.model.series.terms import terms_of
from asvgp.policies import SERIES
from asvgp.statistics import Statistics


def plan_for(
    kernel: Kernel, noise: float, stats: Statistics, powers: int, tolerance: float
) -> SeriesPlan:
    """Return a plan that loses at most ``tolerance`` nats per datum, as far as cells allow."""
    share = 2.0 * noise * tolerance * stats.count / max(1, len(kernel.components))
    parts = tuple(_part(component, stats, powers, share) for component in kernel.components)
    return SeriesPlan(stats.grid, powers, parts, len(kernel.effects))


def degree_of(process: Component) -> int:
    """Return the degree of the functions of a process: one more than the least, if it is smooth."""
    if isinstance(process, SHO):
        return SERIES.wave_degree
    return process.order + 2 if process.order else 1


def _part(component, stats: Statistics, powers: int, share: float) -> Part:
    """Return the part of one component that misses at most ``share`` at the data."""
    along = around = None
    share = share / len(component.factors)
    for factor in component.factors:
        factor = factor.replace(variance=component.variance)
        if isinstance(factor, Periodic):
            around = _around(factor, stats, share)
        else:
            along = _along(factor, stats, share)
    return Part(along, around)


def _along(process: Component, stats: Statistics, share: float) -> Along:
    """Return the functions that miss at most ``share``, the fewer ones of an oscillator's two."""
    splines = _widest(process, stats, share, wave=False)
    if not isinstance(process, SHO):
        return splines[0]
    wave = _widest(process, stats, share, wave=True)
    # those that miss too much even on the finest cells do not count, unless neither suffices
    return min(splines, wave, key=lambda option: (option[1] > share, option[2]))[0]


def _widest(
    process: Component, stats: Statistics, share: float, wave: bool
) -> tuple[Along, float, int]:
    """Return functions on the widest cells that will do, what they miss, and their number."""
    degree = SERIES.wave_degree if wave else process.order + 1 + (process.order > 0)
    grid, least = stats.grid, SERIES.least_wave_level if wave else 0
    longest = process.period / 1.5 if isinstance(process, SHO) else process.resolved_length
    level = floor(log2(max(longest / grid.spacing, 1.0)))
    level = max(least, min(level, floor(log2(max(grid.cells / SERIES.fewest_cells, 1.0)))))
    while True:
        along = Along(degree, level, wave)
        missed, size = _missed(process, Part(along), stats)
        if missed <= share or level <= least:
            return along, missed, size
        level -= 1


def _around(process: Periodic, stats: Statistics, share: float) -> Around:
    degree = degree_of(process)
    whole = cells_of(process.period, stats)
    fewest = max(degree + 1, SERIES.fewest_phases)
    counts = [n for n in range(fewest, whole + 1) if whole % n == 0] or [whole]
    counts = [n for n in counts if n <= SERIES.most_phases] or counts[:1]
    for count in counts:
        around = Around(degree, count, whole // count)
        if _missed(process, Part(around=around), stats)[0] <= share:
            return around
    return Around(degree, counts[-1], whole // counts[-1])


def cells_of(period: float, stats: Statistics) -> int:
    """Return the number of finest cells of a period."""
    return round(period / stats.grid.spacing)


def _missed(process: Component, part: Part, stats: Statistics) -> tuple[float, int]:
    """Return the variance that the functions of a part miss at the data, and their number."""
    plan = SeriesPlan(stats.grid, part.power, (part,))
    (term,) = terms_of(process, plan)
    return term.missed(stats.moments, stats.weight)[0], term.size
