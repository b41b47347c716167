"""The kernel that is used where the user gives none.

A series gets a Matérn, a constant, a season for every period that the data show, a drift of the
shortest of them (in long series only if it may be there), and a lasting level and a trend, where
there are any. Where no level lasts, a rough Matérn is added if the data show one. Times are tried
with the day, the week and the year; numbers with the periods of the peaks of their periodogram, and
with seven times one that has as many steps as a day has hours, or a multiple of these. Without a
season there is a trend all the same, where the data show one. Several inputs get one Matérn kernel
over all of them, and a constant.

Of many rows, means over cells of equal width show what is long, and a stretch of neighbouring rows
shows periods that are too short for the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import Table
from asvgp.estimators.default_roughness import rough_and_smooth
from asvgp.estimators.default_trend import trend_of
from asvgp.kernels import SHO, Constant, Kernel, Matern12, Matern32, Periodic
from asvgp.policies import DEFAULT, SERIES
from asvgp.times import Duration, TimeAxis, is_time

_CALENDAR = {"1 day": 86400.0, "1 week": 604800.0, "1 year": 31557600.0}
PLAIN = Matern32() + Constant()
_ROUNDING = 1e-20  # of the squares of y: a trend leaves no less, and this has periods of its own


def default_kernel(table: Table, y, bends: bool = True) -> Kernel:
    """Return the kernel for the columns of X and the targets.

    Without ``bends`` a trend is a line at most: what bends it has a variance in the units of y, and
    a scale that goes by the span of these rows.

    Examples
    --------
    >>> t = np.arange(400.0)
    >>> y = np.sin(2 * np.pi * t / 24) + 0.01 * t
    >>> default_kernel(Table(t), y).parameters[2:4]
    ('2.lengthscale', '2.variance')
    """
    if table.width != 1:
        return PLAIN
    column = table.column(0)
    timed = is_time(column)
    x = TimeAxis.from_values(column).to_seconds(column) if timed else np.asarray(column, float)
    targets = np.asarray(y, dtype=float).reshape(len(x), -1)
    good = np.isfinite(x) & np.isfinite(targets).all(axis=1)
    order = np.flatnonzero(good)[np.argsort(x[good], kind="stable")]
    rows, (targets, scale) = x[order], _alike(targets[order])
    length = Duration if timed else float
    x, means = _thinned(rows, targets)
    span = float(np.ptp(x)) if len(x) else 0.0
    found = periods(x, means, list(_CALENDAR.values()) if timed else None)
    if len(x) < len(rows):
        found = _with_short(found, rows, targets, x, timed)
    if not found:
        trend = trend_of(x, means).scaled(scale, bends)._replace(level=0.0)  # that of the Matérn
        kernel = _irregular(rows, targets, [], length)
        return trend.added_to(kernel, span, length) if trend.line else kernel
    rest = _without_seasons(x, means, found)
    trend = trend_of(x, rest, found[0]).scaled(scale, bends)
    # a lasting level is the second process otherwise
    kernel = PLAIN if trend.level else _irregular(rows, targets, found, length)
    seasons = [Periodic(period=length(period), centred=True) for period in found]
    for season in seasons:
        kernel = kernel + season
    lasting = bends and len(rows) > SERIES.regular_inputs  # nothing is saved where there are fewer
    if not lasting or _drifts(x, rest - _smooth(x, rest, span), found[0]):
        kernel = kernel + seasons[0] * Matern32()
    wave = None if timed else _wave(x, rest, found)
    if wave is not None:
        kernel = kernel + SHO(period=wave, quality=DEFAULT.wave_quality)
    return trend.added_to(kernel, span, length)


def _irregular(
    x: Array, y: Array, found: Sequence[float], length: Callable[[float], float]
) -> Kernel:
    """Return a Matérn and a constant; two Matérns if y without seasons and trend shows both."""
    # between more rows than there are cells, nothing rough is seen
    if not DEFAULT.fewest_sampled <= len(x) <= SERIES.most_finest_cells or x[0] == x[-1]:
        return PLAIN
    # Steps between few wide phases would be taken for something rough.
    rest = _without_seasons(x, y, found, max(DEFAULT.phases, len(x) // DEFAULT.rows_per_phase))
    rest = rest - _smooth(x, rest, float(np.ptp(x)))
    if np.sum(rest**2) <= _ROUNDING * np.sum(y**2):
        return PLAIN
    lengths = rough_and_smooth(x, rest)
    if lengths is None:
        return PLAIN
    rough, smooth = map(length, lengths)
    return Matern12(lengthscale=rough) + Matern32(lengthscale=smooth) + Constant()


def _alike(y: Array) -> tuple[Array, float]:
    """Return outputs divided by their standard deviations, and the mean square of these.

    The kernel is that of all outputs, in whatever units each of them is. What varies by its
    rounding alone becomes zero.
    """
    if not len(y):
        return y, 1.0
    scale = y.std(axis=0)
    scale = np.where(scale**2 > _ROUNDING * np.mean(y**2, axis=0), scale, np.inf)
    known = scale[np.isfinite(scale)]
    return y / scale, float(np.mean(known**2)) if len(known) else 1.0


def periods(x: Array, y: Array, candidates: Sequence[float] | None = None) -> list[float]:
    """Return the periods that the data show, the shortest first.

    Of the ``candidates``, or where there are none, of the peaks of the periodogram.
    """
    if len(x) < DEFAULT.fewest_rows:
        return []
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    gaps = np.diff(np.unique(x))
    if not len(gaps):
        return []
    gap, span = float(np.median(gaps)), float(x[-1] - x[0])
    left = y - _smooth(x, y, span)
    if np.sum(left**2) <= _ROUNDING * np.sum(y**2):
        return []
    shortest, longest = DEFAULT.fewest_per_period * gap, span / DEFAULT.fewest_periods
    if candidates is None:  # what is too short to show may be an image of something else
        clear = [peak for peak in _peaks(x, y, gap, span) if peak[0] >= shortest]
        candidates = _in_proportion(clear)
        candidates += [week for week in _weeks(candidates, gap) if not _near(week, candidates)]
    found: list[float] = []
    for period in sorted(candidates):
        if shortest <= period <= longest:
            share, kept = _explained(x, left, period, gap)
            if share > DEFAULT.least_share and _repeats(x, left, period, gap):
                found.append(period)
                left = kept
    return found


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the centres of cells that hold some of many rows, x sorted, and means of y there.

    A cell is a whole number of typical distances wide, so that regular inputs stay regular.
    """
    if len(x) <= DEFAULT.most_rows or x[0] == x[-1]:
        return x, y
    gap, span = _gap(x), float(x[-1] - x[0])
    steps = np.ceil(span / gap / DEFAULT.most_rows)
    place = np.floor(((x - x[0]) / gap + 0.5) / steps)  # inputs are far from where cells begin
    begins = np.flatnonzero(np.diff(place, prepend=-1.0))
    count = np.diff(begins, append=len(x))
    centres = x[0] + gap * (place[begins] * steps + 0.5 * (steps - 1.0))
    return centres, np.add.reduceat(y, begins) / count[:, None]


