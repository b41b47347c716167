"""The definition of the statistics, in NumPy, and data to compare with it."""

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from asvgp.basis import Grid
from asvgp.statistics import Statistics
from tests.dense import design

SUMS = ("moments", "targets", "cross", "column_gram", "column_targets", "squares")
# Few pairs of last degrees: every pair is compiled by itself.
DEGREES = [(), (2,), (2, 2), (1, 2), (1, 2, 2), (3, 1, 2), (2, 1, 1, 2)]


def assert_same(a: Statistics, b: Statistics, rtol=1e-12, scale=0.0):
    """Check that statistics are equal up to rounding, at the scale of |y|, |c| and w.

    Where the weights have both signs, their sums do not show it: it is to be given.
    """
    assert (a.grids, a.degrees, a.smooths, a.linear) == (b.grids, b.degrees, b.smooths, b.linear)
    for name in SUMS:
        mine, theirs = getattr(a, name), getattr(b, name)
        assert mine.shape == theirs.shape
        assert mine.flags.c_contiguous
        size = np.abs(theirs).max(initial=0.0) + abs(b.weight + b.squares.sum()) * 1e-2 + scale
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * size, err_msg=name)
    assert (a.count, a.missing) == (b.count, b.missing)
    assert a.log_weights == pytest.approx(b.log_weights, rel=1e-10, abs=1e-9, nan_ok=True)


def direct(x, y, grids, degrees, w, smooths, z, linear):
    """Compute the statistics by their definition."""
    y = y[:, None] if y.ndim == 1 else y
    keep = ~np.isnan(y).any(axis=1)
    total = len(y)
    x, y, w = x[keep], y[keep], w[keep]
    blocks = [design(z[keep, j], grid, k) for j, (grid, k) in enumerate(smooths)]
    columns = np.hstack([np.zeros((len(y), 0)), *blocks, linear[keep]])
    stats = Statistics.empty(grids, degrees, y.shape[1], smooths=smooths, linear=linear.shape[1])
    located = [grid.locate(x[:, d]) for d, grid in enumerate(grids)]
    cell = (np.zeros(len(y), int), *(c for c, _ in located))  # one axis more: D may be zero
    moments, targets, cross = stats.moments[None], stats.targets[:, None], stats.cross[None]

    def powers(j):
        return prod((s**i for i, (_, s) in zip(j, located, strict=True)), start=np.ones(len(y)))

    for j in product(*(range(2 * k + 1) for k in degrees)):
        np.add.at(moments, (*cell, *j), w * powers(j))
    for j in product(*(range(k + 1) for k in degrees)):
        for o in range(y.shape[1]):
            np.add.at(targets[o], (*cell, *j), w * y[:, o] * powers(j))
        for i in range(columns.shape[1]):
            np.add.at(cross, (*cell, *j, i), w * columns[:, i] * powers(j))
    weighted = w[:, None] * columns
    positive = w.min(initial=1.0) > 0.0
    return replace(
        stats,
        column_gram=weighted.T @ columns,
        column_targets=y.T @ weighted,
        squares=(w[:, None] * y**2).sum(axis=0),
        count=len(y),
        missing=total - len(y),
        log_weights=np.log(w).sum() if positive else np.nan,
    )


def sample(rng, n, degrees, smooths=(), outputs=1, linear=0, cells=4, on_knots=0):
    """Return grids, inputs (the first rows on knots and ends), inputs of smooths, y, columns."""
    grids = tuple(Grid(-1.0 - d, 2.0, cells + d) for d in range(len(degrees)))
    x = np.stack([rng.uniform(g.lower, g.upper, n) for g in grids] or [np.zeros(n)], axis=1)
    for d, grid in enumerate(grids):
        x[:on_knots, d] = rng.choice(grid.knots, on_knots)
    x = x[:, : len(grids)]
    z = np.stack([rng.uniform(g.lower, g.upper, n) for g, _ in smooths] or [np.zeros(n)], axis=1)
    return (
        grids,
        x,
        z[:, : len(smooths)],
        rng.standard_normal((n, outputs)),
        rng.random((n, linear)),
    )


def accumulated(x, y, grids, degrees, w=None, smooths=(), z=None, linear=None, **more):
    """Compute the statistics by the pass over the data."""
    return Statistics.from_data(
        x, y, grids, degrees, w, smooths=smooths, smooth_inputs=z, covariates=linear, **more
    )


SMOOTHS = (Grid(0.0, 1.0, 5), 2), (Grid(-3.0, 1.0, 3), 1)
