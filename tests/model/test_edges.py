"""Numbers at the edge: right to the digits that double precision leaves, or refused."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern12, Matern32, Matern52
from tests.oracle.compare import check
from tests.oracle.models import Model

N = 24
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 1.0, N))
Y = np.sin(6.0 * X) + 0.1 * RNG.standard_normal(N)
NEW = np.array([0.1, 0.55, 0.9, 1.3])


def exact(lengthscale: float, variance: float, noise: float, y):
    """Return evidence, means and standard deviations of Matern32 with fifty digits."""
    with mp.workdps(50):
        rate = mp.sqrt(3) / mp.mpf(lengthscale)

        def k(a, b):
            z = rate * abs(mp.mpf(float(a)) - mp.mpf(float(b)))
            return mp.mpf(variance) * (1 + z) * mp.exp(-z)

        A = mp.matrix(N, N)
        for i in range(N):
            for j in range(N):
                A[i, j] = k(X[i], X[j]) + (mp.mpf(noise) if i == j else 0)
        root, target = mp.cholesky(A), mp.matrix([mp.mpf(float(v)) for v in y])
        alpha = mp.cholesky_solve(A, target)
        evidence = -sum(mp.log(root[i, i]) for i in range(N)) - N * mp.log(2 * mp.pi) / 2
        evidence -= (target.T * alpha)[0] / 2
        means, stds = [], []
        for x in NEW:
            cross = mp.matrix([k(x, v) for v in X])
            means.append((cross.T * alpha)[0])
            stds.append(mp.sqrt(mp.mpf(variance) - (cross.T * mp.cholesky_solve(A, cross))[0]))
        return float(evidence), np.array(means, float), np.array(stds, float)


def close(lengthscale, variance, noise, num_basis, share, y=Y):
    """Compare a fit with the exact process, as far as the distance of its bound allows."""
    kernel = Matern32(lengthscale, variance)
    gp = GPRegressor(kernel, num_basis=num_basis, noise_variance=noise, optimizer=None).fit(X, y)
    evidence, means, stds = exact(lengthscale, variance, noise, y)
    rounding = 1e-9 * abs(evidence) + 1e-7
    assert gp.elbo_ <= evidence + rounding
    assert gp.evidence_upper_bound_ >= evidence - rounding
    mean, std = gp.predict(NEW, return_std=True)
    off = np.sqrt(2.0 * max(0.0, evidence - gp.elbo_)) + share
    assert np.all(np.abs(mean - means) <= off * stds + 1e-9 * np.abs(y).max())
    assert np.all(np.abs(std / stds - 1.0) <= 2.0 * off)


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9, 1e12])
def test_noise_from_next_to_nothing_to_nearly_everything(noise):
    close(0.5, 1.0, noise, 2000, 1e-3)


@pytest.mark.parametrize("length", [1e-6, 1e-3, 1.0, 1e2, 1e4, 1e6])
def test_lengthscales_from_a_part_of_a_cell_to_a_million_domains(length):
    close(length, 1.0, 0.01, 1000, 1e-3)


@pytest.mark.parametrize("unit", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("along", ["x", "y"])
def test_units_do_not_matter_to_given_hyperparameters(unit, along):
    x, y = (unit, 1.0) if along == "x" else (1.0, unit)
    settings = {"num_basis": 100, "optimizer": None}
    one = GPRegressor(Matern52(0.3, 2.0), noise_variance=0.01, **settings).fit(X, Y)
    kernel = Matern52(0.3 * x, 2.0 * y**2)
    other = GPRegressor(kernel, noise_variance=0.01 * y**2, **settings).fit(X * x, Y * y)
    assert other.elbo_ + N * np.log(y) == pytest.approx(one.elbo_, abs=1e-8)
    for mine, theirs in zip(
        one.predict(NEW, return_std=True), other.predict(NEW * x, return_std=True), strict=True
    ):
        np.testing.assert_allclose(theirs / y, mine, rtol=1e-9, atol=1e-10)


SERIES = np.linspace(0.0, 20.0, 300)
WAVE = np.sin(SERIES) + 0.3 * np.random.default_rng(1).standard_normal(300)


@pytest.mark.parametrize(
    "shift, scale, lift, stretch",
    [
        (0.0, 1.0, 0.0, 1e-30),
        (0.0, 1.0, 0.0, 1e30),
        (0.0, 1e-30, 0.0, 1.0),
        (0.0, 1e30, 0.0, 1.0),
        (0.0, 3.7, 0.0, 0.02),
        (500.0, 1.0, 0.0, 1.0),
        (0.0, 1.0, 1e4, 1.0),
        (-1e3, 0.01, -40.0, 1e3),
    ],
)
@pytest.mark.parametrize("kernel", [None, Matern32() + Constant()], ids=["default", "Matern32"])
def test_fits_move_and_stretch_with_the_data(shift, scale, lift, stretch, kernel):
    x, y = SERIES, WAVE
    new = np.array([1.3, 2.2, 15.5, 23.0])
    one = GPRegressor(kernel).fit(x, y)
    other = GPRegressor(kernel).fit(shift + scale * x, lift + stretch * y)
    mean, std = one.predict(new, return_std=True)
    moved, spread = other.predict(shift + scale * new, return_std=True)
    np.testing.assert_allclose((moved - lift) / stretch, mean, atol=1e-6 * np.ptp(y))
    np.testing.assert_allclose(spread / stretch, std, atol=1e-6 * np.ptp(y))


@pytest.mark.parametrize(
    "shift, scale, lift, stretch",
    [(0.0, 1.0, 0.0, 1e30), (0.0, 1e-30, 0.0, 1.0), (3.0, 0.2, 100.0, 7.0)],
)
def test_maps_move_and_stretch_with_the_data(shift, scale, lift, stretch):
    rng = np.random.default_rng(0)
    X, new = rng.uniform(size=(150, 2)), rng.uniform(size=(20, 2))
    y = np.sin(4.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(150)
    mean, std = GPRegressor().fit(X, y).predict(new, return_std=True)
    other = GPRegressor().fit(shift + scale * X, lift + stretch * y)
    moved, spread = other.predict(shift + scale * new, return_std=True)
    np.testing.assert_allclose((moved - lift) / stretch, mean, atol=1e-6 * np.ptp(y))
    np.testing.assert_allclose(spread / stretch, std, atol=1e-6 * np.ptp(y))


@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12])
def test_large_offsets_leave_the_digits_that_numbers_have(offset):
    settings = {"num_basis": 100, "noise_variance": 0.1, "optimizer": None}
    x, y = offset + SERIES, offset + WAVE
    one = GPRegressor(Matern32(2.0) + Constant(), **settings).fit(x - offset, y - offset)
    new = np.array([1.3, 2.2, 15.5])
    for inputs, targets, moved in ((x, y - offset, offset), (x - offset, y, 0.0)):
        other = GPRegressor(Matern32(2.0) + Constant(), **settings).fit(inputs, targets)
        base = offset if targets is y else 0.0
        mean, std = other.predict(moved + new, return_std=True)
        digits = 1e-6 + 16.0 * np.spacing(offset)
        np.testing.assert_allclose(mean - base, one.predict(new), atol=digits)
        np.testing.assert_allclose(std, one.predict(new, return_std=True)[1], atol=digits)


@pytest.mark.parametrize("kernel", ["Matern12", "Matern32", "Matern52", "Matern72"])
def test_one_row_is_a_model_on_a_given_domain_and_refused_without(kernel):
    model = Model(0, 1, "np.array([0.4])", "np.sin(X)", 0.1, (f"{kernel}(0.5, 2.0)",), (), "60")
    assert "Give one with domain" in check(model).refused
    outcome = check(Model(**{**vars(model), "domain": "(0.0, 1.0)"}))
    assert not outcome.wrong
    assert outcome.checked > 10


@pytest.mark.parametrize("noise", [1e-8, 0.1])
def test_duplicated_rows_are_rows_of_weight_two(noise):
    settings = {"num_basis": 60, "noise_variance": noise, "optimizer": None}
    twice = GPRegressor(Matern12(0.5), **settings).fit(np.repeat(X, 2), np.repeat(Y, 2))
    weighed = GPRegressor(Matern12(0.5), **settings).fit(X, Y, sample_weight=np.full(N, 2.0))
    assert twice.elbo_ == pytest.approx(weighed.elbo_, rel=1e-10)
    for one, other in zip(
        twice.predict(NEW, return_std=True), weighed.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)
