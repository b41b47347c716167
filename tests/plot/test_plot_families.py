"""Pictures of models with likelihoods that are not Gaussian."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.exceptions import NotFittedError

from asvgp import Constant, CoxProcess, GPClassifier, Matern32, plot
from asvgp.diagnostics.calibration import calibration
from asvgp.estimators.scores import normal_scores
from asvgp.likelihoods import Poisson
from asvgp.structures.observed import Beside
from tests.family_models import NAMES, fitted
from tests.plot.pictures import named


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_series_of_counts_draws_rates_and_their_band():
    gp, X, y, beside = fitted("poisson")
    ax = plot.series(gp, X, y, **beside)
    assert ax.get_ylabel() == "y per unit of exposure"
    np.testing.assert_allclose(named(ax, "150 observations").get_ydata(), y / beside["exposure"])
    line = named(ax, "posterior mean")
    x, shown = line.get_data()
    np.testing.assert_allclose(shown, gp.predict(x), rtol=1e-9)
    edges = named(ax, "95 % band of the rate").get_paths()[0].vertices
    low, high = gp.predict_quantiles([5.0], (0.025, 0.975))[0]
    near = edges[np.abs(edges[:, 0] - 5.0) < 0.02, 1]
    assert near.min() == pytest.approx(low, rel=0.05)
    assert near.max() == pytest.approx(high, rel=0.05)


def test_band_of_new_counts_holds_whole_numbers():
    gp, X, y, _ = fitted("negative binomial")
    ax = plot.series(gp, X, y, include_noise=True)
    edges = named(ax, "95 % band of new observations").get_paths()[0].vertices[:, 1]
    np.testing.assert_array_equal(edges, np.round(edges))
    assert edges.min() == 0.0


def test_many_classes_are_drawn_as_shares():
    gp, *_ = fitted("bernoulli")
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 600)
    ax = plot.series(gp, x, (rng.random(600) < 0.5).astype(float))
    dots = named(ax, "60 shares of 10 rows").get_ydata()
    assert 0.3 < dots.mean() < 0.7
    assert len(set(dots)) > 2


def test_maps_of_probabilities_have_colours_from_zero_to_one():
    gp, X, y, _ = fitted("bernoulli", 2)
    axes = plot.map(gp, X, y)
    assert [ax.get_title(loc="left") for ax in axes] == [
        "observations",
        "probability",
        "standard deviation",
    ]
    assert axes[1].images[0].get_clim() == (0.0, 1.0)
    values = axes[1].images[0].get_array()
    assert 0.0 <= values.min() < 0.2 < 0.8 < values.max() <= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_check_takes_every_family(name):
    gp, X, y, beside = fitted(name)
    axes = plot.check(gp, X, y, **beside)
    assert axes[0, 1].get_ylabel() == "normal score"
    assert axes[1, 2].get_title(loc="left") == "transforms"
    expected = "probabilities" if name == "bernoulli" else "coverage"
    assert axes[1, 1].get_title(loc="left") == expected
    plt.gcf().canvas.draw()


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_right_models_are_standard_normal(name):
    gp, X, y, beside = fitted(name)
    given = Beside(**beside)
    z, mean = normal_scores(gp, X, y, None, given)
    assert kstest(z, "norm").pvalue > 1e-3
    assert np.isfinite(mean).all()
    again = normal_scores(gp, X, y, None, given).z
    np.testing.assert_array_equal(z, again)
    # predicted with themselves, rows are nearer to the middle than without
    inside = normal_scores(gp, X, y, None, given, held_out=True).z
    assert np.mean(inside**2) < np.mean(z**2)


def test_scores_of_counts_lie_in_the_jump_at_y():
    gp, X, y, beside = fitted("poisson")
    found = gp.leave_one_out(X, y, **beside)
    z = normal_scores(gp, X, y, None, Beside(**beside)).z
    assert np.corrcoef(found.z, z)[0, 1] > 0.9  # the middle of the jump
    missing = y.copy()
    missing[3] = np.nan
    assert np.isnan(normal_scores(gp, X, missing, None, Beside(**beside)).z[3])


def test_calibration_says_what_to_try():
    z = 1.5 * np.random.default_rng(0).standard_normal(2000)
    assert "try NegativeBinomial()" in calibration(z, family=Poisson()).notes[0]
    assert "NegativeBinomial" not in calibration(z).notes[0]


def test_calibration_and_residuals_take_exposures():
    gp, X, y, beside = fitted("poisson")
    assert len(plot.residuals(gp, X, y, **beside)) == 4
    first, second = plot.calibration(gp, X, y, **beside)
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("coverage", "transforms")
    with pytest.raises(ValueError, match="belong to Gaussian noise"):
        plot.residuals(gp, X, y, noise_variance=np.ones(len(y)), **beside)


def test_forecast_of_counts_has_quantiles_as_intervals():
    gp, X, y, beside = fitted("poisson")
    future = np.linspace(10.0, 11.0, 9)
    ax = plot.forecast(gp, X, y, future=future, exposure=beside["exposure"])
    band = named(ax, "95 % interval").get_paths()[0].vertices[:, 1]
    np.testing.assert_array_equal(band, np.round(band))
    table = gp.forecast(X=future, exposure=4.0, n_samples=1, random_state=0)
    np.testing.assert_allclose(table["mean"], gp.predict(future, exposure=4.0), rtol=1e-12)
    ends = gp.predict_quantiles(future, (0.025, 0.975), include_noise=True, exposure=4.0)
    np.testing.assert_array_equal(table[["lower_95", "upper_95"]], ends)


def test_components_are_on_the_scale_of_the_link():
    for name, scale in (("poisson", "log rate"), ("bernoulli", "logit"), ("gamma", "log mean")):
        gp, X, *_ = fitted(name)
        (ax,) = plot.components(gp, X)
        assert ax.get_ylabel() == f"part of {scale}, centred"


def test_pictures_of_classifiers_are_those_of_the_second_class():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (300, 2))
    labels = np.where(np.hypot(*(X - 0.5).T) < 0.3, "sea", "land")
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1) + Constant()
    model = GPClassifier(kernel, num_basis=8, optimizer=None).fit(X, labels)
    observed, chance, spread = plot.map(model, X, labels)
    assert chance.get_title(loc="left") == "probability"
    labels_of_bars = [bar.get_ylabel() for ax in (chance, spread) for bar in ax.child_axes]
    assert labels_of_bars == ["probability of sea", "std of probability of sea"]
    shown = observed.collections[0].get_array()
    np.testing.assert_array_equal(np.unique(shown), [0.0, 1.0])
    middle = np.asarray(chance.images[0].get_array())
    assert middle[len(middle) // 2, middle.shape[1] // 2] > 0.8  # "sea" comes second
    assert len(plot.check(model, X, labels)) > 1
    three = GPClassifier(kernel, num_basis=8, optimizer=None).fit(
        X, np.digitize(X[:, 0], [0.3, 0.6])
    )
    with pytest.raises(AttributeError, match="3 classes, each with a model of its own"):
        plot.map(three)


def test_pictures_of_cox_processes_show_the_intensity():
    rng = np.random.default_rng(0)
    events = rng.uniform(0.0, 10.0, 200)
    cox = CoxProcess(domain=(0.0, 10.0), num_basis=12).fit(events)
    ax = plot.series(cox)
    assert ax.get_ylabel() == "events per unit of X"
    middle = named(ax, "posterior mean").get_ydata()
    assert 10.0 < np.median(middle) < 30.0
    assert len(plot.components(gp=cox)) == 1
    with pytest.raises(ValueError, match="Events have no y: pictures of a CoxProcess show"):
        plot.series(cox, events)
    places = rng.uniform(0.0, 1.0, (200, 2))
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1) + Constant()
    flat = CoxProcess(kernel, domain=((0.0, 1.0),) * 2, num_basis=6, optimizer=None).fit(places)
    (bar,) = plot.map(flat, what="mean").child_axes
    assert bar.get_ylabel() == "events per unit of area"
    days = np.datetime64("2024-01-01", "h") + np.arange(0, 24 * 100, 5)
    timed = CoxProcess(num_basis=12).fit(days)
    assert plot.series(timed).get_ylabel() == "events per second"
    with pytest.raises(NotFittedError):
        plot.series(CoxProcess())
