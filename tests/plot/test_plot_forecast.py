"""Pictures of forecasts: the numbers behind means and bands, and where the data end."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.dates import date2num

from asvgp import Constant, GPRegressor, Linear, Matern32, Periodic, plot
from tests.plot.pictures import field_model, line_model, named, noisy

FIXED = {"num_basis": 60, "noise_variance": 0.01, "optimizer": None}


@pytest.fixture(autouse=True)
def _no_figures_left():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture
def regular():
    x = np.arange(200.0)
    return GPRegressor(Matern32(10.0), **FIXED).fit(x, noisy(x / 9)), x, noisy(x / 9)


def band(ax, label):
    """The lower and upper edge of a band, by place."""
    corners = named(ax, label).get_paths()[0].vertices
    return {
        x: (y.min(), y.max()) for x in set(corners[:, 0]) for y in [corners[corners[:, 0] == x, 1]]
    }


def test_the_forecast_is_that_of_the_model(regular):
    gp, x, y = regular
    found, ax = gp.forecast(20), plot.forecast(gp, x, y, steps=20)
    line = named(ax, "forecast")
    np.testing.assert_allclose(line.get_xdata(), found.index)
    np.testing.assert_allclose(line.get_ydata(), found["mean"])
    for share in (80, 95):
        edges = band(ax, f"{share} % interval")
        for place, (low, high) in edges.items():
            assert low == pytest.approx(found[f"lower_{share}"][place])
            assert high == pytest.approx(found[f"upper_{share}"][place])
    assert ax.get_xlim() == (139.0, 219.0)
    past = named(ax, "fitted mean")
    assert past.get_xdata()[[0, -1]].tolist() == [139.0, 199.0]
    np.testing.assert_allclose(past.get_ydata(), gp.predict(past.get_xdata()), atol=1e-9)
    assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [199.0]
    assert any(text.get_text().startswith("61 of 200") for text in ax.get_legend().get_texts())


def test_without_data_the_fit_has_its_band(regular):
    gp, _, _ = regular
    ax = plot.forecast(gp, until=240.0, history=50.0, level=0.9, include_noise=False)
    assert ax.get_xlim() == (149.0, 240.0)
    assert named(ax, "90 % band of f") is not None
    assert named(ax, "90 % interval of f") is not None
    ax.set_xlim(205.0, 230.0)  # beyond the data: nothing is left to redraw of the fit
    ax.set_xlim(100.0, 230.0)
    assert named(ax, "fitted mean").get_xdata()[[0, -1]].tolist() == [100.0, 199.0]


def test_every_component_has_a_panel():
    x = np.arange(200.0)
    kernel = Matern32(30.0) + Matern32(3.0, 0.1) + Constant() + Linear()
    gp = GPRegressor(kernel, **FIXED).fit(x, 3.0 + noisy(x / 9))
    axes = plot.forecast(gp, x, 3.0 + noisy(x / 9), steps=20, components=True)
    assert axes.shape == (4,)
    assert [ax.get_title(loc="left") for ax in axes[1:]] == [
        "Matern32, lengthscale 30",
        "Matern32, lengthscale 3",
        "slope",
    ]
    assert all(ax.get_xlim() == (139.0, 219.0) for ax in axes)
    slope = axes[3].lines[0]
    np.testing.assert_allclose(slope.get_ydata(), gp.effects_[1].estimate * slope.get_xdata())
    figure, given = plt.subplots(4)
    assert plot.forecast(gp, steps=20, components=True, ax=given)[0] is given[0]
    with pytest.raises(ValueError, match="ax must be 4 matplotlib Axes"):
        plot.forecast(gp, steps=20, components=True, ax=given[:2])
    plt.close(figure)


def test_effects_of_other_columns_are_drawn_over_time():
    rng = np.random.default_rng(0)
    at = pd.date_range("2024-03-25", periods=230, freq="1h", tz="Europe/Berlin")
    X = pd.DataFrame({"time": at, "warm": rng.standard_normal(230)})
    y = pd.Series(noisy(np.arange(230) / 9) + 2.0 * X.warm, name="load (kW)")
    kernel = Matern32("10 hours", dim="time") + Constant() + Linear("warm")
    gp = GPRegressor(kernel, **FIXED).fit(X[:200], y[:200])
    axes = plot.forecast(gp, X[:200], y[:200], future=X[200:], components=True)
    found = gp.forecast(X=X[200:], components=True)
    line = named(axes[0], "forecast")
    np.testing.assert_allclose(line.get_xdata(), date2num(at[200:]))
    np.testing.assert_allclose(line.get_ydata(), found["mean"])
    assert axes[0].get_ylabel() == "load (kW)"
    ahead = axes[2].lines[1]
    np.testing.assert_allclose(ahead.get_ydata(), found["linear_warm"])
    fitted = named(axes[0], "fitted mean")
    np.testing.assert_allclose(fitted.get_ydata(), gp.predict(X[:200]))
    plot.forecast(gp, future=X[200:])


def test_what_cannot_be_drawn_is_said(regular):
    gp, x, y = regular
    with pytest.raises(ValueError, match="Give one of steps, until and X"):
        plot.forecast(gp, x, y)
    with pytest.raises(TypeError, match="history must be a number"):
        plot.forecast(gp, steps=3, history="2 days")
    with pytest.raises(ValueError, match="forecast is for models of one input"):
        plot.forecast(field_model()[0], steps=3)
    with pytest.raises(ValueError, match="X is given without y"):
        plot.forecast(line_model()[0], x, steps=3)
    assert not plt.get_fignums()


def test_parts_of_one_season_are_shown_as_one():
    t = np.arange(200.0)
    y = 3.0 + np.sin(t / 4) + 0.1 * np.random.default_rng(0).standard_normal(200)
    day = Periodic(8 * np.pi, centred=True)
    tiny = Matern32(5.0, variance=1e-8)
    kernel = tiny + Matern32(30.0) + day + day * Matern32(90.0) + Constant()
    gp = GPRegressor(kernel, noise_variance=0.01, optimizer=None).fit(t, y)
    table = gp.forecast(30, components=True)
    _, each = gp.predict(table.index, components=True)
    season = "season of 25.1327"
    assert list(table)[6:] == ["matern32", season, "constant"]
    np.testing.assert_allclose(table[season], each[2].mean + each[3].mean)
    np.testing.assert_allclose(table.iloc[:, 6:].sum(axis=1), table["mean"])
    names = ["Matern32, lengthscale 30", season]
    panels = plot.forecast(gp, steps=30, components=True)[1:]
    for axes in (panels, plot.components(gp, forecast=30.0)):
        assert [ax.get_title(loc="left") for ax in axes] == names
        x, shown = axes[1].lines[0].get_data()
        _, each = gp.predict(x, components=True)
        both = each[2].mean + each[3].mean
        np.testing.assert_allclose(shown - shown.mean(), both - both.mean(), atol=1e-6)


def test_levels_may_be_in_per_cent(regular):
    labels = [
        [text.get_text() for text in plot.series(regular[0], level=level).get_legend().get_texts()]
        for level in (0.9, 90)
    ]
    assert labels[0] == labels[1]
    assert any("90 % band" in label for label in labels[1])
