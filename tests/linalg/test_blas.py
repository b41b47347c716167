"""Routines of BLAS as they are called where nothing is compiled, against NumPy."""

import numpy as np
import pytest
from numba.extending import get_cython_function_address

from asvgp.linalg.blas import _plain


def routine(name: str, parameters: str):
    """Return the plain twin of a routine of `asvgp.linalg.blas`."""
    return _plain(get_cython_function_address("scipy.linalg.cython_blas", name), parameters)


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    return rng.standard_normal((3, 4)), rng.standard_normal((4, 5)), rng.standard_normal((3, 5))


@pytest.mark.parametrize("alpha, beta", [(1, 0), (-1, 1)])
def test_products(matrices, alpha, beta):
    a, b, c = matrices
    wanted = beta * c + alpha * a @ b
    # to BLAS, C-contiguous matrices are transposed: C' = B' A'
    arguments = 5, 3, 4, alpha, b.ctypes.data, 5, a.ctypes.data, 4, beta, c.ctypes.data, 5
    routine("dgemm", "ttnnnsanansan")(False, False, *arguments)
    np.testing.assert_allclose(c, wanted, rtol=1e-13, atol=1e-13)


def test_transposed_products(matrices):
    a, _, c = matrices
    out = np.zeros((4, 5))
    arguments = 5, 4, 3, 1, c.ctypes.data, 5, a.ctypes.data, 4, 0, out.ctypes.data, 5
    routine("dgemm", "ttnnnsanansan")(False, True, *arguments)
    np.testing.assert_allclose(out, a.T @ c, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems(transposed):
    rng = np.random.default_rng(1)
    lower = np.tril(rng.standard_normal((4, 4))) + 4.0 * np.eye(4)
    b = rng.standard_normal((4, 3))
    upper, right = np.ascontiguousarray(lower.T), b.copy()
    arguments = 3, 4, 1, upper.ctypes.data, 4, right.ctypes.data, 3
    routine("dtrsm", "RLtNnnsanan")(transposed, *arguments)
    # the rows of the solution are columns to BLAS: X' = B' L^-1, or B' L^-T
    wanted = np.linalg.solve(lower if transposed else lower.T, b)
    np.testing.assert_allclose(right, wanted, rtol=1e-12)
