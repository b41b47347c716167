"""Pictures of residuals, calibration, bounds and all of them together."""

from itertools import pairwise

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from scipy.special import erf, ndtri

from asvgp import GPRegressor, Matern32, plot
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


class TestChecks:
    def test_residuals_are_left_out_ones(self, line):
        gp, x, y = line
        axes = plot.residuals(gp, x, y)
        z = gp.leave_one_out(x, y).z
        np.testing.assert_array_equal(named(axes[0], "600 residuals").get_ydata(), z)
        density = axes[1].patches[0].get_data()
        counts = density.values * 600 * np.diff(density.edges)
        np.testing.assert_allclose(counts, np.histogram(z, density.edges)[0], atol=1e-9)
        quantiles = axes[2].lines[1]
        assert np.isin(quantiles.get_ydata(), z).all()
        assert {z.min(), z.max()} <= set(quantiles.get_ydata())
        lags = axes[3].lines[1].get_ydata()
        centred = z - z.mean()
        np.testing.assert_allclose(lags[3], centred[4:] @ centred[:-4] / (centred @ centred))

    def test_order_of_rows_does_not_matter(self, line):
        gp, x, y = line
        rows = np.random.default_rng(0).permutation(600)
        first, second = (
            plot.residuals(gp, x[r], y[r])[3].lines[1].get_ydata() for r in (slice(None), rows)
        )
        np.testing.assert_allclose(first, second, atol=1e-10)

    def test_structure_shows_as_correlation(self):
        x = np.linspace(0.0, 100.0, 2000)
        kernel = Matern32(50.0)  # far too smooth
        gp = GPRegressor(kernel, num_basis=20, optimizer=None, noise_variance=0.5)
        axes = plot.residuals(gp.fit(x, noisy(x)), x, noisy(x))
        assert axes[3].lines[1].get_ydata()[0] > 0.9

    def test_neighbours_in_several_inputs(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 1.0, (2000, 2))
        wave = np.sin(40 * X[:, 0])
        gp = GPRegressor(Matern32(5.0), num_basis=5, optimizer=None, noise_variance=0.5)
        axes = plot.residuals(gp.fit(X, wave), X, wave)
        assert axes[3].lines[1].get_ydata()[0] > 0.6
        assert axes[3].get_xlabel() == "k-th nearest neighbour"
        assert axes[0].get_xlabel() == "predicted"

    def test_coverage(self, line):
        gp, x, y = line
        axes = plot.calibration(gp, x, y)
        z = gp.leave_one_out(x, y).z
        drawn = named(axes[0], "600 observations")
        levels = drawn.get_xdata()
        expected = [(erf(np.abs(z) / 2**0.5) <= level).mean() for level in levels]
        np.testing.assert_allclose(drawn.get_ydata(), expected)
        assert f"95%: {np.mean(np.abs(z) <= Z95):.1%}" in axes[0].texts[0].get_text()
        shares = axes[1].patches[0].get_data().values
        assert shares.sum() == pytest.approx(20.0)

    def test_held_out(self, line):
        gp, *_ = line
        x = np.linspace(0.05, 19.0, 300)
        y = noisy(x, seed=9)
        y[7] = np.nan
        axes = plot.residuals(gp, x, y, held_out=True)
        mean, std = gp.predict(x, return_std=True, include_noise=True)
        expected = np.delete((y - mean) / std, 7)
        np.testing.assert_allclose(named(axes[0], "299 residuals").get_ydata(), expected)
        noise = np.where(np.arange(300) % 2, 0.25, 1.0)
        axes = plot.residuals(gp, x, y, held_out=True, noise_variance=noise)
        std = np.sqrt(std**2 + noise - gp.noise_variance_)
        expected = np.delete((y - mean) / std, 7)
        np.testing.assert_allclose(named(axes[0], "299 residuals").get_ydata(), expected)

    def test_weights_are_those_of_the_fit(self):
        x = np.linspace(0.0, 20.0, 300)
        weights = np.where(np.arange(300) % 2, 4.0, 1.0)
        gp = GPRegressor(Matern32(), num_basis=40).fit(x, noisy(x), sample_weight=weights)
        axes = plot.residuals(gp, x, noisy(x), sample_weight=weights)
        z = gp.leave_one_out(x, noisy(x), sample_weight=weights).z
        np.testing.assert_array_equal(named(axes[0], "300 residuals").get_ydata(), z)

    @pytest.mark.parametrize("which", ["residuals", "calibration", "check"])
    def test_bad_input_leaves_no_figure(self, line, which):
        gp, x, y = line
        with pytest.raises(ValueError, match="X is given without y"):
            getattr(plot, which)(gp, x, None)
        with pytest.raises(ValueError, match="0 residuals to draw of 600"):
            getattr(plot, which)(gp, x, np.full(600, np.nan))
        with pytest.raises(ValueError, match="cannot be predicted as held out"):
            getattr(plot, which)(gp, x, y, held_out=True, width=0.1)
        with pytest.raises(ValueError, match="matplotlib Axes"):
            getattr(plot, which)(gp, x, y, ax=[1])
        assert plt.get_fignums() == []

    def test_check_is_one_figure(self, line):
        gp, x, y = line
        axes = plot.check(gp, x, y)
        assert len(plt.get_fignums()) == 1
        titles = [ax.get_title(loc="left") for ax in axes.ravel()]
        assert titles[0] == "the fit"
        assert "coverage" in titles
        assert titles[-1] == "bounds on the log evidence"  # of one resolution
        mean = named(axes[0, 0], "posterior mean")
        np.testing.assert_allclose(mean.get_ydata(), gp.predict(mean.get_xdata()))

    def test_check_says_what_is_wrong(self, line):
        _, x, y = line
        gp = GPRegressor(Matern32(1.0), num_basis=60, optimizer=None, noise_variance=1.0)
        axes = plot.check(gp.fit(x, y), x, y)
        assert "noise too large" in axes[0, 0].figure.get_suptitle()

    def test_check_of_fields_and_mixed_models(self, field, mixed):
        axes = plot.check(*field)
        assert axes[0, 0].get_xlabel() == "lon"
        gp, X, y = mixed
        axes = plot.check(gp, X, y)
        dots = named(axes[0, 0], "1,500 observations")
        np.testing.assert_allclose(dots.get_xdata(), gp.leave_one_out(X, y).mean)
        np.testing.assert_array_equal(dots.get_ydata(), y)


