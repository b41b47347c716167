"""Toeplitz matrices beside dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from asvgp.kernels import Matern52, Periodic
from asvgp.linalg.toeplitz import Toeplitz, self_correlation


def column(n: int) -> np.ndarray:
    lag = np.arange(float(n))
    out = Matern52(20.0, 3.0).covariance(lag) + Periodic(12.0, 4.0).covariance(lag)
    out[0] += 0.01
    return out


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 64, 301])
def test_everything_is_that_of_the_dense_matrix(n):
    fast, dense = Toeplitz(column(n)), toeplitz(column(n))
    vectors = np.random.default_rng(n).standard_normal((n, 3))
    inverse = np.linalg.inv(dense)
    sums = [(1 + (d > 0)) * np.trace(inverse, d) for d in range(n)]
    np.testing.assert_allclose(fast.log_det, np.linalg.slogdet(dense)[1], rtol=1e-9)
    np.testing.assert_allclose(fast.multiply(vectors), dense @ vectors, atol=1e-11)
    np.testing.assert_allclose(dense @ fast.solve(vectors), vectors, atol=1e-10)
    some = np.unique([0, n // 3, n - 1])
    np.testing.assert_allclose(fast.inverse_columns(some), inverse[:, some], atol=1e-8)
    np.testing.assert_allclose(fast.inverse_sums(), sums, atol=1e-8 * np.max(np.abs(sums)))


def test_matrices_that_are_not_definite_are_refused():
    for bad in ([1.0, 1.0, 1.0], [1.0, 2.0], [0.0], [np.nan, 0.0], [1.0, np.nan]):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            Toeplitz(np.array(bad))


def test_correlations():
    rows = np.random.default_rng(0).standard_normal((2, 9))
    expected = [np.sum(rows[:, : 9 - d] * rows[:, d:]) for d in range(9)]
    np.testing.assert_allclose(self_correlation(rows), expected, atol=1e-12)
