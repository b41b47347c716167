"""Answers of models with any likelihood agree with each other, and with the trained likelihood."""

import numpy as np
import pytest

from asvgp import Constant, Exponential, GPRegressor, Matern32, Poisson
from asvgp.estimators.quality import deviance_explained
from asvgp.estimators.scores import normal_scores
from asvgp.structures.observed import Beside
from tests.family_models import NAMES, fitted


@pytest.mark.parametrize("name", NAMES)
def test_integrals_are_those_of_predictions(name):
    gp, *_ = fitted(name)
    places = np.linspace(2.0, 7.0, 4001)
    link, std = gp.predict(places, return_std=True, type="link")
    trials = np.ones(len(places)) if name == "binomial" else None
    mean, _ = gp.likelihood_.response_moments(link, std**2, trials)
    whole = np.trapezoid(mean, places)
    assert np.trapezoid(gp.predict(places), places) == pytest.approx(whole, rel=1e-9)
    assert gp.integrate(2.0, 7.0) == pytest.approx(whole, rel=1e-4)
    assert gp.integrate(2.0, 7.0, average=True) == pytest.approx(whole / 5.0, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_paths_scatter_about_predictions(name):
    gp, *_ = fitted(name)
    places, number = np.linspace(1.0, 9.0, 15), 400
    paths = np.array([path(places) for path in gp.sample_paths(number, random_state=0)])
    mean, std = gp.predict(places, return_std=True)
    assert np.all(np.abs(paths.mean(axis=0) - mean) < 5.0 * std / np.sqrt(number))
    assert gp.transform_ == type(gp.transform_)(family=gp._fitted().likelihood)


def test_covariances_of_counts_are_those_of_their_trials():
    gp, X, *_ = fitted("binomial")
    trials = np.arange(1.0, 9.0)
    single, table = (
        gp.predict(X[:8], return_cov=True, trials=each)[1] for each in (np.ones(8), trials)
    )
    np.testing.assert_allclose(table, trials[:, None] * trials * single, rtol=1e-9)
    std = gp.predict(X[:8], return_std=True, trials=trials)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(table)), std, rtol=1e-6)


@pytest.mark.parametrize("family", [Poisson(), Exponential()], ids=repr)
def test_spreads_without_a_row_are_those_of_a_refit(family):
    """Of few rows, each tells most of what is known of f beside it."""
    x = np.arange(12.0)
    y = np.random.default_rng(2).poisson(5.0, 12) + 1.0
    kernel = Matern32(1.0, 0.5) + Constant(variance=4.0)
    settings = {"num_basis": 60, "likelihood": family, "optimizer": None, "domain": (0.0, 11.0)}
    found = GPRegressor(kernel, **settings).fit(x, y).leave_one_out(x, y)
    for row in range(1, 12, 2):
        other = GPRegressor(kernel, **settings).fit(np.delete(x, row), np.delete(y, row))
        mean, std = other.predict(x[[row]], return_std=True, include_noise=True)
        assert found.mean[row] == pytest.approx(mean[0], rel=0.05)
        assert found.std[row] == pytest.approx(std[0], rel=0.05)


def test_scatter_counts_the_freedom_of_the_fit():
    """Residuals of a fit that follows its rows are smaller than those of the likelihood."""
    rng = np.random.default_rng(3)
    x = np.arange(300.0)
    apart = np.sqrt(3.0) * np.abs(x[:, None] - x) / 4.0
    f = np.linalg.cholesky((1.0 + apart) * np.exp(-apart)) @ rng.standard_normal(300)
    y = rng.poisson(np.exp(3.0 + f)).astype(float)
    kernel = Matern32(4.0, 1.0) + Constant()
    gp = GPRegressor(kernel, num_basis=300, likelihood=Poisson(), optimizer=None).fit(x, y)
    freedom = gp.posterior_.factored.forms().freedom / 300
    assert freedom > 0.5
    error = np.sqrt(2.0 / (300 * (1.0 - freedom)))
    assert gp.optimization_.scatter == pytest.approx(1.0, abs=4.0 * error)


def test_deviance_is_relative_to_one_rate_per_exposure():
    gp, X, y, beside = fitted("poisson")
    rows = gp._fit_data().rows(X, y, None, None, None, beside["exposure"]).observed
    rate = y.sum() / beside["exposure"].sum()
    assert deviance_explained(gp.likelihood_, rows, rate * beside["exposure"]) == pytest.approx(0.0)

    def deviance(mean):
        terms = np.where(y > 0.0, y * np.log(np.maximum(y, 1.0) / mean), 0.0)
        return 2.0 * np.sum(terms - y + mean)

    explained = 1.0 - deviance(gp.predict(X, **beside)) / deviance(rate * beside["exposure"])
    assert gp.score(X, y, **beside) == pytest.approx(explained)
    assert gp.optimization_.explained == pytest.approx(explained)


def test_scores_of_censored_times_are_drawn_above_them():
    gp, X, y, beside = fitted("exponential")
    event = beside["event"]
    draws = [normal_scores(gp, X, y, None, Beside(**beside), seed=seed).z for seed in range(5)]
    as_seen = normal_scores(gp, X, y, None, Beside(event=event), seed=0, held_out=True)
    known = normal_scores(gp, X, y, None, Beside(event=np.ones(len(y))), held_out=True)
    assert np.all(as_seen.z[event == 0.0] > known.z[event == 0.0])
    spread = np.ptp(draws, axis=0)
    assert np.all(spread[event == 0.0] > 0.0)
    assert np.all(spread[event == 1.0] == 0.0)


def test_mean_noise_is_the_mean_of_its_quantiles():
    gp, X, *_ = fitted("varying noise")
    shares = (np.arange(4000) + 0.5) / 4000
    every = gp.predict_noise(X[:5], quantiles=shares)
    mean, std = gp.predict_noise(X[:5], return_std=True)
    np.testing.assert_allclose(mean, every.mean(axis=1), rtol=1e-4)
    np.testing.assert_allclose(std, every.std(axis=1), rtol=5e-3)
    assert np.all(mean > 1.001 * gp.predict_noise(X[:5], quantiles=0.5))
