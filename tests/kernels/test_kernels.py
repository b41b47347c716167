"""Kernels: their three faces (covariance, Markov form, transition) tell one story."""

import copy

import mpmath as mp
import numpy as np
import pytest
from scipy.linalg import expm, solve_continuous_lyapunov
from sklearn.gaussian_process.kernels import Matern as SklearnMatern

from asvgp import SHO, Constant, Linear, Matern12, Matern32, Matern52, Matern72, Periodic
from asvgp.kernels.base import Component
from tests.dense import KERNELS, kernel_id

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=kernel_id)


def companion(process):
    """The matrix A of dF = A F dt + noise."""
    size = len(process.operator) - 1
    matrix = np.eye(size, k=1)
    matrix[-1] = -process.operator[:-1]
    return matrix


@pytest.mark.parametrize("kernel, nu", [(Matern12, 0.5), (Matern32, 1.5), (Matern52, 2.5)])
def test_covariance_is_scikit_learns(kernel, nu):
    x = np.linspace(0.0, 3.0, 40)
    expected = SklearnMatern(length_scale=0.7, nu=nu)(x[:, None])
    np.testing.assert_allclose(kernel(0.7, 2.0)(x), 2.0 * expected, rtol=1e-12)


def test_matern72_covariance():
    x = np.linspace(0.0, 3.0, 40)
    expected = SklearnMatern(length_scale=0.7, nu=3.5)(x[:, None])
    np.testing.assert_allclose(Matern72(0.7)(x), expected, rtol=1e-7)  # sklearn uses Bessel


def test_sho_covariance_through_critical_damping():
    lag = np.linspace(0.0, 4.0, 50)
    qualities = [0.4999999, 0.5, 0.5000001]
    values = [SHO(1.3, quality).covariance(lag) for quality in qualities]
    np.testing.assert_allclose(values[0], values[1], atol=1e-5)
    np.testing.assert_allclose(values[2], values[1], atol=1e-5)


@each_kernel
@pytest.mark.parametrize("spacing", [1.0, 0.01])
def test_stationary_covariance_solves_the_lyapunov_equation(kernel, spacing):
    process = kernel.markov(spacing)
    matrix = companion(process)
    noise = np.zeros_like(matrix)
    noise[-1, -1] = np.exp(process.log_density)
    expected = solve_continuous_lyapunov(matrix, -noise)
    scale = np.sqrt(np.diag(process.covariance))
    np.testing.assert_allclose(
        process.covariance / np.outer(scale, scale),
        expected / np.outer(scale, scale),
        atol=1e-8,
    )


@each_kernel
def test_covariance_function_is_the_process(kernel):
    process = kernel.markov()
    for lag in (0.0, 0.05, 0.4, 2.0):
        expected = (expm(companion(process) * lag) @ process.covariance)[0, 0]
        assert kernel.covariance(lag) == pytest.approx(expected, abs=1e-12)


@each_kernel
def test_transition_is_the_matrix_exponential(kernel):
    lags = np.array([0.0, 0.05, 0.4, 2.0])
    process = kernel.markov()
    expected = [expm(companion(process) * lag)[0] for lag in lags]
    np.testing.assert_allclose(kernel.transition(lags), expected, atol=1e-11)


@each_kernel
def test_derivatives_with_respect_to_log_parameters(kernel):
    step = 1e-6
    process = kernel.markov(0.3)
    for q, name in enumerate(kernel.parameters):
        value = getattr(kernel, name)
        up = kernel.replace(**{name: value * np.exp(step)}).markov(0.3)
        down = kernel.replace(**{name: value * np.exp(-step)}).markov(0.3)
        for field in ("operator", "log_density", "covariance"):
            slope = (getattr(up, field) - getattr(down, field)) / (2 * step)
            mine = getattr(process, "d_" + field)[q]
            np.testing.assert_allclose(mine, slope, rtol=1e-7, atol=1e-7)


def _mp_covariance(kernel, lag):
    """The covariance function in mpmath, from its textbook form."""
    if isinstance(kernel, SHO):
        omega = 2 * mp.pi / mp.mpf(kernel.period)
        decay = omega / (2 * mp.mpf(kernel.quality))
        frequency = mp.sqrt(mp.mpc(omega**2 - decay**2))
        if abs(frequency) < 1e-12:
            return mp.mpf(kernel.variance) * mp.exp(-decay * lag) * (1 + decay * lag)
        wave = mp.cos(frequency * lag) + decay / frequency * mp.sin(frequency * lag)
        return mp.mpf(kernel.variance) * mp.exp(-decay * lag) * mp.re(wave)
    p = kernel.order
    z = mp.sqrt(2 * p + 1) * lag / mp.mpf(kernel.lengthscale)
    total = sum(
        mp.factorial(p + i) / (mp.factorial(i) * mp.factorial(p - i)) * (2 * z) ** (p - i)
        for i in range(p + 1)
    )
    scale = mp.factorial(p) / mp.factorial(2 * p)
    return mp.mpf(kernel.variance) * scale * total * mp.exp(-z)


