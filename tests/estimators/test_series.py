"""Time series as people have them: sums, streams, known noise, times, everything linear."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.interpolate import BSpline

from asvgp import SHO, GPRegressor, Matern12, Matern32, Matern52, Periodic
from asvgp.kernels import Sum
from asvgp.posterior.chain import ChainPosterior
from asvgp.statistics import Statistics
from asvgp.times import Duration
from tests.dense import ExactGP, sample

SUM = Matern52(1.5, 1.2) + SHO(0.5, 3.0, 0.6)


def fixed(kernel, **changes):
    """An estimator that keeps its hyperparameters."""
    settings = {"num_basis": 600, "noise_variance": 0.05, "optimizer": None}
    return GPRegressor(kernel, **settings | changes)


@pytest.mark.parametrize(
    "kernel", [SUM, SUM + Matern12(0.4, 0.05), Matern32(0.3) + Matern32(3.0)], ids=str
)
def test_a_sum_is_the_dense_process_and_so_are_its_components(kernel):
    noise = 0.05
    x, y = sample(kernel, noise, 150, 3.0)
    new = np.linspace(-0.5, 3.5, 41)
    exact = ExactGP(kernel, noise, x, y)
    mean, cov = exact.predict(new)
    close = 2e-2 if any(isinstance(c, Matern12) for c in kernel.components) else 2e-3
    gp = fixed(kernel, degree=3).fit(x, y)
    m, s, parts = gp.predict(new, return_std=True, components=True)
    np.testing.assert_allclose(m, mean, atol=close)
    np.testing.assert_allclose(s, np.sqrt(np.diag(cov)), atol=close)
    np.testing.assert_allclose(sum(part.mean for part in parts), m, atol=1e-10)
    weights = np.linalg.solve(exact.covariance, y)
    for part, component in zip(parts, kernel.components, strict=True):
        cross = component(new, x)
        np.testing.assert_allclose(part.mean, cross @ weights, atol=close)
        variance = component.variance - np.sum(
            cross * np.linalg.solve(exact.covariance, cross.T).T, axis=1
        )
        np.testing.assert_allclose(part.std, np.sqrt(variance), atol=close)
    assert gp.elbo_ <= exact.evidence() <= gp.evidence_upper_bound_
    _, c = gp.predict(new, return_cov=True)
    np.testing.assert_allclose(c, cov, atol=close)


def test_a_sum_is_trained_and_its_parts_found():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 100, 8000))
    slow, wave = np.sin(t / 9.0), 0.5 * np.sin(2 * np.pi * t / 2.0)
    y = 2 * slow + wave + 0.2 * rng.standard_normal(8000)
    gp = GPRegressor(Matern52(10.0) + SHO(2.0, 30.0), num_basis=1500).fit(t, y)
    _, parts = gp.predict(t, components=True)
    assert np.std(parts[0].mean - 2 * slow) < 0.06
    assert np.std(parts[1].mean - wave) < 0.06
    assert gp.kernel_.components[1].period == pytest.approx(2.0, rel=0.02)
    assert gp.noise_variance_ == pytest.approx(0.04, rel=0.1)


def test_sums_are_values():
    assert Matern52(1.5, 1.2) + SHO(0.5, 3.0, 0.6) == SUM
    assert isinstance(SUM + Matern12(), Sum)
    assert len((SUM + SUM).components) == 4
    assert repr(SUM).count(" + ") == 1
    with pytest.raises(TypeError):
        _ = SUM + 3


def portions(n=3000, seed=1):
    """Data in four uneven portions."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 20, n)
    y = np.sin(x) + 0.1 * rng.standard_normal(n)
    return x, y, np.split(np.arange(n), [10, 1000, 2500])


