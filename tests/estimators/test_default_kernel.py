"""The kernel where the user gives none: periods that the data show, and models of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import Constant, GPRegressor, Matern32
from asvgp.data.columns import Table
from asvgp.estimators.default_kernel import default_kernel, periods
from asvgp.kernels import Periodic
from asvgp.times import Duration

T = np.arange(1000.0)
RNG = np.random.default_rng
PLAIN = Matern32() + Constant()


def wave(period, t=T):
    return np.sin(2 * np.pi * t / period)


def shown(t, y, candidates=None) -> list[float]:
    return periods(np.asarray(t), np.reshape(y, (len(t), -1)), candidates)


@pytest.mark.parametrize("period", [7.0, 12.3, 24.0, 100.0])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_period_of_a_sine(period, noise):
    y = wave(period) + noise * RNG(0).standard_normal(len(T)) + 0.01 * T
    assert shown(T, y) == pytest.approx([period], rel=0.01)


def test_periods_of_regular_series_are_whole_steps():
    t = np.arange(400.0)
    y = wave(24.0, t) + 0.3 * RNG(0).standard_normal(400)
    assert shown(t, y) == [24.0]
    assert shown(0.5 * t, y) == [12.0]
    assert shown(t, wave(24.6, t)) == pytest.approx([24.6], rel=5e-3)
    uneven = np.sort(RNG(1).uniform(0.0, 400.0, 400))
    assert shown(uneven, wave(24.0, uneven)) == pytest.approx([24.0], rel=1e-2)


def test_harmonics_belong_to_their_period():
    sharp = np.exp(3.0 * wave(24.0)) + 0.2 * RNG(0).standard_normal(len(T))
    assert shown(T, sharp) == pytest.approx([24.0], rel=0.01)


def test_periods_of_two_seasons_are_in_proportion():
    y = 2.0 * wave(24.0) + wave(168.0) + 0.3 * RNG(0).standard_normal(len(T))
    short, long = shown(T, y)
    assert short == pytest.approx(24.0, rel=0.01)
    assert long == pytest.approx(168.0, rel=0.02)
    assert long / short == pytest.approx(round(long / short))


@pytest.mark.parametrize("seed", range(10))
def test_noise_and_random_walks_have_no_period(seed):
    noise = RNG(seed).standard_normal(len(T))
    assert shown(T, noise) == []
    assert shown(T, np.cumsum(noise)) == []


def test_order_and_outputs_do_not_matter():
    y = np.stack([wave(24.0), 0.1 * T], axis=1) + 0.1 * RNG(0).standard_normal((len(T), 2))
    mixed = RNG(1).permutation(len(T))
    assert shown(T[mixed], y[mixed]) == pytest.approx(shown(T, y))
    assert shown(T, y) == pytest.approx([24.0], rel=0.01)


@pytest.mark.parametrize("rows", [1, 2, 10, 23])
def test_few_rows_have_no_period(rows):
    assert shown(T[:rows], wave(5.0)[:rows]) == []


def test_one_input_value_has_no_period():
    assert shown(np.ones(50), RNG(0).standard_normal(50)) == []


@pytest.mark.parametrize("y", [np.zeros(1000), 3.0 + 0.5 * T, 0.001 * T**2], ids=["0", "1", "2"])
def test_trends_have_no_period(y):
    assert shown(T, y) == []


def hours(count: int, freq="h") -> pd.DatetimeIndex:
    return pd.date_range("2021-03-01 07:00", periods=count, freq=freq)


def test_times_are_tried_with_the_calendar():
    rng = RNG(0)
    t = hours(24 * 60)
    h = np.arange(len(t), dtype=float)
    y = wave(24.0, h) + wave(168.0, h) + 0.3 * rng.standard_normal(len(t))
    kernel = default_kernel(Table(t), y)
    found = [part.period for part in kernel.components[1:3] if isinstance(part, Periodic)]
    assert found == [86400.0, 604800.0]
    assert all(isinstance(period, Duration) for period in found)
    assert len(kernel.components) == 4
    weekly = default_kernel(Table(t), wave(168.0, h) + 0.3 * rng.standard_normal(len(t)))
    assert [f.period for p in weekly.components for f in p.factors if isinstance(f, Periodic)] == [
        604800.0,
        604800.0,
    ]
    days = hours(4 * 365, "D")
    yearly = default_kernel(Table(days), wave(365.25, np.arange(float(len(days)))))
    assert repr(yearly).count("Periodic") == 2
    assert "365.25 days" in repr(yearly)
    noise = default_kernel(Table(t), rng.standard_normal(len(t)))
    assert noise == PLAIN


def test_other_data_get_one_kernel():
    X = RNG(0).uniform(size=(100, 2))
    assert default_kernel(Table(X), X[:, 0]) == PLAIN
    assert default_kernel(Table(T), RNG(0).standard_normal(len(T))) == PLAIN


def test_rows_without_a_value_are_left_out():
    y = wave(24.0)
    y[5::7] = np.nan
    kernel = default_kernel(Table(T), y)
    assert repr(kernel).count("Periodic") == 2


@pytest.mark.parametrize("timed", [False, True], ids=["numbers", "times"])
def test_models_without_a_kernel(tmp_path, timed):
    rows, ahead = 400, 48
    h = np.arange(float(rows + ahead))
    y = wave(24.0, h) + 5.0 + 0.1 * RNG(0).standard_normal(len(h))
    x = hours(len(h)) if timed else h
    gp = GPRegressor(None).fit(x[:rows], y[:rows])
    assert repr(gp.kernel_).count("Periodic") == 2
    mean, std = gp.predict(x[rows:], return_std=True)
    assert np.sqrt(np.mean((mean - y[rows:]) ** 2)) < 0.15
    assert std.max() < 0.5
    gp.save(tmp_path / "model.asvgp")
    loaded = asvgp.load(tmp_path / "model.asvgp")
    np.testing.assert_array_equal(loaded.predict(x[rows:]), mean)
    for model in (gp, loaded):
        model.partial_fit(x[rows:], y[rows:])
        assert model.stats_.count == len(h)
    np.testing.assert_allclose(loaded.predict(x[-9:]), gp.predict(x[-9:]), atol=1e-2)
