"""Models of several inputs against dense Gaussian processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52, Periodic
from asvgp.basis import Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.grid import GridEngine
from asvgp.model.grid_tables import interleave
from asvgp.model.plan import Plan
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.posterior import GridPoints
from asvgp.statistics import Statistics
from tests.dense import design as splines
from tests.engines import engine_bound, engine_upper_bound

NOISE = 0.04


@dataclass
class Case:
    """A kernel with its plan, on data that touch the edges and leave a hole."""

    kernel: Kernel
    plan: Plan
    columns: int = 3
    variances: list[float] = field(default_factory=list)  # of the effects

    def data(self, n=120):
        rng = np.random.default_rng(1)
        X = rng.uniform(0.0, 1.0, (n, self.columns))
        X[0], X[1] = 0.0, 1.0
        X[:, 0] = np.where(np.abs(X[:, 0] - 0.5) < 0.12, 0.3, X[:, 0])  # a hole
        w = rng.uniform(0.5, 2.0, n)
        y = np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + X[:, -1] ** 2 + 1.0
        return X, y + 0.1 * rng.standard_normal(n), w

    def points(self, X) -> GridPoints:
        over = [self.kernel.components[t].factors[0].dim for t in self.plan.smooths]
        effects = [
            np.ones(len(X)) if isinstance(e, Constant) else X[:, e.dim]  # pyright: ignore
            for e in self.kernel.effects
        ]
        design = np.stack(effects, axis=1) if effects else np.empty((len(X), 0))
        return GridPoints(X[:, list(self.plan.inputs)], X[:, over], design)

    def stats(self, X, y, w, plan=None) -> Statistics:
        plan, points = plan or self.plan, self.points(X)
        return Statistics.from_data(
            points.main if plan.inputs else None,
            y,
            plan.grids,
            plan.powers,
            w,
            smooths=tuple(zip(plan.smooth_grids, plan.smooth_degrees, strict=True)),
            smooth_inputs=points.smooths if plan.smooths else None,
            covariates=points.effects if plan.effects else None,
        )

    def assembly(self) -> GridEngine:
        return self.assembly_of(*self.data())

    def assembly_of(self, X, y, w) -> GridEngine:
        return GridEngine(self.kernel, self.plan, self.stats(X, y, w))

    def prior(self, X, Y=None, kernel=None):
        """Dense covariance, the effects' included."""
        Y = X if Y is None else Y
        Z, V = self.points(X).effects, self.points(Y).effects
        return (kernel or self.kernel)(X, Y) + (Z * np.array(self.variances)) @ V.T

    def evidence(self, kernel=None) -> float:
        X, y, w = self.data()
        noisy = self.prior(X, kernel=kernel) + np.diag(NOISE / w)
        return float(
            -0.5 * y @ np.linalg.solve(noisy, y) - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
        )

    def finer(self, times: int) -> Case:
        def fine(grids):
            return tuple(replace(g, cells=times * g.cells) for g in grids)

        plan = replace(
            self.plan, grids=fine(self.plan.grids), smooth_grids=fine(self.plan.smooth_grids)
        )
        return replace(self, plan=plan)


def grids(*cells):
    return tuple(Grid(0.0, 1.0, n) for n in cells)


