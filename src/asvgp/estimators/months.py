"""Steps of calendar months: where a series of month starts, or of month ends, goes on."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from asvgp.basis import Array
from asvgp.statistics import Statistics
from asvgp.statistics.ending import Ending
from asvgp.times import TimeAxis

_SHORTEST, _LONGEST = 27.9, 31.1  # days of a month
_YEAR = _MOST = 12  # months of a step
_LOOK = 12  # steps back that are looked at
_FEWEST = 3  # of them with data


@dataclass(frozen=True)
class Months:
    """Calendar steps after a last time, on the same day of the month, or on the last one."""

    last: datetime  # on the clock of the data
    each: int  # months of a step
    axis: TimeAxis

    def after(self, steps: Array) -> Array:
        """Return the seconds of so many steps after the last time, or before it."""
        return self.axis.to_seconds([self._time(int(step)) for step in steps])

    def until(self, place: float) -> int:
        """Return the number of steps to a place, which must lie beyond the next of them."""
        last, following = self.after(np.array([0, 1]))
        if place < following:
            shown = self.axis.shown
            raise ValueError(
                f"until={shown(place)} leaves nothing to forecast: the last input is "
                f"{shown(last)}, and the next, by the calendar, {shown(following)}."
            )
        most = int((place - last) / (self.each * _SHORTEST * 86_400.0)) + 1
        return int(np.sum(self.after(np.arange(1, most + 1)) <= place))

    def _time(self, step: int) -> datetime:
        year, month = divmod(12 * self.last.year + self.last.month - 1 + self.each * step, 12)
        length = monthrange(year, month + 1)[1]
        day = length if is_month_end(self.last) else min(self.last.day, length)
        return self.last.replace(year=year, month=month + 1, day=day)


def is_month_end(time: datetime) -> bool:
    """Return True on the last day of a month."""
    return time.day == monthrange(time.year, time.month)[1]


def months_of(stats: Statistics, end: Ending, axis: TimeAxis | None) -> Months | None:
    """Return the calendar steps of data; None where they do not follow the calendar.

    The last time must be the first or the last day of a month, and there must be no recent data but
    whole steps before it, as far as the cells of the statistics tell. Some may be missing.
    """
    if axis is None or end.last is None or end.step is None:
        return None
    each = max(1, round(end.step / 86_400.0 / 30.44))
    if end.regular and each != _YEAR:  # leap years hardly differ from others
        return None
    if not _SHORTEST < end.step / 86_400.0 / each < _LONGEST or each > _MOST:
        return None
    last = axis.to_times(np.array([end.last]))[0].astype("M8[us]").item()
    if axis.tz is not None:
        try:
            last = last.replace(tzinfo=UTC).astimezone(ZoneInfo(axis.tz))
        except (KeyError, ValueError):  # an offset, say
            return None
    months = Months(last, each, axis)
    if last.day != 1 and not is_month_end(last):
        return None
    grid = stats.grid
    places = (months.after(-np.arange(_LOOK + 1)) - grid.lower) / grid.spacing
    first = np.round(places[places > -0.5]).astype(int)
    expected = np.concatenate([first - 1, first])  # an input on a knot is in a cell beside it
    filled = np.flatnonzero(stats.cell_weights > 0.0)
    recent = filled[filled >= first.min() - 1]
    return months if len(recent) >= _FEWEST and np.isin(recent, expected).all() else None
