"""Likelihoods that are not Gaussian, against dense variational inference and each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from asvgp import (
    Bernoulli,
    Beta,
    Binomial,
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Linear,
    Matern,
    Matern32,
    Matern52,
    NegativeBinomial,
    Ordinal,
    Periodic,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)
from asvgp.basis import Grid
from asvgp.sites.readings import NodeReading, RowReading
from asvgp.sites.settle import look, settle
from tests.oracle.dense import dense_posterior

RNG = np.random.default_rng(1)
N = 200
X = np.sort(RNG.uniform(0.0, 10.0, N))
PLACES = RNG.uniform(0.0, 1.0, (N, 2))
EVENT = (RNG.uniform(size=N) < 0.7).astype(float)
FAMILIES = [
    Poisson(),
    Bernoulli(),
    Bernoulli("probit"),
    Binomial(),
    NegativeBinomial(2.0),
    Gamma(2.0),
    Exponential(),
    Weibull(1.5),
    StudentT(3.0, 0.3),
    Beta(5.0),
    ZeroInflatedPoisson(0.3),
    Ordinal(4, (0.8, 1.9), -0.5),
]


def targets(family, f, seed=0):
    """Draw observations of a family, with what belongs to them."""
    rng, beside, extra = np.random.default_rng(seed), {}, None
    if "trials" in family.takes:
        extra = np.full(len(f), 7.0)
        beside = {"trials": extra}
    y = family.sample(f, rng, extra)
    if "event" in family.takes:
        extra = EVENT[: len(f)]
        beside = {"event": extra}
    return y, extra, beside


def assert_dense(gp, x, found, rounding):
    """Check the bound, within 1e-3 nats, and marginals, within 1e-3 standard deviations."""
    bound, m, v = found
    assert bound - 1e-3 < gp.elbo_ < bound + rounding
    mean, std = gp.predict(x, return_std=True, type="link")
    np.testing.assert_array_less(np.abs(mean - m), 1e-3 * np.sqrt(v))
    np.testing.assert_allclose(std, np.sqrt(v), rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_one_input_is_the_dense_optimum(family):
    f = 1.0 + np.sin(X)
    y, extra, beside = targets(family, f)
    kernel = Matern52(1.5, 1.2) + Constant(variance=4.0)
    gp = GPRegressor(kernel, num_basis=300, likelihood=family, optimizer=None)
    gp.fit(X, y, **beside)
    assert_dense(gp, X, dense_posterior(Matern52(1.5, 1.2)(X) + 4.0, family, y, extra), 1e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("joint", [False, True], ids=["product", "joint"])
def test_two_inputs_are_the_dense_optimum(family, joint):
    f = 1.0 + np.sin(5.0 * PLACES[:, 0]) * np.cos(4.0 * PLACES[:, 1])
    y, extra, beside = targets(family, f)
    if joint:  # splines need to be finer than for a product of the same lengths
        kernel, functions = Matern(2, 1.0, 0.6, dim=(0, 1)), 36
        K = kernel(PLACES, PLACES)
    else:
        kernel, functions = Matern52(0.5, 0.6, dim=0) * Matern52(0.7, dim=1), 30
        K = Matern52(0.5, 0.6)(PLACES[:, 0]) * Matern52(0.7)(PLACES[:, 1])
    settings = {"num_basis": functions, "likelihood": family, "optimizer": None}
    gp = GPRegressor(kernel + Constant(variance=4.0), **settings).fit(PLACES, y, **beside)
    # factors of a field carry more rounding than those of a series
    assert_dense(gp, PLACES, dense_posterior(K + 4.0, family, y, extra), 1e-4)


def test_weights_and_offsets_are_those_of_the_dense_optimum():
    f, rng = 1.0 + np.sin(X), np.random.default_rng(3)
    exposure, weight = rng.uniform(0.2, 3.0, N), rng.integers(0, 3, N).astype(float)
    y = rng.poisson(exposure * np.exp(f)).astype(float)
    kernel = Matern52(1.5, 1.2) + Constant(variance=4.0)
    settings = {"num_basis": 300, "likelihood": Poisson(), "optimizer": None}
    gp = GPRegressor(kernel, **settings).fit(X, y, sample_weight=weight, exposure=exposure)
    K, kept = Matern52(1.5, 1.2)(X) + 4.0, weight > 0.0
    bound, m, v = dense_posterior(
        K[np.ix_(kept, kept)], Poisson(), y[kept], None, weight[kept], np.log(exposure[kept])
    )
    assert gp.elbo_ == pytest.approx(bound, abs=1e-3)
    mean = gp.predict(X[kept], type="link")
    np.testing.assert_allclose(mean, m, atol=1e-3 * np.sqrt(v).min())
    rows = np.repeat(np.arange(N), weight.astype(int))
    twice = GPRegressor(kernel, **settings).fit(X[rows], y[rows], exposure=exposure[rows])
    np.testing.assert_allclose(twice.predict(X), gp.predict(X), rtol=1e-5)
    # rates grow with the exposure
    np.testing.assert_allclose(gp.predict(X, exposure=2.0), 2.0 * gp.predict(X))


def readings(gp, x, y):
    """Return both readings of one model, and its posterior."""
    data, rows = gp._fit_data(), gp._fit_data().rows(x, y)
    by_rows = RowReading(data.structure, lambda: (rows.observed,), len(y))
    return NodeReading(data.structure, data.stats), by_rows, gp.posterior_


@pytest.mark.parametrize(
    "family",
    [Poisson(), Bernoulli(), Gamma(2.0), NegativeBinomial(2.0), Weibull(1.5)],
    ids=repr,
)
def test_one_read_is_as_good_as_many(family):
    rng = np.random.default_rng(4)
    x = rng.uniform(0.0, 10.0, 5000)
    y, *_ = targets(family, 0.5 + np.sin(x))
    gp = GPRegressor(Matern52(1.0) + Constant(), num_basis=100, likelihood=family, optimizer=None)
    nodes, rows, posterior = readings(gp.fit(x, y), x, y)
    like = posterior.engine.statistics
    one, other = (each.found(family, posterior, like) for each in (nodes, rows))
    assert one.value == pytest.approx(other.value, abs=1e-4)
    for name in ("moments", "targets"):
        a, b = (getattr(found.sites, name) for found in (one, other))
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_steps_are_monotone_and_few(family, monkeypatch):
    y, _, beside = targets(family, 1.0 + np.sin(X))
    seen, plain = [], look

    def watched(*arguments):
        seen.append(plain(*arguments))
        return seen[-1]

    gp = GPRegressor(Matern52(1.5) + Constant(), num_basis=60, likelihood=family, optimizer=None)
    gp.fit(X, y, **beside)
    reading = RowReading(
        gp._fit_data().structure,
        lambda: (gp._fit_data().rows(X, y, None, None, None, *_in_order(beside)).observed,),
        N,
    )
    posterior = gp.posterior_
    sites = reading.begin(family, posterior.engine.statistics)
    monkeypatch.setattr("asvgp.sites.settle.look", watched)
    robust = 0 if family.log_concave else 3
    end = settle(reading, family, posterior, posterior.kernel, sites, 1e-8, robust)
    assert end.converged
    assert end.steps <= 25
    assert end.bound == pytest.approx(gp.elbo_, abs=1e-3)
    accepted = np.maximum.accumulate([each.bound for each in seen[robust:]])
    assert end.bound == pytest.approx(accepted[-1], abs=1e-5)


def _in_order(beside):
    return [beside.get(name) for name in ("exposure", "offset", "event", "trials")]


@pytest.mark.parametrize(
    "family",
    [
        Poisson(),
        Gamma(2.0, free=("shape",)),
        NegativeBinomial(2.0, free=("dispersion",)),
        Weibull(1.5, free=("shape",)),
        StudentT(4.0, 0.3, free=("scale",)),
    ],
    ids=repr,
)
def test_gradients_are_differences_of_settled_bounds(family):
    y, *_ = targets(family, 1.0 + np.sin(X))
    kernel = Matern52(1.5, 1.2) + Constant(variance=4.0)
    gp = GPRegressor(kernel, num_basis=40, likelihood=family, optimizer=None).fit(X, y)
    data = gp._fit_data()
    reading = NodeReading(data.structure, data.stats)
    if not data.summed:
        reading = RowReading(data.structure, lambda: (data.rows(X, y).observed,), N)
    before, sites = gp.posterior_, gp.posterior_.engine.statistics

    def settled(theta):
        values = np.exp(theta)
        other = before.kernel.replace_free(dict(zip(kernel.parameters, values, strict=False)))
        return settle(reading, family.with_values(values[2:]), before, other, sites, 1e-11)

    centre = np.log(np.append(kernel.values, family.values))
    gradient = settled(centre).gradient()
    for i in range(len(centre)):
        step = 1e-3 * (np.arange(len(centre)) == i)
        slope = (settled(centre + step).bound - settled(centre - step).bound) / 2e-3
        assert gradient[i] == pytest.approx(slope, rel=2e-4, abs=2e-3)


@pytest.mark.parametrize("family", [Poisson(), Bernoulli(), StudentT(4.0, 0.3)], ids=repr)
def test_leave_one_out_is_near_a_refit(family):
    y, *_ = targets(family, 1.0 + np.sin(X))
    settings = {"num_basis": 60, "likelihood": family, "optimizer": None, "domain": (0.0, 10.0)}
    kernel = Matern52(1.5, 1.2) + Constant(variance=4.0)
    found = GPRegressor(kernel, **settings).fit(X, y).leave_one_out(X, y)
    errors = []
    for row in range(3, N, 20):
        rest = np.arange(N) != row
        other = GPRegressor(kernel, **settings).fit(X[rest], y[rest])
        density = other.log_predictive_density(X[[row]], y[[row]])[0]
        errors.append(abs(density - found.log_density[row]))
    assert np.mean(errors) < 0.02


def test_training_finds_the_parameters_of_the_likelihood():
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0.0, 10.0, 3000))
    f = 1.0 + np.sin(3.0 * x)
    y = rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, len(x))).astype(float)
    gp = GPRegressor(Matern52() + Constant(), num_basis=200, likelihood=NegativeBinomial())
    gp.fit(x, y)
    assert gp._fitted().likelihood.dispersion == pytest.approx(2.0, rel=0.15)
    mean, std = gp.predict(x, return_std=True, type="link")
    assert np.mean(np.abs(mean - f) < 1.96 * std) > 0.85
    plain = GPRegressor(Matern52() + Constant(), num_basis=200, likelihood=Poisson()).fit(x, y)
    assert plain.elbo_ < gp.elbo_ - 50.0


SLOW = Matern32(5.0) + Matern32(2000.0)
WEEKLY = Matern32(4.0, 0.1) + Matern32(2000.0, 0.3) + Periodic(168.0, 7.0, 6.0) + Constant()


def week():
    """Return hours, a latent f with the season of a week, and a generator of random numbers."""
    rng, hours = np.random.default_rng(0), np.arange(2000.0)
    hour, working = hours % 24.0, (hours % 168.0) // 24.0 < 5.0

    def peak(centre, width):
        return np.exp(-0.5 * ((hour - centre) / width) ** 2)

    days = 4.0 * peak(8.0, 1.2) + 4.2 * peak(17.5, 1.8) + 2.5 * peak(13.0, 3.0)
    f = 1.0 + np.where(working, days, 4.0 * peak(14.0, 4.0)) + 0.4 * np.sin(hours / 500.0)
    return hours, f + lfilter([0.2], [1.0, -0.8], rng.standard_normal(len(f))), rng


@pytest.mark.parametrize(
    "kernel",
    [
        SLOW + Periodic(168.0) + Constant(),
        # as another fit may have ended: with another variance, such a length has no season
        SLOW + Periodic(168.0, lengthscale=70.0, variance=7000.0) + Constant(),
    ],
    ids=["open", "given"],
)
def test_seasons_are_not_taken_for_dispersion(kernel):
    """The scatter about one rate is that of the week, and counts at night are near zero."""
    hours, f, rng = week()
    y = rng.poisson(np.exp(f) * rng.gamma(300.0, 1.0 / 300.0, len(f))).astype(float)
    trained = GPRegressor(kernel, likelihood=NegativeBinomial()).fit(hours, y)
    given = GPRegressor(WEEKLY, likelihood=NegativeBinomial(40.0), optimizer=None).fit(hours, y)
    assert trained.elbo_ > given.elbo_


def test_seasons_are_not_taken_for_the_scatter_of_amounts():
    hours, f, rng = week()
    y = rng.gamma(50.0, np.exp(f) / 50.0)
    kernel = SLOW + Periodic(168.0) + Constant()
    trained = GPRegressor(kernel, likelihood=Gamma()).fit(hours, y)
    given = GPRegressor(WEEKLY, likelihood=Gamma(30.0), optimizer=None).fit(hours, y)
    assert trained.elbo_ > given.elbo_


@pytest.mark.parametrize(
    "true", [ZeroInflatedPoisson(0.3), StudentT(4.0, 0.1)], ids=["zeros", "outliers"]
)
def test_sharp_seasons_are_not_lost_on_first_cells(true):
    """First sites say little, and cells that are wide enough for them are too wide for a week."""
    weeks = slice(8 * 168)
    hours, f, rng = week()
    hours, y = hours[weeks], true.sample(f[weeks], rng)
    kernel = SLOW + Periodic(168.0) + Constant()
    trained = GPRegressor(kernel, likelihood=type(true)()).fit(hours, y)
    given = GPRegressor(WEEKLY, likelihood=true, optimizer=None).fit(hours, y)
    assert trained.elbo_ > given.elbo_


def test_gross_outliers_do_not_move_student_t():
    rng = np.random.default_rng(6)
    x = np.linspace(0.0, 10.0, 500)
    y = np.sin(x) + 0.1 * rng.standard_normal(500)
    y[rng.uniform(size=500) < 0.1] += 20.0
    kernel = Matern52() + Constant()
    robust = GPRegressor(kernel, num_basis=50, likelihood=StudentT(df=2.0)).fit(x, y)
    assert np.sqrt(np.mean((robust.predict(x) - np.sin(x)) ** 2)) < 0.05
    plain = GPRegressor(kernel, num_basis=50).fit(x, y)
    assert np.sqrt(np.mean((plain.predict(x) - np.sin(x)) ** 2)) > 0.5


def test_seasons_and_covariates_have_any_likelihood():
    rng = np.random.default_rng(7)
    hours, heat = np.arange(400.0), rng.standard_normal(400)
    trend = 0.5 * np.sin(hours / 40.0)
    rate = np.exp(1.0 + trend + np.sin(2.0 * np.pi * hours / 24.0) + 0.3 * heat)
    y = rng.poisson(rate).astype(float)
    kernel = Matern32(100.0, 0.1, dim=0) + Periodic(24.0, dim=0) + Linear(1) + Constant()
    gp = GPRegressor(kernel, likelihood=Poisson()).fit(np.column_stack([hours, heat]), y)
    assert gp.effects_[0].estimate == pytest.approx(0.3, abs=0.1)
    assert gp.score(np.column_stack([hours, heat]), y) > 0.4
    with pytest.raises(ValueError, match="partial_fit adds and subtracts sums"):
        gp.partial_fit(np.column_stack([hours, heat]), y)


def test_additive_models_have_any_likelihood():
    rng = np.random.default_rng(8)
    columns = rng.uniform(0.0, 1.0, (2000, 2))
    f = 2.0 * np.sin(6.0 * columns[:, 0]) + columns[:, 1]
    y = (rng.uniform(size=2000) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    kernel = Matern32(0.5, dim=0) + Matern32(0.5, dim=1) + Constant()
    gp = GPRegressor(kernel, num_basis=12, likelihood=Bernoulli(), optimizer=None)
    gp.fit(columns, y)
    mean = gp.predict(columns, type="link")
    assert np.corrcoef(mean, f)[0, 1] > 0.9


def test_streams_are_the_whole():
    rng = np.random.default_rng(9)
    x = rng.uniform(0.0, 10.0, 3000)
    y = rng.poisson(np.exp(np.sin(x))).astype(float)
    settings = {"num_basis": 60, "likelihood": Poisson(), "domain": (0.0, 10.0)}
    whole = GPRegressor(Matern32() + Constant(), **settings).fit(x, y)
    parts = GPRegressor(Matern32() + Constant(), **settings)
    for rows in np.array_split(rng.permutation(3000), 4):
        parts.partial_fit(x[rows], y[rows])
    assert parts.elbo_ == pytest.approx(whole.elbo_, abs=1e-3)
    np.testing.assert_allclose(parts.predict([1.0, 5.0]), whole.predict([1.0, 5.0]), rtol=1e-3)
    parts.forget(x[:500], y[:500])
    rest = GPRegressor(Matern32() + Constant(), **settings).fit(x[500:], y[500:])
    np.testing.assert_allclose(parts.predict([1.0, 5.0]), rest.predict([1.0, 5.0]), rtol=1e-3)


@pytest.mark.parametrize(
    ("family", "y", "beside", "message"),
    [
        (Poisson(), [1.0, -2.0, 3.0], {}, "negative.*row 1"),
        (Poisson(), [1.0, 2.5, 3.0], {}, "whole numbers.*row 1"),
        (Beta(), [0.2, 1.0, 0.5], {}, "row 1"),
        (Binomial(), [1.0, 8.0, 3.0], {"trials": 7.0}, "row 1"),
        (
            Poisson(),
            [1.0, 2.0, 3.0],
            {"exposure": [1.0, 0.0, 1.0]},
            "exposure must contain positive",
        ),
        (Exponential(), [1.0, 2.0, 3.0], {"event": [1.0, 0.5, 0.0]}, "event must contain 1"),
        (Bernoulli(), [0.0, 1.0, 0.0], {"event": 1.0}, "event has no meaning"),
        (Poisson(), [1.0, 2.0, 3.0], {"noise_variance": [1.0, 1.0, 1.0]}, "Gaussian noise"),
    ],
)
def test_bad_rows_are_named_before_the_work(family, y, beside, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(Matern32() + Constant(), likelihood=family).fit([0.0, 1.0, 2.0], y, **beside)


def test_bad_settings_are_refused():
    for settings, message in (
        ({"transform": "log"}, "transform is for Gaussian noise"),
        ({"noise_variance": 1.0}, "noise_variance is that of Gaussian noise"),
        ({"objective": "evidence"}, "objective='evidence' is for Gaussian noise"),
    ):
        with pytest.raises(ValueError, match=message):
            GPRegressor(Matern32(), likelihood=Poisson(), **settings).fit([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(TypeError, match="likelihood must be an instance"):
        GPRegressor(Matern32(), likelihood="poisson").fit([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="exposure is for likelihoods"):
        GPRegressor(Matern32()).fit([0.0, 1.0], [1.0, 2.0], exposure=2.0)


def test_targets_of_sums_are_exact():
    rng = np.random.default_rng(10)
    x, y = rng.uniform(0.0, 1.0, 500), rng.poisson(3.0, 500).astype(float)
    gp = GPRegressor(Matern32(0.3), num_basis=12, likelihood=Poisson(), optimizer=None).fit(x, y)
    nodes, rows, posterior = readings(gp, x, y)
    sums = nodes._targets_on(posterior.engine.statistics)
    assert isinstance(sums.grid, Grid)
    s = (x - sums.grid.lower) / sums.grid.spacing
    cell = np.minimum(s.astype(int), sums.grid.cells - 1)
    for power in range(sums.degree + 1):
        expected = np.bincount(cell, y * (s - cell) ** power, sums.grid.cells)
        np.testing.assert_allclose(sums.targets[0, :, power], expected, atol=1e-9 * y.sum())
    assert rows.count == 500