CASES = {
    "separable": Case(
        Matern32(0.5, 1.3, dim=0) * Matern32(0.7, dim=1),
        Plan((0, 1), grids(7, 11), (2, 2), (0,), ((2, 2),), ((0, 0),)),
        columns=2,
    ),
    "three inputs": Case(
        Matern32(0.6, 1.3, dim=0) * Matern12(0.9, dim=1) * Matern52(0.8, dim=2),
        Plan((0, 1, 2), grids(4, 5, 3), (2, 1, 3), (0,), ((2, 1, 3),), ((0, 0, 0),)),
    ),
    "two resolutions": Case(
        Matern32(0.3, 0.7, dim=0) * Matern32(0.4, dim=1)
        + Matern52(1.0, 1.1, dim=0) * Matern32(1.2, dim=1),
        Plan((0, 1), grids(10, 9), (3, 2), (0, 1), ((2, 2), (3, 2)), ((0, 0), (1, 2))),
        columns=2,
    ),
    "space, time and both": Case(
        Matern32(0.5, 1.3, dim=0) * Matern32(0.7, dim=1)
        + Matern52(0.6, 0.5, dim=0)
        + SHO(0.9, 2.0, 0.4, dim=1),
        Plan(
            (0, 1),
            grids(8, 6),
            (3, 3),
            (0, 1, 2),
            ((2, 2), (3, 0), (0, 3)),
            ((0, 1), (1, 0), (0, 0)),
        ),
        columns=2,
    ),
    "mixed": Case(
        Matern32(0.5, 1.3, dim=0) * Matern12(0.7, dim=1)
        + Matern52(1.0, 0.5, dim=0)
        + Matern32(0.6, 0.8, dim=2)
        + Constant(variance=5.0)
        + Linear(3, variance=2.0),
        Plan(
            (0, 1),
            grids(8, 9),
            (3, 1),
            (0, 1),
            ((2, 1), (3, 0)),
            ((0, 1), (1, 0)),
            (2,),
            grids(7),
            (2,),
            2,
        ),
        columns=4,
        variances=[5.0, 2.0],
    ),
    "additive": Case(
        Matern32(0.5, 1.3, dim=0)
        + Matern52(0.6, 0.8, dim=1)
        + Matern32(0.7, dim=2)
        + Constant(variance=3.0),
        Plan((), (), (), (), (), (), (0, 1, 2), grids(9, 6, 8), (2, 3, 2), 1),
        variances=[3.0],
    ),
    "smooths over one column": Case(
        Matern32(0.5, 1.3, dim=0) * Matern12(0.7, dim=1)
        + Matern52(1.0, 0.5, dim=2)
        + SHO(0.9, 2.0, 0.4, dim=2),
        Plan((0, 1), grids(8, 9), (2, 1), (0,), ((2, 1),), ((0, 0),), (1, 2), grids(7, 9), (3, 3)),
    ),
    "around a circle": Case(
        Periodic(0.7, 0.2, 1.3, dim=0) * Matern32(0.7, dim=1)
        + Periodic(0.7, 0.6, 0.5, nu=0.5, dim=0)
        + Constant(variance=5.0),
        Plan(
            (0, 1),
            (Grid(0.1, 0.1 + 0.7, 16, cyclic=True), *grids(6)),
            (2, 2),
            (0, 1),
            ((2, 2), (1, 0)),
            ((0, 0), (1, 0)),
            effects=1,
        ),
        columns=2,
        variances=[5.0],
    ),
    "two circles and a line": Case(
        Matern32(0.8, 1.3, dim=0) * Periodic(0.5, 0.4, dim=1) * Periodic(1.5, 0.9, dim=2),
        Plan(
            (0, 1, 2),
            (*grids(4), Grid(0.0, 0.5, 8, True), Grid(0.0, 1.5, 8, True)),
            (2, 2, 2),
            (0,),
            ((2, 2, 2),),
            ((0, 0, 0),),
        ),
    ),
    "additive, around a circle": Case(
        Periodic(0.4, 0.2, 1.3, nu=2.5, dim=0)
        + Matern52(0.6, 0.8, dim=0)
        + Matern32(0.7, dim=1)
        + Constant(variance=3.0),
        Plan(
            (),
            (),
            (),
            (),
            (),
            (),
            (0, 1, 2),
            (Grid(0.0, 0.4, 8, cyclic=True), *grids(6, 8)),
            (3, 3, 2),
            1,
        ),
        columns=2,
        variances=[3.0],
    ),
    "additive, two over one column": Case(
        Matern52(0.9, 1.3, dim=0) + Matern12(2.0, 0.2, dim=0) + Matern32(0.7, dim=1),
        Plan((), (), (), (), (), (), (0, 1, 2), grids(9, 9, 8), (3, 1, 2)),
        columns=2,
    ),
}


@pytest.fixture(params=CASES, ids=str)
def case(request) -> Case:
    return CASES[request.param]


def dense_functions(case: Case, X) -> np.ndarray:
    """All basis functions at points, by scipy's B-splines."""
    points, blocks = case.points(X), []
    for axes in case.plan.axes(case.kernel):
        value = np.ones((len(X), 1))
        for d, axis in enumerate(axes):
            own = np.ones((len(X), 1))
            if axis.process is not None:
                own = splines(points.main[:, d], axis.grid, axis.degree)
            value = (value[:, :, None] * own[:, None, :]).reshape(len(X), -1)
        blocks.append(value)
    for j, axis in enumerate(case.plan.smooth_axes(case.kernel)):
        blocks.append(splines(points.smooths[:, j], axis.grid, axis.degree))
    return np.hstack([*blocks, points.effects])


