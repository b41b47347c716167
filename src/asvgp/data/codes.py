"""Numbers that stand for missing values, such as -200 or 9999, and were left in y."""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.policies import CODES


def missing_code(y: Array, name: str = "y") -> str:
    """Say which value of y looks like a code for missing values; empty where none does.

    Such a value is the smallest or the largest, is there several times, looks like a code, and is
    far from all others. Zero is never taken for one, nor is a value between zero and all others:
    those are what counts, rain and machines at rest really are.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.append(np.sqrt(np.arange(100.0)), [-200.0] * 5)
    >>> print(missing_code(y))
    5 of 105 values of y are -200, and all others are between 0 and 9.95. If -200 is a code for \
missing values, fit with y = np.where(y == -200, np.nan, y)
    >>> missing_code(np.maximum(np.sin(np.arange(100.0)), 0.0))
    ''
    """
    y = np.asarray(y)
    if y.ndim > 1:
        names = [f"{name}[:, {i}]" if y.shape[1] > 1 else name for i in range(y.shape[1])]
        notes = (missing_code(y[:, i], names[i]) for i in range(y.shape[1]))
        return next((note for note in notes if note), "")
    if y.dtype.kind not in "fiu" or len(y) < CODES.fewest_values:
        return ""
    for code in (np.fmin.reduce(y), np.fmax.reduce(y)):
        if _looks_like_code(float(code)) and _stands_apart(y, code):
            others = y[np.isfinite(y) & (y != code)]
            low, high, shown = float(others.min()), float(others.max()), f"{float(code):.6g}"
            return (
                f"{np.count_nonzero(y == code):,} of {len(y):,} values of {name} are {shown}, and "
                f"all others are between {low:.3g} and {high:.3g}. If {shown} is a code for "
                f"missing values, fit with {name} = np.where({name} == {shown}, np.nan, {name})"
            )
    return ""


def _looks_like_code(value: float) -> bool:
    """Return True for negative whole numbers, rows of nines, ends of integers and fill values.

    Examples
    --------
    >>> [_looks_like_code(v) for v in (-200.0, 999.9, 9999.0, 32767.0, 1e20)]
    [True, True, True, True, True]
    >>> [_looks_like_code(v) for v in (0.0, -0.37, 1863.0, 100.0, 9.0)]
    [False, False, False, False, False]
    """
    if value == 0.0 or not np.isfinite(value):
        return False
    digits = f"{abs(value):.6g}".replace(".", "")
    nines = len(digits) > 1 and set(digits) == {"9"}
    known = digits in CODES.integer_ends or abs(value) >= CODES.fill_value
    return nines or known or (value < 0.0 and value == round(value))


def _stands_apart(y: Array, code: float) -> bool:
    """Return True where the code is there several times, and far from the other values."""
    count = np.count_nonzero(y == code)
    if count < CODES.fewest_codes:
        return False
    others = y[np.isfinite(y) & (y != code)].astype(float)
    if len(np.unique(others[: CODES.rows_looked_at])) < CODES.fewest_values:
        return False
    low, middle, high = others.min(), np.median(others), others.max()
    nearest = low if code < low else high
    if 0.0 <= code < low or high < code <= 0.0:  # what is at rest, not what is missing
        return False
    gap = abs(nearest - code)
    half, whole = abs(middle - nearest), high - low
    return bool(gap > max(CODES.gap_to_middle * half, CODES.gap_to_range * whole))
