"""The trend of the default kernel: how it is chosen, and what forecasts make of it."""

from __future__ import annotations

import numpy as np
import pytest

import asvgp
from asvgp import SHO, GPRegressor, Linear, Matern32
from asvgp.estimators.default_trend import Trend, _Level, trend_of

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