class TestBounds:
    def test_every_resolution_is_there(self):
        x = np.linspace(0.0, 60.0, 3000)
        gp = GPRegressor(Matern32()).fit(x, noisy(x))
        ax = plot.resolution(gp)
        lower = named(ax, "lower bound")
        assert lower.get_xdata().tolist() == [level.num_basis for level in gp.resolution_]
        np.testing.assert_allclose(
            lower.get_ydata(), [level.elbo / 3000 for level in gp.resolution_]
        )
        assert ax.get_ylim()[1] > lower.get_ydata().max()
        upper = [level.upper_bound / 3000 for level in gp.resolution_]
        assert any(np.allclose(drawn.get_ydata(), upper) for drawn in ax.lines)

    def test_steps_that_do_not_grow_are_in_their_order(self):
        rng = np.random.default_rng(4)
        X = rng.uniform(0.0, 1.0, (800, 4))
        y = X.sum(axis=1) + 0.1 * rng.standard_normal(800)
        gp = GPRegressor(Matern32(), objective="evidence").fit(X, y)
        sums = [sum(level.num_basis) for level in gp.resolution_]
        assert any(after < 1.25 * before for before, after in pairwise(sums)), sums
        ax = plot.resolution(gp)
        lower, steps = named(ax, "lower bound"), range(1, len(sums) + 1)
        assert lower.get_xdata().tolist() == [*steps]
        assert ax.get_xscale() == "linear"
        assert ax.get_xlim() == (0.5, len(sums) + 0.5)  # so that all are seen
        last = ax.get_xticklabels()[-1].get_text()
        assert last == f"{len(sums)}\n{sums[-1]}"
        low, high = ax.get_ylim()
        assert np.all((lower.get_ydata() > low) & (lower.get_ydata() < high))

    def test_functions_of_mixed_models(self, mixed):
        gp, *_ = mixed
        assert named(plot.resolution(gp), "lower bound").get_xdata().tolist() == [10 * 10 + 10]

    def test_bounds(self, line):
        gp, *_ = line
        ax = plot.bound(gp)
        values = ax.lines[0].get_xdata()
        expected = [gp.evidence_upper_bound_, gp.evidence_, gp.elbo_]
        np.testing.assert_allclose(values, np.array(expected) / 600)
        assert [text.get_text() for text in ax.texts] == [f"{v:#.5g}" for v in values]

    def test_axes_in_are_axes_out(self, line):
        _, axes = plt.subplots(1, 3)
        assert plot.resolution(line[0], ax=axes[0]) is axes[0]
        assert plot.bound(line[0], ax=axes[1]) is axes[1]
        assert plot.series(line[0], ax=axes[2]) is axes[2]
        assert plt.get_fignums() == [1]
