"""Derivatives and integrals against dense Gaussian processes and fifty-digit covariances."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from scipy.interpolate import BSpline

from asvgp import SHO, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.kernels import PROCESSES, Matern
from asvgp.kernels.dynamics import Dynamics
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.integrals import integrate
from asvgp.statistics import Statistics
from tests.dense import KERNELS, ExactGP, design, gram, kernel_id, mp_process, sample

SPAN, NOISE = 2.0, 0.05
SUM = Matern52(0.8, 1.1) + SHO(0.4, 4.0, 0.6) + Matern12(1.0, 0.3)
SMOOTH = Matern52(0.8, 1.1) + SHO(0.4, 4.0, 0.6)
EACH = [*KERNELS, SUM]
each_kernel = pytest.mark.parametrize("kernel", EACH, ids=[*map(kernel_id, KERNELS), "sum"])
each_order = pytest.mark.parametrize(
    "kernel, order",
    [(k, r) for k in KERNELS for r in range(1, k.order + 1)],
    ids=lambda v: v if isinstance(v, int) else kernel_id(v),
)


def derivative(posterior, x, order=1, variance=True, component=None):
    return posterior.predict(x, variance, component, order)


def derivative_covariance(posterior, x, order=1, component=None):
    return posterior.covariance(x, order, component)


def mp_covariance(kernel, lag):
    """The covariance function in mpmath, written down anew."""
    if isinstance(kernel, SHO):
        omega = 2 * mp.pi / mp.mpf(kernel.period)
        decay = omega / (2 * mp.mpf(kernel.quality))
        inner = mp.sqrt(mp.mpc(omega**2 - decay**2))
        if kernel.quality == 0.5:
            return mp.mpf(kernel.variance) * mp.exp(-decay * lag) * (1 + decay * lag)
        wave = mp.cos(inner * lag) + decay / inner * mp.sin(inner * lag)
        return mp.mpf(kernel.variance) * mp.exp(-decay * lag) * mp.re(wave)
    p = kernel.order
    z = mp.sqrt(2 * p + 1) / mp.mpf(kernel.lengthscale) * lag
    total = sum(
        mp.factorial(p + i) / (mp.factorial(i) * mp.factorial(p - i)) * (2 * z) ** (p - i)
        for i in range(p + 1)
    )
    factor = mp.factorial(p) / mp.factorial(2 * p)
    return mp.mpf(kernel.variance) * factor * total * mp.exp(-z)


def slope(kernel, lag, order):
    """Derivatives of the covariance function at lags >= 0, from the right at zero."""
    lag = np.asarray(lag, float)
    distinct, back = np.unique(lag, return_inverse=True)
    with mp.workdps(40):
        values = [
            float(mp.diff(lambda t: mp_covariance(kernel, t), mp.mpf(t), order, direction=1))
            for t in distinct
        ]
    return np.array(values)[back].reshape(lag.shape)


def posterior_of(kernel, cells=60, n=80, degree=None, seed=0, outputs=1, noise=NOISE):
    x, y = sample(kernel, noise, n, SPAN, seed)
    degrees = degree or tuple(c.order + 1 for c in kernel.components)
    y = np.stack([y * (o + 1) for o in range(outputs)], axis=1)
    top = degrees if isinstance(degrees, int) else max(degrees)
    return ChainPosterior(
        kernel, noise, Statistics.from_data(x, y, Grid(0.0, SPAN, cells), top), degrees
    )


def empty(kernel, cells=30):
    stats = Statistics.from_data(np.empty(0), np.empty(0), Grid(0.0, SPAN, cells), 4)
    return ChainPosterior(kernel, 0.1, stats, tuple(c.order + 1 for c in kernel.components))


POINTS = np.array([-1.5, -0.2, -1e-3, 0.0, 0.011, 0.4, 0.4, 1.23, 1.9999, 2.0, 2.001, 2.6, 5.0])
LOWER = np.array([0.1, 0.1001, 0.3, -0.5, -0.5, 1.9, 2.0, 2.1, -0.7, 0.5, 0.5, -1.0, 3.0])
UPPER = np.array([0.1002, 0.7, 0.1, 0.4, 3.0, 2.2, 2.0, 2.4, -0.2, 0.5, 1.5, -1.0, 3.0])


# ------------------------------------------------------------------- derivatives


@each_order
def test_derivatives_converge_to_the_exact_process_everywhere(kernel, order):
    x, y = sample(kernel, NOISE, 60, SPAN)
    new = np.array([-0.4, -0.01, 0.0, 0.3, 1.01, 1.7, 2.0, 2.02, 2.5])
    gap = new[:, None] - x
    cross = np.where(gap < 0, -1, 1) ** order * slope(kernel, np.abs(gap), order)
    exact = ExactGP(kernel, NOISE, x, y)
    half = np.linalg.solve(exact.root, cross.T)
    mean = half.T @ np.linalg.solve(exact.root, y)
    prior = (-1) ** order * slope(kernel, np.abs(new[:, None] - new), 2 * order)
    cov = prior - half.T @ half
    errors = []
    for cells in (50, 200, 800, 3200):
        stats = Statistics.from_data(x, y, Grid(0.0, SPAN, cells), kernel.order + 1)
        posterior = ChainPosterior(kernel, NOISE, stats, kernel.order + 1)
        m, v = derivative(posterior, new, order)
        c = derivative_covariance(posterior, new, order)
        np.testing.assert_allclose(np.diag(c), v, atol=1e-9 * prior[0, 0])
        np.testing.assert_array_equal(c, c.T)
        errors.append(
            [np.abs(m[0] - mean).max() / prior[0, 0] ** 0.5, np.abs(c - cov).max() / prior[0, 0]]
        )
    errors = np.array(errors)
    # The roughest derivative is as rough as Matern-1/2: first order in the spacing.
    assert np.all(errors[-1] < errors[0] / 10)
    assert np.all(errors[-1] < (0.03 if order == kernel.order else 1e-3))


@each_order
def test_without_data_derivatives_have_their_prior(kernel, order):
    posterior = empty(kernel)
    mean, variance = derivative(posterior, POINTS, order)
    prior = (-1) ** order * slope(kernel, np.abs(POINTS[:, None] - POINTS), 2 * order)
    scale = kernel.markov().covariance[order, order]
    np.testing.assert_allclose(prior[0, 0], scale, rtol=1e-12)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, scale, rtol=1e-8)
    cov = derivative_covariance(posterior, POINTS, order)
    np.testing.assert_allclose(cov, prior, atol=1e-8 * scale)


@each_kernel
def test_order_zero_is_the_prediction(kernel):
    posterior = posterior_of(kernel, outputs=2)
    mean, variance = derivative(posterior, POINTS, 0)
    expected = posterior.predict(POINTS)
    np.testing.assert_allclose(mean, expected[0], atol=1e-11)
    np.testing.assert_allclose(variance, expected[1], atol=1e-11)
    cov = derivative_covariance(posterior, POINTS, 0)
    np.testing.assert_allclose(cov, posterior.covariance(POINTS), atol=1e-11)
    only, nothing = derivative(posterior, POINTS, 0, variance=False)
    np.testing.assert_array_equal(only, mean)
    assert nothing.size == 0


@pytest.mark.parametrize("kernel", [Matern32(0.4), Matern52(0.5), Matern72(0.5), SHO(0.8, 2.0)])
@pytest.mark.parametrize("cells", [1, 3, 20])
def test_matches_the_dense_variational_posterior_at_any_resolution(kernel, cells):
    rng = np.random.default_rng(cells)
    x, y = rng.uniform(0, SPAN - 1e-9, 25), rng.standard_normal(25)
    degree, grid = kernel.order + 1, Grid(0.0, SPAN, cells)
    posterior = ChainPosterior(kernel, 0.2, Statistics.from_data(x, y, grid, degree), degree)
    K = gram(posterior.model.priors[0])
    phi = design(x, grid, degree)
    P = K + phi.T @ phi / 0.2
    alpha = np.linalg.solve(P, phi.T @ y) / 0.2
    change = np.linalg.inv(K) - np.linalg.inv(P)
    knots = grid.spacing * np.arange(-degree, cells + degree + 1)
    splines = BSpline(knots, np.eye(cells + degree), degree)
    new = np.sort(rng.uniform(0, SPAN, 9))
    for order in range(kernel.order + 1):
        psi = splines.derivative(order)(new) if order else splines(new)
        prior = (-1) ** order * slope(kernel, np.abs(new[:, None] - new), 2 * order)
        mean, variance = derivative(posterior, new, order)
        cov = prior - psi @ change @ psi.T
        scale = prior[0, 0]
        np.testing.assert_allclose(mean[0], psi @ alpha, atol=1e-8 * scale)
        np.testing.assert_allclose(variance, np.diag(cov), atol=1e-8 * scale)
        np.testing.assert_allclose(
            derivative_covariance(posterior, new, order), cov, atol=1e-8 * scale
        )
    primitive = splines.antiderivative()
    low, high = rng.uniform(0, SPAN, (2, 8))
    psi = primitive(high) - primitive(low)
    mean, cov = integrate(posterior, low, high, covariance=True)
    np.testing.assert_allclose(mean[0], psi @ alpha, atol=1e-9)
    prior = integrate(empty(kernel), low, high, covariance=True)[1]
    np.testing.assert_allclose(cov, prior - psi @ change @ psi.T, atol=1e-8)


def test_derivative_is_the_limit_of_differences_for_sums_and_beyond_the_ends():
    posterior = posterior_of(SMOOTH, outputs=2)
    x = np.array([-0.6, -0.05, 0.31, 1.11, 1.99, 2.05, 2.7])  # not at knots
    mean, variance = derivative(posterior, x)
    step = 1e-5
    ahead, behind = posterior.predict(x + step)[0], posterior.predict(x - step)[0]
    np.testing.assert_allclose(mean, (ahead - behind) / (2 * step), atol=1e-6)
    parts = [derivative(posterior, x, component=i)[0] for i in range(2)]
    np.testing.assert_allclose(sum(parts), mean, atol=1e-11)
    np.testing.assert_allclose(mean[1], 2 * mean[0], atol=1e-10)
    step = 1e-4
    points = np.concatenate([x + step, x - step])
    cov = posterior.covariance(points)
    difference = np.hstack([np.eye(len(x)), -np.eye(len(x))]) / (2 * step)
    np.testing.assert_allclose(np.diag(difference @ cov @ difference.T), variance, rtol=0.02)


def test_nothing_jumps_at_the_ends():
    posterior = posterior_of(Matern72(0.4), 30)
    for order in range(4):
        for end in (0.0, SPAN):
            mean, variance = derivative(posterior, [end - 1e-10, end, end + 1e-10], order)
            assert np.ptp(mean) < 1e-5
            assert np.ptp(variance) < 1e-6 * variance[0] + 1e-6


def test_the_unit_of_x_does_not_matter():
    results = []
    for scale in (1e-9, 1.0, 1e9):
        kernel = Matern72(0.4 * scale)
        x, y = sample(Matern72(0.4), NOISE, 50, SPAN)
        grid = Grid(0.0, SPAN * scale, 40)
        posterior = ChainPosterior(kernel, NOISE, Statistics.from_data(x * scale, y, grid, 4), 4)
        mean, variance = derivative(posterior, POINTS * scale, 3)
        total, spread = integrate(posterior, LOWER * scale, UPPER * scale)
        results.append([mean * scale**3, variance * scale**6, total / scale, spread / scale**2])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-8 * np.abs(a).max())


def test_advice_on_derivatives_knows_all_kernels(monkeypatch):
    class Matern112(Matern):
        nu = 5.5

    posterior = posterior_of(Matern12())
    for order, words in (
        (1, "Matern32 or SHO"),
        (3, "such as Matern72"),
        (4, "Matern72, the smooth"),
    ):
        with pytest.raises(ValueError, match=words):
            derivative(posterior, [0.5], order)
    monkeypatch.setattr("asvgp.posterior.posterior.PROCESSES", (*PROCESSES, Matern112))
    for order, words in ((4, "such as Matern112"), (6, "Matern112, the smoothest .* has 5")):
        with pytest.raises(ValueError, match=words):
            derivative(posterior, [0.5], order)


def test_a_derivative_that_does_not_exist():
    posterior = posterior_of(SUM)
    with pytest.raises(ValueError, match=r"component 2 of the sum, Matern12.*no derivative"):
        derivative(posterior, [0.5])
    with pytest.raises(ValueError, match=r"SHO.*one derivative.*Matern52.*component 0 alone"):
        derivative_covariance(posterior_of(SMOOTH), [0.5], 2)
    mean, _ = derivative(posterior, [0.5], 2, component=0)
    assert np.isfinite(mean).all()
    with pytest.raises(ValueError, match=r"order 4.*Matern72"):
        derivative(posterior_of(Matern72()), [0.5], 4)
    with pytest.raises(ValueError, match="Matern52"):
        derivative(posterior_of(Matern32()), [0.5], 2)
    with pytest.raises(ValueError, match="non-negative"):
        derivative(posterior, [0.5], -1)
    with pytest.raises(TypeError, match="integer"):
        derivative(posterior, [0.5], 0.5)
    with pytest.raises(ValueError, match="component must be None or from 0 to 2"):
        derivative(posterior, [0.5], component=3)
    with pytest.raises(ValueError, match="NaN"):
        derivative(posterior, [np.nan], 1)


def test_many_points_and_none():
    posterior = posterior_of(SMOOTH)
    x = np.linspace(-1, 3, 20_001)
    mean, variance = derivative(posterior, x)
    pick = [0, 8191, 8192, 12_345, 20_000]
    few = derivative(posterior, x[pick])
    np.testing.assert_allclose(mean[:, pick], few[0], rtol=1e-12)
    np.testing.assert_allclose(variance[pick], few[1], rtol=1e-12)
    assert derivative(posterior, [])[0].shape == (1, 0)
    assert derivative_covariance(posterior, []).shape == (0, 0)


# --------------------------------------------------------------------- integrals


@pytest.mark.parametrize(
    "kernel", [*KERNELS, SHO(0.7, 0.01), SHO(0.5, 1e4)], ids=[*map(kernel_id, KERNELS), "o", "s"]
)
def test_prior_variance_of_averages_keeps_its_digits_at_any_length(kernel):
    dynamics = Dynamics(kernel)
    lengths = np.array([0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0])
    averages = dynamics.average_variance(lengths)
    with mp.workdps(60):  # V(t) = 2 [A^-2 (exp(A t) - 1 - A t) C]_00, cancellation and all
        operator, _, inverse = mp_process(kernel, [mp.mpf(v) for v in kernel.values], 1)
        size = kernel.order + 1
        generator = mp.zeros(size)
        for i in range(size):
            generator[size - 1, i] = -operator[i]
            if i + 1 < size:
                generator[i, i + 1] = 1
        exact = []
        for length in lengths[1:]:
            t = mp.mpf(length)
            rest = mp.expm(generator * t) - mp.eye(size) - generator * t
            exact.append(float(2 * (generator**-2 * rest * inverse**-1)[0, 0] / t**2))
    np.testing.assert_allclose(averages[1:], exact, rtol=1e-9)
    np.testing.assert_allclose(averages[0], kernel.variance, rtol=1e-14)


@each_kernel
def test_prior_covariance_of_integrals_is_the_double_integral(kernel):
    nodes, weights = np.polynomial.legendre.leggauss(100)
    cuts = np.unique(np.concatenate([LOWER, UPPER]))
    points, weight, piece = [], [], []
    for number, (a, b) in enumerate(pairwise(cuts)):
        points.append(a + (b - a) * (nodes + 1) / 2)
        weight.append(weights * (b - a) / 2)
        piece.append(np.full(100, number))
    points, weight, piece = map(np.concatenate, (points, weight, piece))
    inner = np.zeros((len(cuts) - 1,) * 2)
    np.add.at(inner, (piece[:, None], piece), weight[:, None] * weight * kernel(points))
    for i, length in enumerate(np.diff(cuts)):  # the kink of k: a piece with itself
        own = sum(Dynamics(c).average_variance(np.array([length]))[0] for c in kernel.components)
        inner[i, i] = own * length**2
    numbers = np.arange(len(cuts) - 1)
    first, last = np.searchsorted(cuts, LOWER), np.searchsorted(cuts, UPPER)
    signs = 1.0 * ((numbers >= first[:, None]) & (numbers < last[:, None]))
    signs -= (numbers >= last[:, None]) & (numbers < first[:, None])
    expected = signs @ inner @ signs.T
    mean, cov = integrate(empty(kernel), LOWER, UPPER, covariance=True)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(cov, expected, atol=1e-9)


@each_kernel
@pytest.mark.parametrize("average", [False, True])
def test_integrals_are_integrals_of_the_posterior(kernel, average):
    """By quadrature over the posterior's own mean and covariance, piece by piece."""
    posterior = posterior_of(kernel, cells=12, outputs=2)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    cuts = np.unique(np.concatenate([LOWER, UPPER, posterior.grid.knots, np.linspace(-1, 3, 81)]))
    size = np.diff(cuts)
    points = (cuts[:-1, None] + size[:, None] * (nodes + 1) / 2).ravel()
    weight = (size[:, None] * weights / 2).ravel()
    low, high = np.minimum(LOWER, UPPER), np.maximum(LOWER, UPPER)
    rows = weight * ((points > low[:, None]) & (points < high[:, None]))
    rows *= np.sign(UPPER - LOWER)[:, None]
    if average:
        rows[LOWER != UPPER] /= (UPPER - LOWER)[LOWER != UPPER, None]
        for i in np.flatnonzero(LOWER == UPPER):
            points, rows = np.append(points, LOWER[i]), np.pad(rows, ((0, 0), (0, 1)))
            rows[i, -1] = 1.0
    mean, variance = integrate(posterior, LOWER, UPPER, average=average)
    also, cov = integrate(posterior, LOWER, UPPER, average=average, covariance=True)
    np.testing.assert_array_equal(mean, also)
    np.testing.assert_allclose(np.diag(cov), variance, rtol=1e-8, atol=1e-13)
    np.testing.assert_array_equal(cov, cov.T)
    np.testing.assert_allclose(mean, posterior.predict(points, False)[0] @ rows.T, atol=1e-10)
    tolerance = 1e-3 if min(c.order for c in kernel.components) == 0 else 1e-5  # k has a kink
    np.testing.assert_allclose(cov, rows @ posterior.covariance(points) @ rows.T, atol=tolerance)


