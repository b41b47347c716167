"""Symmetric positive definite Toeplitz matrices: covariances at regular inputs.

Durbin's recursion gives the determinant and the first column x of the inverse in O(n^2), without
a matrix. By Gohberg and Semencul, ``x_0 A^-1 = L(x) L(x)' - L(z) L(z)'`` with L(v) the lower
triangular Toeplitz matrix of v and ``z = (0, x_{n-1}, ..., x_1)``: products and sums along the
diagonals are then convolutions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from scipy import fft

from asvgp.basis import Array
from asvgp.runtime.lazy import cached_property

rfft: Any = fft.rfft  # of many rows at once it is faster than numpy's
irfft: Any = fft.irfft


class Toeplitz:
    """A symmetric positive definite Toeplitz matrix.

    Parameters
    ----------
    column : array of shape (n,)
        The first column.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not positive definite to working precision.

    Examples
    --------
    >>> matrix = Toeplitz(np.array([2.0, 1.0, 0.5]))
    >>> bool(np.isclose(matrix.log_det, np.log(4.5)))
    True
    >>> matrix.multiply(matrix.solve(np.array([[2.0, 1.0, 5.0]]))).round(6).tolist()
    [[2.0, 1.0, 5.0]]
    """

    def __init__(self, column: Array):
        self.column = np.ascontiguousarray(column, dtype=float)
        n = self.size = len(self.column)
        self._length, self._turn = _transform(n)
        self.first = np.empty(n)
        self.log_det = float(_durbin(self.column, self.first))
        if not np.isfinite(self.log_det):
            raise np.linalg.LinAlgError(
                f"A Toeplitz matrix of {n} rows is not positive definite to working precision."
            )

    @cached_property
    def _spectra(self) -> tuple[Array, Array]:
        """Transforms of x and z, (2, 1, frequencies), and of the circulant that holds A."""
        rows = np.zeros((2, self._length))
        rows[0, : self.size], rows[1, : self.size] = self.first, self.column
        both = rfft(rows)[:, None]
        circulant = 2.0 * both[1, 0].real - self.column[0]
        np.multiply(self._turn, (both[0] - self.first[0]).conj(), out=both[1])
        return both, circulant

    def multiply(self, rows: Array) -> Array:
        """Return ``A`` times every row of (rows, n)."""
        spectra = self._spectra[1] * rfft(rows, self._length)
        return irfft(spectra, self._length)[:, : self.size]

    def solve(self, rows: Array) -> Array:
        """Return ``A^-1`` times every row of (rows, n)."""
        both = self._spectra[0]
        half = irfft(both.conj() * rfft(rows, self._length), self._length)
        half[..., self.size :] = 0.0
        first, second = both * rfft(half)
        return irfft(first - second, self._length)[:, : self.size] / self.first[0]

    def inverse_rows(self, numbers: Array) -> Array:
        """Return some rows of the inverse, (len(numbers), n); numbers increase."""
        out = np.empty((len(numbers), self.size))
        _rows(self.first, numbers, out)
        return out

    def inverse_sums(self, *less: Array) -> Array:
        """Return the sums of the inverse's entries by distance from the diagonal, (n,).

        Those off the diagonal count both sides. Outer products of the rows of ``less``, each of
        shape (rows, n), with themselves are taken off.
        """
        n, x = self.size, self.first
        rows = np.zeros((1 + sum(map(len, less)), self._length))  # of the transform's length
        # along diagonal d, x_0 times the sum is that of (n - d - 2 m) x_m x_{m+d} over m
        np.multiply(0.5 * n - np.arange(n), x, out=rows[0, :n])
        first = 1
        for vectors in less:
            rows[first : first + len(vectors), :n] = vectors
            first += len(vectors)
        spectra = rfft(rows)
        power = (2.0 / x[0]) * (spectra[0].conj() * self._spectra[0][0, 0]).real
        return _both_sides(power - _power(spectra[1:]), self._length, n)


def outer_sums(rows: Array) -> Array:
    """Return the sums by distance from the diagonal of every row's outer product with itself.

    Those off the diagonal count both sides.

    Examples
    --------
    >>> outer_sums(np.array([[1.0, 2.0, 3.0]])).round(9).tolist()
    [14.0, 16.0, 6.0]
    """
    n = rows.shape[1]
    length, _ = _transform(n)
    return _both_sides(_power(rfft(rows, length)), length, n)


def _both_sides(power: Array, length: int, n: int) -> Array:
    """Return sums along diagonals of either side, from the transform of those of one side."""
    sums = irfft(power, length)[:n]
    sums[1:] *= 2.0
    return sums


def _power(spectra: Array) -> Array:
    """Return the sum of the squared moduli over the rows."""
    numbers = spectra.view(float)
    return np.einsum("ij,ij->j", numbers, numbers).reshape(-1, 2).sum(axis=1)


@lru_cache(maxsize=64)
def _transform(n: int) -> tuple[int, Array]:
    """Return the length of transforms that hold convolutions of n values, and a shift by n."""
    length = int(fft.next_fast_len(2 * n, real=True) or 2 * n)
    return length, np.exp(-2j * np.pi * n / length * np.arange(length // 2 + 1))


# Loops over whole arrays are functions of their own: only there are arrays known to be apart, and
# the loops become vector instructions.


@njit(cache=True, fastmath={"reassoc", "contract"})
def _products(a: Array, b: Array, c: Array, d: Array) -> float:
    """Return the sum of the inner products of a and b and of c and d."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i] + c[i] * d[i]
    return total


