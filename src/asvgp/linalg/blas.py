"""BLAS for compiled code, without the interpreter lock.

SciPy hands out the addresses of its BLAS. They are registered under names of our own, so
that compiled functions which call them can still be cached. All matrices are float64, and
given by the address of their first entry and the distance of their columns: a C-contiguous
array is, to BLAS, its transpose. Of symmetric and triangular matrices BLAS' lower half is
used, the upper one of a C-contiguous array.

The number of threads is that of the process (`asvgp.runtime.parallel.one_blas_thread`).
"""

# pyright: reportArgumentType=false
# (what numba declares as types of external functions, it takes as values)
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba import types
from numba.extending import get_cython_function_address


def _external(name: str, num_arguments: int) -> Any:
    """A routine all of whose arguments are pointers, as Fortran's are."""
    symbol = f"asvgp_{name}"
    address = get_cython_function_address("scipy.linalg.cython_blas", name)
    llvmlite.binding.add_symbol(symbol, address)
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * num_arguments))


_dtrsm = _external("dtrsm", 11)
_dsyrk = _external("dsyrk", 10)
_dsymm = _external("dsymm", 12)
_dgemm = _external("dgemm", 13)

# Arguments that never change: letters, and the two scalars.
_LEFT, _RIGHT, _LOWER, _PLAIN, _TRANSPOSED = np.frombuffer(b"LRLNT", dtype=np.uint8).reshape(5, 1)
_SCALARS = np.array([-1.0, 0.0, 1.0])


@numba.njit(cache=True, nogil=True)
def _scalar(value):
    """Address of -1, 0 or 1."""
    return _SCALARS.ctypes.data + 8 * (value + 1)


@numba.njit(cache=True, nogil=True)
def _letter(transposed):
    return _TRANSPOSED.ctypes.data if transposed else _PLAIN.ctypes.data


@numba.njit(cache=True, nogil=True)
def trsm(transposed, m, n, a, lda, b, ldb):
    """B (m, n) := B L^-1, or B L^-T, with L the lower half of A."""
    sizes = np.array([m, n, lda, ldb], dtype=np.int32)
    size = sizes.ctypes.data
    side, half, no = _RIGHT.ctypes.data, _LOWER.ctypes.data, _PLAIN.ctypes.data
    one = _scalar(1)
    _dtrsm(side, half, _letter(transposed), no, size, size + 4, one, a, size + 8, b, size + 12)


@numba.njit(cache=True, nogil=True)
def syrk(n, k, a, lda, c, ldc):
    """C (n, n) := C - A A^T with A (n, k): the lower half."""
    sizes = np.array([n, k, lda, ldc], dtype=np.int32)
    size = sizes.ctypes.data
    half, no = _LOWER.ctypes.data, _PLAIN.ctypes.data
    _dsyrk(half, no, size, size + 4, _scalar(-1), a, size + 8, _scalar(1), c, size + 12)


@numba.njit(cache=True, nogil=True)
def symm(m, n, a, lda, b, ldb, c, ldc):
    """C (m, n) := -A B with A (m, m) symmetric, its lower half."""
    sizes = np.array([m, n, lda, ldb, ldc], dtype=np.int32)
    size = sizes.ctypes.data
    side, half, minus, zero = _LEFT.ctypes.data, _LOWER.ctypes.data, _scalar(-1), _scalar(0)
    _dsymm(side, half, size, size + 4, minus, a, size + 8, b, size + 12, zero, c, size + 16)


@numba.njit(cache=True, nogil=True)
def gemm(alpha, a_transposed, b_transposed, beta, m, n, k, a, lda, b, ldb, c, ldc):
    """C (m, n) := beta C + alpha A B, with A (m, k) and B (k, n) once transposed.

    Both scalars are -1, 0 or 1.
    """
    sizes = np.array([m, n, k, lda, ldb, ldc], dtype=np.int32)
    size = sizes.ctypes.data
    of_a, of_b = _letter(a_transposed), _letter(b_transposed)
    ld_a, ld_b, ld_c = size + 12, size + 16, size + 20
    times, keep = _scalar(alpha), _scalar(beta)
    _dgemm(of_a, of_b, size, size + 4, size + 8, times, a, ld_a, b, ld_b, keep, c, ld_c)
