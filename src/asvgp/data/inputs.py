"""Read X, y and weights as users give them into arrays of numbers, and check their domains.

Every error says what, where, the numbers and what to try.
"""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from asvgp.basis import Array
from asvgp.data.columns import A_GRID, Gridded, Layout, Table
from asvgp.policies import DATA
from asvgp.runtime.checks import finite_range, in_rows
from asvgp.times import TimeAxis, as_duration, is_text, is_time


class Column(NamedTuple):
    """One column of X as numbers, times as seconds, with its smallest and largest value."""

    values: Array
    range: tuple[float, float]


def read_columns(
    table: Table, layout: Layout, axes: tuple[TimeAxis | None, ...]
) -> dict[int, Column]:
    """Return the columns of X that a model uses, in the type they came in, by their number."""
    if not len(table):
        raise ValueError("Found array with 0 sample(s) in X while a minimum of 1 is required.")
    columns: dict[int, Column] = {}
    effects = [(number, None) for number in layout.linear if number not in layout.used]
    for number, axis in [*zip(layout.used, axes, strict=True), *effects]:
        column, name = table.column(number), table.column_name(number)
        timed = is_time(column) or (axis is not None and is_text(column))
        if (axis is not None) != timed:
            if number not in layout.used:
                raise TypeError(f"{name} has a linear effect and must hold numbers, not times.")
            kinds = ("times", "numbers") if axis is not None else ("numbers", "times")
            raise TypeError(f"{name} holds {kinds[1]}, but this model was fitted to {kinds[0]}.")
        values = _numbers(column, name) if axis is None else axis.to_seconds(column, name=name)
        columns[number] = Column(values, finite_range(values, name))
    return columns


def _numbers(column, name: str) -> Array:
    """Return a column as an array of numbers, without a copy where it holds numbers already."""
    values = np.asarray(column)
    if values.dtype.kind == "m":
        raise TypeError(
            f"{name} holds durations. Give times, or numbers such as X / np.timedelta64(1, 'D')."
        )
    if values.dtype.kind not in "fiub":  # numbers as objects, or what scikit-learn refuses
        values = check_array(
            column, ensure_2d=False, dtype="numeric", ensure_all_finite=False, input_name=name
        )
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers or times, not {values.dtype}.")
    return values


def refuse_text(column, name: str = "X") -> None:
    """Raise an error where a column holds text: times as strings are not times yet."""
    if is_text(column):
        first = str(np.asarray(column).ravel()[0])
        raise TypeError(
            f"{name} holds text ({first!r}). Give numbers, or times: pandas.to_datetime, or "
            "numpy.array(X, dtype='datetime64[s]')."
        )


def as_rows(X, y, *weights) -> tuple:
    """Return gridded data row by row, and other data as they came.

    Values (and weights) on a grid are flattened, the axes stay as they are.
    """
    grid = Gridded.of(X)
    if grid is None:
        if isinstance(X, list) and len(X) == np.ndim(y) > 1 and np.shape(X) != np.shape(y):
            lengths = tuple(np.shape(axis)[0] if np.ndim(axis) == 1 else 0 for axis in X)
            if lengths == np.shape(y):
                raise ValueError(f"X is a list of the axes of y, of lengths {lengths}. {A_GRID}.")
        return X, y, *weights
    shape = grid.shape
    values = np.ma.asarray(y, dtype=float).filled(np.nan) if np.ma.is_masked(y) else np.asarray(y)
    if not isinstance(X, Gridded):
        if values.shape[: len(shape)] != shape or values.ndim > len(shape) + 1:
            raise ValueError(
                f"X has axes of lengths {shape}: y must have that shape, or one axis more for "
                f"several outputs, not {values.shape}."
            )
        values = values.reshape(-1, *values.shape[len(shape) :])
        weights = tuple(_on_grid(w, shape) for w in weights)
    return grid.plain, values, *weights


