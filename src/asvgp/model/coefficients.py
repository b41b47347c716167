"""P of basis functions and fixed effects, factored: what fields and series have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.devices import Factor
from asvgp.model.effects import Centring
from asvgp.model.engine import Forms, NoiseModel, divergence
from asvgp.model.grid_prior import TermForms
from asvgp.runtime.lazy import cached_property


@dataclass(frozen=True, eq=False)
class Solution:
    """P factored, the mean of the coefficients, (size, outputs), and what it explains."""

    factor: Factor
    mean: Array
    explained: Array
    defect: float = 0.0  # error of log|P|, as far as it is known


class HasEffects(Protocol):
    """A plan, of which only the number of fixed effects is asked."""

    @property
    def effects(self) -> int:
        """Number of fixed effects, whose coefficients come last."""
        ...


class CoefficientEngine(Protocol):
    """An engine whose unknowns are coefficients of basis functions, and fixed effects."""

    size: int
    precision: Array  # of the effects
    effects_prior: Array
    centring: Centring

    @property
    def plan(self) -> HasEffects:
        """The structure of the model."""
        ...


class CoefficientPrior(Protocol):
    """K at given hyperparameters."""

    kernel: Kernel

    @property
    def log_det(self) -> float:
        """``log|K|`` of all components; effects are not included."""
        ...


Engine = TypeVar("Engine", bound=CoefficientEngine)
Prior = TypeVar("Prior", bound=CoefficientPrior)


class CoefficientFactored(ABC, Generic[Engine, Prior]):
    """P, factored; ``mean`` is that of the coefficients of centred y and columns."""

    def __init__(self, engine: Engine, prior: Prior, likelihood: NoiseModel, solution: Solution):
        self.engine, self.kernel, self.likelihood = engine, prior.kernel, likelihood
        self.noise = likelihood.noise
        self.prior, self.solution = prior, solution
        self.mean, self.explained = solution.mean, solution.explained
        self.defect = solution.defect
        log_det = float(np.log(engine.precision).sum()) + prior.log_det
        self.gained = max(solution.factor.log_det - log_det, 0.0)  # negative by rounding only

    def mean_as_given(self) -> Array:
        """Return the mean of the coefficients; y as given."""
        mean = self.mean.copy()
        mean[self.engine.size - self.engine.plan.effects :] += self.engine.centring.offset
        return mean

    @abstractmethod
    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return the variance that the splines miss at the data per component, and derivatives."""

    def slopes_of_missed(self) -> Array:
        """Return the derivatives of the missed variance, or about them."""
        return self.missed()[1]

    @property
    @abstractmethod
    def _columns_inverse(self) -> Array:
        """P^-1 of the global columns, the effects' last."""

    @abstractmethod
    def _forms_by_component(self) -> Mapping[int, TermForms]:
        """Return the forms by number of the component."""

    @cached_property
    def _component_forms(self) -> Mapping[int, TermForms]:
        return self._forms_by_component()

    def divergence(self) -> float:
        """Return the divergence of the coefficients' posterior from their prior, in nats."""
        return divergence(self.gained, self.forms())

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs."""
        engine, effects = self.engine, self.engine.plan.effects
        gradient = np.zeros(len(self.kernel.parameters))
        trace = energy = 0.0
        if effects:
            inverse = self._columns_inverse[-effects:, -effects:]
            trace = float(np.sum(engine.effects_prior * inverse))
            energy = engine.centring.energy(engine.precision, self.mean[-effects:])
        for number, part in self._component_forms.items():
            trace += part.trace
            energy += part.energy
            gradient[self.kernel.places_of(number)] = part.gradient
        return Forms(engine.size - trace, energy, gradient)
