"""Weights say how often rows are there: a model of them is that of rows written out."""

import warnings

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import (
    SHO,
    Bernoulli,
    Beta,
    Binomial,
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Heteroscedastic,
    Matern,
    Matern32,
    Matern52,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)
from asvgp.likelihoods.names import FAMILIES

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, 80))
Y = np.sin(X) + 0.2 * RNG.standard_normal(80)
REGULAR = np.arange(80.0)
PLANE = RNG.uniform(0.0, 1.0, (80, 2))
COUNTS = np.ones(80, int)  # many rows that repeat others would mean that there is no noise
COUNTS[::9], COUNTS[5::11] = 0, 2
MODELS = {
    "line": (GPRegressor(Matern52()), X),
    "few functions": (GPRegressor(Matern32() + Constant(), num_basis=20), X),
    "exact": (GPRegressor(SHO(6.0, quality=5.0) + Constant()), REGULAR),
    "series": (GPRegressor(Matern32() + SHO(6.0), num_basis=60), X),
    "field": (GPRegressor(Matern(1, 0.3, dim=(0, 1)) + Constant(), num_basis=8), PLANE),
    "default": (GPRegressor(), X),
}


@pytest.mark.parametrize("name", MODELS)
def test_weights_count_rows(name):
    model, x = MODELS[name]
    weighted, written = model, GPRegressor(**model.get_params())
    weighted.fit(x, Y, sample_weight=COUNTS)
    again = RNG.permutation(np.repeat(np.arange(80), COUNTS))
    written.fit(x[again], Y[again])
    assert weighted.elbo_ == pytest.approx(written.elbo_, rel=1e-5)
    mean, std = weighted.predict(x, return_std=True)
    other, other_std = written.predict(x, return_std=True)
    np.testing.assert_allclose(mean, other, atol=2e-3)
    np.testing.assert_allclose(std, other_std, rtol=2e-3)


