"""Routines of BLAS against NumPy, as compiled code calls them and as plain Python does."""

import numba
import numpy as np
import pytest
from numba.core import config
from numba.extending import get_cython_function_address

from asvgp.linalg import blas

PARAMETERS = {
    "gemm": "ttnnnsanansan",
    "trsm": "RLtNnnsanan",
    "syrk": "LNnnsansan",
    "symm": "LLnnsanansan",
}


def compiled(name: str):
    """Return a compiled function that calls a routine and does nothing else."""
    routine = getattr(blas, name)

    @numba.njit
    def call(*given):
        routine(*given)

    return call


def plain(name: str):
    """Return what takes a routine's place where nothing is compiled."""
    address = get_cython_function_address("scipy.linalg.cython_blas", f"d{name}")
    return blas._plain(address, PARAMETERS[name])


@pytest.fixture(params=[plain] if config.DISABLE_JIT else [plain, compiled])
def routine(request):
    return request.param


def matrix(rows, columns, seed):
    return np.random.default_rng(seed).standard_normal((rows, columns))


def at(array):
    """Return the address of a C-contiguous array and the distance of BLAS' columns."""
    return array.ctypes.data, array.shape[1]


# To BLAS, C-contiguous matrices are transposed: the products below are of B' and A'.


@pytest.mark.parametrize("alpha, beta", [(1, 0), (-2, 1)])
def test_products(routine, alpha, beta):
    a, b, c = matrix(3, 4, 0), matrix(4, 5, 1), matrix(3, 5, 2)
    wanted = beta * c + alpha * a @ b
    routine("gemm")(False, False, 5, 3, 4, alpha, *at(b), *at(a), beta, *at(c))
    np.testing.assert_allclose(c, wanted, rtol=1e-13, atol=1e-13)


def test_products_of_transposed_matrices(routine):
    a, b = matrix(4, 3, 0), matrix(5, 4, 1)
    out = np.zeros((3, 5))
    routine("gemm")(True, True, 5, 3, 4, 1, *at(b), *at(a), 0, *at(out))
    np.testing.assert_allclose(out, a.T @ b.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("alpha", [1, -3])
def test_triangular_systems(routine, transposed, alpha):
    lower = np.tril(matrix(4, 4, 1)) + 4.0 * np.eye(4)
    upper, b = np.ascontiguousarray(lower.T), matrix(4, 3, 2)
    right = b.copy()
    routine("trsm")(transposed, 3, 4, alpha, *at(upper), *at(right))
    # the rows of the solution are columns to BLAS: X' = B' L^-1, or B' L^-T
    wanted = alpha * np.linalg.solve(lower if transposed else lower.T, b)
    np.testing.assert_allclose(right, wanted, rtol=1e-12)


@pytest.mark.parametrize("alpha, beta", [(1, 0), (-2, 1)])
def test_squares_fill_one_half(routine, alpha, beta):
    a, c = matrix(3, 4, 0), matrix(4, 4, 1)
    wanted = np.where(np.tri(4, dtype=bool).T, beta * c + alpha * a.T @ a, c)
    routine("syrk")(4, 3, alpha, *at(a), beta, *at(c))
    np.testing.assert_allclose(c, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("alpha, beta", [(1, 0), (-2, 1)])
def test_products_with_symmetric_matrices_read_one_half(routine, alpha, beta):
    a, b, c = matrix(4, 4, 0), matrix(3, 4, 1), matrix(3, 4, 2)
    whole = np.triu(a) + np.triu(a, 1).T
    wanted = beta * c + alpha * b @ whole
    routine("symm")(4, 3, alpha, *at(a), *at(b), beta, *at(c))
    np.testing.assert_allclose(c, wanted, rtol=1e-13, atol=1e-13)
