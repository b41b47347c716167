"""An input of a model as pictures see it: its domain, its units and its label."""

from __future__ import annotations

from datetime import UTC
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from asvgp.basis import Array
from asvgp.times import TimeAxis, as_duration

_DAY = 86_400.0


class Input(NamedTuple):
    """A column of X that processes are over."""

    column: int
    name: str | None
    axis: TimeAxis | None  # where it holds times; numbers are seconds then
    lower: float
    upper: float
    spacing: float  # between knots

    @property
    def label(self) -> str:
        """Label of an axis."""
        if self.axis is None:
            return "x" if self.name is None else self.name
        name = "time" if self.name is None else self.name
        return name if self.zone is None else f"{name} ({self.zone})"

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of the data; for offsets without a name, UTC."""
        if self.axis is None or self.axis.tz is None:
            return None
        try:
            return ZoneInfo(self.axis.tz)
        except (ZoneInfoNotFoundError, ValueError):
            return ZoneInfo("UTC")

    def shown(self, x) -> Array:
        """Return numbers as matplotlib takes them: times are days since its epoch."""
        x = np.asarray(x, dtype=float)
        return x if self.axis is None else self._origin + x / _DAY

    def unshown(self, x) -> Array:
        """Return the numbers that `shown` turned into those of matplotlib."""
        x = np.asarray(x, dtype=float)
        return x if self.axis is None else (x - self._origin) * _DAY

    @property
    def _origin(self) -> float:
        from matplotlib.dates import date2num

        assert self.axis is not None
        return float(date2num(self.axis.origin))

    def read(self, values, name: str) -> Array:
        """Return places that a user gave, as numbers."""
        if self.axis is not None:
            return self.axis.to_seconds(list(values), name=name)
        try:
            numbers = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            numbers = np.array(np.nan)
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"{name} must hold finite numbers, as X does, got {values!r:.80}.")
        return numbers

    def interval(self, given, forecast) -> tuple[float, float]:
        """Return the ends to show: those given or of the domain, with a forecast beyond it."""
        ahead = self.length(forecast)
        if given is None:
            return self.lower, self.upper + ahead
        if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != 2:
            raise ValueError(f"interval must be None or a pair (start, stop), got {given!r:.80}.")
        start, stop = (float(end) for end in self.read(given, "interval"))
        if not start < stop:
            raise ValueError(f"interval must be in increasing order, got {given!r:.80}.")
        return start, max(stop, self.upper + ahead) if ahead else stop

    def length(self, given, name: str = "forecast") -> float:
        """Return a length along the axis that a user gave, as a number."""
        duration = as_duration(given) if given else None
        if given and (duration is None) == (self.axis is not None):
            wanted = "a duration such as '7 days'" if self.axis else "a number in the units of X"
            raise TypeError(f"{name} must be {wanted}, got {given!r}.")
        length = float(given or 0.0) if duration is None else float(duration)
        if not 0.0 <= length < np.inf:
            raise ValueError(f"{name} must be positive and finite, got {given!r}.")
        return length

    def dress(self, side) -> None:
        """Label an axis of matplotlib's, with dates where this input is time."""
        if self.axis is not None:
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            zone = self.zone or UTC  # what times without a zone are taken for
            side.axis_date(zone)
            locator = AutoDateLocator(tz=zone)
            side.set_major_locator(locator)
            side.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
        side.set_label_text(self.label)

    def number(self, value: float) -> str:
        """Return a place along the axis as text."""
        if self.axis is None:
            return f"{value:.4g}"
        seconds = (self.upper - self.lower) > 1000.0
        return str(self.axis.to_times(np.array([value]))[0].astype("M8[s]" if seconds else "M8"))
