"""The trend of the default kernel: how it is chosen, and what forecasts make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import asvgp
from asvgp import SHO, Constant, GPRegressor, Linear, Matern32
from asvgp.data.columns import Table
from asvgp.estimators.default_kernel import default_kernel
from asvgp.estimators.default_trend import Trend, _Level, trend_of
from asvgp.policies import DEFAULT

T = np.arange(1200.0)
U = T / T[-1]
SEASON = np.sin(2 * np.pi * T / 24)


def noise(seed, size=1.0):
    return size * np.random.default_rng(seed).standard_normal(len(T))


def found(y) -> Trend:
    return trend_of(T, y[:, None], 24.0)


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_the_evidence_is_that_of_a_dense_process(share):
    rng = np.random.default_rng(0)
    t = np.delete(np.arange(30.0), [4, 5, 20])
    y, line = rng.standard_normal((27, 2)), (t - 14.0)[:, None]
    bends = rng.standard_normal((27, 3))
    lag = np.abs(t[:, None] - t)
    level = _Level(lag, y, 3.0, share)
    got = level.evidence([(line, 0.5), (bends, 2.0)])
    whole = share * Matern32(3.0).covariance(lag) + (1.0 - share) * np.eye(27)
    whole += 0.5 * line @ line.T + 2.0 * bends @ bends.T
    inverse = np.linalg.inv(whole)
    average = inverse.sum()
    projected = inverse - np.outer(inverse.sum(axis=0), inverse.sum(axis=0)) / average
    unit = np.trace(y.T @ projected @ y) / (2 * 26)
    log_det = np.linalg.slogdet(whole)[1] + np.log(average)
    assert got.unit == pytest.approx(unit)
    assert got.evidence == pytest.approx(-0.5 * (2 * 26 * np.log(unit) + 2 * log_det))


@pytest.mark.parametrize("seed", range(5))
def test_trends_are_told_apart(seed):
    assert not found(noise(seed)).line
    assert found(3.0 * U + noise(seed)).line
    parabola = found(30.0 * U**2 + noise(seed))
    assert parabola.line
    assert parabola.bend == "growth"
    assert found(10.0 * np.sin(9.0 * U) + noise(seed)).bend == "wander"


@pytest.mark.parametrize("seed", range(3))
def test_a_slope_that_changes_once_does_not_grow_on(seed):
    assert found(12.0 * np.maximum(U - 0.6, 0.0) + noise(seed)).bend == "wander"


@pytest.mark.parametrize(("simpler", "bend"), [(5.0, "growth"), (-5.0, "wander")])
def test_growth_is_simpler_by_as_much_as_the_policy_says(simpler, bend, monkeypatch):
    policy = replace(DEFAULT, simpler_growth=simpler)
    monkeypatch.setattr("asvgp.estimators.default_trend.DEFAULT", policy)
    for begin in (0.2, 0.4):  # of a slope that is steeper then: either tells it nearly as well
        assert found(12.0 * np.maximum(U - begin, 0.0) ** 1.5 + noise(0)).bend == bend


def test_a_level_that_returns_is_no_trend():
    rng = np.random.default_rng(1)
    days = np.zeros(50)
    for i in range(1, 50):
        days[i] = 0.6 * days[i - 1] + rng.standard_normal()
    trend = found(np.repeat(days, 24) + noise(2, 0.3))
    assert trend.level >= 24.0
    assert not trend.line


@pytest.mark.parametrize(
    "y", [np.zeros(1200), np.ones(1200), T[:, None][:200, 0]], ids=["0", "1", "few"]
)
def test_what_shows_nothing(y):
    assert trend_of(T[: len(y)], y[:, None], 24.0 if len(y) > 200 else 100.0) == Trend()


def test_growth_goes_on(tmp_path):
    y = 20.0 * U**2 + SEASON + noise(0, 0.2)
    gp = GPRegressor().fit(T[:1000], y[:1000])
    assert any(isinstance(part, SHO) for part in gp.kernel_.components)
    assert any(isinstance(effect, Linear) for effect in gp.kernel_.effects)
    mean, std = gp.predict(T[1000:], return_std=True)
    error = mean - (20.0 * U**2 + SEASON)[1000:]
    assert abs(error.mean()) < 0.3  # a line from the last slope would miss by more than one
    assert np.all(np.abs(error) < 4.0 * std)
    gp.save(tmp_path / "model.asvgp")
    np.testing.assert_array_equal(asvgp.load(tmp_path / "model.asvgp").predict(T[1000:]), mean)


@pytest.mark.parametrize("spacing", ["regular", "irregular"])
def test_trends_without_a_season(spacing):
    rng = np.random.default_rng(3)
    x = T[:300] if spacing == "regular" else np.sort(rng.uniform(0.0, 300.0, 300))
    u, scatter = x[:, None] / 300.0, rng.standard_normal((300, 1))
    assert trend_of(x, 5.0 + scatter) == Trend()
    assert trend_of(x, 4.0 * u + scatter)[1:3] == (True, "")
    assert trend_of(x, 30.0 * u**2 + scatter)[1:3] == (True, "growth")
    assert trend_of(x, 30.0 * u**2).bend == ""  # rounding alone
    assert trend_of(x[:11], 30.0 * u[:11]) == Trend()
    weather = np.zeros(300)
    for i in range(1, 300):
        weather[i] = 0.9 * weather[i - 1] + scatter[i, 0]
    assert not trend_of(x, weather[:, None]).line


def test_a_trend_without_a_season_goes_on():
    u = np.arange(240.0) / 200.0
    scatter = np.random.default_rng(0).standard_normal(200)
    for truth, words in ((10.0 * u, "; a line"), (20.0 * u**2, "; a line that bends steadily")):
        gp = GPRegressor().fit(T[:200], truth[:200] + scatter)
        assert gp.summary().kernel_choice.startswith(
            f"chosen from the data: no period found{words}"
        )
        future = gp.forecast(40)
        error = future["mean"].to_numpy() - truth[200:]
        assert np.sqrt(np.mean(error**2)) < 0.7
        assert np.mean(np.abs(error) < 2.0 * future["std"]) > 0.9


def test_outputs_count_alike_whatever_their_units():
    rng = np.random.default_rng(0)
    y = np.stack([SEASON, 1e4 * rng.standard_normal(len(T))], axis=1)
    y[:, 0] += 0.1 * rng.standard_normal(len(T))
    kernel, twin = (default_kernel(Table(T), y * scale) for scale in ([1.0, 1.0], [1e3, 1e-3]))
    assert repr(kernel).count("Periodic(period=24.0") == 2
    assert kernel == twin
    rising = np.stack([1e-3 * (3.0 * U + noise(1, 0.3)), 1e3 * noise(2)], axis=1)
    assert default_kernel(Table(T), rising).effects == (Constant(), Linear())
    same = np.stack([SEASON + noise(1, 0.1), np.full(len(T), 7.0)], axis=1)
    assert repr(default_kernel(Table(T), same)).count("Periodic(period=24.0") == 2
