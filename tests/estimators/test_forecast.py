"""Forecasts of series: predictions at the inputs that follow, in frames."""

import builtins
import warnings
from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

import asvgp
from asvgp import Constant, GPRegressor, Linear, Matern32, Periodic
from asvgp.basis import Grid
from asvgp.statistics import Statistics
from asvgp.statistics.ending import Ending, ending_of

FIXED = {"noise_variance": 0.04, "optimizer": None}


def noisy(x, seed=0):
    return np.sin(np.asarray(x) / 5.0) + 0.2 * np.random.default_rng(seed).standard_normal(len(x))


def model(x=None, kernel=None, **settings):
    x = np.arange(200.0) if x is None else x
    kernel = Matern32(10.0) if kernel is None else kernel
    return GPRegressor(kernel, **{"num_basis": 60, **FIXED, **settings}).fit(x, noisy(x))


def times(count=200, step="1h", tz=None, start="2024-03-25"):
    return pd.date_range(start, periods=count, freq=step, tz=tz)


def timed(at, kernel=None, **settings):
    kernel = Matern32("10 hours") if kernel is None else kernel
    settings = {"num_basis": 60, **FIXED, **settings}
    return GPRegressor(kernel, **settings).fit(at, noisy(np.arange(len(at))))


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("num_basis", [20, 60, "auto"])
def test_a_forecast_is_the_prediction_at_the_inputs_that_follow(num_basis):
    gp = model(num_basis=num_basis)
    found = gp.forecast(5)
    inputs = np.arange(200.0, 205.0)
    mean, std = gp.predict(inputs, return_std=True, include_noise=True)
    assert_array_equal(found.index, inputs)
    assert_array_equal(found["mean"], mean)
    assert_array_equal(found["std"], std)
    for share in (0.8, 0.95):
        half = ndtri(0.5 + share / 2) * std
        name = round(100 * share)
        assert_allclose(found[f"lower_{name}"], mean - half, rtol=1e-12)
        assert_allclose(found[f"upper_{name}"], mean + half, rtol=1e-12)
    assert list(found) == ["mean", "std", "lower_80", "upper_80", "lower_95", "upper_95"]


def test_levels_and_noise_are_chosen():
    gp = model()
    found = gp.forecast(3, level=0.975, include_noise=False)
    assert list(found) == ["mean", "std", "lower_97.5", "upper_97.5"]
    assert_array_equal(found["std"], gp.predict(found.index.to_numpy(), return_std=True)[1])
    assert list(gp.forecast(3, level=())) == ["mean", "std"]
    twin = gp.forecast(3, level=97.5, include_noise=False)
    assert_array_equal(twin, found)
    for level in (0.0, 1.0, 1.5, 100.0, "high"):
        with pytest.raises(ValueError, match=r"level must be a probability .* got"):
            gp.forecast(3, level=level)


def test_until_is_inclusive():
    gp = model()
    assert gp.forecast(until=203).index.tolist() == [200.0, 201.0, 202.0, 203.0]
    assert gp.forecast(until=203.9).index[-1] == 203.0
    tenths = model(np.arange(200) * 0.1, Matern32(1.0))
    assert len(tenths.forecast(until=20.5)) == 6


def test_the_grid_may_reach_beyond_the_data():
    gp = model(domain=(-50.0, 500.0))
    assert gp.forecast(2).index.tolist() == [200.0, 201.0]


def test_components_and_effects_add_up_to_the_mean():
    kernel = Matern32(10.0) + Matern32(2.0, 0.1) + Constant() + Linear()
    found = model(kernel=kernel).forecast(6, components=True)
    parts = ["matern32", "matern32_2", "constant", "linear"]
    assert list(found)[6:] == parts
    assert_allclose(found[parts].sum(axis=1), found["mean"], atol=1e-9)


