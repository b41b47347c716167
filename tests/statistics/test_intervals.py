"""Where knots may be among intervals that y is averaged over, and what is wrong with others."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from asvgp import GPRegressor, Matern32
from asvgp.basis import Grid
from asvgp.statistics.intervals import aligned_cells, aligned_grid, cut, finest_uncut
from tests.statistics.test_averages import hourly

# ------------------------------------------------------------------- knots


@pytest.mark.parametrize(
    "x, width, spacing",
    [
        (np.arange(100) * 0.1, 0.1, 0.1),  # one after the other
        (1e6 + np.arange(1000) / 3.0, 1.0 / 3.0, 1.0 / 3.0),
        (60.0 * np.arange(50), 7.0, 10.0),  # with gaps
        (61.0 * np.arange(50), 50.0, 61.0),
        (0.3 + np.concatenate([np.arange(48.0), 24.0 * np.arange(2)]), "mixed", 24.0),
        (np.array([5.0]), 2.0, 2.0),
        (np.concatenate([np.arange(0.0, 24.0), [2.0]]) * 3600.0, 3600.0, 3600.0),
    ],
)
def test_finest_knots_that_cut_no_interval(x, width, spacing):
    mixed = isinstance(width, str)
    width = np.where(np.arange(len(x)) < 48, 1.0, 24.0) if mixed else np.full(len(x), width)
    grid = aligned_grid(x, width, x.min(), (x + width).max(), 8192)
    assert grid is not None
    assert grid.spacing == pytest.approx(spacing, rel=1e-9)
    assert not len(cut(x, width, grid))
    coarse = grid
    while coarse.cells > 1:
        coarse = coarse.coarsen()
        assert not len(cut(x, width, coarse))


def test_knots_are_no_more_than_wanted_and_can_be_halved():
    x = np.arange(20_000) * 0.25
    width = np.full(20_000, 0.25)
    assert aligned_grid(x, width, 0.0, 5000.0, 6000) == Grid(0.0, 5000.0, 5000)
    grid = finest_uncut(x, width, Grid(0.0, 5000.0, 32768), 2, None, False)
    assert (grid.lower, grid.spacing, grid.cells % 64) == (0.0, 0.25, 0)
    assert 5000.0 <= grid.upper <= 5020.0


def test_points_among_the_averages_may_be_anywhere():
    rng = np.random.default_rng(5)
    x = np.concatenate([np.arange(40.0), rng.uniform(-3.0, 50.0, 30)])
    width = np.concatenate([np.ones(40), np.zeros(30)])
    grid = aligned_grid(x, width, x.min(), x.max(), 8192)
    assert grid is not None
    assert grid.spacing == 1.0
    assert grid.lower == np.floor(x.min())
    gp = GPRegressor(Matern32()).fit(x, np.sin(x), width=width)
    assert gp.stats_.widths.tolist() == [0.0, 1.0]


def test_number_of_knots_on_a_given_domain():
    x, width = np.arange(1.0, 11.0), np.ones(10)
    assert aligned_cells(x, width, 0.0, 12.0, 8192) == 12
    assert aligned_cells(x, width, 0.0, 12.0, 11) is None  # two intervals to a cell, but 8 or more
    assert aligned_cells(np.arange(100.0), np.ones(100), 0.0, 100.0, 60) == 50
    assert aligned_cells(x, width, 0.5, 12.0, 8192) is None


# ------------------------------------------------------------------- errors


def fitted():
    x, y, _ = hourly(100)
    gp = GPRegressor(Matern32(2.0), num_basis=103, noise_variance=0.1, optimizer=None)
    return gp.fit(x, y, width=1.0), x, y


@pytest.mark.parametrize(
    "width, error, message",
    [
        (
            -1.0,
            ValueError,
            r"must not be negative, as it is in 100 of 100 rows \(0, 1, 2, 3, 4, \.\.\.",
        ),
        (np.r_[np.ones(98), -1.0, 1.0], ValueError, r"in 1 of 100 rows \(98\)"),
        (
            np.r_[np.ones(99), np.nan],
            ValueError,
            r"width contains NaN or infinity in 1 of 100 .*99",
        ),
        (np.inf, ValueError, "width contains NaN or infinity"),
        (np.ones(99), ValueError, r"width has shape \(99,\), but X has 100 rows"),
        (np.ones((100, 1)), ValueError, r"width has shape \(100, 1\)"),
        ("1 hour", TypeError, "width is a duration, but X holds numbers"),
        (np.full(100, np.timedelta64(1, "h")), TypeError, "width is a duration"),
        ([timedelta(hours=1)] * 100, TypeError, "width is a duration"),
        ("wide", ValueError, "Cannot read 'wide' as a duration"),
        (True, TypeError, "width must be a number, a duration, or one per row"),
        ([None] * 100, TypeError, "width must be a number"),
        (1.5, ValueError, r"[Kk]nots cut \d+ of .* intervals"),
    ],
)
def test_wrong_widths_change_nothing(width, error, message):
    gp, x, y = fitted()
    before = gp.elbo_
    for method in (gp.fit, gp.partial_fit, gp.forget, gp.leave_one_out):
        with pytest.raises(error, match=message):
            method(x, y, width=width)
        assert gp.elbo_ == before
        assert gp.stats_.count == 100


def test_numbers_against_times():
    t = np.datetime64("2024-03-01") + np.arange(50) * np.timedelta64(1, "h")
    for width in (1.0, np.ones(50), 3600):
        with pytest.raises(TypeError, match="width has no unit, but X holds times"):
            GPRegressor(Matern32("1 hour")).fit(t, np.arange(50.0), width=width)
    negative = [timedelta(hours=1)] * 49 + [timedelta(hours=-1)]
    with pytest.raises(ValueError, match=r"negative, as it is in 1 of 50 rows \(49\)"):
        GPRegressor(Matern32("1 hour")).fit(t, np.arange(50.0), width=negative)
    missing = np.full(50, np.timedelta64(1, "h"))
    missing[7] = np.timedelta64("NaT")
    with pytest.raises(ValueError, match=r"width contains NaN .* \(7\)"):
        GPRegressor(Matern32("1 hour")).fit(t, np.arange(50.0), width=missing)


def test_knots_that_cut_intervals_are_told_what_would_do():
    x, y, _ = hourly(100)
    with pytest.raises(
        ValueError, match=r"Knots cut .* Take num_basis=53 and domain=\(0.0, 100.0\)"
    ):
        GPRegressor(Matern32(), num_basis=72).fit(x, y, width=1.0)
    with pytest.raises(ValueError, match=r"No equidistant knots .* domain=\(-1.0, 100.0\)"):
        GPRegressor(Matern32(), domain=(-0.5, 100.0)).fit(x, y, width=1.0)
    with pytest.raises(ValueError, match="leaves out 1 of 100 values"):
        GPRegressor(Matern32(), domain=(0.0, 99.5)).fit(x, y, width=1.0)
    t = np.datetime64("2024-03-01") + (3600 * x).astype("timedelta64[s]")
    with pytest.raises(
        ValueError, match=r"2024-03-01T00:00:00 .* np.datetime64\('2024-03-05T04:00:00'"
    ):
        GPRegressor(Matern32("1 hour"), num_basis=72).fit(t, y, width="1 hour")


def test_intervals_on_no_lattice():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 200)
    for width in (0.1, rng.uniform(0.1, 0.2, 200)):
        with pytest.raises(ValueError, match="No equidistant knots leave 200 intervals of widths"):
            GPRegressor(Matern32()).fit(x, np.sin(x), width=width)
    with pytest.raises(ValueError, match="must not overlap"):
        GPRegressor(Matern32()).fit(np.arange(200.0), np.sin(x), width=3.0)


def test_later_intervals_must_fit_too():
    gp, x, y = fitted()
    with pytest.raises(ValueError, match="Knots cut 100 of 100"):
        gp.partial_fit(x + 0.5, y, width=1.0)
    assert gp.partial_fit(x + 50.0, y, width=1.0).stats_.grid.upper == 150.0


def test_rounding_leaves_no_input_outside_an_aligned_grid():
    """The grid of lattice points ended a rounding error before the last of them."""
    x = 2.31 * np.array([7.0, 8.0, 9.0, 12.0, 25.0, 42.0, 51.0]) / 64
    width = 2.31 / 64 * np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    grid = aligned_grid(x, width, x.min(), x.max(), 1000)
    assert grid is not None
    assert grid.lower <= x.min()
    assert x.max() <= grid.upper
