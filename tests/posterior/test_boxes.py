"""Integrals, component paths, derivatives' covariances and leave-one-out of several inputs."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Linear, Matern12, Matern32, Matern52
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.grid_paths import draw_paths
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import leave_one_out
from asvgp.posterior.posterior import GridPoints
from tests.model.test_field import CASES, NOISE, Case, dense_functions, dense_stiffness
from tests.posterior.test_field_functionals import along, dense_rows
from tests.posterior.test_functionals import slope

FIXED = {"noise_variance": 0.01, "optimizer": None}
CORNERS = np.random.default_rng(4).uniform(0.0, 1.0, (2, 7, 4))
CORNERS[1, 5] = CORNERS[0, 5]  # a point
CORNERS[1, 6, 0] = CORNERS[0, 6, 0]  # and a face


@pytest.fixture(params=CASES, ids=str)
def case(request) -> Case:
    return CASES[request.param]


legendre = cache(np.polynomial.legendre.leggauss)  # takes longer than the sums made with it


def gauss(start, stop, count=40):
    nodes, weights = legendre(count)
    return start + (stop - start) * (nodes + 1.0) / 2.0, (stop - start) * weights / 2.0


def twice(kernel, lag):
    """The second antiderivative of a covariance function, even."""
    lag, total = abs(lag), 0.0
    for start, stop in itertools.pairwise([0.0, *turns(kernel, 0.0, 0.0, lag), lag]):
        nodes, weights = gauss(start, stop, 60)
        total += float(weights @ ((lag - nodes) * kernel.covariance(nodes)))
    return total


def turns(kernel, x, start, stop):
    """Places between two others that are whole periods from x, where a covariance has a kink."""
    period = getattr(kernel, "period", 100.0)
    places = x + period * np.arange(-10, 11)
    return [place for place in places if start < place < stop]


def covariance_of_averages(kernel, one, other):
    """Prior covariance between the averages over two intervals, given as (start, stop)."""
    (a, b), (c, d) = one, other
    if a == b and c == d:
        return float(kernel.covariance(np.array([abs(a - c)]))[0])
    if a == b:
        one, other, a, b, c, d = other, one, c, d, a, b
    if c == d:  # an average with a value
        low, high = min(a, b), max(a, b)
        cuts = np.unique([low, high, *turns(kernel, c, low, high)])
        total = 0.0
        for start, stop in itertools.pairwise(cuts):
            nodes, weights = gauss(start, stop)
            total += weights @ kernel.covariance(np.abs(nodes - c))
        return float(total / abs(b - a))
    ends = twice(kernel, b - c) - twice(kernel, b - d) - twice(kernel, a - c) + twice(kernel, a - d)
    return ends / ((b - a) * (d - c))


def prior_between(process, low, high):
    count = len(low)
    if process is None:
        return np.ones((count, count))
    pairs = list(zip(low, high, strict=True))
    return np.array([[covariance_of_averages(process, p, q) for q in pairs] for p in pairs])


def average_along(axis, a, b):
    """Averages of a line's functions over an interval inside the domain, by quadrature."""
    if axis.process is None or a == b:
        return along(axis, np.array([a]), 0)[0]
    a, b = min(a, b), max(a, b)
    span = axis.grid.upper - axis.grid.lower
    knots = np.add.outer(span * np.arange(-9, 10) * axis.grid.cyclic, axis.grid.knots).ravel()
    cuts = np.unique([a, b, *(k for k in knots if a < k < b)])
    total = 0.0
    for start, stop in itertools.pairwise(cuts):
        nodes, weights = gauss(start, stop, 4)
        total = total + weights @ along(axis, nodes, 0)
    return total / (b - a)


