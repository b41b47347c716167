"""Noise with a process of its own, against dense variational inference and what it must do."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import asvgp
from asvgp import Constant, GPRegressor, Heteroscedastic, Linear, Matern32, Matern52
from asvgp.likelihoods.heteroscedastic import SquaredResiduals
from asvgp.sites.compress import compressed, in_memory
from asvgp.sites.noise import NoiseReading
from asvgp.sites.settle import look, settle
from asvgp.structures.observed import Observed
from asvgp.structures.structure import Points
from tests.oracle.dense import dense_posterior

RNG = np.random.default_rng(1)
N = 200
X = np.sort(RNG.uniform(0.0, 10.0, N))
STD = np.exp(0.6 * np.sin(0.7 * X) - 1.5)
Y = 1.0 + np.sin(X) + STD * RNG.standard_normal(N)
PLACES = RNG.uniform(0.0, 1.0, (N, 2))
OF_F, OF_G = Matern52(1.5, 1.2), Matern52(2.0, 0.8)


def dense(K, L, y, weight=None):
    """Return the highest bound of independent posteriors of f and g, and their moments.

    Either is the best one given the other, by turns; that of f is exact.
    """
    n, before = len(y), -np.inf
    weight = np.ones(n) if weight is None else weight
    mean, variance = np.full(n, np.log(np.var(y))), np.zeros(n)
    bound, m, v = before, mean, variance
    for _ in range(200):
        precision = weight * np.exp(0.5 * variance - mean)
        system = np.eye(n) + K * precision
        S = np.linalg.solve(system, K)
        m, v = S @ (precision * y), np.diag(S).copy()
        energy = precision * (y - m) @ m - precision @ v
        divergence = 0.5 * (energy + np.linalg.slogdet(system)[1])
        squares = (y - m) ** 2 + v
        bound, mean, variance = dense_posterior(L, SquaredResiduals(), squares, None, weight)
        bound -= divergence
        if bound - before < 1e-9:
            break
        before = bound
    return bound, m, v, mean, variance


def model(**settings):
    """Return a model with given hyperparameters."""
    settings = {"num_basis": 300, "optimizer": None} | settings
    noise = Heteroscedastic(OF_G + Constant(variance=4.0))
    return GPRegressor(OF_F + Constant(variance=4.0), likelihood=noise, **settings)


def assert_dense(gp, x, found, tolerance=1e-3):
    """Check bound and posteriors against dense ones."""
    bound, m, v, mean, variance = found
    assert bound - tolerance < gp.elbo_ < bound + 1e-5
    ours, std = gp.predict(x, return_std=True)
    np.testing.assert_allclose(ours, m, atol=tolerance * np.sqrt(v).min())
    np.testing.assert_allclose(std, np.sqrt(v), rtol=tolerance)
    g = gp._noise_at(x)
    np.testing.assert_allclose(g[:, 0], mean, atol=tolerance * np.sqrt(variance).min())
    np.testing.assert_allclose(np.sqrt(g[:, 1]), np.sqrt(variance), rtol=tolerance)


def test_one_input_is_the_dense_optimum():
    assert_dense(model().fit(X, Y), X, dense(OF_F(X) + 4.0, OF_G(X) + 4.0, Y))


def test_two_inputs_are_the_dense_optimum():
    noise = np.exp(PLACES[:, 1] - 1.5) * np.random.default_rng(2).standard_normal(N)
    y = np.sin(5.0 * PLACES[:, 0]) + noise
    kernel = Matern52(0.5, 0.6, dim=0) * Matern52(0.7, dim=1) + Constant(variance=4.0)
    likelihood = Heteroscedastic(Matern52(0.8, 0.7, dim=1) + Constant(variance=4.0))
    gp = GPRegressor(kernel, num_basis=30, likelihood=likelihood, optimizer=None).fit(PLACES, y)
    K = Matern52(0.5, 0.6)(PLACES[:, 0]) * Matern52(0.7)(PLACES[:, 1])
    L = Matern52(0.8, 0.7)(PLACES[:, 1])
    assert_dense(gp, PLACES, dense(K + 4.0, L + 4.0, y))


def test_weights_multiply_log_densities():
    weight = np.random.default_rng(3).integers(0, 3, N).astype(float)
    kept = weight > 0.0
    gp = model().fit(X, Y, sample_weight=weight)
    K, L = OF_F(X[kept]) + 4.0, OF_G(X[kept]) + 4.0
    assert_dense(gp, X[kept], dense(K, L, Y[kept], weight[kept]))
    rows = np.repeat(np.arange(N), weight.astype(int))
    twice = model().fit(X[rows], Y[rows])
    assert twice.elbo_ == pytest.approx(gp.elbo_, abs=1e-4)
    np.testing.assert_allclose(twice.predict(X), gp.predict(X), atol=1e-4)


def reading_of(gp, x, y):
    """Return a reading with the noise of a fitted model, and the model's posterior of f."""
    data, fitted = gp._fit_data(), gp._fit_now
    rows = data.rows(x, y).observed
    reading = NoiseReading(data.structure, fitted.noise_process.structure, rows, len(y))
    squares = reading.of_squares(reading.squares(fitted.posterior))
    last = fitted.noise_process.posterior
    reading.noise = settle(squares, SquaredResiduals(), last, last.kernel, last.stats)
    return reading, fitted.posterior


