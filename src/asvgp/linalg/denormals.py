"""Numbers too small for full precision, taken as zero.

The entries of a factor fall off exponentially with distance. On a large grid some fall
below 1e-308, where Intel's and AMD's processors take a hundred times longer for each
operation, and the whole factorisation several times. Here they are nothing but zero. The
setting belongs to the thread; threads that BLAS starts for itself do not have it.
"""

import platform

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from asvgp.linalg.inner import instructions

_X86 = platform.machine().lower() in ("x86_64", "amd64")  # others are fast anyway
_ZERO = np.uint32(0x1F80 | 0x8000 | 0x0040)  # default, results and arguments flushed to zero


@instructions(lambda word: word)
def _exchange(typing_context, word):
    """Set the control word of the floating point unit, and return its former value."""

    def generate(context, builder, signature, arguments):
        if not _X86:
            return arguments[0]
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer])
        words = [cgutils.alloca_once(builder, ir.IntType(32)) for _ in range(2)]
        builder.store(arguments[0], words[1])
        for name, value in zip(("stmxcsr", "ldmxcsr"), words, strict=True):
            routine = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
            builder.call(routine, [builder.bitcast(value, pointer)])
        return builder.load(words[0])

    return types.uint32(types.uint32), generate


@numba.njit(cache=True, nogil=True)
def flush_denormals():
    """Begin to take denormal numbers as zero, and return what `restore` needs."""
    return _exchange(_ZERO)


@numba.njit(cache=True, nogil=True)
def restore(word):
    """Return to the setting before `flush_denormals`."""
    _exchange(np.uint32(word))
