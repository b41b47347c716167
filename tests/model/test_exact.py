"""The engine at few distinct inputs beside a dense Gaussian process."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

from asvgp import SHO, Constant, Linear, Matern12, Matern32
from asvgp.basis import Grid
from asvgp.kernels import Periodic
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound, upper_bound
from asvgp.model.exact import ExactEngine, distinct_inputs
from asvgp.model.exact_matrix import DenseMatrix, Lags, RegularMatrix
from asvgp.statistics import Statistics

NOISE = 0.05
PROCESSES = (
    Matern32(9.0, 0.5)
    + SHO(18.0, 5.0, 0.3)
    + Periodic(24.0, 8.0, 0.7)
    + Periodic(24.0, 9.0, 0.6) * Matern32(60.0, 1.0)
)
KERNELS = {
    "processes": PROCESSES,
    "effects": PROCESSES + Constant(variance=4.0) + Linear(1, variance=2.0),
    "slope": Matern12(5.0, 0.8) + Linear(1, variance=2.0),
}


class Data:
    """Observations of two outputs, with weights and duplicates where they are wanted."""

    def __init__(self, regular: bool, duplicates: bool, weighted: bool, outputs: int):
        rng = np.random.default_rng(1)
        t = np.delete(np.arange(50.0), [7, 8, 30]) if regular else np.sort(rng.uniform(0, 50, 40))
        t = t[np.diff(t, prepend=-1.0) > 0.05]
        self.inputs, self.grid = t, Grid(-0.5, 49.5, 50) if regular else Grid(-0.5, 50.5, 1020)
        self.t = rng.permutation(np.concatenate([t, t[:12], t[4:6]]) if duplicates else t)
        n = len(self.t)
        self.z = rng.standard_normal(n) + 2.0
        self.w = rng.uniform(0.3, 3.0, n) if weighted else np.ones(n)
        scale = np.arange(1.0, outputs + 1)
        self.y = np.multiply.outer(np.sin(self.t / 4) + 0.5 * self.z, scale)
        self.y += 0.2 * rng.standard_normal((n, outputs)) + 3.0

    def engine(self, kernel) -> ExactEngine:
        columns = np.stack([np.ones_like(self.t), self.z], axis=1)
        columns = columns[:, 2 - len(kernel.effects) :]
        stats = Statistics.from_data(
            self.t, self.y, self.grid, 3, sample_weight=self.w, covariates=columns
        )
        centre = np.full(self.y.shape[1], 2.5)
        return ExactEngine(kernel, stats.recentred(centre, stats.column_centre))

    def evidence(self, kernel, noise) -> float:
        lag = np.abs(np.subtract.outer(self.t, self.t))
        whole = np.diag(noise / self.w)
        for part in kernel.components:
            whole += part.variance * np.prod([f.covariance(lag) for f in part.factors], axis=0)
        for effect in kernel.effects:
            assert effect.variance is not None
            column = np.ones_like(self.z) if isinstance(effect, Constant) else self.z
            whole += effect.variance * np.outer(column, column)
        _, log_det = np.linalg.slogdet(2.0 * np.pi * whole)
        fit = np.sum(self.y * np.linalg.solve(whole, self.y))
        return -0.5 * (self.y.shape[1] * log_det + fit)


CASES = {
    "plain": Data(True, False, False, 1),
    "duplicates": Data(True, True, False, 1),
    "irregular": Data(False, True, True, 1),
    "outputs": Data(True, True, True, 2),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", KERNELS)
def test_bounds_are_the_evidence(case, name):
    data, kernel = CASES[case], KERNELS[name]
    factored = data.engine(kernel).factor(kernel, Gaussian(NOISE))
    exact = data.evidence(kernel, NOISE)
    np.testing.assert_allclose(lower_bound(factored).elbo, exact, rtol=1e-9)
    np.testing.assert_allclose(upper_bound(factored), exact, rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_limits_of_differences(case, name):
    data, kernel, h = CASES[case], KERNELS[name], 1e-4
    engine = data.engine(kernel)
    gradient = lower_bound(engine.factor(kernel, Gaussian(NOISE))).gradient
    at = np.log(np.append(kernel.values, NOISE))
    for i in range(len(at)):
        values = []
        for step in (h, -h):
            moved = np.exp(at + step * (np.arange(len(at)) == i))
            other = kernel.replace_free(dict(zip(kernel.parameters, moved[:-1], strict=True)))
            values.append(data.evidence(other, moved[-1]))
        np.testing.assert_allclose(gradient[i], (values[0] - values[1]) / (2 * h), atol=2e-5)


def test_regular_inputs_of_equal_weight_need_no_matrix():
    expected = dict.fromkeys(CASES, DenseMatrix) | {"plain": RegularMatrix}
    for case, kind in expected.items():
        solution = CASES[case].engine(PROCESSES).factor(PROCESSES, Gaussian(NOISE)).solution
        assert isinstance(solution.matrix, kind)


@pytest.mark.parametrize("case", CASES)
def test_distinct_inputs(case):
    data = CASES[case]
    engine = data.engine(PROCESSES)
    np.testing.assert_allclose(engine.x, data.inputs, atol=1e-9)
    assert engine.lags.regular == (data.grid.spacing == 1.0)
    coarse = Statistics.from_data(data.t, data.y, Grid(-0.5, 50.5, 17), 3)
    assert distinct_inputs(coarse) is None
    with pytest.raises(ValueError, match="several distinct inputs"):
        ExactEngine(PROCESSES, coarse)


def test_freedoms():
    data = CASES["irregular"]
    factored = data.engine(PROCESSES).factor(PROCESSES, Gaussian(NOISE))
    lag = np.abs(np.subtract.outer(data.t, data.t))
    parts = [
        part.variance * np.prod([f.covariance(lag) for f in part.factors], axis=0)
        for part in PROCESSES.components
    ]
    inverse = np.linalg.inv(np.sum(parts, axis=0) + np.diag(NOISE / data.w))
    exact = [np.sum(part * inverse) for part in parts]
    np.testing.assert_allclose(factored.component_freedoms(), exact, rtol=1e-7)
    np.testing.assert_allclose(factored.forms().freedom, sum(exact), rtol=1e-7)


def test_other_sums():
    data, kernel = CASES["duplicates"], KERNELS["effects"]
    engine, other = data.engine(kernel), CASES["plain"].engine(kernel)
    again = engine.with_statistics(other.statistics).factor(kernel, Gaussian(NOISE))
    expected = other.factor(kernel, Gaussian(NOISE))
    assert lower_bound(again).elbo == lower_bound(expected).elbo


def test_what_cannot_be_factored_says_so():
    kernel = Matern32(1e6)
    engine = CASES["plain"].engine(kernel)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        engine.factor(kernel, Gaussian(1e-20))


def test_solutions_and_draws_have_the_covariance_of_f_and_the_effects():
    """P over f at the inputs and the effects, written out."""
    rng = np.random.default_rng(5)
    x = np.repeat(np.arange(12.0), 2)[:-5]
    columns = np.stack([np.ones(len(x)), rng.standard_normal(len(x))], axis=1)
    y, w = np.sin(x) + 0.1 * rng.standard_normal(len(x)), rng.uniform(0.5, 2.0, len(x))
    stats = Statistics.from_data(x, y, Grid(0.0, 12.0, 12), 2, sample_weight=w, covariates=columns)
    kernel = Matern32(3.0, 2.0) + Constant(variance=3.0) + Linear("z", variance=0.7)
    engine = ExactEngine(kernel, stats)
    factored = engine.factor(kernel, Gaussian(0.1))
    inputs = np.unique(x)
    design = np.concatenate([(x[:, None] == inputs).astype(float), columns], axis=1)
    prior = block_diag(np.linalg.inv(kernel.components[0](inputs)), np.diag([1 / 3.0, 1 / 0.7]))
    precision = prior + design.T @ (w[:, None] * design) / 0.1
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(factored.solve(np.eye(engine.size)), covariance, atol=1e-9)
    root = factored.draw(np.eye(engine.size))
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-9)
    kernel, n = kernel.components[0], len(inputs)
    bare = Statistics.from_data(x, y, Grid(0.0, 12.0, 12), 2, sample_weight=w)
    plain = ExactEngine(kernel, bare).factor(kernel, Gaussian(0.1))
    covariance = np.linalg.inv(precision[:n, :n])
    np.testing.assert_allclose(plain.solve(np.eye(n)), covariance, atol=1e-9)
    root = plain.draw(np.eye(n))
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-9)


def test_regular_inputs_need_not_lie_on_cells():
    x = 0.7 * np.delete(np.arange(40.0), [3, 30])
    lags = Lags(x, 0.25)
    assert lags.regular
    assert lags.holes.tolist() == [3, 30]
    np.testing.assert_allclose(lags.matrix(lags.values), np.abs(x[:, None] - x), atol=1e-12)


@pytest.mark.parametrize("gap", 0.5 ** np.arange(1.0, 12.0))
def test_there_are_no_more_steps_than_pairs(gap):
    x = np.array([0.0, 1.0, 1.0 + gap, 2.0, 3.0])
    lags = Lags(x, 0.25)
    assert len(lags.values) <= len(x) ** 2
    np.testing.assert_allclose(lags.matrix(lags.values), np.abs(x[:, None] - x), atol=1e-15)


@pytest.mark.parametrize("gap", [1e-9, 5e-16])
def test_inputs_that_nearly_coincide_are_not_regular(gap):
    x = np.array([0.0, 1.0, 1.0 + gap, 2.0, 3.0])
    lags = Lags(x, 0.25)
    assert not lags.regular
    np.testing.assert_allclose(lags.matrix(lags.values), np.abs(x[:, None] - x), atol=1e-15)


def test_holes_beside_a_large_trend_keep_the_digits():
    """A stiff trend is a million times the noise: one solution alone would leave too much."""
    x = np.delete(np.arange(600.0), np.r_[5:9, 40:60, 300])
    kernel = SHO(6000.0, 1e5, 1e5) + Matern32(9.0)
    lags, noise = Lags(x, 1.0), np.full(len(x), 0.1)
    values = kernel.covariance(lags.values)
    right = np.stack([np.sin(x), np.ones_like(x)], axis=1)
    regular, dense = RegularMatrix(lags, values, 0.1), DenseMatrix(lags, values, noise)
    np.testing.assert_allclose(regular.solve(right), dense.solve(right), rtol=1e-5, atol=1e-7)
    assert regular.log_det == pytest.approx(dense.log_det, abs=1e-5)
