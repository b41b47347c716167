"""Summaries of models with likelihoods that are not Gaussian."""

import warnings
from math import isnan, nan

import numpy as np
import pytest

from asvgp import Bernoulli, Constant, GPRegressor, Matern32, NegativeBinomial, Poisson
from asvgp.likelihoods import Gaussian
from tests.family_models import NAMES, fitted

KERNEL = Matern32(2.0) + Constant()


def quick(likelihood, x, y, **beside):
    gp = GPRegressor(KERNEL, num_basis=24, likelihood=likelihood)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about training on so few rows
        return gp.fit(x, y, **beside)


@pytest.mark.parametrize("name", NAMES)
def test_summary_tells_of_every_family(name):
    gp, X, y, beside = fitted(name)
    found = gp.summary()
    text = str(found)
    assert type(gp.likelihood_).__name__ in text
    assert "none is known for this likelihood" in text
    assert isnan(found.evidence_upper_bound)
    assert isnan(gp.evidence_upper_bound_)
    assert found.steps == gp.optimization_.steps > 0
    assert found.deviance_explained == pytest.approx(gp.score(X, y, **beside), abs=1e-12)
    owned = {row["name"]: row for row in found.hyperparameters}
    for parameter, value in zip(gp.likelihood_.parameters, gp.likelihood_.values, strict=True):
        assert owned[parameter]["estimate"] == value
    assert "noise" not in {row["component"] for row in found.hyperparameters}


def test_families_have_no_noise_variance_and_gaussian_noise_has():
    gp, *_ = fitted("poisson")
    with pytest.raises(AttributeError, match=r"Poisson\(\), which has no noise variance"):
        _ = gp.noise_variance_
    assert isinstance(gp.likelihood_, Poisson)
    assert gp.objective_ == "elbo"
    x = np.linspace(0.0, 10.0, 50)
    usual = GPRegressor(KERNEL, num_basis=24).fit(x, np.sin(x))
    assert usual.likelihood_ == Gaussian(usual.noise_variance_)
    assert usual.summary().likelihood == "Gaussian"


def test_scatter_beyond_that_of_poisson_counts_is_found():
    rng = np.random.default_rng(1)
    x = np.linspace(0.0, 10.0, 400)
    rate = np.exp(2.0 + np.sin(x))
    wide = rng.poisson(rate * rng.gamma(1.0, 1.0, 400))
    found = quick(Poisson(), x, wide).summary()
    assert found.scatter > 1.5
    assert any("NegativeBinomial()" in finding for finding in found.findings)
    assert "NegativeBinomial()" in " ".join(str(found).split())
    right = quick(Poisson(), x, rng.poisson(rate)).summary()
    assert right.scatter == pytest.approx(1.0, abs=0.25)
    assert right.findings == ()
    assert quick(NegativeBinomial(), x, wide).summary().findings == ()


def test_counts_without_further_scatter_need_no_dispersion():
    rng = np.random.default_rng(2)
    x = np.linspace(0.0, 10.0, 400)
    gp = quick(NegativeBinomial(dispersion=9e5), x, rng.poisson(5.0, 400))
    assert gp.summary().findings == ()  # it was given
    trained = quick(NegativeBinomial(), x, rng.binomial(10, 0.9, 400))  # scatters less
    assert any("Poisson()" in finding for finding in trained.summary().findings)


def test_classes_that_are_separable_or_one_are_found():
    x = np.linspace(0.0, 10.0, 60)
    apart = quick(Bernoulli(), x, (x > 5.0).astype(float)).summary()
    assert any("separable" in finding for finding in apart.findings)
    one = quick(Bernoulli(), x, np.ones(60)).summary()
    assert any("all y are 1" in finding for finding in one.findings)
    mixed = fitted("bernoulli")[0].summary()
    assert mixed.findings == ()
    assert isnan(mixed.scatter)


def test_events_at_one_place_and_none_at_all_are_found():
    x = np.linspace(0.0, 10.0, 60)
    none = quick(Poisson(), x, np.zeros(60)).summary()
    assert any("all counts are zero" in finding for finding in none.findings)
    once = quick(Poisson(), x, (x == x[30]).astype(float)).summary()
    assert any("at one place" in finding for finding in once.findings)


def test_without_rows_nothing_is_said_of_them():
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 10.0, 100)
    gp = GPRegressor(KERNEL, num_basis=24, domain=(0.0, 10.0), likelihood=Poisson())
    for part in np.split(x, 2):
        gp.partial_fit(part, rng.poisson(np.exp(1.0 + np.sin(part))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gp.summary()
    assert found.looked_at == 0
    assert isnan(found.deviance_explained)
    assert "deviance" not in str(found)


def test_errors_of_kernels_with_sites_held_are_near_those_of_the_bound_itself():
    """Against second differences of the bound, maximised over sites at every place."""
    gp, X, y, beside = fitted("poisson")
    errors = [row["log_error"] for row in gp.summary().hyperparameters]
    step, kernel = 0.1, gp.kernel_
    values = {"lengthscale": kernel.components[0].lengthscale}
    values["variance"] = kernel.components[0].variance

    def bound(length, size):
        other = Matern32(values["lengthscale"] * np.exp(length), values["variance"] * np.exp(size))
        model = GPRegressor(other + Constant(), num_basis=24, likelihood=Poisson(), optimizer=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X, y, **beside).elbo_

    here = bound(0.0, 0.0)
    hessian = np.full((2, 2), nan)
    for i, (a, b) in enumerate(((step, 0.0), (0.0, step))):
        hessian[i, i] = bound(a, b) - 2.0 * here + bound(-a, -b)
    mixed = bound(step, step) - bound(step, -step) - bound(-step, step) + bound(-step, -step)
    hessian[0, 1] = hessian[1, 0] = 0.25 * mixed
    expected = np.sqrt(np.diag(np.linalg.inv(-hessian / step**2)))
    np.testing.assert_allclose(errors[:2], expected, rtol=0.2)