def dense_averages(case: Case, low, high, component):
    """Mean and covariance of averages over boxes, by inverting dense matrices."""
    X, y, w = case.data()
    engine, plan, parts = case.assembly(), case.plan, case.kernel.components
    functions, stiffness = dense_functions(case, X), dense_stiffness(case, engine)
    inverse = np.linalg.inv(functions.T @ (w[:, None] * functions) / NOISE + stiffness)
    a, b, blocks = case.points(low), case.points(high), []
    prior = np.zeros((len(low), len(low)))

    def row(axes, first, second, acting):
        out = []
        for i in range(len(low)):
            value = np.full(1, float(acting))
            for d, axis in enumerate(axes):
                value = np.kron(value, average_along(axis, first[i, d], second[i, d]))
            out.append(value)
        return np.array(out)

    for number, axes in zip(plan.terms, plan.axes(case.kernel), strict=True):
        acting = component in (None, number)
        blocks.append(row(axes, a.main, b.main, acting))
        part = acting * parts[number].variance
        for d, axis in enumerate(axes):
            part = part * prior_between(axis.process, a.main[:, d], b.main[:, d])
        prior += part
    for j, axis in enumerate(plan.smooth_axes(case.kernel)):
        acting = component in (None, plan.smooths[j])
        blocks.append(row([axis], a.smooths[:, [j]], b.smooths[:, [j]], acting))
        part = prior_between(axis.process, a.smooths[:, j], b.smooths[:, j])
        prior += acting * parts[plan.smooths[j]].variance * part
    effects = 0.5 * (a.effects + b.effects) * float(component is None)
    prior += (effects * np.array(case.variances)) @ effects.T if case.variances else 0.0
    rows = np.hstack([*blocks, effects])
    cov = prior + rows @ (inverse - np.linalg.inv(stiffness)) @ rows.T
    return rows @ inverse @ functions.T @ (w * y) / NOISE, cov


def test_averages_are_those_of_the_dense_matrices(case):
    low, high = CORNERS[:, :, : case.columns]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    for component in (None, 0, len(case.kernel.components) - 1):
        corners = case.points(low), case.points(high)
        mean, cov = posterior.averages(*corners, covariance=True, component=component)
        expected = dense_averages(case, low, high, component)
        np.testing.assert_allclose(mean[0], expected[0], atol=1e-8)
        np.testing.assert_allclose(cov, expected[1], atol=1e-8)
        np.testing.assert_array_equal(cov, cov.T)
        again, variance = posterior.averages(*corners[::-1], component=component)
        np.testing.assert_allclose(again, mean, atol=1e-11)
        np.testing.assert_allclose(variance, np.diag(cov), atol=1e-9)
        only, nothing = posterior.averages(*corners, variance=False, component=component)
        np.testing.assert_array_equal(only, mean)
        assert nothing.size == 0


def test_boxes_without_volume_are_points_anywhere(case):
    X = np.random.default_rng(5).uniform(-0.6, 1.6, (12, case.columns))
    posterior, points = GridPosterior(case.kernel, NOISE, case.assembly()), case.points(X)
    mean, cov = posterior.averages(points, points, covariance=True)
    np.testing.assert_allclose(mean, posterior.predict(points)[0], atol=1e-9)
    np.testing.assert_allclose(cov, posterior.covariance(points), atol=1e-7)


