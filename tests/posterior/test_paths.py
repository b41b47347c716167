"""ChainPosterior draws: splines that are what they say, moments within Monte-Carlo error."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

from asvgp import SHO, Matern12, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.chain_paths import continued, draw_paths, mean_spline
from asvgp.posterior.samples import sample
from asvgp.statistics import Statistics
from tests.dense import KERNELS, kernel_id
from tests.dense import sample as sample_data

SPAN, NOISE = 2.0, 0.05
SUM = Matern52(0.8, 1.1) + SHO(0.4, 4.0, 0.6) + Matern12(1.0, 0.3)
EACH = [*KERNELS, SUM]
each_kernel = pytest.mark.parametrize("kernel", EACH, ids=[*map(kernel_id, KERNELS), "sum"])
X = np.concatenate([np.linspace(0.0, SPAN, 41), [0.333, 1.777]])


def posterior_of(kernel, cells=20, degree=None, outputs=1, n=60, noise=NOISE):
    x, y = sample_data(kernel, noise, n, SPAN)
    degree = degree or tuple(c.order + 1 for c in kernel.components)
    top = degree if isinstance(degree, int) else max(degree)
    y = np.stack([y * (o + 1) for o in range(outputs)], axis=1)
    stats = Statistics.from_data(x, y, Grid(0.0, SPAN, cells), top)
    return ChainPosterior(kernel, noise, stats, degree)


def spline_covariance(posterior, x):
    """``phi' P^-1 phi``, the covariance of the spline field."""
    cells, weights = posterior.rows(x)
    after = posterior.cell_covariances[1]
    return np.einsum("ti,tij,tj->t", weights, after[cells], weights)


def check_moments(draws, mean, covariance):
    """Draws (n, samples): mean and covariance within five standard errors."""
    count = draws.shape[1]
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * sd / count**0.5 + 1e-9)
    error = np.sqrt((covariance**2 + np.outer(sd, sd) ** 2) / count)
    assert np.all(np.abs(np.cov(draws) - covariance) < 5 * error + 1e-9)


@each_kernel
@pytest.mark.parametrize("cells", [1, 2, 7])
def test_the_mean_is_a_spline(kernel, cells):
    posterior = posterior_of(kernel, cells, outputs=2)
    for output in range(2):
        spline = mean_spline(posterior, output)
        assert isinstance(spline, BSpline)
        expected = posterior.predict(X)[0][output]
        np.testing.assert_allclose(spline(X), expected, atol=1e-10 * np.abs(expected).max())
    assert np.isnan(mean_spline(posterior)([-0.1, SPAN + 0.1])).all()
    parts = [mean_spline(posterior, 0, i) for i in range(len(posterior.model.priors))]
    np.testing.assert_allclose(sum(part(X) for part in parts), mean_spline(posterior)(X))
    assert [part.k for part in parts] == list(posterior.model.degrees)


@pytest.mark.parametrize("degree", [2, 3, 4, 6])
def test_one_degree_has_simple_knots_and_m_coefficients(degree):
    posterior = posterior_of(Matern32(0.3), 10, degree)
    spline = mean_spline(posterior)
    assert spline.k == degree
    assert spline.c.shape == (10 + degree,)
    assert len(np.unique(spline.t)) == 11
    total = ChainPosterior(Matern32(0.3) + SHO(0.5), NOISE, posterior.stats, degree)
    assert mean_spline(total).c.shape == (10 + degree,)


@each_kernel
def test_paths_have_the_moments_of_the_spline_field(kernel):
    posterior = posterior_of(kernel)
    paths = draw_paths(posterior, 4000, random_state=1)
    draws = np.stack([path(X) for path in paths], axis=1)
    assert len(paths) == 4000
    mean = posterior.predict(X)[0][0]
    variance = spline_covariance(posterior, X)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variance / 4000))
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=5 * (2 / 4000) ** 0.5)


def test_paths_of_the_square_root_chain_too():
    posterior = posterior_of(SUM, noise=1e-10)  # plain elimination would lose digits
    assert posterior.chain.path == "square-root"
    draws = np.stack([path(X) for path in draw_paths(posterior, 3000, 0)], axis=1)
    variance = spline_covariance(posterior, X)
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=5 * (2 / 3000) ** 0.5)


