"""Matérn kernels over several inputs jointly, against quadrature and dense Gaussian processes."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from asvgp import GPRegressor, Matern, Matern12, Matern32
from asvgp.basis import Grid
from asvgp.kernels import JointMatern, Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound
from asvgp.model.devices import Cpu
from asvgp.model.joint import JointPrior, JointTables
from asvgp.model.joint_axis import JointAxis
from asvgp.model.joint_share import missed_share, missed_shares
from asvgp.model.plan import Plan
from asvgp.model.room import little_room, with_room
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.posterior import GridPoints
from tests.model.field_cases import NOISE, FieldCase, check_bounds_and_gradients


def prior_of(kernel: JointMatern, cells: int, degree: int, outer: int = 3) -> JointPrior:
    """K on a unit square or cube."""
    axes = [
        JointAxis(along, Grid(0.0, 1.0, cells), degree, 0, degree, outer) for along in kernel.along
    ]
    return JointPrior(kernel, JointTables(axes, Cpu()))


def functions(axis: JointAxis, x, order: int = 0) -> np.ndarray:
    """All functions of an axis, or a derivative of them, at points."""
    first, weights = axis.rows(x, order)
    out = np.zeros((len(x), axis.count))
    np.put_along_axis(out, axis.numbers[first], weights, axis=1)
    return out


def dense(prior: JointPrior) -> np.ndarray:
    """K as the sum over leaves."""
    tables, out = prior.tables, np.zeros((prior.count, prior.count))
    blocks = tables.elements(prior.coefficients, 0, len(tables.tree.leaves))
    for numbers, block in zip(tables.tree.leaf_index, blocks, strict=True):
        there = numbers >= 0
        out[np.ix_(numbers[there], numbers[there])] += block[np.ix_(there, there)]
    return out


@pytest.mark.parametrize(
    ("kernel", "degree"),
    [
        (Matern(1, (0.3, 0.7), dim=(0, 1)), 2),
        (Matern(1, (0.3, 0.7), dim=(0, 1), rotation=0.6), 3),
        (Matern(2, 0.4, dim=(0, 1)), 3),
        (Matern(2, (0.3, 0.7), dim=(0, 1), rotation=2.1), 4),
        (Matern(0.5, (0.3, 0.7, 0.5), dim=(0, 1, 2)), 2),
    ],
)
def test_k_is_the_norm_by_quadrature(kernel, degree):
    """|L f|^2 with L = 1 - div A grad, and for alpha = 3 its gradient's norm in addition."""
    prior = prior_of(kernel, 2 if kernel.inputs == 3 else 4, degree, outer=1)
    metric, D = kernel.metric[0], kernel.inputs
    nodes, weights = np.polynomial.legendre.leggauss(degree + 1)
    points, scales = [], []
    for axis in prior.axes:
        knots = axis.knots * axis.grid.spacing + axis.grid.lower
        half, middle = np.diff(knots) / 2, (knots[1:] + knots[:-1]) / 2
        points.append((middle[:, None] + half[:, None] * nodes).ravel())
        scales.append((half[:, None] * weights).ravel())

    def derivative(orders) -> np.ndarray:
        out = np.ones((1, 1))
        for axis, x, order in zip(prior.axes, points, orders, strict=True):
            out = np.kron(out, functions(axis, x, order))
        return out

    def applied(orders) -> np.ndarray:
        """L f, differentiated."""
        out = derivative(orders)
        for d, e in product(range(D), repeat=2):
            more = np.array(orders)
            more[d] += 1
            more[e] += 1
            out = out - metric[d, e] * derivative(more)
        return out

    weight = np.ones(1)
    for scale in scales:
        weight = np.kron(weight, scale)
    unit = np.eye(D, dtype=int)
    value = applied(np.zeros(D, dtype=int))
    expected = (value.T * weight) @ value
    if kernel.alpha == 3:
        slopes = [applied(unit[d]) for d in range(D)]
        for d, e in product(range(D), repeat=2):
            expected += metric[d, e] * (slopes[d].T * weight) @ slopes[e]
    expected /= np.exp(kernel.log_density) * np.sqrt(np.linalg.det(metric))
    np.testing.assert_allclose(dense(prior), expected, atol=1e-9 * np.abs(expected).max())


