"""What users pass as X, y and weights, as arrays of numbers: shapes, types, times, missing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from asvgp.basis import Array
from asvgp.data.columns import A_GRID, Columns, Gridded, Layout, Table
from asvgp.data.validation import check_weights
from asvgp.runtime.checks import finite_range
from asvgp.statistics import Statistics
from asvgp.times import TimeAxis, as_duration, is_time


def read_inputs(
    estimator, X, layout: Layout, axis: TimeAxis | None, reset: bool = False
) -> tuple[Array, Array | None]:
    """The splines' input in the type it came in, times as seconds, and the covariates."""
    if isinstance(X, Gridded):
        raise ValueError(
            f"X has {len(X.axes)} axes of a grid, but the model has one input with a process: give "
            "X as rows."
        )
    _refuse_masked(X)
    table = Table(X)
    if axis is not None:
        _keep_names(estimator, table, reset)
    if table.width > layout.input and is_time(table.column(layout.input)):
        if axis is None:
            raise TypeError("X holds times, but this model was fitted to numbers.")
        name = column_name(table, layout.input) if table.names else "X"
        x = axis.to_seconds(table.column(layout.input), name=name)
        return x, _covariates([table.column(number) for number in layout.linear], table, layout)
    elif axis is not None:
        raise TypeError("X holds numbers, but this model was fitted to times.")
    if isinstance(X, Columns):  # of a source: scikit-learn could not read them
        _keep_names(estimator, table, reset)
        name = "X" if table.width == 1 else column_name(table, layout.input)
        x = _numbers(table.column(layout.input), name)
        return x, _covariates([table.column(i) for i in layout.linear], table, layout)
    if not hasattr(X, "shape") or getattr(X, "ndim", 2) == 1:
        X = np.asarray(X)
        X = X.reshape(-1, 1) if X.ndim == 1 else X
    X = validate_data(
        estimator,
        X,  # pyright: ignore[reportArgumentType]
        reset=reset,
        dtype="numeric",
        ensure_all_finite=False,
    )
    X = np.asarray(X)
    if X.dtype.kind == "m":
        raise TypeError(
            "X holds durations. Give times, or numbers such as X / np.timedelta64(1, 'D')."
        )
    return X[:, layout.input], _covariates([X[:, i] for i in layout.linear], table, layout)


def read_columns(
    estimator, X, layout: Layout, axes: tuple[TimeAxis | None, ...], reset: bool = False
) -> dict[int, Array]:
    """The columns of X that a model of several inputs uses, times as seconds.

    Without an estimator there is no bookkeeping of names.
    """
    _refuse_masked(X)
    table = Table(X)
    times = any(axis is not None for axis in axes)
    if estimator is not None and (times or table.frame or isinstance(X, Gridded)):
        _keep_names(estimator, table, reset)
    elif estimator is not None:
        X = validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        table = Table(np.asarray(X))
    out: dict[int, Array] = {}
    for place, number in enumerate(layout.used):
        column, axis = table.column(number), axes[place]
        name = column_name(table, number)
        if (axis is not None) != is_time(column):
            kinds = ("times", "numbers") if axis is not None else ("numbers", "times")
            raise TypeError(f"{name} holds {kinds[1]}, but the model was fitted to {kinds[0]}.")
        out[number] = axis.to_seconds(column, name=name) if axis else _numbers(column, name)
        finite_range(out[number], name)
    for number in layout.linear:
        if number not in out:
            name = column_name(table, number)
            out[number] = _numbers(table.column(number), name)
            finite_range(out[number], name)
    return out


def as_rows(X, y, *weights) -> tuple:
    """Gridded data row by row; what is not gridded, as it came.

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
    """Weights of a grid's points as those of rows."""
    if weight is None or np.ndim(weight) == 0:
        return weight
    if np.shape(weight) != shape:
        raise ValueError(f"X has axes of lengths {shape}, the weights have {np.shape(weight)}.")
    return np.asarray(weight).ravel()


def column_name(table: Table, number: int) -> str:
    """A column of X in messages."""
    return f"column {repr(table.names[number]) if table.names else number} of X"


def _numbers(column, name: str) -> Array:
    values = np.asarray(column)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers or times, not {values.dtype}.")
    return values


