"""Notes on seasons that the data cannot show: too long, too short, or given twice."""

from __future__ import annotations

import numpy as np

from asvgp.kernels import SHO, Component, Kernel, Periodic, Product
from asvgp.policies import DEFAULT, SERIES
from asvgp.statistics import Statistics
from asvgp.times import Duration


def in_words(length: float) -> str:
    """Return a length along the input as text.

    Examples
    --------
    >>> in_words(24.0), in_words(Duration(86400))
    ('24', '1 day')
    """
    return str(length) if isinstance(length, Duration) else f"{length:g}"


def season_notes(kernel: Kernel, stats: Statistics) -> list[str]:
    """Return what a user should know about the periods of a kernel.

    Oscillators count if they swing at all, and are not fixed: those are as they were wanted.
    """
    occupied = np.flatnonzero(stats.cell_weights > 0.0)
    mean = stats.moments[occupied, 1] / stats.moments[occupied, 0]
    gaps = np.diff(occupied + mean) * stats.grid.spacing
    # where inputs are irregular, some are close enough for periods that regular ones cannot show
    gap = float(f"{np.quantile(gaps, 0.1):.6g}") if len(gaps) else 0.0
    span = float(gaps.sum()) + gap
    seasons = [
        (number, part, factor)
        for number, part in enumerate(kernel.components, 1)
        for factor in part.factors
        if isinstance(factor, Periodic) or (isinstance(factor, SHO) and _swings(part, factor))
    ]
    notes: list[str] = []
    lasting: dict[int, float] = {}  # periods of components that go on alike, by their numbers
    for number, part, factor in seasons:
        period = factor.period
        name, unit = f"component {number} has the period {in_words(period)}", type(period)
        if period > span * (1.0 + 1e-6):
            notes.append(
                f"{name}, but the data span {in_words(unit(span))}: a season that does not repeat "
                "in the data acts as a trend"
            )
        elif period < 2.0 * gap * (1.0 - 1e-6):
            notes.append(
                f"{name}, less than two steps of {in_words(unit(gap))} between inputs: at these "
                "inputs it cannot be told from a longer period"
            )
        if len(part.factors) > 1 or not _outlives(factor, span):
            continue
        for other, known in lasting.items():
            # over the data they drift apart by less than a part of a turn
            if span * abs(1.0 / period - 1.0 / known) < SERIES.same_turns:
                notes.append(f"{name}, like component {other}: the data determine only their sum")
                break
        lasting[number] = period
    exact = any(isinstance(factor, Periodic) for _, _, factor in seasons)
    if exact and stats.count < DEFAULT.fewest_rows:
        notes.append(f"{stats.count} observations are too few to tell a season from chance")
    return notes


def _swings(part: Component | Product, wave: SHO) -> bool:
    """Return True for an oscillator that data have made one: others are smooth noise, or fixed."""
    given = part.name_of(wave, "period") in part.fixed
    return wave.quality > SERIES.swinging_quality and not given


def _outlives(factor: Periodic | SHO, span: float) -> bool:
    """Return True for what is the same from one end of the data to the other."""
    return isinstance(factor, Periodic) or factor.quality * factor.period > span