def test_the_covariance_is_reproduced():
    """On fine splines ``phi' K^-1 phi`` is the kernel itself, and never more than it."""
    kernel, rng = Matern(2, (0.5, 0.8), dim=(0, 1), rotation=0.4), np.random.default_rng(0)
    prior = prior_of(kernel, 16, 4, outer=5)
    X = rng.uniform(-0.3, 1.3, (40, 2))
    design = np.einsum("ni,nj->nij", *(functions(a, X[:, d]) for d, a in enumerate(prior.axes)))
    design = design.reshape(len(X), -1)
    found = design @ prior.solve(design.T)
    np.testing.assert_allclose(found, kernel(X), atol=6e-3)  # wide cells far out
    rows = [axis.rows(X[:, d]) for d, axis in enumerate(prior.axes)]
    np.testing.assert_allclose(prior.captured(rows), np.diag(found), rtol=1e-9)
    assert np.all(prior.captured(rows) <= 1.0 + 1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(1, (5.0, 2.5), dim=(0, 1)),
        Matern(2, (5.0, 2.5), dim=(0, 1), rotation=0.4),
        Matern(1.5, 3.0, dim=(0, 1, 2)),
    ],
)
def test_shares_on_equal_cells_have_derivatives(kernel):
    cells = (1.0, 0.7, 1.2)[: kernel.inputs], (kernel.alpha + 1,) * kernel.inputs
    _, slopes = missed_shares(kernel, *cells)
    for name, slope in zip(kernel.parameters, slopes, strict=False):
        ends = [
            missed_shares(kernel.replace(**{name: getattr(kernel, name) * np.exp(e)}), *cells)[0]
            for e in (-1e-5, 1e-5)
        ]
        assert slope == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-5)


def test_a_turned_share_is_that_of_swapped_lengths():
    cells = (1.0, 0.7), (3, 3)
    plain = Matern(1, (5.0, 2.5), dim=(0, 1))
    turned = Matern(1, (2.5, 5.0), dim=(0, 1), rotation=np.pi / 2)
    assert missed_shares(turned, *cells)[0] == pytest.approx(missed_shares(plain, *cells)[0])


@pytest.mark.parametrize("turned", [{}, {"rotation": 0.5}])
def test_missed_share_is_that_in_the_middle(turned):
    length = (0.5, 0.25) if turned else 0.3
    kernel, rng = Matern(1, length, dim=(0, 1), **turned), np.random.default_rng(0)
    prior = prior_of(kernel, 12, 3)
    X = rng.uniform(5 / 12, 6 / 12, (4000, 2))  # over one cell
    rows = [axis.rows(X[:, d]) for d, axis in enumerate(prior.axes)]
    found = 1.0 - prior.captured(rows).mean()
    assert missed_shares(kernel, (1 / 12, 1 / 12), (3, 3))[0] == pytest.approx(found, rel=0.05)
    along = kernel.along[0]
    if not turned:
        assert missed_share(along, along.decay * 12, 3) == pytest.approx(found, rel=0.05)


@dataclass
class Case(FieldCase):
    """A kernel with its plan on a unit square or cube."""

    kernel: Kernel
    cells: tuple[int, ...]
    degrees: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[int, ...], ...]

    def __post_init__(self):
        rng = np.random.default_rng(3)
        D = len(self.cells)
        self.X = rng.uniform(0.0, 1.0, (150, D))
        self.X[0], self.X[1] = 0.0, 1.0
        self.w = rng.uniform(0.5, 2.0, 150)
        self.y = np.sin(5 * self.X[:, 0]) * np.cos(4 * self.X[:, 1])
        self.y = self.y + 0.2 * rng.standard_normal(150)

    def grids(self, times: int) -> list[Grid]:
        return [Grid(0.0, 1.0, times * n) for n in self.cells]


CASES = {
    "isotropic": Case(Matern(1, 0.5, 1.3, dim=(0, 1)), (6, 6), ((3, 3),), ((0, 0),)),
    "turned": Case(
        Matern(2, (0.5, 0.3), 1.3, dim=(0, 1), rotation=0.6), (6, 7), ((4, 4),), ((0, 0),)
    ),
    "sum": Case(
        Matern(2, (0.5, 0.3), 1.3, dim=(1, 0))
        + Matern(1, 0.4, 0.6, dim=(0, 1))
        + Matern32(0.4, 0.7, dim=1) * Matern12(0.5, dim=0)
        + Matern32(0.6, 0.3, dim=1),
        (6, 7),
        ((4, 3), (2, 2), (1, 3), (0, 2)),
        ((0, 1), (0, 0), (1, 0), (0, 1)),
    ),
    "with time": Case(
        Matern(1, (0.6, 0.9), 1.3, dim=(2, 0)) * Matern32(0.6, dim=1),
        (3, 4, 3),
        ((2, 2, 2),),
        ((0, 0, 0),),
    ),
    "three inputs": Case(
        Matern(0.5, (0.8, 0.9, 1.2), 1.3, dim=(0, 1, 2)), (2, 3, 2), ((2, 2, 2),), ((0, 0, 0),)
    ),
    "smoother, three inputs": Case(
        Matern(1.5, 0.9, 1.3, dim=(0, 1, 2)), (2, 2, 2), ((3, 3, 3),), ((0, 0, 0),)
    ),
}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@each
def test_slopes_about_missed_variance_are_those_of_their_own_number(case):
    engine, kernel = case.engine(), case.kernel

    def slopes(kernel):
        bound = lower_bound(engine.factor(kernel, Gaussian(NOISE)), "evidence", missed="about")
        return bound.d_missed[:-1]

    variances = [name.rpartition(".")[2] == "variance" for name in kernel.parameters]
    here, step = slopes(kernel), 1e-4
    for place, (name, value) in enumerate(zip(kernel.parameters, kernel.values, strict=True)):
        ends = [slopes(kernel.replace(**{name: value * np.exp(s)})) for s in (-step, step)]
        slope = (ends[1] - ends[0])[variances].sum() / (2.0 * step)
        assert here[place] == pytest.approx(slope, rel=1e-5, abs=1e-4)


