"""Times and durations as people write them: seconds inside, sensible units outside.

pandas and polars are recognised by what their objects offer and never imported.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from asvgp.basis import Array
from asvgp.runtime.checks import in_rows
from asvgp.runtime.parallel import each_chunk, each_share

# Seconds per unit as a quotient, so that '10us' is exactly 1e-5, and spellings in lower case.
_UNITS = (
    (31_557_600, 1, "year years y yr yrs"),
    (604_800, 1, "week weeks w wk wks"),
    (86_400, 1, "day days d"),
    (3_600, 1, "hour hours h hr hrs"),
    (60, 1, "minute minutes m min mins"),
    (1, 1, "second seconds s sec secs"),
    (1, 10**3, "millisecond milliseconds ms"),
    (1, 10**6, "microsecond microseconds us µs μs"),
    (1, 10**9, "nanosecond nanoseconds ns"),
)
_SPELLINGS = {name: (times, over) for times, over, names in _UNITS for name in names.split()}
_PART = re.compile(
    r"\s*(?:,|and\b)?\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([^\W\d_]+)\s*", re.IGNORECASE
)
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 0, "fs": 0, "as": 0}
_LAST = 9_223_372_036 * 10**9  # whole seconds that datetime64[ns] holds


class Duration(float):
    """A length of time in seconds, printed in units people use.

    A float in every respect but its looks; arithmetic returns plain floats. What is printed
    (six digits) is what `as_duration` reads.

    Examples
    --------
    >>> from asvgp.times import Duration
    >>> Duration(7 * 86400), Duration(0.02), Duration(5400.0) + 1.0
    ('7 days', '20 milliseconds', 5401.0)
    """

    __slots__ = ()

    def __str__(self) -> str:
        if self == 0.0 or not math.isfinite(self):
            return f"{float(self):g} seconds"
        value, names = 0.0, ""
        for times, over, names in _UNITS[2:]:  # noqa: B007 (nanoseconds and whatever is less)
            value = float(f"{self / times * over:.6g}")
            if abs(value) >= 1.0:
                break
        ordinary = 1e-4 <= abs(value) < 1e15
        digits = np.format_float_positional(value, trim="-") if ordinary else f"{value:g}"
        return f"{digits} {names.split()[abs(value) != 1.0]}"

    def __repr__(self) -> str:
        return f"'{self}'"


def as_duration(value) -> Duration | None:
    """Read a duration; return None for numbers and anything else without a unit of time.

    Timedeltas of Python, NumPy and pandas, and strings of numbers with units: "7 days", "36h",
    "1 day 12 hours". A year is 365.25 days; months differ in length and are not understood.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from asvgp.times import as_duration
    >>> as_duration("1 day 12 hours"), as_duration(timedelta(minutes=90))
    ('1.5 days', '1.5 hours')
    >>> as_duration("2 years"), as_duration(2.0)
    ('730.5 days', None)
    """
    if hasattr(value, "to_timedelta64"):  # pandas, which keeps nanoseconds
        value = value.to_timedelta64()
    if isinstance(value, Duration):
        seconds = float(value)
    elif isinstance(value, str):
        seconds = _read(value)
    elif isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, np.timedelta64):
        if np.datetime_data(value.dtype)[0] in ("generic", "Y", "M"):
            raise ValueError(f"{value!r} is not a definite duration: give it in days, for example.")
        seconds = float(value / np.timedelta64(1, "s"))
    elif isinstance(value, date) and value != value:  # pandas.NaT calls itself a datetime
        seconds = math.nan
    else:
        return None
    if not 0.0 < seconds < math.inf:
        raise ValueError(f"A duration must be positive and finite, got {value!r}.")
    return Duration(seconds)


def is_time(values) -> bool:
    """Return True if an array, list, series or one-column data frame holds times.

    Periods of pandas are times: they stand for their start, as in ``to_timestamp``.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.times import is_time
    >>> is_time(np.array(["2024-03-31"], dtype="datetime64[D]")), is_time([0.0, 1.0])
    (True, False)
    """
    column, kind, _, _ = _look(values)
    for item in column if kind == "O" else ():
        if isinstance(item, list | tuple | np.ndarray):
            return is_time(item)
        if not _is_absent(item):
            return isinstance(_start(item), date | np.datetime64)
    return kind == "M"


def _start(item: Any) -> Any:
    """Return the start of a Period of pandas, which it stands for; other items as they are."""
    period = hasattr(item, "to_timestamp") and hasattr(item, "ordinal")
    return item.to_timestamp() if period else item


def _frequency(values: Any) -> str | None:
    """Return the frequency of a column of periods of pandas; None of other columns."""
    if getattr(values, "shape", ())[1:] == (1,) and hasattr(values, "iloc"):
        values = values.iloc[:, 0]
    name = str(getattr(values, "dtype", ""))
    return name[len("period[") : -1] if name.startswith("period[") else None


class Zoned:
    """Instants in UTC that came in a time zone, as one column.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.times import TimeAxis, Zoned
    >>> times = Zoned(np.array(["2024-01-01T12"], dtype="datetime64[s]"), "Europe/Berlin")
    >>> TimeAxis.from_values(times).tz
    'Europe/Berlin'
    """

    def __init__(self, times: Array, tz: str):
        self.times, self.tz = times, tz
        self.dtype = SimpleNamespace(kind="M", unit=np.datetime_data(times.dtype)[0], tz=tz)
        self.shape, self.ndim = times.shape, 1

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, rows: slice | Array) -> Zoned:
        return Zoned(self.times[rows], self.tz)

    def __array__(self, dtype=None, copy=None) -> Array:
        return np.asarray(self.times, dtype=dtype)

    def tolist(self) -> list:
        """Return the times as a list of Python objects."""
        return self.times.tolist()


@dataclass(frozen=True)
class TimeAxis:
    """The instant that seconds are counted from, and the time zone of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.times import TimeAxis
    >>> t = np.array(["2024-01-02", "2024-01-01T12"], dtype="datetime64[h]")
    >>> axis = TimeAxis.from_values(t)
    >>> axis.to_seconds(t)
    array([43200.,     0.])
    >>> axis.to_times([0.5])
    array(['2024-01-01T12:00:00.500000000'], dtype='datetime64[ns]')
    """

    origin: np.datetime64  # in UTC, to the nanosecond
    tz: str | None = None  # None for times without a zone, which are taken as they are
    frequency: str | None = None  # of periods of pandas, as it writes that; None for times

    @classmethod
    def from_values(cls, values, *, name: str = "X") -> TimeAxis:
        """Return the axis of these times, which starts at the earliest (1678 to 2262)."""
        times, tz = instants(values, name)
        if len(times) == 0:
            raise ValueError(f"{name} holds no times: it has 0 rows.")
        if np.isnat(earliest := times.min()):
            raise _missing(times, name)
        whole, nano = (int(part) for part in _split(earliest))
        origin = np.datetime64(max(min(whole * 10**9 + nano, _LAST), -_LAST), "ns")
        return cls(origin, tz, _frequency(values))

    def to_seconds(self, values, *, name: str = "X") -> Array:
        """Return the seconds since the origin, one float64 per row; text is read as times.

        Differences are taken in integers, so that only the result is rounded: by less than
        1 ns within 100 days and less than 1 µs within 500 years of the origin.
        """
        times, tz = instants(_read_text(values, name) if is_text(values) else values, name)
        if (tz is None) != (self.tz is None):
            raise ValueError(
                f"{name} holds times {_in_zone(tz)}, but the model was fitted to times "
                f"{_in_zone(self.tz)}. Give those without one the zone they are in (tz_localize; "
                "replace_time_zone in polars) or take it off the others: tz_localize(None), after "
                "tz_convert where they are in another zone."
            )
        start, nano = _split(self.origin)
        seconds = np.empty(len(times))

        def share(begin: int, end: int) -> None:
            for first, last in each_chunk(begin, end):
                if np.isnat(times[first:last]).any():
                    raise _missing(times, name)
                whole, rest = _split(times[first:last])
                np.add(whole - start, (rest - nano) / 1e9, out=seconds[first:last])

        each_share(len(times), share)
        return seconds

    def span(self, lower: float, upper: float) -> tuple:
        """Return the ends of an interval as times, in the zone of the data if they have one."""
        ends = self.to_times(np.array([lower, upper]))
        if self.tz is None:
            return tuple(ends)
        try:
            zone = ZoneInfo(self.tz)
        except (ZoneInfoNotFoundError, ValueError):  # a fixed offset, by another name
            zone = UTC
        # Aware datetimes know microseconds: outwards, so that nothing is left out.
        micro = [ends[0].astype("M8[us]"), (ends[1] + np.timedelta64(999, "ns")).astype("M8[us]")]
        epoch = datetime.fromtimestamp(0, UTC)
        return tuple(
            (epoch + timedelta(microseconds=int(time.astype(np.int64)))).astimezone(zone)
            for time in micro
        )

    def shown(self, seconds: float) -> str:
        """Write a position along the axis as text."""
        return in_short(self.span(seconds, seconds)[0])

    def to_times(self, seconds) -> Array:
        """Convert seconds since the origin to UTC instants, datetime64[ns]; NaN becomes NaT."""
        seconds = np.asarray(seconds, dtype=float)
        start, nano = _split(self.origin)
        missing = np.isnan(seconds)
        seconds = np.where(missing, 0.0, seconds)
        outside = ~(np.abs(seconds + start) < 9.223372e9)
        if outside.any():
            raise ValueError(
                f"{np.count_nonzero(outside)} of {seconds.size} times lie outside 1678 to 2262, "
                f"e.g. {seconds[outside][0]:g} s from {self.origin}: too far for datetime64[ns]."
            )
        whole = np.floor(seconds)
        ticks = np.rint((seconds - whole) * 1e9).astype(np.int64) + nano
        ticks += (whole.astype(np.int64) + start) * 10**9
        return np.where(missing, np.datetime64("NaT", "ns"), ticks.view("M8[ns]"))


def in_short(time) -> str:
    """Write a time as text, without trailing zeros.

    Examples
    --------
    >>> import numpy as np
    >>> in_short(np.datetime64("2004-06-01", "ns")), in_short(np.datetime64("2004-06-01T18", "ns"))
    ('2004-06-01', '2004-06-01T18:00')
    >>> in_short(np.datetime64("2004-06-01T18:00:02.5", "ns"))
    '2004-06-01T18:00:02.5'
    """
    if not isinstance(time, np.datetime64):
        return str(time)
    text = re.sub(r"\.?0+$", "", str(time)) if "." in str(time) else str(time)
    return text.removesuffix(":00").removesuffix("T00:00")


def _in_zone(tz: str | None) -> str:
    """Say which zone times have, for messages."""
    return "without a time zone" if tz is None else f"in the time zone {tz}"


def is_text(values) -> bool:
    """Return True if an array, list or series holds text, missing values aside.

    Examples
    --------
    >>> from asvgp.times import is_text
    >>> is_text(["2024-03-31"]), is_text([None, "2024-03-31"]), is_text([0.0])
    (True, True, False)
    """
    column = _look(values)[0]
    if np.ndim(column) == 0 or getattr(getattr(column, "dtype", None), "kind", "O") in "fiubcmM":
        return False
    items = np.asarray(column, dtype=object).ravel()
    return isinstance(next((item for item in items if not _is_absent(item)), None), str)


def _is_absent(item: object) -> bool:
    """Return True for what stands for a missing value: None and NaN."""
    return item is None or (isinstance(item, float) and item != item)


def _read_text(values, name: str) -> list[datetime]:
    """Return times that were written as text."""
    times = []
    for row, text in enumerate(np.asarray(values, dtype=object).ravel()):
        try:
            times.append(datetime.fromisoformat(text))
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must hold times, but row {row} is {text!r}. Write times as "
                "'2024-01-31' or '2024-01-31T18:30'."
            ) from None
    return times


def _read(text: str) -> float:
    """Return the seconds of a string such as '1 day 12 hours'."""
    body = text.strip().removeprefix("-")
    seconds, position, wrong = 0.0, 0, ""
    while not wrong and (match := _PART.match(body, position)):
        number, unit = match.groups()
        known = _SPELLINGS.get(unit if unit in ("M", "MS") else unit.lower())
        if known:
            seconds += float(number) * known[0] / known[1]
        elif unit == "M" or unit.lower().startswith("mo"):
            wrong = "months differ in length (give days or years)"
        else:
            wrong = f"unknown unit {unit!r}"
        position = match.end()
    if not wrong and (position < len(body) or not body):
        wrong = f"{body[position:]!r} is not a number with a unit"
    if wrong:
        raise ValueError(
            f"Cannot read {text!r} as a duration: {wrong}. Write numbers with units, such as "
            "'7 days', '36h', '1 day 12 hours'; the units are years (365.25 days), weeks, days, "
            "hours, minutes, seconds, ms, us and ns."
        )
    return -seconds if text.strip().startswith("-") else seconds


def _look(values) -> tuple[Any, str, str | None, str]:
    """Return the column, "M" for times or "O" for objects, the zone, and NumPy's type."""
    polars = type(values).__module__.partition(".")[0] == "polars"
    if (polars or hasattr(values, "iloc")) and getattr(values, "shape", ())[1:] == (1,):
        values = values.to_series(0) if polars else values.iloc[:, 0]
    if not polars and str(getattr(values, "dtype", "")).startswith("period["):  # of pandas
        values = getattr(values, "dt", values).to_timestamp()
    dtype: Any = getattr(values, "dtype", None)
    kind = "O" if isinstance(values, list | tuple) else getattr(dtype, "kind", "")
    if polars:
        kind = "M" if str(dtype).startswith("Date") else ""  # Date, Datetime(...)
    arrow = getattr(dtype, "pyarrow_dtype", dtype)
    tz = getattr(arrow, "tz", getattr(arrow, "time_zone", None))
    unit = getattr(arrow, "unit", "")  # pandas would return objects unless told
    return values, kind, None if tz is None else str(tz), f"M8[{unit}]" if unit else "M8"


