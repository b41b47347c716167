"""What pictures show: the numbers behind lines, bands, images and words."""

import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.dates import ConciseDateFormatter, date2num, num2date
from scipy.special import ndtri
from sklearn.exceptions import NotFittedError

import asvgp
from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52, plot
from tests.plot.pictures import field_model, line_model, mixed_model, named, noisy

Z95 = float(ndtri(0.975))


@pytest.fixture(autouse=True)
def _no_figures_left():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture
def line():
    return line_model()


@pytest.fixture
def field():
    return field_model()


@pytest.fixture
def mixed():
    return mixed_model()


@pytest.fixture(scope="module")
def sum_of_two():
    x = np.linspace(0.0, 20.0, 600)
    kernel = Matern32(10.0) + SHO(period=6.0, quality=20.0) + Constant() + Linear()
    gp = GPRegressor(kernel, num_basis=60, optimizer=None, noise_variance=0.01)
    return gp.fit(x, 3.0 + 0.2 * x + noisy(x)), x


@pytest.fixture(scope="module")
def timed():
    rng = np.random.default_rng(1)
    hours = np.sort(rng.uniform(0.0, 240.0, 800))
    times = pd.Timestamp("2024-03-01", tz="Europe/Berlin") + pd.to_timedelta(hours, "h")
    X = pd.DataFrame({"when": times})
    y = pd.Series(noisy(hours / 10.0), name="load (kW)")
    return GPRegressor(Matern32("1 day"), num_basis=80).fit(X, y), X, y


def band_edges(collection):
    """Places, lower and upper edge of a band that may have been drawn in either way."""
    points = np.concatenate([path.vertices for path in collection.get_paths()])
    x = np.unique(points[:, 0])
    low = np.full(len(x), np.inf)
    high = np.full(len(x), -np.inf)
    place = np.searchsorted(x, points[:, 0])
    np.minimum.at(low, place, points[:, 1])
    np.maximum.at(high, place, points[:, 1])
    return x, low, high


def vertices(ax):
    """How many points all that is visible in axes is made of."""
    lines = sum(len(line.get_xdata()) for line in ax.lines)
    patches = sum(len(p.get_path().vertices) for p in ax.patches if p.get_visible())
    return lines + patches + sum(len(p.vertices) for c in ax.collections for p in c.get_paths())


