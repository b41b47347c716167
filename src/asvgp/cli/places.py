"""Places to predict that are not in a file: values and ranges, as given to ``--at``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import floor, prod
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from asvgp.cli.values import number_or_duration, number_or_time
from asvgp.data.columns import Columns
from asvgp.times import Duration, Zoned

ROWS = 1 << 18  # of a portion


def axes(gp, texts: Sequence[str], inputs: Sequence[str]) -> list:
    """Return one axis per input, from texts ``[NAME=]VALUE`` or ``[NAME=]START:STOP:STEP``."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals:
            if len(inputs) > 1:
                raise ValueError(
                    f"The model has {len(inputs)} inputs, {', '.join(inputs)}: say which {text!r} "
                    f"is of, as in {inputs[0]}={text}."
                )
            name, rest = inputs[0], text
        if name not in inputs:
            raise ValueError(f"The model has no input {name!r}; it has {', '.join(inputs)}.")
        if name in found:
            raise ValueError(f"Places of {name!r} are given twice.")
        found[name] = read_axis(rest)
    if absent := [name for name in inputs if name not in found]:
        raise ValueError(f"Places of {absent[0]!r} are missing: add --at {absent[0]}=VALUE.")
    zones = {inputs[column]: axis.tz for column, axis in gp._fit_data().structure.timed.items()}
    return [_in_zone(found[name], zones.get(name)) for name in inputs]


def read_axis(text: str):
    """Return numbers or times of one input, with the last one if the step meets it.

    Examples
    --------
    >>> read_axis("0:1:0.25").tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> read_axis("2024-01-01T06:00:2024-01-02:6h")[[0, -1]].astype("M8[h]").tolist()
    [datetime.datetime(2024, 1, 1, 6, 0), datetime.datetime(2024, 1, 2, 0, 0)]
    """
    parts = text.split(":")
    # Times hold colons, too: the only way to read all three parts is the right one.
    for first in range(1, len(parts)):
        for second in range(first + 1, len(parts)):
            pieces = [parts[:first], parts[first:second], parts[second:]]
            start, stop, step = (":".join(piece) for piece in pieces)
            try:
                ends = number_or_time(start), number_or_time(stop)
                width = number_or_duration(step)
            except ValueError:
                continue
            return _range(text, *ends, width)
    try:
        return _points(text, [number_or_time(text)])
    except ValueError:
        raise ValueError(
            f"{text!r} is not a place: write a value, or START:STOP:STEP as in 0:10:0.5 or "
            "2024-01-01:2024-02-01:1h."
        ) from None


def _range(text: str, start, stop, step):
    if isinstance(start, float) and isinstance(stop, float) and type(step) is float:
        if not (np.isfinite([start, stop, step]).all() and step > 0.0 and stop >= start):
            raise ValueError(f"{text!r}: STOP must not be before START, and STEP be positive.")
        count = floor((stop - start) / step * (1.0 + 1e-12) + 1e-9) + 1
        _check_count(text, count)
        return start + step * np.arange(count)
    if isinstance(start, float) or isinstance(stop, float) or not isinstance(step, Duration):
        raise ValueError(
            f"{text!r} mixes numbers and times: times take a step with a unit, such as 1h, and "
            "numbers one without."
        )
    ends = _points(text, [start, stop])
    first, last = np.asarray(ends).astype("M8[ns]").view(np.int64).tolist()
    nano = round(float(step) * 1e9)
    if last < first or nano < 1:
        raise ValueError(f"{text!r}: STOP must not be before START, and STEP be at least 1 ns.")
    count = (last - first) // nano + 1
    _check_count(text, count)
    times = _short((first + nano * np.arange(count)).view("M8[ns]"))
    return Zoned(times, ends.tz) if isinstance(ends, Zoned) else times


def _check_count(text: str, count: int) -> None:
    if count > 10**8:
        raise ValueError(f"{text!r} are {count:,} places: that is too many, take a longer step.")


def _points(text: str, values: list):
    """Return values of one kind as an axis."""
    aware = [isinstance(value, datetime) for value in values]
    if all(aware):
        times = [np.datetime64(value.astimezone(UTC).replace(tzinfo=None)) for value in values]
        return Zoned(_short(np.array(times).astype("M8[ns]")), "UTC")
    if any(aware):
        raise ValueError(f"{text!r}: give both times an offset, or neither.")
    found = np.array(values)
    return _short(found.astype("M8[ns]")) if found.dtype.kind == "M" else found


def _short(times):
    """Return times in seconds if they are whole, so that tables show no trailing zeros."""
    seconds = times.astype("M8[s]")
    return seconds if np.array_equal(seconds, times) else times


def _in_zone(axis, zone: str | None):
    """Return an axis in the zone of the data; times without an offset are local to it."""
    if zone is None or getattr(axis, "dtype", np.dtype(float)).kind != "M":
        return axis
    if isinstance(axis, Zoned):
        return Zoned(axis.times, zone)
    # The first is moved, and the others with it: steps are of time that passes.
    try:
        clock = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"Times of this model are in the zone {zone}: give those of --at an offset, as in "
            "2024-03-31T12:00+02:00."
        ) from None
    first = axis[0].astype("M8[us]").astype(datetime).replace(tzinfo=clock)
    instant = np.datetime64(first.astimezone(UTC).replace(tzinfo=None), "s")
    return Zoned(axis + (instant - axis[0].astype("M8[s]")), zone)


def portions(inputs: Sequence[str], all_axes: Sequence) -> Iterator[Columns]:
    """Yield all combinations of places in portions, the last axis fastest."""
    shape = tuple(len(axis) for axis in all_axes)
    total = prod(shape)
    for begin in range(0, total, ROWS):
        places = np.unravel_index(np.arange(begin, min(begin + ROWS, total)), shape)
        yield Columns(inputs, [a[rows] for a, rows in zip(all_axes, places, strict=True)])
