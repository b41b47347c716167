"""Data that count for less than a row, or tell of no event: answers stay modest."""

import numpy as np
import pytest

from asvgp import (
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Heteroscedastic,
    Matern32,
    NegativeBinomial,
    Poisson,
    Weibull,
    ZeroInflatedPoisson,
)
from asvgp.sites.readings import Found
from asvgp.sites.settle import look
from tests.family_models import fitted

N = 100
RNG = np.random.default_rng(6)
X = np.sort(RNG.uniform(0.0, 10.0, N))
LEVEL = np.exp(np.sin(X))
COUNTS, TIMES = RNG.poisson(3.0 * LEVEL) * 1.0, LEVEL * RNG.weibull(2.0, N)
KERNEL = Matern32(2.0) + Constant()
FAMILIES = [
    (Poisson(), COUNTS),
    (NegativeBinomial(), COUNTS),
    (ZeroInflatedPoisson(), COUNTS),
    (Gamma(), TIMES),
    (Exponential(), TIMES),
    (Weibull(), TIMES),
    (Heteroscedastic(), COUNTS),
]
each_family = pytest.mark.parametrize(("family", "y"), FAMILIES, ids=lambda f: type(f).__name__)


def model(family):
    return GPRegressor(KERNEL, num_basis=20, likelihood=family)


@each_family
def test_weights_that_sum_to_one_are_one_row(family, y):
    gp = model(family)
    with pytest.warns(UserWarning, match="weights of 100 rows sum to 1, .* count for 1 rows"):
        gp.fit(X, y, sample_weight=np.full(N, 1.0 / N))
    mean = gp.predict(X)
    assert np.all(np.abs(mean) < 100.0 * y.max())
    assert gp.elbo_ < 0.0


@each_family
def test_weights_that_leave_nothing_are_refused(family, y):
    for weight in (1e-4, 1e-8):
        with pytest.raises(ValueError, match=r"count for .* rows, too few to learn anything"):
            model(family).fit(X, y, sample_weight=np.full(N, weight))


@pytest.mark.parametrize("family", [Exponential(), Weibull()], ids=repr)
def test_no_event_is_told(family):
    gp = model(family)
    with pytest.warns(UserWarning, match=r"No event was seen.*how long times are is up to them"):
        gp.fit(X, TIMES, event=np.zeros(N))
    assert TIMES.mean() < gp.predict(X).max() < 1e9
    with pytest.warns(UserWarning, match="All y are alike"):
        model(family).fit(X, np.full(N, 2.0))


def test_no_counts_are_told_without_times():
    with pytest.warns(UserWarning, match=r"All y are alike.*kept as given\.$"):
        model(Poisson()).fit(X, np.zeros(N))


def test_few_rows_without_weights_are_not_warned_of():
    assert not model(Poisson()).fit(X[:5], COUNTS[:5]).optimization_.notes


@pytest.mark.parametrize("given", [{}, {"optimizer": None}], ids=repr)
def test_constant_y_has_no_noise_that_varies(given):
    with pytest.raises(ValueError, match=r"y is constant .*likelihood=Gaussian\(\)"):
        GPRegressor(KERNEL, likelihood=Heteroscedastic(), **given).fit(X, np.full(N, 3.0))


def test_a_negative_divergence_is_no_bound(monkeypatch):
    gp, *_ = fitted("poisson")
    posterior = gp.posterior_
    sites = posterior.engine.statistics

    class Said:
        """What data say, whatever the posterior."""

        def found(self, *_):
            return Found(-1.0, np.zeros(0), sites)

    def bound():
        return look(Said(), Poisson(), posterior, posterior.kernel, sites).bound  # pyright: ignore

    assert np.isfinite(bound())
    monkeypatch.setattr(type(posterior.factored), "divergence", lambda self: -1e9)
    assert bound() == -np.inf