def _with_short(
    found: list[float], rows: Array, y: Array, cells: Array, timed: bool
) -> list[float]:
    """Return periods that cells show, and shorter ones of the first rows, in proportion."""
    gap, span = _gap(rows), float(rows[-1] - rows[0])
    candidates = list(_CALENDAR.values()) if timed else None
    first = slice(DEFAULT.most_rows)
    least = DEFAULT.fewest_per_period * _gap(cells)
    short = [p for p in periods(rows[first], y[first], candidates) if p < least]
    if timed:
        return short + found
    if short:
        return short + _multiples(short[0], found)
    # the shortest period is a part of the others
    return [_in_steps(found[0], rows, gap, span) / found[0] * p for p in found] if found else []


def _without_seasons(
    x: Array, y: Array, found: Sequence[float], most: int = DEFAULT.phases
) -> Array:
    """Return y less means by at ``most`` so many phases of periods, level and trend kept."""
    gap, span = _gap(x), float(x[-1] - x[0])
    smooth = _smooth(x, y, span)
    left = y - smooth
    for period in found:
        left = _explained(x, left, period, gap, most)[1]
    return smooth + left


def _gap(x: Array) -> float:
    """Return the typical distance between inputs, of which some may be equal."""
    return float(np.median(np.diff(np.unique(x))))


