"""The kernel where the user gives none: periods that the data show, and models of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import asvgp
from asvgp import Constant, GPRegressor, Linear, Matern12, Matern32
from asvgp.data.columns import Table
from asvgp.estimators.default_kernel import default_kernel, periods
from asvgp.kernels import Matern, Periodic
from asvgp.policies import DefaultPolicy
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


@pytest.mark.parametrize("day", [0.8, 1.0, 1.2])
def test_a_day_and_a_week_may_be_equally_strong(day):
    y = day * wave(24.0) + wave(168.0) + 0.3 * RNG(0).standard_normal(len(T))
    assert shown(T, y) == [24.0, 168.0]


@pytest.mark.parametrize("seed", range(5))
def test_means_by_phase_of_what_varies_slowly_are_no_season(seed):
    rng = RNG(seed)
    weather = lfilter([1.0], [1.0, -0.97], rng.standard_normal(len(T) + 500))[500:]
    assert shown(T, weather, [24.0, 168.0]) == []
    assert shown(T, weather + 6.0 * wave(24.0), [24.0, 168.0]) == [24.0]


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
    gp = GPRegressor().fit(x[:rows], y[:rows])
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


# ---------------------------------------------------------------- the default of the estimator

FIXED = {"optimizer": None, "noise_variance": 0.01}
DAILY = wave(24.0, T[:200]) + 5.0 + 0.1 * RNG(0).standard_normal(200)
DAY = Periodic(24.0, centred=True)
SEASONAL = PLAIN + DAY + DAY * Matern32()


def chosen(gp):
    """Return the kernel as it was chosen, without training."""
    return gp._fit_data().layout.given


def test_the_default_is_no_kernel():
    assert repr(GPRegressor()) == "GPRegressor()"
    assert GPRegressor().kernel is None


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({}, {}),
        ({"domain": (-20.0, 250.0)}, {}),
        ({"transform": "log"}, {}),
        ({"transform": 0.5}, {"sample_weight": np.linspace(1.0, 2.0, 200)}),
        ({}, {"noise_variance": np.full(200, 0.01)}),
        ({}, {"y": np.stack([DAILY, 0.1 * DAILY], axis=1)}),
        ({}, {"y": np.ma.masked_array(DAILY, np.arange(200) % 7 == 5).filled(np.nan)}),
        ({}, {"y": np.ma.masked_array(np.where(T[:200] == 9, 1e9, DAILY), T[:200] == 9)}),
        ({}, {"X": (T[:200],)}),
        (
            {},
            {
                "X": pd.DataFrame({"t": T[:200]}, index=T[:200] + 0.5),
                "y": pd.Series(DAILY, T[:200]),
            },
        ),
        ({}, {"X": lambda: iter([(T[:150], DAILY[:150]), (T[150:200], DAILY[150:])]), "y": None}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*left out as missing")
def test_seasons_are_found_however_data_come(settings, rows):
    gp = GPRegressor(**settings, **FIXED).fit(**({"X": T[:200], "y": DAILY} | rows))
    assert gp.kernel_ == SEASONAL
    assert gp.summary().kernel_choice == "chosen from the data: period 24"


@pytest.mark.parametrize(
    ("settings", "rows", "why"),
    [
        ({"num_basis": 50}, {}, "num_basis, degree or width"),
        ({"degree": 3}, {}, "num_basis, degree or width"),
        ({}, {"width": 1.0}, "num_basis, degree or width"),
        ({}, {"y": RNG(0).standard_normal(200)}, "no period found"),
        ({"num_basis": 8}, {"X": RNG(0).uniform(size=(200, 4))}, "several inputs"),
    ],
)
@pytest.mark.filterwarnings("ignore:The automatic resolution stopped")  # of a short lengthscale
def test_other_models_get_a_matern_and_a_constant(settings, rows, why):
    rows = {"X": T[:200], "y": DAILY} | rows
    gp, twin = (GPRegressor(k, **settings, **FIXED).fit(**rows) for k in (None, PLAIN))
    assert repr(gp.kernel_) == repr(twin.kernel_)
    assert gp.elbo_ == twin.elbo_
    assert why in gp.summary().kernel_choice
    assert why in " ".join(str(gp.summary()).split())  # on however many lines
    assert twin.summary().kernel_choice == ""


def test_far_from_data_is_the_mean_of_y():
    gp = GPRegressor().fit(T[:60], 7.0 + RNG(0).standard_normal(60))
    assert gp.predict([1e6])[0] == pytest.approx(gp.effects_[0].estimate)
    assert gp.effects_[0].estimate == pytest.approx(7.0, abs=0.5)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([], []),
        ([1.0], [2.0]),
        (np.ones(10), T[:10]),
        (T[:10], np.ones(10)),
        (T, T[:9]),
        (T[:9], None),
        (["a", "b"], [1.0, 2.0]),
        (T[:2], ["a", "b"]),
        (np.where(T == 3, np.nan, T), T),
        (T[:50], np.full(50, np.inf)),
        (T[:50], np.full(50, np.nan)),
        (T.reshape(10, 10, 10), T),
    ],
)
def test_bad_rows_are_refused_as_with_a_kernel(X, y):
    errors = []
    for kernel in (None, PLAIN):
        with pytest.raises((TypeError, ValueError)) as raised:
            GPRegressor(kernel).fit(X, y)
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("rows", [2, 10])
def test_few_rows_fit(rows):
    gp = GPRegressor().fit(T[:rows], DAILY[:rows])
    assert np.all(np.isfinite(gp.predict(T[:rows])))
    assert len(gp.kernel_.components) == 1


@pytest.mark.parametrize(("first", "kernel"), [(10, PLAIN), (150, SEASONAL)])
def test_the_first_block_decides(first, kernel):
    gp = GPRegressor(**FIXED)
    for part in (slice(0, first), slice(first, 200)):
        gp.partial_fit(T[part], DAILY[part])
    assert chosen(gp) == kernel
    assert chosen(gp.forget(T[:5], DAILY[:5])) == kernel
    assert chosen(gp.fit(T[:200], DAILY)) == SEASONAL


@pytest.fixture
def few_cells(monkeypatch):
    monkeypatch.setattr("asvgp.estimators.default_kernel.DEFAULT", DefaultPolicy(most_rows=600))


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize(
    ("rows", "found"), [(5000, [100.0]), (25_000, [100.0]), (5000, [24.0, 480.0])]
)
def test_many_rows_are_looked_at_all_over(rows, found, order):
    """The first 600 rows hold six periods of 100 at most, or one."""
    rng = RNG(0)
    t = np.arange(5000.0) if rows == 5000 else np.sort(rng.uniform(0.0, 5000.0, rows))
    y = 5.0 + sum(wave(period, t) for period in found) + 0.3 * rng.standard_normal(rows)
    mixed = rng.permutation(rows) if order == "shuffled" else slice(None)
    kernel = default_kernel(Table(t[mixed]), y[mixed])
    seasons = [part.period for part in kernel.components if isinstance(part, Periodic)]
    assert seasons == pytest.approx(found, rel=1e-12 if rows == 5000 else 1e-3)


@pytest.mark.usefixtures("few_cells")
def test_the_trend_of_many_rows_is_that_of_all():
    t = np.arange(6000.0)
    y = wave(24.0, t) + 0.0005 * t + 0.1 * RNG(0).standard_normal(len(t))
    y[:600] -= 0.0005 * t[:600]  # in which there is none
    assert Linear() in default_kernel(Table(t), y).effects
    y = wave(100.0, t) + 1e-6 * (t - 3000.0) ** 2 + 0.1 * RNG(0).standard_normal(len(t))
    (bend,) = [part for part in default_kernel(Table(t), y).components if part.fixed]
    assert max(bend.values) > 5999.0  # the period or the length, in spans of all rows


@pytest.mark.usefixtures("few_cells")
def test_cells_without_rows_and_equal_inputs_are_no_trouble():
    t = np.repeat(np.r_[np.arange(400.0), np.arange(900.0, 2000.0)], 3)
    y = wave(24.0, t) + 0.3 * RNG(0).standard_normal(len(t))
    seasons = [p.period for p in default_kernel(Table(t), y).components if isinstance(p, Periodic)]
    assert seasons == [24.0]
    assert default_kernel(Table(np.ones(700)), RNG(0).standard_normal(700)) == PLAIN


def test_the_summary_says_where_later_rows_were_not_looked_at():
    gp = GPRegressor(**FIXED).partial_fit(T[:150], DAILY[:150]).partial_fit(T[150:200], DAILY[150:])
    assert gp.summary().kernel_choice == "chosen from the data: period 24 (from the first 150 rows)"


def test_merged_models_have_the_same_kernel():
    def model(first, last):
        gp = GPRegressor(domain=(0.0, 400.0), **FIXED)
        return gp.partial_fit(T[first:last], wave(24.0)[first:last])

    merged = model(0, 200).merge(model(200, 400))
    assert chosen(merged) == SEASONAL
    assert merged.elbo_ == pytest.approx(model(0, 400).elbo_)
    few = model(0, 10)
    with pytest.raises(ValueError, match=r"chosen from their data, and differ: .* same kernel"):
        few.merge(model(10, 400))
    assert few.stats_.count == 10


@pytest.mark.parametrize("change", ["transform", "stream"])
def test_nothing_depends_on_the_scale_of_y_or_the_span_where_these_are_not_settled(change):
    t = np.arange(600.0)
    noise = 0.02 * np.random.default_rng(4).standard_normal(600)
    y = np.exp(0.004 * t + 0.3 * np.sin(2 * np.pi * t / 24) + noise)
    bent = GPRegressor().fit(t, y)
    assert any(part.fixed for part in bent.kernel_.components)  # growth
    if change == "transform":
        gp, twin = GPRegressor(transform="auto").fit(t, y), GPRegressor(transform="log").fit(t, y)
        last = [model.forecast(48)["std"].iloc[-1] for model in (gp, twin)]
        assert last[0] == pytest.approx(last[1], rel=0.2)
    else:
        gp = GPRegressor().partial_fit(t, y)
    assert not any(part.fixed for part in gp.kernel_.components)


@pytest.mark.parametrize("period", [36.0, 34.7, 100.0])
def test_a_second_period_that_is_no_multiple_becomes_a_wave(period):
    def signal(t):
        return np.sin(2 * np.pi * t / 24) + np.sin(2 * np.pi * t / period)

    t = np.arange(1000.0)
    y = signal(t) + 0.2 * np.random.default_rng(5).standard_normal(1000)
    gp = GPRegressor().fit(t, y)
    later = np.arange(1000.0, 1100.0)
    assert np.sqrt(np.mean((gp.predict(later) - signal(later)) ** 2)) < 0.1
    assert "and a wave of period" in gp.summary().kernel_choice


def relaxing(length: float, count: int, seed: int = 0) -> np.ndarray:
    """Return a process of order 1/2 and variance one, at steps of one."""
    keeps = np.exp(-1.0 / length)
    steps = np.sqrt(1.0 - keeps**2) * RNG(seed).standard_normal(count + 2000)
    return np.asarray(lfilter([1.0], [1.0, -keeps], steps))[2000:]


def smoothed(length: float, count: int, seed: int = 1) -> np.ndarray:
    """Return a process whose order is 3/2, about, of variance one."""
    keeps = np.exp(-np.sqrt(3.0) / length)
    rough = RNG(seed).standard_normal(count + 2000)
    y = np.asarray(lfilter([1.0], [1.0, -2.0 * keeps, keeps**2], rough))[2000:]
    return y / y.std()


@pytest.mark.parametrize("season", [0.0, 3.0])
def test_a_rough_process_is_found_where_there_is_one(season):
    t = np.arange(6000.0)
    noise = 0.1 * RNG(2).standard_normal(len(t))
    common = season * wave(200.0, t) + noise

    def orders(y) -> list[float]:
        kernel = default_kernel(Table(t), y + common)
        seasons = [part for part in kernel.components if isinstance(part, Periodic)]
        assert len(seasons) == (season > 0.0)
        alone = [part for part in kernel.components if isinstance(part, Matern)]
        return [part.nu for part in alone]

    assert orders(relaxing(20.0, len(t))) == [0.5, 1.5]
    assert 0.5 not in orders(smoothed(12.0, len(t)))
    assert 0.5 not in orders(np.zeros(len(t)))


def test_starting_lengths_of_two_processes_go_by_the_units_of_the_input():
    y = relaxing(20.0, 6000) + 0.1 * RNG(2).standard_normal(6000)
    steps, seconds = (
        default_kernel(Table(scale * np.arange(6000.0)), 5.0 + 2.0 * y) for scale in (1.0, 60.0)
    )
    for one, other in zip(steps.components, seconds.components, strict=True):
        assert isinstance(one, Matern)
        assert isinstance(other, Matern)
        assert other.lengthscale == pytest.approx(60.0 * one.lengthscale, rel=1e-6)
        assert not one.unset


@pytest.mark.parametrize("shape", ["fixed", "growing", "changing"])
def test_long_series_have_a_drift_if_their_season_drifts(shape):
    t = np.arange(8000.0)
    size = {"fixed": 1.0, "growing": t / len(t), "changing": 1.0 + relaxing(400.0, len(t), 3)}
    level = relaxing(30.0, len(t), 4)
    y = size[shape] * wave(24.0, t) + 0.2 * level + 0.3 * RNG(5).standard_normal(len(t))
    kernel = default_kernel(Table(t), y)
    assert any(len(part.factors) > 1 for part in kernel.components) == (shape != "fixed")
    assert any(len(p.factors) > 1 for p in default_kernel(Table(t), y, bends=False).components)
    few = default_kernel(Table(t[:4000]), y[:4000])
    assert any(len(part.factors) > 1 for part in few.components)


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_a_smooth_season_of_many_steps_is_not_rough(noise):
    t = np.arange(12_000.0)
    y = wave(1000.0, t) + noise * RNG(6).standard_normal(len(t))
    kernel = default_kernel(Table(t), y)
    assert any(isinstance(part, Periodic) for part in kernel.components)
    assert not any(isinstance(part, Matern12) for part in kernel.components)


def test_rounding_is_not_rough():
    t = np.arange(6000.0)
    assert not any(isinstance(p, Matern12) for p in default_kernel(Table(t), t).components)


def test_the_summary_names_a_rough_process():
    y = relaxing(20.0, 3000) + 0.1 * RNG(2).standard_normal(3000)
    gp = GPRegressor().fit(np.arange(3000.0), y)
    assert "; a rough process and a smooth one" in gp.summary().kernel_choice
