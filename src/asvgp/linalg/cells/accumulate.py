"""Adding points to the sums of their cells: the inner loop of the one pass.

A cell's sums lie side by side in one row of a table,

    (w, w s, ..., w s**2k | w y, w y s, ..., w y s**k | padding),

which for k = 2 is one cache line, and a point is added as one vector (`add_row`): the
compiler does not find that by itself. Points that follow each other in x fall into the
same cell, and each addition would wait for the one before; so four parts of the array are
read in turn, which needs no ordering of the data and no special case for it.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from asvgp.basis import Array
from asvgp.linalg.inner import for_every_kind, inner, instructions
from asvgp.linalg.unrolled import Index, Memory, unrolled

BLOCK = 256
STREAMS = 4
AHEAD = 16  # rows fetched into the cache before they are needed
# Degrees as lengths of tuples. The usual ones are compiled together, others one by one.
_ONE, _TWO, _THREE, _FOUR = ((0,) * k for k in (1, 2, 3, 4))


def row_width(degree: int) -> int:
    """Return the entries of a row: ``3 * degree + 2`` sums, padded to whole vector registers."""
    return -(-(3 * degree + 2) // 4) * 4


def _plain_add_points(markers, table, cells, local, weights, values, i):
    k = len(markers)
    for stream in range(STREAMS):
        powers = local[stream, i] ** np.arange(2 * k + 1)
        row = table[cells[stream, i]]
        row[: 2 * k + 1] += weights[stream, i] * powers
        row[2 * k + 1 : 3 * k + 2] += values[stream, i] * powers[: k + 1]


@instructions(_plain_add_points)
def add_points(typing_context, markers, table, cells, local, weights, values, i):
    """Add entry ``i`` of every stream to the rows of the table, and fetch those of later ones.

    ``markers`` is a tuple as long as the degree.
    """
    degree = len(markers)

    def codegen(context, builder, signature, arguments):
        kinds, values_of = signature.args[2:6], arguments[2:6]
        cells, *numbers = (
            Memory(context, builder, kind, value)
            for kind, value in zip(kinds, values_of, strict=True)
        )
        at, table = Index(builder, arguments[6]), arguments[1]
        for ahead in (AHEAD, 0):
            for stream in range(STREAMS):
                row = cells[stream, at + ahead].value
                pointer = _row_pointer(context, builder, signature.args[1], table, row)
                if ahead:
                    _fetch(builder, pointer)
                else:
                    s, weight, value = (each[stream, at].value for each in numbers)
                    _add_row(builder, degree, pointer, s, weight, value)
        return context.get_dummy_value()

    return types.void(markers, table, cells, local, weights, values, types.intp), codegen


def _add_row(builder, k, pointer, s, weight, value):
    """Add ``(weight s**i, i <= 2k | value s**j, j <= k | 0)`` to a row in one instruction."""
    width = row_width(k)
    powers = [*range(2 * k + 1), *range(k + 1)]
    vector = ir.VectorType(ir.DoubleType(), width)
    flags = ir.VectorType(ir.IntType(1), width)
    lanes = ir.VectorType(ir.IntType(32), width)
    undefined = ir.Constant(vector, ir.Undefined)

    def spread(scalar):
        first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(lanes, [0] * width))

    def where(mask, yes, no):
        mask = [int(bool(flag)) for flag in mask] + [0] * (width - len(mask))
        return builder.select(ir.Constant(flags, mask), yes, no)

    is_moment = [i <= 2 * k for i in range(len(powers))]
    zero, one = (ir.Constant(vector, [number] * width) for number in (0.0, 1.0))
    total = where(is_moment, spread(weight), spread(value))
    total = where([True] * len(powers), total, zero)
    bit, power = 1, s
    while bit <= 2 * k:  # s**i by the binary digits of i
        factor = where([i & bit for i in powers], spread(power), one)
        total = builder.fmul(total, factor)
        bit, power = 2 * bit, builder.fmul(power, power)
    pointer = builder.bitcast(pointer, vector.as_pointer())
    old = builder.load(pointer, align=8)
    builder.store(builder.fadd(old, total), pointer, align=8)


@instructions(lambda table, row: None)
def fetch_row(typing_context, table, row):
    """Ask the processor for a row that will be added to soon."""

    def codegen(context, builder, signature, arguments):
        _fetch(builder, _row_pointer(context, builder, signature.args[0], *arguments))
        return context.get_dummy_value()

    return types.void(table, types.intp), codegen


def _fetch(builder, pointer):
    byte, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    options = [ir.Constant(integer, number) for number in (1, 3, 1)]  # write, keep, data
    builder.call(prefetch, [builder.bitcast(pointer, byte), *options])


def _row_pointer(context, builder, kind, table, row):
    """Return the address of the first entry of a row."""
    array = context.make_array(kind)(context, builder, table)
    stride = cgutils.unpack_tuple(builder, array.strides)[0]
    start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(start, [builder.mul(row, stride)]), array.data.type)


@inner(fastmath={"reassoc", "contract"})
def _locate(x, y, lower, scale, last, cells, local, values):
    """Find cells and local coordinates of a block; returns its sum of y squared, or NaN."""
    square = 0.0
    for i in range(x.shape[0]):
        t = (x[i] - lower) * scale
        cell = min(np.floor(t), last)
        cells[i] = np.int32(cell)
        local[i] = t - cell
        values[i] = y[i]
        square += y[i] * y[i]
    return square


@inner(error_model="numpy")
def _weigh(y, w, weights, values, totals):
    """Weigh the values of a block; a missing y weighs nothing.

    Returns the block's weighted sum of y squared.
    """
    weighted = w.shape[0] > 0
    square = 0.0
    for i in range(y.shape[0]):
        weights[i] = 0.0
        values[i] = 0.0
        if y[i] != y[i]:
            totals[1] += 1.0
            continue
        weights[i] = w[i] if weighted else 1.0
        values[i] = weights[i] * y[i]
        square += values[i] * y[i]
        totals[2] += np.log(weights[i])
    return square


def accumulate(
    degree: int,
    x: Array,
    y: Array,
    w: Array,
    lower: float,
    scale: float,
    table: Array,
    totals: Array,
) -> None:
    """Add points, in any order, to the rows of ``table``.

    ``w`` is empty where all weights are one.
    ``totals`` gains the weighted sum of y squared, the number of missing y (NaN), and the sum
    of the log weights of the others.
    """
    whole = len(x) // STREAMS * STREAMS
    markers = _FOUR if degree <= len(_FOUR) else (0,) * degree
    _accumulate(degree, markers, x[:whole], y[:whole], w[:whole], lower, scale, table, totals)
    if whole < len(x):  # with missing points in addition, as many as there are streams
        lacking = STREAMS - (len(x) - whole)
        x, y = np.append(x[whole:], [lower] * lacking), np.append(y[whole:], [np.nan] * lacking)
        w = np.append(w[whole:], [1.0] * lacking) if len(w) else w
        _accumulate(degree, markers, x, y, w, lower, scale, table, totals)
        totals[1] -= lacking


@for_every_kind
def _accumulate(degree, markers, x, y, w, lower, scale, table, totals):
    last = float(table.shape[0] - 1)
    cells = np.zeros((STREAMS, BLOCK + AHEAD), np.int32)
    local = np.empty((STREAMS, BLOCK))
    weights = np.empty((STREAMS, BLOCK))
    values = np.empty((STREAMS, BLOCK))
    clean = 0  # streams whose weights are all one, a bit for each
    part = x.shape[0] // STREAMS
    for offset in range(0, part, BLOCK):
        size = BLOCK if part - offset > BLOCK else part - offset
        for k in range(STREAMS):
            at = k * part + offset
            block = y[at : at + size]
            square = _locate(
                x[at : at + size], block, lower, scale, last, cells[k], local[k], values[k]
            )
            if w.shape[0] > 0 or square != square:
                square = _weigh(block, w[at : at + size], weights[k], values[k], totals)
                clean &= ~(1 << k)
            elif not clean & (1 << k):
                for i in range(BLOCK):
                    weights[k, i] = 1.0
                clean |= 1 << k
            totals[0] += square
        if degree == 1:
            for i in range(size):
                add_points(_ONE, table, cells, local, weights, values, i)
        elif degree == 2:
            for i in range(size):
                add_points(_TWO, table, cells, local, weights, values, i)
        elif degree == 3:
            for i in range(size):
                add_points(_THREE, table, cells, local, weights, values, i)
        elif degree == 4:
            for i in range(size):
                add_points(_FOUR, table, cells, local, weights, values, i)
        else:
            for i in range(size):
                add_points(markers, table, cells, local, weights, values, i)


@for_every_kind
def accumulate_averages(markers, x, width, y, w, lower, scale, table, totals):
    """Add averages over ``[x, x + width]``, each inside one cell, as `accumulate` adds points.

    A row of the table holds ``sum w m_i m_j`` for i <= j, row by row, and ``sum w y m_j``,
    with m_j the mean of s**j over the interval. An interval that rounding lets reach out of
    its cell takes the cell's polynomial there, which its neighbour's meets smoothly.
    """
    last = table.shape[0] - 1
    for n in range(x.shape[0]):
        if y[n] != y[n]:
            totals[1] += 1.0
            continue
        weight = w[n] if w.shape[0] > 0 else 1.0
        start = (x[n] - lower) * scale
        length = width[n] * scale
        c = int(start + 0.5 * length)
        c = last if c > last else c
        c = 0 if c < 0 else c
        _add_average(markers, c, start - c, length, weight, y[n], table)
        totals[0] += weight * y[n] * y[n]
        totals[2] += np.log(weight)


@unrolled
def _add_average(markers, c, s, length, weight, value, table):
    # The mean of s**j is that of all products s**i t**(j - i) of the two ends.
    (degree,) = map(len, markers)
    mean, power, total = [1.0], 1.0, 1.0
    for j in range(1, degree + 1):
        power = power * s
        total = total * (s + length) + power
        mean.append(total * (1.0 / (j + 1)))
    column = 0
    for i in range(degree + 1):
        for j in range(i, degree + 1):
            table[c, column] += weight * mean[i] * mean[j]
            column += 1
    for j in range(degree + 1):
        table[c, column + j] += weight * value * mean[j]


def average_table(rows: int, degree: int):
    """Return a table of zeros for `accumulate_averages`."""
    return np.zeros((rows, (degree + 1) * (degree + 4) // 2))


def aligned_table(rows: int, degree: int):
    """Return a table of zeros whose rows start at cache lines where their width allows."""
    count = rows * row_width(degree)
    memory = np.zeros(count + 8)
    skip = (-memory.ctypes.data // memory.itemsize) % 8
    return memory[skip : skip + count].reshape(rows, -1)