def instants(values, name: str) -> tuple[Array, str | None]:
    """Return times in UTC as a datetime64 vector, without copying, and their zone."""
    if not is_time(values):
        kind = getattr(values, "dtype", type(values).__name__)
        raise TypeError(f"{name} must hold times, as the data of this model do, got {kind}.")
    column, kind, tz, dtype = _look(values)
    times = np.asarray(column, dtype=dtype if kind == "M" else object)
    times = times[:, 0] if times.ndim == 2 and times.shape[1] == 1 else times
    if times.ndim != 1:
        raise ValueError(f"{name} must be one column of times, got shape {times.shape}.")
    return (times, tz) if kind == "M" else _from_objects(times, name)


def _from_objects(items, name: str) -> tuple[Array, str | None]:
    """Convert datetimes, dates and Timestamps, which must share one zone or none."""
    zones: dict[str | None, int] = {}  # with the first row of each
    instants = []
    for row, item in enumerate(items):
        if item is None or (isinstance(item, float | date | np.datetime64) and item != item):
            instants.append(np.datetime64("NaT", "s"))
            continue
        item = _start(item)
        if not isinstance(item, date | np.datetime64):
            raise TypeError(f"{name} must hold times, but row {row} is {item!r}.")
        zone = None
        if isinstance(item, datetime) and item.utcoffset() is not None:
            zone, item = str(item.tzinfo), item.astimezone(UTC).replace(tzinfo=None)
        zones.setdefault(zone, row)
        exact = getattr(item, "to_datetime64", None)  # pandas, which keeps nanoseconds
        instants.append(exact() if exact else np.datetime64(item))
    if len(zones) > 1:
        found = ", ".join(f"{zone or 'none'} (row {row})" for zone, row in zones.items())
        raise ValueError(
            f"{name} mixes time zones: {found}. Bring all times to one: in pandas, tz_localize "
            "those that have none, then tz_convert or to_datetime(..., utc=True)."
        )
    times, seconds = np.array(instants), np.array([t.astype("M8[s]") for t in instants])
    if np.any((times.astype("M8[s]") != seconds) & ~np.isnat(seconds)):  # NumPy wraps silently
        raise ValueError(f"{name} mixes times too far apart for their unit, {times.dtype}.")
    return times, next(iter(zones), None)


def _split(times) -> tuple[Array, Array]:
    """Split times into whole seconds since 1970, rounded down, and nanoseconds."""
    unit = np.datetime_data(times.dtype)[0]
    unit = "s" if unit not in _TICKS else unit if _TICKS[unit] else "ns"
    ticks = times.astype(f"M8[{unit}]", copy=False).view(np.int64)
    return ticks // _TICKS[unit], ticks % _TICKS[unit] * (10**9 // _TICKS[unit])


def _missing(times, name: str) -> ValueError:
    where = in_rows(np.isnat(times))
    return ValueError(f"Input {name} contains NaT in {where}. Drop or fix those rows.")
