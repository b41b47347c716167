"""Reduction of many points to what a column of pixels can show.

A picture is a few hundred columns wide. Of the points that fall on one column, drawing all shows
their range and hides everything else under ink. Here every column gets its extremes, so that no
outlier is lost, the middle of its points, so that extremes are not mistaken for the rule, and
its first and last point, which a line through all points would enter and leave it by.

A curve finer than a column is drawn by the least and the greatest of it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

from asvgp.basis import Array
from asvgp.runtime.parallel import as_doubles

_PER_CELL = 4  # places between two knots, the first of them a knot
_MOST = 1 << 20  # places of a curve
_CHUNK = 1 << 16


class Columns(NamedTuple):
    """Points of every column of pixels; NaN where it holds none.

    Attributes
    ----------
    edges : ndarray of shape (columns + 1,)
    count : ndarray of int
        Points, those with NaN left out.
    first, last : ndarray
        y at the least and the greatest x; of equal x, the first and the last given.
    low, high : ndarray
        Least and greatest y.
    lower, upper : ndarray
        Ends of the central share of y: order statistics, no interpolation.
    """

    edges: Array
    count: Array  # pyright: ignore[reportIncompatibleMethodOverride]
    first: Array
    last: Array
    low: Array
    high: Array
    lower: Array
    upper: Array


def reduce_columns(x, y, start: float, stop: float, columns: int, share: float = 0.9) -> Columns:
    """Reduce points to columns of equal width between ``start`` and ``stop``, both included.

    Parameters
    ----------
    x, y : array-like of shape (n,)
        In any order. Points with NaN, and those outside, are left out.
    start, stop : float
    columns : int
    share : float
        What ``lower`` and ``upper`` enclose: of n points, the ranks from
        ``floor((n - 1) (1 - share) / 2)`` to the same counted from above.

    Examples
    --------
    >>> found = reduce_columns([0.1, 0.9, 0.2, 1.5], [5.0, 1.0, 2.0, 3.0], 0.0, 2.0, 2)
    >>> found.count.tolist(), found.low.tolist(), found.high.tolist()
    ([3, 1], [1.0, 3.0], [5.0, 3.0])
    >>> found.first.tolist(), found.last.tolist()
    ([5.0, 3.0], [1.0, 3.0])
    """
    x, y = as_doubles(x), as_doubles(y)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"x has shape {x.shape} and y {y.shape}: they must be two equal columns.")
    if not (np.isfinite(start) and np.isfinite(stop) and start < stop and columns >= 1):
        raise ValueError(
            f"Cannot make {columns} columns between {start!r} and {stop!r}: there must be one or "
            "more, between finite ends in increasing order."
        )
    edges = np.linspace(start, stop, columns + 1)
    count = np.zeros(columns, dtype=np.int64)
    parts = np.full((6, columns), np.nan)
    cell = np.empty(len(x), dtype=np.int32)
    _extremes(x, y, start, stop, columns, cell, count, parts)
    place = np.concatenate([[0], np.cumsum(count)])
    together = np.empty(place[-1])
    _together(y, cell, place[:-1].copy(), together)
    for c in np.flatnonzero(count):
        rank = int((count[c] - 1) * 0.5 * (1.0 - share))
        ranks = [rank, count[c] - 1 - rank]
        parts[4:, c] = np.partition(together[place[c] : place[c + 1]], ranks)[ranks]
    return Columns(edges, count, *parts)


@numba.njit(cache=True, nogil=True)
def _extremes(x, y, start, stop, columns, cell, count, parts):
    """Find count, first, last, least and greatest of each column, and the column of each point."""
    scale = columns / (stop - start)
    first, last, low, high = parts[0], parts[1], parts[2], parts[3]
    least, most = np.empty(columns), np.empty(columns)
    for n in range(x.shape[0]):
        cell[n] = -1
        if not (start <= x[n] <= stop) or np.isnan(y[n]):
            continue
        c = min(int((x[n] - start) * scale), columns - 1)
        cell[n] = c
        if count[c] == 0:
            first[c] = last[c] = low[c] = high[c] = y[n]
            least[c] = most[c] = x[n]
        else:
            low[c] = min(low[c], y[n])
            high[c] = max(high[c], y[n])
            if x[n] < least[c]:
                least[c], first[c] = x[n], y[n]
            if x[n] >= most[c]:
                most[c], last[c] = x[n], y[n]
        count[c] += 1


@numba.njit(cache=True, nogil=True)
def _together(y, cell, place, out):
    """Put the points of every column next to each other, those of column c from ``place[c]`` on."""
    for n in range(y.shape[0]):
        c = cell[n]
        if c >= 0:
            out[place[c]] = y[n]
            place[c] += 1


class Outline(NamedTuple):
    """A curve and its band, as far as columns of pixels can show them.

    Attributes
    ----------
    x, mean : ndarray
        Points of the curve.
    at, low, high : ndarray
        Places along the band, and its edges there.
    """

    x: Array
    mean: Array
    at: Array
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
) -> Outline:
    """Return a curve at two points per column; where it is finer, its extremes and its band's.

    A curve with knots so close that two points per column might miss something is evaluated at
    the knots and between them, up to a million places. Of every column its least and its
    greatest point are kept, and the band reaches from the least of its lower edge to the
    greatest of its upper one.

    Parameters
    ----------
    evaluate : callable
        Mean and standard deviation at places.
    start, stop : float
    columns : int
    factor : float
        Half the width of the band in standard deviations.
    lower, spacing : float
        One of the knots, and the distance between them; zero for curves without.

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
        mean, std = evaluate(x)
        return Outline(x, mean, x, mean - factor * std, mean + factor * std)
    step = spacing / _PER_CELL
    while stop - start > _MOST * step:
        step *= 2.0  # every knot, then every second one
    first, last = np.floor((start - lower) / step) + 1.0, np.ceil((stop - lower) / step)
    x = np.concatenate([[start], lower + step * np.arange(first, last), [stop]])
    parts = [evaluate(x[begin : begin + _CHUNK]) for begin in range(0, len(x), _CHUNK)]
    mean, std = (np.concatenate(part) for part in zip(*parts, strict=True))
    edges = np.linspace(start, stop, columns + 1)
    starts = np.searchsorted(x, edges[:-1])
    counts = np.diff(np.append(starts, len(x)))
    kept = [np.array([0, len(x) - 1])]
    for extreme in (np.minimum, np.maximum):
        equal = np.flatnonzero(mean == np.repeat(extreme.reduceat(mean, starts), counts))
        kept.append(equal[np.searchsorted(equal, starts)])  # the first of each column
    kept = np.unique(np.concatenate(kept))
    low = np.minimum.reduceat(mean - factor * std, starts)
    high = np.maximum.reduceat(mean + factor * std, starts)
    at = np.repeat(edges, 2)[1:-1]
    return Outline(x[kept], mean[kept], at, np.repeat(low, 2), np.repeat(high, 2))