def test_boxes_add_up_across_the_ends_of_the_domain(case):
    """A box, beyond the domain on all sides, is the sum of its parts, covariances included."""
    width, cuts = case.columns, np.array([-0.7, 0.0, 0.35, 1.0, 1.9])
    low, high = np.full((1, width), -0.7), np.full((1, width), 1.9)
    parts = np.repeat(low, 4, axis=0), np.repeat(high, 4, axis=0)
    parts[0][:, 0], parts[1][:, 0] = cuts[:-1], cuts[1:]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    corners = [case.points(corner) for corner in (*parts, low, high)]
    if case.kernel.effects:  # of columns that no splines are over
        corners = [GridPoints(c.main, c.smooths, np.ones_like(c.effects)) for c in corners]
    mean, cov = integrate(posterior, *corners[:2], covariance=True)
    whole, variance = integrate(posterior, *corners[2:])
    np.testing.assert_allclose(mean.sum(), whole[0, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(cov.sum(), variance[0], rtol=1e-6, atol=1e-8)


def test_estimators_integrals_are_those_of_the_exact_process():
    rng = np.random.default_rng(6)
    X = rng.uniform(0.0, 1.0, (150, 4))
    X[0], X[1] = 0.0, 1.0
    parts = Matern32(0.4, 1.2, dim=0) * Matern52(0.5, dim=1), Matern52(0.9, 0.7, dim=2)
    kernel = parts[0] + parts[1] + Constant(variance=4.0) + Linear(0, variance=3.0)
    kernel += Linear(3, variance=2.0)
    y = np.sin(4 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + X[:, 3] + 0.1 * rng.standard_normal(150)
    gp = GPRegressor(kernel, num_basis=(30, 20, 40), **FIXED).fit(X, y)
    low = np.array([[0.1, 0.2, 0.3], [-0.5, 0.0, 0.5], [1.2, 0.5, -1.0], [0.0, 1.0, 0.0]])
    high = np.array([[0.6, 0.9, 1.0], [0.5, 1.8, 1.5], [2.0, 0.8, -0.1], [1.0, 0.0, 1.0]])
    factors = [
        [Matern32(0.4, 1.2), Matern52(0.5), None],
        [None, None, Matern52(0.9, 0.7)],
    ]
    middle = 0.5 * (low + high)
    effects = np.stack([np.ones(4), middle[:, 0], np.zeros(4)], axis=1)
    data = np.stack([np.ones(150), X[:, 0], X[:, 3]], axis=1)
    variances = np.array([4.0, 3.0, 2.0])
    cross = (effects * variances) @ data.T
    prior = (effects * variances) @ effects.T
    noisy = (data * variances) @ data.T + 0.01 * np.eye(150)
    for term in factors:
        between, with_data, among = 1.0, 1.0, 1.0
        for d, process in enumerate(term):
            if process is None:
                continue
            between = between * prior_between(process, low[:, d], high[:, d])
            with_data = with_data * np.array(
                [
                    [covariance_of_averages(process, (a, b), (x, x)) for x in X[:, d]]
                    for a, b in zip(low[:, d], high[:, d], strict=True)
                ]
            )
            among = among * process.covariance(np.abs(X[:, [d]] - X[:, d]))
        prior, cross, noisy = prior + between, cross + with_data, noisy + among
    mean = cross @ np.linalg.solve(noisy, y)
    cov = prior - cross @ np.linalg.solve(noisy, cross.T)
    got, spread = gp.integrate(low, high, return_cov=True, average=True)
    np.testing.assert_allclose(got, mean, atol=5e-3)
    np.testing.assert_allclose(spread, cov, atol=5e-3)
    volume = np.prod(high - low, axis=1)
    assert volume[3] == -1.0
    total, std = gp.integrate(low, high, return_std=True)
    np.testing.assert_allclose(total, volume * mean, atol=5e-3)
    np.testing.assert_allclose(std, np.abs(volume) * np.sqrt(np.diag(cov)), atol=5e-3)
    one, deviation = gp.integrate(low[0], high[0], return_std=True)
    assert np.ndim(one) == np.ndim(deviation) == 0
    np.testing.assert_allclose([one, deviation], [total[0], std[0]], rtol=1e-8)
    np.testing.assert_allclose(gp.integrate(low[0], high)[0], total[0], rtol=1e-9)


def test_corners_are_checked_and_may_be_times():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0.0, 1.0, (200, 2)), rng.standard_normal((200, 2))
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1)
    gp = GPRegressor(kernel, num_basis=9, **FIXED).fit(X, y)
    assert gp.integrate([0, 0], [1, 1]).shape == (2,)
    assert gp.integrate(np.zeros((3, 2)), np.ones(2), return_cov=True)[1].shape == (3, 3, 2)
    with pytest.raises(ValueError, match=r"a must have shape \(2,\) or \(m, 2\).*has shape \(3,\)"):
        gp.integrate([0, 0, 0], [1, 1])
    with pytest.raises(ValueError, match="b, column 1 of X"):
        gp.integrate([0, 0], [1, np.nan])
    with pytest.raises(ValueError, match="At most one"):
        gp.integrate([0, 0], [1, 1], return_std=True, return_cov=True)
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=200, freq="D")
    frame = pd.DataFrame({"day": days, "depth": X[:, 1]})
    timed = Matern32("30 days", dim="day") * Matern32(0.5, dim="depth")
    gp = GPRegressor(timed, num_basis=20, **FIXED).fit(frame, y[:, 0])
    seconds = 86400.0 * 10
    got = gp.integrate([days[5], 0.0], [days[15], 0.5])
    other = gp.integrate([np.datetime64("2024-01-06"), 0.0], [np.datetime64("2024-01-16"), 0.5])
    assert got == other
    axes = pd.date_range(days[5], days[15], periods=400), np.linspace(0.0, 0.5, 60)
    grid = gp.predict({"day": axes[0], "depth": axes[1]})
    inner = np.trapezoid(np.trapezoid(grid, dx=0.5 / 59, axis=1), dx=seconds / 399)
    np.testing.assert_allclose(got, inner, rtol=1e-2, atol=1e-3 * seconds)