def test_portions_give_the_model_of_everything():
    x, y, parts = portions()
    whole = GPRegressor(Matern32(), num_basis=200, domain=(0, 20)).fit(x, y)
    stream = GPRegressor(Matern32(), num_basis=200, domain=(0, 20))
    for part in reversed(parts):
        stream.partial_fit(x[part], y[part])
    np.testing.assert_allclose(stream.stats_.moments, whole.stats_.moments, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(stream.stats_.targets, whole.stats_.targets, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stream.predict([3.0, 25.0]), whole.predict([3.0, 25.0]), atol=1e-5)
    models = [GPRegressor(Matern32(), num_basis=200, domain=(0, 20)).fit(x[p], y[p]) for p in parts]
    merged = models[0].merge(models[1]).merge(models[2]).merge(models[3])
    np.testing.assert_allclose(merged.stats_.moments, whole.stats_.moments, rtol=1e-11, atol=1e-9)
    total = models[1].stats_ + models[2].stats_
    assert total.count == 2490


def test_a_rolling_window_forgets():
    x, y, _ = portions()
    order = np.argsort(x)
    x, y = x[order], y[order]
    gp = fixed(Matern32(), domain=(0, 20)).fit(x[:2000], y[:2000])
    gp.partial_fit(x[2000:], y[2000:]).forget(x[:1000], y[:1000])
    fresh = fixed(Matern32(), domain=(0, 20)).fit(x[1000:], y[1000:])
    new = np.linspace(-1, 21, 50)
    for a, b in zip(
        gp.predict(new, return_std=True), fresh.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-9)
    with pytest.raises(ValueError, match="never added"):
        gp.forget(x[:1000], y[:1000])
    np.testing.assert_array_equal(gp.stats_.count, 2000)  # as it was
    with pytest.raises(ValueError, match="outside the domain"):
        gp.forget([99.0], [1.0])


@pytest.mark.parametrize("num_basis", ["auto", 200])
def test_the_domain_grows_with_the_data(num_basis):
    x, y, _ = portions()
    inner = (x > 8) & (x < 12)
    gp = GPRegressor(Matern32(), num_basis=num_basis).fit(x[inner], y[inner])
    spacing = gp.stats_.grid.spacing
    gp.partial_fit(x[~inner], y[~inner])
    grid = gp.stats_.grid
    assert grid.spacing == pytest.approx(spacing, rel=1e-9)
    assert grid.lower <= x.min()
    assert grid.upper >= x.max()
    assert gp.stats_.count == 3000
    new = np.linspace(0, 20, 100)
    # A point on a knot may count to the cell before or after it: the splines do not care.
    direct = Statistics.from_data(x, y, grid, 2)
    results = [ChainPosterior(Matern32(), 0.01, s, 2).predict(new) for s in (gp.stats_, direct)]
    np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-9)
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-9)
    assert np.abs(gp.predict(new) - np.sin(new)).max() < 0.15


def test_known_noise_is_kept():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 10, 2000)
    noise = rng.choice([0.01, 1.0], 2000)
    y = np.sin(x) + np.sqrt(noise) * rng.standard_normal(2000)
    gp = GPRegressor(Matern52(), num_basis=400).fit(x, y, noise_variance=noise)
    assert gp.noise_variance_ == 1.0
    exact = ExactGP(gp.kernel_, noise, x, y)
    new = np.linspace(0, 10, 20)
    mean, cov = exact.predict(new)
    m, s = gp.predict(new, return_std=True)
    np.testing.assert_allclose(m, mean, atol=1e-3)
    np.testing.assert_allclose(s, np.sqrt(np.diag(cov)), atol=1e-3)
    assert gp.elbo_ <= exact.evidence() <= gp.evidence_upper_bound_
    with pytest.raises(ValueError, match="not both"):
        GPRegressor().fit(x, y, sample_weight=noise, noise_variance=noise)
    with pytest.raises(ValueError, match="conventions for the weights"):
        gp.partial_fit(x, y)
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        GPRegressor().fit(x, y, noise_variance=noise - 0.01)
    with pytest.raises(ValueError, match="do not add"):
        gp.merge(GPRegressor(Matern52(), num_basis=400).fit(x, y))