def test_steps_are_monotone():
    gp = model(num_basis=60).fit(X, Y)
    reading, posterior = reading_of(gp, X, Y)
    like = posterior.engine.statistics
    assert reading.noise is not None
    flat = reading.of_squares(np.ones(N)).begin(SquaredResiduals(), reading.noise.sites)
    reading.noise = settle(
        reading.of_squares(np.ones(N)),
        SquaredResiduals(),
        reading.noise.posterior,
        reading.noise.posterior.kernel,
        flat,
    )
    family, kernel = gp._fit_now.likelihood, posterior.kernel
    now = look(reading, family, posterior, kernel, reading.begin(family, like))
    bounds = [now.bound]
    for _ in range(6):
        now = look(reading, family, posterior, kernel, now.found.sites)
        bounds.append(now.bound)
    assert np.all(np.diff(bounds) > -1e-6)
    assert bounds[-1] - bounds[0] > 1.0
    assert bounds[-1] == pytest.approx(gp.elbo_, abs=1e-3)


def test_gradients_are_differences():
    gp = model(num_basis=80).fit(X, Y)
    reading, posterior = reading_of(gp, X, Y)
    family, kernel = gp._fit_now.likelihood, posterior.kernel
    sites, first = posterior.engine.statistics, len(kernel.parameters)
    theta = np.log([*kernel.values, *family.values])

    def settled(theta):
        values = np.exp(theta)
        there = kernel.replace_free(dict(zip(kernel.parameters, values[:first], strict=True)))
        other = family.with_values(values[first:])
        now = settle(reading, other, posterior, there, sites, 1e-10, most=200)
        # once more, with g at its best to the end
        return settle(reading, other, posterior, there, now.sites, 1e-10, most=200)

    gradient = settled(theta).gradient()
    assert len(gradient) == len(theta) == 4
    for i in range(len(theta)):
        step = 1e-3 * np.eye(len(theta))[i]
        slope = (settled(theta + step).bound - settled(theta - step).bound) / 2e-3
        assert gradient[i] == pytest.approx(slope, abs=2e-3 * max(1.0, abs(slope)))


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor(likelihood=Heteroscedastic()).fit(X, Y)