def test_paths_jointly_have_the_covariance_of_the_process():
    posterior = posterior_of(Matern52(0.5) + SHO(0.6, 2.0), 400)
    x = np.linspace(0, SPAN, 9)
    draws = np.stack([path(x) for path in draw_paths(posterior, 4000, 2)], axis=1)
    check_moments(draws, posterior.predict(x)[0][0], posterior.covariance(x))


def test_components_of_one_draw_add_up():
    posterior = posterior_of(SUM, outputs=2)
    total = draw_paths(posterior, 3, random_state=5)
    parts = [draw_paths(posterior, 3, random_state=5, component=i) for i in range(3)]
    for a in range(3):
        assert total[a](X).shape == (len(X), 2)
        np.testing.assert_allclose(sum(part[a](X) for part in parts), total[a](X), atol=1e-11)
    first = draw_paths(posterior, 200, random_state=5)
    values = np.stack([path(1.0) for path in first])
    assert abs(np.corrcoef(values.T)[0, 1]) < 0.3  # outputs are independent


def test_a_path_is_smooth_and_integrates():
    path = draw_paths(posterior_of(Matern52(0.3)), random_state=np.random.default_rng(3))[0]
    x = np.array([0.21, 1.3])
    difference = (path(x + 1e-6) - path(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(path.derivative()(x), difference, rtol=1e-5, atol=1e-6)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    value = float(path.integrate(0.0, SPAN))
    np.testing.assert_allclose(value, weights @ path(nodes + 1.0), atol=1e-6)


SMOOTH = Matern52(0.8, 1.1) + SHO(0.4, 4.0, 0.6)  # no rough part: its paths lack variance
PAIRS = [(k, True) for k in EACH] + [(k, False) for k in (*KERNELS[1:], SMOOTH)]


@pytest.mark.parametrize("kernel, exact", PAIRS)
def test_samples_have_the_posterior_moments_everywhere(kernel, exact):
    posterior = posterior_of(kernel, 400, tuple(c.order + 2 for c in kernel.components))
    x = np.array([2.9, -0.2, 0.0, 0.5, 2.05, 0.51, 1.4, 2.0, -0.9, 2.3])
    draws = (sample if exact else continued)(posterior, x, 6000, random_state=0)
    assert draws.shape == (1, len(x), 6000)
    mean, _ = posterior.predict(x)
    covariance = posterior.covariance(x)
    check_moments(draws[0], mean[0], covariance)


def test_repeated_points_and_no_jitter():
    posterior = posterior_of(Matern52(0.3), outputs=2)
    x = np.array([0.5, 0.5, 0.5 + 1e-12, 3.0, 3.0])
    draws = sample(posterior, x, 50, random_state=0)
    assert draws.shape == (2, 5, 50)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-6)
    np.testing.assert_allclose(draws[:, 0], draws[:, 2], atol=1e-6)
    np.testing.assert_allclose(draws[:, 3], draws[:, 4], atol=1e-6)


def test_random_states():
    posterior = posterior_of(Matern32(0.3))
    for make in (lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)):
        for drawn in (sample, continued):
            one = drawn(posterior, X, 2, make())
            np.testing.assert_array_equal(one, drawn(posterior, X, 2, make()))
        np.testing.assert_array_equal(
            draw_paths(posterior, 1, make())[0].c, draw_paths(posterior, 1, make())[0].c
        )


def test_errors():
    posterior = posterior_of(Matern32(0.3))
    many = np.linspace(0, SPAN, 3000)
    with pytest.raises(ValueError, match=r"3000 points.*sample_paths"):
        sample(posterior, many)
    assert continued(posterior, many).shape == (1, 3000, 1)
    with pytest.raises(ValueError, match="n_samples"):
        draw_paths(posterior, 0)
    with pytest.raises(ValueError, match="n_samples"):
        sample(posterior, [0.0], 1.5)
    with pytest.raises(ValueError, match="component"):
        draw_paths(posterior, component=1)
    with pytest.raises(ValueError, match="NaN"):
        sample(posterior, [np.nan])