@each
def test_bounds_hold_the_evidence_and_gradients_are_right(case):
    check_bounds_and_gradients(case)


@pytest.mark.parametrize("name", ["turned", "sum", "with time"])
def test_engine_gives_the_same_after_letting_go_of_its_factors(name):
    engine, state = CASES[name].engine(), (CASES[name].kernel, Gaussian(NOISE))
    first = lower_bound(engine.factor(*state), "evidence")
    factor = weakref.ref(engine.factor(*state).solution.factor)
    engine.release()
    assert factor() is None
    again = lower_bound(engine.factor(*state), "evidence")
    assert again.fit == pytest.approx(first.fit, rel=1e-12)
    np.testing.assert_allclose(again.gradient, first.gradient, rtol=1e-9)


@pytest.mark.parametrize("name", ["turned", "sum", "with time"])
def test_products_with_p_are_those_of_its_leaves(name):
    engine, kernel = CASES[name].engine(), CASES[name].kernel
    prior, leaves = engine.prior(kernel), engine.tables.leaves
    blocks = engine.gram[:] / NOISE
    scales = [term.coefficients / term.variance for term in prior.terms]
    leaves.add_stiffness(leaves.stiffness(prior.axes), scales, 0, len(blocks), blocks)
    expected = np.zeros((engine.size, engine.size))
    for numbers, block in zip(engine.tables.tree.leaf_index, blocks, strict=True):
        there = numbers >= 0
        expected[np.ix_(numbers[there], numbers[there])] += block[np.ix_(there, there)]
    values = np.random.default_rng(0).standard_normal((engine.size, 3))
    products, forms = engine.multiply(prior, NOISE, values)
    np.testing.assert_allclose(products, expected @ values, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(forms, np.sum(values * (expected @ values), axis=0), rtol=1e-9)
    factored = engine.factor(kernel, Gaussian(NOISE))
    assert engine._solved(prior, NOISE, factored.solution.factor, True).defect < 1e-8
    assert factored.forms().defect < 1e-8


def test_the_error_of_the_determinant_is_measured():
    errors, defects = [], []  # any one of them may be small by luck
    for length in (10.0, 15.0, 20.0, 30.0):
        prior = prior_of(Matern(2, length, dim=(0, 1)), 6, 4, outer=5)
        matrix, log_det = dense(prior).astype(np.longdouble), 0.0
        for i in range(len(matrix)):
            log_det = log_det + np.log(matrix[i, i])
            rest = matrix[i, i + 1 :]
            matrix[i + 1 :, i + 1 :] -= np.outer(rest, rest / matrix[i, i])
        errors.append(abs(float(prior.log_det - log_det)))
        defects.append(prior.defect)
        np.testing.assert_allclose(prior.growth, [4.0], rtol=1e-6)  # 2 nu
    assert 1e-9 < max(errors) < 10.0 * max(defects)
    assert max(defects) < 100.0 * max(errors)


def test_too_few_digits_are_refused_in_words():
    kernel = Matern32(0.4, dim=0) * Matern32(0.5, dim=1) + Matern(2, 300.0, dim=(0, 1))
    case = Case(kernel, (12, 12), ((2, 2), (4, 4)), ((0, 0), (0, 0)))
    with pytest.raises(np.linalg.LinAlgError, match=r"term 2 \(Matern\(nu=2, lengthscale=300"):
        case.engine().factor(kernel, Gaussian(NOISE))


@pytest.mark.parametrize("name", ["sum", "with time"])
def test_torch_agrees(name):
    pytest.importorskip("torch")
    case = CASES[name]
    bounds = [
        lower_bound(case.engine(device=device).factor(case.kernel, Gaussian(NOISE)))
        for device in ("cpu", "torch")
    ]
    assert bounds[1].elbo == pytest.approx(bounds[0].elbo, rel=1e-10)
    np.testing.assert_allclose(bounds[1].gradient, bounds[0].gradient, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "name",
    ["isotropic", "turned", "sum", "with time", "three inputs", "smoother, three inputs"],
)
def test_posteriors_converge_to_dense_ones(name):
    """Also one lengthscale beyond the data, and far away."""
    case, rng = CASES[name], np.random.default_rng(5)
    D = len(case.cells)
    near = rng.uniform(0.0, 1.0, (30, D)), rng.uniform(-0.4, 1.4, (30, D))
    X = np.concatenate([*near, [[9.0, -5.0, 7.0][:D]]])
    cross = case.kernel(case.X, X)
    solved = np.linalg.solve(case.noisy, cross)
    covariance = case.kernel(X) - cross.T @ solved
    off = []
    for times in (1, 3):
        engine = case.engine(times)
        posterior = GridPosterior(case.kernel, NOISE, engine)
        points = GridPoints(X, np.empty((len(X), 0)), np.empty((len(X), 0)))
        mean, variance = posterior.predict(points)
        found = posterior.covariance(points)
        np.testing.assert_allclose(np.diag(found), variance, rtol=1e-9)
        std = np.sqrt(np.diag(covariance))
        parts = mean[0] - solved.T @ case.y, np.sqrt(variance) - std, found - covariance
        off.append([np.abs(part).max() for part in parts])
    assert np.all(np.array(off[1]) < 0.5 * np.array(off[0]))
    assert name in ("sum", "three inputs") or np.max(off[1]) < 0.06


def test_room_beyond_the_data_leaves_little_missed_at_the_edges():
    kernel, rng = Matern(2, 0.4, dim=(0, 1)), np.random.default_rng(0)
    plan = Plan((0, 1), (Grid(0.0, 1.0, 16),) * 2, (4, 4), (0,), ((4, 4),), ((0, 0),))
    roomy = with_room(plan, kernel).outer[0][0]
    enough, more, little = (prior_of(kernel, 16, 4, outer) for outer in (roomy, roomy + 4, 1))
    edge, amid = enough.missed_shares()
    assert edge < 8.0 * amid
    assert 0.5 * edge < more.missed_shares()[0] < edge  # more would not help much
    assert little.missed_shares()[0] > 20.0 * edge
    X = np.stack([np.zeros(2000), rng.uniform(0.0, 1.0, 2000)], axis=1)
    for prior in (enough, little):
        rows = [axis.rows(X[:, d]) for d, axis in enumerate(prior.axes)]
        missed = 1.0 - prior.captured(rows)
        assert np.all(missed > -1e-12)
        assert prior.missed_shares()[0] == pytest.approx(missed.mean(), rel=0.2)


@pytest.mark.parametrize(("nu", "degree"), [(1, 3), (2, 4), (3, 5)])
def test_edges_converge_with_the_cells(nu, degree):
    """Cells beyond the data become finer with those of the data, and reach further."""
    kernel, edges = Matern(nu, 0.4, dim=(0, 1)), []
    for cells in (16, 48):
        grids, degrees = (Grid(0.0, 1.0, cells),) * 2, (degree, degree)
        plan = Plan((0, 1), grids, degrees, (0,), (degrees,), ((0, 0),))
        outer = with_room(plan, kernel).outer[0][0]
        edges.append(prior_of(kernel, cells, degree, outer).missed_shares()[0])
    assert 0.0 < edges[1] < edges[0] / 3.0 ** min(2.0 * nu - 0.1, 2.5)


def test_a_note_says_where_there_is_too_little_room():
    case = CASES["isotropic"]
    engine = case.engine(2)
    assert not little_room(engine.prior(case.kernel))
    longer = case.kernel.replace(lengthscale=6.0)
    (note,) = little_room(engine.prior(longer))
    assert "too little room beyond the data" in note


def test_the_ends_of_a_domain_are_on_its_own_cells():
    """Rounding may move an end beyond the last cell, whose functions are those of its leaf."""
    ends = 0.1, 0.1 + 0.7
    X = np.random.default_rng(0).uniform(*ends, (20, 2))
    gp = GPRegressor(Matern(1, 0.5, dim=(0, 1)), num_basis=9, optimizer=None, noise_variance=0.1)
    (unit,) = gp.set_params(domain=[ends] * 2).fit(X, X[:, 0]).posterior_.prior.terms[0].units
    for axis in unit.axes:
        first, _ = axis.rows(np.array([*ends, axis.fine.upper + 0.01]))
        assert first.tolist() == [axis.outer + n for n in (0, axis.grid.cells - 1, axis.grid.cells)]
