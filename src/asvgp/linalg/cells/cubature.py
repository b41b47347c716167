"""Rules of measures on boxes with few nodes and positive masses, from their moments.

A first rule comes from Gauss's rules of one input at a time. Where its nodes along the first input
are ``t_i``, with the polynomials ``L_i`` that are one at ``t_i`` and zero at the others, the
moments ``sum w L_i(s_1)**2 s_2**j`` are those of a positive measure, whose rule gives the nodes
along the second input; and so on. It is positive, inside the cell, and exact for product measures
and for few atoms along the inputs; where few atoms are anywhere in the cell, `atoms_of` finds them.

Masses and places of its nodes are more numbers than there are powers of small total degree. Newton
steps of least length, damped as Levenberg and Marquardt do, then make the rule exact for these,
while masses stay positive and nodes stay inside.
"""

from itertools import product

import numba
import numpy as np

from asvgp.basis import Array
from asvgp.linalg.cells.atoms import atoms_of, orthonormal
from asvgp.linalg.cells.gauss import ROUNDING, ROUNDING_PER_ROW, legendre_moments, rule_of

# [mass] Of the squared norms of polynomials that tell nodes of the first rule apart. With less,
# the squares of the polynomials L_i have lost their digits.
_APART = 1e-10
# What an error of a moment counts less from degree to degree, where not all can be matched.
# Measured: 2 to 25 points in a cell, degrees 2 and 3: the worst error is 6e-3 of the mass with 1,
# 2e-4 with 2 and 3e-4 with 4, which takes twice the steps
_LESS = 2.0
_STEPS = 40  # of damped Newton iterations
# Sums of one coordinate and one of these times another tell apart points of lattices.
_SLANTS = (0.6180339887498949, -0.7320508075688773, 1.4142135623730951)
_ATOMS = 1e-7  # [squared errors, halved] A rule of atoms with larger ones is not that of the data.
_DAMPING = 1e-4  # [squared norm of all changes] of the first step
_AHEAD = 0.9  # [way to the bound] What one step takes at most of a mass or a distance


def small_powers(sizes: tuple[int, ...], total: int) -> Array:
    """Return the powers (number, D) below ``sizes`` that add up to ``total`` at most.

    Examples
    --------
    >>> small_powers((3, 2), 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]]
    """
    powers = [p for p in product(*map(range, sizes)) if sum(p) <= total]
    return np.array(powers, dtype=np.int64)


