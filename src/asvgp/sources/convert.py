"""Convert columns of Arrow, frames and arrays to NumPy arrays of numbers and times."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

import numpy as np

from asvgp.times import Zoned, instants, is_time

_OFFSET = re.compile(r"(?:Z|[+-]\d\d(?::?\d\d)?)$")


def as_inputs(column, name: str, start: int = 0):
    """Convert an input to numbers or times; text that spells either is read."""
    values = _plain(column, name)
    if _is_text(values):
        return _from_text(values, name, start)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "fiubM":
        raise TypeError(
            f"Column {name!r} holds {_kind(values)}, which is neither numbers nor times."
        )
    return values


def as_numbers(column, name: str, start: int = 0) -> np.ndarray:
    """Convert a target or weights to numbers, NaN where missing; text that spells them is read."""
    values = _plain(column, name)
    if _is_text(values):
        values = _numbers_from_text(values, name, start)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        raise TypeError(f"Column {name!r} must hold numbers, and holds {_kind(values)}.")
    return values


def as_widths(column, start: int = 0):
    """Convert widths to numbers or durations."""
    values = _plain(column, "width")
    return values.tolist() if _is_text(values) else values


def library(data) -> str:
    """Return the name of the package that an object's type comes from."""
    return type(data).__module__.partition(".")[0]


def _kind(values) -> str:
    """Say in messages what values are."""
    if isinstance(values, Zoned) or getattr(values, "dtype", np.dtype(float)).kind == "M":
        return "times"
    return {"m": "durations"}.get(values.dtype.kind, str(values.dtype))


def _is_text(values) -> bool:
    """Return True for Arrow strings, which all text is converted to."""
    return not isinstance(values, np.ndarray | Zoned)


def _plain(column, name: str) -> Any:
    """Convert to a NumPy array, zoned times, or Arrow strings."""
    if library(column) == "pyarrow":
        return _from_arrow(column, name)
    if hasattr(column, "to_arrow"):  # polars, cudf
        return _from_arrow(column.to_arrow(), name)
    dtype = getattr(column, "dtype", None)
    if library(column) == "pandas" and str(dtype).startswith("period["):
        return instants(column, f"column {name!r}")[0]
    if library(column) == "pandas" and not (isinstance(dtype, np.dtype) and dtype.kind in "fiubM"):
        return _from_arrow(arrow().Array.from_pandas(column), name)
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
            times, tz = instants(values, f"column {name!r}")
            return times if tz is None else Zoned(times, tz)
        return _from_arrow(arrow().array(_strings(values, name)), name)
    return values


def arrow():
    """Return pyarrow, or raise an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise ImportError(
            "Reading files, Arrow data and text needs pyarrow: pip install 'asvgp[data]'."
        ) from None
    return pyarrow


def _strings(values, name: str) -> list:
    """Convert objects to what Arrow takes for text: str, or None where missing."""
    out = []
    for item in values.tolist():
        if isinstance(item, bytes):
            try:
                item = item.decode()
            except UnicodeDecodeError:
                raise ValueError(f"Column {name!r} holds bytes that are not UTF-8.") from None
        out.append(None if item is None or item != item else item)
    return out


def _from_arrow(column, name: str) -> Any:
    """Convert an Arrow array, chunked or not, without copies where there are no nulls."""
    pa = arrow()
    kinds = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if kinds.is_null(kind):
        return np.full(len(column), np.nan)
    if kinds.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif kinds.is_date(kind):
        column = column.cast(pa.timestamp("s" if kinds.is_date32(kind) else "ms"))
    elif str(kind) in ("string", "large_string"):
        return column
    elif str(kind) == "string_view":  # which Arrow's functions do not take
        return column.cast(pa.large_string())
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


def _from_text(text, name: str, start: int) -> Any:
    """Read text as numbers or times, by the first entry."""
    pa = arrow()
    if text.null_count == len(text):
        return np.full(len(text), np.nan)
    first = text.drop_null()[0].as_py().strip()
    if _number(first):
        return _numbers_from_text(text, name, start)
    # An offset comes after the date, whose own hyphens are none.
    kind = pa.timestamp("ns", "UTC" if _OFFSET.search(first[10:]) else None)
    times = _cast(text, kind)
    if times is None:
        row = _first_wrong(text, kind)
        value = text[row].as_py()
        like = "" if row == text.index(first).as_py() else f", where the first is {first!r}"
        raise ValueError(
            f"Column {name!r} cannot be read as times: row {start + row} is {value!r}{like}. Write "
            "times as in ISO 8601, 2024-03-31T12:00:00, all with an offset or none; or give "
            "numbers."
        )
    return _from_arrow(times, name)


def _numbers_from_text(text, name: str, start: int) -> np.ndarray:
    kind = arrow().float64()
    numbers = _cast(text, kind)
    if numbers is None:
        row = _first_wrong(text, kind)
        raise TypeError(
            f"Column {name!r} must hold numbers, but row {start + row} is {text[row].as_py()!r}."
        )
    return _from_arrow(numbers, name)


def _cast(text, kind):
    """Convert text to another type; return None where an entry does not fit."""
    pa = arrow()
    try:
        return pa.compute.call_function("utf8_trim_whitespace", [text]).cast(kind)
    except pa.ArrowInvalid:
        return None


def _first_wrong(text, kind) -> int:
    """Find the first row that cannot be converted, by bisection."""
    return bisect_left(range(len(text)), True, key=lambda row: _cast(text[: row + 1], kind) is None)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
