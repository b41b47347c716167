"""Thresholds of the automatic choices: every number with its unit and its reason."""

from __future__ import annotations

MANY = 1 << 18  # points from which on automatic grids are sized without looking at all of them
FIRST = 256  # cells on which training of one input begins


def halvings(cells: int) -> int:
    """The power of two that a number of cells should divide by, to be coarsened to `FIRST`."""
    return 1 << max(0, (cells // FIRST).bit_length() - 1)