@each_kernel
def test_integrals_add_up(kernel):
    posterior = posterior_of(kernel)
    a, b, c = -0.3, 0.77, 2.4
    mean, cov = integrate(posterior, [a, b, a, c], [b, c, c, a], covariance=True)
    np.testing.assert_allclose(mean[0, 0] + mean[0, 1], mean[0, 2], atol=1e-12)
    np.testing.assert_allclose(mean[0, 3], -mean[0, 2])
    np.testing.assert_allclose(cov[:2, :2].sum(), cov[2, 2], rtol=1e-9)
    np.testing.assert_allclose(cov[0, :2].sum(), cov[0, 2], rtol=1e-9)
    np.testing.assert_allclose(cov[3], -cov[2], rtol=1e-12)
    assert np.linalg.eigvalsh(cov).min() > -1e-12
    parts = [integrate(posterior, a, c, component=i)[0] for i in range(len(posterior.model.priors))]
    np.testing.assert_allclose(sum(parts)[0], mean[0, 2], atol=1e-12)


@each_kernel
def test_short_averages_are_values_and_integrals_their_derivative(kernel):
    posterior = posterior_of(kernel)
    x = np.array([-0.4, 0.0, 0.01, 0.9, SPAN, 2.8])
    expected, spread = posterior.predict(x)
    for length in (0.0, 1e-14, 1e-9):
        mean, cov = integrate(posterior, x, x + length, average=True, covariance=True)
        np.testing.assert_allclose(mean, expected, atol=1e-5)
        np.testing.assert_allclose(cov, posterior.covariance(x), atol=1e-5)
        _, variance = integrate(posterior, x, x + length, average=True)
        np.testing.assert_allclose(variance, spread, atol=1e-5)
    mean, variance = integrate(posterior, x, x)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(variance, 0.0)


