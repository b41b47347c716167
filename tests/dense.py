"""Dense and high-precision twins of what the library computes in structured form.

Nothing here shares code with the package beyond the kernels' own definitions, and the
mpmath part not even that: operators and stationary covariances are derived anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
from scipy.interpolate import BSpline

from asvgp.basis import bspline_coefficients
from asvgp.kernels import SHO, Kernel, Matern12, Matern32, Matern52, Matern72

KERNELS = [
    Matern12(0.3, 1.3),
    Matern32(0.3, 1.3),
    Matern52(0.3, 1.3),
    Matern72(0.3, 1.3),
    SHO(0.5, 3.0, 1.3),
    SHO(0.7, 0.5, 1.3),  # critically damped
    SHO(0.7, 0.3, 1.3),  # overdamped
]


def kernel_id(kernel: Kernel) -> str:
    """Short name for test ids."""
    quality = f"-q{kernel.quality:g}" if isinstance(kernel, SHO) else ""
    return type(kernel).__name__ + quality


@dataclass
class ExactGP:
    """A textbook Gaussian process in dense float64."""

    kernel: Kernel
    noise: np.ndarray | float
    x: np.ndarray
    y: np.ndarray

    def __post_init__(self):
        self.covariance = self.kernel(self.x) + np.diag(np.broadcast_to(self.noise, self.x.shape))
        self.root = np.linalg.cholesky(self.covariance)

    def evidence(self) -> float:
        """Log marginal likelihood."""
        half = np.linalg.solve(self.root, self.y)
        n = len(self.x)
        return float(
            -0.5 * half @ half - np.log(np.diag(self.root)).sum() - 0.5 * n * np.log(2 * np.pi)
        )

    def predict(self, new) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of f."""
        cross = self.kernel(self.x, new)
        half = np.linalg.solve(self.root, cross)
        mean = half.T @ np.linalg.solve(self.root, self.y)
        return mean, self.kernel(new) - half.T @ half


def sample(kernel: Kernel, noise, n: int, span: float, seed: int = 0):
    """Data from the model, unsorted, touching both ends of [0, span]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, span, n)
    x[0], x[-1] = 0.0, span
    covariance = kernel(x) + np.diag(np.broadcast_to(noise, n)) + 1e-12 * np.eye(n)
    return x, np.linalg.cholesky(covariance) @ rng.standard_normal(n)


def design(x, grid, degree: int) -> np.ndarray:
    """Phi, by scipy's B-splines."""
    knots = grid.lower + grid.spacing * np.arange(-degree, grid.cells + degree + 1)
    count = grid.cells + degree
    basis = [BSpline.basis_element(knots[m : m + degree + 2], False) for m in range(count)]
    if grid.cyclic:
        x = grid.lower + np.mod(np.asarray(x, float) - grid.lower, grid.upper - grid.lower)
    columns = [np.nan_to_num(element(np.asarray(x, float))) for element in basis]
    out = np.stack(columns, axis=1)
    if grid.cyclic:  # those past the end are those before the beginning
        out[:, :degree] += out[:, grid.cells :]
        out = out[:, : grid.cells]
    return out


def scatter_cells(blocks, degree: int) -> np.ndarray:
    """Sum per-cell blocks in Taylor coordinates into the dense B-spline matrix."""
    to_spline = bspline_coefficients(degree)
    n = len(blocks)
    out = np.zeros((n + degree, n + degree))
    for c, block in enumerate(blocks):
        out[c : c + degree + 1, c : c + degree + 1] += to_spline @ block @ to_spline.T
    return out


def gram(prior) -> np.ndarray:
    """Dense K of a `Prior` in B-spline coefficients."""
    n, k = prior.grid.cells, prior.degree
    blocks = np.repeat(prior.element[None], n, axis=0)
    blocks[0, :k, :k] += prior.boundary
    return scatter_cells(blocks, k)


def spline_band(cov: np.ndarray, degree: int) -> list[np.ndarray]:
    """Cell covariances as blocks of the inverse in B-spline coefficients."""
    from_taylor = np.linalg.inv(bspline_coefficients(degree).T)
    return [from_taylor @ block @ from_taylor.T for block in cov]


# ---------------------------------------------------------------- fifty digits


def mp_splines(degree: int) -> list[list]:
    """Exact local polynomials of the B-splines alive on a cell."""
    pieces = [[Fraction(1)]]
    for d in range(1, degree + 1):
        longer = []
        for r in range(d + 1):
            piece = [Fraction(0)] * (d + 1)
            if r < d:
                for i, value in enumerate(pieces[r]):
                    piece[i] += r * value
                    piece[i + 1] += value
            if r > 0:
                for i, value in enumerate(pieces[r - 1]):
                    piece[i] += (d + 1 - r) * value
                    piece[i + 1] -= value
            longer.append([value / d for value in piece])
        pieces = longer
    return [
        [mp.mpf(v.numerator) / v.denominator for v in pieces[degree - j]] for j in range(degree + 1)
    ]


