"""Compiling with no more wrappers than needed, and views without checks."""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

_INTEGER = ir.IntType(64)


def inner(**options: Any) -> Callable:
    """Compile a function without the wrappers that would convert Python's objects for it.

    With a dozen arrays among the arguments these take as long to compile as the function.
    """
    wrappers: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(cache=True, nogil=True, **wrappers, **options)


def for_every_kind(function: Callable) -> Callable:
    """Compile a function that Python calls, anew for every kind of cell (`Markers`).

    What is compiled stays in memory, and LLVM does not give back all that it used for it. So there
    is no wrapper that would let C call it.
    """
    wrappers: Any = {"no_cfunc_wrapper": True}
    return numba.njit(cache=True, nogil=True, error_model="numpy", **wrappers)(function)


def instructions(plain: Callable) -> Callable[[Callable], Any]:
    """Decorate a function that generates instructions of compiled code.

    ``plain`` takes its place where nothing is compiled (``NUMBA_DISABLE_JIT=1``).
    """

    def decorate(definition: Callable) -> Any:
        return plain if getattr(config, "DISABLE_JIT", 0) else intrinsic(definition)

    return decorate


def _plain_copy(values, start, to, at, count):
    to.reshape(-1)[at : at + count] = values.reshape(-1)[start : start + count]


@instructions(lambda array, start, count: array.reshape(-1)[start : start + count])
def segment(typing_context, array, start, count):
    """Return ``count`` entries of a C-contiguous array from its entry ``start`` on.

    Neither the start nor the count is checked, and nothing counts the references to the
    array: slices do both, and most of the code made for them is that.
    """
    return _view(array, 1)(array, start, count), _generate


@instructions(
    lambda array, start, rows, columns: array.reshape(-1)[start : start + rows * columns].reshape(
        rows, columns
    )
)
def block(typing_context, array, start, rows, columns):
    """Return entries of a C-contiguous array from its entry ``start`` on as a matrix."""
    return _view(array, 2)(array, start, rows, columns), _generate


@instructions(_plain_copy)
def copy(typing_context, values, start, to, at, count):
    """Copy ``count`` entries from ``values[start]`` on to ``to[at]``, both C-contiguous."""
    for array in (values, to):
        _view(array, 1)  # or it is no C-contiguous array

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        source, target = (
            context.make_array(kinds[i])(context, builder, arguments[i]) for i in (0, 2)
        )
        begin, place, number = (_widened(builder, arguments[i], kinds[i]) for i in (1, 3, 4))
        size = context.get_abi_sizeof(source.data.type.pointee)
        pointers = builder.gep(target.data, [place]), builder.gep(source.data, [begin])
        cgutils.raw_memcpy(builder, *pointers, number, size)
        return context.get_dummy_value()

    return types.void(values, start, to, at, count), generate


def _view(array, ndim: int) -> types.Array:
    if not isinstance(array, types.Array) or array.layout != "C":
        raise TypeError(f"a C-contiguous array is needed, got {array}")
    return types.Array(array.dtype, ndim, "C")


def _generate(context, builder, signature, arguments):
    """Build an array without an owner."""
    from numba.np.arrayobj import populate_array  # a slow import, which compiling makes anyway

    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    numbers = zip(arguments[1:], signature.args[1:], strict=True)
    start, *shape = (_widened(builder, value, kind) for value, kind in numbers)
    size = context.get_abi_sizeof(array.data.type.pointee)
    strides = [ir.Constant(_INTEGER, size)]
    if len(shape) == 2:
        strides.insert(0, builder.mul(shape[1], strides[0]))
    view = context.make_array(signature.return_type)(context, builder)
    populate_array(
        view,
        data=builder.gep(array.data, [start]),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=ir.Constant(_INTEGER, size),
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


def _widened(builder, value, kind):
    """Return an integer with 64 bits."""
    if value.type == _INTEGER:
        return value
    return (builder.sext if kind.signed else builder.zext)(value, _INTEGER)
