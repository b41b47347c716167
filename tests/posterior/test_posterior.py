"""Predictions against a dense Gaussian process, inside the domain and beyond it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp import SHO, Matern12, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.posterior.chain import ChainPosterior
from asvgp.statistics import Statistics
from tests.dense import KERNELS, ExactGP, kernel_id, sample

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=kernel_id)
SPAN, NOISE = 2.0, 0.05


def inside_and_outside(reach, seed=1):
    """Points in the domain, on its ends, and two lengthscales beyond either end."""
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [
            rng.uniform(0, SPAN, 20),
            [0.0, SPAN],
            rng.uniform(-2 * reach, 0, 8),
            rng.uniform(SPAN, SPAN + 2 * reach, 8),
        ]
    )


@each_kernel
def test_converges_to_the_exact_process_everywhere(kernel):
    x, y = sample(kernel, NOISE, 120, SPAN)
    new = inside_and_outside(kernel.memory)
    mean, cov = ExactGP(kernel, NOISE, x, y).predict(new)
    degree = kernel.order + 1
    errors = []
    for cells in (50, 200, 800, 3200):
        stats = Statistics.from_data(x, y, Grid(0.0, SPAN, cells), degree)
        posterior = ChainPosterior(kernel, NOISE, stats, degree)
        m, v = posterior.predict(new)
        errors.append([np.abs(m[0] - mean).max(), np.abs(v - np.diag(cov)).max()])
    errors = np.array(errors)
    assert np.all(errors[-1] < errors[0] / 10)
    assert np.all(errors[-1] < (0.05 if kernel.order == 0 else 1e-3))


@each_kernel
def test_covariance_is_consistent_and_converges(kernel):
    x, y = sample(kernel, NOISE, 80, SPAN)
    new = inside_and_outside(kernel.memory)
    new = np.append(new, new[:3])  # repeated points too
    degree = kernel.order + 2
    stats = Statistics.from_data(x, y, Grid(0.0, SPAN, 600), degree)
    posterior = ChainPosterior(kernel, NOISE, stats, degree)
    cov = posterior.covariance(new)
    _, variance = posterior.predict(new)
    np.testing.assert_allclose(np.diag(cov), variance, atol=1e-12)
    np.testing.assert_array_equal(cov, cov.T)
    assert np.linalg.eigvalsh(cov).min() > -1e-10
    _, exact = ExactGP(kernel, NOISE, x, y).predict(new)
    np.testing.assert_allclose(cov, exact, atol=2e-2 if kernel.order == 0 else 1e-3)


@settings(max_examples=40, deadline=None)
@given(
    cells=st.integers(1, 30),
    seed=st.integers(0, 1000),
    kernel=st.sampled_from([Matern12(0.4), Matern32(0.4), Matern52(0.5), SHO(0.8, 2.0)]),
)
def test_matches_the_dense_variational_posterior_at_any_resolution(cells, seed, kernel):
    """Not only in the limit: the finite-M formulas themselves, with a dense twin."""
    from tests.dense import design, gram

    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, SPAN, 25), rng.standard_normal(25)
    degree = kernel.order + 1
    grid = Grid(0.0, SPAN, cells)
    posterior = ChainPosterior(kernel, 0.2, Statistics.from_data(x, y, grid, degree), degree)
    K = gram(posterior.model.priors[0])
    phi = design(np.minimum(x, SPAN - 1e-13), grid, degree)
    P = K + phi.T @ phi / 0.2
    new = np.sort(rng.uniform(0, SPAN - 1e-9, 12))
    psi = design(new, grid, degree)
    mean = psi @ np.linalg.solve(P, phi.T @ y) / 0.2
    cov = kernel(new) - psi @ (np.linalg.inv(K) - np.linalg.inv(P)) @ psi.T
    m, v = posterior.predict(new)
    np.testing.assert_allclose(m[0], mean, atol=1e-8)
    np.testing.assert_allclose(v, np.diag(cov), atol=1e-8)
    np.testing.assert_allclose(posterior.covariance(new), cov, atol=1e-8)


@each_kernel
def test_far_away_the_prior_is_back(kernel):
    x, y = sample(kernel, NOISE, 50, SPAN)
    degree = kernel.order + 1
    posterior = ChainPosterior(
        kernel, NOISE, Statistics.from_data(x, y, Grid(0.0, SPAN, 40), degree), degree
    )
    far = np.array([-1e4, 1e4, 1e12])
    mean, variance = posterior.predict(far)
    np.testing.assert_allclose(mean, 0.0, atol=1e-10)
    np.testing.assert_allclose(variance, kernel.variance)


@each_kernel
def test_nothing_jumps_at_the_ends(kernel):
    x, y = sample(kernel, NOISE, 50, SPAN)
    degree = kernel.order + 1
    posterior = ChainPosterior(
        kernel, NOISE, Statistics.from_data(x, y, Grid(0.0, SPAN, 40), degree), degree
    )
    for end in (0.0, SPAN):
        mean, variance = posterior.predict(np.array([end - 1e-9, end, end + 1e-9]))
        assert np.ptp(mean) < 1e-6
        assert np.ptp(variance) < 1e-6


def test_without_data_the_posterior_is_the_prior():
    kernel = Matern52(0.7, 2.0)
    stats = Statistics.from_data(np.empty(0), np.empty(0), Grid(0.0, 1.0, 10), 3)
    posterior = ChainPosterior(kernel, 0.1, stats, 3)
    new = np.linspace(-1, 2, 30)
    mean, variance = posterior.predict(new)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 2.0, rtol=1e-10)
    np.testing.assert_allclose(posterior.covariance(new), kernel(new), atol=1e-10)


def test_predictions_in_any_type_order_and_from_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(2)
    x = rng.uniform(0, 100, 1000)
    stats = Statistics.from_data(x, np.sin(x), Grid(0.0, 100.0, 400), 2)
    new = rng.integers(-5, 106, 150_000)
    expected = ChainPosterior(Matern32(2.0), 0.01, stats, 2).predict(new.astype(float))
    fresh = ChainPosterior(Matern32(2.0), 0.01, stats, 2)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fresh.predict(new), range(4)))
    for mean, variance in results:
        np.testing.assert_array_equal(mean, expected[0])
        np.testing.assert_array_equal(variance, expected[1])
    order = rng.permutation(len(new))
    mean, _ = fresh.predict(new[order])
    np.testing.assert_array_equal(mean, expected[0][:, order])
