"""Averages over intervals as data, against dense Gaussian processes with averaged kernels."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.kernels.dynamics import average_variances
from asvgp.model.prior import ChainPrior
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import leave_one_out
from asvgp.posterior.posterior import LinePoints
from asvgp.statistics import Statistics
from tests.dense import design, gram, kernel_id
from tests.engines import both_bounds, lower_bound

NOISE, SPAN = 0.05, 4.0
EFFECTS = Constant(variance=50.0) + Linear(variance=3.0)
VARIANCES = np.array([50.0, 3.0])
KERNELS = [
    Matern32(0.7, 1.3),
    Matern52(0.7, 1.3),
    SHO(1.1, 2.0, 1.3),
    Matern12(0.5) + SHO(0.9, 0.4),
]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=kernel_id)


class Averages:
    """Averages of functions by quadrature over pieces that meet in their ends at most.

    Whatever two intervals have in common is whole pieces, so that a kernel is smooth on any
    two of them, or they are one and the same.
    """

    def __init__(self, x, width, nodes=12):
        ends = np.unique(np.concatenate([x, x + width]))
        starts = np.concatenate([ends[:-1], x[width == 0.0]])
        self.length = np.concatenate([np.diff(ends), np.zeros(np.sum(width == 0.0))])
        at, weights = np.polynomial.legendre.leggauss(nodes)
        self.at, self.weights = (at + 1.0) / 2.0, weights / 2.0
        self.nodes = starts[:, None] + self.length[:, None] * self.at
        inside = (starts >= x[:, None]) & (starts + self.length <= (x + width)[:, None])
        self.shares = inside * self.length / np.where(width > 0.0, width, 1.0)[:, None]
        point = (self.length == 0.0) & (starts == x[:, None]) & (width == 0.0)[:, None]
        self.shares += point / np.maximum(point.sum(axis=1, keepdims=True), 1)

    def of(self, function):
        """Averages of a function, or of several in columns."""
        values = function(self.nodes.ravel())
        values = values.reshape(*self.nodes.shape, -1)
        return self.shares @ np.einsum("q,pqc->pc", self.weights, values)

    def covariance(self, kernel):
        """Double averages of the kernel."""
        pieces = kernel(self.nodes.ravel()).reshape(*self.nodes.shape, *self.nodes.shape)
        pieces = np.einsum("q,pqrs,s->pr", self.weights, pieces, self.weights)
        lags = self.length[:, None] * self.at
        own = kernel.covariance(lags) @ (2.0 * (1.0 - self.at) * self.weights)
        np.fill_diagonal(pieces, own)
        return self.shares @ pieces @ self.shares.T


def data(n=60, unit=0.125, seed=0, widths=(0.0, 1.0, 2.0)):
    """Averages, and points, on a lattice; none is cut by knots that are two units apart."""
    rng = np.random.default_rng(seed)
    width = unit * rng.choice(widths, n)
    count = round(SPAN / unit)
    x = unit * rng.integers(0, count, n)
    x = np.where(width == 2.0 * unit, 2.0 * unit * np.floor(x / (2.0 * unit)), x)
    x[:2], width[:2] = (0.0, SPAN - width[1]), (2.0 * unit, width[1])
    w = rng.uniform(0.5, 2.0, n)
    y = np.sin(3.0 * (x + 0.5 * width)) + 0.3 * rng.standard_normal(n) + 1.0
    return x, width, w, y


def log_density(y, covariance):
    root = np.linalg.cholesky(covariance)
    half = np.linalg.solve(root, y)
    return -0.5 * half @ half - np.log(np.diag(root)).sum() - 0.5 * len(y) * np.log(2.0 * np.pi)


def degrees(kernel, extra=1):
    return tuple(component.order + extra for component in kernel.components)


def statistics(x, width, w, y, cells, degree, **more):
    return Statistics.from_data(x, y, Grid(0.0, SPAN, cells), degree, w, width=width, **more)


def splines(kernel, grid, order):
    """Basis of all components, joined, as a function, and K."""
    model = ChainPrior(kernel, grid, order)
    blocks = [gram(prior) for prior in model.priors]
    sizes = np.cumsum([0, *map(len, blocks)])
    joined = np.zeros((sizes[-1], sizes[-1]))
    for block, a, b in zip(blocks, sizes[:-1], sizes[1:], strict=True):
        joined[a:b, a:b] = block

    def basis(x):
        x = np.minimum(x, grid.upper - 1e-13)
        return np.concatenate([design(x, grid, k) for k in model.degrees], axis=1)

    return basis, joined


# ------------------------------------------------------------------- bounds and posterior


@each_kernel
def test_bounds_enclose_the_evidence_and_close(kernel):
    x, width, w, y = data(unit=1.0 / 64.0)
    evidence = log_density(y, Averages(x, width).covariance(kernel) + np.diag(NOISE / w))
    order = degrees(kernel, 2)
    gaps = []
    for cells in (8, 32, 128):
        stats = statistics(x, width, w, y, cells, max(order))
        lower, upper = both_bounds(kernel, NOISE, stats, order)
        assert lower.elbo <= evidence + 1e-8
        assert evidence <= upper + 1e-8
        assert lower.missed >= 0.0
        gaps.append((evidence - lower.elbo, upper - evidence))
    assert np.all(np.diff(gaps, axis=0) < 0.0)
    assert gaps[-1][0] < gaps[0][0] * (0.2 if kernel.components[0].order == 0 else 1e-3)


@pytest.mark.parametrize("path", ["plain", "square-root"])
@pytest.mark.parametrize("effects", [False, True], ids=["", "effects"])
@each_kernel
def test_the_evidence_of_the_spline_field_is_exact(kernel, effects, path):
    x, width, w, y = data()
    order = degrees(kernel)
    stats = statistics(x, width, w, y, 16, max(order))
    averages = Averages(x, width)
    basis, K = splines(kernel, stats.grid, order)
    phi = averages.of(basis)
    covariance = phi @ np.linalg.solve(K, phi.T)
    whole = kernel + EFFECTS if effects else kernel
    if effects:
        columns = np.stack([np.ones(len(x)), x + 0.5 * width], axis=1)
        covariance += (columns * VARIANCES) @ columns.T
    bound = lower_bound(whole, NOISE, stats, order, path=path)
    expected = log_density(y, covariance + np.diag(NOISE / w))
    assert bound.fit == pytest.approx(expected, rel=1e-8)
    prior = np.diag(averages.covariance(kernel)) - np.diag(phi @ np.linalg.solve(K, phi.T))
    assert bound.missed == pytest.approx(w @ prior, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
@each_kernel
def test_gradient_is_that_of_differences(kernel, objective):
    x, width, w, y = data()
    whole, order = kernel + EFFECTS, degrees(kernel)
    stats = statistics(x, width, w, y, 16, max(order))

    def value(row, step):
        changed, noise = whole, NOISE
        if row < len(whole.parameters):
            name = whole.parameters[row]
            changed = whole.replace_free({name: whole.values[row] * np.exp(step)})
        else:
            noise = NOISE * np.exp(step)
        bound = lower_bound(changed, noise, stats, order)
        return bound.elbo if objective == "elbo" else bound.fit

    h = 1e-3
    expected = [
        (8.0 * (value(i, h) - value(i, -h)) - (value(i, 2 * h) - value(i, -2 * h))) / (12.0 * h)
        for i in range(len(whole.parameters) + 1)
    ]
    gradient = lower_bound(whole, NOISE, stats, order, objective).gradient
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kernel", [Matern32(0.7), SHO(1.1, 20.0), SHO(1.1, 0.5), SHO(1.1, 0.1)])
def test_variances_of_averages_and_their_derivatives(kernel):
    """Against quadrature by many panels of the formula and of differences of it."""
    lengths = np.array([0.0, 1e-3, 0.3, 4.0, 20.0])
    at, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(0.0, 1.0, 401)
    nodes = (edges[:-1, None] + (at + 1.0) / 2.0 / 400).ravel()
    weights = np.tile(weights / 800.0, 400) * 2.0 * (1.0 - nodes)

    def direct(changed):
        return changed.covariance(lengths[:, None] * nodes) @ weights

    variance, derivatives = average_variances(kernel, lengths)
    np.testing.assert_allclose(variance, direct(kernel), rtol=1e-12, atol=1e-13)
    for name, row in zip(kernel.parameters, derivatives, strict=True):
        values = {
            step: direct(kernel.replace(**{name: getattr(kernel, name) * np.exp(2e-3 * step)}))
            for step in (-3, -2, -1, 1, 2, 3)
        }
        sixth = sum(c * (values[s] - values[-s]) for c, s in ((45, 1), (-9, 2), (1, 3)))
        np.testing.assert_allclose(row, sixth / 0.12, atol=1e-9)


@each_kernel
def test_posterior_is_that_of_the_spline_field(kernel):
    x, width, w, y = data()
    order = degrees(kernel)
    stats = statistics(x, width, w, y, 16, max(order))
    basis, K = splines(kernel, stats.grid, order)
    phi, new = Averages(x, width).of(basis), np.linspace(0.01, SPAN - 0.01, 30)
    P = K + phi.T @ (w[:, None] * phi) / NOISE
    here = basis(new)
    mean, variance = ChainPosterior(kernel, NOISE, stats, order).predict(new)
    np.testing.assert_allclose(
        mean[0], here @ np.linalg.solve(P, phi.T @ (w * y)) / NOISE, atol=1e-8
    )
    missed = np.sum(here.T * np.linalg.solve(K, here.T), axis=0)
    left = np.sum(here.T * np.linalg.solve(P, here.T), axis=0)
    np.testing.assert_allclose(variance, kernel.prior_variance - missed + left, atol=1e-8)


def test_posterior_nears_that_of_the_process():
    kernel = Matern52(1.0, 1.3)
    x, width, w, y = data(unit=1.0 / 64.0)
    stats = statistics(x, width, w, y, 128, 4)
    averages, new = Averages(x, width), np.linspace(0.0, SPAN, 40)
    noisy = averages.covariance(kernel) + np.diag(NOISE / w)
    cross = averages.of(lambda at: kernel(at, new))
    mean, variance = ChainPosterior(kernel, NOISE, stats, 4).predict(new)
    np.testing.assert_allclose(mean[0], cross.T @ np.linalg.solve(noisy, y), atol=1e-5)
    expected = kernel.variance - np.sum(cross * np.linalg.solve(noisy, cross), axis=0)
    np.testing.assert_allclose(variance, expected, atol=1e-5)


def test_degrees_of_freedom_are_those_of_the_smoother():
    kernel = KERNELS[3] + EFFECTS
    x, width, w, y = data()
    order = degrees(kernel)
    stats = statistics(x, width, w, y, 16, max(order))
    posterior = ChainPosterior(kernel, NOISE, stats, order)
    basis, K = splines(kernel, stats.grid, order)
    phi = Averages(x, width).of(basis)
    columns = np.stack([np.ones(len(x)), x + 0.5 * width], axis=1)
    covariance = phi @ np.linalg.solve(K, phi.T) + (columns * VARIANCES) @ columns.T
    expected = np.trace(np.linalg.solve(covariance + np.diag(NOISE / w), covariance))
    assert posterior.factored.forms().freedom == pytest.approx(expected, rel=1e-8)
    parts = posterior.factored.component_freedoms()
    assert posterior.effects is not None
    freedom = posterior.effects.freedom
    own = (columns * VARIANCES) @ columns.T
    own = np.trace(np.linalg.solve(covariance + np.diag(NOISE / w), own))
    assert parts.sum() + own == pytest.approx(expected, rel=1e-8)
    assert freedom > 0.0


# ------------------------------------------------------------------- statistics


def assert_same(a: Statistics, b: Statistics, rtol=1e-12):
    for name in ("moments", "targets", "columns", "products", "squares", "width_weights"):
        mine, other = getattr(a, name), getattr(b, name)
        scale = np.abs(other).max(initial=1.0)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * scale, err_msg=name)
    np.testing.assert_allclose(a.widths, b.widths, rtol=rtol)
    assert (a.grid.cells, a.count, a.missing) == (b.grid.cells, b.count, b.missing)
    assert a.log_weights == pytest.approx(b.log_weights, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    degree=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    factor=st.sampled_from([2, 3, 4, 8]),
    outputs=st.integers(1, 2),
)
def test_sums_do_not_depend_on_how_they_were_made(degree, seed, factor, outputs):
    """In one go, permuted, in portions, points apart, taken out again, coarsened."""
    rng = np.random.default_rng(seed)
    x, width, w, _ = data(80, seed=seed)
    y, z = rng.standard_normal((80, outputs)), rng.standard_normal((80, 2))
    y[7] = np.nan

    def some(rows, cells=16, points=False):
        return statistics(
            x[rows],
            None if points else width[rows],
            w[rows],
            y[rows],
            cells,
            degree,
            covariates=z[rows],
        )

    every = np.arange(80)
    whole = some(every)
    assert_same(some(rng.permutation(80)), whole)
    assert_same(some(every[:30]) + some(every[30:31]) + some(every[31:]), whole)
    point = width == 0.0
    assert_same(some(point, points=True) + some(~point), whole)
    assert_same(some(~point) + some(point, points=True), whole)
    left = whole - some(every[60:])
    assert_same(left, some(every[:60]), rtol=1e-11)
    coarse = whole.coarsen(factor)
    if 16 % factor == 0:
        assert_same(coarse, some(every, 16 // factor))
    assert_same(whole.extend(-1.0, 5.0).coarsen(1), whole.extend(-1.0, 5.0))
    assert whole.extend(-1.0, 5.0).weight == pytest.approx(whole.weight)


def test_what_was_not_added_cannot_be_taken_out():
    x, width, w, y = data()
    points = Statistics.from_data(x, y, Grid(0.0, SPAN, 16), 2, w)
    averaged = statistics(x, width, w, y, 16, 2)
    for first, second in ((points, averaged), (averaged, points)):
        with pytest.raises(ValueError, match="never added"):
            first - second
    nothing = averaged - averaged
    assert (nothing.count, nothing.weight, len(nothing.widths)) == (0, 0.0, 0)


def test_narrow_intervals_are_points():
    x, _, w, y = data()
    kernel = Matern32(0.7)
    x = np.minimum(x + 0.01, SPAN - 0.01)
    points = Statistics.from_data(x, y, Grid(0.0, SPAN, 16), 2, w)
    narrow = statistics(x, np.full(len(x), 1e-9), w, y, 16, 2)
    assert narrow.moments.shape[1] == 6
    a, b = (both_bounds(kernel, NOISE, stats, 2) for stats in (points, narrow))
    assert a[0].elbo == pytest.approx(b[0].elbo, abs=1e-6)
    assert a[1] == pytest.approx(b[1], abs=1e-6)
    np.testing.assert_allclose(a[0].gradient, b[0].gradient, atol=1e-5)


def test_widths_that_only_rounding_separates_are_one():
    edges = np.linspace(1e5, 1e5 + 1.0, 2001)
    width = np.diff(edges)
    assert len(np.unique(width)) > 1
    stats = Statistics.from_data(
        edges[:-1], np.ones(2000), Grid(1e5, 1e5 + 1.0, 1000), 2, width=width
    )
    np.testing.assert_allclose(stats.widths, 5e-4, rtol=1e-12)
    assert stats.width_weights.tolist() == [2000.0]


def test_many_rows_on_all_cores():
    rng = np.random.default_rng(3)
    n, cells = 150_000, 500
    x, y = rng.integers(0, cells, n) / 125.0, rng.standard_normal(n)
    width = np.where(rng.random(n) < 0.5, 0.008, 0.004)
    whole = statistics(x, width, None, y, cells, 2)
    half = slice(0, n // 2), slice(n // 2, n)
    parts = [statistics(x[h], width[h], None, y[h], cells, 2) for h in half]
    assert_same(parts[0] + parts[1], whole)
    assert whole.width_weights.sum() == n


# ------------------------------------------------------------------- the estimator


def hourly(n=600, period=4.0, seed=1):
    """Averages over unit intervals of a function that wiggles fast."""
    rng = np.random.default_rng(seed)
    x = np.arange(float(n))
    omega = 2.0 * np.pi / period
    exact = (np.cos(omega * x) - np.cos(omega * (x + 1.0))) / omega
    return x, exact + 0.02 * rng.standard_normal(n), lambda at: np.sin(omega * at)


@pytest.mark.parametrize(
    "period, objective, lost", [(4.0, "elbo", 0.100), (3.0, "evidence", 0.173)]
)
def test_averages_reveal_what_they_smoothed_away(period, objective, lost):
    """The amplitude is that of f, not of its averages."""
    x, y, f = hourly(period=period)
    inner = np.linspace(50.0, 550.0, 5001)
    settings = {"kernel": SHO(period, quality=50.0), "objective": objective, "degree": 5}
    right = GPRegressor(**settings, num_basis=605).fit(x, y, width=1.0).predict(inner)
    wrong = GPRegressor(**settings, num_basis=2500).fit(x + 0.5, y).predict(inner)
    amplitude = [2.0 * np.mean(m * f(inner)) for m in (right, wrong)]
    assert amplitude[0] == pytest.approx(1.0, abs=0.015)
    assert amplitude[1] == pytest.approx(1.0 - lost, abs=0.01)
    assert np.std(right - f(inner)) < 0.25 * np.std(wrong - f(inner))


def test_trained_model_answers_about_f():
    x, y, _ = hourly(300, period=12.0)
    gp = GPRegressor(SHO(12.0, 20.0) + Constant(), degree=4).fit(x, y, width=1.0)
    assert gp.domain_ == (0.0, 300.0)
    mean, std = gp.integrate(x[50:60], x[50:60] + 1.0, average=True, return_std=True)
    assert np.all(np.abs(mean - y[50:60]) < 0.1)
    assert np.all(std < 0.1)
    assert "Observations      300" in str(gp.summary())
    loo = gp.leave_one_out(x, y, width=1.0)
    assert 0.8 < np.std(loo.z) < 1.2
    assert len(gp.sample_paths(2, random_state=0)) == 2


def test_the_summary_knows_that_knots_cannot_be_finer():
    x, y, _ = hourly(300)
    with pytest.warns(UserWarning, match="more knots would lie inside the intervals"):
        gp = GPRegressor(SHO(4.0, 20.0, fixed=("period", "quality"))).fit(
            np.r_[x, x + 300.0], np.r_[y, y], width=1.0
        )
    assert "or the degree" in str(gp.summary())


def test_durations():
    x, y, _ = hourly(200)
    t = np.datetime64("2024-03-01T00:00") + (3600 * x).astype("timedelta64[s]")
    hour = np.timedelta64(1, "h")
    ways = [
        "1 hour",
        timedelta(hours=1),
        hour,
        pd.Timedelta("1h"),
        np.full(200, hour),
        pd.Series(np.full(200, hour)),
        [timedelta(hours=1)] * 200,
        ["60 min"] * 200,
    ]
    settings = {"num_basis": 203, "noise_variance": 0.01, "optimizer": None}
    expected = None
    for width in ways:
        gp = GPRegressor(Matern32("3 hours"), **settings).fit(t, y, width=width)
        expected = gp.stats_ if expected is None else expected
        assert gp.stats_.widths.tolist() == [3600.0]
        assert_same(gp.stats_, expected)
    some = [timedelta(0), timedelta(hours=1)] * 100
    gp = GPRegressor(Matern32("3 hours"), **settings).fit(t, y, width=some)
    assert gp.stats_.widths.tolist() == [0.0, 3600.0]
    auto = GPRegressor(Matern32("3 hours")).fit(pd.DatetimeIndex(t, tz="UTC"), y, width="1 hour")
    assert auto.stats_.grid.spacing == pytest.approx(3600.0)
    assert auto.domain_[1] >= pd.Timestamp(t[-1] + hour, tz="UTC")


def test_no_width_is_what_it_was():
    x, y, _ = hourly(100)
    plain = GPRegressor(Matern32(), num_basis=50).fit(x, y)
    for width in (0.0, np.zeros(100)):
        gp = GPRegressor(Matern32(), num_basis=50).fit(x, y, width=width)
        assert gp.elbo_ == plain.elbo_
        assert not gp.stats_.averaged


@pytest.mark.parametrize("num_basis", ["auto", 103])
def test_streams_grow_and_forget(num_basis):
    x, y, _ = hourly(400)
    settings = {"num_basis": num_basis, "noise_variance": 0.01, "optimizer": None}
    gp = GPRegressor(Matern32(2.0), **settings).fit(x[100:200], y[100:200], width=1.0)
    gp.partial_fit(x[200:], y[200:], width=1.0)
    gp.partial_fit(x[:100] + 0.25, y[:100])  # points before them
    gp.forget(x[150:200], y[150:200], width=1.0)
    assert gp.stats_.count == 350
    assert gp.stats_.widths.tolist() == [0.0, 1.0]
    assert gp.stats_.grid.spacing == pytest.approx(1.0)
    rows = np.r_[100:150, 200:400]
    once = GPRegressor(Matern32(2.0), domain=gp.domain_, **settings | {"num_basis": gp.num_basis_})
    once.fit(
        np.r_[x[rows], x[:100] + 0.25],
        np.r_[y[rows], y[:100]],
        width=np.r_[np.ones(250), np.zeros(100)],
    )
    assert gp.elbo_ == pytest.approx(once.elbo_, rel=1e-9)
    gp.forget(x[rows], y[rows], width=1.0)
    gp.forget(x[:100] + 0.25, y[:100])
    assert gp.stats_.count == 0


def test_merged_models():
    x, y, _ = hourly(200)
    both = [GPRegressor(Matern32(), num_basis=203, domain=(0.0, 200.0)) for _ in range(3)]
    both[0].fit(x[:90], y[:90], width=1.0)
    both[1].fit(x[90:], y[90:], width=1.0)
    both[2].fit(x, y, width=1.0)
    assert_same(both[0].merge(both[1]).stats_, both[2].stats_)


@pytest.mark.parametrize("kernel", [*KERNELS, Matern52(0.7) + EFFECTS], ids=kernel_id)
def test_leave_one_out_is_refitting(kernel):
    x, width, w, y = data(40)
    order = degrees(kernel)
    loo = leave_one_out(
        ChainPosterior(kernel, NOISE, statistics(x, width, w, y, 16, max(order)), order),
        LinePoints(x, width=width),
        *(y, w),
    )
    for i in range(40):
        kept = np.arange(40) != i
        stats = statistics(x[kept], width[kept], w[kept], y[kept], 16, max(order))
        mean, variance = integrate(
            ChainPosterior(kernel, NOISE, stats, order), x[i], x[i] + width[i], average=True
        )
        assert loo.mean[i] == pytest.approx(mean[0, 0], abs=1e-8)
        assert loo.std[i] ** 2 == pytest.approx(variance[0] + NOISE / w[i], abs=1e-8)


def test_leave_one_out_with_covariates():
    """Residuals are those of the inverse of the data's covariance."""
    kernel = Matern52(0.7, dim=0) + EFFECTS + Linear(1, variance=2.0)
    x, width, w, y = data(40)
    z = np.random.default_rng(2).standard_normal(40)
    settings = {"noise_variance": NOISE, "optimizer": None, "domain": (0.0, SPAN)}
    gp = GPRegressor(kernel, num_basis=20, **settings)
    X = np.stack([x, z], axis=1)
    loo = gp.fit(X, y, w, width=width).leave_one_out(X, y, w, width=width)
    basis, K = splines(Matern52(0.7), gp.stats_.grid, (4,))
    averages = Averages(x, width)
    phi = averages.of(basis)
    columns = np.stack([np.ones(40), x + 0.5 * width, z], axis=1)
    covariance = phi @ np.linalg.solve(K, phi.T) + (columns * [50.0, 3.0, 2.0]) @ columns.T
    inverse = np.linalg.inv(covariance + np.diag(NOISE / w))
    np.testing.assert_allclose(loo.residual, inverse @ y / np.diag(inverse), atol=1e-8)
    missed = np.diag(averages.covariance(Matern52(0.7)) - phi @ np.linalg.solve(K, phi.T))
    left = 1.0 / np.diag(inverse) - NOISE / w  # of f; then of one observation
    np.testing.assert_allclose(loo.std**2, left + NOISE + missed, atol=1e-8)
