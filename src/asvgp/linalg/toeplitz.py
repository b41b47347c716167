"""Symmetric positive definite Toeplitz matrices: covariances at regular inputs.

Durbin's recursion gives the determinant and the first column x of the inverse in O(n^2), without
a matrix. By Gohberg and Semencul, ``x_0 A^-1 = L(x) L(x)' - L(z) L(z)'`` with L(v) the lower
triangular Toeplitz matrix of v and ``z = (0, x_{n-1}, ..., x_1)``: products and sums along the
diagonals are then convolutions.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numba import njit
from numpy.fft import irfft, rfft
from scipy.fft import next_fast_len

from asvgp.basis import Array

_REFINEMENTS = 3  # of a solution, at most
_ROUNDING = 1e-14  # of the largest term: a smaller error is not worth a refinement


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
    >>> matrix.multiply(matrix.solve(np.array([[2.0], [1.0], [5.0]]))).round(6).ravel().tolist()
    [2.0, 1.0, 5.0]
    """

    def __init__(self, column: Array):
        self.column = np.ascontiguousarray(column, dtype=float)
        n = self.size = len(self.column)
        self._length = _fast_length(n)
        self.first = np.empty(n)
        self.log_det = float(_durbin(self.column, self.first))
        if not np.isfinite(self.log_det):
            raise np.linalg.LinAlgError(
                f"A Toeplitz matrix of {n} rows is not positive definite to working precision."
            )

    @cached_property
    def _spectra(self) -> tuple[Array, Array, Array]:
        """Transforms of x and z, and of the circulant matrix that holds this one."""
        z = np.zeros_like(self.first)
        z[1:] = self.first[:0:-1]
        circulant = np.zeros(self._length)
        circulant[: self.size] = self.column
        circulant[self._length - self.size + 1 :] = self.column[:0:-1]
        x, z, whole = (rfft(v, self._length) for v in (self.first, z, circulant))
        return x, z, whole

    def multiply(self, vectors: Array) -> Array:
        """Return ``A`` times vectors, (n, columns)."""
        return self._convolved(self._spectra[2], vectors.T).T

    def solve(self, vectors: Array) -> Array:
        """Return ``A^-1`` times vectors, (n, columns), refined until it no longer gains."""
        rows = np.ascontiguousarray(vectors.T)
        out, error = self._apply_inverse(rows), np.inf
        for _ in range(_REFINEMENTS):
            left = rows - self._convolved(self._spectra[2], out)
            now = float(np.max(np.abs(left), initial=0.0))
            enough = _ROUNDING * self.column[0] * float(np.max(np.abs(out), initial=0.0))
            if now <= enough or not now < 0.5 * error:
                break
            out, error = out + self._apply_inverse(left), now
        return out.T

    def inverse_columns(self, numbers: Array) -> Array:
        """Return some columns of the inverse, (n, len(numbers)); numbers increase."""
        out = np.empty((len(numbers), self.size))
        _columns(self.first, numbers, out)
        return out.T

    def inverse_sums(self) -> Array:
        """Return the sums of the inverse's entries by distance from the diagonal, (n,).

        Those off the diagonal count both sides.
        """
        n, x = self.size, self.first
        steps = np.arange(n)
        both = np.stack([x, np.concatenate([[0.0], x[:0:-1]])])
        # of L(v) L(v)', along diagonal d: sum_m (n - d - m) v_m v_{m+d}
        plain, weighted = rfft(both, self._length), rfft((n - steps) * both, self._length)
        signs = np.array([[1.0], [-1.0]])
        first = irfft(np.sum(signs * weighted.conj() * plain, axis=0), self._length)[:n]
        second = irfft(np.sum(signs * np.abs(plain) ** 2, axis=0), self._length)[:n]
        total = first - steps * second
        total[1:] *= 2.0
        return total / x[0]

    def _apply_inverse(self, rows: Array) -> Array:
        x, z, _ = self._spectra
        first = self._convolved(x, self._convolved(x.conj(), rows))
        second = self._convolved(z, self._convolved(z.conj(), rows))
        return (first - second) / self.first[0]

    def _convolved(self, spectrum: Array, rows: Array) -> Array:
        return irfft(spectrum * rfft(rows, self._length), self._length)[:, : self.size]


def self_correlation(rows: Array) -> Array:
    """Return ``sum_m a_m a_{m+d}`` for every d from 0 to n - 1, summed over the rows a.

    Examples
    --------
    >>> self_correlation(np.array([[1.0, 2.0, 3.0]])).round(9).tolist()
    [14.0, 8.0, 3.0]
    """
    n = rows.shape[1]
    length = _fast_length(n)
    spectrum = rfft(rows, length)
    power = np.einsum("ij,ij->j", spectrum.real, spectrum.real)
    power += np.einsum("ij,ij->j", spectrum.imag, spectrum.imag)
    return irfft(power, length)[:n]


def _fast_length(n: int) -> int:
    """Return the length of transforms that hold convolutions of n values."""
    return int(next_fast_len(2 * n, real=True) or 2 * n)


@njit(cache=True, fastmath={"reassoc", "contract"})
def _durbin(column: Array, first: Array) -> float:
    """Write the first column of the inverse, and return log|A|; NaN if A is not definite."""
    n = column.shape[0]
    error = column[0]
    if not error > 0.0:
        return np.nan
    backward = column[::-1].copy()  # backward[n - 1 - k] is column[k]
    first[0] = 1.0
    log_det = np.log(error)
    for k in range(1, n):
        total = column[k]
        shifted = backward[n - 1 - k : n - 1]
        for j in range(1, k):
            total += first[j] * shifted[j]
        reflection = -total / error
        for j in range(1, (k + 1) // 2):
            low, high = first[j], first[k - j]
            first[j] = low + reflection * high
            first[k - j] = high + reflection * low
        if k % 2 == 0:
            first[k // 2] *= 1.0 + reflection
        first[k] = reflection
        error *= 1.0 - reflection * reflection
        if not error > 0.0:
            return np.nan
        log_det += np.log(error)
    for j in range(n):
        first[j] /= error
    return log_det


@njit(cache=True, fastmath={"reassoc", "contract"})
def _columns(first: Array, numbers: Array, out: Array) -> None:
    """Write columns of the inverse: each is the one before it, moved down, and two products."""
    n = first.shape[0]
    column, moved = first.copy(), np.empty(n)
    done = 0
    for j in range(n):
        if j > 0:
            near, far = first[j] / first[0], first[n - j] / first[0]
            moved[0] = first[j]
            for i in range(1, n):
                moved[i] = column[i - 1] + near * first[i] - far * first[n - i]
            column, moved = moved, column
        if done < numbers.shape[0] and numbers[done] == j:
            out[done] = column
            done += 1
        if done == numbers.shape[0]:
            break
