"""The posterior of a series beside dense Gaussian processes, and its answers beside each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asvgp import SHO, Constant, Linear, Matern32
from asvgp.basis import Grid
from asvgp.kernels import Matern52, Periodic
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import leave_one_out
from asvgp.posterior.posterior import GridPoints
from asvgp.posterior.samples import sample
from asvgp.posterior.series import SeriesPosterior
from asvgp.posterior.series_paths import continued, draw_paths
from asvgp.statistics import Statistics

NOISE = 0.02
KERNEL = (
    Matern52(20.0, 0.5)
    + SHO(18.0, 20.0, 0.3)
    + Periodic(24.0, 8.0, 0.7, centred=True)
    + Periodic(24.0, 9.0, 0.6, nu=2.5) * Matern32(60.0, 1.0)
    + Constant(variance=4.0)
    + Linear(1, variance=2.0)
)
COMPONENTS = [*range(4), None]
SPAN, STEPS = 94.0, 48  # the last cells of coarse components reach beyond the domain


def data(seed=3, count=150):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, SPAN, count))
    t[0], t[-1] = 0.0, SPAN
    z = rng.standard_normal(count) + 0.5
    noise = np.sqrt(NOISE) * rng.standard_normal(count)
    wave = np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(2 * np.pi * t / 18)
    return t, z, wave + 0.02 * t + 0.5 * z + noise + 0.5


T, Z, Y = data()
INSIDE = np.array([0.0, 0.3, 11.7, 48.0, 60.2, 93.9, SPAN])
AHEAD = SPAN + np.arange(1.0, STEPS + 1)
BOTH = np.concatenate([INSIDE, [-30.0, -2.5, -0.1], [94.1, 96.0, 101.3, 140.0]])


def points(x, z=0.3) -> GridPoints:
    x = np.asarray(x, dtype=float)
    effects = np.stack([np.ones_like(x), np.broadcast_to(z, x.shape)], axis=1)
    return GridPoints(x[:, None], np.empty((len(x), 0)), effects)


def slopes(x) -> GridPoints:
    """Return points where a derivative along the input is asked for."""
    return replace(points(x), effects=np.zeros((len(x), 2)))


def engine(fine=1, rows=slice(None)) -> SeriesEngine:
    """Return an engine on cells of length one, or four times as many."""
    grid = Grid(0.0, SPAN, int(SPAN) * fine)
    more = 2 * (fine > 1)
    parts = (
        Part(along=Along(4, 2)),
        Part(along=Along(9, 3 + more, True)),
        Part(around=Around(3, 12, 2) if fine == 1 else Around(3, 96, 1)),
        Part(along=Along(3, 3), around=Around(4, 12, 2 * fine)),
    )
    plan = SeriesPlan(grid, 9, parts, 2)
    columns = np.stack([np.ones_like(T), Z], axis=1)[rows]
    stats = Statistics.from_data(T[rows], Y[rows], grid, 9, covariates=columns)
    return SeriesEngine(KERNEL, plan, stats)


@pytest.fixture(scope="module")
def posterior() -> SeriesPosterior:
    return SeriesPosterior(KERNEL, NOISE, engine())


@pytest.fixture(scope="module")
def fine() -> SeriesPosterior:
    return SeriesPosterior(KERNEL, NOISE, engine(4))


class Dense:
    """The Gaussian process itself."""

    def __init__(self, t=T, z=Z, y=Y):
        self.t, self.z = t, z
        whole = self.covariance(t, t) + self.effects(z, z) + NOISE * np.eye(len(t))
        self.inverse = np.linalg.inv(whole)
        self.alpha = self.inverse @ y

    def covariance(self, a, b, component=None):
        lag, out = np.abs(np.subtract.outer(a, b)), 0.0
        for number, part in enumerate(KERNEL.components):
            if component in (None, number):
                value = np.full(lag.shape, part.variance)
                for factor in part.factors:
                    value = value * factor.covariance(lag)
                out = out + value
        return out

    def effects(self, a, b):
        return 4.0 + 2.0 * np.multiply.outer(a, b)

    def predict(self, x, component=None, z=0.3):
        z = np.broadcast_to(z, np.shape(x))
        cross, own = self.covariance(x, self.t, component), self.covariance(x, x, component)
        if component is None:
            cross, own = cross + self.effects(z, self.z), own + self.effects(z, z)
        return cross @ self.alpha, own - cross @ self.inverse @ cross.T


@pytest.fixture(scope="module")
def dense() -> Dense:
    return Dense()


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(
    "x", [np.linspace(0.0, SPAN, 60), AHEAD, -AHEAD + SPAN], ids=["inside", "ahead", "behind"]
)
def test_fine_cells_predict_as_a_dense_process(fine, dense, x, component):
    mean, variance = fine.predict(points(x), component=component)
    exact, covariance = dense.predict(x, component)
    std = np.sqrt(np.diag(covariance))
    assert np.max(np.abs(mean[0] - exact) / std) < 0.02
    assert np.max(np.abs(np.sqrt(variance) / std - 1.0)) < 0.02


def test_far_forecasts_return_to_the_prior(posterior):
    far = np.array([1e5, -1e5])
    for component, prior in ((0, 0.5), (1, 0.3), (3, 0.6)):
        mean, variance = posterior.predict(points(far), component=component)
        np.testing.assert_allclose(mean, 0.0, atol=1e-9)
        np.testing.assert_allclose(variance, prior, rtol=1e-9)
    near = far % 24.0 + 24.0
    for one, other in zip(
        posterior.predict(points(far), component=2),
        posterior.predict(points(near), component=2),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("order", [0, 1])
def test_covariances_agree_with_variances(posterior, component, order):
    at = slopes(BOTH) if order else points(BOTH)
    _, variance = posterior.predict(at, component=component, order=order)
    covariance = posterior.covariance(at, order, component)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-6, atol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8


def test_covariance_of_a_dense_process(fine, dense):
    covariance = fine.covariance(points(BOTH))
    np.testing.assert_allclose(covariance, dense.predict(BOTH)[1], atol=2e-3)
    ahead = fine.covariance(points(AHEAD))
    np.testing.assert_allclose(ahead, dense.predict(AHEAD)[1], atol=2e-3)


@pytest.mark.parametrize("component", COMPONENTS)
def test_derivatives_are_limits_of_differences(posterior, component):
    x, h = np.array([-20.0, -3.3, 0.4, 17.3, 60.1, 93.2, 94.5, 120.0]), 1e-3
    mean, variance = posterior.predict(slopes(x), component=component, order=1)
    around = points(np.concatenate([x + h, x - h]))
    above, below = np.split(posterior.predict(around, component=component)[0][0], 2)
    np.testing.assert_allclose(mean[0], (above - below) / (2 * h), rtol=1e-5, atol=1e-6)
    whole = posterior.covariance(around, component=component)
    n = len(x)
    both = whole[:n, :n] - whole[:n, n:] - whole[n:, :n] + whole[n:, n:]
    exact = posterior.covariance(slopes(x), 1, component)
    # A process of one derivative only: differences converge no faster than h.
    np.testing.assert_allclose(both / (4 * h * h), exact, atol=3e-3 * np.diag(exact).max())
    np.testing.assert_allclose(np.diag(exact), variance, rtol=1e-6)


def test_derivatives_along_columns(posterior):
    at = replace(points(BOTH), effects=np.tile([0.0, 1.0], (len(BOTH), 1)))
    mean, variance = posterior.predict(at, order={1: 1})
    coefficients, covariance = posterior.given_effects
    np.testing.assert_allclose(mean[0], coefficients[1, 0])
    np.testing.assert_allclose(variance, covariance[1, 1])
    for one, other in zip(
        posterior.predict(slopes(BOTH), order={0: 1}),
        posterior.predict(slopes(BOTH), order=1),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="does not exist"):
        posterior.predict(slopes(BOTH), order=2)
    assert posterior.predict(slopes(BOTH), component=0, order=2)[1].min() > 0.0


def test_effects_of_a_dense_process(fine):
    coefficients, covariance = fine.given_effects
    columns, prior = np.stack([np.ones_like(T), Z], axis=1), np.diag([4.0, 2.0])
    rest = Dense().covariance(T, T) + NOISE * np.eye(len(T))
    inverse = np.linalg.inv(columns.T @ np.linalg.solve(rest, columns) + np.linalg.inv(prior))
    exact = inverse @ columns.T @ np.linalg.solve(rest, Y)
    np.testing.assert_allclose(coefficients[:, 0], exact, atol=5e-3)
    np.testing.assert_allclose(covariance, inverse, rtol=2e-2, atol=1e-5)


LOW = np.array([0.0, 10.2, 33.0, 20.0, 94.0, 97.5, -40.0, -20.0, 50.0, 100.0, 94.0])
HIGH = np.array([24.0, 10.9, 33.0, 70.0, 118.0, 98.5, -16.0, 130.0, 40.0, 100.0, SPAN])


@pytest.mark.parametrize("component", COMPONENTS)
def test_averages_are_those_of_many_points(posterior, component):
    nodes, weights = np.polynomial.legendre.leggauss(4)
    rows, x = [], []
    for low, high in zip(LOW, HIGH, strict=True):
        a, b = min(low, high), max(low, high)
        knots = np.arange(np.floor(a), np.ceil(b) + 1.0)
        cuts = np.unique(np.clip(np.concatenate([[a], knots, [b]]), a, b))
        start, stop = (cuts[:-1], cuts[1:]) if a < b else (cuts, cuts)
        share = (stop - start) / (b - a) if a < b else np.ones(1)
        x.append((start[:, None] + (stop - start)[:, None] * (nodes + 1.0) / 2.0).ravel())
        rows.append((share[:, None] * weights / 2.0).ravel())
    matrix = np.zeros((len(LOW), sum(map(len, x))))
    begin = 0
    for row, values in zip(matrix, rows, strict=True):
        row[begin : begin + len(values)] = values
        begin += len(values)
    at = points(np.concatenate(x))
    mean, covariance = posterior.averages(points(LOW), points(HIGH), True, True, component)
    values, _ = posterior.predict(at, component=component)
    np.testing.assert_allclose(mean[0], matrix @ values[0], rtol=1e-6, atol=1e-7)
    whole = matrix @ posterior.covariance(at, component=component) @ matrix.T
    np.testing.assert_allclose(covariance, whole, rtol=2e-4, atol=2e-5)
    _, variance = posterior.averages(points(LOW), points(HIGH), component=component)
    np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-6, atol=1e-8)
    _, none = posterior.averages(points(LOW), points(HIGH), False)
    assert not none.size


def test_integrals_of_a_dense_process(fine, dense):
    nodes, weights = np.polynomial.legendre.leggauss(200)
    low, high = np.array([10.0, 94.0, 118.0]), np.array([34.0, 118.0, 142.0])
    x = (low[:, None] + 24.0 * (nodes + 1.0) / 2.0).ravel()
    matrix = np.kron(np.eye(3), weights / 2.0) * 24.0
    exact, covariance = dense.predict(x)
    mean, spread = integrate(fine, points(low), points(high), covariance=True)
    whole = matrix @ covariance @ matrix.T
    std = np.sqrt(np.diag(whole))
    assert np.max(np.abs(mean[0] - matrix @ exact) / std) < 0.02
    np.testing.assert_allclose(spread / np.outer(std, std), whole / np.outer(std, std), atol=0.02)
    backwards, _ = integrate(fine, points(high), points(low))
    np.testing.assert_allclose(backwards, -mean)


def test_no_points(posterior):
    nothing = points(np.empty(0))
    mean, variance = posterior.predict(nothing)
    assert mean.shape == (1, 0)
    assert variance.shape == (0,)
    assert posterior.covariance(nothing).shape == (0, 0)
    mean, variance = posterior.averages(nothing, nothing)
    assert mean.shape == (1, 0)
    assert variance.shape == (0,)


def test_leave_one_out_is_refitting(posterior):
    result = leave_one_out(posterior, points(T, Z), Y)
    for i in (3, 70, 140):
        rest = np.arange(len(T)) != i
        other = SeriesPosterior(KERNEL, NOISE, engine(1, rest))
        mean, variance = other.predict(points(T[[i]], Z[[i]]))
        np.testing.assert_allclose(result.mean[i], mean[0, 0], rtol=1e-6)
        np.testing.assert_allclose(result.std[i] ** 2, variance[0] + NOISE, rtol=1e-6)
    with pytest.raises(ValueError, match="outside the domain"):
        posterior.fitted_values(points(AHEAD))


def test_a_saved_state_predicts_without_factoring(posterior, monkeypatch):
    expected = [posterior.predict(points(BOTH)), posterior.predict(points(AHEAD), component=3)]
    joint = posterior.covariance(points(AHEAD))
    total = posterior.averages(points(AHEAD[:-1]), points(AHEAD[1:]), covariance=True)
    parts, effects = posterior.parts, posterior.given_effects
    monkeypatch.setattr(SeriesEngine, "factor", None)
    again = SeriesPosterior.restored(*parts)
    for one, two in zip(
        expected,
        [again.predict(points(BOTH)), again.predict(points(AHEAD), component=3)],
        strict=True,
    ):
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
    np.testing.assert_array_equal(joint, again.covariance(points(AHEAD)))
    repeated = again.averages(points(AHEAD[:-1]), points(AHEAD[1:]), covariance=True)
    np.testing.assert_array_equal(total[1], repeated[1])
    leave_one_out(again, points(T, Z), Y)
    np.testing.assert_array_equal(again.given_effects[1], effects[1])


@pytest.mark.parametrize("component", COMPONENTS)
def test_paths_have_the_moments_of_the_posterior(fine, component):
    paths = draw_paths(fine, points, 2000, 1, component)
    values = np.stack([path(INSIDE) for path in paths])
    mean, variance = fine.predict(points(INSIDE), component=component)
    std = np.sqrt(variance)
    assert np.max(np.abs(values.mean(axis=0) - mean[0]) / std) < 0.1
    np.testing.assert_allclose(values.std(axis=0), std, rtol=0.08)
    assert np.isnan(paths[0](AHEAD)).all()


def test_paths_of_components_add_up(posterior):
    parts = [draw_paths(posterior, points, 1, 5, i)[0](INSIDE) for i in range(4)]
    whole = draw_paths(posterior, points, 1, 5)[0]
    with_effects = whole(INSIDE) - np.sum(parts, axis=0)
    np.testing.assert_allclose(with_effects, with_effects[0], atol=1e-9)


def test_walks_have_the_moments_of_forecasts(fine):
    x = np.concatenate([AHEAD[[0, 5, 30]], [50.0], [-1.0, -25.0]])
    draws = continued(fine, points(x), 3000, 2)[0]
    joint = sample(fine, points(x), 3000, 3)[0]
    mean, _ = fine.predict(points(x))
    covariance = fine.covariance(points(x))
    std = np.sqrt(np.diag(covariance))
    for values in (draws, joint):
        assert np.max(np.abs(values.mean(axis=1) - mean[0]) / std) < 0.1
        off = np.cov(values) - covariance
        assert np.max(np.abs(off) / np.outer(std, std)) < 0.1


@pytest.mark.parametrize("component", range(4))
def test_centred_components(posterior, component):
    average = np.mean(posterior.predict(points(T), component=component)[0])
    mean, variance = posterior.centred(component, BOTH)
    plain, _ = posterior.predict(points(BOTH), component=component)
    np.testing.assert_allclose(mean, plain - average, atol=1e-8)
    at = points(np.concatenate([BOTH, T]))
    matrix = np.hstack([np.eye(len(BOTH)), np.full((len(BOTH), len(T)), -1.0 / len(T))])
    rows = posterior.rows(at, posterior.target(component))
    exact = np.diag(matrix @ posterior.quadratic(rows.matrix) @ matrix.T) + rows.missed[: len(BOTH)]
    np.testing.assert_allclose(variance, exact, rtol=1e-6, atol=1e-9)


def test_upper_bound(posterior):
    whole = Dense().covariance(T, T) + Dense().effects(Z, Z) + NOISE * np.eye(len(T))
    _, log_det = np.linalg.slogdet(whole)
    evidence = -0.5 * (Y @ np.linalg.solve(whole, Y) + log_det + len(T) * np.log(2 * np.pi))
    assert posterior.upper_bound() > evidence


def test_a_season_alone_with_two_outputs():
    kernel = Periodic(24.0, 8.0, 0.7)
    grid, two = Grid(0.0, SPAN, int(SPAN)), np.stack([Y, 2.0 * Y + 1.0], axis=1)
    plan = SeriesPlan(grid, 9, (Part(around=Around(3, 24, 1)),))
    stats = Statistics.from_data(T, two, grid, 9)
    posterior = SeriesPosterior(kernel, 0.1, SeriesEngine(kernel, plan, stats))
    at = replace(points(BOTH), effects=np.empty((len(BOTH), 0)))
    mean, variance = posterior.predict(at)
    lag = np.abs(np.subtract.outer(T, np.concatenate([T, BOTH])))
    whole = kernel.covariance(lag)
    inverse = np.linalg.inv(whole[:, : len(T)] + 0.1 * np.eye(len(T)))
    cross = whole[:, len(T) :]
    exact = 0.7 - np.einsum("in,ij,jn->n", cross, inverse, cross)
    np.testing.assert_allclose(variance, exact, atol=1e-3)
    np.testing.assert_allclose(mean, (cross.T @ inverse @ two).T, atol=0.03)
    np.testing.assert_allclose(np.diag(posterior.covariance(at)), variance, rtol=1e-8)
    path = draw_paths(posterior, lambda x: replace(points(x), effects=np.empty((len(x), 0))))[0]
    assert path(INSIDE).shape == (len(INSIDE), 2)
    again = SeriesPosterior.restored(*posterior.parts).predict(at)
    np.testing.assert_array_equal(again[0], mean)


def test_covariances_of_oscillators_that_live_long():
    """Keep all digits where K is all but singular."""
    kernel = SHO(24.0, 1e6, 0.5) + Matern32(1e5, 1.0)
    grid = Grid(0.0, SPAN, int(SPAN))
    plan = SeriesPlan(grid, 9, (Part(along=Along(9, 3, True)), Part(along=Along(3, 2))))
    engine = SeriesEngine(kernel, plan, Statistics.from_data(T, Y, grid, 9))
    posterior = SeriesPosterior(kernel, NOISE, engine)
    at = replace(points(BOTH), effects=np.empty((len(BOTH), 0)))
    for component in (0, 1):
        _, variance = posterior.predict(at, component=component)
        covariance = posterior.covariance(at, component=component)
        np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-7, atol=1e-12)
