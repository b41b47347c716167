"""Settings beyond what double precision can work with: a clear error, never a raw one."""

import numpy as np
import pytest

from asvgp import SHO, Constant, GPRegressor, Matern12, Matern32, Matern52, Matern72, Periodic

X = np.linspace(0.0, 10.0, 40)
Y = np.sin(X) + 0.1 * np.random.default_rng(0).standard_normal(40)
KEPT = {"optimizer": None, "noise_variance": 1.0}


def refused(match, **settings):
    with pytest.raises(ValueError, match=match):
        GPRegressor(**{"num_basis": 20} | settings).fit(X, Y)


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52, Matern72, SHO])
@pytest.mark.parametrize("scale", [1e300, 1e160, 1e-160, 1e-300])
def test_lengths_far_beyond_the_data(kernel, scale):
    name = kernel().scales[0]
    refused(
        rf"{kernel.__name__}: {name} is .*range of the data, 10, .*between 1e-29 and 1e\+31",
        kernel=kernel(scale),
        **KEPT,
    )
    gp = GPRegressor(kernel(scale), num_basis=20).fit(X, Y)  # where it is only begun with
    assert np.isfinite(gp.elbo_)


@pytest.mark.parametrize("scale", [1e30, 1e-28])
@pytest.mark.parametrize("kernel", [Matern12, Matern72, SHO])
def test_lengths_that_are_far_but_not_too_far(kernel, scale):
    gp = GPRegressor(kernel(scale), num_basis=20, **KEPT).fit(X, Y)
    assert np.isfinite([gp.elbo_, *gp.predict(X), *gp.predict(X, return_std=True)[1]]).all()


@pytest.mark.parametrize("variance", [1e300, 1e-300])
def test_variances_far_beyond_the_data(variance):
    match = "is 1e.300: beside the mean square of y, 0.4"
    kernel = Matern32(1.0, variance)
    refused(f"Matern32: variance {match}", kernel=kernel, **KEPT)
    refused(f"Matern32: variance {match}", kernel=kernel + Constant(), **KEPT)
    fixed = Matern32(1.0, variance, fixed="variance")
    refused(f"Matern32: variance {match}", kernel=fixed + Matern12())
    refused(f"noise_variance {match}", optimizer=None, kernel=Matern32(), noise_variance=variance)
    assert GPRegressor(kernel, num_basis=20).fit(X, Y).elbo_ > 0.0


def test_what_a_variance_is_far_from_are_the_data():
    gp = GPRegressor(Matern32(1.0, 1e120), num_basis=20, optimizer=None, noise_variance=1e118)
    assert np.isfinite(gp.fit(X, 1e60 * Y).elbo_)


def test_periods_far_beyond_the_data():
    refused("Periodic: the period 1e.30 is more than .* times the range", kernel=Periodic(1e30))
    refused("SHO: quality is 1e.300: beside one", kernel=SHO(1.0, 1e300), **KEPT)


@pytest.mark.parametrize("domain", [(-1e300, 1e300), (-1e308, 1.7e308), (0.0, 1e100)])
def test_domains_that_are_too_wide(domain):
    refused("is wider than double precision can work with", domain=domain, kernel=Matern32())


@pytest.mark.parametrize("value", [1e300, 1e-300])
def test_several_inputs(value):
    plane = np.random.default_rng(1).uniform(0.0, 1.0, (60, 2))
    for kernel in (Matern32(value), Matern32(1.0, value), Matern32(value, dim=0) + Matern32(dim=1)):
        with pytest.raises(ValueError, match=r"(Matern32|Product): .* is 1e.300: beside"):
            GPRegressor(kernel, num_basis=6, **KEPT).fit(plane, plane[:, 0])
