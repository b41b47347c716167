"""The answers of a likelihood that is not Gaussian, in the units of y.

`Response` stands where a `Transform` of y does: what is predicted of f becomes rates,
probabilities or times by it, with their means, quantiles and covariances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from asvgp.basis import Array
from asvgp.data.transforms import Transform
from asvgp.likelihoods.family import Family


@dataclass(frozen=True)
class Response(Transform):
    """The mean of y given f, as a function of f.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp.likelihoods import Poisson
    >>> rate = Response(family=Poisson())
    >>> rate.inverse(np.zeros(2)).tolist()
    [1.0, 1.0]
    >>> rate.moments(np.zeros((1, 1)), np.ones((1, 1)))[0].round(3).tolist()
    [[1.649]]
    """

    power: float = 0.0
    family: Family | None = None

    @property
    def likelihood(self) -> Family:
        """The family."""
        assert self.family is not None
        return self.family

    @property
    def identity(self) -> bool:
        """True where the mean of y is f itself."""
        return self.likelihood.inverse_link == "identity"

    @property
    def exponential(self) -> bool:
        """True where the mean of y is exp(f)."""
        return self.likelihood.inverse_link == "exp"

    def __str__(self) -> str:
        return f"the mean of y under {self.likelihood!r}"

    def inverse(self, z: Array) -> Array:
        """Return the mean of y given f."""
        return self.likelihood.response(z.ravel()).reshape(z.shape)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of the mean of y, given those of f."""
        first, second = self.likelihood.response_moments(mean.ravel(), variance.ravel())
        return first.reshape(mean.shape), second.reshape(mean.shape)


@dataclass(frozen=True)
class NewResponse(Response):
    """New observations of y, of exposure and trials one: their bands are quantiles of y."""

    def band(self, mean: Array, std: Array, factor: float) -> tuple[Array, Array, Array]:
        """Return the mean of y, and the quantiles that hold what so many deviations do."""
        shares, family = ndtr(np.array([-factor, factor])), self.likelihood
        low, high = family.quantiles(shares, mean.ravel(), std.ravel() ** 2).T
        return self.moments(mean, std**2)[0], low.reshape(mean.shape), high.reshape(mean.shape)
