"""Fifty digits: log-determinants, selected inverse, bound and gradient against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from asvgp import SHO, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid, log_jacobian
from asvgp.model.elimination import eliminate
from asvgp.model.prior import ChainPrior, Prior
from asvgp.posterior.chain import ChainPosterior
from asvgp.statistics import Statistics
from tests.dense import MpModel, kernel_id, spline_band
from tests.engines import lower_bound, upper_bound

RATIOS = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4]
FAMILY = [Matern12, Matern32, Matern52, Matern72]


@pytest.fixture(autouse=True)
def fifty_digits():
    """Work in fifty decimal digits."""
    with mp.workdps(50):
        yield


def data(cells, n=30, seed=0):
    """Points in knot units, both ends among them, with gaps."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([[0.0, float(cells)], rng.uniform(0, cells, n - 2)])
    x = x[(x < 0.4 * cells) | (x > 0.6 * cells)]
    return x, np.sin(x) + 0.1 * rng.standard_normal(len(x))


def blocks(matrix, cells, size):
    """Dense blocks of the inverse on every cell."""
    inverse = np.array((matrix**-1).tolist(), dtype=float)
    return [inverse[c : c + size, c : c + size] for c in range(cells)]


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("ratio", RATIOS)
def test_determinants_inverse_and_bound(family, ratio):
    cells, noise = 14, 0.05
    kernel = family(ratio, 1.7)
    grid, degree = Grid(0.0, float(cells), cells), kernel.order + 1
    x, y = data(cells)
    exact = MpModel(kernel, grid, degree, x, y, noise)
    stats = Statistics.from_data(x, y, grid, degree)
    prior = Prior(kernel, grid, degree)
    chain = eliminate(ChainPrior(kernel, grid, degree), stats, noise)
    jacobian = log_jacobian(degree, cells)
    size = cells + degree
    # Far below the 1e-6 that would do: chain coordinates do not feel lengthscale / h.
    assert abs(prior.log_det + jacobian - exact.log_det(exact.K)) < 1e-11 * size
    assert abs(chain.log_det + jacobian - exact.log_det(exact.P)) < 1e-11 * size
    for cov, matrix in ((prior.covariances(), exact.K), (chain.marginals(True)[2], exact.P)):
        mine = np.array(spline_band(cov, degree))
        truth = np.array(blocks(matrix, cells, degree + 1))
        assert np.abs(mine - truth).max() < 1e-10 * np.abs(truth).max()
    bound = lower_bound(kernel, noise, stats, degree)
    assert abs(bound.elbo - float(exact.elbo())) < 1e-9 * size


def test_smoothest_kernel_is_finite_and_monotone():
    """Matérn-7/2: log|K| grows with lengthscale / h, without an exception, far out too."""
    grid = Grid(0.0, 200.0, 200)
    values = [Prior(Matern72(ratio), grid, 4).log_det for ratio in np.geomspace(2.0, 1e6, 40)]
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) > 0.0)


@pytest.mark.parametrize(
    "kernel",
    [f(r, 1.7) for f in FAMILY for r in (0.5, 20.0, 1e3)] + [SHO(9.0, 4.0), SHO(2e3, 0.4)],
    ids=lambda k: f"{kernel_id(k)}-{k.values[0]:g}",
)
def test_gradient_against_high_precision_differences(kernel):
    cells, noise = 8, 0.05
    grid, degree = Grid(0.0, float(cells), cells), kernel.order + 1
    x, y = data(cells, n=20)
    weights = np.linspace(0.5, 2.0, len(x))
    stats = Statistics.from_data(x, y, grid, degree, weights)
    elbo = lower_bound(kernel, noise, stats, degree).gradient
    fit = lower_bound(kernel, noise, stats, degree, "evidence").gradient
    step = mp.mpf(10) ** -16

    def values(point):
        model = MpModel(kernel, grid, degree, x, y, point[-1], weights, point[:-1])
        value = model.fit()
        return value - model.missed() / (2 * model.noise), value

    point = [mp.mpf(v) for v in kernel.values] + [mp.mpf(noise)]
    for i in range(len(point)):
        up = values([v * mp.exp(step) if j == i else v for j, v in enumerate(point)])
        down = values([v * mp.exp(-step) if j == i else v for j, v in enumerate(point)])
        slopes = [float((u - d) / (2 * step)) for u, d in zip(up, down, strict=True)]
        assert [elbo[i], fit[i]] == pytest.approx(slopes, rel=1e-7, abs=1e-7)


