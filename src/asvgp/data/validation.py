"""Checks of domains and weights: every error says what, where, the numbers and what to try."""

from __future__ import annotations

from numbers import Real

import numpy as np

from asvgp.basis import Array
from asvgp.policies import DATA
from asvgp.runtime.checks import finite_range
from asvgp.times import TimeAxis


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
    where = "" if name == "X" else f"{name}: "
    try:
        a, b = (float(end) for end in domain)
    except (TypeError, ValueError):
        raise ValueError(f"{where}domain must be None or a pair (a, b), got {domain!r}.") from None
    if not (np.isfinite(a) and np.isfinite(b) and a < b):
        given = (a, b) if axis is None else (axis.shown(a), axis.shown(b))
        raise ValueError(f"{where}domain must be finite with a < b, got {given!r}.")
    slack = 1e-9 * (upper - lower) if np.any(width) else 0.0
    if lower < a - slack or upper > b + slack:
        left_out = int(np.count_nonzero((x < a - slack) | (x + width > b + slack)))
        raise ValueError(
            f"{where}domain=({shown(a)}, {shown(b)}) leaves out {left_out} of {len(x)} values of "
            f"X, which range from {shown(lower)} to {shown(upper)}. Widen the domain or drop those "
            "rows."
        )
    return a, b


def check_weights(sample_weight, length: int, name: str = "sample_weight"):
    """Return positive weights as an array or a broadcast scalar, never as a float64 copy."""
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
    lowest, _ = finite_range(weights, name)
    if lowest <= 0.0:
        row = int(np.argmin(weights))
        count = int(np.count_nonzero(weights <= 0.0))
        raise ValueError(
            f"{name} must be positive: {count} of {length} are zero or negative (row {row} is "
            f"{weights[row]:g}). A weight is an inverse relative noise variance; drop rows that "
            "should not count."
        )
    return weights