@each_kernel
@pytest.mark.parametrize("domain", [(0.0, 1.0), (-2.0, 0.5), (10.0, 10.2)])
def test_reproducing_property(kernel, domain):
    """<k(x, .), k(y, .)> = k(x, y) on [a, b], the ends included."""
    a, b = map(mp.mpf, domain)
    process = kernel.markov()
    operator = [mp.mpf(v) for v in process.operator]
    inverse = mp.matrix(np.linalg.inv(process.covariance).tolist())
    order = kernel.order

    def derivatives(x, z, count):
        """k(x, .) and its derivatives at z, from the side of z that lies inside [a, b]."""
        side = 1 if z > x or (z == x and z < b) else -1
        taylor = mp.taylor(lambda t: _mp_covariance(kernel, abs(t)), abs(z - x), count)
        return [taylor[i] * mp.factorial(i) * side**i for i in range(count + 1)]

    def applied(x, z):
        values = derivatives(x, z, order + 1)
        return sum(c * v for c, v in zip(operator, values, strict=True))

    span = b - a
    for x, y in [(a, a), (a, b), (b, b), (a + span / 3, a + span / 2), (a, a + span / 4)]:
        points = sorted({a, min(x, y), max(x, y), b})
        integral = mp.quad(lambda z, x=x, y=y: applied(x, z) * applied(y, z), points, maxdegree=4)
        fx, fy = derivatives(x, a, order), derivatives(y, a, order)
        boundary = sum(
            fx[i] * inverse[i, j] * fy[j] for i in range(order + 1) for j in range(order + 1)
        )
        inner = integral / mp.exp(mp.mpf(process.log_density)) + boundary
        expected = _mp_covariance(kernel, abs(x - y))
        assert float(abs(inner - expected)) < 1e-10 * kernel.variance


def test_kernels_are_immutable_values():
    kernel = Matern32(lengthscale=2.0, variance=3.0)
    with pytest.raises(AttributeError):
        kernel.lengthscale = 1.0
    assert kernel == Matern32(2.0, 3.0)
    assert hash(kernel) == hash(Matern32(2.0, 3.0))
    assert kernel != Matern52(2.0, 3.0)
    assert copy.deepcopy(kernel) == kernel


@pytest.mark.parametrize(
    "kernel",
    [
        Matern32(0.125, 3.0),
        Matern52(dim="time", fixed=("variance",)),
        SHO(24.0, 10.0, 2.0, bounds={"period": (20.0, 30.0)}),
    ],
)
def test_repr_reads_back(kernel):
    names = {"SHO": SHO, "Matern32": Matern32, "Matern52": Matern52}
    assert eval(repr(kernel), names) == kernel


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"lengthscale": -1.0}, "lengthscale must be positive and finite, got -1.0"),
        ({"variance": float("nan")}, "variance must be positive"),
        ({"lengthscale": "long"}, "lengthscale must be a positive number or duration, got 'long'"),
        ({"fixed": ("period",)}, "no hyperparameter 'period'; it has lengthscale, variance"),
        ({"fixed": True}, "fixed must name hyperparameters, got True"),
        ({"bounds": {"lengthscale": 3}}, "must be a pair of numbers, got 3"),
        ({"bounds": {"lengthscale": ("a", 2)}}, "must be a pair of numbers"),
        ({"bounds": 3}, "bounds must map names"),
        ({"bounds": {"lengthscale": (2.0, 3.0)}}, "0 < lower <= value <= upper"),
    ],
)
def test_bad_hyperparameters_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Matern32(**arguments)


@pytest.mark.parametrize(
    "product, message",
    [
        (lambda: 2.0 * Matern32(dim=0), r"its variance, Matern32\(variance=2.0, dim=0\)"),
        (lambda: Matern52() * 3, r"Matern52\(variance=3\)"),
        (lambda: Matern32(dim=0) * Constant(), r"write Matern32\(dim=0\) \+ Constant\(\)"),
        (lambda: Linear("load") * Matern32(), r"write Matern32\(\) \+ Linear\('load'\)"),
    ],
)
def test_what_does_not_multiply_says_what_to_write(product, message):
    with pytest.raises(TypeError, match=message):
        product()


@pytest.mark.parametrize(
    "kernel",
    [
        Matern12(1.3, 0.7),
        Matern32(1.3, 0.7),
        Matern52(1.3, 0.7),
        Matern72(1.3, 0.7),
        Periodic(3.0, 1.1, 0.7, nu=0.5),
        Periodic(3.0, 1.1, 0.7),
        Periodic(3.0, 20.0, 0.7, nu=2.5),
        SHO(2.0, 8.0, 0.7),
        SHO(2.0, 0.6, 0.7),
        SHO(2.0, 0.2, 0.7),
        SHO(2.0, 0.5001, 0.7),
    ],
    ids=repr,
)
def test_slopes_are_limits_of_differences(kernel):
    lag = np.linspace(0.0, 7.0, 40)
    differences = Component.slopes(kernel, lag)
    np.testing.assert_allclose(kernel.slopes(lag), differences, atol=1e-9)
