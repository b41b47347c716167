"""Digits of fields: factors by square roots, refined means, and what defects measure."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import kernels as exact

from asvgp import GPRegressor, Matern, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model.axis import Axis
from asvgp.model.bound import lower_bound
from asvgp.model.grid import GridEngine
from asvgp.model.grid_roots import root_factor
from asvgp.model.plan import Plan
from asvgp.posterior.grid import GridPosterior
from asvgp.statistics import Statistics
from tests.dense import design
from tests.model.test_field import CASES, NOISE


@pytest.mark.parametrize("name", CASES)
def test_a_factor_by_square_roots_is_that_of_the_elimination(name):
    engine = CASES[name].assembly()
    prior = engine.prior(CASES[name].kernel)
    plain, root = engine._factor(prior, NOISE), root_factor(engine, prior, NOISE)
    assert root.log_det == pytest.approx(plain.log_det, rel=1e-12)
    right = np.random.default_rng(0).standard_normal((engine.size, 3))
    expected = plain.solve(right)
    got = root.solve(right)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    found = [{}, {}]
    for blocks, factor in zip(found, (plain, root), strict=True):
        factor.selected_inverse(lambda a, b, z, to=blocks: to.update({a: z.copy()}))
    for (start, expected), (other, got) in zip(
        sorted(found[0].items()), sorted(found[1].items()), strict=True
    ):
        assert start == other
        np.testing.assert_allclose(got, expected, atol=1e-9 * np.abs(expected).max())


def dense_root(axis: Axis) -> np.ndarray:
    """A square root of K along one input, from the operator at the Gauss nodes of all cells."""
    element, boundary = axis.root_blocks
    rows = np.zeros((axis.grid.cells, len(element), axis.count))
    for cell in range(axis.grid.cells):
        rows[cell, :, cell : cell + axis.degree + 1] = element
    first = np.zeros((len(boundary), axis.count))
    first[:, : axis.degree + 1] = boundary
    return np.asarray(np.linalg.qr(np.concatenate([first, rows.reshape(-1, axis.count)]), mode="r"))


@pytest.fixture(scope="module", params=[1.0, 6.0, 12.0])
def long_product(request):
    """A product of long processes on many cells, and its factor by a dense QR decomposition."""
    kernel = Matern32(request.param, dim=0) * Matern52(request.param, dim=1)
    cells, degrees, noise = (14, 12), (3, 4), 0.01
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (80, 2))
    y = np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.standard_normal(80)
    grids = tuple(Grid(0.0, 1.0, n) for n in cells)
    plan = Plan((0, 1), grids, degrees, (0,), (degrees,), ((0, 0),))
    engine = GridEngine(kernel, plan, Statistics.from_data(X, y, grids, degrees))
    (axes,) = engine.prior(kernel).axes
    functions = [design(X[:, d], grids[d], degrees[d]) for d in range(2)]
    phi = np.einsum("ni,nj->nij", *functions).reshape(len(X), -1)
    rows = np.concatenate([np.kron(*map(dense_root, axes)), phi / noise**0.5])
    right = np.append(np.zeros(engine.size), y / noise**0.5)
    triangle = np.linalg.qr(np.column_stack([rows, right]), mode="r")
    diagonal = np.abs(np.diag(triangle))
    log_det, misfit = 2.0 * np.log(diagonal[:-1]).sum(), diagonal[-1] ** 2
    return engine, kernel, noise, log_det, misfit


def test_the_mean_keeps_its_digits_where_the_factor_has_lost_them(long_product):
    engine, kernel, noise, _, misfit = long_product
    prior = engine.prior(kernel)
    plain = engine._solved(prior, noise, engine._factor(prior, noise), True)
    squares = engine.statistics.squares.sum() / noise
    assert squares - plain.explained.sum() == pytest.approx(misfit, rel=1e-9)


def test_a_defect_is_the_error_of_the_determinant(long_product):
    engine, kernel, noise, log_det, _ = long_product
    prior = engine.prior(kernel)
    plain, root = engine._factor(prior, noise), root_factor(engine, prior, noise)
    assert root.log_det == pytest.approx(log_det, abs=1e-9)
    assert engine._solved(prior, noise, root, True).defect < 1e-7
    error = abs(plain.log_det - log_det)
    assert engine._solved(prior, noise, plain, True).defect == pytest.approx(
        error, rel=2.0, abs=1e-9
    )


def test_gradients_are_those_of_the_bound_on_many_cells(long_product):
    engine, kernel, noise, _, _ = long_product
    bound = lower_bound(engine.factor(kernel, Gaussian(noise)))
    for place, name in enumerate(kernel.parameters):
        ends = []
        for step in (1e-3, -1e-3):
            moved = kernel.replace(**{name: kernel.values[place] * np.exp(step)})
            prior = engine.prior(moved)
            solution = engine._solved(prior, noise, root_factor(engine, prior, noise), True)
            missed = engine.missed(prior, derivatives=False)[0].sum()
            gained = solution.factor.log_det - prior.log_det
            ends.append(0.5 * (solution.explained.sum() - gained - missed / noise))
        slope = (ends[0] - ends[1]) / 2e-3
        assert bound.gradient[place] == pytest.approx(slope, rel=2e-3, abs=1e-2)


def bound_and_evidence(kernel, num_basis: int, rows: int) -> tuple[float, float]:
    """Return the bound of noisy rows of a smooth field, and their dense evidence."""
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(rows, 2))
    y = np.sin(5.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(rows)
    options = {"noise_variance": 0.01, "optimizer": None, "domain": [(0.0, 1.0)] * 2}
    gp = GPRegressor(kernel, num_basis=num_basis, **options).fit(X, y)
    return gp.elbo_, multivariate_normal(cov=kernel(X) + 0.01 * np.eye(rows)).logpdf(y)


@pytest.mark.parametrize("num_basis", [34, 42, 50])
def test_bounds_of_smooth_products_stay_below_the_evidence_on_many_cells(num_basis):
    kernel = Matern52(1.25, dim=0) * Matern52(1.59, dim=1)
    bound, evidence = bound_and_evidence(kernel, num_basis, 200)
    assert evidence - 0.01 < bound < evidence


@pytest.mark.parametrize("num_basis", [20, 24, 34])
def test_bounds_of_sums_of_smooth_products_stay_below_the_evidence(num_basis):
    kernel = Matern52(1.39, dim=0) * Matern52(1.81, dim=1)
    kernel = kernel + Matern52(1.56, 0.3, dim=0) * Matern52(1.56, 1.0, dim=1)
    bound, evidence = bound_and_evidence(kernel, num_basis, 200)
    assert evidence - 0.01 < bound < evidence


@pytest.mark.parametrize("num_basis", [20, 28, 34])
@pytest.mark.parametrize(("nu", "lengthscale"), [(2, 1.5), (2, 3.0), (3, 1.0), (3, 1.5)])
def test_bounds_of_joint_kernels_stay_below_the_evidence(nu, lengthscale, num_basis):
    kernel = Matern(nu, lengthscale, dim=(0, 1))
    bound, evidence = bound_and_evidence(kernel, num_basis, 150)
    assert evidence - 0.05 < bound < evidence


@pytest.fixture(scope="module", params=[(3, 2.0, 42), (3, 3.0, 34), (3, 3.0, 42), (2, 6.0, 42)])
def long_joint(request):
    """A fit of a joint kernel on very many cells, and its exact covariances and evidence."""
    nu, lengthscale, splines = request.param
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(150, 2))
    y = np.sin(5.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(150)
    kernel = Matern(nu, lengthscale, dim=(0, 1))
    options = {"noise_variance": 0.01, "optimizer": None, "domain": [(0.0, 1.0)] * 2}
    gp = GPRegressor(kernel, num_basis=splines, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Rounding: the bound is good to", UserWarning)
        gp.fit(X, y)
    noisy = kernel(X) + 0.01 * np.eye(150)

    def covariance(new):
        cross = kernel(new, X)
        return kernel(new) - cross @ np.linalg.solve(noisy, cross.T)

    return gp, covariance, multivariate_normal(cov=noisy).logpdf(y)


def test_deviations_of_joint_kernels_on_very_many_cells(long_joint):
    gp, covariance, _ = long_joint
    inside = np.random.default_rng(1).uniform(size=(200, 2))
    around = np.random.default_rng(2).uniform(-0.3, 1.3, (60, 2))
    for new in (inside, around):
        _, std = gp.predict(new, return_std=True)
        np.testing.assert_allclose(std, np.diag(covariance(new)) ** 0.5, rtol=5e-3)
    expected, got = covariance(inside[:20]), gp.predict(inside[:20], return_cov=True)[1]
    np.testing.assert_allclose(got, expected, atol=5e-3 * np.diag(expected).max())


def test_deviations_of_slopes_of_joint_kernels_on_very_many_cells(long_joint):
    gp, covariance, _ = long_joint
    new, step = np.random.default_rng(3).uniform(-0.1, 1.1, (40, 2)), np.array([0.01, 0.0])
    both = covariance(np.concatenate([new + step, new - step]))
    variances = np.diag(both)[:40] + np.diag(both)[40:] - 2.0 * np.diag(both[:40, 40:])
    _, std = gp.predict(new, return_std=True, derivative={0: 1})
    np.testing.assert_allclose(std, variances**0.5 / 0.02, rtol=5e-3)


def test_bounds_of_joint_kernels_hold_the_evidence_on_very_many_cells(long_joint):
    gp, _, evidence = long_joint
    assert evidence - 0.01 < gp.elbo_ < evidence < gp.evidence_upper_bound_


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(2, (1.0, 0.4), dim=(0, 1)),
        Matern(3, 0.7, dim=(0, 1)),
        Matern(2, (1.0, 0.4), dim=(0, 1), rotation=0.6),
        Matern(1.5, (0.5, 0.9, 0.7), dim=(0, 1, 2)),
    ],
)
def test_a_joint_norm_by_derivatives_is_that_by_tables(kernel):
    inputs = len(kernel.dim)
    X = np.random.default_rng(0).uniform(size=(20, inputs))
    options = {"num_basis": 24 // inputs - 2, "optimizer": None, "noise_variance": 0.1}
    gp = GPRegressor(kernel, **options).fit(X, X[:, 0])
    (unit,) = gp.posterior_.prior.terms[0].units
    right = np.random.default_rng(1).standard_normal((unit.count, 2))
    shape = *(axis.count for axis in unit.axes), 2
    expected = unit.apply(right.reshape(shape), range(inputs)).reshape(right.shape)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(unit._applied(right), expected, atol=1e-11 * scale)
    rows = [axis.rows(X[:, d]) for d, axis in enumerate(unit.axes)]
    np.testing.assert_allclose(unit._captured_by_solutions(rows), unit.captured(rows), rtol=1e-9)


def long_field(splines: int):
    """Three rows of a product of smooth processes, many cells long, and its exact covariance."""
    X = np.array([[0.1, 0.4], [0.5, 0.6], [0.8, 0.9]])
    kernel = Matern52(2.8, 0.25, dim=0) * Matern72(2.4, 1.35, dim=1)
    gp = GPRegressor(kernel, num_basis=splines, optimizer=None, noise_variance=0.2)
    along = exact.Matern(2.8, nu=2.5), exact.Matern(2.4, nu=3.5)

    def covariance(A, B):
        values = [f(A[:, [d]], B[:, [d]]) for d, f in enumerate(along)]
        return 0.25 * 1.35 * values[0] * values[1]

    return gp.fit(X, np.ones(3)), X, covariance


@pytest.mark.parametrize("splines", [16, 20])
def test_joint_covariances_of_long_processes(splines):
    """K^-1 is applied by roots: by K itself, a percent or all of the variance would be lost."""
    gp, X, covariance = long_field(splines)
    new = np.array([[0.2, 0.5], [0.5, 0.7], [0.7, 0.8]])
    cross = covariance(new, X)
    weights = np.linalg.solve(covariance(X, X) + 0.2 * np.eye(3), cross.T)
    expected = covariance(new, new) - cross @ weights
    np.testing.assert_allclose(gp.predict(new, return_cov=True)[1], expected, rtol=1e-4)


def test_variances_beyond_the_data_of_long_processes():
    """There weights on splines are large and of both signs, and P^-1 of leaves has no digit left.

    Warnings are errors here.
    """
    gp, X, covariance = long_field(30)
    new = np.array([[0.5, 0.7], [2.5, 3.0], [-1.0, 0.5], [0.82, -0.3]])
    cross = covariance(new, X)
    weights = np.linalg.solve(covariance(X, X) + 0.2 * np.eye(3), cross.T)
    expected = np.diag(covariance(new, new) - cross @ weights) ** 0.5
    np.testing.assert_allclose(gp.predict(new, return_std=True)[1], expected, rtol=1e-3)


def test_variances_that_rounding_makes_negative_are_told(monkeypatch):
    """No variance takes a solution here, as if no error were measured."""
    monkeypatch.setattr(GridPosterior, "_selected_error", 0.0)
    gp, *_ = long_field(30)
    told = "variance at [12] of [12] points: term 1.*Use a lengthscale"  # which, rounding decides
    with pytest.warns(RuntimeWarning, match=told):
        gp.predict([[0.5, 0.7], [2.5, 3.0]], return_std=True)


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_very_long_processes_vary_as_dense_ones(column, order):
    """Three rows tell little; lengthscales of 50 and 140 cells leave P^-1 of leaves few digits."""
    rng = np.random.default_rng(300033485430)
    X = rng.integers(0, 9, (3, 2)) / 8 * [0.478, 0.956]
    y = 0.145 * np.sin(X @ [6.34, 16.0]) + 0.457 * rng.standard_normal(3)
    kernel = Matern72(0.61, 1.24, dim=0) * Matern72(2.05, 3.76, dim=1)
    gp = GPRegressor(kernel, num_basis=30, optimizer=None, noise_variance=0.209)
    with pytest.warns(UserWarning, match="Rounding: the bound is good to"):
        gp.fit(X, y)
    new = rng.uniform(-0.1, 1.1, (40, 2)) * [0.478, 0.956]
    _, std = gp.predict(new, return_std=True, derivative={column: order})
    step = 0.02
    weights = {1: [-0.5, 0.0, 0.5], 2: [1.0, -2.0, 1.0]}[order] / np.power(step, order)
    moves = np.outer([-step, 0.0, step], np.eye(2)[column])
    places = (new[:, None] + moves).reshape(-1, 2)
    cross = kernel(places, X)
    matrix = kernel(places) - cross @ np.linalg.solve(kernel(X) + 0.209 * np.eye(3), cross.T)
    blocks = np.stack([matrix[i : i + 3, i : i + 3] for i in range(0, 120, 3)])
    expected = np.einsum("i,nij,j->n", weights, blocks, weights) ** 0.5
    np.testing.assert_allclose(std, expected, rtol=5e-3)


def test_variances_that_differ_from_zero_by_rounding_alone_are_not_told():
    """Long processes without noise leave next to no variance; warnings are errors here."""
    X = np.random.default_rng(0).uniform(size=(300, 2))
    kernel = Matern72(30.0, dim=0) * Matern72(30.0, dim=1)
    options = {"noise_variance": 1e-9, "optimizer": None, "domain": [(0.0, 1.0)] * 2}
    gp = GPRegressor(kernel, num_basis=26, **options).fit(X, np.sin(5.0 * X[:, 0]))
    new = np.random.default_rng(1).uniform(-0.02, 1.02, (2000, 2))
    assert np.max(gp.predict(new, return_std=True)[1]) < 0.01
