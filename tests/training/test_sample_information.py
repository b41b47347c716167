"""What a sample of a field tells of hyperparameters, beside dense matrices of all rows."""

import numpy as np
import pytest

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
    model = TWO._replace(linear=linear)
    found = information(Trained(model, THETA, 0.0, 0.0), sample, 90)
    expected = outputs * dense(model, THETA, sample.learnt[0], sample)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_sets_of_many_rows_tell_about_as_much_as_all_of_them():
    rows = 1500
    sample = sample_of(*field(rows))
    assert len(sample.learnt) > 1
    found = information(Trained(TWO, THETA, 0.0, 0.0), sample, rows)
    x, y = field(rows)
    whole = sample.learnt[0]._replace(
        x=(x - x.min(axis=0)) / sample.units, y=y, inverse_weight=np.ones(rows)
    )
    expected = dense(TWO, THETA, whole, sample)
    root = np.linalg.inv(np.linalg.cholesky(expected))
    ratios = np.linalg.eigvalsh(root @ found @ root.T)
    print(ratios)
    assert ratios.min() > 0.3 and ratios.max() < 3.0