def _refuse_masked(X) -> None:
    if not isinstance(X, Gridded) and np.ma.is_masked(X):
        rows = np.flatnonzero(np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1))
        more = ", ..." if len(rows) > 5 else ""
        raise ValueError(
            f"X is masked in {len(rows)} of {len(X)} rows ({', '.join(map(str, rows[:5]))}{more}). "
            "Drop those rows."
        )


def refuse_text(column, name: str = "X") -> None:
    """Times as strings are not times yet."""
    values = column[:1].tolist() if hasattr(column, "tolist") else list(column[:1])
    if values and isinstance(values[0], str):
        raise TypeError(
            f"{name} holds text ({values[0]!r}). Give numbers, or times: pandas.to_datetime, or "
            "numpy.array(X, dtype='datetime64[s]')."
        )


def _covariates(columns: list, table: Table, layout: Layout) -> Array | None:
    """The columns of linear effects, checked for being finite numbers."""
    if not columns:
        return None
    numbers = [np.asarray(column) for column in columns]
    for number, column in zip(layout.linear, numbers, strict=True):
        name = f"column {table.names[number] if table.names else number!r} of X"
        if column.dtype.kind not in "fiub":
            raise TypeError(f"{name} has a linear effect and must hold numbers: {column.dtype}.")
        finite_range(column, name)
    return np.stack(numbers, axis=1) if len(numbers) > 1 else numbers[0][:, None]


def _keep_names(estimator, table: Table, reset: bool) -> None:
    """scikit-learn's bookkeeping of columns, where it cannot read them itself."""
    names = table.names
    if reset:
        estimator.n_features_in_ = table.width
        vars(estimator).pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    if table.width != estimator.n_features_in_:
        raise ValueError(
            f"X has {table.width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    known = vars(estimator).get("feature_names_in_")
    if names is not None and known is not None and list(known) != names:
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{list(known)}, not {names}."
        )


def read_targets(y, length: int) -> Array:
    """Y as given, checked for shape and type; what is masked is missing."""
    if y is None:
        raise ValueError("GPRegressor requires y to be passed, but the target y is None.")
    if np.ma.is_masked(y):
        y = np.ma.asarray(y, dtype=float).filled(np.nan)
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
    """Weights of the rows, from relative weights or from known noise variances."""
    if noise_variance is None:
        return check_weights(sample_weight, length)
    if sample_weight is not None:
        raise ValueError(
            "Give sample_weight or noise_variance, not both: a known noise variance leaves "
            "nothing for a weight to say."
        )
    noise = check_weights(noise_variance, length, "noise_variance")
    return 1.0 / np.asarray(noise, dtype=float)


def read_widths(width, length: int, axis: TimeAxis | None) -> Array | None:
    """Widths of the intervals that y is averaged over, a float64 a row; None for points."""
    if width is None:
        return None
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
        bad = np.flatnonzero(widths < 0.0)
        rows = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise ValueError(
            f"width must not be negative, as it is in {len(bad)} of {length} rows ({rows}): y is "
            "the average over [x, x + width]."
        )
    return widths if highest > 0.0 else None


def _seconds(item) -> float | None:
    """A duration in a list, of any sign so far; None where it is none."""
    return item.total_seconds() if isinstance(item, timedelta) else as_duration(item)


class Seen(NamedTuple):
    """What was seen: the statistics, and how to read more of the same kind."""

    stats: Statistics
    structure: Any  # Line, or Field
    known_noise: bool
    single: bool  # y came as a vector
    seconds: float = 0.0
    # Of a model fitted to a source with named columns: it reads and answers frames by name.
    targets: tuple[str, ...] | None = None

    @property
    def layout(self) -> Layout:
        """Which column of X is what."""
        return self.structure.layout

    @property
    def axis(self) -> TimeAxis | None:
        """The time axis of a model of one input."""
        return self.structure.axis

    def check_convention(self, noise_variance) -> None:
        """Known noise variances and relative weights do not mix."""
        if self.known_noise != (noise_variance is not None):
            raise ValueError(
                "The data so far came "
                + ("with" if self.known_noise else "without")
                + " known noise variances, these come the other way: statistics with different "
                "conventions for the weights do not add."
            )
