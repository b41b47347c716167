"""Gaussian observations: y = f + noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, nan, pi

import numpy as np
from scipy.special import ndtri

from asvgp.basis import Array
from asvgp.likelihoods.likelihood import Likelihood


@dataclass(frozen=True)
class Gaussian:
    """Observations with independent Gaussian noise.

    Parameters
    ----------
    noise : float
        Noise variance of an observation of weight one; with weight w it is ``noise / w``.

    Examples
    --------
    >>> import numpy as np
    >>> likelihood = Gaussian(noise=0.25)
    >>> likelihood.observation_variance(np.array([1.0, 0.5]))
    array([1.25, 0.75])
    >>> likelihood.log_predictive_density(np.zeros(1), np.zeros(1), np.array([0.75])).round(3)
    array([-0.919])
    """

    noise: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.noise < inf:
            raise ValueError(f"The noise variance must be positive and finite, got {self.noise}.")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, all of them positive and trained as logarithms."""
        return ("noise variance",)

    @property
    def values(self) -> Array:
        """The parameters, in the order of ``parameters``."""
        return np.array([self.noise])

    def with_values(self, values: Array) -> Gaussian:
        """Return a copy with other values of the parameters."""
        (noise,) = values
        return replace(self, noise=float(noise))

    def limits(self, least: float, most: float) -> list[tuple[float, float]]:
        """Return (lower, upper) for every parameter, here that of the noise variance."""
        return [(least, most)]

    def with_noise(self, noise: float) -> Gaussian:
        """Return a copy with another noise variance."""
        return replace(self, noise=noise)

    def observation_variance(self, variance: Array, weight: Array | float = 1.0) -> Array:
        """Return the variance of new observations, given the latent variance of the field."""
        return variance + self.noise / weight

    def log_predictive_density(
        self, y: Array, mean: Array, variance: Array, weight: Array | float = 1.0
    ) -> Array:
        """Return the log density of new observations, given latent means and variances."""
        spread = self.observation_variance(variance, weight)
        return -0.5 * ((y - mean) ** 2 / spread + np.log(spread) + log(2.0 * pi))


def likelihood_of(given: Likelihood | float) -> Likelihood:
    """Return a likelihood as it is; a number stands for Gaussian noise of that variance."""
    return Gaussian(float(given)) if isinstance(given, int | float) else given


def probability(level) -> float:
    """Return the probability of a band, which is written as such or in per cent, from two on.

    Examples
    --------
    >>> probability(0.95), probability(95), probability("80")
    (0.95, 0.95, 0.8)
    """
    try:
        share = float(level)
    except (TypeError, ValueError):
        share = nan
    share = share / 100.0 if share >= 2.0 else share
    if not 0.0 < share < 1.0:
        raise ValueError(
            "level must be a probability between 0 and 1, such as 0.95, or in per cent, such as "
            f"95, got {level!r}."
        )
    return share


def band_factor(level) -> float:
    """Return the half width, in standard deviations, of the band that holds a probability."""
    return float(ndtri(0.5 + 0.5 * probability(level)))