class TestSeries:
    def test_line_and_band_are_the_predictions(self, line):
        gp, x, y = line
        ax = plot.series(gp, x, y, level=0.8)
        drawn = named(ax, "posterior mean")
        mean, std = gp.predict(drawn.get_xdata(), return_std=True)
        np.testing.assert_allclose(drawn.get_ydata(), mean, rtol=1e-12)
        at, low, high = band_edges(named(ax, "80 % band of f"))
        mean, std = gp.predict(at, return_std=True)
        np.testing.assert_allclose(low, mean - ndtri(0.9) * std, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(high, mean + ndtri(0.9) * std, rtol=1e-9, atol=1e-12)

    def test_few_observations_are_dots(self, line):
        gp, x, y = line
        dots = named(plot.series(gp, x, y), "600 observations")
        np.testing.assert_array_equal(dots.get_xdata(), x)
        np.testing.assert_array_equal(dots.get_ydata(), y)

    def test_noise_widens_the_band(self, line):
        gp, *_ = line
        ax = plot.series(gp, include_noise=True)
        at, low, high = band_edges(named(ax, "95 % band of new observations"))
        _, std = gp.predict(at, return_std=True, include_noise=True)
        np.testing.assert_allclose(high - low, 2 * Z95 * std, rtol=1e-9)

    def test_two_points_a_pixel(self, line):
        gp, *_ = line
        _, ax = plt.subplots(figsize=(20.0, 3.0))
        plot.series(gp, ax=ax)
        width = ax.get_window_extent().width
        assert abs(len(named(ax, "posterior mean").get_xdata()) - 2 * width) <= 2

    def test_no_peak_of_a_model_finer_than_pixels_is_lost(self):
        x = np.arange(0.0, 20_000.0)
        y = np.where(x % 500 == 250, 60.0, 0.0) + np.sin(x)
        gp = GPRegressor(Matern12(1.0, 30.0), num_basis=20_000, optimizer=None, noise_variance=1e-3)
        gp.fit(x, y)
        dense = np.arange(20 * 19_999 + 1) / 20.0  # knots are whole numbers
        mean, std = gp.predict(dense, return_std=True)
        ax = plot.series(gp, forecast=200.0)
        curve = named(ax, "posterior mean")
        assert len(curve.get_xdata()) < 5 * ax.get_window_extent().width
        where = np.minimum(dense // 500.0, 39).astype(int)
        peaks = np.array([mean[where == c].max() for c in range(40)])
        column = np.minimum(curve.get_xdata() // 500.0, 39).astype(int)
        shown = np.array([curve.get_ydata()[column == c].max() for c in range(40)])
        np.testing.assert_allclose(shown, peaks, rtol=1e-6)
        np.testing.assert_allclose(curve.get_ydata(), gp.predict(curve.get_xdata()), atol=1e-9)
        at, low, high = band_edges(named(ax, "95 % band of f"))
        right = np.searchsorted(at, dense).clip(1, len(at) - 1)
        inside = np.minimum(low[right - 1], low[right]) - 0.3 < mean - Z95 * std
        assert inside.all()
        assert np.all(np.maximum(high[right - 1], high[right]) + 0.3 > mean)
        ax.set_xlim(240.0, 260.0)  # coarser than pixels here
        np.testing.assert_allclose(curve.get_xdata()[[0, -1]], [240.0, 260.0])
        assert abs(len(curve.get_xdata()) - 2 * ax.get_window_extent().width) <= 2

    def test_interval_and_forecast(self, line):
        gp, *_ = line
        ax = plot.series(gp, interval=(5.0, 20.0), forecast=4.0)
        assert ax.get_xlim() == (5.0, 24.0)
        assert named(ax, "posterior mean").get_xdata()[[0, -1]].tolist() == [5.0, 24.0]
        assert any(np.allclose(drawn.get_xdata(), 20.0) for drawn in ax.lines)  # the end

    def test_a_forecast_is_beyond_the_domain_whatever_the_interval(self, line):
        gp, *_ = line  # on 0 to 20
        assert plot.series(gp, interval=(5.0, 12.0), forecast=4.0).get_xlim() == (5.0, 24.0)
        assert plot.series(gp, interval=(5.0, 30.0), forecast=4.0).get_xlim() == (5.0, 30.0)
        assert plot.series(gp, interval=(5.0, 12.0)).get_xlim() == (5.0, 12.0)

    def test_the_legend_is_above_the_axes_of_a_figure_of_its_own(self, line):
        gp, x, y = line
        ax = plot.series(gp, x, y)
        ax.figure.canvas.draw()
        box = ax.get_legend().get_window_extent()
        assert box.y0 >= ax.get_window_extent().y1 - 1.0
        assert box.y1 <= ax.figure.bbox.y1 + 1.0
        ax.set_xlim(2.0, 3.0)  # which writes it again
        assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1 - 1.0

    def test_the_legend_counts_what_is_in_view(self, line):
        gp, x, y = line
        ax = plot.series(gp, x, y, interval=(5.0, 10.0))
        inside = np.count_nonzero((x >= 5.0) & (x <= 10.0))
        assert len(named(ax, f"{inside} of 600 observations").get_xdata()) == inside
        ax.set_xlim(-1.0, 21.0)
        legend = ax.get_legend()
        assert legend is not None
        assert "600 observations" in [text.get_text() for text in legend.get_texts()]
        many = np.tile(x, 100)
        ax = plot.series(gp, many, np.tile(y, 100), interval=(5.0, 10.0))
        assert named(ax, f"{100 * inside:,} of 60,000 observations: range per pixel")

    def test_new_limits_are_drawn_anew(self, line):
        gp, x, y = line
        ax = plot.series(gp, x, y)
        ax.set_xlim(3.0, 3.5)
        drawn = named(ax, "posterior mean")
        assert drawn.get_xdata()[[0, -1]].tolist() == [3.0, 3.5]
        np.testing.assert_allclose(drawn.get_ydata(), gp.predict(drawn.get_xdata()))
        at, low, _ = band_edges(named(ax, "95 % band of f"))
        mean, std = gp.predict(at, return_std=True)
        np.testing.assert_allclose(low, mean - Z95 * std, rtol=1e-9, atol=1e-12)
        shown = named(ax, "15 of 600 observations").get_xdata()
        np.testing.assert_array_equal(shown, x[(x >= 3.0) & (x <= 3.5)])
        ax.invert_xaxis()
        np.testing.assert_allclose(drawn.get_xdata()[[0, -1]], [3.0, 3.5])

    def test_two_million_points_are_few_vertices_and_keep_their_outlier(self, line):
        gp, *_ = line
        rng = np.random.default_rng(0)
        x = rng.uniform(0.0, 20.0, 2_000_000)
        y = noisy(x)
        y[1_234_567] = 50.0
        ax = plot.series(gp, x, y)
        columns = ax.get_window_extent().width
        assert vertices(ax) < 25 * columns
        spread = named(ax, "2,000,000 observations: range per pixel").get_data()
        assert np.nanmax(spread.values) == 50.0
        middle = named(ax, "central 90 % of them").get_data()
        assert np.nanmax(middle.values) < 2.0
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert "2,000,000 observations: range per pixel" in labels
        ax.set_xlim(7.0, 7.001)  # a hundred of them: dots, in the legend too
        inside = (x >= 7.0) & (x <= 7.001)
        counted = f"{np.count_nonzero(inside)} of 2,000,000 observations"
        np.testing.assert_array_equal(named(ax, counted).get_ydata(), y[inside])
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert counted in labels
        assert not any("range" in label for label in labels)

    def test_missing_targets_are_not_drawn(self, line):
        gp, x, y = line
        gaps = np.where(np.arange(600) % 3, y, np.nan)
        dots = named(plot.series(gp, x, gaps), "400 observations")
        assert not np.isnan(dots.get_ydata()).any()

    def test_components_as_lines(self, sum_of_two):
        gp, _ = sum_of_two
        ax = plot.series(gp, components=True)
        season = named(ax, "SHO, period 6")
        _, parts = gp.predict(season.get_xdata(), components=True)
        np.testing.assert_allclose(season.get_ydata(), parts[1].mean, rtol=1e-9, atol=1e-12)

    def test_labels_and_dates(self, timed):
        gp, X, y = timed
        ax = plot.series(gp, X, y, forecast="2 days")
        assert ax.get_xlabel() == "when (Europe/Berlin)"
        assert ax.get_ylabel() == "load (kW)"
        assert isinstance(ax.xaxis.get_major_formatter(), ConciseDateFormatter)
        days = named(ax, "800 observations").get_xdata()
        np.testing.assert_allclose(days, date2num(X.when.dt.tz_convert(None).to_numpy()))
        drawn = named(ax, "posterior mean")
        times = pd.DataFrame({"when": pd.DatetimeIndex(num2date(drawn.get_xdata()))})
        times["when"] = times.when.dt.tz_convert("Europe/Berlin")
        np.testing.assert_allclose(drawn.get_ydata(), gp.predict(times), atol=1e-6)
        assert drawn.get_xdata()[-1] == pytest.approx(days.max() + 2.0)
        ax.figure.canvas.draw()  # ticks in the zone of the data
        assert ax.xaxis.get_major_locator().tz.key == "Europe/Berlin"

    def test_an_offset_without_a_name_is_shown_in_utc(self):
        hours = np.linspace(0.0, 100.0, 200)
        t = pd.DatetimeIndex(
            pd.Timestamp("2024-03-01 00:00+02:00") + pd.to_timedelta(hours, "h"), name="t"
        )
        gp = GPRegressor(Matern32("1 day"), num_basis=30).fit(pd.DataFrame({"t": t}), noisy(hours))
        ax = plot.series(gp)
        assert ax.get_xlabel() == "t (UTC)"
        assert num2date(ax.get_xlim()[0]) == t[0].to_pydatetime()

    def test_averages_are_drawn_in_the_middle(self):
        x = np.arange(200.0)
        gp = GPRegressor(Matern32(20.0), num_basis=203, optimizer=None, noise_variance=0.01)
        gp.fit(x, noisy(x / 9.0), width=1.0)
        dots = named(plot.series(gp, x, noisy(x), width=1.0), "200 observations")
        np.testing.assert_array_equal(dots.get_xdata(), x + 0.5)
        assert plot.check(gp, x, noisy(x), width=1.0).shape == (2, 3)

    def test_limits_may_be_times(self, timed):
        gp, X, _ = timed
        ax = plot.series(gp)
        ends = X.when[100], X.when[200]
        ax.set_xlim(*ends)
        drawn = named(ax, "posterior mean").get_xdata()
        np.testing.assert_allclose(drawn[[0, -1]], date2num(ends))
        again = plot.series(gp, interval=ends)
        np.testing.assert_allclose(again.get_xlim(), drawn[[0, -1]])

    def test_covariates_are_held_and_observations_moved(self):
        rng = np.random.default_rng(4)
        X = pd.DataFrame({"t": np.linspace(0, 9, 400), "warm": rng.uniform(0, 10, 400)})
        y = np.sin(X.t) + 2.0 * X.warm
        gp = GPRegressor(
            Matern32(dim="t") + Linear("warm"), num_basis=40, optimizer=None, noise_variance=0.01
        ).fit(X, y)
        with pytest.raises(ValueError, match="depends on 'warm'"):
            plot.series(gp)
        ax = plot.series(gp, X, y, at={"warm": 3.0})
        assert ax.get_title(loc="left") == "at warm = 3"
        drawn = named(ax, "posterior mean")
        at = pd.DataFrame({"t": drawn.get_xdata(), "warm": 3.0})
        np.testing.assert_allclose(drawn.get_ydata(), gp.predict(at), rtol=1e-9)
        slope = gp.effects_[0].estimate
        np.testing.assert_allclose(
            named(ax, "400 observations").get_ydata(), y + slope * (3.0 - X.warm)
        )
        assert f"warm = {np.median(X.warm):.4g}" in plot.series(gp, X, y).get_title(loc="left")

    def test_several_outputs(self):
        x = np.linspace(0.0, 10.0, 200)
        both = np.column_stack([np.sin(x), np.cos(x)])
        gp = GPRegressor(Matern32(), num_basis=40, optimizer=None, noise_variance=0.01).fit(x, both)
        with pytest.raises(ValueError, match=r"2 outputs: say which to draw, output=0 to 1"):
            plot.series(gp)
        with pytest.raises(ValueError, match="from 0 to 1, got 2"):
            plot.series(gp, output=2)
        ax = plot.series(gp, x, both, output=1)
        assert ax.get_ylabel() == "y, output 1"
        drawn = named(ax, "posterior mean")
        np.testing.assert_allclose(drawn.get_ydata(), gp.predict(drawn.get_xdata())[:, 1])
        np.testing.assert_array_equal(named(ax, "200 observations").get_ydata(), both[:, 1])
        assert plot.check(gp, x, both, output=1).shape == (2, 3)

    @pytest.mark.parametrize(
        "options, error, words",
        [
            ({"X": [1.0]}, ValueError, "X is given without y"),
            ({"y": [1.0]}, ValueError, "y is given without X"),
            ({"X": [1.0], "y": [1.0, 2.0]}, ValueError, "inconsistent numbers of samples: 1 and 2"),
            ({"level": 950}, ValueError, "between 0 and 1, such as 0.95, .* got 950"),
            ({"level": "high"}, ValueError, "between 0 and 1"),
            ({"interval": (3.0, 1.0)}, ValueError, "increasing order"),
            ({"interval": 3.0}, ValueError, "pair"),
            ({"interval": ("a", "b")}, ValueError, "finite numbers"),
            ({"forecast": "2 days"}, TypeError, "a number in the units of X"),
            ({"forecast": -1.0}, ValueError, "positive"),
            ({"at": {"wind": 1.0}}, ValueError, "'wind' is not a column"),
            ({"at": 3}, TypeError, "dict"),
            ({"ax": 3}, ValueError, "1 matplotlib Axes"),
        ],
    )
    def test_bad_input_is_told_and_leaves_no_figure(self, line, options, error, words):
        with pytest.raises(error, match=words):
            plot.series(line[0], **options)
        assert plt.get_fignums() == []

    def test_failure_while_drawing_leaves_no_figure(self, line, monkeypatch):
        def fail(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("asvgp.plot.traces.Curve.draw", fail)
        with pytest.raises(KeyboardInterrupt):
            plot.series(line[0])
        assert plt.get_fignums() == []

    def test_times_ask_for_durations(self, timed):
        with pytest.raises(TypeError, match="a duration such as '7 days', got 3"):
            plot.series(timed[0], forecast=3)

    def test_a_field_is_no_series(self, field):
        with pytest.raises(ValueError, match=r"this one has 2 \(lat, lon\): use plot.map"):
            plot.series(field[0])

    def test_what_is_no_fitted_model(self):
        with pytest.raises(TypeError, match="fitted GPRegressor, got 3"):
            plot.series(3)
        with pytest.raises(NotFittedError, match="Call fit"):
            plot.series(GPRegressor())

    def test_known_noise_has_no_band_of_new_observations(self):
        x = np.linspace(0, 10, 100)
        gp = GPRegressor(Matern32(), num_basis=20).fit(
            x, noisy(x), noise_variance=np.full(100, 0.01)
        )
        plot.series(gp)
        with pytest.raises(ValueError, match="include_noise=False"):
            plot.series(gp, include_noise=True)


class TestComponents:
    def test_panels_of_one_input(self, sum_of_two):
        gp, x = sum_of_two
        axes = plot.components(gp, x, forecast=5.0)
        titles = [ax.get_title(loc="left") for ax in axes]
        assert titles == ["Matern32, lengthscale 10", "SHO, period 6", "slope"]
        at = axes[1].lines[0].get_xdata()
        _, parts = gp.predict(at, components=True)
        _, seen = gp.predict(x, components=True)
        for ax, number in zip(axes, (0, 1, 3), strict=True):
            wanted = parts[number].mean - (seen[number].mean.mean() if number < 2 else 0.0)
            np.testing.assert_allclose(ax.lines[0].get_ydata(), wanted, rtol=1e-9, atol=1e-9)
        _, low, high = band_edges(axes[2].collections[0])
        np.testing.assert_allclose(high - low, 2 * Z95 * parts[3].std, rtol=1e-6, atol=1e-12)
        labels = [ax.get_ylabel() for ax in axes]
        assert labels == ["contribution, centred", "contribution, centred", "contribution"]
        assert f"intercept {gp.effects_[0].estimate:.4g}" in axes[0].texts[0].get_text()
        assert axes[0].get_xlim() == axes[2].get_xlim() == (0.0, 25.0)
        assert axes[2].get_xlabel() == "x"

    def test_without_an_intercept_terms_are_as_predict_has_them(self):
        x = np.linspace(0.0, 20.0, 600)
        kernel = Matern32(10.0) + SHO(period=6.0, quality=20.0)
        gp = GPRegressor(kernel, num_basis=60, optimizer=None, noise_variance=0.01)
        axes = plot.components(gp.fit(x, noisy(x)))
        _, parts = gp.predict(axes[0].lines[0].get_xdata(), components=True)
        for ax, part in zip(axes, parts, strict=True):
            np.testing.assert_allclose(ax.lines[0].get_ydata(), part.mean, rtol=1e-9, atol=1e-12)
            _, low, high = band_edges(ax.collections[0])
            np.testing.assert_allclose(high - low, 2 * Z95 * part.std, rtol=1e-6, atol=1e-12)

    @pytest.mark.parametrize("noise", [0.1, 1e-6], ids=["plain", "checked"])
    def test_a_term_beside_an_intercept_is_centred_and_its_band_is_of_that(self, noise):
        rng = np.random.default_rng(6)
        x, weight = rng.uniform(0.0, 10.0, 150), rng.uniform(0.5, 2.0, 150)
        kernel = Matern52(15.0, 4.0) + Matern32(1.0) + Constant(variance=1e4)
        gp = GPRegressor(kernel, num_basis=150, optimizer=None, noise_variance=noise)
        gp.fit(x, 100.0 + 0.3 * x + noisy(x), weight)
        at = np.linspace(float(x.min()), 12.0, 9)  # into the forecast
        parts = [part(np.append(at, x)) for part in kernel.components]
        both = sum(parts)[9:, 9:] + 1e4 + noise * np.diag(1.0 / weight)
        away = np.hstack([np.eye(9), np.tile(-weight / weight.sum(), (9, 1))])
        for number, ax in enumerate(plot.components(gp, interval=(at[0], at[-1]))):
            own = parts[number]
            after = own - own[:, 9:] @ np.linalg.solve(both, own[9:])
            places, low, high = band_edges(ax.collections[0])
            std = np.interp(at, places, high - low) / (2 * Z95)
            np.testing.assert_allclose(std**2, np.diag(away @ after @ away.T), rtol=0.06, atol=1e-4)
            as_it_is = gp.predict(at, components=True)[1][number].std
            assert number or np.all(std < 0.8 * as_it_is)

    def test_zooming_one_panel_draws_all_anew(self, sum_of_two):
        gp, _ = sum_of_two
        axes = plot.components(gp)
        axes[0].set_xlim(2.0, 3.0)
        assert axes[1].lines[0].get_xdata()[[0, -1]].tolist() == [2.0, 3.0]

    def test_mixed_model(self, mixed):
        gp, X, _ = mixed
        axes = plot.components(gp, X)
        titles = [ax.get_title(loc="left") for ax in axes]
        assert titles[0] == "Matern32(lon) × Matern32(lat)"
        assert titles[1] == "Matern52, lengthscale 0.5"
        assert titles[2] == "slope of slope"
        assert [ax.get_xlabel() for ax in axes] == ["lon", "height", "slope"]
        image = np.asarray(axes[0].images[0].get_array())
        lon = X.lon.min() + (np.arange(image.shape[1]) + 0.5) * np.ptp(X.lon) / image.shape[1]
        row = image.shape[0] // 2
        lat = X.lat.min() + (row + 0.5) * np.ptp(X.lat) / image.shape[0]
        at = pd.DataFrame({"lon": lon, "lat": lat, "height": 0.3, "slope": 0.0})
        _, parts = gp.predict(at, components=True)
        np.testing.assert_allclose(image[row], parts[0].mean, atol=1e-9)
        height = axes[1].lines[0].get_xdata()
        at = pd.DataFrame({"lon": 0.5, "lat": 0.5, "height": height, "slope": 0.0})
        _, parts = gp.predict(at, components=True)
        mean = gp.predict(X, components=True)[1][1].mean.mean()
        np.testing.assert_allclose(axes[1].lines[0].get_ydata(), parts[1].mean - mean, atol=1e-9)
        assert axes[1].get_ylabel() == "contribution, centred"
        assert axes[2].get_ylabel() == "contribution"
        assert len(plot.components(gp)) == 2  # without X no range of the slope is known

    @pytest.mark.parametrize("main", [False, True], ids=["additive", "beside a product"])
    def test_a_smooth_is_centred_and_its_band_is_of_that(self, main):
        rng = np.random.default_rng(5)
        X = rng.uniform(0.0, 1.0, (300, 4 if main else 2))
        weight = rng.uniform(0.5, 2.0, 300)
        y = np.sin(6 * X[:, 0]) + X[:, 1] + 3.0 + 0.1 * rng.standard_normal(300)
        kernel = Matern32(0.7, dim=0) + Matern32(0.8, dim=1) + Constant()
        if main:
            kernel = kernel + Matern32(0.5, dim=2) * Matern32(0.5, dim=3)
        count = (60, 60, 12, 12) if main else 60
        gp = GPRegressor(kernel, num_basis=count, optimizer=None, noise_variance=0.01)
        ax = plot.components(gp.fit(X, y, weight))[0]
        at, low, high = band_edges(ax.collections[0])
        some = slice(None, None, len(at) // 7)
        # Differences along one input are that input's term's alone.
        places = np.full((len(at[some]) + 300, X.shape[1]), 0.5)
        places[:, 0] = np.append(at[some], X[:, 0])
        mean, cov = gp.predict(places, return_cov=True)
        away = np.hstack(
            [np.eye(len(at[some])), np.tile(-weight / weight.sum(), (len(at[some]), 1))]
        )
        std = np.sqrt(np.diag(away @ cov @ away.T))
        np.testing.assert_allclose((high - low)[some] / (2 * Z95), std, rtol=0.02)
        np.testing.assert_allclose((low + high)[some] / 2, away @ mean, atol=1e-6)
        whole = gp.predict(places, components=True)[1][0].std[: len(std)]
        assert np.all(std < 0.5 * whole)  # the level is known for the sum only

    def test_axes_in_are_axes_out(self, sum_of_two):
        gp, _ = sum_of_two
        _, given = plt.subplots(3, 1)
        assert all(plot.components(gp, ax=given) == given)
        with pytest.raises(ValueError, match=r"3 matplotlib Axes .* got 2"):
            plot.components(gp, ax=given[:2])

    def test_a_field_has_no_forecast(self, mixed):
        with pytest.raises(ValueError, match="models of one input"):
            plot.components(mixed[0], forecast=3.0)


class TestMap:
    def test_images_are_the_predictions(self, field):
        gp, X, y = field
        axes = plot.map(gp, X, y)
        titles = [ax.get_title(loc="left") for ax in axes]
        assert titles == ["observations", "posterior mean", "standard deviation"]
        assert {ax.get_xlabel() for ax in axes} == {"lon"}  # latitude goes up
        assert {ax.get_ylabel() for ax in axes} == {"lat"}
        means, stds = (np.asarray(ax.images[0].get_array()) for ax in axes[1:])
        rows, columns = means.shape
        lon = X.lon.min() + (np.arange(columns) + 0.5) * np.ptp(X.lon) / columns
        lat = X.lat.min() + (np.arange(rows) + 0.5) * np.ptp(X.lat) / rows
        a, b = np.meshgrid(lon, lat)
        places = pd.DataFrame({"lat": b.ravel(), "lon": a.ravel()})
        mean, std = gp.predict(places, return_std=True)
        np.testing.assert_allclose(means.ravel(), mean, atol=1e-9)
        np.testing.assert_allclose(stds.ravel(), std, atol=1e-9)
        np.testing.assert_array_equal(axes[0].collections[0].get_array(), y)
        extent = axes[1].images[0].get_extent()
        np.testing.assert_allclose(extent, [X.lon.min(), X.lon.max(), X.lat.min(), X.lat.max()])
        ends = axes[0].collections[0].get_clim()
        assert ends == axes[1].images[0].get_clim()  # one scale for data and mean
        assert axes[2].images[0].get_clim()[0] == 0.0
        bars = [ax.child_axes[0].get_ylabel() for ax in axes]
        assert bars == ["rain (mm)", "rain (mm)", "std of rain (mm)"]

    def test_one_panel(self, field):
        _, ax = plt.subplots()
        assert plot.map(field[0], what="std", ax=ax) is ax
        assert plt.get_fignums() == [1]
        assert plot.map(field[0], over=("lat", "lon"), what="mean").get_xlabel() == "lat"

    def test_a_slice_is_where_it_says(self, mixed):
        gp, X, y = mixed
        axes = plot.map(gp, X, y, at={"height": 0.25, "slope": 1.0}, what="mean")
        title = axes[0].get_title(loc="left").replace("\n", " ")
        assert title == "observations near height = 0.25, slope = 1"
        image = np.asarray(axes[1].images[0].get_array())
        lon, lat = (
            X[c].min() + 0.5 * np.ptp(X[c]) / n
            for c, n in zip(("lon", "lat"), image.shape[::-1], strict=True)
        )
        corner = pd.DataFrame({"lon": [lon], "lat": [lat], "height": [0.25], "slope": [1.0]})
        np.testing.assert_allclose(image[0, 0], gp.predict(corner)[0])
        near = np.abs(X.height - 0.25) <= np.ptp(X.height) / (10 - 4)  # splines of degree 4
        slope = gp.effects_[0].estimate
        expected = (y + slope * (1.0 - X.slope))[near]
        np.testing.assert_allclose(axes[0].collections[0].get_array(), expected)

    def test_data_on_a_grid(self):
        lat, lon = np.linspace(0.0, 1.0, 30), np.linspace(0.0, 2.0, 40)
        values = np.sin(5 * lat)[:, None] * np.cos(3 * lon)
        values[3:6, 7:9] = np.nan
        gp = GPRegressor(Matern32(), num_basis=10, optimizer=None, noise_variance=0.01)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gp.fit((lat, lon), values)
        axes = plot.map(gp, (lat, lon), values, over=(1, 0), what="mean")
        shown = np.ma.filled(axes[0].images[0].get_array(), np.nan)
        np.testing.assert_allclose(shown, values)

    def test_crowds_are_averaged(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 1.0, (30_000, 2))
        y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
        gp = GPRegressor(Matern32(), num_basis=6, optimizer=None, noise_variance=0.1).fit(X, y)
        shown = plot.map(gp, X, y)[0].images[0].get_array()
        assert shown.shape[0] * shown.shape[1] <= 15_000
        assert np.nanmax(shown[:, 0]) == -1.0
        assert np.nanmin(shown[:, -1]) == 1.0

    @pytest.mark.parametrize(
        "options, words",
        [
            ({"what": "median"}, "'both', 'mean' or 'std', got 'median'"),
            ({"over": ("lon", "wind")}, "two of the inputs 'lat', 'lon'"),
            ({"over": ("lon", "lon")}, "different"),
            ({"X": [[0.5, 0.5]]}, "X is given without y"),
            ({"ax": [1, 2]}, "2 matplotlib Axes"),
            ({"at": {"lat": 0.5}}, "leaves 1 of 2"),
        ],
    )
    def test_bad_input(self, field, options, words):
        with pytest.raises(ValueError, match=words):
            plot.map(field[0], **options)
        assert plt.get_fignums() == []

    def test_inputs_must_be_two(self, line, mixed):
        with pytest.raises(ValueError, match=r"use plot\.series"):
            plot.map(line[0])
        with pytest.raises(ValueError, match="leaves 3 of 3"):
            plot.map(mixed[0])
        with pytest.raises(ValueError, match="depends on 'slope'"):
            plot.map(mixed[0], at={"height": 0.5})


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_ink_stands_out_from_the_ground(line, style):
    gp, x, y = line
    with plt.style.context(style):
        ax = plot.series(gp, x, y)
        ground = np.array(matplotlib.colors.to_rgb(ax.get_facecolor()))
        for label in ("posterior mean", "600 observations"):
            ink = np.array(matplotlib.colors.to_rgb(named(ax, label).get_color()))
            assert np.abs(ink - ground).max() > 0.35


def test_reached_from_the_package():
    assert asvgp.plot is plot
    assert "plot" in dir(asvgp)
    assert set(plot.__all__) >= {"series", "components", "map", "residuals", "check"}


def test_without_matplotlib(monkeypatch, line):
    gp, x, y = line
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (plot.series, plot.map, plot.components, plot.resolution, plot.bound):
        with pytest.raises(ImportError, match=r"pip install 'asvgp\[plot\]'"):
            draw(gp)
    with pytest.raises(ImportError, match=r"pip install 'asvgp\[plot\]'"):
        plot.check(gp, x, y)


def test_matplotlib_is_imported_late():
    code = "import asvgp.plot, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
