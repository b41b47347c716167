"""Straight-line machine code for the algebra of one cell.

A cell has a handful of coefficients, and a loop along the cells spends its time on products
of matrices of two to eight rows. Compiled as loops over run-time sizes these take three
times as long as without loops; and where the sizes are part of the types, so that LLVM can
unroll the loops, every function takes a second or more to compile for every kernel.

`unrolled` goes a third way. It runs an ordinary Python function once while a caller is
compiled, with objects in place of numbers that write down the operations applied to them.
Python's loops and conditions happen at that time; products with the constants 0 and 1 are
left out; what is compiled is a list of additions and multiplications, in a tenth of a
second. With ``NUMBA_DISABLE_JIT=1`` the function is called as it is.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

_DOUBLE, _INTEGER, _BYTE = ir.DoubleType(), ir.IntType(64), ir.IntType(8)
_FLAGS = ("contract",)  # a product and a sum may become one instruction, rounded once

Markers = tuple[tuple[int, ...], ...]


def markers_of(degrees: tuple[int, ...]) -> Markers:
    """Return tuples of zeros, as many and as long as ``degrees`` says.

    Numba sees the lengths of tuples as types, so this argument selects the compiled code.

    Examples
    --------
    >>> markers_of((3, 1))
    ((0, 0, 0), (0,))
    """
    return tuple((0,) * degree for degree in degrees)


class Number:
    """A floating point number of the compiled function."""

    def __init__(self, builder: Any, value: Any):
        self.builder, self.value = builder, value

    def _apply(self, operation: str, left, right) -> Number:
        operands = _value_of(left), _value_of(right)
        return Number(self.builder, getattr(self.builder, operation)(*operands, flags=_FLAGS))

    def __add__(self, other):
        return self if _is_constant(other, 0.0) else self._apply("fadd", self, other)

    def __sub__(self, other):
        return self if _is_constant(other, 0.0) else self._apply("fsub", self, other)

    def __rsub__(self, other):
        return self._apply("fsub", other, self)

    def __mul__(self, other):
        if _is_constant(other, 0.0):
            return 0.0
        return self if _is_constant(other, 1.0) else self._apply("fmul", self, other)

    def __truediv__(self, other):
        return self._apply("fdiv", self, other)

    def __rtruediv__(self, other):
        return self._apply("fdiv", other, self)

    __radd__, __rmul__ = __add__, __mul__


class Index:
    """An integer of the compiled function."""

    def __init__(self, builder: Any, value: Any):
        self.builder, self.value = builder, value

    def __add__(self, other: int) -> Index:
        number = ir.Constant(_INTEGER, other)
        return Index(self.builder, self.builder.add(self.value, number))

    def __mul__(self, other: int) -> Index:
        number = ir.Constant(_INTEGER, other)
        return Index(self.builder, self.builder.mul(self.value, number))


class Memory:
    """An array of the compiled function.

    Where a row begins is computed once for all its entries, which leaves LLVM a third fewer
    instructions to read.
    """

    def __init__(self, context: Any, builder: Any, kind: types.Array, value: Any):
        array = context.make_array(kind)(context, builder, value)
        self.builder, self.kind = builder, kind
        self.entry = array.data.type
        self.size = context.get_abi_sizeof(self.entry.pointee)
        self.strides = list(cgutils.unpack_tuple(builder, array.strides))
        self.starts: dict[tuple, Any] = {(): builder.bitcast(array.data, _BYTE.as_pointer())}
        self.addresses: dict[tuple, Any] = {}

    def _address(self, index) -> Any:
        places = index if isinstance(index, tuple) else (index,)
        places = tuple(i.value if isinstance(i, Index) else i for i in places)
        if places not in self.addresses:
            start = self._start(places)
            self.addresses[places] = self.builder.bitcast(start, self.entry)
        return self.addresses[places]

    def _start(self, places: tuple) -> Any:
        """Return where the part of the array begins that its first indices choose."""
        if places not in self.starts:
            *before, i = places
            start, axis = self._start(tuple(before)), len(before)
            self.starts[places] = self.builder.gep(start, [self._offset(i, axis)])
        return self.starts[places]

    def _offset(self, i, axis: int) -> Any:
        """Return the distance in bytes of an index from the first along an axis."""
        adjoining = self.kind.layout == "C" and axis == self.kind.ndim - 1
        if isinstance(i, int):
            if adjoining or i == 0:
                return ir.Constant(_INTEGER, i * self.size)
            i = ir.Constant(_INTEGER, i)
        stride = ir.Constant(_INTEGER, self.size) if adjoining else self.strides[axis]
        return self.builder.mul(i, stride)

    def __getitem__(self, index):
        value = self.builder.load(self._address(index))
        if isinstance(self.kind.dtype, types.Float):
            return Number(self.builder, value)
        return Index(self.builder, self.builder.zext(value, _INTEGER))

    def __setitem__(self, index, value) -> None:
        self.builder.store(_value_of(value), self._address(index))


def choose(left, right, yes, no) -> Any:
    """Return ``yes`` where ``left > right``, and ``no`` otherwise."""
    numbers = [each for each in (left, right) if isinstance(each, Number)]
    if not numbers:
        return yes if left > right else no
    builder = numbers[0].builder
    greater = builder.fcmp_ordered(">", _value_of(left), _value_of(right))
    return Number(builder, builder.select(greater, _value_of(yes), _value_of(no)))


def maximum(left, right) -> Any:
    """Return the greater of two numbers, or the first if they cannot be compared."""
    return choose(right, left, right, left)


def magnitude(value) -> Any:
    """Return a number without its sign."""
    return maximum(value, 0.0 - value)


def square_root(value) -> Any:
    """Return the square root."""
    if not isinstance(value, Number):
        return math.sqrt(value)
    kind = ir.FunctionType(_DOUBLE, [_DOUBLE])
    builder = value.builder
    routine = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.f64")
    return Number(builder, builder.call(routine, [value.value]))


def unrolled(function: Callable) -> Any:
    """Make ``function`` callable from compiled code, where it becomes straight-line code.

    Its first argument is a `Markers`, the others are arrays, integers (for indices) and
    floats. It returns a float if it is annotated so, and nothing otherwise.
    """
    if getattr(config, "DISABLE_JIT", 0):
        return function
    signature = inspect.signature(function)
    returned = types.float64 if signature.return_annotation in (float, "float") else types.void

    def definition(typing_context, *kinds):
        def generate(context, builder, signature, arguments):
            markers, *others = zip(signature.args, arguments, strict=True)
            result = function(
                tuple((0,) * len(component) for component in markers[0]),
                *(_wrap(context, builder, kind, value) for kind, value in others),
            )
            return context.get_dummy_value() if result is None else _value_of(result)

        return returned(*kinds), generate

    first = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first, *signature.parameters.values()]
    vars(definition)["__signature__"] = signature.replace(parameters=parameters)
    definition.__name__ = function.__name__
    return intrinsic(definition)


def _wrap(context: Any, builder: Any, kind: types.Type, value: Any) -> Any:
    """Return the object that stands for an argument."""
    if isinstance(kind, types.Array):
        return Memory(context, builder, kind, value)
    if isinstance(kind, types.Float):
        return Number(builder, value)
    return Index(builder, builder.sext(value, _INTEGER) if value.type != _INTEGER else value)


def _is_constant(value, number: float) -> bool:
    return not isinstance(value, Number) and value == number


def _value_of(value) -> Any:
    return value.value if isinstance(value, Number) else ir.Constant(_DOUBLE, float(value))
