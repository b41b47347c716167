"""What a sample of a field tells of hyperparameters, beside dense matrices of all rows."""

import numpy as np
import pytest

from asvgp import GPRegressor
from asvgp.estimators import ingest
from asvgp.estimators.default_field import choose_field
from asvgp.training.curvature import Curvature
from asvgp.training.sample_evidence import Factor, Model, SampleEvidence, Trained, sample_of
from asvgp.training.sample_information import information

TWO = Model(((Factor((0, 1), 1.0),), (Factor((0,), 2.5), Factor((1,), 2.5))))
THETA = np.log([0.1, 0.15, 0.8, 0.5, 0.4, 1.2, 0.05])


def field(rows, outputs=1):
    rng = np.random.default_rng(rows)
    x = rng.uniform(0.0, 3.0, (rows, 2))
    return x, np.sin(3.0 * x @ rng.standard_normal((2, outputs))) + rng.standard_normal(outputs)


def dense(model, theta, rows, sample):
    """Return the information by differences of the covariance of rows."""
    evidence = SampleEvidence(model, [rows], sample.units)

    def covariance(theta):
        lower = np.tril(evidence.covariance(theta, 0))
        return lower + np.tril(lower, -1).T

    steps = 1e-5 * np.eye(len(theta))
    slopes = [(covariance(theta + s) - covariance(theta - s)) / 2e-5 for s in steps]
    ratios = [np.linalg.solve(covariance(theta), slope) for slope in slopes]
    return np.array([[0.5 * np.trace(a @ b) for b in ratios] for a in ratios])


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("linear", [False, True])
def test_few_rows_tell_what_dense_matrices_say(outputs, linear):
    sample = sample_of(*field(90, outputs))
    assert sample is not None
    model = TWO._replace(linear=linear)
    found = information(Trained(model, THETA, 0.0, 0.0), sample, 90)
    expected = outputs * dense(model, THETA, sample.learnt[0], sample)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_sets_of_many_rows_tell_about_as_much_as_all_of_them():
    rows = 1500
    sample = sample_of(*field(rows))
    assert sample is not None
    assert len(sample.learnt) > 1
    found = information(Trained(TWO, THETA, 0.0, 0.0), sample, rows)
    x, y = field(rows)
    whole = sample.learnt[0]._replace(
        x=(x - x.min(axis=0)) / sample.units, y=y, inverse_weight=np.ones(rows)
    )
    expected = dense(TWO, THETA, whole, sample)
    root = np.linalg.inv(np.linalg.cholesky(expected))
    ratios = np.linalg.eigvalsh(root @ found @ root.T)
    assert ratios.min() > 0.4
    assert ratios.max() < 2.5


def test_a_curvature_learns_what_steps_show():
    rng = np.random.default_rng(0)
    curvature = Curvature(np.diag([4.0, 1.0, 9.0]))
    true = np.array([[8.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 5.0]])
    for _ in range(60):
        step = rng.standard_normal(3)
        curvature.learn(step, true @ step)
        np.testing.assert_allclose(curvature.matrix @ step, true @ step, rtol=1e-8)
    np.testing.assert_allclose(curvature.matrix, true, atol=0.1)


@pytest.mark.parametrize("fixed", [False, True])
def test_known_curvature_saves_bounds_and_ends_no_lower(monkeypatch, fixed):
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 1.0, (3000, 2))
    y = np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1]) + 0.3 * np.sin(50 * x[:, 0]) * np.sin(
        40 * x[:, 1]
    )
    y += 0.1 * rng.standard_normal(len(y))
    known = {"noise_variance": np.full(len(y), 0.01)} if fixed else {}
    with_it = GPRegressor().fit(x, y, **known)

    def ignorant(*args, **kwargs):
        choice = choose_field(*args, **kwargs)
        assert choice is not None
        return choice._replace(information=None)

    monkeypatch.setattr(ingest, "choose_field", ignorant)
    without = GPRegressor().fit(x, y, **known)
    ours, theirs = with_it.optimization_, without.optimization_
    assert ours.evaluations < theirs.evaluations
    assert ours.objective > theirs.objective - 1e-4 * len(y)