def test_component_of_a_sum_alone():
    x, y = sample(SMOOTH, NOISE, 70, SPAN)
    posterior = posterior_of(SMOOTH, 1500, 70)
    first = SMOOTH.components[0]
    exact = np.linalg.inv(SMOOTH(x) + NOISE * np.eye(70))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    points, weights = 0.2 + 2.3 * (nodes + 1) / 2, weights * 2.3 / 2
    cross = weights @ first(points, x)
    mean, variance = integrate(posterior, 0.2, 2.5, component=0)
    np.testing.assert_allclose(mean[0, 0], cross @ exact @ y, atol=1e-4)
    expected = weights @ first(points) @ weights - cross @ exact @ cross
    np.testing.assert_allclose(variance[0], expected, atol=1e-4)
    gap = 0.7 - x
    cross = np.sign(gap) * slope(first, np.abs(gap), 1)
    mean, variance = derivative(posterior, [0.7], component=0)
    np.testing.assert_allclose(mean[0, 0], cross @ exact @ y, atol=1e-3)
    expected = -slope(first, np.zeros(1), 2)[0] - cross @ exact @ cross
    np.testing.assert_allclose(variance[0], expected, atol=1e-3)
    _, cov = integrate(posterior, 0.2, 2.5, component=0, covariance=True)
    np.testing.assert_allclose(cov, [integrate(posterior, 0.2, 2.5, component=0)[1]], rtol=1e-8)