RATE = np.exp(np.sin(X))
SHARE = RATE / (1.0 + RATE)
SEEN = (RNG.uniform(size=80) < 0.8) * 1.0
OTHERS = {  # likelihoods, their targets, and what belongs to them
    "poisson": (Poisson(), RNG.poisson(RATE), {"exposure": 1.0 + X}),
    "negative-binomial": (NegativeBinomial(2.0), RNG.poisson(RATE), {}),
    "zero-inflated-poisson": (ZeroInflatedPoisson(0.2), RNG.poisson(RATE), {}),
    "bernoulli": (Bernoulli(), (RNG.uniform(size=80) < SHARE) * 1.0, {}),
    "binomial": (Binomial(), RNG.binomial(5, SHARE), {"trials": np.full(80, 5.0)}),
    "ordinal": (Ordinal(levels=3, gaps=(1.0,)), np.digitize(Y, [-0.5, 0.5]), {}),
    "gamma": (Gamma(2.0), RNG.gamma(2.0, RATE), {}),
    "exponential": (Exponential(), RNG.exponential(RATE), {"event": SEEN}),
    "weibull": (Weibull(1.5), RNG.exponential(RATE), {"event": SEEN}),
    "beta": (Beta(5.0), np.clip(RNG.beta(5.0 * SHARE, 5.0 - 5.0 * SHARE), 0.01, 0.99), {}),
    "student-t": (StudentT(scale=0.2), Y, {"offset": 0.1 * X}),
    "heteroscedastic": (Heteroscedastic(Matern32(3.0) + Constant(variance=9.0)), Y, {}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_count_rows_of_every_likelihood(name):
    family, y, beside = OTHERS[name]
    settings = {"num_basis": 20, "domain": (0.0, 10.0), "optimizer": None, "likelihood": family}
    kernel = Matern32(2.0) + Constant(variance=9.0)
    weighted = GPRegressor(kernel, **settings).fit(X, y, sample_weight=COUNTS, **beside)
    again = RNG.permutation(np.repeat(np.arange(80), COUNTS))
    rows = {key: values[again] for key, values in beside.items()}
    written = GPRegressor(kernel, **settings).fit(X[again], y[again], **rows)
    assert weighted.elbo_ == pytest.approx(written.elbo_, rel=1e-8)
    options = {"return_std": True, "type": "link"}
    mine, other = (model.predict(X, **options) for model in (weighted, written))
    np.testing.assert_allclose(mine, other, atol=1e-5)


@pytest.mark.parametrize("name", ["poisson", "bernoulli"])
def test_trained_on_weights_and_on_rows_written_out(name):
    family, y, beside = OTHERS[name]
    kernel = Matern32(2.0) + Constant(variance=9.0)
    weighted = GPRegressor(kernel, num_basis=20, likelihood=family)
    weighted.fit(X, y, sample_weight=COUNTS, **beside)
    again = np.repeat(np.arange(80), COUNTS)
    written = GPRegressor(kernel, num_basis=20, likelihood=family)
    written.fit(X[again], y[again], **{key: values[again] for key, values in beside.items()})
    assert weighted.elbo_ == pytest.approx(written.elbo_, rel=1e-6)


def test_half_a_row_counts_half():
    """At given hyperparameters the bound is the sum of the weighted log densities, less the KL."""
    settings = {"num_basis": 30, "noise_variance": 0.1, "optimizer": None}
    gp = GPRegressor(Matern52(2.0), **settings).fit(X, Y, sample_weight=0.5)
    mean, std = gp.predict(X, return_std=True)
    log_density = -0.5 * np.log(2.0 * np.pi * 0.1) - 0.5 * ((Y - mean) ** 2 + std**2) / 0.1
    # the posterior with half the precision, whose own bound tells the KL
    known = GPRegressor(Matern52(2.0), **settings).fit(X, Y, noise_variance=0.2)
    whole = -0.5 * np.log(2.0 * np.pi * 0.2) - 0.5 * ((Y - mean) ** 2 + std**2) / 0.2
    assert gp.elbo_ - 0.5 * log_density.sum() == pytest.approx(known.elbo_ - whole.sum())


@pytest.mark.parametrize("kind", ["frame", "file", "times"])
def test_rows_of_weight_zero_are_not_there(kind, tmp_path):
    """Not even their inputs count where rows are in memory."""
    x, weights = X.copy(), np.ones(80)
    x[-1], weights[[3, 4, -1]] = 1e6, [0.0, 2.0, 0.0]
    frame = pd.DataFrame({"x": x, "y": Y, "w": weights})
    there = frame[frame.w > 0]
    expected = GPRegressor(Matern32(), num_basis=20, domain=(0.0, 10.0))
    expected.fit(there[["x"]], there.y, there.w)
    gp = GPRegressor(Matern32(), num_basis=20, domain=(0.0, 10.0))
    if kind == "frame":
        gp.fit(frame[["x"]], frame.y, sample_weight=frame.w)
    elif kind == "times":
        frame["x"] = pd.to_datetime(frame.x, unit="s", utc=True)
        gp = GPRegressor(Matern32("1 s"), num_basis=20).fit(frame.x, frame.y, frame.w)
        assert gp.domain_[1] < pd.Timestamp("1970-01-02", tz="UTC")
        return
    else:
        frame.loc[79, "x"] = 9.0
        frame.to_csv(tmp_path / "a.csv", index=False)
        with pytest.warns(UserWarning, match="2 of 80 rows have y = NaN, or no weight"):
            gp.fit(tmp_path / "a.csv", "y", sample_weight="w")
    assert gp.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)
    assert gp.stats_.count == 78


def test_leaving_out_a_row_leaves_out_all_of_it():
    settings = {"num_basis": 30, "noise_variance": 0.1, "optimizer": None, "domain": (0.0, 10.0)}
    weights = np.maximum(COUNTS, 1)
    gp = GPRegressor(Matern52(2.0), **settings).fit(X, Y, sample_weight=weights)
    left = gp.leave_one_out(X, Y, sample_weight=weights)
    for i in (0, 40, 79):
        rest = np.arange(80) != i
        other = GPRegressor(Matern52(2.0), **settings).fit(X[rest], Y[rest], weights[rest])
        mean, std = other.predict(X[[i]], return_std=True, include_noise=True)
        assert left.mean[i] == pytest.approx(mean[0])
        assert left.std[i] == pytest.approx(std[0])


def test_weights_of_an_earlier_version_keep_their_meaning(tmp_path):
    """There they were inverse relative noise variances, which are written as ratios now."""
    settings = {"num_basis": 30, "noise_variance": 0.1, "optimizer": None}
    gp = GPRegressor(Matern52(2.0), noise_scale="auto", **settings)
    gp.fit(X, Y, noise_variance=1.0 / np.maximum(COUNTS, 0.5))
    old = gp._data
    object.__setattr__(old, "known_noise", False)
    object.__setattr__(old, "scaled", False)
    gp.save(tmp_path / "old.asvgp", full=True)
    again = asvgp.load(tmp_path / "old.asvgp")
    assert again.elbo_ == gp.elbo_
    again.partial_fit(X[:5], Y[:5])
    with pytest.raises(ValueError, match="fitted by an earlier version"):
        again.partial_fit(X[:5], Y[:5], sample_weight=2.0)


# ---------------------------------------------------------------- masked weights


@pytest.mark.parametrize("hidden", [0.0, 1e6])
@pytest.mark.parametrize("name", ["sample_weight", "noise_variance", "width"])
def test_masked_weights_are_refused(name, hidden):
    x = np.linspace(0.0, 10.0, 40)
    mask = x < 1.0
    weights = np.ma.array(np.where(mask, hidden, 1.0), mask=mask)
    gp = GPRegressor(Matern32(), num_basis=20)
    for method in (gp.fit, gp.partial_fit):
        with pytest.raises(ValueError, match=rf"{name} is masked in 4 of 40 rows \(0, 1, 2, 3\)"):
            method(x, np.sin(x), **{name: weights})
    weights.mask = False
    if hidden and name != "width":
        gp.fit(x, np.sin(x), **{name: weights})


def test_masked_weights_of_a_grid_are_refused():
    axes = np.arange(5.0), np.arange(8.0)
    weights = np.ma.array(np.ones((5, 8)), mask=np.eye(5, 8, dtype=bool))
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=8)
    with pytest.raises(ValueError, match=r"sample_weight is masked in 5 of 40 rows \(0, 9, 18"):
        gp.fit(axes, np.sin(np.add.outer(*axes)), sample_weight=weights)