def dense_stiffness(case: Case, assembly: GridEngine) -> np.ndarray:
    """K of all functions."""
    from scipy.linalg import block_diag

    blocks = []
    for term, axes in zip(case.plan.terms, case.plan.axes(case.kernel), strict=True):
        value = np.ones((1, 1)) / case.kernel.components[term].variance
        for axis in axes:
            value = np.kron(value, axis.matrix.toarray())
        blocks.append(value)
    return np.asarray(block_diag(*blocks, assembly.column_stiffness(assembly.prior(case.kernel))))


def test_gram_and_right_hand_side_are_those_of_the_functions(case):
    X, y, w = case.data()
    assembly = case.assembly()
    functions = dense_functions(case, X)
    np.testing.assert_allclose(assembly.right[:, 0], functions.T @ (w * y), atol=1e-10)
    if assembly.inputs:
        total = np.zeros((assembly.size, assembly.size))
        for index, block in zip(assembly.tables.tree.leaf_index, assembly.gram[:], strict=True):
            own = index >= 0
            total[np.ix_(index[own], index[own])] += block[np.ix_(own, own)]
        np.testing.assert_allclose(total, functions.T @ (w[:, None] * functions), atol=1e-10)


def test_factor_is_that_of_the_dense_matrix(case):
    X, _, w = case.data()
    assembly = case.assembly()
    functions = dense_functions(case, X)
    dense = functions.T @ (w[:, None] * functions) / NOISE + dense_stiffness(case, assembly)
    factor = assembly.factor(case.kernel, Gaussian(NOISE))
    log_det = factor.solution.factor.log_det
    assert log_det == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-9)
    right = np.random.default_rng(0).standard_normal((assembly.size, 3))
    np.testing.assert_allclose(dense @ factor.solve(right), right, atol=1e-6 * np.abs(right).max())
    stiffness = np.linalg.slogdet(dense_stiffness(case, assembly))[1]
    assert factor.gained == pytest.approx(log_det - stiffness, rel=1e-9)


def test_bounds_enclose_the_evidence_and_converge(case):
    evidence = case.evidence()
    gaps = []
    for times in (1, 2) if len(case.plan.inputs) == 3 else (1, 2, 4):
        finer = case.finer(times)
        assembly = finer.assembly()
        bound = engine_bound(assembly, case.kernel, NOISE)
        assert bound.elbo <= evidence <= engine_upper_bound(assembly, case.kernel, NOISE)
        gaps.append(evidence - bound.elbo)
    assert all(b < 0.75 * a for a, b in pairwise(gaps))


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_gradient_is_that_of_differences(case, objective):
    assembly, kernel = case.assembly(), case.kernel
    theta = np.log(np.append(kernel.values, NOISE))

    def value(theta):
        moved = kernel.replace_free(dict(zip(kernel.parameters, np.exp(theta[:-1]), strict=True)))
        bound = engine_bound(assembly, moved, float(np.exp(theta[-1])), objective)
        return bound.elbo if objective == "elbo" else bound.fit

    gradient = engine_bound(assembly, kernel, NOISE, objective).gradient
    for i, step in enumerate(1e-3 * np.eye(len(theta))):
        ends = [value(theta + k * step) for k in (-2, -1, 1, 2)]
        difference = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * 1e-3)
        assert gradient[i] == pytest.approx(difference, rel=1e-6, abs=1e-5)


NEW = np.random.default_rng(7).uniform(0.0, 1.0, (9, 4))
NEW[5:, 0] = [1.3, -0.4, 0.5, 2.0]
NEW[6:, 1] = [-0.1, 1.2, 1.5]
NEW[7, 2] = 1.4


def exact(case: Case, new):
    X, y, w = case.data()
    noisy = case.prior(X) + np.diag(NOISE / w)
    cross = case.prior(new, X)
    gain = np.linalg.solve(noisy, cross.T).T
    return gain @ y, case.prior(new) - gain @ cross.T