def test_everything_linear():
    x = np.linspace(0, 10, 400)
    rng = np.random.default_rng(3)
    gp = GPRegressor(Matern52(), num_basis=150).fit(x, np.sin(x) + 0.01 * rng.standard_normal(400))
    new = np.linspace(1, 9, 20)
    slope, std = gp.predict(new, derivative=1, return_std=True)
    assert np.all(np.abs(slope - np.cos(new)) < 5 * std)
    _, cov = gp.predict(new, derivative=1, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-6)
    area, std = gp.integrate(0.0, np.pi, return_std=True)
    assert abs(area - 2.0) < 4 * std
    means, spread = gp.integrate([0, 1], [2, 3], average=True, return_cov=True)
    assert (means.shape, spread.shape) == ((2,), (2, 2))
    assert spread[0, 1] > 0
    draws = gp.sample_y(new, 500, random_state=0)
    mean, std = gp.predict(new, return_std=True)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * std / np.sqrt(500))
    paths = gp.sample_paths(3, random_state=0)
    assert all(isinstance(path, BSpline) for path in paths)
    assert np.abs(paths[0](new) - mean).max() < 6 * std.max()
    with pytest.raises(ValueError, match="derivative"):
        gp.predict(new, derivative=3)
    with pytest.raises(ValueError, match="no noise to include"):
        gp.predict(new, derivative=1, include_noise=True)
    with pytest.raises(ValueError, match="At most one"):
        gp.integrate(0, 1, return_std=True, return_cov=True)


def test_a_summary_puts_parts_of_a_season_together():
    """Under its name, with their own numbers; degrees of freedom are added."""
    t = np.arange(96.0)
    y = np.sin(2 * np.pi * t / 12) + np.sin(2 * np.pi * t / 30) + 0.02 * t
    kernel = Periodic(12.0) + Periodic(30.0) + Matern32(9.0) + Periodic(12.0) * Matern32(60.0)
    found = GPRegressor(kernel, optimizer=None, noise_variance=0.01).fit(t, y).summary()
    assert found.seasons == ("season of 12", "season of 30", "", "season of 12")
    groups = found.by_season()
    assert [season for season, _ in groups] == ["season of 12", "season of 30", "", ""]
    listed = [id(row) for _, rows in groups for row in rows]
    assert sorted(listed) == sorted(map(id, found.hyperparameters))
    assert {row["component"][0] for row in groups[0][1]} == {"1", "4"}
    lines = str(found).splitlines()
    first = lines.index("season of 12")
    assert lines[first + 1].startswith("  1 Periodic")
    assert lines[first + 3].startswith("  4 Periodic x Matern32")
    freedom = found.component_degrees_of_freedom
    assert f"{freedom[0] + freedom[3]:.1f} (season of 12)" in str(found)
    plain = GPRegressor(Matern32(9.0), optimizer=None, noise_variance=0.01).fit(t, y).summary()
    assert plain.seasons == ("",)
    assert "season" not in str(plain)


def test_a_summary_says_what_data_do_not_determine():
    """In place of intervals over hundreds of orders of magnitude; all lines are aligned."""
    t = pd.date_range("2024-01-01", periods=60, freq="D")
    kernel = Matern32("2 days") + Periodic("1 week", "2 days")
    gp = GPRegressor(kernel, optimizer=None, noise_variance=0.1)
    found = gp.fit(t, np.sin(np.arange(60.0))).summary()
    rows = ({**row, "log_error": 0.1} for row in found.hyperparameters)
    known = replace(found, hyperparameters=tuple(rows))
    assert "undetermined" not in str(known)
    first, *others = known.hyperparameters
    first = {**first, "log_error": 150.0, "lower": Duration(1e-200), "upper": Duration(1e250)}
    lost = str(replace(found, hyperparameters=(first, *others))).splitlines()
    (line,) = [line for line in lost if "undetermined" in line]
    assert line.startswith("1 Matern32")
    assert "season of 1 week" in lost
    (head,) = [line for line in lost if line.startswith("component ")]
    assert line.index("150") + 3 == head.index("rel. s.e.") + 9


def test_leave_one_out_and_summary():
    x, y, _ = portions(500)
    gp = GPRegressor(Matern32(), num_basis=80).fit(x, y)
    left = gp.leave_one_out(x, y)
    others = np.arange(500) != 7
    again = GPRegressor(
        gp.kernel_,
        num_basis=80,
        noise_variance=gp.noise_variance_,
        domain=gp.domain_,
        optimizer=None,
    ).fit(x[others], y[others])
    m, s = again.predict(x[7:8], return_std=True, include_noise=True)
    assert left.mean[7] == pytest.approx(m[0], abs=1e-8)
    assert left.std[7] == pytest.approx(s[0], abs=1e-8)
    text = str(gp.summary())
    assert "lengthscale" in text
    assert "500" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert gp.summary().as_dict()