@njit(cache=True, fastmath={"contract"})
def _mix(a: Array, b: Array, share: float) -> None:
    """Add to each of two vectors a share of the other."""
    for i in range(a.shape[0]):
        low, high = a[i], b[i]
        a[i] = low + share * high
        b[i] = high + share * low


@njit(cache=True, fastmath={"contract"})
def _combine(out: Array, a: Array, b: Array, c: Array, of_b: float, of_c: float) -> None:
    """Write ``a + of_b b + of_c c``."""
    for i in range(out.shape[0]):
        out[i] = a[i] + of_b * b[i] + of_c * c[i]


@njit(cache=True)
def _durbin(column: Array, first: Array) -> float:
    """Write the first column of the inverse, and return log|A|; NaN if A is not definite.

    Step k adds to the solution of k equations a multiple of itself backwards: the halves of both
    that are needed, ``low`` forwards and ``high`` backwards, are mixed.
    """
    n = column.shape[0]
    error = column[0]
    if not error > 0.0:
        return np.nan
    turned = column[::-1].copy()
    low, high = np.empty(n), np.empty(n)  # high[n - 1 - k + j] is number k - j after step k
    low[0] = high[n - 1] = 1.0
    log_det = np.log(error)
    for k in range(1, n):
        pairs, at = (k - 1) // 2, n - k
        near, far = low[1 : pairs + 1], high[at : at + pairs]
        total = column[k]
        total += _products(near, turned[at : at + pairs], far, column[1 : pairs + 1])
        if k % 2 == 0:
            total += low[k // 2] * column[k // 2]
        reflection = -total / error
        _mix(near, far, reflection)
        high[at - 1] = reflection
        if k % 2 == 0:
            low[k // 2] *= 1.0 + reflection
            high[at - 1 + k // 2] = low[k // 2]
        else:
            low[pairs + 1] = high[at - 1 + pairs]
        error *= 1.0 - reflection * reflection
        if not error > 0.0:
            return np.nan
        log_det += np.log(error)
    for j in range((n + 1) // 2):
        first[j], first[n - 1 - j] = low[j] / error, high[j] / error
    return log_det


@njit(cache=True)
def _rows(first: Array, numbers: Array, out: Array) -> None:
    """Write rows of the inverse: each is the one before it, moved, and two products.

    From the last one on, they are those from the first one on, backwards.
    """
    n = first.shape[0]
    ahead, turned = first[1:].copy(), first[::-1].copy()
    rows = np.empty((2, n))
    rows[0] = first
    low, high = 0, len(numbers) - 1
    for j in range(n):
        now, before = rows[j % 2], rows[1 - j % 2]
        if j > 0:
            near, far = first[j] / first[0], first[n - j] / first[0]
            now[0] = first[j]
            _combine(now[1:], before, ahead, turned, near, -far)
        if low <= high and numbers[low] == j:
            out[low] = now
            low += 1
        if low <= high and numbers[high] == n - 1 - j:
            out[high] = now[::-1]
            high -= 1
        if low > high:
            break
