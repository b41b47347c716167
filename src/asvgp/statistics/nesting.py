"""Longer and coarser grids: how sums and columns change with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid, pair_columns, rescaling
from asvgp.linalg.cells.accumulate_field import merge_cells

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics


def extended(
    stats: Statistics,
    lower: Sequence[float] | Array,
    upper: Sequence[float] | Array,
    smooth_lower: Sequence[float],
    smooth_upper: Sequence[float],
    multiples: Sequence[int],
) -> Statistics:
    """Return the same statistics on longer grids; see `Statistics.extend`."""
    main = longer_grids(stats.grids, lower, upper, multiples)
    smooth_grids = [grid for grid, _ in stats.smooths]
    beside = longer_grids(smooth_grids, smooth_lower, smooth_upper, (1,) * len(smooth_grids))
    if not any(max(added) for _, added in main + beside):
        return stats
    cells, powers = [added for _, added in main], [(0, 0)] * len(main)
    longer = replace(
        stats,
        grids=tuple(grid for grid, _ in main),
        moments=np.pad(stats.moments, cells + powers) if main else stats.moments,
        targets=np.pad(stats.targets, [(0, 0), *cells, *powers]),
        cross=np.pad(stats.cross, [*cells, *powers, (0, 0)]),
    )
    pairs = list(zip(stats.smooths, beside, strict=True))
    return _mapped(
        longer,
        [(grid, degree) for (_, degree), (grid, _) in pairs],
        [placement(grid.splines(degree), *added) for (grid, degree), (_, added) in pairs],
    )


def coarsened(stats: Statistics, factors: Sequence[int]) -> Statistics:
    """Return the statistics on cells of the main block ``factors`` times as wide, exactly."""
    D, moments, targets, cross = len(stats.grids), stats.moments, stats.targets, stats.cross
    for d, (degree, factor) in enumerate(zip(stats.degrees, factors, strict=True)):
        if factor > 1:
            powers, doubled = power_maps(degree, factor), power_maps(2 * degree, factor)
            if stats.all_pairs:
                doubled = pair_maps(degree, factor)
            moments = coarsen_sums(moments, d, D + d, doubled)
            targets = coarsen_sums(targets, 1 + d, 1 + D + d, powers)
            cross = coarsen_sums(cross, d, D + d, powers)
    grids = tuple(grid.coarsen(f) for grid, f in zip(stats.grids, factors, strict=True))
    return replace(stats, grids=grids, moments=moments, targets=targets, cross=cross)


def coarsened_columns(stats: Statistics, factors: Sequence[int]) -> Statistics:
    """Return the statistics with cells of the smooths ``factors`` times as wide, exactly."""
    pairs = list(zip(stats.smooths, factors, strict=True))
    return _mapped(
        stats,
        [(grid.coarsen(factor), degree) for (grid, degree), factor in pairs],
        [refinement(grid.cells, degree, factor, grid.cyclic) for (grid, degree), factor in pairs],
    )


def closed(stats: Statistics, smooths: Sequence[tuple[Grid, int]]) -> Statistics:
    """Return sums whose smooths took every grid for a line, for ``smooths`` around circles."""
    maps = [closure(grid, degree) for grid, degree in smooths]
    return _mapped(stats, smooths, maps)


def closure(grid: Grid, degree: int) -> sparse.csr_array:
    """Return the matrix that adds up the splines of a line that are one spline of a grid.

    Around a circle, those that begin before its lower end are those that reach past its upper.

    Examples
    --------
    >>> closure(Grid(0.0, 1.0, 3, cyclic=True), 1).toarray()
    array([[1., 0., 0., 1.],
           [0., 1., 0., 0.],
           [0., 0., 1., 0.]])
    """
    line = np.arange(grid.cells + degree)
    count = grid.splines(degree)
    entries = np.ones(len(line)), (line % count, line)
    return sparse.csr_array(entries, shape=(count, len(line)))


def _mapped(
    stats: Statistics, smooths: Sequence[tuple[Grid, int]], maps: Sequence[sparse.csr_array]
) -> Statistics:
    """Return the statistics for other smooths, each a linear map of the one it replaces."""
    if not smooths:
        return stats
    same = [placement(1, 0, 0)] * stats.linear
    matrix = sparse.block_diag([*maps, *same], format="csr").T

    def mapped(sums: Array) -> Array:  # the columns are the last axis
        rows = sums.reshape(-1, sums.shape[-1]) @ matrix
        return np.ascontiguousarray(rows).reshape(*sums.shape[:-1], rows.shape[1])

    return replace(
        stats,
        smooths=tuple(smooths),
        cross=mapped(stats.cross),
        column_gram=mapped(mapped(stats.column_gram).T),
        column_targets=mapped(stats.column_targets),
    )


def longer_grids(
    grids: Sequence[Grid],
    lower: Sequence[float] | Array,
    upper: Sequence[float] | Array,
    multiples: Sequence[int],
) -> list[tuple[Grid, tuple[int, int]]]:
    """Extend each grid, see `Grid.extend`; without any bounds the grids stay as they are."""
    if len(lower) == len(upper) == 0:
        lower, upper = [grid.lower for grid in grids], [grid.upper for grid in grids]
    if not len(lower) == len(upper) == len(grids):
        raise ValueError(
            f"{len(grids)} grids to extend, but {len(lower)} lower and {len(upper)} upper bounds: "
            "give one each."
        )
    ends = zip(grids, lower, upper, multiples, strict=True)
    return [grid.extend(low, high, multiple) for grid, low, high, multiple in ends]


def common_factors(grids: Sequence[Grid], others: Sequence[Grid]) -> tuple[int, ...]:
    """Return how many cells of each grid make one of the other; one where they do not nest."""
    factors = []
    for grid, other in zip(grids, others, strict=True):
        factor = max(1, round(other.spacing / grid.spacing))
        nested = -(-grid.cells // factor) == other.cells and not (
            grid.cyclic and grid.cells % factor
        )
        factors.append(factor if nested and grid.coarsen(factor) == other else 1)
    return tuple(factors)


def coarsen_sums(sums: Array, cell_axis: int, power_axis: int, maps: Array) -> Array:
    """Return sums over cells of one input that are ``len(maps)`` times as wide.

    ``maps[i]`` expresses the powers of the wide cell's coordinate in those of its i-th part.
    """
    shape = list(sums.shape)
    cells, powers = shape[cell_axis], shape[power_axis]
    flat = np.ascontiguousarray(sums).reshape(
        prod(shape[:cell_axis]),
        cells,
        prod(shape[cell_axis + 1 : power_axis]),
        powers,
        prod(shape[power_axis + 1 :]),
    )
    shape[cell_axis] = -(-cells // len(maps))
    merged = np.zeros((flat.shape[0], shape[cell_axis], *flat.shape[2:]))
    if flat.size:
        merge_cells(flat, maps, merged)
    return merged.reshape(shape)


@lru_cache(maxsize=64)
def power_maps(degree: int, factor: int) -> Array:
    """Return maps of the powers up to ``degree``, of ``(s + i) / factor``, for `coarsen_sums`."""
    return np.stack([rescaling(degree, i, factor) for i in range(factor)])


@lru_cache(maxsize=64)
def pair_maps(degree: int, factor: int) -> Array:
    """Return maps of all products of two powers, the upper triangle, for `coarsen_sums`."""
    pair, upper = pair_columns(degree)[1].ravel(), np.transpose(np.triu_indices(degree + 1))
    maps = power_maps(degree, factor)
    return np.array(
        [[np.bincount(pair, np.outer(m[i], m[j]).ravel()) for i, j in upper] for m in maps]
    )


def placement(splines: int, before: int, after: int) -> sparse.csr_array:
    """Return the matrix that places the splines of a grid among those of a longer one."""
    return sparse.csr_array(sparse.eye(before + splines + after, splines, k=-before))


def refinement(cells: int, degree: int, factor: int, cyclic: bool = False) -> sparse.csr_array:
    """Express splines on cells ``factor`` times as wide in terms of those on ``cells`` cells.

    The cardinal spline is the (k + 1)-fold convolution of a box with itself, and a wide box
    is ``factor`` boxes side by side. So

        B_wide,i = factor**-k * sum_j a_j B_narrow,(factor (i - k) + k + j)

    with ``sum_j a_j z**j = (1 + z + ... + z**(factor - 1))**(k + 1)``: for factor 2 the
    two-scale relation with its binomial coefficients. Splines that begin past the end are
    zero on the data, and left out; around a circle their numbers are modulo ``cells``.

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
    count = cells if cyclic else cells + degree
    wide = np.arange(-(-cells // factor) + (0 if cyclic else degree))
    narrow = factor * (wide[:, None] - degree) + degree + np.arange(len(weights))
    narrow = narrow % cells if cyclic else narrow
    inside = (narrow >= 0) & (narrow < count)
    rows, _ = np.nonzero(inside)
    entries = np.broadcast_to(weights, narrow.shape)[inside]
    return sparse.csr_array((entries, (rows, narrow[inside])), shape=(len(wide), count))


def each(name: str, given: Any, count: int) -> tuple[int, ...]:
    """Return ``count`` positive whole numbers, from one number for all or a sequence."""
    numbers = (int(given),) * count if np.ndim(given) == 0 else tuple(map(int, given))
    if len(numbers) != count or any(number < 1 for number in numbers):
        raise ValueError(f"{name} must be positive whole numbers, {count} of them; got {given}.")
    return numbers