def test_resolution_table():
    x, y, _ = portions()
    gp = GPRegressor(Matern32()).fit(x, y)
    levels = gp.resolution_
    assert levels[-1].num_basis == gp.num_basis_
    assert levels[-1].elbo == pytest.approx(gp.elbo_)
    assert all(a.num_basis < b.num_basis for a, b in pairwise(levels))
    assert all(level.elbo <= level.upper_bound for level in levels)
    assert all(0 <= level.missed_share < 1 for level in levels)


def clock(n=2000, seed=4):
    """A year and a half of hours with a daily wave, as times."""
    rng = np.random.default_rng(seed)
    hours = np.sort(rng.uniform(0, 24 * 60, n))
    times = np.datetime64("2023-03-01T00:00", "ns") + (hours * 3600e9).astype("timedelta64[ns]")
    y = np.sin(2 * np.pi * hours / 24) + 0.1 * rng.standard_normal(n)
    return hours, times, y


def test_times_in_every_dress_give_one_model():
    hours, times, y = clock()
    kernel = SHO(period="1 day", quality=20.0)
    settings = {"num_basis": 400, "noise_variance": 0.01, "optimizer": None}
    expected = GPRegressor(SHO(24.0, 20.0), **settings).fit(hours, y).predict([5.0, 24 * 61.0])
    ask = np.array(["2023-03-01T05:00", "2023-05-01T00:00"], dtype="datetime64[ns]")
    aware = pd.Series(times).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    for X, new in [
        (times, ask),
        (times.astype("datetime64[us]"), ask),
        (pd.Series(times), pd.Series(ask)),
        (pd.DatetimeIndex(times), pd.DatetimeIndex(ask)),
        (pd.DataFrame({"t": times}), pd.DataFrame({"t": ask})),
        (aware, pd.Series(ask).dt.tz_localize("UTC")),
        (pl.Series(times), pl.Series(ask)),
        (times[::-1], ask),
    ]:
        target = y[::-1] if X is not times and isinstance(X, np.ndarray) and X[0] > X[-1] else y
        gp = GPRegressor(kernel, **settings).fit(X, target)
        np.testing.assert_allclose(gp.predict(new), expected, atol=1e-5)


def test_durations_in_and_out():
    _, times, y = clock()
    gp = GPRegressor(SHO(period=timedelta(days=1), quality=20.0), num_basis=500).fit(times, y)
    text = repr(gp.kernel_)
    assert "hours'" in text or "days'" in text
    assert float(gp.kernel_.period) == pytest.approx(86400.0, rel=0.02)
    assert gp.domain_[0] == times.min()
    slope = gp.predict(times[:5], derivative=1)  # per second
    assert np.abs(slope).max() < 2 * 2 * np.pi / 86400
    mean = gp.integrate(times[0], times[0] + np.timedelta64(10, "D"), average=True)
    assert abs(mean) < 0.05
    gp.partial_fit(times[:10] + np.timedelta64(100, "D"), y[:10])
    assert gp.stats_.count == 2010
    assert "days" in str(gp.summary()) or "hours" in str(gp.summary())


@pytest.mark.parametrize(
    "kernel, time, message",
    [
        (SHO(period=24.0), True, r"period has no unit, but X holds times.*period='24 days'"),
        (SHO(period="1 day"), False, "period is a duration, but X holds numbers"),
    ],
)
def test_units_must_fit(kernel, time, message):
    hours, times, y = clock(50)
    with pytest.raises(ValueError, match=message):
        GPRegressor(kernel).fit(times if time else hours, y)


def test_times_and_numbers_do_not_mix():
    hours, times, y = clock(300)
    timed = GPRegressor(Matern32(), num_basis=50).fit(times, y)
    with pytest.raises(TypeError, match="fitted to times"):
        timed.predict(hours)
    with pytest.raises(TypeError, match="fitted to times"):
        timed.partial_fit(hours, y)
    plain = GPRegressor(Matern32(), num_basis=50).fit(hours, y)
    with pytest.raises(TypeError, match="fitted to numbers"):
        plain.predict(times)
    bad = times.copy()
    bad[3] = "NaT"
    with pytest.raises(ValueError, match="NaT in 1 of 300 rows"):
        GPRegressor().fit(bad, y)
    assert timed.stats_.count == plain.stats_.count == 300