def test_masked_weights_of_new_data_are_refused():
    x = np.linspace(0.0, 10.0, 40)
    gp = GPRegressor(Matern32(), num_basis=20).fit(x, np.sin(x))
    weights = np.ma.array(np.ones(40), mask=x < 1.0)
    with pytest.raises(ValueError, match="sample_weight is masked in 4 of 40 rows"):
        gp.score(x, np.sin(x), sample_weight=weights)
    with pytest.raises(ValueError, match="noise_variance is masked in 4 of 40 rows"):
        gp.predict(x, return_std=True, include_noise=True, noise_variance=weights)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("missing", ["weight", "target"])
def test_rows_that_are_not_there_may_lie_beyond_the_domain_when_rows_are_left_out(inputs, missing):
    rng = np.random.default_rng(2)
    X = rng.uniform(0.0, 1.0, (40, inputs))
    y, weight = np.sin(3.0 * X.sum(axis=1)), np.ones(40)
    X[7] = 3.0
    if missing == "weight":
        weight[7] = 0.0
    else:
        y[7] = np.nan
    kernel = Matern32(0.5, dim=0) if inputs == 1 else Matern32(0.5, dim=0) * Matern32(0.5, dim=1)
    gp = GPRegressor(kernel, num_basis=8, noise_variance=0.1, optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a target is missing
        gp.fit(X, y, sample_weight=weight)
    left = gp.leave_one_out(X, y, sample_weight=weight)
    rest = np.arange(40) != 7
    there = gp.leave_one_out(X[rest], y[rest])
    assert np.isnan(left.mean[7])
    np.testing.assert_array_equal(left.mean[rest], there.mean)
    np.testing.assert_array_equal(left.log_density[rest], there.log_density)
