"""The function that training maximises, and the limits within which it does.

The objective is the sum of the bounds of one or several engines: of the model itself, or of
several parts of a large field. It remembers every state that was evaluated. A state at which P
cannot be factored is a bad state, not an error: it is worse than all that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Component, Kernel, Product
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.engine import Engine
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.training.problem import Problem, State

Grids = Mapping[int | str | None, Grid]  # by the column that a process is over
Limits = list[tuple[float, float]]  # of the logarithms of the free hyperparameters and the noise


@dataclass(frozen=True)
class MissedPrice:
    """A price on the variance that the splines miss, for training under the evidence.

    The evidence of the spline field does not pay for that variance, although predictions add it
    to theirs. Where the data cannot tell a long lengthscale with a huge variance from the true
    hyperparameters, only such a price can.

    Attributes
    ----------
    prices : ndarray of shape (parameters + 1,)
        Nats per unit of missed variance: for every hyperparameter the price of its component.
    variances : ndarray of bool
        True for the hyperparameters that are variances. The missed variance is proportional to
        them, so that its derivatives with respect to their logarithms are the components' parts.
    """

    prices: Array
    variances: Array

    def cost(self, bound: Bound) -> float:
        """Return the nats to pay."""
        return float(self.prices[self.variances] @ bound.d_missed[self.variances])

    def slope(self, bound: Bound) -> Array:
        """Return the gradient of the cost."""
        return self.prices * bound.d_missed


class Objective:
    """The bound as a function of the free log-hyperparameters.

    The best state is remembered, so that nothing is lost if something ends training early.

    Parameters
    ----------
    problem : Problem
    engines : sequence of Engine
        The objective is the sum of their bounds.
    limits : list of pairs of float
        Limits of the logarithms of the free hyperparameters, the noise last.
    price : MissedPrice, optional
    step : float
        Unit of the optimiser in log-hyperparameters.
    """

    def __init__(
        self,
        problem: Problem,
        engines: Sequence[Engine],
        limits: Limits,
        price: MissedPrice | None = None,
        step: float = 1.0,
    ):
        kernel = problem.kernel
        self.problem, self.kernel, self.engines, self.price = problem, kernel, engines, price
        self.step = step
        self.free = [i for i, name in enumerate(kernel.parameters) if name not in kernel.fixed]
        self.names = [kernel.parameters[i] for i in self.free] + ["noise variance"]
        self.limits = [(low / step, high / step) for low, high in limits]
        self.trace: list[float] = []
        self.known: dict[State, Bound] = {}
        self.best: tuple[float, State | None] = (-np.inf, None)
        self.failure: np.linalg.LinAlgError | None = None
        self.watch: Callable[[int, float], None] | None = None

    def encode(self, state: State) -> Array:
        """Return the point of a state, moved inside the limits."""
        theta = np.log(np.append(state.kernel.values[self.free], state.noise)) / self.step
        return np.clip(theta, *np.array(self.limits).T)

    def decode(self, theta: Array) -> State:
        """Return the state at a point."""
        values = np.exp(self.step * theta)
        changes = {
            self.kernel.parameters[i]: value
            for i, value in zip(self.free, values[:-1], strict=True)
        }
        # Rounding of exp(log(bound)) must not leave the user's bounds.
        return State(self.kernel.replace_free(changes), Gaussian(float(values[-1])))

    def bound(self, state: State) -> Bound:
        """Return the bound of a state, computed once; the best state is remembered."""
        if state in self.known:
            return self.known[state]
        with plain_interrupts():
            try:
                bound = total(
                    lower_bound(engine.factor(*state), self.problem.objective)
                    for engine in self.engines
                )
            except np.linalg.LinAlgError as error:
                self.failure = error
                bound = self._failed()
        self.known[state] = bound
        value = self.value(bound)
        if value == -np.inf:
            return bound
        self.trace.append(value)
        if value > self.best[0]:
            self.best = (value, state)
        if self.watch is not None:
            self.watch(self.evaluations, value)
        return bound

    def _failed(self) -> Bound:
        """Return a bound worse than all that are known, for a P that cannot be factored."""
        worst = -np.inf
        if self.trace:
            worst = min(self.trace) - abs(min(self.trace))
        flat = np.zeros(len(self.kernel.parameters) + 1)
        return Bound(worst, worst, 0.0, flat, flat)

    @property
    def evaluations(self) -> int:
        """Number of bounds computed so far."""
        return len(self.trace)

    def value(self, bound: Bound) -> float:
        """Return the number that is maximised."""
        if self.problem.objective == "elbo":
            return bound.elbo
        return bound.fit if self.price is None else bound.fit - self.price.cost(bound)

    def rounding(self) -> float:
        """Return how well the objective is known at the best state, in nats."""
        state, stats = self.best[1], self.engines[0].statistics
        if state is None:
            return 0.0
        large = stats.squares.sum() + state.kernel.prior_variance * stats.weight
        return 1e-14 * float(large) / state.noise

    def slope(self, theta: Array) -> tuple[float, Array]:
        """Return value and gradient at a point."""
        bound = self.bound(self.decode(theta))
        gradient = bound.gradient
        if self.price is not None:
            gradient = gradient - self.price.slope(bound)
        return self.value(bound), self.step * gradient[[*self.free, len(self.kernel.parameters)]]


def total(bounds: Iterable[Bound]) -> Bound:
    """Return the sum of bounds of the same hyperparameters."""
    first, *others = bounds
    for bound in others:
        first = Bound(
            first.elbo + bound.elbo,
            first.fit + bound.fit,
            first.missed + bound.missed,
            first.gradient + bound.gradient,
            first.d_missed + bound.d_missed,
        )
    return first


def log_limits(
    problem: Problem,
    grids: Grids,
    least_variance: float,
    power: float,
    noise: tuple[float, float],
    shortest: Mapping[str, float],
    longest: Mapping[str, float],
) -> Limits:
    """Return the limits of the logarithms of the free hyperparameters, and of the noise.

    They are the user's, or as wide as double precision makes sense of.

    Parameters
    ----------
    problem : Problem
    grids : mapping from columns to Grid
    least_variance, power : float
        Scale of the lower limits of variances; mean square of y.
    noise : pair of float
        Limits of the noise variance, unless it is known.
    shortest, longest : mapping from hyperparameters to float
        Further limits of lengths, by what the splines can express.
    """
    kernel = problem.kernel
    wide = component_limits(kernel, grids, least_variance, power)
    for name, length in shortest.items():
        wide[name] = max(wide[name][0], length), wide[name][1]
    for name, length in longest.items():
        wide[name] = min(wide[name][0], length), min(wide[name][1], length)
    limits = [
        kernel.bounds.get(name, wide[name])
        for name in kernel.parameters
        if name not in kernel.fixed
    ]
    if problem.known_noise and problem.noise is not None:
        noise = problem.noise, problem.noise
    return [(np.log(low), np.log(high)) for low, high in (*limits, noise)]


def component_limits(
    kernel: Kernel, grids: Grids, least_variance: float, power: float
) -> dict[str, tuple[float, float]]:
    """Return the limits that each component sets itself, by the kernel's hyperparameters."""
    limits = {}
    for prefix, part in labelled(kernel):
        several = len(part.factors) > 1
        grid = grids if several else grids[part.factors[0].dim]
        for name, pair in part.limits(grid, least_variance, power).items():
            limits[prefix + name] = pair
    return limits


def labelled(kernel: Kernel) -> list[tuple[str, Component | Product]]:
    """Pair every component with the prefix of its hyperparameters' names."""
    several = len(kernel.components) > 1
    return [
        (f"{number}." if several else "", part)
        for number, part in enumerate(kernel.components, start=1)
    ]
