"""Gaussian processes with dense matrices: exact for Gaussian noise, variational for other data."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from tests.oracle.processes import Atoms, Known, Process


class DenseGP:
    """A sum of processes and fixed effects, given linear functionals of it with Gaussian noise.

    ``noise`` has a variance per row. ``weights`` multiply the log densities of rows. With several
    outputs ``y`` has columns.
    """

    def __init__(self, kernel, rows: Atoms, y, noise, weights=None):
        self.parts = [Process(part) for part in kernel.components]
        self.parts += [Known(effect) for effect in kernel.effects]
        self.rows, self.y = rows, np.asarray(y, float).reshape(len(y), -1)
        self.weights = np.ones(len(y)) if weights is None else np.asarray(weights, float)
        self.noise = np.broadcast_to(noise, len(y)) / self.weights
        self.prior = self.covariance(rows, rows)
        self.root = np.linalg.cholesky(self.prior + np.diag(self.noise))
        self.alpha = cho_solve((self.root, True), self.y)

    def covariance(self, one: Atoms, other: Atoms, part: int | None = None) -> np.ndarray:
        """Return prior covariances, of one part or of the whole sum."""
        parts = self.parts if part is None else [self.parts[part]]
        return np.stack([each.covariance(one, other) for each in parts]).sum(axis=0)

    @property
    def quadratic(self) -> float:
        """The sum of squares in the exponent."""
        return float(np.sum(self.y * self.alpha))

    def evidence(self) -> float:
        """Return the log marginal likelihood, rows counted by weight."""
        n, outputs = self.y.shape
        each = np.log(np.diag(self.root)).sum() + 0.5 * n * np.log(2.0 * np.pi)
        # a density to the power w is a density with the w-th part of the variance, rescaled
        variance = self.noise * self.weights
        each += 0.5 * np.sum(self.weights * np.log(2.0 * np.pi * variance))
        each -= 0.5 * np.sum(np.log(2.0 * np.pi * self.noise))
        return -0.5 * self.quadratic - outputs * float(each)

    def predict(self, new: Atoms, part: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means (one column per output) and the covariance of functionals."""
        cross = self.covariance(self.rows, new, part)
        half = solve_triangular(self.root, cross, lower=True)
        return cross.T @ self.alpha, self.covariance(new, new, part) - half.T @ half

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of every row given the others, and its variance with noise."""
        inverse = np.diag(cho_solve((self.root, True), np.eye(len(self.root))))
        return self.y - self.alpha / inverse[:, None], 1.0 / inverse


def dense_posterior(K, family, y, extra=None, weight=None, offset=None):
    """Return the highest bound of a Gaussian posterior of f at the data, its mean and variance.

    Natural gradient steps on one site per row, halved where they lose.
    """
    n = len(y)
    offset = np.zeros(n) if offset is None else offset
    weight = np.ones(n) if weight is None else weight

    def at(precision, right):
        system = np.eye(n) + K * precision
        S = np.linalg.solve(system, K)
        m, v = S @ right, np.diag(S).copy()
        sign, log_det = np.linalg.slogdet(system)
        energy = (right - precision * m) @ m  # of m under the prior, m = K (right - precision m)
        divergence = 0.5 * (energy - precision @ v + log_det)
        if sign <= 0.0 or np.any(v <= 0.0):
            return -np.inf, m, v, right, precision
        values, g, w = family.expected(y, extra, m + offset, v)
        return weight @ values - divergence, m, v, weight * (g + w * m), weight * w

    f = np.full(n, np.median(family.start(y, extra, None, None)))
    robust = family.robust_weights(y, extra, f + offset, np.zeros(n))
    g, w = robust or family.expected(y, extra, f + offset, np.zeros(n))[1:]
    w = np.maximum(w, 1e-3 * np.abs(w).mean())
    precision, right = weight * w, weight * (g + w * f)
    now, share = at(precision, right), 1.0
    for _ in range(500):
        trial = [(1 - share) * a + share * b for a, b in ((precision, now[4]), (right, now[3]))]
        then = at(*trial)
        if not then[0] >= now[0] - 1e-10:
            share *= 0.5
            if share < 1e-6:
                break
            continue
        gain, now, (precision, right) = then[0] - now[0], then, trial
        share = min(1.0, 1.5 * share)
        if gain < 1e-10:
            break
    return now[:3]
