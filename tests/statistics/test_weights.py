"""Weights of any sign, and targets that come multiplied by their weights."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.basis import Grid
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from tests.statistics.definition import DEGREES, SMOOTHS, accumulated, assert_same, direct, sample

GRID = Grid(0.0, 1.0, 4)


def signed(rng, n):
    """Return weights of both signs, some of them zero."""
    return np.where(rng.random(n) < 0.2, 0.0, rng.standard_normal(n))


@settings(max_examples=40, deadline=None)
@given(
    degrees=st.sampled_from(DEGREES),
    n=st.integers(1, 80),
    outputs=st.integers(1, 2),
    smooths=st.integers(0, 2),
    linear=st.integers(0, 2),
    seed=st.integers(0, 10_000),
)
def test_sums_with_signed_weights_are_their_definition(degrees, n, outputs, smooths, linear, seed):
    rng = np.random.default_rng(seed)
    smooths = SMOOTHS[:smooths]
    grids, x, z, y, columns = sample(rng, n, degrees, smooths, outputs, linear, 3, n // 5)
    y[rng.random(y.shape) < 0.1] = np.nan
    w = signed(rng, n)
    w[0], y[0] = 0.0, 1.0
    mine = accumulated(x, y, grids, degrees, w, smooths, z, columns)
    assert_same(mine, direct(x, y, grids, degrees, w, smooths, z, columns), scale=n)
    assert np.isnan(mine.log_weights)


@settings(max_examples=40, deadline=None)
@given(
    degrees=st.sampled_from(DEGREES),
    n=st.integers(1, 80),
    smooths=st.integers(0, 2),
    linear=st.integers(0, 2),
    centred=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_premultiplied_targets_are_summed_without_weights(
    degrees, n, smooths, linear, centred, seed
):
    rng = np.random.default_rng(seed)
    smooths = SMOOTHS[:smooths]
    grids, x, z, y, columns = sample(rng, n, degrees, smooths, 2, linear, 3)
    w = signed(rng, n)
    w[0] = 0.0  # where b stands for no value of y at all
    y[rng.random(y.shape) < 0.1] = np.nan
    rest = smooths, z, columns
    like = None
    if centred:
        centres = {"centre": np.array([0.5, -2.0]), "column_centre": np.full(linear, 0.3)}
        like = Statistics.empty(grids, degrees, 2, smooths=smooths, linear=linear, **centres)
    mine = accumulated(x, y, grids, degrees, w, *rest, like=like, premultiplied=True)
    assert np.isnan(mine.squares).all()
    mine = mine.recentred(np.zeros(2), np.zeros(linear))
    weighted = direct(x, y, grids, degrees, w, *rest)
    plain = direct(x, y, grids, degrees, np.ones(n), *rest)
    for name in ("moments", "cross", "column_gram"):
        expected = getattr(weighted, name)
        np.testing.assert_allclose(getattr(mine, name), expected, atol=1e-11, err_msg=name)
    for name in ("targets", "column_targets"):
        expected = getattr(plain, name)
        np.testing.assert_allclose(getattr(mine, name), expected, atol=1e-11, err_msg=name)
    assert (mine.count, mine.missing) == (weighted.count, weighted.missing)


@pytest.mark.parametrize("degree", [1, 2])
def test_averages_with_signed_weights(degree):
    rng = np.random.default_rng(0)
    x = np.repeat(np.arange(4.0) / 4.0, 20)
    width, y, w = np.full(80, 0.25), rng.standard_normal(80), signed(rng, 80)
    mine = Statistics.from_data(x, y, GRID, degree, w, width=width)
    powers = np.arange(degree + 1)
    means = 1.0 / (powers + 1.0)  # of s**j over a whole cell
    cell = np.repeat(np.arange(4), 20)
    np.testing.assert_allclose(
        mine.moments[:, mine.pair], np.bincount(cell, w)[:, None, None] * np.outer(means, means)
    )
    np.testing.assert_allclose(mine.targets[0], np.bincount(cell, w * y)[:, None] * means)
    np.testing.assert_allclose(mine.width_weights, w.sum())
    sites = Statistics.from_data(x, w * y, GRID, degree, w, width=width, premultiplied=True)
    np.testing.assert_allclose(sites.targets, mine.targets, atol=1e-13)
    np.testing.assert_allclose(sites.moments, mine.moments, atol=1e-13)


def test_gridded_data_with_signed_weights():
    rng = np.random.default_rng(1)
    axes, values = (rng.random(5), rng.random(6)), rng.standard_normal((5, 6))
    w = signed(rng, 30).reshape(5, 6)
    mine = Statistics.from_grid(values, axes, (GRID, GRID), (2, 1), w)
    x = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    y = values.reshape(-1, 1)
    expected = direct(x, y, (GRID, GRID), (2, 1), w.ravel(), (), None, np.empty((30, 0)))
    assert_same(mine, expected, scale=30.0)


def test_cells_whose_weights_cancel_are_kept():
    x, y = np.array([0.1, 0.2, 0.6, 0.7]), np.array([1.0, 2.0, 3.0, 5.0])
    whole = Statistics.from_data(x, y, GRID, 2, np.array([1.0, -1.0, 2.0, 1.0]))
    assert whole.cell_weights[0] == 0.0
    assert_same(pickle.loads(pickle.dumps(whole)), whole, rtol=0.0)
    part = Statistics.from_data(x[2:3], y[2:3], GRID, 2, np.array([2.0]))
    left = Statistics.from_data(x[[0, 1, 3]], y[[0, 1, 3]], GRID, 2, np.array([1.0, -1.0, 1.0]))
    assert_same(whole - part, left)


def test_blocks_of_premultiplied_targets_add_up():
    rng = np.random.default_rng(2)
    x, b, w = rng.random(300), rng.standard_normal(300), signed(rng, 300)
    whole = Statistics.from_data(x, b, GRID, 2, w, premultiplied=True)
    sums = Accumulator(Statistics.empty(GRID, 2), premultiplied=True)
    for rows in np.split(np.arange(300), 3):
        sums.add([x[rows]], b[rows], w[rows])
    for name in ("moments", "targets"):
        mine, expected = getattr(sums.statistics(), name), getattr(whole, name)
        np.testing.assert_allclose(mine, expected, atol=1e-12)
    np.testing.assert_allclose(sums.squares, b @ b)


def test_tables_can_be_exchanged():
    rng = np.random.default_rng(3)
    x, y, w = rng.random((200, 2)), rng.standard_normal(200), rng.random(200)
    first = Statistics.from_data(x, y, (GRID, GRID), (2, 2))
    second = Statistics.from_data(x, w * y, (GRID, GRID), (2, 2), w, premultiplied=True)
    mixed = first.with_tables(
        0.7 * first.moments + 0.3 * second.moments, 0.7 * first.targets + 0.3 * second.targets
    )
    assert mixed.grids is first.grids
    assert mixed.weight == pytest.approx(0.7 * first.weight + 0.3 * second.weight)
    assert np.isnan(mixed.squares).all()
    assert np.isnan(mixed.log_weights)
    again = first.with_tables(first.moments, first.targets, squares=first.squares, log_weights=0.0)
    assert_same(again, first, rtol=0.0)
    with pytest.raises(ValueError, match=r"must have \(4, 4, 5, 5\) and \(1, 4, 4, 3, 3\)"):
        first.with_tables(first.moments[1:], first.targets)
