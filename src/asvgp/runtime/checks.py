"""Checks of single values that every layer may need, with errors that name what is wrong."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from operator import index

import numpy as np

from asvgp.runtime.parallel import each_chunk, each_share


def non_negative_integer(value, what: str) -> int:
    """Return the value as an int; errors call it ``what``."""
    error = f"{what} must be a non-negative integer, got {value!r}."
    try:
        number = index(value)
    except TypeError:
        raise TypeError(error) from None
    if number < 0:
        raise ValueError(error)
    return number


def finite_range(x, name: str = "X") -> tuple[float, float]:
    """Return the smallest and largest value; raise if one is not finite, naming the rows."""
    x = np.asarray(x)

    def share(start: int, stop: int) -> tuple[float, float]:
        parts = [x[begin:end] for begin, end in each_chunk(start, stop)]
        low = np.min([np.inf, *(part.min() for part in parts)])
        return low, np.max([-np.inf, *(part.max() for part in parts)])

    # NaN passes through all of these.
    lows, highs = zip(*each_share(len(x), share), strict=True)
    low, high = float(np.min(lows)), float(np.max(highs))
    if len(x) and not (np.isfinite(low) and np.isfinite(high)):
        where = in_rows(~np.isfinite(np.asarray(x, dtype=float)))
        raise ValueError(
            f"Input {name} contains NaN or infinity in {where}. Drop or fix those rows."
        )
    return low, high


def in_rows(wrong) -> str:
    """Say in how many rows something is wrong, and which are the first of them.

    Examples
    --------
    >>> in_rows(np.array([False, True, True]))
    '2 of 3 rows (1, 2)'
    """
    rows = np.flatnonzero(wrong)
    more = ", ..." if len(rows) > 5 else ""
    return f"{len(rows)} of {len(wrong)} rows ({', '.join(map(str, rows[:5]))}{more})"


def closest(name, names: Collection, cutoff: float = 0.6) -> str:
    """Ask whether the closest name is meant, case aside; empty where none is close.

    Examples
    --------
    >>> closest("Power", ["time", "power"])
    " Did you mean 'power'?"
    """
    plain = {str(n).lower(): str(n) for n in reversed(list(names))}
    matches = get_close_matches(str(name).lower(), plain, n=1, cutoff=cutoff)
    return f" Did you mean {plain[matches[0]]!r}?" if matches else ""
