"""Reduction of many points to what a column of pixels can show.

A picture is a few hundred columns wide. Of the points that fall on one column, drawing all shows
their range and hides everything else under ink. Here every column gets its extremes, so that no
outlier is lost, and the middle of its points, so that extremes are not mistaken for the rule.

A curve finer than a column is drawn by the least and the greatest of it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.data.transforms import IDENTITY, Transform

_PER_CELL = 4  # places between two knots, the first of them a knot
_MOST = 1 << 20  # places of a curve
_CHUNK = 1 << 16


class Columns(NamedTuple):
    """Points of every column of pixels; NaN where it holds none."""

    edges: Array  # one more than there are columns
    counts: Array  # of points, those with NaN left out
    low: Array
    high: Array
    lower: Array  # ends of the central share of y: order statistics, no interpolation
    upper: Array


def reduce_columns(x, y, start: float, stop: float, columns: int, share: float = 0.9) -> Columns:
    """Reduce points to columns of equal width between ``start`` and ``stop``, both included.

    Points in any order; those with NaN, and those outside, are left out. Of n points, ``lower`` and
    ``upper`` have the ranks from ``floor((n - 1) (1 - share) / 2)`` to the same counted from above.

    Examples
    --------
    >>> found = reduce_columns([0.1, 0.9, 0.2, 1.5], [5.0, 1.0, 2.0, 3.0], 0.0, 2.0, 2)
    >>> found.counts.tolist(), found.low.tolist(), found.high.tolist()
    ([3, 1], [1.0, 3.0], [5.0, 3.0])
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"x has shape {x.shape} and y {y.shape}: they must be two equal columns.")
    if not (np.isfinite(start) and np.isfinite(stop) and start < stop and columns >= 1):
        raise ValueError(
            f"Cannot make {columns} columns between {start!r} and {stop!r}: there must be one or "
            "more, between finite ends in increasing order."
        )
    inside = (x >= start) & (x <= stop) & ~np.isnan(y)
    scaled = (x[inside] - start) * (columns / (stop - start))
    # In the smallest type, 16 bits for most pictures: NumPy sorts these several times as fast.
    cell = np.minimum(scaled, columns - 1).astype(np.min_scalar_type(columns))
    counts = np.bincount(cell, minlength=columns)
    groups = np.split(y[inside][np.argsort(cell, kind="stable")], np.cumsum(counts)[:-1])
    parts = np.full((4, columns), np.nan)
    for c in np.flatnonzero(counts):
        last = counts[c] - 1
        rank = int(last * 0.5 * (1.0 - share))
        ranks = [0, last, rank, last - rank]
        parts[:, c] = np.partition(groups[c], ranks)[ranks]
    return Columns(np.linspace(start, stop, columns + 1), counts, *parts)


class Outline(NamedTuple):
    """A curve and its band, as far as columns of pixels can show them."""

    x: Array
    mean: Array
    at: Array  # places along the band, and its edges there
    low: Array
    high: Array


def outline(
    evaluate: Callable[[Array], tuple[Array, Array]],
    start: float,
    stop: float,
    columns: int,
    factor: float,
    lower: float = 0.0,
    spacing: float = 0.0,
    transform: Transform = IDENTITY,
) -> Outline:
    """Return a curve at two points per column; where it is finer, its extremes and its band's.

    A curve with knots so close that two points per column might miss something is evaluated at
    the knots and between them, up to a million places. Of every column its least and its
    greatest point are kept, and the band reaches from the least of its lower edge to the
    greatest of its upper one.

    The band reaches ``factor`` standard deviations to either side. ``lower`` is one of the knots;
    curves without knots have a ``spacing`` of zero. Means and standard deviations are on the scale
    of a ``transform`` of y, the outline is of y itself.

    Examples
    --------
    >>> def comb(x):
    ...     return (np.abs(x - np.round(x)) < 1e-9) * 1.0, np.zeros(len(x))
    >>> found = outline(comb, 0.3, 900.3, 3, 2.0, lower=0.0, spacing=1.0)
    >>> found.low.tolist(), found.high.tolist()
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    width = (stop - start) / columns
    if 2.0 * spacing >= _PER_CELL * width or not spacing > 0.0:
        x = np.linspace(start, stop, 2 * columns)
        mean, low, high = transform.band(*evaluate(x), factor)
        return Outline(x, mean, x, low, high)
    step = spacing / _PER_CELL
    while stop - start > _MOST * step:
        step *= 2.0  # every knot, then every second one
    first, last = np.floor((start - lower) / step) + 1.0, np.ceil((stop - lower) / step)
    x = np.concatenate([[start], lower + step * np.arange(first, last), [stop]])
    parts = [evaluate(x[begin : begin + _CHUNK]) for begin in range(0, len(x), _CHUNK)]
    mean, std = (np.concatenate(part) for part in zip(*parts, strict=True))
    mean, least, greatest = transform.band(mean, std, factor)
    edges = np.linspace(start, stop, columns + 1)
    starts = np.searchsorted(x, edges[:-1])
    counts = np.diff(np.append(starts, len(x)))
    kept = [np.array([0, len(x) - 1])]
    for extreme in (np.minimum, np.maximum):
        equal = np.flatnonzero(mean == np.repeat(extreme.reduceat(mean, starts), counts))
        kept.append(equal[np.searchsorted(equal, starts)])  # the first of each column
    kept = np.unique(np.concatenate(kept))
    low = np.minimum.reduceat(least, starts)
    high = np.maximum.reduceat(greatest, starts)
    at = np.repeat(edges, 2)[1:-1]
    return Outline(x[kept], mean[kept], at, np.repeat(low, 2), np.repeat(high, 2))