def _repeats(x: Array, y: Array, period: float, gap: float) -> bool:
    """Return True if cycles are alike, beyond what neighbouring values have in common.

    Means by phase of what varies slowly differ by chance as well. But then they differ as much
    from one cycle to the next: the mean shape is no larger than its standard error.
    """
    bins = int(np.clip(round(period / gap), 2, DEFAULT.phases))
    turns = (x - x[0]) / period
    cycle = turns.astype(int)
    phase = np.minimum(((turns - cycle) * bins).astype(int), bins - 1)
    cycles = int(cycle[-1]) + 1
    count = np.bincount(cycle * bins + phase, minlength=cycles * bins).reshape(cycles, bins)
    there = count > 0
    signal = scatter = 0.0
    for column in y.T:
        table = np.bincount(cycle * bins + phase, column, cycles * bins).reshape(cycles, bins)
        table = table / np.maximum(count, 1)
        level = table.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        table = np.where(there, table - level[:, None], 0.0)
        seen = there.sum(axis=0)
        shape = table.sum(axis=0) / np.maximum(seen, 1)
        about = np.sum(np.where(there, table - shape, 0.0) ** 2, axis=0) / np.maximum(seen - 1, 1)
        signal += float(np.sum(np.where(seen > 1, seen * shape**2, 0.0)))
        scatter += float(np.sum(np.where(seen > 1, about, 0.0)))
    return signal > DEFAULT.least_repeat * scatter


def _drifts(x: Array, y: Array, period: float) -> bool:
    """Return True if what a season leaves is more alike a period later than a part of one later.

    That is how a shape which drifts shows in the autocorrelation. What is merely irregular becomes
    ever less alike. Averages over a period are taken off, which any level moves.
    """
    bins = int(np.clip(round(period / _gap(x)), 4, DEFAULT.drift_phases))
    place = np.floor((x - x[0]) / period * bins + 1e-6).astype(int)
    count = np.bincount(place)
    there = count > 0
    wide = np.ones(bins + 1)
    near = np.maximum(np.convolve(there, wide, "same")[: len(there)], 1.0)
    aside = max(1, round(DEFAULT.drift_aside * bins))
    alike, variance = np.zeros(3), 0.0
    for column in y.T:
        means = np.bincount(place, column) / np.maximum(count, 1)
        means = np.where(there, means - np.convolve(means, wide, "same")[: len(there)] / near, 0.0)
        variance += float(np.mean(means[there] ** 2))
        for number, lag in enumerate((bins - aside, bins, bins + aside)):
            both = there[lag:] & there[:-lag]
            alike[number] += np.sum(means[lag:] * means[:-lag]) / max(both.sum(), 1)
    return bool(alike[1] - 0.5 * (alike[0] + alike[2]) > DEFAULT.least_drift * variance)


def _smooth(x: Array, y: Array, span: float) -> Array:
    """Return a quadratic trend."""
    s = 2.0 * (x - x[0]) / span - 1.0
    design = np.stack([np.ones_like(s), s, s**2], axis=1)
    return design @ np.linalg.lstsq(design, y, rcond=None)[0]


def _explained(
    x: Array, y: Array, period: float, gap: float, most: int = DEFAULT.phases
) -> tuple[float, Array]:
    """Return the share of the variance that means by phase explain, and what they leave.

    The share is the adjusted one: of noise it is zero on average. There are at ``most`` so many
    phases.
    """
    bins = int(np.clip(round(period / gap), 2, most))
    phase = np.minimum((np.mod(x, period) / period * bins).astype(int), bins - 1)
    count = np.maximum(np.bincount(phase, minlength=bins), 1)
    means = np.stack([np.bincount(phase, column, bins) / count for column in y.T], axis=1)
    left = y - means[phase]
    rest, whole = float(np.sum(left**2)), float(np.sum((y - y.mean(axis=0)) ** 2))
    rows = len(x)
    if whole == 0.0 or rows <= bins + 1:
        return 0.0, y
    return 1.0 - (rest / (rows - bins)) / (whole / (rows - 1)), left


def _wave(x: Array, y: Array, found: Sequence[float]) -> float | None:
    """Return the period of a wave beside the seasons; None where there is none.

    It has a peak of its own in the periodogram of y less the seasons, is no multiple and no part of
    them, and explains much of what they leave.
    """
    gap, span = _gap(x), float(x[-1] - x[0])
    left = y - _smooth(x, y, span)
    for period, _ in _peaks(x, left, gap, span):
        related = [
            pair for p in found for pair in _multiples(p, [period]) + _multiples(period, [p])
        ]
        near = any(abs(period / p - 1.0) < DEFAULT.peak_width for p in found)
        if related or near or period < DEFAULT.fewest_per_period * gap:
            continue
        angle = 2.0 * np.pi * x / period
        design = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        rest = left - design @ np.linalg.lstsq(design, left, rcond=None)[0]
        if np.sum(rest**2) < (1.0 - DEFAULT.wave_share) * np.sum(left**2):
            return period
    return None


