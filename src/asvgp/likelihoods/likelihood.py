"""The protocol of a likelihood: what training, posteriors and predictions read of it."""

from __future__ import annotations

from typing import Protocol, Self

from asvgp.basis import Array


class Likelihood(Protocol):
    """The distribution of observations around f; immutable, compared by value."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, all of them positive and trained as logarithms."""
        ...

    @property
    def values(self) -> Array:
        """The parameters, in the order of ``parameters``."""
        ...

    def with_values(self, values: Array, /) -> Self:
        """Return a copy with other values of the parameters."""
        ...

    def limits(self, least: float, most: float, /) -> list[tuple[float, float]]:
        """Return (lower, upper) for every parameter, given those for the noise variance."""
        ...

    @property
    def noise(self) -> float:
        """Noise variance of an observation, or pseudo-observation, of weight one."""
        ...

    def with_noise(self, noise: float, /) -> Self:
        """Return a copy with another noise variance."""
        ...

    def observation_variance(self, variance: Array, weight: Array | float = 1.0, /) -> Array:
        """Return the variance of new observations, given the latent variance of the field."""
        ...

    def log_predictive_density(
        self, y: Array, mean: Array, variance: Array, weight: Array | float = 1.0, /
    ) -> Array:
        """Return the log density of new observations, given latent means and variances."""
        ...