# ------------------------------------------------------- covariances of derivatives


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("separable", {1: 1}),
        ("separable", {0: 1, 1: 1}),
        ("two resolutions", {0: 1}),
        ("mixed", {0: 1}),
        ("mixed", {2: 1}),
        ("additive", {1: 2}),
    ],
)
def test_covariances_of_derivatives_are_those_of_the_dense_matrices(name, order):
    case = CASES[name]
    X = np.random.default_rng(3).uniform(0.0, 1.0, (15, case.columns))
    data, _, w = case.data()
    engine, plan, parts = case.assembly(), case.plan, case.kernel.components
    functions, stiffness = dense_functions(case, data), dense_stiffness(case, engine)
    inverse = np.linalg.inv(functions.T @ (w[:, None] * functions) / NOISE + stiffness)
    points = case.points(X)
    points = GridPoints(points.main, points.smooths, np.zeros_like(points.effects))
    prior = np.zeros((15, 15))

    def between(process, x, r):
        if process is None:
            return float(r == 0)
        return (-1.0) ** r * slope(process, np.abs(x[:, None] - x), 2 * r)

    for number, axes in zip(plan.terms, plan.axes(case.kernel), strict=True):
        part = parts[number].variance * float(set(order) <= set(plan.inputs))
        for d, axis in enumerate(axes):
            part = part * between(axis.process, points.main[:, d], order.get(plan.inputs[d], 0))
        prior += part
    for j, axis in enumerate(plan.smooth_axes(case.kernel)):
        over = parts[plan.smooths[j]].factors[0].dim
        part = between(axis.process, points.smooths[:, j], order.get(over, 0))
        prior += float(set(order) <= {over}) * parts[plan.smooths[j]].variance * part
    rows = dense_rows(case, X, dict.fromkeys(order, 1), None)[0]
    if name == "additive":
        rows = np.zeros_like(rows)
        axes, first = plan.smooth_axes(case.kernel), 0
        for j, axis in enumerate(axes):
            if j == 1:
                rows[:, first : first + axis.count] = along(axis, points.smooths[:, j], 2)
            first += axis.count
    expected = prior + rows @ (inverse - np.linalg.inv(stiffness)) @ rows.T
    posterior = GridPosterior(case.kernel, NOISE, engine)
    got = posterior.covariance(points, order)
    np.testing.assert_allclose(got, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(np.diag(got), posterior.predict(points, order=order)[1], rtol=1e-5)


def test_an_estimator_has_covariances_of_derivatives():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (200, 2))
    kernel = Matern52(0.5, dim=0) * Matern52(0.5, dim=1) + Linear(0)
    gp = GPRegressor(kernel, num_basis=15, **FIXED).fit(X, np.sin(5 * X[:, 0]) + X[:, 1])
    new = rng.uniform(-0.2, 1.2, (20, 2))
    mean, cov = gp.predict(new, derivative={0: 1}, return_cov=True)
    same, std = gp.predict(new, derivative={0: 1}, return_std=True)
    np.testing.assert_allclose(mean, same, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-5)


# --------------------------------------------------------------- paths of components


