"""The posterior along one input, as a page carries it.

On a cell the mean is a polynomial of degree k and the variance one of degree 2k. They are given
by their values at Chebyshev's points: those at both ends are shared by neighbours, and every
second one of the variance's is one of the mean's. From these the script of the page evaluates the
posterior anywhere, so that zooming shows what is there and not a picture of it.

A model may have more cells than a page can carry. Polynomials on fewer, wider pieces take their
place if they are within a hundredth of a standard deviation everywhere; if not, the ranges of
several cells together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.plot.reduce import reduce_columns
from asvgp.plot.view import Input
from asvgp.report.pack import packed, scaled

NUMBERS = 300_000  # of all curves of a page together
_DOTS = 20_000  # observations up to which each is carried
_RANGES = 1 << 15  # of observations, where there are more
_CHUNK = 1 << 16
_NEAR = 0.01  # standard deviations that an interpolated mean may be off by

Evaluate = Callable[[Array], tuple[Array, Array]]


def nodes(degree: int) -> Array:
    """Chebyshev's points of a degree on [0, 1], the last one left out: it is the next cell's."""
    return 0.5 - 0.5 * np.cos(np.pi * np.arange(degree) / degree)


def curve(grid: Grid, degree: int, evaluate: Evaluate, room: int = NUMBERS) -> dict[str, Any]:
    """Mean and variance on a grid, in at most so many numbers.

    Parameters
    ----------
    grid : Grid
    degree : int
        Of the mean; the variance has twice that.
    evaluate : callable
        Mean and standard deviation at places.
    room : int
    """
    together, fewer = 1, grid
    found = None
    if 3 * degree * grid.cells <= room:
        found = _at_nodes(grid, degree, evaluate)
    elif room >= 6 * degree:  # splines finer than their posterior needs are common
        fewer = Grid(grid.lower, grid.upper, room // (3 * degree))
        found = _interpolated(fewer, degree, evaluate, -(-grid.cells // fewer.cells))
    if found is not None:
        mean, variance = found
        offset, scale = scaled(mean)
        values = {
            "mean": packed((mean - offset) / scale),
            "variance": packed(variance / scale**2),
            "degree": degree,
            "near": fewer is not grid,
        }
    else:
        fewer, together = grid, -(-3 * grid.cells // room)
        low, high, spread = _ranges(grid, degree, evaluate, together)
        offset, scale = scaled(np.concatenate([low, high]))
        values = {
            "low": packed((low - offset) / scale),
            "high": packed((high - offset) / scale),
            "spread": packed(spread / scale),
        }
    return {
        "lower": grid.lower,
        "upper": grid.upper,
        "cells": fewer.cells,
        "together": together,
        "offset": offset,
        "scale": scale,
        **values,
    }


def _places(grid: Grid, degree: int, first: int, last: int) -> Array:
    """The nodes of some cells, and the end of the last."""
    s = nodes(degree)
    within = (np.arange(first, last)[:, None] + s).ravel() / grid.cells
    ends = np.append(within, last / grid.cells)
    return np.clip(grid.lower + ends * (grid.upper - grid.lower), grid.lower, grid.upper)


def _at_nodes(grid: Grid, degree: int, evaluate: Evaluate) -> tuple[Array, Array]:
    x = _places(grid, 2 * degree, 0, grid.cells)
    mean, std = evaluate(x)
    return mean[::2], std**2


def _interpolated(grid: Grid, degree: int, evaluate: Evaluate, merged: int):
    """The same on pieces of several cells, None where those do not follow the posterior."""
    mean, variance = _at_nodes(grid, degree, evaluate)
    s = (np.arange(3 * merged) + 0.5) / (3 * merged)  # a few places in every cell
    step = max(1, _CHUNK // len(s))
    for first in range(0, grid.cells, step):
        pieces = np.arange(first, min(first + step, grid.cells))
        x = grid.lower + (pieces[:, None] + s) * grid.spacing
        wanted, std = (part.reshape(x.shape) for part in evaluate(x.ravel()))
        for values, k, exact, reach in (
            (mean, degree, wanted, _NEAR * std),
            (variance, 2 * degree, std**2, 2.0 * _NEAR * std**2),
        ):
            own = values[pieces[:, None] * k + np.arange(k + 1)]
            if np.any(np.abs(own @ _lagrange(k, s) - exact) > reach):
                return None
    return mean, variance


def _lagrange(degree: int, s: Array) -> Array:
    """Polynomials that are one at one node and zero at the others, (degree + 1, places)."""
    ends = np.append(nodes(degree), 1.0)
    return np.linalg.solve(
        np.vander(2.0 * ends - 1.0, degree + 1).T, np.vander(2.0 * s - 1.0, degree + 1).T
    )


def _ranges(grid: Grid, degree: int, evaluate: Evaluate, together: int):
    """Least and greatest mean of several cells together, and their greatest deviation."""
    parts = []
    step = max(1, _CHUNK // (2 * degree * together)) * together
    for first in range(0, grid.cells, step):
        last = min(first + step, grid.cells)
        mean, std = evaluate(_places(grid, 2 * degree, first, last))
        starts = np.arange(0, 2 * degree * (last - first), 2 * degree * together)
        stops = np.append(starts[1:], len(mean) - 1)  # the ends belong to both sides
        low, high, spread = (
            of(of.reduceat(values, starts), values[stops])
            for of, values in ((np.minimum, mean), (np.maximum, mean), (np.maximum, std))
        )
        parts.append((low, high, spread))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def observations(x: Array, y: Array, place: Input, what: str = "observations") -> dict[str, Any]:
    """Observations: each of them where they are few, their range and mean a column where many."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = np.isfinite(y) & (x >= place.lower) & (x <= place.upper)
    x, y = x[known], y[known]
    offset, scale = scaled(y)
    if len(y) <= _DOTS:
        order = np.argsort(x, kind="stable")
        return {
            "what": what,
            "count": len(y),
            "offset": offset,
            "scale": scale,
            "x": packed(x[order], "<f8"),
            "y": packed((y[order] - offset) / scale),
        }
    found = reduce_columns(x, y, place.lower, place.upper, _RANGES)
    seen = np.flatnonzero(found.count)
    column = np.minimum(
        ((x - place.lower) * (_RANGES / (place.upper - place.lower))).astype(np.int64), _RANGES - 1
    )
    mean = np.bincount(column, y - offset, _RANGES)[seen] / found.count[seen]
    return {
        "what": what,
        "count": len(y),
        "columns": _RANGES,
        "offset": offset,
        "scale": scale,
        "seen": packed(seen, "<u4"),
        "number": packed(found.count[seen], "<u4"),
        "low": packed((found.low[seen] - offset) / scale),
        "high": packed((found.high[seen] - offset) / scale),
        "mean": packed(mean / scale),
    }


def axis(place: Input) -> dict[str, Any]:
    """What ticks and read-outs need to know of an input."""
    out: dict[str, Any] = {"label": place.label, "time": None}
    if place.axis is not None:
        origin = int(place.axis.origin.astype("M8[ns]").astype(np.int64))
        zone = place.zone
        out["time"] = {"origin": origin / 1e6, "zone": None if zone is None else str(zone)}
    return out


def of_input(place: Input, held: Mapping[int, float], predict, component=None) -> Evaluate:
    """A model, or one component of it, along one input with the other columns held fixed."""

    def evaluate(x: Array) -> tuple[Array, Array]:
        wide = {column: np.full(len(x), value) for column, value in held.items()}
        return predict({**wide, place.column: x}, component)

    return evaluate
