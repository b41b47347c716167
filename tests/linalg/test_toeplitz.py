"""Toeplitz matrices beside dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from asvgp.kernels import Matern52, Periodic
from asvgp.linalg.toeplitz import Toeplitz, outer_sums


def column(n: int) -> np.ndarray:
    lag = np.arange(float(n))
    out = Matern52(20.0, 3.0).covariance(lag) + Periodic(12.0, 4.0).covariance(lag)
    out[0] += 0.01
    return out


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 64, 301])
def test_everything_is_that_of_the_dense_matrix(n):
    fast, dense = Toeplitz(column(n)), toeplitz(column(n))
    rows = np.random.default_rng(n).standard_normal((3, n))
    inverse = np.linalg.inv(dense)
    np.testing.assert_allclose(fast.log_det, np.linalg.slogdet(dense)[1], rtol=1e-9)
    np.testing.assert_allclose(fast.multiply(rows), rows @ dense, atol=1e-11)
    np.testing.assert_allclose(fast.solve(rows) @ dense, rows, atol=1e-9)
    some = np.unique([0, n // 3, n // 2, n - 1])
    np.testing.assert_allclose(fast.inverse_rows(some), inverse[some], atol=1e-8)
    for less, matrix in (((), inverse), ((rows[:1], rows[1:]), inverse - rows.T @ rows)):
        sums = [(1 + (d > 0)) * np.trace(matrix, d) for d in range(n)]
        scale = np.max(np.abs(sums))
        np.testing.assert_allclose(fast.inverse_sums(*less), sums, atol=1e-8 * scale)


def test_matrices_that_are_not_definite_are_refused():
    for bad in ([1.0, 1.0, 1.0], [1.0, 2.0], [0.0], [np.nan, 0.0], [1.0, np.nan]):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            Toeplitz(np.array(bad))


def test_outer_sums():
    rows = np.random.default_rng(0).standard_normal((2, 9))
    expected = [(1 + (d > 0)) * np.trace(rows.T @ rows, d) for d in range(9)]
    np.testing.assert_allclose(outer_sums(rows), expected, atol=1e-12)