def _on_grid(weight, shape: tuple[int, ...]):
    """Return the weights of a grid's points as those of rows."""
    if weight is None or np.ndim(weight) == 0:
        return weight
    if np.shape(weight) != shape:
        raise ValueError(f"X has axes of lengths {shape}, the weights have {np.shape(weight)}.")
    return np.ma.ravel(weight) if np.ma.is_masked(weight) else np.asarray(weight).ravel()


def refuse_masked(values, name: str) -> None:
    """Raise an error where values that every row needs are masked."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} is masked in {in_rows(np.ma.getmaskarray(values).ravel())}. Drop those rows."
        )


def refuse_words(y) -> None:
    """Raise an error where targets are words."""
    values = np.asarray(y)
    if values.dtype.kind in "OUS" and values.size:
        first = values.ravel()[:1000].tolist()
        words = first if values.dtype.kind in "US" else [v for v in first if _is_word(v)]
        if words:
            raise ValueError(
                f"y must be numbers, and {words[0]!r} is none. For labels of classes use "
                "GPClassifier; for columns of a table give the table as X."
            )


def _is_word(value) -> bool:
    try:
        return isinstance(value, str | bytes) and not np.isfinite(float(value))
    except ValueError:
        return value not in ("", b"")


def read_targets(y, length: int) -> Array:
    """Return y as given, checked for shape and type; masked values are missing."""
    if y is None:
        raise ValueError(
            "GPRegressor requires y to be passed, but the target y is None: call fit(X, y), for a "
            "pandas Series s fit(s.index, s)."
        )
    if np.ma.is_masked(y):
        y = np.ma.asarray(y, dtype=float).filled(np.nan)
    refuse_words(y)
    y = check_array(y, ensure_2d=False, dtype="numeric", ensure_all_finite=False, input_name="y")
    if y.dtype.kind not in "fiub" or y.ndim > 2 or y.ndim == 0:
        raise ValueError(
            f"y must be numbers of shape (n,) or (n, outputs), got dtype {y.dtype} and shape "
            f"{y.shape}."
        )
    if len(y) != length:
        raise ValueError(f"X and y have inconsistent numbers of samples: {length} and {len(y)}.")
    return y


def read_weights(sample_weight, noise_variance, length: int):
    """Return the weights of rows: how often they are there, or inverse noise variances."""
    if noise_variance is None:
        return None if sample_weight is None else check_weights(sample_weight, length)
    if sample_weight is not None:
        raise ValueError(
            "Give sample_weight or noise_variance, not both: the first says how often rows are "
            "there, the second how precise they are."
        )
    noise = check_weights(noise_variance, length, "noise_variance")
    return 1.0 / np.asarray(noise, dtype=float)


def read_widths(width, length: int, axis: TimeAxis | None) -> Array | None:
    """Return the widths of the intervals that y is averaged over, one per row; None for points."""
    if width is None:
        return None
    refuse_masked(width, "width")
    number = as_duration(width) if np.ndim(width) == 0 else None
    values = np.asarray(width if number is None else number)
    duration = number is not None or values.dtype.kind == "m"
    if values.dtype.kind in "OU" and values.ndim == 1:
        durations = [_seconds(item) for item in values]
        duration = all(item is not None for item in durations)
        values = np.array(durations if duration else values)
    if values.dtype.kind == "m":
        values = values / np.timedelta64(1, "s")
    if values.dtype.kind not in "fiu":
        raise TypeError(
            f"width must be a number, a duration, or one per row, got {width!r:.60} "
            f"({values.dtype})."
        )
    if duration and axis is None:
        raise TypeError("width is a duration, but X holds numbers: give it in the units of X.")
    if axis is not None and not duration:
        raise TypeError("width has no unit, but X holds times. Write for example width='1 hour'.")
    if values.shape not in ((), (length,)):
        raise ValueError(
            f"width has shape {values.shape}, but X has {length} rows: it must be one number, or "
            f"one per row, ({length},)."
        )
    widths = np.broadcast_to(values.astype(float), (length,))
    lowest, highest = finite_range(widths, "width")
    if lowest < 0.0:
        raise ValueError(
            f"width must not be negative, as it is in {in_rows(widths < 0.0)}: y is the average "
            "over [x, x + width]."
        )
    return widths if highest > 0.0 else None


def _seconds(item) -> float | None:
    """Return a duration of any sign in seconds; None for other values."""
    return item.total_seconds() if isinstance(item, timedelta) else as_duration(item)


def check_domain(
    domain,
    x,
    lower: float,
    upper: float,
    width: Array | float = 0.0,
    axis: TimeAxis | None = None,
    name: str = "X",
    example: str = "(a, b)",
) -> tuple[float, float]:
    """Return the interval of the splines: that of the data, or the user's around it.

    Where y is averaged over intervals, rounding of their ends is forgiven. Of times, ``axis`` is
    what the numbers are along. ``example`` shows how to give a domain.
    """
    shown = "{:g}".format if axis is None else axis.shown
    if domain is None:
        if not lower < upper:
            remedy = f"Give one, domain={example}, or drop the column."
            if example == "(a, b)":
                remedy = "Give one with domain=(a, b)."
            raise ValueError(
                f"{name} is constant ({shown(lower)}, n_samples = {len(x)}): there is no range to "
                f"put splines on. {remedy}"
            )
        if not upper - lower < DATA.widest_range:
            raise ValueError(
                f"{name} ranges from {lower!r} to {upper!r}, which is wider than double precision "
                "can work with. Fix or drop values that are so far out, or rescale X."
            )
        return lower, upper
    a, b = check_pair(domain, axis, name)
    where = "" if name == "X" else f"{name}: "
    slack = 1e-9 * (upper - lower) if np.any(width) else 0.0
    if lower < a - slack or upper > b + slack:
        left_out = int(np.count_nonzero((x < a - slack) | (x + width > b + slack)))
        raise ValueError(
            f"{where}domain=({shown(a)}, {shown(b)}) leaves out {left_out} of {len(x)} values of "
            f"X, which range from {shown(lower)} to {shown(upper)}. Widen the domain or drop those "
            "rows."
        )
    return a, b


def check_pair(domain, axis: TimeAxis | None = None, name: str = "X") -> tuple[float, float]:
    """Return the ends of a domain, finite and in order."""
    where = "" if name == "X" else f"{name}: "
    try:
        a, b = (float(end) for end in domain)
    except (TypeError, ValueError):
        raise ValueError(f"{where}domain must be None or a pair (a, b), got {domain!r}.") from None
    if not (np.isfinite(a) and np.isfinite(b) and a < b):
        given = (a, b) if axis is None else (axis.shown(a), axis.shown(b))
        raise ValueError(f"{where}domain must be finite with a < b, got {given!r}.")
    if not b - a < DATA.widest_range:
        raise ValueError(
            f"{where}domain=({a:g}, {b:g}) is wider than double precision can work with, "
            f"{DATA.widest_range:g}."
        )
    return a, b


def check_weights(sample_weight, length: int, name: str = "sample_weight"):
    """Return weights as an array or a broadcast scalar, never as a float64 copy."""
    refuse_masked(sample_weight, name)
    if isinstance(sample_weight, Real):
        sample_weight = np.broadcast_to(np.float64(sample_weight), (length,))
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, got {sample_weight!r:.60}.")
    if weights.shape != (length,):
        raise ValueError(
            f"{name} has shape {weights.shape}, but X has {length} rows: it must be one number "
            f"per row, ({length},)."
        )
    lowest, highest = finite_range(weights, name)
    if name == "sample_weight":
        if lowest < 0.0:
            raise ValueError(
                f"sample_weight must not be negative, as it is in {in_rows(weights < 0.0)}: a "
                "weight says how often a row is there."
            )
        if highest == 0.0:
            raise ValueError(f"All {length} values of sample_weight are zero: nothing to fit.")
    elif lowest <= 0.0:
        raise ValueError(
            f"{name} must be positive, but is not in {in_rows(weights <= 0.0)}. Drop rows whose "
            "noise is not known."
        )
    return weights