def test_answers_belong_to_one_distribution(fitted):
    x = np.array([1.0, 4.0, 9.0, 12.0])
    mean, std = fitted.predict(x, return_std=True, include_noise=True)
    f, of_f = fitted.predict(x, return_std=True)
    g, v = fitted._noise_at(x).T
    np.testing.assert_allclose(mean, f)
    np.testing.assert_allclose(std**2, of_f**2 + np.exp(g + 0.5 * v))
    draws = fitted.sample_y(x, 20_000, random_state=0, include_noise=True)
    shares = np.array([0.025, 0.2, 0.5, 0.975])
    quantiles = fitted.predict_quantiles(x, shares, include_noise=True)
    found = np.mean(draws[:, :, None] <= quantiles[:, None], axis=1)
    np.testing.assert_allclose(found, np.broadcast_to(shares, found.shape), atol=0.015)
    # densities are the derivative of the distribution function
    family, extra = fitted._fit_now.likelihood, np.stack([g, v], axis=1)
    y, step = mean + 0.7 * std, 1e-4 * std
    ends = [family.cdf(y + side * step, f, of_f**2, extra) for side in (1.0, -1.0)]
    slope = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose(np.exp(fitted.log_predictive_density(x, y)), slope, rtol=1e-4)
    cov = fitted.predict(x, return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(np.diag(cov), std**2)


def test_the_noise_has_bands(fitted):
    noise, spread = fitted.predict_noise(X, return_std=True)
    low, middle, high = fitted.predict_noise(X, quantiles=(0.025, 0.5, 0.975)).T
    assert np.all((low < middle) & (middle < noise) & (noise < high) & (spread > 0.0))
    assert np.mean((low < STD) & (high > STD)) > 0.8
    np.testing.assert_array_equal(fitted.predict_noise(X, quantiles=0.5), middle)
    with pytest.raises(ValueError, match="At most one"):
        fitted.predict_noise(X, True, 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        fitted.predict_noise(X, quantiles=[0.0])
    with pytest.raises(ValueError, match="predict_noise is for"):
        GPRegressor(num_basis=20).fit(X, Y).predict_noise(X)


def test_leave_one_out_is_that_of_refits():
    gp = model(num_basis=60).fit(X, Y)
    left = gp.leave_one_out(X, Y).log_density
    rows = np.arange(0, N, 10)
    for row in rows:
        without = np.delete(np.arange(N), row)
        refit = model(num_basis=60, domain=(X[0], X[-1])).fit(X[without], Y[without])
        density = refit.log_predictive_density(X[row : row + 1], Y[row : row + 1])[0]
        assert left[row] == pytest.approx(density, abs=0.03)


def test_models_are_saved_and_sent(fitted, tmp_path):
    fitted.save(tmp_path / "noise.asvgp")
    for again in (asvgp.load(tmp_path / "noise.asvgp"), pickle.loads(pickle.dumps(fitted))):
        # tables that are not in the file are computed again, to rounding
        for asked in ("predict_noise", "predict"):
            values = (getattr(each, asked)(X) for each in (again, fitted))
            np.testing.assert_allclose(*values, rtol=1e-10)
        values = (each.predict_quantiles(X, include_noise=True) for each in (again, fitted))
        np.testing.assert_allclose(*values, rtol=1e-10)
        assert again.likelihood_ == fitted.likelihood_
        assert again.summary().noise == fitted.summary().noise


def test_the_summary_says_what_the_noise_is(fitted):
    text = str(fitted.summary())
    assert "Heteroscedastic(kernel=Matern32(" in text
    assert "Noise             standard deviation" in text
    low, _, high = fitted.summary().noise
    assert low < high


def test_many_rows_are_few():
    rng = np.random.default_rng(2)
    n = 40_000
    x = rng.uniform(0.0, 10.0, n)
    y = np.sin(x) + np.exp(0.3 * np.sin(2.0 * x) - 1.0) * rng.standard_normal(n)
    weight = rng.integers(1, 3, n).astype(float)
    rows = Observed(Points((x,), ranges=((x.min(), x.max()),)), y, None, weight)
    few = compressed([rows], 0.0, 10.0, 500)
    assert len(few.y) == 1000
    assert few.weight is not None
    for power, factor in ((0, 1.0), (1, 1.0), (2, 1.0), (0, y), (1, y)):
        of_y = 1.0 if isinstance(factor, float) else few.y
        total = np.sum(weight * factor * x**power)
        assert np.sum(few.weight * of_y * few.points.x**power) == pytest.approx(total, rel=1e-10)
    squares = np.sum(few.weight * (few.y**2 + few.extra))
    assert squares == pytest.approx(np.sum(weight * y**2), rel=1e-10)
    squares = np.sum(few.weight * few.points.x * (few.y**2 + few.extra))
    assert squares == pytest.approx(np.sum(weight * x * y**2), rel=1e-10)
    # the bound of the rows themselves
    settings = {"optimizer": None, "num_basis": 40}
    few_rows = model(**settings).fit(x, y)
    assert few_rows._fit_data().stats.count == n
    reading, posterior = reading_of(few_rows, x, y)
    family, like = few_rows._fit_now.likelihood, posterior.engine.statistics
    whole = settle(reading, family, posterior, posterior.kernel, reading.begin(family, like), 1e-6)
    assert few_rows.elbo_ == pytest.approx(whole.bound, abs=0.01)
    halves = [
        Observed(rows.points.rows(part), y[part], None, weight[part])
        for part in np.array_split(np.arange(n), 3)
    ]
    whole = in_memory(halves)
    np.testing.assert_array_equal(whole.y, y)
    np.testing.assert_array_equal(whole.points.x, x)
    np.testing.assert_allclose(compressed(halves, 0.0, 10.0, 500).y, few.y)


def test_coverage():
    inside, noise = [], []
    for seed in range(6):
        rng = np.random.default_rng(100 + seed)
        x = rng.uniform(0.0, 10.0, 400)
        f, std = np.sin(x), np.exp(0.5 * np.cos(0.8 * x) - 1.5)
        gp = GPRegressor(Matern52() + Constant(), likelihood=Heteroscedastic())
        gp.fit(x, f + std * rng.standard_normal(400))
        mean, spread = gp.predict(x, return_std=True)
        low, high = gp.predict_noise(x, quantiles=(0.025, 0.975)).T
        inside.append(np.abs(mean - f) < 1.96 * spread)
        noise.append((low < std) & (std < high))
    assert 0.88 < np.mean(inside) <= 1.0
    assert 0.85 < np.mean(noise) <= 1.0


def test_equal_noise_is_gaussian_noise():
    rng = np.random.default_rng(5)
    x = rng.uniform(0.0, 10.0, 600)
    y = np.sin(x) + 0.3 * rng.standard_normal(600)
    plain = GPRegressor(Matern32() + Constant()).fit(x, y)
    gp = GPRegressor(Matern32() + Constant(), likelihood=Heteroscedastic()).fit(x, y)
    assert gp.elbo_ == pytest.approx(plain.elbo_, abs=12.0)
    mean, std = plain.predict(x, return_std=True)
    assert np.max(np.abs(gp.predict(x) - mean) / std) < 0.6
    assert np.all(np.abs(np.log(gp.predict_noise(x) ** 2 / plain.noise_variance_)) < 0.35)


def test_noise_over_six_e_folds():
    rng = np.random.default_rng(6)
    x = rng.uniform(0.0, 10.0, 500)
    std = np.exp(0.6 * x - 5.0)
    y = 10.0 * np.sin(x) + std * rng.standard_normal(500)
    gp = GPRegressor(Matern52() + Constant(), likelihood=Heteroscedastic()).fit(x, y)
    error = np.log(gp.predict_noise(x)) - np.log(std)
    assert np.sqrt(np.mean(error**2)) < 0.4
    assert gp.optimization_.converged


def test_missing_rows_and_offsets():
    y, offset = Y.copy(), np.cos(X)
    y[::7] = np.nan
    known = ~np.isnan(y)
    with pytest.warns(UserWarning, match="left out as missing"):
        gp = model(num_basis=60, domain=(0.0, 10.0)).fit(X, y)
    same = model(num_basis=60, domain=(0.0, 10.0)).fit(X[known], y[known])
    np.testing.assert_allclose(gp.predict(X), same.predict(X), atol=1e-8)
    moved = model(num_basis=60).fit(X, Y + offset, offset=offset)
    plain = model(num_basis=60).fit(X, Y)
    np.testing.assert_allclose(moved.predict(X, offset=1.0), plain.predict(X) + 1.0, atol=1e-6)
    np.testing.assert_allclose(
        moved.leave_one_out(X, Y + offset, offset=offset).log_density,
        plain.leave_one_out(X, Y).log_density,
        atol=1e-5,
    )


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_few_rows(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(likelihood=Heteroscedastic()).fit(X[:rows], Y[:rows])
    mean, std = gp.predict(X[:9], return_std=True, include_noise=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)


def test_what_cannot_be_is_refused(fitted):
    with pytest.raises(ValueError, match="y is constant"):
        GPRegressor(likelihood=Heteroscedastic()).fit(X, np.ones(N))
    with pytest.raises(ValueError, match="X is constant"):
        GPRegressor(likelihood=Heteroscedastic()).fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="reads the rows again"):
        pickle.loads(pickle.dumps(fitted)).partial_fit(X, Y)
    with pytest.raises(ValueError, match="finite"):
        GPRegressor(likelihood=Heteroscedastic()).fit(X, np.where(X > 5.0, np.inf, Y))
    with pytest.raises(ValueError, match="noise_variance"):
        GPRegressor(likelihood=Heteroscedastic()).fit(X, Y, noise_variance=np.ones(N))
    with pytest.raises(TypeError, match="an instance"):
        Heteroscedastic(Matern32)
    with pytest.raises(TypeError, match="logarithm of the noise variance"):
        Heteroscedastic(2.0)
    with pytest.raises(ValueError, match="fixed effects only"):
        Heteroscedastic(Constant() + Linear())


def test_quantiles_are_those_of_the_mixture():
    family = Heteroscedastic()
    extra = np.array([[0.0, 0.0], [-1.0, 0.5]])
    m, v = np.array([1.0, -2.0]), np.array([0.5, 0.1])
    found = family.quantiles([0.1, 0.5, 0.9], m, v, extra)
    np.testing.assert_allclose(
        found[0], stats.norm.ppf([0.1, 0.5, 0.9], 1.0, np.sqrt(1.5)), rtol=1e-8
    )
    g = -1.0 + np.sqrt(0.5) * np.random.default_rng(0).standard_normal(400_000)
    share = np.mean(stats.norm.cdf(found[1, 2], -2.0, np.sqrt(0.1 + np.exp(g))))
    assert share == pytest.approx(0.9, abs=1e-3)