def spline_exact(case: Case, new):
    """The same with the splines' part of the covariances, for any functional of theirs."""
    X, _, w = case.data()
    assembly = case.assembly()
    inverse = np.linalg.inv(
        dense_functions(case, X).T @ (w[:, None] * dense_functions(case, X)) / NOISE
        + dense_stiffness(case, assembly)
    )
    return inverse, assembly


def test_posterior_of_the_functions_inside(case):
    X, y, w = case.data()
    inside = np.random.default_rng(3).uniform(0.0, 1.0, (30, 4))
    inside[0], inside[1] = 0.0, 1.0
    inverse, assembly = spline_exact(case, inside)
    posterior = GridPosterior(case.kernel, NOISE, assembly)
    functions = dense_functions(case, inside)
    mean, variance = posterior.predict(case.points(inside))
    np.testing.assert_allclose(
        mean[0], functions @ inverse @ dense_functions(case, X).T @ (w * y) / NOISE, atol=1e-8
    )
    captured = np.linalg.inv(dense_stiffness(case, assembly))
    whole = case.prior(inside) - functions @ captured @ functions.T
    expected = whole + functions @ inverse @ functions.T
    np.testing.assert_allclose(variance, np.diag(expected), atol=1e-8)
    np.testing.assert_allclose(posterior.covariance(case.points(inside)), expected, atol=1e-7)
    again, quadratic, missed = posterior._by_rows(case.points(inside))
    np.testing.assert_allclose(again, mean, atol=1e-9)
    np.testing.assert_allclose(quadratic + missed, variance, atol=1e-9)


def test_predictions_converge_inside_and_beyond_the_domain(case):
    new = NEW[:, : case.columns]
    finer = case.finer(2 if len(case.plan.inputs) == 3 else 6)
    posterior = GridPosterior(case.kernel, NOISE, finer.assembly())
    mean, cov = exact(case, new)
    got, variance = posterior.predict(case.points(new))
    rough = any(f.order == 0 for part in case.kernel.components for f in part.factors)
    tolerance = 0.12 if rough else 0.02
    if len(case.plan.inputs) == 3 and any(grid.cyclic for grid in case.plan.grids):
        tolerance = 0.05  # y is not periodic: residuals are larger, and so are errors
    np.testing.assert_allclose(got[0], mean, atol=tolerance)
    np.testing.assert_allclose(variance, np.diag(cov), atol=tolerance)
    np.testing.assert_allclose(posterior.covariance(case.points(new)), cov, atol=tolerance)


def test_terms_add_up_and_know_their_uncertainty(case):
    X, _, w = case.data()
    new = NEW[:, : case.columns]
    finer = case.finer(2 if len(case.plan.inputs) == 3 else 6)
    posterior = GridPosterior(case.kernel, NOISE, finer.assembly())
    points = case.points(new)
    noisy = case.prior(X) + np.diag(NOISE / w)
    total = np.zeros(len(new))
    for term, part in enumerate(case.kernel.components):
        mean, variance = posterior.predict(points, component=term)
        total += mean[0]
        cross = np.full((len(new), len(X)), part.variance)
        for factor in part.factors:
            cross *= factor(new[:, factor.dim], X[:, factor.dim])
        expected = part.variance - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
        np.testing.assert_allclose(variance, expected, atol=0.06)
    total += points.effects @ posterior.columns[len(posterior.columns) - len(case.variances) :, 0]
    np.testing.assert_allclose(total, posterior.predict(points)[0][0], atol=1e-8)


def test_derivatives_are_limits_of_differences():
    case = CASES["two resolutions"]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    new, step = NEW[:, :2], 1e-4
    mean, variance = posterior.predict(case.points(new), order={0: 1})
    ends = np.concatenate([new + np.array([step, 0.0]), new - np.array([step, 0.0])])
    got = posterior.predict(case.points(ends))[0][0]
    np.testing.assert_allclose(mean[0], (got[:9] - got[9:]) / (2 * step), atol=1e-4)
    cov = posterior.covariance(case.points(ends))
    difference = np.hstack([np.eye(9), -np.eye(9)]) / (2 * step)
    # What the splines miss is rougher than they are: its differences converge slowly.
    np.testing.assert_allclose(variance, np.diag(difference @ cov @ difference.T), rtol=0.02)


