"""Grids within grids: what longer and coarser cells do to sums and to columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid, rescaling
from asvgp.linalg.cells.accumulate_field import merge_cells


def longer_grids(
    grids: Sequence[Grid], lower: Sequence[float], upper: Sequence[float], multiples: Sequence[int]
) -> list[tuple[Grid, tuple[int, int]]]:
    """`Grid.extend` of each; without any bounds the grids stay as they are."""
    if len(lower) == len(upper) == 0:
        lower, upper = [grid.lower for grid in grids], [grid.upper for grid in grids]
    if not len(lower) == len(upper) == len(grids):
        raise ValueError(
            f"{len(grids)} grids to extend, but {len(lower)} lower and {len(upper)} upper bounds: "
            "give one each."
        )
    ends = zip(grids, lower, upper, multiples, strict=True)
    return [grid.extend(low, high, multiple) for grid, low, high, multiple in ends]


def coarsen_sums(sums: Array, cell_axis: int, power_axis: int, factor: int) -> Array:
    """Sums of powers of one input on cells ``factor`` times as wide.

    The i-th of the merged cells covers the parent coordinate ``(s + i) / factor``; the sums
    follow by the binomial theorem. Where the cells do not divide evenly, the last parent
    reaches past the domain.
    """
    shape = list(sums.shape)
    cells, powers = shape[cell_axis], shape[power_axis]
    flat = sums.reshape(
        prod(shape[:cell_axis]),
        cells,
        prod(shape[cell_axis + 1 : power_axis]),
        powers,
        prod(shape[power_axis + 1 :]),
    )
    shape[cell_axis] = -(-cells // factor)
    merged = np.zeros((flat.shape[0], shape[cell_axis], *flat.shape[2:]))
    merge_cells(flat, np.stack([rescaling(powers - 1, i, factor) for i in range(factor)]), merged)
    return merged.reshape(shape)


def placement(splines: int, before: int, after: int) -> sparse.csr_array:
    """Matrix that puts the splines of a grid among those of a longer one."""
    return sparse.csr_array(sparse.eye(before + splines + after, splines, k=-before))


def refinement(cells: int, degree: int, factor: int) -> sparse.csr_array:
    """Splines on cells ``factor`` times as wide, in terms of those on ``cells`` cells.

    The cardinal spline is the (k + 1)-fold convolution of a box with itself, and a wide box
    is ``factor`` boxes side by side. So

        B_wide,i = factor**-k * sum_j a_j B_narrow,(factor (i - k) + k + j)

    with ``sum_j a_j z**j = (1 + z + ... + z**(factor - 1))**(k + 1)``: for factor 2 the
    two-scale relation with its binomial coefficients. Splines that begin past the end are
    zero on the data, and left out.

    Examples
    --------
    >>> refinement(cells=2, degree=1, factor=2).toarray()
    array([[1. , 0.5, 0. ],
           [0. , 0.5, 1. ]])
    """
    weights = np.ones(1)
    for _ in range(degree + 1):
        weights = np.convolve(weights, np.ones(factor))
    weights /= float(factor) ** degree
    wide = np.arange(-(-cells // factor) + degree)
    narrow = factor * (wide[:, None] - degree) + degree + np.arange(len(weights))
    inside = (narrow >= 0) & (narrow < cells + degree)
    rows, _ = np.nonzero(inside)
    entries = np.broadcast_to(weights, narrow.shape)[inside]
    return sparse.csr_array((entries, (rows, narrow[inside])), shape=(len(wide), cells + degree))


def each(name: str, given: Any, count: int) -> tuple[int, ...]:
    """One positive whole number for each, from one for all or a sequence."""
    numbers = (int(given),) * count if np.ndim(given) == 0 else tuple(map(int, given))
    if len(numbers) != count or any(number < 1 for number in numbers):
        raise ValueError(f"{name} must be positive whole numbers, {count} of them; got {given}.")
    return numbers
