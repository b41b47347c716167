"""The two protocols that bounds, training and posteriors are written on.

An `Engine` is made once for the structure of a kernel, its grids and the statistics of the data.
Its method ``factor`` eliminates the unknowns of P = K + G / noise at given hyperparameters and
returns a `Factored`. There are two engines: `asvgp.model.chain.ChainEngine` for one input and
`asvgp.model.grid.GridEngine` for any other number. Letters:

- K, the prior precision of the spline coefficients, block-diagonal over components;
- G = Phi' W Phi, the weighted products of the basis functions at the data;
- alpha = P^-1 Phi' W y / noise, the posterior mean of the coefficients.

Fixed effects count as unknowns with a wide prior: wherever P, K or alpha is mentioned below,
theirs are included.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.statistics import Statistics

Solution = TypeVar("Solution")


class Likelihood(Protocol):
    """The part of a likelihood that engines read; see `asvgp.likelihoods`."""

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        ...

    def with_noise(self, noise: float, /) -> Likelihood:
        """Return a copy with another noise variance."""
        ...


class Forms(NamedTuple):
    """Traces and quadratic forms of a factored P, as the gradient of the bound needs them.

    Attributes
    ----------
    freedom : float
        ``tr(P^-1 G) / noise``, the effective degrees of freedom of one output.
    energy : float
        ``alpha' K alpha``, summed over outputs.
    gradient : ndarray of shape (parameters,)
        Derivatives of ``-(log|P| - log|K|) / 2`` per output and of half the explained part,
        summed over outputs, with respect to the logarithms of ``kernel.parameters``.
    """

    freedom: float
    energy: float
    gradient: Array


class Engine(Protocol):
    """Everything that does not depend on the values of hyperparameters."""

    @property
    def kernel(self) -> Kernel:
        """A kernel with the components that the engine was made for."""
        ...

    @property
    def statistics(self) -> Statistics:
        """The sums over the data."""
        ...

    @property
    def size(self) -> int:
        """Number of unknowns: basis functions of all components, and fixed effects."""
        ...

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        ...

    def with_statistics(self, statistics: Statistics, /) -> Engine:
        """Return an engine for other sums on the same grids, sharing all tables with this one."""
        ...

    def factor(self, kernel: Kernel, likelihood: Likelihood, remember: bool = True) -> Factored:
        """Factor P at the given hyperparameters.

        With ``remember`` the engine keeps this factorisation until it makes the next one to
        remember, so that training can end where the posterior begins.
        """
        ...


class Factored(Protocol):
    """P, factored at one state of the hyperparameters."""

    @property
    def engine(self) -> Engine:
        """The engine that made it."""
        ...

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        ...

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood."""
        ...

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        ...

    @property
    def gained(self) -> float:
        """``log|P| - log|K|``, never negative."""
        ...

    @property
    def explained(self) -> Array:
        """Part of ``y' W y / noise`` that the model explains, one number per output."""
        ...

    def missed(self) -> tuple[Array, Array]:
        """Return the prior variance that the splines miss, and its derivatives.

        Summed over the data with their weights: one number per component, and the derivatives of
        their sum with respect to the logarithms of ``kernel.parameters``.
        """
        ...

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs."""
        ...

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component."""
        ...

    def cell_means(self, component: int | None = None) -> Array:
        """Return the posterior mean as a polynomial per cell, (outputs, cells, powers).

        Of the splines of all components, or of one; effects are not included.
        """
        ...

    def cell_squares(self, component: int | None = None) -> Array:
        """Return ``phi' P^-1 phi`` as a polynomial per cell, (cells, powers)."""
        ...

    def solve(self, rows: Array, /) -> Array:
        """Return ``P^-1`` times right-hand sides, in the coordinates of the engine."""
        ...

    def draw(self, normals: Array, /) -> Array:
        """Return draws with covariance ``P^-1``, made from standard normals."""
        ...


class Remembered(Generic[Solution]):
    """The last factorisation of an engine.

    What is remembered must not refer to the engine: memory is then freed as soon as the engine
    is no longer referred to, without the help of the garbage collector.
    """

    def __init__(self) -> None:
        self._last: tuple[Kernel, Likelihood, Solution] | None = None

    def find(self, kernel: Kernel, likelihood: Likelihood) -> Solution | None:
        """Return the factorisation of this state, if it is the last one."""
        last = self._last
        if last is not None and last[1] == likelihood and last[0] == kernel:
            return last[2]
        return None

    def forget(self) -> None:
        """Drop what is remembered, so that its memory is free for the next one."""
        self._last = None

    def keep(self, kernel: Kernel, likelihood: Likelihood, solution: Solution) -> None:
        """Remember a factorisation in place of the last one."""
        self._last = kernel, likelihood, solution