def _peaks(x: Array, y: Array, gap: float, span: float) -> list[tuple[float, float]]:
    """Return periods and heights of separate peaks of the periodogram, the highest first.

    They are of y less a quadratic trend.
    """
    cells = int(min(span / gap, DEFAULT.most_rows)) + 1
    place = np.minimum(((x - x[0]) / span * (cells - 1) + 0.5).astype(int), cells - 1)
    count = np.bincount(place, minlength=cells)
    spectrum = np.zeros(4 * cells // 2 + 1)
    for column in (y - _smooth(x, y, span)).T:
        sums = np.bincount(place, column, cells)
        means = np.divide(sums, count, out=np.zeros(cells), where=count > 0)
        spectrum += np.abs(np.fft.rfft(means, 4 * cells)) ** 2
    frequency = np.arange(len(spectrum)) / (4 * cells * span / (cells - 1))
    found: list[tuple[float, float]] = []
    power = np.where(frequency >= DEFAULT.fewest_free_periods / span, spectrum, 0.0)
    for _ in range(DEFAULT.peaks):
        best = int(np.argmax(power))
        centre = frequency[best]
        around = (frequency > 0.5 * centre) & (frequency < 2.0 * centre)
        near = np.abs(frequency - centre) <= max(DEFAULT.peak_width * centre, 8 * frequency[1])
        power[near] = 0.0
        beside = spectrum[around & ~near]
        if not len(beside) or spectrum[best] <= DEFAULT.peak * np.median(beside):
            continue
        period = 1.0 / (centre + _vertex(spectrum, best) * frequency[1])
        found.append((_in_steps(period, x, gap, span), float(spectrum[best])))
    return found


def _in_steps(period: float, x: Array, gap: float, span: float) -> float:
    """Return a period as a whole number of steps, if inputs are regular and data allow it.

    Seasons of regular series are whole numbers of steps as a rule, and peaks are less precise.
    """
    steps = np.diff(x) / gap
    whole = gap * round(period / gap)
    near = span * abs(1.0 / period - 1.0 / whole) < DEFAULT.whole_steps
    return whole if near and np.all(np.abs(steps - np.rint(steps)) < 1e-6) else period


def _in_proportion(found: list[tuple[float, float]]) -> list[float]:
    """Return the strongest period, given first, and those whose ratio to it is a whole number.

    Pairs are periods and the heights of their peaks. Much shorter ones, and shorter ones that are
    about as strong, are seasons in their own right: longer ones become multiples of them. Other
    parts of a period are its harmonics.
    """
    out: list[float] = []
    for period, power in found:
        strong = power > DEFAULT.own_peak * found[0][1]
        harmonics = DEFAULT.strong_harmonics if strong else DEFAULT.most_harmonics
        if not out or out[0] > harmonics * period:
            out = [period, *_multiples(period, out)]
        else:
            out += _multiples(out[0], [period])
    return out


def _multiples(period: float, others: Sequence[float]) -> list[float]:
    """Return whole multiples of a period, for those of the others that are nearly one."""
    times = [other / period for other in others if other > 1.5 * period]
    return [period * round(n) for n in times if abs(n - round(n)) < DEFAULT.harmonic * n]


def _weeks(found: Sequence[float], gap: float) -> list[float]:
    """Return seven times every period that may be a day: of 24 steps, or of a multiple of 24.

    A week shows as seven or more small peaks beside those of the day, none of which may be clear.
    """
    days = [p for p in found if p > 23.0 * gap and _near(p / gap, [24.0 * round(p / gap / 24.0)])]
    return [7.0 * day for day in days]


def _near(period: float, others: Sequence[float]) -> bool:
    """Return True if a period is one of the others, up to what a peak tells."""
    return any(abs(period - other) < DEFAULT.harmonic * other for other in others)


def _vertex(spectrum: Array, place: int) -> float:
    """Return how far the peak of a parabola through three values is from the middle one."""
    if not 0 < place < len(spectrum) - 1:
        return 0.0
    low, middle, high = spectrum[place - 1 : place + 2]
    bend = low - 2.0 * middle + high
    return 0.0 if bend >= 0.0 else 0.5 * (low - high) / bend
