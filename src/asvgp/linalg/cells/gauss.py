"""Gauss rules of the measures on cells, from their moments.

The moments of a positive measure on [0, 1] determine its orthogonal polynomials, by Chebyshev's
algorithm, and these the nodes and masses of Gauss's rule, as eigenvalues and first components of
the eigenvectors of a tridiagonal matrix (Golub and Welsch).

The moments 0, ..., 2k leave the last diagonal entry of the matrix with k + 1 rows open, between
two ends: there Radau's rules have a node at 0 or at 1. Here it is in the middle. Nodes then are
inside [0, 1] as well, the rule is as exact, its worst error is half as large, and for uniform
measures it is Gauss's rule, exact for one power more.
"""

import numba
import numpy as np

from asvgp.basis import Array

# More nodes would not have digits. The squared norm of the monic polynomial of degree j is about
# 16**-j of the mass where points are spread over the cell, and rounding by 2e-17 a row takes more
# of it from degree to degree: with degree 6, 9e-8 remain, against some 1e-12 of rounding.
MOST_NODES = 7
# A squared norm of a monic orthogonal polynomial of degree j is a sum of moments, of which the
# absolute terms add up to 4**j at most: this, times the rounding of moments, is what it is when it
# is zero. Moments of n equal points are wrong by up to 2e-17 n of the mass: all terms are rounded
# in the same direction. Measured: n from 1e3 to 1e7, points anywhere in the cell.
ROUNDING, ROUNDING_PER_ROW = 3e-15, 4e-17
_STEPS = 60  # of the eigenvalue iteration, for each node: two or three are usual
_SMALL = 2.3e-16