def mp_process(kernel: Kernel, values, spacing):
    """Operator, noise density and inverse stationary covariance, from the Lyapunov equation."""
    p = kernel.order
    if isinstance(kernel, SHO):
        period, quality, variance = values
        omega = 2 * mp.pi * spacing / period
        operator = [omega**2, omega / quality, mp.mpf(1)]
        density = 2 * omega**3 / quality * variance
    else:
        lengthscale, variance = values
        rate = mp.sqrt(2 * p + 1) / lengthscale * spacing
        operator = [mp.binomial(p + 1, i) * rate ** (p + 1 - i) for i in range(p + 2)]
        density = variance * (2 * rate) ** (2 * p + 1) * mp.factorial(p) ** 2 / mp.factorial(2 * p)
    size = p + 1
    system, right = mp.zeros(size * size), mp.zeros(size * size, 1)
    companion = mp.zeros(size)
    for i in range(size - 1):
        companion[i, i + 1] = 1
    for i in range(size):
        companion[size - 1, i] = -operator[i]
    for i in range(size):
        for j in range(size):
            for m in range(size):
                system[i * size + j, m * size + j] += companion[i, m]
                system[i * size + j, i * size + m] += companion[j, m]
    right[size * size - 1] = -density
    solution = mp.lu_solve(system, right)
    covariance = mp.matrix(size, size)
    for i in range(size):
        for j in range(size):
            covariance[i, j] = solution[i * size + j]
    return operator, density, covariance**-1


class MpModel:
    """K, G, P and the bound in mpmath, dense, from B-splines."""

    def __init__(self, kernel: Kernel, grid, degree: int, x, y, noise, weights=None, values=None):
        self.values = [mp.mpf(v) for v in (kernel.values if values is None else values)]
        self.kernel, self.degree, self.cells = kernel, degree, grid.cells
        self.splines = mp_splines(degree)
        self.lower = mp.mpf(grid.lower)
        self.spacing = (mp.mpf(grid.upper) - self.lower) / grid.cells
        self.noise = mp.mpf(noise)
        self.x = [mp.mpf(float(v)) for v in x]
        self.y = [mp.mpf(float(v)) for v in y]
        weights = np.ones(len(self.x)) if weights is None else weights
        self.w = [mp.mpf(float(v)) for v in weights]
        self.size = grid.cells + degree
        self.K = self._gram()
        self.G, self.b = self._data()
        self.P = self.K + self.G / self.noise
        self.variance = self.values[-1]

    def _gram(self):
        operator, density, inverse = mp_process(self.kernel, self.values, self.spacing)

        def derivative(poly, times):
            for _ in range(times):
                poly = [i * poly[i] for i in range(1, len(poly))] or [mp.mpf(0)]
            return poly

        applied = []
        for spline in self.splines:
            total = [mp.mpf(0)] * (self.degree + 1)
            for i, a in enumerate(operator):
                for t, value in enumerate(derivative(spline, i)):
                    total[t] += a * value
            applied.append(total)
        k = self.degree
        K = mp.zeros(self.size)
        for i in range(k + 1):
            for j in range(k + 1):
                inner = sum(
                    a * b / (r + s + 1)
                    for r, a in enumerate(applied[i])
                    for s, b in enumerate(applied[j])
                )
                for c in range(self.cells):
                    K[c + i, c + j] += inner / density
                ends = [
                    [derivative(self.splines[m], d)[0] for d in range(self.kernel.order + 1)]
                    for m in (i, j)
                ]
                K[i, j] += sum(
                    ends[0][r] * inverse[r, s] * ends[1][s]
                    for r in range(self.kernel.order + 1)
                    for s in range(self.kernel.order + 1)
                )
        return K

    def phi(self, x):
        """Cell and values of the basis functions alive there."""
        t = (mp.mpf(float(x)) - self.lower) / self.spacing
        c = min(int(mp.floor(t)), self.cells - 1)
        s = t - c
        return c, [sum(v * s**i for i, v in enumerate(poly)) for poly in self.splines]

    def _data(self):
        G, b = mp.zeros(self.size), mp.zeros(self.size, 1)
        for x, y, w in zip(self.x, self.y, self.w, strict=True):
            c, values = self.phi(x)
            for i, vi in enumerate(values):
                b[c + i] += w * y * vi
                for j, vj in enumerate(values):
                    G[c + i, c + j] += w * vi * vj
        return G, b

    @staticmethod
    def log_det(matrix):
        """Log-determinant by Cholesky."""
        root = mp.cholesky(matrix)
        return 2 * sum(mp.log(root[i, i]) for i in range(matrix.rows))

    def fit(self):
        """The bound without its trace term."""
        n = len(self.x)
        alpha = mp.cholesky_solve(self.P, self.b) / self.noise
        quadratic = sum(w * y * y for w, y in zip(self.w, self.y, strict=True))
        explained = (self.b.T * alpha)[0]
        constant = sum(mp.log(w) for w in self.w) - n * mp.log(2 * mp.pi * self.noise)
        gain = self.log_det(self.K) - self.log_det(self.P)
        return (constant + gain - (quadratic - explained) / self.noise) / 2

    def missed(self):
        """The trace term's ``t``."""
        inverse = self.K**-1
        trace = sum(
            inverse[i, j] * self.G[i, j] for i in range(self.size) for j in range(self.size)
        )
        return self.variance * sum(self.w) - trace

    def elbo(self):
        """The collapsed bound."""
        return self.fit() - self.missed() / (2 * self.noise)

    def predict(self, x):
        """Mean and variance inside the domain."""
        alpha = mp.lu_solve(self.P, self.b) / self.noise
        before, after = self.K**-1, self.P**-1
        means, variances = [], []
        for point in x:
            c, values = self.phi(point)
            means.append(sum(v * alpha[c + i] for i, v in enumerate(values)))
            variances.append(
                self.variance
                + sum(
                    vi * vj * (after[c + i, c + j] - before[c + i, c + j])
                    for i, vi in enumerate(values)
                    for j, vj in enumerate(values)
                )
            )
        return np.array(means, float), np.array(variances, float)