def test_paths_of_components_add_up(case):
    X = np.random.default_rng(7).uniform(0.0, 1.0, (25, case.columns))
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    paths = {
        component: draw_paths(posterior, case.points, 2, 3, component)
        for component in (None, *range(len(case.kernel.components)))
    }
    for i in range(2):
        whole, *parts = (path[i](X) for path in paths.values())
        rest = whole - np.sum(parts, axis=0)
        design = case.points(X).effects
        beta = np.linalg.lstsq(design, rest, rcond=None)[0] if design.size else np.empty(0)
        np.testing.assert_allclose(rest, design @ beta, atol=1e-8)
    with pytest.raises(ValueError, match="component must be None or from 0"):
        draw_paths(posterior, case.points, component=9)


def test_paths_of_components_have_their_moments():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (150, 3))
    kernel = Matern32(0.6, dim=0) * Matern32(0.7, dim=1) + Matern32(0.5, 0.4, dim=2) + Constant()
    gp = GPRegressor(kernel, num_basis=(24, 24, 30), **FIXED)
    gp.fit(X, np.sin(4 * X[:, 0]) + X[:, 2] + 0.1 * rng.standard_normal(150))
    parts = gp.predict(X[:5], return_std=True, components=True)[2]
    for component in (0, 1):
        draws = np.stack([path(X[:5]) for path in gp.sample_paths(1500, 1, component=component)])
        mean, std = parts[component].mean, parts[component].std
        np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5.0 * std.max() / 1500**0.5)
        np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.1)


# ------------------------------------------------------------------------ leave one out


def test_leave_one_out_is_refitting_without_the_row(case):
    X, y, w = case.data(60)
    posterior = GridPosterior(case.kernel, NOISE, case.assembly_of(X, y, w))
    loo = leave_one_out(posterior, case.points(X), y, w)
    for i in (0, 1, 7, 31):
        rest = np.arange(60) != i
        other = GridPosterior(case.kernel, NOISE, case.assembly_of(X[rest], y[rest], w[rest]))
        mean, variance = other.predict(case.points(X[i : i + 1]))
        np.testing.assert_allclose(loo.mean[i], mean[0, 0], atol=1e-6)
        np.testing.assert_allclose(loo.std[i], np.sqrt(variance[0] + NOISE / w[i]), atol=1e-6)
        np.testing.assert_allclose(loo.z[i], (y[i] - loo.mean[i]) / loo.std[i], rtol=1e-9)


def test_leave_one_out_of_a_field_says_what_is_wrong(case):
    X, y, w = case.data(40)
    posterior, points = GridPosterior(case.kernel, NOISE, case.assembly_of(X, y, w)), case.points(X)
    with pytest.raises(ValueError, match=r"y has shape \(39, 1\)"):
        leave_one_out(posterior, points, y[1:], w)
    with pytest.raises(ValueError, match="3 weights for 40 rows"):
        leave_one_out(posterior, points, y, w[:3])
    with pytest.raises(ValueError, match="1 of 40 inputs are outside"):
        leave_one_out(posterior, case.points(np.vstack([X[:-1], X[-1:] + 1.0])), y, w)
    twice_over = [np.concatenate([part, part]) for part in (X, y, w)]
    with pytest.raises(ValueError, match="made from 40"):
        leave_one_out(posterior, case.points(twice_over[0]), *twice_over[1:])
    missing = y.copy()
    missing[3] = np.nan
    assert np.isnan(leave_one_out(posterior, points, missing, w).std[3])


def test_observations_that_determine_a_field_are_counted():
    X = np.random.default_rng(0).uniform(0.0, 1.0, (5, 2))
    kernel = Matern12(0.3, dim=0) * Matern12(0.3, dim=1)
    settings = {"noise_variance": 1e-15, "optimizer": None, "num_basis": 30}
    with pytest.warns(UserWarning, match="Rounding: the bound is good to about"):
        gp = GPRegressor(kernel, **settings).fit(X, X.sum(axis=1))
    with pytest.warns(RuntimeWarning, match="5 of 5 leave-one-out predictions are NaN"):
        loo = gp.leave_one_out(X, X.sum(axis=1))
    assert np.isnan(loo.mean).all()
