"""From f to y: moments, quantiles, densities and draws in the units of y.

Two classes answer the same questions of rows of X: `GaussianObservations` for Gaussian noise,
with or without a transform of y, and `FamilyObservations` for all other likelihoods. Arrays of f
have the shape (outputs, n), its variance (n,) or (outputs, n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from asvgp.basis import Array
from asvgp.data.response import Response
from asvgp.data.transforms import Transform
from asvgp.likelihoods import Likelihood
from asvgp.likelihoods.family import Family
from asvgp.policies import SITES


class Observations(Protocol):
    """What is asked of new observations, or of f itself where ``noisy`` is False."""

    @property
    def noisy(self) -> bool:
        """True where observations are meant, not f."""
        ...

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance."""
        ...

    def covariance(self, mean: Array, covariance: Array) -> Array:
        """Return covariances (n, n), or (outputs, n, n) where they differ between outputs."""
        ...

    def quantiles(self, shares: Array, mean: Array, variance: Array) -> Array:
        """Return quantiles, (outputs, n, shares)."""
        ...

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Return log densities of observations y, (outputs, n)."""
        ...

    def draws(self, f: Array, rng: np.random.Generator) -> Array:
        """Return f as it is answered, or one observation for every f, (outputs, n, samples)."""
        ...


@dataclass(frozen=True)
class GaussianObservations:
    """Observations with Gaussian noise on the scale of a transform."""

    noisy: bool
    transform: Transform
    likelihood: Likelihood
    weights: Array | float = 1.0

    def _spread(self, mean: Array, variance: Array) -> Array:
        if self.noisy:
            variance = self.likelihood.observation_variance(variance, self.weights)
        return np.broadcast_to(variance, mean.shape)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance."""
        return self.transform.moments(mean, self._spread(mean, variance))

    def covariance(self, mean: Array, covariance: Array) -> Array:
        """Return covariances; they differ between outputs where there is a transform."""
        diagonal = np.diag_indices_from(covariance)
        covariance[diagonal] = self._spread(covariance[diagonal], covariance[diagonal])
        if self.transform.identity:
            return covariance
        return np.stack([self.transform.covariance(centre, covariance) for centre in mean])

    def quantiles(self, shares: Array, mean: Array, variance: Array) -> Array:
        """Return quantiles."""
        std = np.sqrt(self._spread(mean, variance))
        return self.transform.inverse(mean[..., None] + std[..., None] * ndtri(shares))

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Return log densities; those of transforms that do not exist are minus infinity."""
        variance = np.broadcast_to(variance, mean.shape)
        with np.errstate(invalid="ignore", divide="ignore"):  # where there is no density
            z = self.transform.forward(y)
            density = self.likelihood.log_predictive_density(z, mean, variance, self.weights)
        return self.transform.log_density(y, density)

    def draws(self, f: Array, rng: np.random.Generator) -> Array:
        """Return f, or observations of it, in the units of y."""
        if self.noisy:
            noise = self.likelihood.observation_variance(np.zeros(f.shape[1]), self.weights)
            f = f + np.sqrt(noise)[:, None] * rng.standard_normal(f.shape)
        return self.transform.inverse(f)


@dataclass(frozen=True)
class FamilyObservations:
    """Observations of any other likelihood: f is its mean on the scale of the link."""

    noisy: bool
    response: Response
    extra: Array | None = None
    offset: Array | None = None

    @property
    def family(self) -> Family:
        """The likelihood."""
        return self.response.likelihood

    def _seen(self, mean: Array) -> Array:
        return mean[0] if self.offset is None else mean[0] + self.offset

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance, of y or of its mean given f."""
        m, v = self._seen(mean), np.ravel(variance)
        first, second = self.family.response_moments(m, v, self.extra)
        if self.noisy:
            second = self.family.variance(m, v, self.extra)
        return first[None], second[None]

    def covariance(self, mean: Array, covariance: Array) -> Array:
        """Return covariances, (1, n, n)."""
        m, v = self._seen(mean), np.diag(covariance).copy()
        table = self.response.covariance(m, covariance)
        if self.extra is not None and "trials" in self.family.takes:
            table = table * np.outer(self.extra, self.extra)
        if self.noisy:
            np.fill_diagonal(table, self.family.variance(m, v, self.extra))
        return table[None]

    def quantiles(self, shares: Array, mean: Array, variance: Array) -> Array:
        """Return quantiles; those of f are exact, as the mean of y grows with f."""
        m, v = self._seen(mean), np.ravel(variance)
        if self.noisy:
            return self.family.quantiles(shares, m, v, self.extra)[None]
        ends = [self.family.response(m + np.sqrt(v) * z, self.extra) for z in ndtri(shares)]
        return np.stack(ends, axis=1)[None]

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Return log densities, NaN where y is."""
        m, v, y = self._seen(mean), np.ravel(variance), y[0]
        known, out = ~np.isnan(y), np.full(len(y), np.nan)
        extra = None if self.extra is None else self.extra[known]
        self.family.check(y[known], extra)
        out[known] = self.family.log_predictive_density(y[known], m[known], v[known], extra)
        return out[None]

    def draws(self, f: Array, rng: np.random.Generator) -> Array:
        """Return the mean of y given f, or draws of y."""
        out = np.empty_like(f)
        for i in range(f.shape[2]):
            m = self._seen(f[:, :, i])
            y = self.family.sample(m, rng, self.extra) if self.noisy else None
            out[0, :, i] = self.family.response(m, self.extra) if y is None else y
        return out

    def left_out(
        self, y: Array, weight: Array | None, mean: Array, variance: Array, quadratic: Array
    ) -> tuple[Array, Array]:
        """Return mean and variance of f at every row, without the row, by its cavity.

        ``quadratic`` is the variance without what the splines miss; only that part knows of y.
        """
        m, v = self._seen(mean), np.ravel(variance)
        _, g, w = self.family.expected(y, self.extra, m, v)
        if weight is not None:
            g, w = g * weight, w * weight
        left = 1.0 - w * quadratic
        left = np.where(left > SITES.least_left, left, np.nan)
        return mean[0] - quadratic * g / left, v + quadratic * w * quadratic / left
