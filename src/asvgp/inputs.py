"""What users pass as X, y and weights, as arrays of numbers: shapes, types, times, missing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from asvgp.basis import Array
from asvgp.stats import Statistics
from asvgp.times import TimeAxis, is_time
from asvgp.validation import check_one_input, check_weights, finite_range


def read_inputs(estimator, X, axis: TimeAxis | None, reset: bool = False) -> Array:
    """One column of X, in the type it came in; times as seconds on their axis."""
    if np.ma.is_masked(X):
        rows = np.flatnonzero(np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1))
        more = ", ..." if len(rows) > 5 else ""
        raise ValueError(
            f"X is masked in {len(rows)} of {len(X)} rows ({', '.join(map(str, rows[:5]))}{more}). "
            "Drop those rows."
        )
    if is_time(X):
        if axis is None:
            raise TypeError("X holds times, but this model was fitted to numbers.")
        return _named_seconds(estimator, X, axis, reset)
    elif axis is not None:
        raise TypeError("X holds numbers, but this model was fitted to times.")
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
    check_one_input(X)
    return X[:, 0]


def _named_seconds(estimator, X, axis: TimeAxis, reset: bool) -> Array:
    """Times as seconds, with scikit-learn's bookkeeping of column names."""
    columns = getattr(X, "columns", None)
    names = None if columns is None else [str(name) for name in columns]
    if reset:
        estimator.n_features_in_ = 1
        vars(estimator).pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
    else:
        known = vars(estimator).get("feature_names_in_")
        if names is not None and known is not None and list(known) != names:
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"{list(known)}, not {names}."
            )
    return axis.to_seconds(X)


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


def read_range(x, domain, axis: TimeAxis | None) -> tuple[float, float, object]:
    """Smallest and largest input, checked for being finite, and the domain as numbers."""
    lower, upper = finite_range(x)
    if domain is not None and axis is not None:
        domain = axis.to_seconds(list(domain), name="domain")
    return lower, upper, domain


class Seen(NamedTuple):
    """What was seen: the statistics, and how to read more of the same kind."""

    stats: Statistics
    axis: TimeAxis | None
    known_noise: bool
    single: bool  # y came as a vector
    seconds: float = 0.0

    def check_convention(self, noise_variance) -> None:
        """Known noise variances and relative weights do not mix."""
        if self.known_noise != (noise_variance is not None):
            raise ValueError(
                "The data so far came "
                + ("with" if self.known_noise else "without")
                + " known noise variances, these come the other way: statistics with different "
                "conventions for the weights do not add."
            )
