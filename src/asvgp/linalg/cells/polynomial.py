"""Polynomials of one variable and of several, one for every cell of a grid."""

import numba

from asvgp.basis import Array
from asvgp.linalg.inner import for_every_kind
from asvgp.linalg.unrolled import magnitude, markers_of, unrolled

# Degrees as lengths of tuples. The usual ones are compiled together, others one by one.
_ONE, _TWO, _THREE, _FOUR = (markers_of((k,)) for k in (1, 2, 3, 4))


def evaluate_line(
    x: Array,
    lower: float,
    upper: float,
    scale: float,
    coef: Array,
    polynomials: Array,
    prior: float,
    floor: float,
    begin: int,
    mean: Array,
    variance: Array,
) -> int:
    """Write means and variances of points inside the domain from ``begin`` on.

    ``coef`` (outputs, cells, k + 1) holds the means; ``polynomials`` (cells, 2k + 1) is what
    the data take off the prior's variance, which leaves ``floor`` at least. ``variance`` is
    filled where it has entries. Returns the number of points outside.
    """
    degree = coef.shape[2] - 1
    markers = _FOUR if 1 <= degree <= 4 else markers_of((degree,))
    domain, tables, into = (lower, upper, scale), (coef, polynomials), (begin, mean, variance)
    return _evaluate_line(degree, markers, x, *domain, *tables, prior, floor, *into)


@for_every_kind
def _evaluate_line(
    degree, markers, x, lower, upper, scale, coef, polynomials, prior, floor, begin, mean, variance
):
    last = coef.shape[1] - 1
    both = variance.shape[0] > 0
    outside = 0
    for n in range(x.shape[0]):
        if x[n] < lower or x[n] > upper:
            outside += 1
            continue
        t = (x[n] - lower) * scale
        c = int(t)
        if c > last:
            c = last
        s = t - c
        for o in range(coef.shape[0]):
            if degree == 1:
                value = _mean(_ONE, o, c, s, coef)
            elif degree == 2:
                value = _mean(_TWO, o, c, s, coef)
            elif degree == 3:
                value = _mean(_THREE, o, c, s, coef)
            else:
                value = _mean(markers, o, c, s, coef)
            mean[o, begin + n] = value
        if both:
            if degree == 1:
                value = prior - _square(_ONE, c, s, polynomials)
            elif degree == 2:
                value = prior - _square(_TWO, c, s, polynomials)
            elif degree == 3:
                value = prior - _square(_THREE, c, s, polynomials)
            else:
                value = prior - _square(markers, c, s, polynomials)
            variance[begin + n] = value if value > floor else floor
    return outside


@unrolled
def _mean(markers, o, c, s, coef) -> float:
    (degree,) = map(len, markers)
    value = coef[o, c, degree]
    for j in range(degree - 1, -1, -1):
        value = value * s + coef[o, c, j]
    return value


@unrolled
def _square(markers, c, s, polynomials) -> float:
    """Evaluate a polynomial of twice the degree."""
    (degree,) = map(len, markers)
    value = polynomials[c, 2 * degree]
    for j in range(2 * degree - 1, -1, -1):
        value = value * s + polynomials[c, j]
    return value


@for_every_kind
def evaluate_terms(markers, x, lower, scale, polynomials, values, magnitudes):
    """Evaluate the cells' polynomials at x, and the sums of their absolute terms."""
    last = polynomials.shape[0] - 1
    for n in range(x.shape[0]):
        t = (x[n] - lower) * scale
        c = int(t)
        if c > last:
            c = last
        _terms(markers, n, c, t - c, polynomials, values, magnitudes)


@unrolled
def _terms(markers, n, c, s, polynomials, values, magnitudes):
    (degree,) = map(len, markers)
    value = terms = 0.0
    for j in range(degree, -1, -1):
        entry = polynomials[c, j]
        value = value * s + entry
        terms = terms * s + magnitude(entry)
    values[n] = value
    magnitudes[n] = terms


@numba.njit(cache=True, nogil=True, error_model="numpy")
def evaluate(coef, sizes, cells, s, work, out):
    """Evaluate polynomials: ``coef`` (cells, powers), powers in C order of ``sizes``.

    ``cells`` (n,) are flat cell numbers, ``s`` (n, D) local coordinates, ``work`` is room for
    a cell's coefficients. One Horner scheme per input, the last one first.
    """
    inputs = sizes.shape[0]
    for n in range(cells.shape[0]):
        c, t, p = cells[n], s[n, inputs - 1], sizes[inputs - 1]
        size = coef.shape[1] // p
        for i in range(size):
            value = coef[c, i * p + p - 1]
            for j in range(p - 2, -1, -1):
                value = value * t + coef[c, i * p + j]
            work[i] = value
        for d in range(inputs - 2, -1, -1):
            t, p = s[n, d], sizes[d]
            size //= p
            for i in range(size):
                value = work[i * p + p - 1]
                for j in range(p - 2, -1, -1):
                    value = value * t + work[i * p + j]
                work[i] = value
        out[n] = work[0]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def bilinear(blocks, block, i, u, j, v, out):
    """Compute ``u' Z v`` of few weights, u on rows i and v on columns j of their blocks Z."""
    for n in range(block.shape[0]):
        total = 0.0
        for a in range(i.shape[1]):
            if u[n, a] == 0.0:
                continue
            part = 0.0
            for b in range(j.shape[1]):
                part += blocks[block[n], i[n, a], j[n, b]] * v[n, b]
            total += u[n, a] * part
        out[n] = total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_columns(cross, columns, cells, s, values, quadratic, magnitude):
    """Add what global columns with ``values`` (n, C) have of ``phi' P^-1 phi`` on a line.

    ``cross`` (cells, powers, C) is P^-1 between the functions of the cells and the columns,
    ``columns`` that of the columns. ``magnitude``, where it has entries, gets absolute terms.
    """
    powers, count = cross.shape[1], columns.shape[0]
    for n in range(cells.shape[0]):
        alone = shared = 0.0
        for k in range(count):
            part = 0.0
            for j in range(powers - 1, -1, -1):
                part = part * s[n] + cross[cells[n], j, k]
            shared += 2.0 * part * values[n, k]
            for i in range(count):
                alone += values[n, k] * columns[k, i] * values[n, i]
        quadratic[n] += shared + alone
        if magnitude.shape[0] > 0:
            magnitude[n] += abs(shared) + alone
