"""Columns as they come, from Arrow, frames or arrays, as NumPy arrays of numbers and times."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from asvgp.times import Zoned, is_time

_OFFSET = re.compile(r"(?:Z|[+-]\d\d(?::?\d\d)?)$")


def as_inputs(column, name: str, start: int = 0):
    """An input: numbers, or times; text that spells either is read."""
    values = _plain(column, name)
    if _is_text(values):
        return _from_text(values, name, start)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "fiubM":
        raise TypeError(
            f"Column {name!r} holds {_kind(values)}, which is neither numbers nor times."
        )
    return values


def as_numbers(column, name: str, start: int = 0) -> np.ndarray:
    """A target or weights: numbers, NaN where there is none; text that spells them is read."""
    values = _plain(column, name)
    if _is_text(values):
        values = _numbers_from_text(values, name, start)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        raise TypeError(f"Column {name!r} must hold numbers, and holds {_kind(values)}.")
    return values


def as_widths(column, start: int = 0):
    """Widths: numbers, or durations."""
    values = _plain(column, "width")
    return values.tolist() if _is_text(values) else values


def _kind(values) -> str:
    if isinstance(values, Zoned) or getattr(values, "dtype", np.dtype(float)).kind == "M":
        return "times"
    return {"m": "durations"}.get(values.dtype.kind, str(values.dtype))


def _is_text(values) -> bool:
    """Whether these are Arrow strings: all text is made that."""
    return not isinstance(values, np.ndarray | Zoned)


def _plain(column, name: str) -> Any:
    """NumPy array, zoned times, or Arrow strings."""
    if type(column).__module__.partition(".")[0] == "pyarrow":
        return _from_arrow(column, name)
    if type(column).__module__.partition(".")[0] in ("pandas", "polars"):
        own = getattr(column, "dtype", None)
        if isinstance(own, np.dtype) and own.kind in "fiubM":  # of pandas, as it is
            return column.to_numpy()
        return _from_arrow(_series_to_arrow(column), name)
    values = np.ma.asarray(column) if np.ma.isMaskedArray(column) else np.asarray(column)
    if np.ma.is_masked(values):
        missing = np.datetime64("NaT") if values.dtype.kind == "M" else np.nan
        kind = values.dtype if values.dtype.kind in "Mf" else float
        values = np.ma.filled(values.astype(kind), missing)
    values = np.asarray(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"Column {name!r} has shape {values.shape}: it must be one-dimensional.")
    if values.dtype.kind in "OUST":
        if values.dtype.kind == "O" and is_time(values):
            from asvgp.times import _instants

            times, tz = _instants(values, f"column {name!r}")
            return times if tz is None else Zoned(times, tz)
        return _from_arrow(arrow().array(_strings(values, name)), name)
    return values


def arrow():
    """Pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise ImportError(
            "Reading files, Arrow data and text needs pyarrow: pip install 'asvgp[data]'."
        ) from None
    return pyarrow


def _strings(values, name: str) -> list:
    """Objects as Arrow would have them."""
    out = []
    for item in values.tolist():
        if isinstance(item, bytes):
            try:
                item = item.decode()
            except UnicodeDecodeError:
                raise ValueError(f"Column {name!r} holds bytes that are not UTF-8.") from None
        out.append(None if item is None or item != item else item)
    return out


def _series_to_arrow(series):
    if hasattr(series, "to_arrow"):  # polars
        return series.to_arrow()
    return arrow().Array.from_pandas(series)


def _from_arrow(column, name: str) -> Any:
    """An Arrow array, chunked or not: without copies where there are no nulls."""
    pa = arrow()
    kinds = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if kinds.is_null(kind):
        return np.full(len(column), np.nan)
    if kinds.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif kinds.is_date(kind):
        column = column.cast(pa.timestamp("s" if kinds.is_date32(kind) else "ms"))
    elif kinds.is_string(kind) or kinds.is_large_string(kind) or _is_view(kind, kinds):
        return column
    elif kinds.is_boolean(kind) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    elif (kinds.is_integer(kind) or kinds.is_boolean(kind)) and column.null_count:
        column = column.cast(pa.float64(), safe=False)
    elif kinds.is_binary(kind) or kinds.is_large_binary(kind):
        raise TypeError(f"Column {name!r} holds bytes that are not UTF-8: save the data as that.")
    elif not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_temporal(kind)):
        raise TypeError(f"Column {name!r} holds {kind}, which is neither numbers nor times.")
    if kinds.is_time(kind):
        raise TypeError(f"Column {name!r} holds times of day without a date: add the date.")
    values = column.to_numpy(zero_copy_only=False)
    if kinds.is_timestamp(kind) and kind.tz is not None:
        return Zoned(values, kind.tz)
    return values


def _is_view(kind, kinds) -> bool:
    return hasattr(kinds, "is_string_view") and kinds.is_string_view(kind)


def _from_text(text, name: str, start: int) -> Any:
    """Text that spells numbers or times, as the first entry has it."""
    pa = arrow()
    if text.null_count == len(text):
        return np.full(len(text), np.nan)
    first = text.drop_null()[0].as_py().strip()
    if _number(first):
        return _numbers_from_text(text, name, start)
    kind = pa.timestamp("ns", "UTC" if "T" in first + "T" and _zoned(first) else None)
    found = _cast(text, kind)
    if found is None:
        row = _first_wrong(text, kind)
        value = text[row].as_py()
        like = "" if row == text.index(first).as_py() else f", where the first is {first!r}"
        raise ValueError(
            f"Column {name!r} cannot be read as times: row {start + row} is {value!r}{like}. Write "
            "times as ISO 8601 has them, 2024-03-31T12:00:00, all with an offset or none; or give "
            "numbers."
        )
    return _from_arrow(found, name)


def _zoned(text: str) -> bool:
    """Whether a time has an offset; the hyphens of a date are none."""
    return bool(_OFFSET.search(text[10:]))


def _numbers_from_text(text, name: str, start: int) -> np.ndarray:
    kind = arrow().float64()
    found = _cast(text, kind)
    if found is None:
        row = _first_wrong(text, kind)
        raise TypeError(
            f"Column {name!r} must hold numbers, but row {start + row} is {text[row].as_py()!r}."
        )
    return _from_arrow(found, name)


def _cast(text, kind):
    """Text as another type, or None where some of it is not."""
    pa = arrow()
    try:
        return pa.compute.call_function("utf8_trim_whitespace", [text]).cast(kind)
    except pa.ArrowInvalid:
        return None


def _first_wrong(text, kind) -> int:
    """The first row that cannot be cast, by bisection."""
    good, bad = 0, len(text)  # text[:good] is fine, text[:bad] is not
    while bad - good > 1:
        middle = (good + bad) // 2
        if _cast(text[good:middle], kind) is None:
            bad = middle
        else:
            good = middle
    return good


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