def legendre_moments(number: int) -> tuple[Array, Array]:
    """Return monic Legendre polynomials on [0, 1] in powers of s, and their recursion.

    The recursion is ``p[l + 1] = (s - 1/2) p[l] - b[l] p[l - 1]``.

    Examples
    --------
    >>> legendre_moments(3)[0].round(3).tolist()
    [[1.0, 0.0, 0.0], [-0.5, 1.0, 0.0], [0.167, -1.0, 1.0]]
    """
    index = np.arange(number, dtype=float)
    b = index**2 / (4.0 * np.maximum(4.0 * index**2 - 1.0, 1.0))
    rows = np.zeros((number, number))
    rows[0, 0] = 1.0
    for i in range(1, number):
        rows[i, 1:] = rows[i - 1, :-1]
        rows[i] -= 0.5 * rows[i - 1]
        if i > 1:
            rows[i] -= b[i - 1] * rows[i - 2]
    return rows, b


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _recursion(moments, legendre, b, rounding, diagonal, squares, work):
    """Compute the recursion of the orthogonal polynomials; returns the number of nodes.

    ``diagonal`` gets alpha, ``squares`` beta. There are fewer nodes than entries where the measure
    has so few atoms, or cannot be told from one that has.
    """
    size = moments.shape[0]
    most = (size + 1) // 2
    before, now, after = work[0], work[1], work[2]
    for i in range(size):
        total = 0.0
        for j in range(i + 1):
            total += legendre[i, j] * moments[j]
        now[i], before[i] = total, 0.0
    squares[0] = moments[0]
    ratio, allowed = 0.0, rounding * moments[0]
    for j in range(most):
        if j > 0:
            allowed *= 4.0
            for i in range(j, size - j):
                after[i] = now[i + 1] - (diagonal[j - 1] - 0.5) * now[i] + b[i] * now[i - 1]
                if j > 1:
                    after[i] -= squares[j - 1] * before[i]
            if not after[j] > allowed:
                return j
            squares[j] = after[j] / now[j - 1]
            before, now, after = now, after, before
        if j + 1 < size - j:
            last, ratio = ratio, now[j + 1] / now[j]
            diagonal[j] = 0.5 + ratio - last
        else:
            diagonal[j] = _middle(j, diagonal, squares)
    return most


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _middle(j, diagonal, squares):
    """Return the middle of the entries for which all nodes are inside [0, 1]."""
    total = 0.0
    for end in (0.0, 1.0):
        before, now = 0.0, 1.0
        for i in range(j):
            before, now = now, (end - diagonal[i]) * now - squares[i] * before * (i > 0)
        radau = end - (squares[j] * before / now if j > 0 else 0.0)
        # Not so by rounding alone
        total += min(max(radau, 0.0), 1.0) if np.isfinite(radau) else end
    return 0.5 * total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _eigenvalues(n, d, e, z):
    """Diagonalise a symmetric tridiagonal matrix by implicit QL; False where it fails.

    ``d`` (n,) is its diagonal and becomes the eigenvalues; ``e`` (n,) the entries beside it, and
    is destroyed; ``z`` becomes the first components of the eigenvectors.
    """
    for i in range(n):
        z[i] = 0.0
    z[0], e[n - 1] = 1.0, 0.0
    for row in range(n):
        for step in range(_STEPS + 1):
            m = row
            while m < n - 1 and abs(e[m]) > _SMALL * (abs(d[m]) + abs(d[m + 1])):
                m += 1
            if m == row:
                break
            if step == _STEPS:
                return False
            g = (d[row + 1] - d[row]) / (2.0 * e[row])
            r = np.sqrt(g * g + 1.0)
            g = d[m] - d[row] + e[row] / (g + (r if g >= 0.0 else -r))
            sine = cosine = 1.0
            p = 0.0
            early = False
            for i in range(m - 1, row - 1, -1):
                f, h = sine * e[i], cosine * e[i]
                r = np.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= p
                    e[m] = 0.0
                    early = True
                    break
                sine, cosine = f / r, g / r
                g = d[i + 1] - p
                r = (d[i] - g) * sine + 2.0 * cosine * h
                p = sine * r
                d[i + 1] = g + p
                g = cosine * r - h
                z[i + 1], z[i] = sine * z[i] + cosine * z[i + 1], cosine * z[i] - sine * z[i + 1]
            if not early:
                d[row] -= p
                e[row] = g
                e[m] = 0.0
    for i in range(1, n):  # in order: insertion is best for so few
        value, component, j = d[i], z[i], i
        while j > 0 and d[j - 1] > value:
            d[j], z[j] = d[j - 1], z[j - 1]
            j -= 1
        d[j], z[j] = value, component
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy")
def rule_of(moments, legendre, b, rounding, d, z, room):
    """Write the nodes ``d`` and the roots ``z`` of the shares of the mass; returns their number.

    ``rounding`` is what moments may be wrong by, as a share of the mass. ``room`` has 6 rows.
    """
    diagonal, squares, e = room[0], room[1], room[2]
    n = _recursion(moments, legendre, b, rounding, diagonal, squares, room[3:])
    while True:
        for i in range(n):
            d[i], e[i] = diagonal[i], np.sqrt(squares[i + 1]) if i + 1 < n else 0.0
        good = _eigenvalues(n, d, e, z)
        # Only rounding may put a node outside [0, 1]: its distance times its share of the mass is
        # then within the error of the squared norm of the next orthogonal polynomial (ROUNDING).
        for i in range(n):
            outside = max(-d[i], d[i] - 1.0)
            good = good and not outside * z[i] * z[i] > rounding * 4.0**n
            d[i] = min(max(d[i], 0.0), 1.0)
        if good or n == 1:
            return n
        n -= 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def gauss_rules(moments, legendre, b, rows, begin, end, nodes, masses):
    """Write the nodes and masses of cells from ``begin`` to ``end``; masses beyond are zero.

    ``moments`` is (cells, size), of which as many are used as ``nodes`` (cells, n) can match;
    ``rows`` (cells,) about how many terms were added up, by which they may be wrong. Cells of no
    mass get no nodes.
    """
    most, size = nodes.shape[1], legendre.shape[0]
    z, room = np.empty(most), np.empty((6, size + 1))
    for c in range(begin, end):
        for i in range(most):
            masses[c, i] = 0.0
        if not moments[c, 0] > 0.0:
            continue
        rounding = ROUNDING + ROUNDING_PER_ROW * rows[c]
        count = rule_of(moments[c, :size], legendre, b, rounding, nodes[c], z, room)
        for i in range(count):
            masses[c, i] = moments[c, 0] * z[i] * z[i]