def legendre_tables(number: int) -> tuple[Array, Array, Array]:
    """Return what `cubature` needs: monic polynomials, their recursion and their norms."""
    rows, b = legendre_moments(number)
    index = np.arange(1, number)
    norms = np.concatenate([[1.0], np.sqrt(np.cumprod(index**2 / (4.0 * (4.0 * index**2 - 1.0))))])
    return rows, b, norms * _LESS ** np.arange(number)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _first_rule(moments, sizes, legendre, b, rounding, old, new, points, masses, room):
    """Write a positive rule of the moments (powers in C order); returns the number of nodes.

    ``old`` and ``new`` have a row for every node, for the moments of the inputs not yet done.
    """
    inputs = sizes.shape[0]
    d, z = room[6], room[7]
    squared = room[8:10]
    rest, count = moments.shape[0], 1
    old[0, :rest] = moments
    masses[0] = moments[0]
    for k in range(inputs):
        size = sizes[k]
        rest //= size
        found = 0
        for p in range(count):
            line = room[10, :size]
            for j in range(size):
                line[j] = old[p, j * rest]
            number = rule_of(line, legendre, b, rounding, d, z, room)
            for i in range(number):
                mass = line[0] * z[i] * z[i]
                if not mass > rounding * moments[0] * 1e-3:
                    continue
                for j in range(k):  # the inputs done before
                    points[1, found, j] = points[0, p, j]
                points[1, found, k] = d[i]
                masses[found + masses.shape[0] // 2] = mass
                if rest > 1:
                    degree = _squared_lagrange(d, number, i, squared)
                    for q in range(rest):
                        total = 0.0
                        for j in range(degree + 1):
                            total += squared[0, j] * old[p, j * rest + q]
                        new[found, q] = total
                    if not new[found, 0] > 0.0:
                        continue
                    scale = mass / new[found, 0]
                    for q in range(rest):
                        new[found, q] *= scale
                found += 1
        count = found
        points[0, :count] = points[1, :count]
        masses[:count] = masses[masses.shape[0] // 2 : masses.shape[0] // 2 + count]
        old, new = new, old
    return count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _squared_lagrange(nodes, number, which, squared):
    """Write in ``squared[0]`` the powers of the square of a Lagrange polynomial."""
    out, length = squared[0], 1
    out[0] = 1.0
    for j in range(number):
        if j == which:
            continue
        factor = 1.0 / (nodes[which] - nodes[j])
        for _ in range(2):
            out[length] = out[length - 1] * factor
            for i in range(length - 1, 0, -1):
                out[i] = (out[i - 1] - nodes[j] * out[i]) * factor
            out[0] *= -nodes[j] * factor
            length += 1
    return length - 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _residuals(count, points, masses, wanted, powers, b, norms, table, values, slopes, out):
    """Write the errors of all moments, with values and slopes of all polynomials at the nodes.

    Polynomials are products of Legendre's of norm one. Returns half the sum of squares.
    """
    inputs, terms = powers.shape[1], powers.shape[0]
    size = norms.shape[0]
    for r in range(terms):
        out[r] = -wanted[r]
    for i in range(count):
        for k in range(inputs):
            s = points[i, k] - 0.5
            table[0, k, 0], table[1, k, 0] = 1.0, 0.0
            table[0, k, 1], table[1, k, 1] = s, 1.0
            for j in range(1, size - 1):
                table[0, k, j + 1] = s * table[0, k, j] - b[j] * table[0, k, j - 1]
                table[1, k, j + 1] = table[0, k, j] + s * table[1, k, j] - b[j] * table[1, k, j - 1]
            for j in range(size):
                table[0, k, j] /= norms[j]
                table[1, k, j] /= norms[j]
        for r in range(terms):
            value = 1.0
            for k in range(inputs):
                value *= table[0, k, powers[r, k]]
            values[i, r] = value
            out[r] += masses[i] * value
            for k in range(inputs):
                slope = table[1, k, powers[r, k]]
                for m in range(inputs):
                    if m != k:
                        slope *= table[0, m, powers[r, m]]
                slopes[i, k, r] = slope
    total = 0.0
    for r in range(terms):
        total += out[r] * out[r]
    return 0.5 * total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _gram(count, points, masses, values, slopes, column, gram):
    """Write the Gram matrix of all changes of masses and places, in their own scales."""
    terms, inputs = gram.shape[0], points.shape[1]
    gram[:] = 0.0
    for i in range(count):
        for k in range(inputs + 1):
            if k == inputs:
                scale = 1.0
                column[:terms] = values[i]
            else:
                scale = points[i, k] * (1.0 - points[i, k])
                column[:terms] = slopes[i, k]
            scale *= masses[i]
            if scale == 0.0:
                continue
            for r in range(terms):
                factor = scale * column[r]
                for q in range(r + 1):
                    gram[r, q] += factor * column[q]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _solve(gram, damping, factor, right):
    """Solve with the lower triangle of gram + damping; False where it is not positive."""
    n = gram.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = gram[i, j]
            if i == j:
                total += damping
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i == j:
                if not total > 0.0:
                    return False
                factor[i, i] = np.sqrt(total)
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(n):
        for j in range(i):
            right[i] -= factor[i, j] * right[j]
        right[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        right[i] /= factor[i, i]
        for j in range(i):
            right[j] -= factor[i, j] * right[i]
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _move(count, points, masses, values, slopes, solution, moved, changed):
    """Write the nodes after a step, shortened where it would leave the cell."""
    terms, inputs = solution.shape[0], points.shape[1]
    for i in range(count):
        total = 0.0
        for r in range(terms):
            total -= values[i, r] * solution[r]
        changed[i] = masses[i] * max(1.0 + total, 1.0 - _AHEAD)
        for k in range(inputs):
            total = 0.0
            for r in range(terms):
                total -= slopes[i, k, r] * solution[r]
            s = points[i, k]
            step = total * s * (1.0 - s)
            moved[i, k] = s + min(max(step, -_AHEAD * s), _AHEAD * (1.0 - s))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _worst(error, scales):
    worst = 0.0
    for r in range(error.shape[0]):
        worst = max(worst, abs(error[r]) * scales[r])
    return worst


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _centre(count, points, masses, wanted, firsts):
    """Make the mass and the means exact, where steps have not done so already."""
    total = 0.0
    for i in range(count):
        total += masses[i]
    for i in range(count):
        masses[i] /= total
    for k in range(points.shape[1]):
        mean = spread = 0.0
        for i in range(count):
            s = points[i, k]
            mean += masses[i] * s
            spread += masses[i] * s * (1.0 - s)
        short = wanted[firsts[k]] + 0.5 - mean
        if abs(short) < _AHEAD * spread:
            for i in range(count):
                points[i, k] += short / spread * points[i, k] * (1.0 - points[i, k])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def cubature(
    moments, sizes, powers, flat, wanted, legendre, b, norms, rows, begin, end, places, masses
):  # fmt: skip
    """Write rules of the cells from ``begin`` to ``end``; masses beyond the nodes are zero.

    No degree is zero, so that all have powers up to two along every input.
    ``moments`` is (cells, prod(sizes)), powers in C order; ``flat`` are the places in it of the
    powers whose products with one another and with an input are there, the smallest total degree
    first, and of one power more, whose products with these and with itself are.
    ``wanted`` (cells, number) are the moments of the products of monic Legendre polynomials
    of degrees ``powers``, as shares of the mass. ``places`` is (cells, nodes, D), ``masses``
    (cells, nodes).
    """
    most, inputs = places.shape[1], places.shape[2]
    terms, size = powers.shape[0], norms.shape[0]
    room = np.empty((11, legendre.shape[0] + 1))
    old, new = np.empty((most, moments.shape[1])), np.empty((most, moments.shape[1]))
    both, pair = np.empty((2, most, inputs)), np.empty(2 * most)
    table = np.empty((2, inputs, size))
    values, slopes = np.empty((most, terms)), np.empty((most, inputs, terms))
    values_new, slopes_new = np.empty((most, terms)), np.empty((most, inputs, terms))
    gram, factor, column = np.empty((terms, terms)), np.empty((terms, terms)), np.empty(terms)
    target, error, error_new = np.empty(terms), np.empty(terms), np.empty(terms)
    solution, scales = np.empty(terms), np.ones(terms)
    moved, changed = np.empty((most, inputs)), np.empty(most)
    work = np.empty((4 + inputs, flat.shape[0] + 1, flat.shape[0] + 1))
    few = flat[:-1]
    strides, firsts = np.ones(inputs, np.int64), np.empty(inputs, np.int64)
    for k in range(inputs - 2, -1, -1):
        strides[k] = strides[k + 1] * sizes[k + 1]
    for r in range(terms):
        for k in range(inputs):
            scales[r] *= norms[powers[r, k]]
            if powers[r, k] == 1 and powers[r].sum() == 1:
                firsts[k] = r
    for c in range(begin, end):
        for i in range(most):
            masses[c, i] = 0.0
        mass = moments[c, 0]
        if not mass > 0.0:
            continue
        rounding = ROUNDING + ROUNDING_PER_ROW * rows[c]
        apart = max(_APART, rounding)
        for r in range(terms):
            target[r] = wanted[c, r] / scales[r]
        points, count, half, half_new, done = both[0], 0, np.inf, np.inf, False
        found = orthonormal(moments[c], flat, apart, work)
        if found > 0 and work[0, found - 1, few.shape[0]] != 0.0:
            found -= 1  # the last one is independent of those before: if these are all, many atoms
            found *= found < few.shape[0]
        if found > 0:
            for slant in _SLANTS:
                atoms_of(found, moments[c], few, strides, slant, work, moved, changed)
                half_new = _residuals(
                    found, moved, changed, target, powers, b, norms, table,
                    values_new, slopes_new, error_new,
                )  # fmt: skip
                if half_new < half:
                    count, half = found, half_new
                    points[:count], pair[:count] = moved[:count], changed[:count]
                    values, values_new = values_new, values
                    slopes, slopes_new = slopes_new, slopes
                    error, error_new = error_new, error
                    done = _worst(error, scales) <= 10.0 * rounding
                if done:
                    break
        if half > _ATOMS:  # there are more atoms than polynomials could tell
            done = False
            count = _first_rule(moments[c], sizes, legendre, b, apart, old, new, both, pair, room)
            if count == 0:  # moments of rounding, such as subtraction leaves
                count, points[0], pair[0] = 1, 0.5, mass
            for i in range(count):
                pair[i] /= mass
            half = _residuals(
                count, points, pair, target, powers, b, norms, table, values, slopes, error
            )
        damping, fresh = _DAMPING, True
        for _ in range(_STEPS):
            if done or _worst(error, scales) <= rounding:
                break
            if fresh:
                _gram(count, points, pair, values, slopes, column, gram)
            solution[:] = error
            better = False
            if _solve(gram, damping, factor, solution):
                _move(count, points, pair, values, slopes, solution, moved, changed)
                half_new = _residuals(
                    count, moved, changed, target, powers, b, norms, table,
                    values_new, slopes_new, error_new,
                )  # fmt: skip
                better = half_new < half
            if better:
                points[:count], pair[:count] = moved[:count], changed[:count]
                values, values_new = values_new, values
                slopes, slopes_new = slopes_new, slopes
                error, error_new = error_new, error
                half, damping, fresh = half_new, max(0.1 * damping, 1e-15), True
            else:
                damping, fresh = 10.0 * damping, False
                if damping > 1e6:
                    break
        _centre(count, points, pair, wanted[c], firsts)
        for i in range(count):
            masses[c, i] = mass * pair[i]
            for k in range(inputs):
                places[c, i, k] = points[i, k]