def test_samples_have_the_spread_of_the_intervals():
    gp = model()
    found = gp.forecast(4, n_samples=400, random_state=0)
    draws = found.filter(like="sample_").to_numpy()
    assert draws.shape == (4, 400)
    assert_allclose(draws.std(axis=1), found["std"], rtol=0.15)
    smooth = gp.forecast(4, n_samples=3, random_state=0, include_noise=False)
    again = gp.sample_y(found.index.to_numpy(), 3, np.random.RandomState(0))
    assert_array_equal(smooth.filter(like="sample_"), again)


def test_several_outputs_have_a_frame_each():
    x = np.arange(200.0)
    Y = np.stack([noisy(x), 3.0 + noisy(x, 1)], axis=1)
    gp = GPRegressor(Matern32(10.0) + Constant(), num_basis=60, **FIXED).fit(x, Y)
    found = gp.forecast(3, components=True)
    assert list(found) == [0, 1]
    mean = gp.predict(np.arange(200.0, 203.0))
    for output in (0, 1):
        assert_array_equal(found[output]["mean"], mean[:, output])
        assert_allclose(found[output][["matern32", "constant"]].sum(axis=1), mean[:, output])
    frame = pd.DataFrame({"x": x, "a": Y[:, 0], "b": Y[:, 1]})
    named = GPRegressor(Matern32(10.0), num_basis=60, **FIXED).fit(frame, ["a", "b"])
    assert list(named.forecast(3)) == ["a", "b"]
    assert named.forecast(3)["a"].index.name == "x"


