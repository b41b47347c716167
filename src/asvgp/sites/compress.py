"""Many rows along one input as few that say the same, for likelihoods that read rows again.

The rows of a narrow bin become two, one standard deviation of x to either side of its mean, on the
line through the rows. Each stands for half of the weight, and what the line leaves of the variance
of y goes with them: sums of 1, x, x**2, y, x y, y**2 and x y**2 stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable

import numba
import numpy as np

from asvgp.basis import Array
from asvgp.structures.observed import Observed
from asvgp.structures.structure import Points


@numba.njit(cache=True, nogil=True)
def _add(x, y, weight, lower, per_unit, sums):
    """Add rows to sums per bin, about the first row of each."""
    last = sums.shape[0] - 1
    for i in range(x.shape[0]):
        bin = min(max(int((x[i] - lower) * per_unit), 0), last)
        w = weight[i] if weight.shape[0] else 1.0
        if sums[bin, 0] == 0.0:
            sums[bin, 7], sums[bin, 8] = x[i], y[i]
        a, b = x[i] - sums[bin, 7], y[i] - sums[bin, 8]
        sums[bin, 0] += w
        sums[bin, 1] += w * a
        sums[bin, 2] += w * b
        sums[bin, 3] += w * a * a
        sums[bin, 4] += w * a * b
        sums[bin, 5] += w * b * b
        sums[bin, 6] += w * a * b * b


def compressed(blocks: Iterable[Observed], lower: float, upper: float, bins: int) -> Observed:
    """Return all rows of blocks, of one input without covariates, as two rows per bin.

    ``extra`` of the result is the variance of y among the rows that one stands for. Offsets have
    been subtracted from y.
    """
    sums, none = np.zeros((bins, 9)), np.empty(0)
    for rows in blocks:
        y = rows.y if rows.offset is None else rows.y - rows.offset
        weight = none if rows.weight is None else np.ascontiguousarray(rows.weight, dtype=float)
        x = np.ascontiguousarray(rows.points.x, dtype=float)
        _add(x, np.ascontiguousarray(y), weight, lower, bins / (upper - lower), sums)
    return _nodes(sums[sums[:, 0] > 0.0], lower, upper)


def _nodes(sums: Array, lower: float, upper: float) -> Observed:
    weight, *_ = sums.T
    first_x, first_y, xx, xy, yy, xyy = sums[:, 1:7].T / weight
    # about the means
    xyy = xyy - 2.0 * first_y * xy - first_x * yy + 2.0 * first_x * first_y**2
    xx, xy, yy = xx - first_x**2, xy - first_x * first_y, yy - first_y**2
    # Rows at one place, up to rounding, have no line.
    spread = np.maximum(np.abs(first_x), 1e-300) ** 2
    apart = xx > 1e-12 * spread
    slope = np.divide(xy, xx, out=np.zeros_like(xy), where=apart)
    reach = np.where(apart, np.sqrt(np.maximum(xx, 0.0)), 0.0)
    left = np.maximum(yy - slope * np.where(apart, xy, 0.0), 0.0)
    tilt = np.divide(xyy, reach, out=np.zeros_like(xyy), where=reach > 0.0)
    tilt = np.clip(tilt, -left, left)  # no variance is negative
    x, y = sums[:, 7] + first_x, sums[:, 8] + first_y
    both = np.array([-1.0, 1.0])
    places = np.clip((x[:, None] + reach[:, None] * both).ravel(), lower, upper)
    values = (y[:, None] + (slope * reach)[:, None] * both).ravel()
    points = Points((places,), ranges=((float(places.min()), float(places.max())),))
    further = (left[:, None] + tilt[:, None] * both).ravel()
    return Observed(points, values, further, np.repeat(0.5 * weight, 2))


def in_memory(blocks: Iterable[Observed]) -> Observed:
    """Return the rows of all blocks as one."""
    rows = list(blocks)
    if len(rows) == 1:
        return rows[0]

    def joined(parts: Iterable[Array | None]) -> Array | None:
        found = list(parts)
        return None if found[0] is None else np.concatenate([p for p in found if p is not None])

    points = [each.points for each in rows]

    def columns(name: str) -> list[Array]:
        return [
            np.concatenate(each) for each in zip(*(getattr(p, name) for p in points), strict=False)
        ]

    ranges = [
        (min(low for low, _ in ends), max(high for _, high in ends))
        for ends in zip(*(p.ranges for p in points), strict=True)
    ]
    all_points = Points(columns("main"), columns("smooths"), columns("effects"), ranges=ranges)
    y = joined(each.y for each in rows)
    assert y is not None
    extra = joined(each.extra for each in rows)
    weight, offset = joined(each.weight for each in rows), joined(each.offset for each in rows)
    return Observed(all_points, y, extra, weight, offset)