def test_draws_have_the_posteriors_covariance():
    case = CASES["space, time and both"]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    size = posterior.engine.size
    root = posterior.factored.draw(np.eye(size))
    inverse = posterior.factored.solve(np.eye(size))
    np.testing.assert_allclose(root @ root.T, inverse, atol=1e-9 * np.abs(inverse).max())


def test_interleaved_axes():
    sums = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).astype(float)
    got = interleave(sums, 2)
    assert got.shape == (8, 15)
    assert got[1 * 4 + 2, 2 * 5 + 3] == sums[1, 2, 2, 3]


def surface(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, 2))
    f = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1])
    return X, 3.0 + f + 0.1 * rng.standard_normal(n), 3.0 + f


def test_estimator_on_two_inputs():
    X, y, truth = surface()
    gp = GPRegressor(Matern32() + Constant(), num_basis=14).fit(X, y)
    assert gp.num_basis_ == (14, 14)
    assert len(gp.kernel_.components[0].factors) == 2
    mean, std, parts = gp.predict(X, return_std=True, components=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.05
    assert np.mean(np.abs(mean - truth) < 2 * std) > 0.8
    np.testing.assert_allclose(sum(part.mean for part in parts), mean, atol=1e-8)
    assert gp.elbo_ <= gp.evidence_upper_bound_
    assert gp.noise_variance_ == pytest.approx(0.01, rel=0.25)
    loo = gp.leave_one_out(X, y)
    rest = np.arange(len(y)) != 7
    other = GPRegressor(
        gp.kernel_,
        num_basis=14,
        domain=gp.domain_,
        noise_variance=gp.noise_variance_,
        optimizer=None,
    ).fit(X[rest], y[rest])
    assert other.predict(X[[7]])[0] == pytest.approx(loo.mean[7], abs=1e-6)
    draws = gp.sample_y(X[:5], 2000, random_state=0)
    assert np.all(np.abs(draws.mean(axis=1) - mean[:5]) < 5 * std[:5] / 2000**0.5)
    path = gp.sample_paths(1, random_state=0)[0]
    assert path(X[:5]).shape == (5,)


def test_streams_and_merges_on_two_inputs():
    X, y, _ = surface(300)
    settings = {
        "num_basis": 12,
        "noise_variance": 0.01,
        "optimizer": None,
        "domain": [(0, 1), (0, 1)],
    }
    whole = GPRegressor(Matern32(0.5), **settings).fit(X, y)
    parts = GPRegressor(Matern32(0.5), **settings)
    for rows in np.array_split(np.random.default_rng(0).permutation(300), 3):
        parts.partial_fit(X[rows], y[rows])
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-8)
    a = GPRegressor(Matern32(0.5), **settings).fit(X[:100], y[:100])
    b = GPRegressor(Matern32(0.5), **settings).fit(X[100:], y[100:])
    np.testing.assert_allclose(a.merge(b).predict(X), whole.predict(X), atol=1e-8)
    again = whole.forget(X[100:], y[100:])
    alone = GPRegressor(Matern32(0.5), **settings).fit(X[:100], y[:100])
    np.testing.assert_allclose(again.predict(X), alone.predict(X), atol=1e-6)


def test_automatic_resolution_on_two_inputs():
    X, y, _ = surface(3000)
    gp = GPRegressor(Matern32()).fit(X, y - 3.0)
    fixed = GPRegressor(Matern32(), num_basis=60).fit(X, y - 3.0)
    assert (fixed.elbo_ - gp.elbo_) / 3000 < 0.02
    assert len(gp.resolution_) >= 1


def test_additive_over_many_inputs():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2000, 6))
    y = np.sin(3 * X[:, 0]) + X[:, 3] ** 2 + 0.1 * rng.standard_normal(2000)
    gp = GPRegressor(Matern52() + Constant()).fit(X, y)
    assert len(gp.kernel_.components) == 6
    assert gp.noise_variance_ == pytest.approx(0.01, rel=0.2)
    _, _, parts = gp.predict(X, return_std=True, components=True)
    assert np.corrcoef(parts[0].mean, np.sin(3 * X[:, 0]))[0, 1] > 0.999
    assert parts[1].mean.std() < 0.05
    np.testing.assert_allclose(sum(p.mean for p in parts), gp.predict(X), atol=1e-8)
