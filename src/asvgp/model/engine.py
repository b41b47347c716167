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

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.statistics import Statistics

Solution = TypeVar("Solution")


class NoiseModel(Protocol):
    """The part of a likelihood that engines read; see `asvgp.likelihoods`."""

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        ...

    def with_noise(self, noise: float, /) -> NoiseModel:
        """Return a copy with another noise variance."""
        ...


class Forms(NamedTuple):
    """Traces and quadratic forms of a factored P, as the gradient of the bound needs them.

    The gradient is that of ``-(log|P| - log|K|) / 2`` per output and of half the explained part,
    summed over outputs, with respect to the logarithms of ``kernel.parameters``.
    """

    freedom: float  # tr(P^-1 G) / noise, the effective degrees of freedom of one output
    energy: float  # alpha' K alpha, summed over outputs
    gradient: Array
    defect: float = 0.0  # error of the gradient, in nats per datum, as far as it is known


class Engine(Protocol):
    """Everything that does not depend on the values of hyperparameters."""

    kernel: Kernel  # with the components that the engine was made for
    statistics: Statistics
    outputs: int
    size: int  # number of unknowns: basis functions of all components, and fixed effects

    def with_statistics(self, statistics: Statistics, /) -> Engine:
        """Return an engine for other sums on the same grids; tables that still apply are shared."""
        ...

    def factor(self, kernel: Kernel, likelihood: NoiseModel, remember: bool = True) -> Factored:
        """Factor P at the given hyperparameters.

        With ``remember`` the engine keeps this factorisation until it makes the next one to
        remember, so that training can end where the posterior begins.
        """
        ...


class Factored(Protocol):
    """P, factored at one state of the hyperparameters."""

    kernel: Kernel
    likelihood: NoiseModel
    noise: float
    gained: float  # log|P| - log|K|, never negative
    explained: Array  # part of y' W y / noise that the model explains, one number per output
    defect: float  # error of log|P|, as far as it is known

    @property
    def engine(self) -> Engine:
        """The engine that made it."""
        ...

    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return the prior variance that the splines miss, and its derivatives.

        Summed over the data with their weights: one number per component, and the derivatives of
        their sum with respect to the logarithms of ``kernel.parameters``. Without ``derivatives``
        these may be anything, which can save time.
        """
        ...

    def slopes_of_missed(self) -> Array:
        """Return about the derivatives that `missed` has, where those would take long.

        They are derivatives of one number, too, that of the variance by its logarithm itself.
        """
        ...

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs."""
        ...

    def divergence(self) -> float:
        """Return the divergence of the coefficients' posterior from their prior, in nats."""
        ...

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component."""
        ...

    def solve(self, rows: Array, /) -> Array:
        """Return ``P^-1`` times right-hand sides, in the coordinates of the engine."""
        ...

    def draw(self, normals: Array, /) -> Array:
        """Return draws with covariance ``P^-1``, made from standard normals."""
        ...


def divergence(gained: float, forms: Forms) -> float:
    """Return the divergence of the coefficients' posterior from their prior, in nats."""
    return 0.5 * (gained + forms.energy - forms.freedom)


class Remembered(Generic[Solution]):
    """The last factorisation of an engine.

    What is remembered must not refer to the engine: memory is then freed as soon as the engine
    is no longer referred to, without the help of the garbage collector.
    """

    def __init__(self) -> None:
        self._last: tuple[Kernel, NoiseModel, Solution] | None = None

    def get(
        self,
        kernel: Kernel,
        likelihood: NoiseModel,
        make: Callable[[], Solution],
        remember: bool = True,
    ) -> Solution:
        """Return the factorisation of this state: the last one, or a new one."""
        if self._last is not None and self._last[1] == likelihood and self._last[0] == kernel:
            return self._last[2]
        if not remember:
            return make()
        self._last = None  # its memory is needed for the next one
        solution = make()
        self._last = kernel, likelihood, solution
        return solution
