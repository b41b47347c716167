"""Dense Gaussian processes and quadratures that the baselines are held against.

Written out anew: nothing here is shared with ``experiments/``.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import roots_gegenbauer


@dataclass
class Dense:
    """A textbook Gaussian process with the covariance function given."""

    covariance: Any
    noise: float
    X: np.ndarray
    y: np.ndarray

    def evidence(self):
        K = self.covariance(self.X, self.X) + self.noise * np.eye(len(self.y))
        fit = self.y @ np.linalg.solve(K, self.y)
        return -0.5 * (fit + np.linalg.slogdet(K)[1] + len(self.y) * np.log(2.0 * np.pi))

    def predict(self, new):
        K = self.covariance(self.X, self.X) + self.noise * np.eye(len(self.y))
        cross = self.covariance(self.X, new)
        solved = np.linalg.solve(K, cross)
        prior = np.diag(self.covariance(new, new))
        return solved.T @ self.y, prior - np.einsum("ij,ij->j", cross, solved)


def matern(nu, lengthscale, lag):
    """The Matérn correlation, written out."""
    z = np.sqrt(2.0 * nu) * np.abs(lag) / lengthscale
    return {0.5: 1.0, 1.5: 1.0 + z, 2.5: 1.0 + z + z**2 / 3.0}[nu] * np.exp(-z)


def additive(nu, lengthscale, variance):
    return lambda X, Z: sum(
        v * matern(nu, scale, X[:, None, d] - Z[None, :, d])
        for d, (scale, v) in enumerate(zip(lengthscale, variance, strict=True))
    )


def product(nu, lengthscale, variance):
    return lambda X, Z: (
        variance
        * np.prod(
            [
                matern(nu, scale, X[:, None, d] - Z[None, :, d])
                for d, scale in enumerate(lengthscale)
            ],
            axis=0,
        )
    )


def arc_cosine(weights, variance):
    def covariance(X, Z):
        a = np.column_stack([X * weights, np.ones(len(X))])
        b = np.column_stack([Z * weights, np.ones(len(Z))])
        lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)[None, :]
        angle = np.arccos(np.clip(a @ b.T / lengths, -1.0, 1.0))
        return variance * lengths * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi

    return covariance


def data(n, D, seed=0):
    """Rows in [0, 1]^D and a smooth function of them with noise, both reproducible."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    y = np.sin(7.0 * X[:, 0]) + sum(np.cos(4.0 * X[:, d] + d) for d in range(1, D))
    return X, y + 0.2 * rng.standard_normal(n)


def feature_derivatives(basis, x, order):
    """Derivatives of the features of order 0 ... order: (order + 1, points, features)."""
    w = basis.frequencies.numpy()
    turned = [np.outer(x - basis.lower, w) + i * np.pi / 2.0 for i in range(order + 1)]
    return np.stack(
        [
            np.hstack([np.full((len(x), 1), float(i == 0)), w**i * np.cos(t), w**i * np.sin(t)])
            for i, t in enumerate(turned)
        ]
    )


def kernel_derivatives(kernel, lag, order, side):
    """Derivatives of the kernel by its lag, which has the sign ``side``: (order + 1, points)."""
    z = side * kernel.rate * lag
    poly = np.polynomial.Polynomial(
        {0: [1.0], 1: [1.0, 1.0], 2: [1.0, 1.0, 1.0 / 3.0]}[kernel.order]
    )
    out = []
    for i in range(order + 1):
        out.append(kernel.variance * (side * kernel.rate) ** i * poly(z) * np.exp(-z))
        poly = poly.deriv() - poly
    return np.stack(out)


def inner_product(kernel, f, g, weights):
    """``1/q int (Lf)(Lg) + F(a)' Pinf^-1 G(a)``; jets at nodes, then at the left end."""
    form = kernel.markov()
    (f, f_end), (g, g_end) = f, g
    Lf, Lg = np.tensordot(form.operator, f, 1), np.tensordot(form.operator, g, 1)
    inside = (Lf * weights[:, None]).T @ Lg / np.exp(form.log_density)
    return inside + f_end.T @ np.linalg.solve(form.covariance, g_end)


def nodes_between(*ends):
    """Gauss-Legendre nodes and weights on consecutive intervals, one after the other."""
    t, w = np.polynomial.legendre.leggauss(50)
    places = [a + (b - a) * (t + 1.0) / 2.0 for a, b in pairwise(ends)]
    weights = [(b - a) * w / 2.0 for a, b in pairwise(ends)]
    return np.concatenate(places), np.concatenate(weights)


def sphere_quadrature(d, degree):
    """Nodes and weights, of sum 1, exact for polynomials of that degree on S^(d-1).

    Angle by angle: Gauss-Gegenbauer in each cosine, equal steps around the last circle.
    """
    count = degree // 2 + 1
    turn = 2.0 * np.pi * np.arange(degree + 1) / (degree + 1)
    points = np.column_stack([np.cos(turn), np.sin(turn)])
    weights = np.full(len(points), 1.0 / len(points))
    for dimension in range(3, d + 1):
        alpha = (dimension - 2) / 2.0
        t, w = roots_gegenbauer(count, alpha)
        radius = np.sqrt(1.0 - t**2)
        points = np.vstack(
            [
                np.column_stack([r * points, np.full(len(points), c)])
                for r, c in zip(radius, t, strict=True)
            ]
        )
        weights = np.outer(w / w.sum(), weights).ravel()
    return points, weights
