"""Checks of single values that every layer may need, with errors that name what is wrong."""

from __future__ import annotations

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
        bad = np.flatnonzero(~np.isfinite(np.asarray(x, dtype=float)))
        rows = ", ".join(str(row) for row in bad[:5])
        more = ", ..." if len(bad) > 5 else ""
        raise ValueError(
            f"Input {name} contains NaN or infinity in {len(bad)} of {len(x)} rows "
            f"({rows}{more}). Drop or fix those rows."
        )
    return low, high
