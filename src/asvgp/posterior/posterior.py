"""The protocol of a posterior, for any inputs: what it is asked, at which points, and checks.

Three classes implement it: `asvgp.posterior.chain.ChainPosterior` for one input, whose
cells are a chain, `asvgp.posterior.series.SeriesPosterior` for one input with seasons or cells of
several widths, and `asvgp.posterior.grid.GridPosterior` for several inputs. All factor P once and
then keep a polynomial per cell for the mean and one for the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import PROCESSES, Kernel
from asvgp.likelihoods import Likelihood
from asvgp.runtime.checks import finite_range, non_negative_integer
from asvgp.statistics import Statistics


@dataclass(frozen=True, eq=False)
class LinePoints:
    """Places along one input."""

    x: Array  # (n,)
    covariates: Array | None = None  # (n, columns), of linear effects beside the input
    width: Array | None = None  # of the intervals from x on that y is averaged over
    ends: tuple[float, float] = (-np.inf, np.inf)  # smallest and largest x

    @classmethod
    def of(cls, points, name: str = "x") -> LinePoints:
        """Return LinePoints unchanged; turn a finite array into LinePoints without covariates."""
        if isinstance(points, LinePoints):
            return points
        x = np.asarray(points).ravel()
        return cls(x, ends=finite_range(x, name))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def middle(self) -> Array:
        """Middles of the intervals, x itself where there are none."""
        return self.x if self.width is None else self.x + 0.5 * self.width


@dataclass(frozen=True, eq=False)
class GridPoints:
    """Places in several inputs."""

    main: Array  # inputs of the main block, (n, D)
    smooths: Array  # inputs of the components outside it, (n, smooths)
    effects: Array  # columns of the effects; for a derivative, their derivatives

    def take(self, rows) -> GridPoints:
        """Return some of them."""
        return GridPoints(self.main[rows], self.smooths[rows], self.effects[rows])

    def __len__(self) -> int:
        return len(self.main)


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

    def anew(self, kernel: Kernel, likelihood: Likelihood, stats: Statistics, /) -> Self:
        """Return the posterior of other statistics on the same grids, at another state."""
        ...

    def release(self) -> None:
        """Let go of large matrices that can be made again. Most posteriors have none."""

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


def check_component(posterior: Posterior[Any], component: int | None) -> None:
    """Check that the kernel has a component of this number."""
    count = len(posterior.kernel.components)
    if component is not None and not 0 <= index(component) < count:
        raise ValueError(
            f"component must be None or from 0 to {count - 1}, got {component!r}: the kernel is "
            f"{posterior.kernel!r}."
        )


def check_order(posterior: Posterior[Any], order: int, component: int | None) -> int:
    """Return the order of a derivative, after checking that all components involved have it."""
    check_component(posterior, component)
    order = non_negative_integer(order, "order")
    components = posterior.kernel.components
    for number in range(len(components)) if component is None else [component]:
        part = components[number]
        if order <= part.order:
            continue
        known = {0: "no derivative", 1: "one derivative"}.get(part.order)
        known = known or f"{part.order} derivatives"
        name = repr(part)
        if len(components) > 1:
            name = f"component {number} of the sum, {part!r},"
        kinds: tuple[Any, ...] = PROCESSES  # all can be made from a scale alone
        orders = {kind.__name__: kind(1.0).order for kind in kinds}
        smoothest = max(orders, key=lambda kind: orders[kind])
        advice = f"{smoothest}, the smoothest kernel there is, has {orders[smoothest]}"
        if order <= orders[smoothest]:
            enough = min(each for each in orders.values() if each >= order)
            names = [kind for kind, each in orders.items() if each == enough]
            advice = f"take a smoother kernel in its place, such as {' or '.join(names)}"
        smooth = [i for i, other in enumerate(components) if other.order >= order]
        if component is None and smooth:
            advice += (
                f", or ask for component {smooth[0]} alone, "
                f"posterior_.predict(x, component={smooth[0]}, order={order})"
            )
        raise ValueError(
            f"The derivative of order {order} of f does not exist: {name} has {known}, and beyond "
            f"that its variance is infinite. Remedy: {advice}."
        )
    return order


def lift_diagonal(matrix: Array, floor) -> None:
    """Raise variances below what rounding of the prior's lets us tell from zero."""
    diagonal = np.einsum("ii->i", matrix)
    np.maximum(diagonal, floor, out=diagonal)
