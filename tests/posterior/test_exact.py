"""The posterior at few distinct inputs beside a dense Gaussian process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32
from asvgp.basis import Grid
from asvgp.kernels import Matern52, Periodic
from asvgp.model.exact import ExactEngine
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.exact_paths import draw_paths
from asvgp.posterior.exact_rows import AveragePrior
from asvgp.posterior.integrals import integrate
from asvgp.posterior.lag_integrals import lag_covariance
from asvgp.posterior.leave_one_out import leave_one_out
from asvgp.posterior.posterior import GridPoints
from asvgp.posterior.samples import sample
from asvgp.statistics import Statistics

NOISE = 0.02
KERNEL = (
    Matern32(9.0, 0.5)
    + SHO(18.0, 20.0, 0.3)
    + Periodic(24.0, 8.0, 0.7, centred=True)
    + Periodic(24.0, 9.0, 0.6, nu=2.5) * Matern32(60.0, 1.0)
    + Constant(variance=4.0)
    + Linear(1, variance=2.0)
)
COMPONENTS = [*range(4), None]


class Data:
    """Observations with weights, several at some inputs, in no order."""

    def __init__(self, regular: bool, seed=3):
        rng = np.random.default_rng(seed)
        t = np.delete(np.arange(60.0), [7, 8, 30]) if regular else np.sort(rng.uniform(0, 60, 50))
        if not regular:
            t = t[np.diff(t, prepend=-1.0) > 0.05]
        self.t = rng.permutation(np.concatenate([t, t[:9], t[3:5]]))
        n, self.grid = len(self.t), Grid(-0.5, 59.5 if regular else 60.5, 60 if regular else 1220)
        self.z = rng.standard_normal(n) + 0.5
        self.w = rng.uniform(0.3, 3.0, n)
        wave = np.sin(2 * np.pi * self.t / 24) + 0.02 * self.t + 0.5 * self.z + 7.5
        self.y = wave + np.sqrt(NOISE / self.w) * rng.standard_normal(n)

    def engine(self, rows=slice(None)) -> ExactEngine:
        columns = np.stack([np.ones_like(self.t), self.z], axis=1)[rows]
        weights = self.w[rows]
        stats = Statistics.from_data(
            self.t[rows], self.y[rows], self.grid, 3, sample_weight=weights, covariates=columns
        )
        return ExactEngine(KERNEL, stats.recentred(np.array([7.0]), np.array([0.0, 0.4])))


class Dense:
    """The Gaussian process itself."""

    def __init__(self, data: Data):
        self.t, self.z = data.t, data.z
        self.whole = self.prior(self.t, self.t, z=self.z, other=self.z)
        self.whole += np.diag(NOISE / data.w)
        self.inverse = np.linalg.inv(self.whole)
        self.alpha = self.inverse @ data.y

    def prior(self, a, b, component=None, z=0.3, other=0.3):
        lag, out = np.abs(np.subtract.outer(a, b)), 0.0
        for number, part in enumerate(KERNEL.components):
            if component in (None, number):
                out = out + part.variance * np.prod([f.covariance(lag) for f in part.factors], 0)
        if component is None:
            z, other = np.broadcast_to(z, np.shape(a)), np.broadcast_to(other, np.shape(b))
            out = out + 4.0 + 2.0 * np.multiply.outer(z, other)
        return out

    def predict(self, x, component=None):
        cross = self.prior(x, self.t, component, other=self.z)
        return cross @ self.alpha, self.prior(x, x, component) - cross @ self.inverse @ cross.T


@pytest.fixture(scope="module", params=[True, False], ids=["regular", "irregular"])
def data(request) -> Data:
    return Data(request.param)


@pytest.fixture(scope="module")
def posterior(data) -> ExactPosterior:
    return ExactPosterior(KERNEL, NOISE, data.engine())


@pytest.fixture(scope="module")
def dense(data) -> Dense:
    return Dense(data)


def points(x, z=0.3) -> GridPoints:
    x = np.asarray(x, dtype=float)
    effects = np.stack([np.ones_like(x), np.broadcast_to(z, x.shape)], axis=1)
    return GridPoints(x[:, None], np.empty((len(x), 0)), effects)


def slopes(x) -> GridPoints:
    """Return points where a derivative along the input is asked for."""
    return replace(points(x), effects=np.zeros((len(x), 2)))


PLACES = {
    "inside": np.arange(60.0),
    "between": np.linspace(0.1, 58.9, 40),
    "ahead": 60.0 + np.arange(48.0),
    "behind": np.array([-0.6, -3.3, -40.0]),
}
BOTH = np.array([-20.0, -3.3, 0.0, 4.4, 17.3, 30.0, 59.0, 60.2, 63.0, 75.5, 130.0])


def test_the_inputs_are_on_a_lattice(data, posterior):
    assert posterior.inputs.regular == (data.grid.cells == 60)


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("where", PLACES)
def test_predictions_of_a_dense_process(posterior, dense, where, component):
    mean, variance = posterior.predict(points(PLACES[where]), component=component)
    exact, covariance = dense.predict(PLACES[where], component)
    np.testing.assert_allclose(mean[0], exact, atol=1e-7)
    np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-6, atol=1e-9)
    only, none = posterior.predict(points(PLACES[where]), False, component)
    np.testing.assert_array_equal(only, mean)
    assert not none.size


def test_chunks_of_rows(posterior, monkeypatch):
    x = np.linspace(-5.0, 70.0, 100)
    expected = posterior.predict(points(x))
    averages = posterior.averages(points(x[:-1]), points(x[1:]))
    monkeypatch.setattr("asvgp.posterior.exact._DOUBLES", 500)
    for one, other in zip(expected, posterior.predict(points(x)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    for one, other in zip(averages, posterior.averages(points(x[:-1]), points(x[1:])), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("component", COMPONENTS)
def test_covariances_of_a_dense_process(posterior, dense, component):
    covariance = posterior.covariance(points(BOTH), component=component)
    np.testing.assert_allclose(covariance, dense.predict(BOTH, component)[1], atol=1e-8)
    _, variance = posterior.predict(points(BOTH), component=component)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("component", COMPONENTS)
def test_derivatives_are_limits_of_differences(posterior, component):
    h, n = 1e-3, len(BOTH)
    mean, variance = posterior.predict(slopes(BOTH), component=component, order=1)
    around = points(np.concatenate([BOTH + h, BOTH - h]))
    above, below = np.split(posterior.predict(around, component=component)[0][0], 2)
    np.testing.assert_allclose(mean[0], (above - below) / (2 * h), rtol=1e-4, atol=1e-4)
    whole = posterior.covariance(around, component=component)
    both = whole[:n, :n] - whole[:n, n:] - whole[n:, :n] + whole[n:, n:]
    exact = posterior.covariance(slopes(BOTH), 1, component)
    # A process of one derivative only: differences converge no faster than h.
    np.testing.assert_allclose(both / (4 * h * h), exact, atol=3e-3 * np.diag(exact).max())
    np.testing.assert_allclose(np.diag(exact), variance, rtol=1e-7)
    with pytest.raises(ValueError, match="does not exist"):
        posterior.predict(slopes(BOTH), component=component, order=3)


def test_derivatives_along_columns(posterior):
    at = replace(points(BOTH), effects=np.tile([0.0, 1.0], (len(BOTH), 1)))
    mean, variance = posterior.predict(at, order={1: 1})
    coefficients, covariance = posterior.given_effects
    np.testing.assert_allclose(mean[0], coefficients[1, 0])
    np.testing.assert_allclose(variance, covariance[1, 1])


def test_effects_of_a_dense_process(data, posterior, dense):
    columns, prior = np.stack([np.ones_like(data.t), data.z], axis=1), np.diag([4.0, 2.0])
    cross = prior @ columns.T
    coefficients, covariance = posterior.given_effects
    np.testing.assert_allclose(coefficients[:, 0], cross @ dense.alpha, rtol=1e-6)
    exact = prior - cross @ dense.inverse @ cross.T
    np.testing.assert_allclose(covariance, exact, rtol=1e-6, atol=1e-10)


LOW = np.array([0.0, 10.2, 33.0, 20.0, 61.0, 62.5, -40.0, -5.0, 50.0, 100.0, 30.3])
HIGH = np.array([24.0, 10.9, 33.0, 40.0, 85.0, 63.5, -16.0, 8.0, 40.0, 100.0, 30.3 + 1e-9])


@pytest.mark.parametrize("component", COMPONENTS)
def test_averages_of_a_dense_process(posterior, dense, component):
    nodes, weights = np.polynomial.legendre.leggauss(150)
    x = LOW[:, None] + (HIGH - LOW)[:, None] * (nodes + 1.0) / 2.0
    exact, covariance = dense.predict(x.ravel(), component)
    matrix = np.kron(np.eye(len(LOW)), weights / 2.0)
    mean, spread = posterior.averages(points(LOW), points(HIGH), True, True, component)
    np.testing.assert_allclose(mean[0], matrix @ exact, atol=2e-6)
    np.testing.assert_allclose(spread, matrix @ covariance @ matrix.T, rtol=1e-4, atol=1e-6)
    means, variance = posterior.averages(points(LOW), points(HIGH), component=component)
    np.testing.assert_allclose(means, mean, atol=1e-9)
    np.testing.assert_allclose(variance, np.diag(spread), rtol=1e-7, atol=1e-10)
    _, none = posterior.averages(points(LOW), points(HIGH), False)
    assert not none.size
    backwards, _ = integrate(posterior, points(HIGH[:2]), points(LOW[:2]), component=component)
    np.testing.assert_allclose(backwards, -(means * (HIGH - LOW))[:, :2])


@pytest.mark.parametrize("kernel", [Matern12(2.0, 0.7), Matern52(5.0), Periodic(6.0, 2.0, nu=0.5)])
def test_prior_covariances_of_averages(kernel):
    low, high = np.array([0.0, 0.0, 1.5, 4.0, 4.0]), np.array([3.0, 1.0, 1.5, 9.0, 4.0 + 1e-7])
    exact = AveragePrior([kernel], 0.25).covariances(low, high)
    fine = (np.arange(2000) + 0.5) / 2000
    for i in range(len(low)):
        for j in range(i, len(low)):
            a, b = (low[k] + (high[k] - low[k]) * fine[:: 2 + k] for k in (i, j))
            whole = lag_covariance([kernel], np.subtract.outer(a, b)).mean()
            np.testing.assert_allclose(exact[i, j], whole, atol=2e-3)
            assert exact[i, j] == exact[j, i]
    np.testing.assert_allclose(
        AveragePrior([kernel], 0.25).variances(high - low), np.diag(exact), rtol=1e-12
    )


def test_no_points(posterior):
    nothing = points(np.empty(0))
    for mean, variance in (posterior.predict(nothing), posterior.averages(nothing, nothing)):
        assert mean.shape == (1, 0)
        assert variance.shape == (0,)
    assert posterior.covariance(nothing).shape == (0, 0)
    assert posterior.averages(nothing, nothing, covariance=True)[1].shape == (0, 0)


def test_fitted_values_are_predictions(data, posterior):
    t = np.append(data.t, 30.5)  # a place without data, of a missing row perhaps
    at = points(t, np.append(data.z, 1.0))
    values = posterior.fitted_values(at)
    mean, variance = posterior.predict(at)
    np.testing.assert_allclose(values.mean, mean, atol=1e-8)
    np.testing.assert_allclose(values.quadratic, variance, rtol=1e-7)
    with pytest.raises(ValueError, match="outside the domain"):
        posterior.fitted_values(points([200.0]))


def test_leave_one_out_is_refitting(data, posterior):
    result = leave_one_out(posterior, points(data.t, data.z), data.y, data.w)
    for i in (3, 20, len(data.t) - 1):
        other = ExactPosterior(KERNEL, NOISE, data.engine(np.arange(len(data.t)) != i))
        mean, variance = other.predict(points(data.t[[i]], data.z[[i]]))
        np.testing.assert_allclose(result.mean[i], mean[0, 0], rtol=1e-7)
        np.testing.assert_allclose(result.std[i] ** 2, variance[0] + NOISE / data.w[i], rtol=1e-7)


def test_a_saved_state_is_small_and_predicts_the_same(posterior, monkeypatch):
    again = ExactPosterior.restored(*posterior.parts)
    assert sum(array.size for array in posterior.state.values()) == posterior.engine.size
    with monkeypatch.context() as patch:
        patch.setattr(ExactEngine, "factor", None)
        mean, _ = again.predict(points(BOTH), variance=False)
    np.testing.assert_array_equal(mean, posterior.predict(points(BOTH))[0])
    np.testing.assert_array_equal(
        again.predict(points(BOTH))[1], posterior.predict(points(BOTH))[1]
    )
    np.testing.assert_array_equal(
        again.covariance(points(BOTH)), posterior.covariance(points(BOTH))
    )
    np.testing.assert_array_equal(again.given_effects[1], posterior.given_effects[1])


@pytest.mark.parametrize("component", range(4))
def test_centred_components(data, posterior, dense, component):
    mean, variance = posterior.centred(component, BOTH)
    exact, covariance = dense.predict(np.concatenate([BOTH, data.t]), component)
    share = np.broadcast_to(data.w / data.w.sum(), (len(BOTH), len(data.t)))
    matrix = np.hstack([np.eye(len(BOTH)), -share])
    np.testing.assert_allclose(mean[0], matrix @ exact, atol=1e-7)
    np.testing.assert_allclose(
        variance, np.diag(matrix @ covariance @ matrix.T), rtol=1e-6, atol=1e-9
    )


def test_the_upper_bound_is_the_evidence(data, posterior, dense):
    _, log_det = np.linalg.slogdet(dense.whole)
    evidence = -0.5 * (data.y @ dense.alpha + log_det + len(data.t) * np.log(2 * np.pi))
    np.testing.assert_allclose(posterior.upper_bound(), evidence, rtol=1e-9)


@pytest.mark.parametrize("component", COMPONENTS)
def test_paths_have_the_moments_of_the_posterior(data, posterior, component):
    x = np.sort(data.t)[[0, 10, 25, 40, -1]]
    paths = draw_paths(posterior, points, 2000, 1, component)
    values = np.stack([path(x) for path in paths])
    mean, _ = posterior.predict(points(x), component=component)
    covariance = posterior.covariance(points(x), component=component)
    std = np.sqrt(np.diag(covariance))
    assert np.max(np.abs(values.mean(axis=0) - mean[0]) / std) < 0.1
    assert np.max(np.abs(np.cov(values.T) - covariance) / np.outer(std, std)) < 0.12
    assert np.isnan(paths[0](np.array([200.0]))).all()


def test_paths_of_components_add_up(posterior):
    x = np.linspace(0.0, 59.0, 30)
    parts = [draw_paths(posterior, points, 1, 5, i)[0](x) for i in range(4)]
    effects = draw_paths(posterior, points, 1, 5)[0](x) - np.sum(parts, axis=0)
    np.testing.assert_allclose(effects, effects[0], atol=1e-8)


def test_joint_draws(posterior):
    draws = sample(posterior, points(BOTH), 2000, 3)[0]
    std = np.sqrt(posterior.predict(points(BOTH))[1])
    assert (
        np.max(np.abs(np.cov(draws) - posterior.covariance(points(BOTH))) / np.outer(std, std))
        < 0.12
    )


def test_two_outputs_without_effects():
    data, kernel = Data(True), Matern32(5.0, 2.0)
    two = np.stack([data.y, 2.0 * data.y + 1.0], axis=1)
    engine = ExactEngine(kernel, Statistics.from_data(data.t, two, data.grid, 3))
    posterior = ExactPosterior(kernel, 0.1, engine)
    at = replace(points(BOTH), effects=np.empty((len(BOTH), 0)))
    mean, variance = posterior.predict(at)
    inverse = np.linalg.inv(kernel(data.t) + 0.1 * np.eye(len(data.t)))
    cross = kernel(BOTH, data.t)
    np.testing.assert_allclose(mean, (cross @ inverse @ two).T, atol=1e-8)
    exact = 2.0 - np.einsum("ni,ij,nj->n", cross, inverse, cross)
    np.testing.assert_allclose(variance, exact, rtol=1e-7)
    (path,) = draw_paths(
        posterior, lambda x: replace(points(x), effects=np.empty((len(x), 0))), random_state=0
    )
    assert path(np.array([1.0, 2.0, 3.0])).shape == (3, 2)
    assert posterior.given_effects[0].shape == (0, 2)


def test_little_noise_keeps_the_digits_of_leave_one_out():
    data, kernel, noise = Data(True), Matern32(5.0, 2.0), 1e-9
    t = np.unique(data.t)
    y = np.sin(t)
    posterior = ExactPosterior(
        kernel, noise, ExactEngine(kernel, Statistics.from_data(t, y, data.grid, 3))
    )
    result = leave_one_out(posterior, replace(points(t), effects=np.empty((len(t), 0))), y)
    inverse = np.linalg.inv(kernel(t) + noise * np.eye(len(t)))
    np.testing.assert_allclose(result.residual, inverse @ y / np.diag(inverse), atol=1e-7)
    np.testing.assert_allclose(result.std, np.diag(inverse) ** -0.5, rtol=1e-8)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("rows", [2, 7, 60])
@pytest.mark.filterwarnings("ignore::UserWarning")  # that there are few rows
def test_integrals_resolve_seasons_that_are_finer_than_the_inputs(nu, rows):
    """Compare with sums over many places: panels between the inputs alone were too wide."""
    x = np.linspace(0.0, 7.8, rows) ** 1.1
    kernel = Periodic(1.53, 0.174, 0.269, nu=nu) * Matern52(5.0) + SHO(0.4, 8.0, 0.3)
    gp = GPRegressor(kernel, noise_variance=0.01, optimizer=None).fit(x, np.sin(x))
    a, b = np.array([-0.3, 1.0, 3.0, 2.9]), np.array([9.0, 1.004, 4.1, 2.97])
    mean, std = gp.integrate(a, b, return_std=True, average=True)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for low, high, m, s in zip(a, b, mean, std, strict=True):
        at = low + (high - low) * (nodes + 1.0) / 2.0
        values, cov = gp.predict(at, return_cov=True)
        rough = 30.0 if nu == 0.5 else 1.0  # sums over places converge slowly
        assert m == pytest.approx(values @ weights / 2.0, abs=2e-5 * rough)
        assert s**2 == pytest.approx(weights @ cov @ weights / 4.0, rel=3e-3 * rough, abs=1e-7)