def test_many_intervals_on_many_cells():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1000, 5000)
    stats = Statistics.from_data(x, np.sin(x), Grid(0.0, 1000.0, 4000), 2)
    posterior = ChainPosterior(Matern32(2.0), 0.01, stats, 2)
    low = rng.uniform(-5, 1000, 70_000)
    high = low + rng.exponential(3.0, len(low))
    mean, variance = integrate(posterior, low, high)
    pick = rng.integers(0, len(low), 40)
    few, cov = integrate(posterior, low[pick], high[pick], covariance=True)
    np.testing.assert_allclose(mean[:, pick], few, atol=1e-10)
    np.testing.assert_allclose(variance[pick], np.diag(cov), rtol=1e-8)
    year, _ = integrate(posterior, 0.0, 1000.0)
    np.testing.assert_allclose(year[0, 0], 1 - np.cos(1000.0), atol=0.5)


def test_bad_ends_and_no_intervals():
    posterior = posterior_of(Matern32(0.3))
    with pytest.raises(ValueError, match="lower contains NaN or infinity"):
        integrate(posterior, -np.inf, 1.0)
    with pytest.raises(ValueError, match="component"):
        integrate(posterior, 0.0, 1.0, component=1)
    mean, cov = integrate(posterior, [], [], covariance=True)
    assert mean.shape == (1, 0)
    assert cov.shape == (0, 0)
    assert integrate(posterior, [], [])[1].shape == (0,)
    assert integrate(posterior, 0.0, [1.0, 2.0])[0].shape == (1, 2)
