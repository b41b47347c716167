"""Numbers that stand for missing values, such as -200 or 9999, and were left in y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.policies import CODES


def missing_code(
    y: Array, name: str = "y", columns: Sequence[str | int] = (), among: str = ""
) -> str:
    """Say which value of y looks like a code for missing values; empty where none does.

    Such a value is the smallest or the largest, is there several times, looks like a code, and is
    far from all others. Zero is never taken for one, nor is a value between zero and all others:
    those are what counts, rain and machines at rest really are.

    Parameters
    ----------
    y : array of shape (n,) or (n, outputs)
    name : str
        What the user calls y.
    columns : sequence of str or int, optional
        The columns of a table that y is, one for each output, or their numbers in an array.
    among : str
        What y is, such as "in the first 100 rows", where it is not all there is.

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
        single, each = y.shape[1] == 1, range(y.shape[1])
        notes = (
            missing_code(
                y[:, i],
                name if single else f"{name}[:, {i}]",
                columns[i : i + 1],
                among,
            )
            for i in each
        )
        return next((note for note in notes if note), "")
    if y.dtype.kind not in "fiu" or len(y) < CODES.fewest_values:
        return ""
    for code in (np.fmin.reduce(y), np.fmax.reduce(y)):
        if _looks_like_code(code) and _stands_apart(y, code):
            others, shown = y[np.isfinite(y) & (y != code)], _shown(code)
            low, high = float(others.min()), float(others.max())
            what = name if not columns else columns[0]
            what = f"column {what}" if isinstance(what, int) else what
            return (
                f"{np.count_nonzero(y == code):,} of {len(y):,} values of {what}"
                f"{f' {among}' if among else ''} are {shown}, and all others are between {low:.3g} "
                f"and {high:.3g}. If {shown} is a code for missing values, "
                f"{_remedy(shown, name, columns)}"
            )
    return ""


def _remedy(code: str, name: str, columns: Sequence[str | int]) -> str:
    """Return how to make a code NaN, in an array or in a column of a table."""
    if columns and isinstance(columns[0], int):
        name, columns = f"data[:, {columns[0]}]", ()
    if not columns:
        return f"fit with {name} = np.where({name} == {code}, np.nan, {name})"
    column = f"table[{columns[0]!r}]"
    return (
        "make it NaN, for a table of pandas or xarray by "
        f"{column} = {column}.where({column} != {code})"
    )


def _shown(value: Any) -> str:
    """Return a number in as few digits as tell it from all others of its type.

    Examples
    --------
    >>> _shown(-2147483648.0), _shown(np.float32(999.9)), _shown(9.969209968386869e36)
    ('-2147483648', '999.9', '9.969209968386869e+36')
    """
    number = float(value)
    if number == round(number) and abs(number) < CODES.whole:
        return str(int(number))
    return str(number if np.asarray(value).dtype.kind != "f" else value)


def _looks_like_code(value: Any) -> bool:
    """Return True for negative whole numbers, rows of nines, ends of integers and fill values.

    Nines may have decimals if at least two stand before the point.

    Examples
    --------
    >>> [_looks_like_code(v) for v in (-200.0, 999.9, 9999999.0, 32767.0, 2147483647.0, 1e20)]
    [True, True, True, True, True, True]
    >>> [_looks_like_code(v) for v in (0.0, -0.37, 1863.0, 100.0, 9.0, 9.9, 3.2767)]
    [False, False, False, False, False, False, False]
    """
    number = float(value)
    if number == 0.0 or not np.isfinite(number):
        return False
    if abs(number) >= CODES.fill_value:
        return True
    whole, _, decimals = _shown(value).lstrip("-").partition(".")
    nines = len(whole) > 1 and set(whole + decimals) == {"9"}
    if number != round(number):
        return nines
    return nines or whole in CODES.integer_ends or number < 0.0


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