def extreme_inputs():
    """Names and data that break lesser numerics."""
    rng = np.random.default_rng(5)
    return {
        "no data": np.empty(0),
        "one datum": np.array([3.3]),
        "one datum at each end": np.array([0.0, 8.0]),
        "on the knots": np.arange(9.0),
        "in one cell": rng.uniform(4.0, 5.0, 20),
        "equal x": np.full(25, 2.7),
    }


@pytest.mark.parametrize("noise", [1e-10, 1e-5, 1.0, 1e5, 1e10])
@pytest.mark.parametrize("name", list(extreme_inputs()))
@pytest.mark.parametrize("family", [Matern12, Matern32, Matern52])
def test_extremes_are_finite_and_right(family, name, noise):
    x = extreme_inputs()[name]
    y = np.cos(x) + 1e-3 * np.arange(len(x)) / max(len(x), 1)
    kernel, cells = family(3.0), 8
    grid, degree = Grid(0.0, float(cells), cells), kernel.order + 1
    exact = MpModel(kernel, grid, degree, x, y, noise)
    stats = Statistics.from_data(x, y, grid, degree)
    bound = lower_bound(kernel, noise, stats, degree)
    truth = float(exact.elbo())
    # y'y / noise itself is only known to rounding: that much, per unit, cannot be had.
    allowed = 1e-9 * (cells + degree) + 1e-14 * (len(x) + y @ y) / noise
    assert abs(bound.elbo - truth) < allowed + 1e-12 * abs(truth)
    assert np.all(np.isfinite(bound.gradient))
    assert upper_bound(kernel, noise, stats, degree) >= bound.elbo - allowed
    posterior = ChainPosterior(kernel, noise, stats, degree)
    new = np.linspace(0.0, cells, 23)
    mean, variance = posterior.predict(new)
    exact_mean, exact_variance = exact.predict(new)
    np.testing.assert_allclose(mean[0], exact_mean, atol=1e-6)
    np.testing.assert_allclose(variance, exact_variance, rtol=1e-5, atol=1e-13)


@pytest.mark.parametrize("noise", [1e-10, 1e-4, 1e4, 1e10])
def test_ten_thousand_equal_x(noise):
    """As one datum of ten thousand times the weight."""
    count = 10_000
    rng = np.random.default_rng(0)
    y = 0.5 + 0.1 * rng.standard_normal(count)
    kernel, grid = Matern32(3.0), Grid(0.0, 8.0, 8)
    stats = Statistics.from_data(np.full(count, 2.7), y, grid, 2)
    exact = MpModel(kernel, grid, 2, [2.7], [y.mean()], noise, [float(count)])
    mean, variance = ChainPosterior(kernel, noise, stats, 2).predict(np.linspace(0, 8, 17))
    exact_mean, exact_variance = exact.predict(np.linspace(0, 8, 17))
    np.testing.assert_allclose(mean[0], exact_mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(variance, exact_variance, rtol=1e-6, atol=1e-12)
    # log p(y) = log p(mean, weight n) + what the scatter about the mean adds
    scatter = np.sum((y - y.mean()) ** 2)
    expected = (
        float(exact.elbo())
        - 0.5 * np.log(count)
        - 0.5 * (count - 1) * np.log(2 * np.pi * noise)
        - 0.5 * scatter / noise
    )
    assert lower_bound(kernel, noise, stats, 2).elbo == pytest.approx(expected, rel=1e-9)
