"""Data that say next to nothing, or say it over many orders of magnitude."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import (
    Bernoulli,
    Beta,
    Binomial,
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Matern32,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)

N = 120
MOST_STEPS = 25  # to the sites of one state of the hyperparameters
RNG = np.random.default_rng(1)
X = np.random.default_rng(3).uniform(0.0, 1.0, (N, 2))
X = X[np.argsort(X[:, 0])]
NONE, ONE, HALF = np.zeros(N), (np.arange(N) == N // 3) * 1.0, (X[:, 0] > 0.5) * 1.0
RATE = np.exp(-3.0 + 17.0 * X[:, 0])  # over 17 e-folds
COUNTS, TIMES = RNG.poisson(RATE) * 1.0, RNG.exponential(1.0, N)
SEEN = (RNG.random(N) < 0.7) * 1.0
GROSS = RNG.random(N) < 0.2  # outliers
MEASURED = np.sin(6.0 * X[:, 0]) + 0.1 * RNG.standard_normal(N)
MEASURED[GROSS] += RNG.choice([-1.0, 1.0], GROSS.sum()) * RNG.uniform(5.0, 50.0, GROSS.sum())
LEVELS = np.floor(np.clip(4.0 * X[:, 0], 0.0, 3.999))
TRIALS = {"trials": np.full(N, 5.0)}

COUNTED = [Poisson(), NegativeBinomial(), NegativeBinomial(2.0), ZeroInflatedPoisson(0.3)]
CLASSES = [Bernoulli(), Bernoulli("probit")]
ORDERED = [Ordinal(4), Ordinal(4, gaps=(1.0, 1.0), first=-1.0)]
CASES = {
    "no counts": [(family, NONE, {}) for family in COUNTED],
    "no successes": [(Binomial(), NONE, TRIALS)],
    "one class": [(family, 1.0 + NONE, {}) for family in CLASSES],
    "one level": [(family, level + NONE, {}) for family in ORDERED for level in (0.0, 1.0, 3.0)],
    "separable": [(family, HALF, {}) for family in CLASSES]
    + [(family, LEVELS, {}) for family in ORDERED]
    + [(Binomial(), 5.0 * HALF, TRIALS), (Beta(10.0), np.clip(HALF, 1e-6, 1.0 - 1e-6), {})],
    "one event": [(family, ONE, {}) for family in (*COUNTED, *CLASSES)]
    + [(Binomial(), ONE, TRIALS), (Ordinal(2), ONE, {})]
    + [(family, level * ONE, {}) for family in ORDERED for level in (1.0, 3.0)]
    + [(family, TIMES, {"event": ONE}) for family in (Exponential(), Weibull())],
    "no event": [(family, TIMES, {"event": NONE}) for family in (Exponential(), Weibull())],
    "17 e-folds": [(family, COUNTS, {}) for family in COUNTED]
    + [(family, TIMES * RATE, {"event": SEEN}) for family in (Exponential(), Weibull())]
    + [(family, TIMES * RATE, {}) for family in (Gamma(), Gamma(2.0))],
    "outliers": [(StudentT(), MEASURED, {}), (StudentT(3.0, 0.1), MEASURED, {})],
}
ALL = [(name, *case) for name, cases in CASES.items() for case in cases]
NAMES = [f"{name}: {family!r}" for name, family, *_ in ALL]
TWICE = np.random.default_rng(5).uniform(0.0, 1.0, (200, 2))
TWICE[:, 0] = np.linspace(0.0, 1.0, 200)


def check(gp, x, beside):
    """Raise unless predictions are finite and no wider than they can be."""
    given = {key: value for key, value in beside.items() if key == "trials"}
    mean, std = gp.predict(x, return_std=True, **given)
    link, spread = gp.predict(x, return_std=True, type="link")
    ends = gp.predict_quantiles(x, (0.025, 0.975), include_noise=True, **given)
    for values in (mean, std, ends, link, spread):
        assert np.all(np.isfinite(values))
    assert np.all(std >= 0.0)
    assert np.all(ends[:, 0] <= ends[:, 1])
    assert np.isfinite(gp.elbo_)
    return mean, spread


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize(("name", "family", "y", "beside"), ALL, ids=NAMES)
def test_sites_settle_in_few_steps(name, family, y, beside, inputs):
    kernel, x = Matern32(0.3, 2.0) + Constant(), X[:, 0]
    if inputs == 2:
        kernel, x = Matern32(0.3, 2.0, dim=0) * Matern32(0.5, dim=1) + Constant(), X
    basis = 30 if inputs == 1 else 10
    gp = GPRegressor(kernel, num_basis=basis, likelihood=family, optimizer=None)
    mean, spread = check(gp.fit(x, y, **beside), x, beside)
    assert gp.optimization_.steps <= MOST_STEPS
    assert not [note for note in gp.optimization_.notes if "settle" in note]
    if name in ("no counts", "no successes"):
        assert mean.max() < 0.02  # of 120 rows, none
        assert spread.max() < 5.0
    if name == "17 e-folds":
        assert np.corrcoef(np.log(mean), np.log(RATE))[0, 1] > 0.95


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("row", [66, 100])
@pytest.mark.parametrize("level", [1.0, 2.0, 3.0])
def test_one_row_of_another_level_takes_few_steps(level, row, inputs):
    """Steps that were mixed gained less than plain ones would, and there were 28."""
    kernel, x = Matern32(0.3, 2.0) + Constant(), TWICE[:, 0]
    if inputs == 2:
        kernel, x = Matern32(0.3, 2.0, dim=0) * Matern32(0.5, dim=1) + Constant(), TWICE
    basis = 30 if inputs == 1 else 10
    gp = GPRegressor(kernel, num_basis=basis, likelihood=Ordinal(4), optimizer=None)
    check(gp.fit(x, level * (np.arange(200) == row)), x, {})
    assert gp.optimization_.steps <= MOST_STEPS


@pytest.mark.filterwarnings("ignore")  # about what such data leave open
@pytest.mark.parametrize(("name", "family", "y", "beside"), ALL, ids=NAMES)
def test_defaults_are_trained(name, family, y, beside):
    gp = GPRegressor(likelihood=family).fit(X[:, 0], y, **beside)
    mean, _ = check(gp, X[:, 0], beside)
    if name == "separable":
        scale = {"level": 3.0, "share": TRIALS["trials"][0] if beside else 1.0}
        assert np.abs(mean - y).mean() < 0.1 * scale[family.inverse_link]
    if name == "17 e-folds":
        assert np.corrcoef(np.log(mean), np.log(RATE))[0, 1] > 0.98
    if name == "outliers":
        assert np.sqrt(np.mean((mean - np.sin(6.0 * X[:, 0])) ** 2)) < 0.2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("family", "y", "beside"),
    [
        (Poisson(), NONE, {}),
        (Bernoulli("probit"), HALF, {}),
        (Gamma(), TIMES * RATE, {}),
    ],
    ids=["no counts", "separable", "17 e-folds"],
)
def test_two_inputs_are_trained_by_default(family, y, beside):
    check(GPRegressor(likelihood=family).fit(X, y, **beside), X, beside)
