"""The information about hyperparameters beside that of the dense covariance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from asvgp import SHO, Constant, Matern12, Matern32
from asvgp.basis import Grid
from asvgp.kernels import Periodic
from asvgp.model.exact import ExactEngine
from asvgp.model.information import information, regular_information
from asvgp.statistics import Statistics


def engine(kernel, x: np.ndarray) -> ExactEngine:
    n = int(x[-1]) + 1
    columns = np.ones((len(x), len(kernel.effects)))
    stats = Statistics.from_data(x, np.sin(x), Grid(-0.5, n - 0.5, n), 3, covariates=columns)
    return ExactEngine(kernel, stats)


@pytest.mark.parametrize(
    "kernel",
    [
        Matern12(5.0, 2.0),
        Matern32(4.0, 0.5) + SHO(12.0, 3.0, 0.8) + Constant(),
        Matern32(3.0, 0.5) + Periodic(24.0, 9.0, 0.6) * Matern32(20.0, 1.0),
    ],
    ids=repr,
)
def test_information_is_about_that_of_the_dense_covariance(kernel):
    x, noise = np.arange(400.0), 0.3
    slopes = [toeplitz(row) for part in kernel.components for row in part.slopes(x)]
    slopes.append(noise * np.eye(len(x)))
    covariance = toeplitz(kernel.covariance(x)) + slopes[-1]
    shares = [np.linalg.solve(covariance, slope) for slope in slopes]
    exact = np.array([[0.5 * np.sum(a * b.T) for b in shares] for a in shares])
    found = engine(kernel, x).information(kernel, noise)
    scale = np.sqrt(np.diag(exact))
    assert found is not None
    np.testing.assert_allclose(
        found / scale / scale[:, None], exact / scale / scale[:, None], atol=0.1
    )


def test_irregular_inputs_have_none():
    kernel = Matern12(5.0, 2.0)
    assert engine(kernel, np.array([0.0, 1.0, 2.3, 3.9, 7.0])).information(kernel, 1.0) is None
    assert engine(kernel, np.array([0.0, 1.0, 9.0])).information(kernel, 1.0) is None


def test_outputs_add_and_the_level_tells_nothing_of_a_centred_series():
    kernel, lags = Matern32(40.0, 2.0), np.arange(60.0)
    one, two = (regular_information(kernel, 0.3, lags, 60, outputs) for outputs in (1, 2))
    assert one is not None
    np.testing.assert_allclose(two, 2.0 * one)
    slopes = np.concatenate([kernel.slopes(lags)[-1:], kernel.slopes(lags)])
    free, centred = (information(slopes, 0.3, 60, flag) for flag in (False, True))
    # the level is one frequency, at which a long process has nearly all of its variance
    assert free[1, 1] - centred[1, 1] == pytest.approx(0.5, rel=0.05)
