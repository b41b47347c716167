"""Other units of y, or of exposure, change nothing but the level of f."""

import numpy as np
import pytest

from asvgp import (
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Matern,
    Matern32,
    NegativeBinomial,
    Poisson,
    Weibull,
)
from asvgp.sites.readings import NodeReading

N = 150
RNG = np.random.default_rng(4)
X = RNG.uniform(0.0, 1.0, (N, 2))
LEVEL = np.exp(np.sin(6.0 * X[:, 0]))
Y = {
    Gamma: LEVEL * RNG.gamma(3.0, 1.0, N),
    Exponential: LEVEL * RNG.exponential(1.0, N),
    Weibull: LEVEL * RNG.weibull(2.0, N),
    Poisson: RNG.poisson(5.0 * LEVEL).astype(float),
}
KERNELS = {1: Matern32(0.3) + Constant(), 2: Matern(1, 0.3, dim=(0, 1)) + Constant()}
# The level has a prior with a standard deviation of a hundred: e-folds of the unit cost a little.
PRIOR = np.log(1e9) ** 2 / 2e4 + 0.005


def fitted(family, inputs, unit, y=None):
    model = GPRegressor(KERNELS[inputs], num_basis=8 if inputs == 2 else 20, likelihood=family())
    y, given = Y[family] if y is None else y, {}
    if family is Poisson:
        given = {"exposure": unit}
    else:
        y = unit * y
    return model.fit(X[:, :inputs], y, **given)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("family", Y)
def test_units_change_neither_kernel_nor_bound(family, inputs):
    plain = fitted(family, inputs, 1.0)
    for unit in (1e-9, 1e9):
        other = fitted(family, inputs, unit)
        jacobian = 0.0 if family is Poisson else N * np.log(unit)
        assert other.elbo_ + jacobian == pytest.approx(plain.elbo_, abs=PRIOR)
        np.testing.assert_allclose(other.kernel_.values, plain.kernel_.values, rtol=5e-3)
        scale = 1.0 / unit if family is Poisson else unit
        places = X[:9, :inputs]
        np.testing.assert_allclose(other.predict(places) / scale, plain.predict(places), rtol=2e-3)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("unit", [1e-90, 1e15, 1e90])
def test_extreme_units_lose_no_digits(unit, inputs):
    plain, other = fitted(Gamma, inputs, 1.0), fitted(Gamma, inputs, unit)
    assert other.elbo_ + N * np.log(unit) == pytest.approx(
        plain.elbo_, abs=np.log(unit) ** 2 / 1.8e4
    )
    np.testing.assert_allclose(other.kernel_.values, plain.kernel_.values, rtol=0.02)


@pytest.mark.parametrize("unit", [1e-300, 1e-120, 1e120, 1e300])
@pytest.mark.parametrize("family", [Gamma, Exponential, Weibull])
def test_units_beyond_all_are_refused(family, unit):
    with pytest.raises(
        ValueError, match=r"y must contain numbers between 1e-100 and 1e\+100.*in row 0"
    ):
        fitted(family, 1, unit)


@pytest.mark.parametrize("family", [Poisson, NegativeBinomial])
@pytest.mark.parametrize("exposure", [1e-300, 1e300])
def test_exposures_beyond_all_are_refused(family, exposure):
    model = GPRegressor(KERNELS[1], num_basis=9, likelihood=family())
    with pytest.raises(ValueError, match="exposure, must contain numbers between -230 and 230"):
        model.fit(X[:, :1], Y[Poisson], exposure=exposure)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_times_that_are_alike_are_told_in_any_unit(unit, inputs):
    with pytest.warns(UserWarning, match="All y are alike"):
        fitted(Exponential, inputs, unit, np.full(N, 0.1))


@pytest.mark.filterwarnings("ignore:The Gaussian approximation of the likelihood still changed")
def test_counts_that_scatter_by_little_are_not_alike():
    """Their deviation is a ten-millionth of them, as Poisson's scatter is."""
    counts = RNG.poisson(1e14, N).astype(float)
    model = GPRegressor(KERNELS[1], num_basis=9, likelihood=Poisson(), optimizer=None)
    data = model.fit(X[:, :1], counts)._fit_data()
    assert not NodeReading(data.structure, data.stats).alike
