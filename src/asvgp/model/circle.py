"""Cyclic splines: the functions of a phase, and K of a periodic process on them.

On a circle of ``count`` cells, function j is alive on the cells j - degree, ..., j modulo
``count``. All cells are alike, so K is circulant, and ``phi' K^-1 phi`` is the same polynomial on
every cell.
"""

from __future__ import annotations

from math import comb, exp

import numpy as np

from asvgp.basis import Array, Grid, bspline_coefficients, operator_gram, operator_nodes
from asvgp.kernels import Periodic
from asvgp.model.moments import CellMoments
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.tables import cached_tables


class CircleAxis:
    """Functions and K of a periodic process of variance one.

    A period is ``count`` cells of ``width`` finest cells each; it begins at the lower end of the
    grid. Arrays that begin with ``d_`` have a leading axis for the logarithm of the lengthscale.
    """

    def __init__(self, process: Periodic, grid: Grid, degree: int, count: int, width: int):
        self.process, self.fine, self.degree = process, grid, degree
        self.count, self.width = count, width
        self._form = process.circle(width * grid.spacing)

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on each cell of the circle, (count, degree + 1)."""
        return (np.arange(self.count)[:, None] + np.arange(self.degree + 1)) % self.count

    @property
    def parts(self) -> Array:
        """The functions in powers of s of each finest cell, (width, degree + 1, degree + 1)."""
        return parts_of_cells(self.degree, self.width)

    @cached_property
    def element(self) -> Array:
        """K of the functions of a cell, but for what centring adds."""
        return self._element(self._form.operator, self._form.operator)

    @property
    def growth(self) -> Array:
        """The power of the lengthscale that K grows with, but for lower derivatives."""
        return -self._form.d_log_density[:1]

    @property
    def element_root(self) -> Array:
        """Rows whose Gram matrix is ``element``: the operator at the Gauss nodes of a cell."""
        nodes = operator_nodes(len(self._form.operator) - 1, self.degree)
        root = np.tensordot(nodes, self._form.operator, axes=(1, 0))
        return exp(-0.5 * self._form.log_density) * root @ bspline_coefficients(self.degree).T

    def _element(self, left: Array, right: Array) -> Array:
        gram = operator_gram(len(left) - 1, self.degree)
        taylor = np.einsum("i,m,imjl->jl", left, right, gram) * exp(-self._form.log_density)
        basis = bspline_coefficients(self.degree)
        return basis @ taylor @ basis.T

    @cached_property
    def d_element(self) -> Array:
        """Derivatives of ``element``."""
        form = self._form
        half = self._element(form.d_operator[0], form.operator)
        return (half + half.T - form.d_log_density[0] * self.element)[None]

    def _circulant(self, element: Array) -> Array:
        """Return the first row of the matrix that adds up an element over all cells."""
        row = np.zeros(self.count)
        for i in range(self.degree + 1):
            for j in range(self.degree + 1):
                row[(j - i) % self.count] += element[i, j]
        return row

    @cached_property
    def _spectra(self) -> tuple[Array, Array]:
        """Eigenvalues of K, of the frequencies of the discrete transform, and derivatives.

        With ``L = (d + a)**m`` they are sums over r of ``a**(2 r)`` times what the splines'
        ``m - r``-th derivatives have. No term is negative, so that the eigenvalues of smooth
        functions keep all digits, however much smaller than others they are.
        """
        form, m = self._form, len(self._form.operator) - 1
        rate = form.operator[-2] / m
        angle = 2.0 * np.pi * np.arange(self.count) / self.count
        steps = 4.0 * np.sin(0.5 * angle) ** 2  # of the squared first differences
        values, slopes = np.zeros(self.count), np.zeros(self.count)
        for r in range(m + 1):
            term = comb(m, r) * rate ** (2 * r) * steps ** (m - r)
            term *= _sampled(2 * (self.degree - m + r) + 1, angle)
            values, slopes = values + term, slopes - 2.0 * r * term
        density = exp(-form.log_density)
        slopes = (slopes - form.d_log_density[0] * values) * density
        return values * density, slopes

    @cached_property
    def _centring(self) -> tuple[float, float]:
        """What is added to the eigenvalue of the constant, and its derivative.

        The splines add up to one, so that the constant has the variance one over its eigenvalue and
        the number of splines.
        """
        share = self._form.mean_share
        if share is None:
            return 0.0, 0.0
        own, slope = (float(values[0]) for values in self._spectra)
        return 1.0 / (share * self.count) - own, -slope

    @cached_property
    def _spectrum(self) -> Array:
        return self._spectra[0] + self._centring[0] * (np.arange(self.count) == 0)

    @cached_property
    def _d_spectrum(self) -> Array:
        return self._spectra[1] + self._centring[1] * (np.arange(self.count) == 0)

    @cached_property
    def matrix(self) -> Array:
        """K, (count, count)."""
        return _matrix(self._circulant(self.element) + self._centring[0] / self.count)

    @cached_property
    def d_matrix(self) -> Array:
        """Derivatives of K."""
        return _matrix(self._circulant(self.d_element[0]) + self._centring[1] / self.count)[None]

    @property
    def root(self) -> Array:
        """The symmetric square root of K."""
        return _matrix(np.fft.ifft(np.sqrt(self._spectrum)).real)

    def energies(self, left: Array, right: Array) -> tuple[float, Array]:
        """Return ``tr(left' K right)`` of values (count, n), and its derivatives."""
        first, second = (np.fft.fft(each, axis=0) for each in (left, right))
        powers = np.sum(first.conj() * second, axis=1).real / self.count
        return float(self._spectrum @ powers), np.array([self._d_spectrum @ powers])

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        return float(np.log(self._spectrum).sum())

    @property
    def d_log_det(self) -> Array:
        """Derivatives of ``log|K|``."""
        return np.array([np.sum(self._d_spectrum / self._spectrum)])

    def _square(self, spectrum: Array) -> Array:
        """Return ``phi' Z phi`` on a cell in powers of s, for Z circulant with eigenvalues."""
        row = np.fft.ifft(spectrum).real
        size = self.degree + 1
        apart = (np.arange(size)[:, None] - np.arange(size)) % self.count
        basis = bspline_coefficients(self.degree)
        taylor = basis.T @ row[apart] @ basis
        out = np.zeros(2 * self.degree + 1)
        for i in range(size):
            out[i : i + size] += taylor[i]
        return out

    @cached_property
    def inverse(self) -> Array:
        """K^-1, (count, count)."""
        return _matrix(np.fft.ifft(1.0 / self._spectrum).real)

    @cached_property
    def d_inverse(self) -> Array:
        """Derivatives of K^-1."""
        return _matrix(np.fft.ifft(-self._d_spectrum / self._spectrum**2).real)[None]

    @cached_property
    def square(self) -> Array:
        """``phi' K^-1 phi`` on every cell of the circle, in powers of its s."""
        return self._square(1.0 / self._spectrum)

    @cached_property
    def variance_polynomials(self) -> Array:
        """``phi' K^-1 phi`` on the finest cells of a cell, (width, 2 degree + 1)."""
        return self.square @ shifts(2 * self.degree, self.width)

    def trace(self, moments: CellMoments) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` of moments on the finest cells, and its derivatives."""
        size = 2 * self.degree + 1
        folded = moments.folded(self.width, size)
        own = np.einsum("wi,wji->j", folded, shifts(size - 1, self.width))
        slope = self._square(-self._d_spectrum / self._spectrum**2)
        return float(own @ self.square), np.array([own @ slope])


@cached_tables
def shifts(power: int, width: int, dtype: type = np.float64) -> Array:
    """Return powers of ``(s + offset) / width`` in powers of s, (width, powers, powers)."""
    offset = np.arange(width, dtype=dtype) / width
    out = np.zeros((width, power + 1, power + 1), dtype=dtype)
    for j in range(power + 1):
        for i in range(j + 1):
            out[:, j, i] = comb(j, i) * offset ** (j - i) / dtype(width) ** i
    return out


@cached_tables
def parts_of_cells(degree: int, width: int) -> Array:
    """Return B-splines in powers of s of the parts of a cell, (width, degree + 1, degree + 1)."""
    return bspline_coefficients(degree) @ shifts(degree, width)


def _sampled(degree: int, angle: Array) -> Array:
    """Return the transform of a B-spline of odd degree at the knots, which is positive."""
    knots = bspline_coefficients(degree)[:, 0]  # from the last on that is alive at a knot
    middle = degree // 2
    return knots[middle] + 2.0 * sum(
        knots[middle + i] * np.cos(i * angle) for i in range(1, middle + 1)
    )


def _matrix(row: Array) -> Array:
    count = len(row)
    return row[(np.arange(count) - np.arange(count)[:, None]) % count]
