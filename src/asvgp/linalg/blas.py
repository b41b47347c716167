"""BLAS for compiled code, without the interpreter lock.

SciPy hands out the addresses of its BLAS. They are registered under names of our own, so
that compiled functions which call them can still be cached. All matrices are float64, and
given by the address of their first entry and the distance of their columns: a C-contiguous
array is, to BLAS, its transpose. Of symmetric and triangular matrices BLAS' lower half is
used, the upper one of a C-contiguous array.

The number of threads is that of the process (`asvgp.runtime.parallel.one_blas_thread`).
"""

import ctypes
import inspect
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import get_cython_function_address

from asvgp.linalg.inner import instructions

_BYTE, _INT, _DOUBLE = ir.IntType(8), ir.IntType(32), ir.DoubleType()


def _routine(name: str, parameters: str) -> Any:
    """Make a routine of BLAS callable from compiled code, in place and without a wrapper.

    BLAS wants addresses of all its arguments. A small letter of ``parameters`` stands for an
    argument to give: t for "transposed" (a truth value), n for an integer, s for a scalar (an
    integer too) and a for the address of an array. A capital letter is passed on as it is.
    """
    symbol = f"asvgp_{name}"
    address = get_cython_function_address("scipy.linalg.cython_blas", name)
    llvmlite.binding.add_symbol(symbol, address)

    def definition(typing_context, *kinds):
        return types.void(*kinds), generate

    def generate(context, builder, signature, arguments):
        given, addresses = iter(arguments), []
        for letter in parameters:
            value = ir.Constant(_BYTE, ord(letter)) if letter.isupper() else next(given)
            if letter == "t":
                letters = (ir.Constant(_BYTE, ord(each)) for each in "TN")
                value = builder.select(cgutils.as_bool_bit(builder, value), *letters)
            elif letter == "n":
                value = builder.trunc(value, _INT)
            elif letter == "s":
                value = builder.sitofp(value, _DOUBLE)
            if letter == "a":
                addresses.append(builder.inttoptr(value, _BYTE.as_pointer()))
                continue
            place = cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
            addresses.append(builder.bitcast(place, _BYTE.as_pointer()))
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer()] * len(addresses))
        routine = cgutils.get_or_insert_function(builder.module, kind, symbol)
        builder.call(routine, addresses)
        return context.get_dummy_value()

    names = ["typing_context"] + [f"{p}{i}" for i, p in enumerate(parameters) if p.islower()]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(each, kind) for each in names])
    vars(definition)["__signature__"] = signature
    definition.__name__ = name
    return instructions(_plain(address, parameters))(definition)


def _plain(address: int, parameters: str) -> Any:
    """Return the same routine where nothing is compiled (``NUMBA_DISABLE_JIT=1``)."""
    call = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * len(parameters))(address)

    def routine(*given):
        rest, references = iter(given), []
        for letter in parameters:
            value: Any = letter if letter.isupper() else next(rest)
            if letter == "a":
                references.append(ctypes.c_void_p(value))
                continue
            if letter == "t":
                value = "T" if value else "N"
            text = isinstance(value, str)
            kind = ctypes.c_char if text else ctypes.c_int if letter == "n" else ctypes.c_double
            held = kind(value.encode() if text else value)
            references.append(ctypes.byref(held))  # which keeps it alive
        call(*references)

    return routine


# gemm(a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
# C (m, n) := beta C + alpha A B, with A (m, k) and B (k, n) once transposed.
gemm = _routine("dgemm", "ttnnnsanansan")
# trsm(transposed, m, n, alpha, a, lda, b, ldb):
# B (m, n) := alpha B L^-1, or alpha B L^-T, with L the lower half of A.
trsm = _routine("dtrsm", "RLtNnnsanan")
# syrk(n, k, alpha, a, lda, beta, c, ldc):
# C (n, n) := beta C + alpha A A^T with A (n, k): the lower half.
syrk = _routine("dsyrk", "LNnnsansan")
# symm(m, n, alpha, a, lda, b, ldb, beta, c, ldc):
# C (m, n) := beta C + alpha A B with A (m, m) symmetric, its lower half.
symm = _routine("dsymm", "LLnnsanansan")