def test_without_pandas_it_is_a_dict(monkeypatch):
    gp, at = model(), timed(times())
    imports = builtins.__import__

    def without(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return imports(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    found = gp.forecast(3)
    assert isinstance(found, dict)
    assert found["x"].tolist() == [200.0, 201.0, 202.0]
    assert found["lower_80"].shape == (3,)
    assert at.forecast(1)["time"].tolist() == [np.datetime64("2024-04-02T08", "ns").astype(int)]


# ---------------------------------------------------------------- the end of the data


def test_gaps_duplicates_and_order_do_not_matter():
    rng = np.random.default_rng(0)
    x = np.arange(300.0)
    x = np.concatenate([x[:100], x[150:180], x[220:], x[20:40]])
    x = rng.permutation(x[rng.uniform(size=len(x)) > 0.2])
    gp = model(x)
    assert gp.forecast(2).index.tolist() == [x.max() + 1.0, x.max() + 2.0]


def test_missing_targets_at_the_end_are_still_to_come():
    x = np.arange(200.0)
    y = noisy(x)
    y[190:] = np.nan
    with pytest.warns(UserWarning, match="10 of 200 rows"):
        gp = GPRegressor(Matern32(10.0), num_basis=60, **FIXED).fit(x, y)
    assert gp.forecast(2).index.tolist() == [190.0, 191.0]


def test_irregular_data_say_which_spacing_was_taken():
    x = np.sort(np.random.default_rng(0).uniform(0.0, 200.0, 300))
    gp = model(x)
    gap = np.median(np.diff(x))
    with pytest.warns(UserWarning, match=f"steps of {gap:g}, the median"):
        found = gp.forecast(3)
    assert_allclose(found.index, x[-1] + gap * np.arange(1, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.forecast(X=[201.0, 202.0])


def test_streams_move_the_end():
    x = np.arange(300.0)
    y = noisy(x)
    gp = GPRegressor(Matern32(10.0), num_basis=60, **FIXED).fit(x[:200], y[:200])
    gp.partial_fit(x[200:250], y[200:250])
    assert gp.forecast(1).index[0] == 250.0
    for row in range(250, 255):
        gp.partial_fit(x[row : row + 1], y[row : row + 1])
    assert gp.forecast(2).index.tolist() == [255.0, 256.0]
    gp.forget(x[:100], y[:100])
    assert gp.forecast(1).index[0] == 255.0
    whole = GPRegressor(Matern32(10.0), num_basis=60, domain=gp.domain_, **FIXED)
    assert whole.fit(x[100:255], y[100:255]).forecast(1).index[0] == 255.0


@pytest.mark.parametrize("num_basis", [30, 300, "auto"])
def test_forgetting_the_last_moves_the_end_back(num_basis):
    x = np.arange(200.0)
    y = noisy(x)
    gp = GPRegressor(Matern32(10.0), num_basis=num_basis, **FIXED).fit(x, y)
    gp.forget(x[150:], y[150:])
    assert gp.forecast(2).index.tolist() == [150.0, 151.0]


def test_merged_models_end_with_the_later():
    x = np.arange(200.0)
    y = noisy(x)
    late, early = (
        GPRegressor(Matern32(10.0), num_basis=60, domain=(0, 200), **FIXED).fit(x[rows], y[rows])
        for rows in (slice(120, 200), slice(0, 120))
    )
    assert late.merge(early).forecast(1).index[0] == 200.0


def test_blocks_of_a_source_have_one_end():
    frames = [pd.DataFrame({"x": np.arange(k, k + 50.0)}) for k in (0, 50, 100)]
    chunks = [(frame, noisy(frame.x)) for frame in frames]
    gp = GPRegressor(Matern32(10.0), num_basis=60, domain=(0, 300), **FIXED)
    gp.fit(asvgp.scan(lambda: iter(chunks)))
    assert gp.forecast(2).index.tolist() == [150.0, 151.0]


def test_saved_models_forecast_the_same(tmp_path):
    gp = timed(times(tz="Europe/Berlin"))
    gp.save(tmp_path / "m.asvgp")
    again = asvgp.load(tmp_path / "m.asvgp")
    pd.testing.assert_frame_equal(again.forecast(30), gp.forecast(30))
    assert again.stats_.ending == gp.stats_.ending


@pytest.mark.parametrize("cells", [40, 700, 20_000])
def test_moments_tell_the_end_where_no_one_noted_it(cells):
    x = 1000.0 + 3.0 * np.arange(600)
    stats = Statistics.from_data(x, np.sin(x), Grid(900.0, 3000.0, cells), 2)
    assert stats.ending == Ending(2797.0, 3.0, True)
    found = ending_of(replace(stats, ending=Ending()))
    assert found.last == pytest.approx(2797.0, abs=1e-5)
    assert found.step == pytest.approx(3.0, rel=1e-6)


def test_large_data_have_the_spacing_of_their_end():
    x = np.concatenate([np.arange(0.0, 1e5, 2.0), np.arange(1e5, 2e5)])
    assert Ending.of(x) == Ending(199_999.0, 1.0, True)
    shuffled = x[np.random.default_rng(0).permutation(len(x))]
    assert Ending.of(shuffled) == Ending()  # which the moments tell instead
    stats = Statistics.from_data(shuffled, shuffled, Grid(0.0, 2e5, 200_000), 2)
    assert ending_of(stats).last == pytest.approx(199_999.0, abs=1e-3)
    last_is_elsewhere = np.append(3e5, x)  # beyond what a look at the last rows shows
    stats = Statistics.from_data(last_is_elsewhere, last_is_elsewhere, Grid(0.0, 3e5, 3000), 2)
    assert ending_of(stats).last == pytest.approx(3e5, abs=1.0)
    crowded = np.append(-1e9, np.arange(200_000.0))
    assert Ending.of(crowded) == Ending(199_999.0, 1.0, True)


# ---------------------------------------------------------------- times


def test_times_go_on_in_their_zone():
    gp = timed(times(tz="Europe/Berlin"))  # from before the clocks change to after
    found = gp.forecast(48)
    expected = pd.date_range("2024-03-25", periods=248, freq="1h", tz="Europe/Berlin")[200:]
    assert (found.index == expected).all()
    assert str(found.index.tz) == "Europe/Berlin"
    assert_array_equal(found["mean"], gp.predict(expected))


@pytest.mark.parametrize("settings", [FIXED | {"kernel": Matern32("10 hours")}, {}])
def test_columns_of_a_frame_go_on_in_their_zone(settings):
    at = times(tz="Europe/Berlin")
    frame = pd.DataFrame({"when": at, "temp": noisy(np.arange(200))})
    gp = GPRegressor(**settings).fit(frame, "temp")
    expected = GPRegressor(**settings).fit(at, frame["temp"].to_numpy()).forecast(6)
    for found in (gp.forecast(6), gp.forecast(until=at[-1] + pd.Timedelta("6h"))):
        assert found.index.name == "when"
        assert (found.index == expected.index).all()
        assert_allclose(found["mean"], expected["mean"], rtol=1e-9)


def test_weekly_data_go_on_by_weeks():
    at = times(150, "7D", start="2021-01-03")
    gp = timed(at, Matern32("60 days"))
    assert (gp.forecast(3).index == times(153, "7D", start="2021-01-03")[150:]).all()
    assert gp.forecast(3).index.tz is None


@pytest.mark.parametrize("freq", ["MS", "ME", "QS", "YS", "YE"])
@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_months_go_on_by_the_calendar(freq, tz):
    at = pd.date_range("1970-01-01", periods=140, freq=freq, tz=tz)
    gp = timed(at[:37].delete([20, 30]), Matern32("60 days"))
    assert (gp.forecast(100).index == at[37:137]).all()
    assert (gp.forecast(until=at[136]).index == at[37:137]).all()
    with pytest.raises(ValueError, match=r"leaves nothing to forecast: .* by the calendar"):
        gp.forecast(until=at[37] - pd.Timedelta("1 hour"))


def test_months_are_pointed_to_where_days_differ():
    at = pd.date_range("2015-01-01", periods=100, freq="MS") + pd.Timedelta("14 days")
    gp = timed(at, Matern32("60 days"))
    with pytest.warns(UserWarning, match="steps of 31 days, .* Give X for the months to come"):
        gp.forecast(3)
    at = at[:90].append(pd.DatetimeIndex(["2023-05-01"]))  # a month start by chance
    with pytest.warns(UserWarning, match="steps of 31 days"):
        timed(at, Matern32("60 days"), num_basis="auto").forecast(3)


@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_until_is_a_time_of_any_kind(tz):
    at = times(tz=tz)
    gp, end = timed(at), at[-1] + pd.Timedelta("5h")
    kinds = [end, end.to_pydatetime(), str(end), str(end.tz_localize(None))]
    if tz is None:
        kinds.append(end.to_datetime64())
    for until in kinds:
        found = gp.forecast(until=until)
        assert len(found) == 5
        assert found.index[-1] == end
    with pytest.raises(ValueError, match="is not a time: write"):
        gp.forecast(until="tomorrow")
    with pytest.raises(TypeError, match="until must hold times"):
        gp.forecast(until=12.0)


def test_times_in_a_zone_need_one(tmp_path):
    gp = timed(times(tz="Europe/Berlin"))
    with pytest.raises(ValueError, match="until holds times without a time zone"):
        gp.forecast(until=datetime(2024, 5, 1))


# ---------------------------------------------------------------- other columns, sums over days


def test_linear_effects_need_the_future_of_their_columns():
    X = pd.DataFrame({"time": times(), "warm": np.random.default_rng(1).standard_normal(200)})
    y = noisy(np.arange(200)) + 2.0 * X.warm
    kernel = Matern32("10 hours", dim="time") + Constant() + Linear("warm")
    gp = GPRegressor(kernel, num_basis=60, **FIXED).fit(X, y)
    with pytest.raises(ValueError, match=r"linear effects of other columns \('warm'\)"):
        gp.forecast(5)
    future = pd.DataFrame({"time": times(203)[200:], "warm": [0.0, 1.0, 2.0]})
    found = gp.forecast(X=future, components=True)
    mean, std = gp.predict(future, return_std=True, include_noise=True)
    assert_array_equal(found["mean"], mean)
    assert_array_equal(found["std"], std)
    assert (found.index == future.time).all()
    assert found.index.name == "time"
    assert_allclose(found["linear_warm"], gp.effects_[1].estimate * future.warm)


def test_sums_over_days_beyond_the_end():
    gp = timed(times(), Matern32("10 hours") + Constant())
    day = np.timedelta64(1, "D")
    start = np.datetime64("2024-04-02T08") + np.arange(3) * day
    total, covariance = gp.integrate(start, start + day, return_cov=True)
    _, std = gp.integrate(start, start + day, return_std=True)
    assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-9)
    # Against the sum of a fine forecast, in seconds.
    fine = start[0] + (np.arange(3 * 1440) * 60 + 30) * np.timedelta64(1, "s")
    mean, cov = gp.predict(fine, return_cov=True)
    weights = np.kron(np.eye(3), np.full(1440, 60.0))
    assert_allclose(total, weights @ mean, rtol=1e-4)
    assert_allclose(covariance, weights @ cov @ weights.T, rtol=1e-3)


# ---------------------------------------------------------------- refusals


def test_what_cannot_be_forecast_is_said():
    gp = model()
    with pytest.raises(ValueError, match="Give one of steps, until and X, not none"):
        gp.forecast()
    with pytest.raises(ValueError, match="not several"):
        gp.forecast(3, until=300.0)
    for steps in (0, -1, 2.5, "many"):
        with pytest.raises(ValueError, match="steps must be a whole number, one or more"):
            gp.forecast(steps)
    with pytest.raises(ValueError, match="the last input is 199, and the next, 1 later, 200"):
        gp.forecast(until=150.0)
    with pytest.raises(ValueError, match="leaves nothing to forecast"):
        gp.forecast(until=199.5)
    for until in (np.nan, "soon"):
        with pytest.raises(TypeError, match="until must be a finite number"):
            gp.forecast(until=until)
    with pytest.raises(ValueError, match="more than 10,000,000"):
        gp.forecast(until=1e12)


def test_models_of_several_inputs_are_refused():
    X = np.random.default_rng(0).uniform(0.0, 1.0, (200, 2))
    gp = GPRegressor(Matern32(0.5), num_basis=6, **FIXED).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"one input, this one has 2 \(column 0, column 1\)"):
        gp.forecast(3)


def test_one_distinct_input_has_no_spacing():
    gp = GPRegressor(Matern32(1.0), num_basis=9, domain=(0, 1), **FIXED).fit([0.5, 0.5], [0.0, 1.0])
    with pytest.raises(ValueError, match="one distinct input"):
        gp.forecast(3)
    assert len(gp.forecast(X=[2.0, 3.0])) == 2


def test_known_noise_variances_must_be_given():
    x = np.arange(200.0)
    gp = GPRegressor(Matern32(10.0), num_basis=60, optimizer=None)
    gp.fit(x, noisy(x), noise_variance=np.full(200, 0.04))
    with pytest.raises(ValueError, match="give noise_variance"):
        gp.forecast(3)
    assert len(gp.forecast(3, include_noise=False)) == 3
    found = gp.forecast(3, noise_variance=0.09)
    _, std = gp.predict(found.index.to_numpy(), return_std=True)
    assert_allclose(found["std"], np.sqrt(std**2 + 0.09))


# ---------------------------------------------------------------- series with seasons


def test_a_drifting_season_is_called_by_its_factors():
    kernel = Matern32(100.0) + Periodic(24.0) * Matern32(200.0)
    found = model(kernel=kernel, num_basis="auto").forecast(2, components=True)
    assert list(found)[6:] == ["matern32", "periodic_matern32"]


@pytest.mark.parametrize("count", [240, 3000])
def test_a_season_goes_on(count):
    x = np.arange(float(count))
    y = 5.0 + np.sin(2 * np.pi * x / 24.0) + 0.1 * np.random.default_rng(0).standard_normal(count)
    kernel = Matern32(100.0, 0.1) + Periodic(24.0) + Constant()
    gp = GPRegressor(kernel, noise_variance=0.01, optimizer=None).fit(x, y)
    found = gp.forecast(48, components=True)
    assert found.index[0] == float(count)
    truth = 5.0 + np.sin(2 * np.pi * found.index / 24.0)
    assert np.abs(found["mean"] - truth).max() < 0.3
    parts = ["matern32", "periodic", "constant"]
    assert_allclose(found[parts].sum(axis=1), found["mean"], atol=1e-7)
    # Sums over days equal those of a fine forecast.
    start = count + 24.0 * np.arange(2)
    total, covariance = gp.integrate(start, start + 24.0, return_cov=True)
    fine = count + (np.arange(48 * 20) + 0.5) / 20.0
    mean, cov = gp.predict(fine, return_cov=True)
    weights = np.kron(np.eye(2), np.full(480, 0.05))
    assert_allclose(total, weights @ mean, rtol=1e-6)
    assert_allclose(covariance, weights @ cov @ weights.T, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:Component 4 has the period 12, like component 2")
@pytest.mark.parametrize("dim", [None, 0])
def test_seasons_that_read_alike_and_hidden_components_are_not_lost(dim):
    t = np.arange(120.0)
    y = np.sin(2 * np.pi * t / 12) + 0.02 * t
    kernel = (
        Matern32(50.0, dim=dim)
        + Periodic(12.0, dim=dim)
        + Periodic(12.0, dim=dim) * Matern32(60.0, dim=dim)
        + Periodic(12.00001, dim=dim)
        + Matern32(3.0, 1e-9, dim=dim)
    )
    gp = GPRegressor(kernel, optimizer=None, noise_variance=0.01).fit(t, y)
    table = gp.forecast(5, components=True)
    assert list(table)[6:] == ["matern32", "season of 12"]
    assert_allclose(table.iloc[:, 6:].sum(axis=1), table["mean"], rtol=1e-9)


def test_all_seasons_are_named_where_one_has_several_parts():
    t = np.arange(120.0)
    y = np.sin(2 * np.pi * t / 12) + np.sin(2 * np.pi * t / 30)
    kernel = Periodic(12.0) + Periodic(30.0) + Periodic(12.0) * Matern32(60.0)
    gp = GPRegressor(kernel, optimizer=None, noise_variance=0.01).fit(t, y)
    table = gp.forecast(5, components=True)
    assert list(table)[6:] == ["season of 12", "season of 30"]
    assert_allclose(table.iloc[:, 6:].sum(axis=1), table["mean"], rtol=1e-9)


@pytest.mark.parametrize("frequency", ["M", "W-SUN", "Q-NOV", "D", "h"])
@pytest.mark.parametrize("framed", [False, True])
def test_periods_go_on_as_periods(tmp_path, frequency, framed):
    every = pd.period_range("2015-01-01", periods=46, freq=frequency)
    known = pd.DataFrame({"when": every[:40]}) if framed else every[:40]
    span = every[39].to_timestamp() - every[0].to_timestamp()
    gp = GPRegressor(Matern32(0.2 * span) + Constant(), optimizer=None, noise_variance=0.1)
    gp.fit(known, np.sin(0.3 * np.arange(40.0)))
    found = gp.forecast(6)
    pd.testing.assert_index_equal(found.index, every[40:], check_names=False)
    assert found.index.name == ("when" if framed else None)
    assert_allclose(
        found["mean"], gp.predict(every[40:].to_frame(name="when") if framed else every[40:])
    )
    gp.save(tmp_path / "model")
    loaded = asvgp.load(tmp_path / "model").forecast(6)
    pd.testing.assert_index_equal(loaded.index, found.index)
    start = every[40:].to_timestamp()
    pd.testing.assert_index_equal(
        gp.forecast(X=pd.DataFrame({"when": start}) if framed else start).index, found.index
    )
    between = start[:1] + 0.5 * (start[1:2] - start[:1])  # a time that no period begins with
    other = gp.forecast(X=pd.DataFrame({"when": between}) if framed else between)
    assert isinstance(other.index, pd.DatetimeIndex)
