"""The protocol of a posterior: everything that a fitted model is asked, for any inputs.

Two classes implement it: `asvgp.posterior.chain.ChainPosterior` for one input, whose
cells are a chain, and `asvgp.posterior.grid.GridPosterior` for several. Both factor P once and then
keep a polynomial per cell for the mean and one for the variance.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood
from asvgp.statistics import Statistics

Places = TypeVar("Places", contravariant=True)


class FittedValues(NamedTuple):
    """A posterior at the places of its own data."""

    mean: Array  # (outputs, n)
    variance: Array  # of f, (n,)
    quadratic: Array  # phi' P^-1 phi, (n,): the variance without what the splines miss
    magnitude: Array  # sum of its absolute terms, which bounds its rounding error


class Posterior(Protocol[Places]):
    """Mean and covariance of f given the data, for fixed hyperparameters."""

    kernel: Kernel
    likelihood: Likelihood
    stats: Statistics  # that it was made from

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        return self.likelihood.noise

    @property
    def parts(self) -> tuple[Any, ...]:
        """Arguments of the class' ``restored``; the last are arrays that predictions read."""
        ...

    def upper_bound(self) -> float:
        """Compute an upper bound on the log evidence, from one more factorisation."""
        ...

    def predict(
        self,
        points: Places,
        /,
        variance: bool = True,
        component: int | None = None,
        order: Any = None,
    ) -> tuple[Array, Array]:
        """Return the mean (outputs, n) and latent variance (n,), of the sum or of one component.

        Without ``variance`` the second array is empty. The ``order`` of a derivative is a number
        for one input, and a mapping from columns for several.
        """
        ...

    def covariance(self, points: Places, /, order: Any = None) -> Array:
        """Return the posterior covariance matrix of f; also of derivatives and components."""
        ...

    def covariance_root(self, covariance: Array, /) -> Array:
        """Return a root of such a matrix, for joint draws, even if it is singular to rounding."""
        return eigen_root(covariance)

    def fitted_values(self, points: Places, /) -> FittedValues:
        """Return the posterior at places of its data, for leave-one-out."""
        ...

    def averages(
        self,
        low: Places,
        high: Places,
        /,
        variance: bool = True,
        covariance: bool = False,
        component: int | None = None,
    ) -> tuple[Array, Array]:
        """Return means (outputs, m) and variances of averages between two corners."""
        ...

    def volumes(self, lower: Places, upper: Places, /) -> Array:
        """Return the signed volumes between two corners, (m,)."""
        ...

    def centred(self, component: int, x: Array) -> tuple[Array, Array]:
        """Return mean and variance of a component over one input, less its average."""
        ...


def eigen_root(covariance: Array) -> Array:
    """Return a root of a covariance matrix that may be singular to rounding."""
    values, vectors = np.linalg.eigh(covariance)
    vectors *= np.sqrt(np.maximum(values, 0.0))
    return vectors


AnyPosterior = TypeVar("AnyPosterior", bound=Posterior[Any])
