"""Small fitted models with every likelihood that is not Gaussian, for tests of what shows them."""

import warnings
from functools import cache

import numpy as np

from asvgp import (
    Bernoulli,
    Beta,
    Binomial,
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Heteroscedastic,
    Matern32,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)

ROWS = 150


def seen(name: str, rows: int = ROWS, inputs: int = 1):
    """Return family, X, y and what else belongs to rows, of a smooth f."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 10.0, (rows, inputs))
    f = np.sin(X[:, 0]) + (0.4 * X[:, 1] - 2.0 if inputs > 1 else 0.0)
    rate, share = np.exp(1.0 + f), 1.0 / (1.0 + np.exp(-2.0 * f))
    effort = rng.uniform(0.5, 3.0, rows)
    trials, event = rng.integers(1, 9, rows).astype(float), (rng.random(rows) < 0.8).astype(float)
    gaps = 2.0 * f + rng.logistic(size=rows)
    cases = {
        "poisson": (Poisson(), rng.poisson(rate * effort), {"exposure": effort}),
        "negative binomial": (NegativeBinomial(), rng.poisson(rate * rng.gamma(2.0, 0.5, rows))),
        "zero-inflated": (ZeroInflatedPoisson(), rng.poisson(rate) * (rng.random(rows) < 0.7)),
        "bernoulli": (Bernoulli(), rng.random(rows) < share),
        "binomial": (Binomial(), rng.binomial(trials.astype(int), share), {"trials": trials}),
        "ordinal": (Ordinal(4), np.digitize(gaps, [-1.5, 0.0, 1.5])),
        "gamma": (Gamma(), rate * rng.gamma(3.0, 1.0 / 3.0, rows)),
        "exponential": (Exponential(), rng.exponential(rate), {"event": event}),
        "weibull": (Weibull(), rate * rng.weibull(2.0, rows)),
        "beta": (Beta(), rng.beta(9.0 * share + 1.0, 9.0 * (1.0 - share) + 1.0)),
        "student t": (StudentT(), f + 0.2 * rng.standard_t(3.0, rows)),
        "varying noise": (
            Heteroscedastic(),
            f + np.exp(0.2 * X[:, 0] - 2.5) * rng.standard_normal(rows),
        ),
    }
    family, y, *beside = cases[name]
    X = X[:, 0] if inputs == 1 else X
    return family, X, np.asarray(y, dtype=float), (beside[0] if beside else {})


NAMES = [
    "poisson",
    "negative binomial",
    "zero-inflated",
    "bernoulli",
    "binomial",
    "ordinal",
    "gamma",
    "exponential",
    "weibull",
    "beta",
    "student t",
    "varying noise",
]


@cache
def fitted(name: str, inputs: int = 1):
    """Return a fitted model, X, y and what else belongs to rows."""
    family, X, y, beside = seen(name, inputs=inputs)
    kernel = Matern32(2.0) + Constant()
    if inputs > 1:
        kernel = Matern32(2.0, dim=0) * Matern32(5.0, dim=1) + Constant()
    gp = GPRegressor(kernel, num_basis=24 if inputs == 1 else 8, likelihood=family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about training on so few rows
        gp.fit(X, y, **beside)
    return gp, X, y, beside
