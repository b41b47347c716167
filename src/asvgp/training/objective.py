"""The function that training maximises, and the limits within which it does.

The objective is the sum of the bounds of one or several engines: of the model itself, or of
several parts of a large field. It remembers every state that was evaluated. A state at which P
cannot be factored, or its inverse not be known well enough for the gradient, is a bad state, not an
error: it is worse than all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.engine import Engine, Factored
from asvgp.policies import FIELD
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.training.problem import Problem, State

Grids = Mapping[int | str | None, Grid]  # by the column that a process is over
Limits = list[tuple[float, float]]  # of the logarithms of the free hyperparameters


@dataclass(frozen=True)
class MissedPrice:
    """A price on the variance that the splines miss, for training under the evidence.

    The missed variance is proportional to the components' variances, so that its derivatives with
    respect to their logarithms are the components' parts. See `asvgp.training.nearby`.
    """

    prices: Array  # nats per unit of missed variance, by hyperparameter of the kernel
    variances: Array  # True for those that are variances

    def cost(self, bound: Bound) -> float:
        """Return the nats to pay."""
        return float(self.slope(bound)[: len(self.prices)][self.variances].sum())

    def slope(self, bound: Bound) -> Array:
        """Return the gradient of the cost, which does not depend on the likelihood."""
        slope = np.zeros_like(bound.d_missed)
        slope[: len(self.prices)] = self.prices * bound.d_missed[: len(self.prices)]
        return slope


class Objective:
    """The sum of the engines' bounds as a function of the free log-hyperparameters.

    The best state is remembered, so that nothing is lost if something ends training early.
    ``step`` is the unit of the optimiser in log-hyperparameters. ``information`` tells, for a
    kernel and a noise variance, about how much data say of all hyperparameters, if it is known;
    ``learn`` is told every step, and how much that lessened the gradient.
    """

    def __init__(
        self,
        problem: Problem,
        engines: Sequence[Engine],
        limits: Limits,
        price: MissedPrice | None = None,
        step: float = 1.0,
        information: Callable[[Kernel, float], Array | None] | None = None,
        learn: Callable[[Array, Array], None] | None = None,
    ):
        kernel = problem.kernel
        self.problem, self.kernel, self.engines, self.price = problem, kernel, engines, price
        self.step, self._information, self._learn = step, information, learn
        self.free = [i for i, name in enumerate(kernel.parameters) if name not in kernel.fixed]
        self.names = [kernel.parameters[i] for i in self.free]
        self.names += problem.likelihood.parameters
        first = len(kernel.parameters)
        self._trained = [*self.free, *range(first, first + len(problem.likelihood.parameters))]
        self.limits = [(low / step, high / step) for low, high in limits]
        self.trace: list[float] = []
        self.evaluated: dict[State, Bound] = {}
        self._values: dict[State, float] = {}  # of states without gradients
        self._last: tuple[State, list[Factored]] | None = None
        self.best: tuple[float, State | None] = (-np.inf, None)
        self.failures: dict[State, np.linalg.LinAlgError] = {}
        self.shown_size: int | None = None  # cells or functions, if evaluations are to be watched
        self.timed = False  # True while the problem's deadline ends evaluations

    def stay_near(self, state: State, ratio: float) -> None:
        """Narrow the limits of the kernel's hyperparameters to a ratio from those of a state."""
        middle, reach = self.encode(state), np.log(ratio) / self.step
        for i in range(len(self.free)):
            low, high = self.limits[i]
            self.limits[i] = max(low, middle[i] - reach), min(high, middle[i] + reach)

    def encode(self, state: State) -> Array:
        """Return the point of a state, moved inside the limits."""
        values = np.append(state.kernel.values[self.free], state.likelihood.values)
        theta = np.log(values) / self.step
        return np.clip(theta, *np.array(self.limits).T)

    def decode(self, theta: Array) -> State:
        """Return the state at a point."""
        values, free = np.exp(self.step * theta), len(self.free)
        changes = dict(zip(self.names[:free], values[:free], strict=True))
        # Rounding of exp(log(bound)) must not leave the user's bounds.
        kernel = self.kernel.replace_free(changes)
        return State(kernel, self.problem.likelihood.with_values(values[free:]))

    def bound(self, state: State) -> Bound:
        """Return the bound of a state, computed once; the best state is remembered."""
        if state not in self.evaluated:
            self.evaluated[state] = self._computed(state, True)
        return self.evaluated[state]

    def value_at(self, state: State) -> float:
        """Return the number that is maximised at a state, without its gradient if that is new."""
        if state in self.evaluated or self.price is not None:
            return self.value(self.bound(state))
        if state not in self._values:
            self._values[state] = self.value(self._computed(state, False))
        return self._values[state]

    def _check_time(self) -> None:
        """Raise an error if the time of training is up, and there is a state to keep."""
        deadline = self.problem.deadline
        if self.timed and deadline is not None and deadline.passed and self.best[1] is not None:
            size = "" if self.shown_size is None else f" on {self.shown_size:,} cells"
            raise deadline.error(f"after evaluation {self.evaluations}{size}")

    def _computed(self, state: State, derivatives: bool) -> Bound:
        self._check_time()
        with plain_interrupts():
            try:
                name = self.problem.objective
                missed = "left out" if self.price is None else "about"
                bound = total(
                    lower_bound(each, name, derivatives, missed) for each in self._factored(state)
                )
                if not bound.defect <= FIELD.accepted_gradient:
                    raise np.linalg.LinAlgError(
                        "Rounding leaves too few digits of the gradient: an error of "
                        f"{bound.defect:.2g} nats per datum, for a length of many cells."
                    )
            except np.linalg.LinAlgError as error:
                bound = self._failed(state, error)
        value = self.value(bound)
        if value == -np.inf or state in self._values:
            return bound
        self.trace.append(value)
        if value > self.best[0]:
            self.best = (value, state)
        if self.shown_size is not None and self.problem.watch is not None:
            self.problem.watch(self.shown_size, self.evaluations, value)
        return bound

    def _factored(self, state: State) -> list[Factored]:
        """Return the engines' factorisations at a state: the gradient is often wanted next."""
        if self._last is None or self._last[0] != state:
            self._last = None  # its memory is needed for the next one
            self._last = state, [engine.factor(*state) for engine in self.engines]
        return self._last[1]

    def _failed(self, state: State, error: np.linalg.LinAlgError) -> Bound:
        """Return a bound worse than all that are known, for a P that cannot be factored.

        Where only the gradient fails, the value that was known before does not count any more.
        """
        self.failures[state] = error
        if self.best[1] == state:
            known = {each: self.value(bound) for each, bound in self.evaluated.items()}
            known |= self._values
            others = [(value, each) for each, value in known.items() if each not in self.failures]
            self.best = max(others, key=lambda pair: pair[0], default=(-np.inf, None))
        worst = min(self.trace) - abs(min(self.trace)) if self.trace else -np.inf
        flat = np.zeros(len(self.kernel.parameters) + len(self.problem.likelihood.parameters))
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

    def curvature(self, theta: Array) -> Array | None:
        """Return about minus the second derivatives at a point, by what data tell; or None."""
        if self._information is None:
            return None
        state = self.decode(theta)
        whole = self._information(state.kernel, state.noise)
        return None if whole is None else self.step**2 * whole[np.ix_(self._trained, self._trained)]

    def learnt(self, step: Array, change: Array) -> None:
        """Take note of how much a step has lessened the gradient, for later climbs."""
        if self._learn is not None:
            size = len(self.kernel.parameters) + len(self.problem.likelihood.parameters)
            both = np.zeros((2, size))
            both[:, self._trained] = self.step * step, change / self.step
            self._learn(*both)

    def slope(self, theta: Array) -> tuple[float, Array]:
        """Return value and gradient at a point."""
        return self.slope_at(self.decode(theta))

    def slope_at(self, state: State) -> tuple[float, Array]:
        """Return value and gradient at a state."""
        bound = self.bound(state)
        gradient = bound.gradient
        if self.price is not None:
            gradient = gradient - self.price.slope(bound)
        return self.value(bound), self.step * gradient[self._trained]

    def blocked(self, state: State) -> bool:
        """Return True if what could not be factored kept a climb from going on from a state."""
        if not self.failures:
            return False
        low, high = np.array(self.limits).T
        theta = self.encode(state)
        slope = self.slope(theta)[1] / self.step
        free = np.where(slope > 0.0, high - theta, theta - low) > 1e-6
        steepest = np.abs(slope[free]).max(initial=0.0)
        return bool(steepest > FIELD.blocked_slope * self.engines[0].statistics.observations)


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
            max(first.defect, bound.defect),
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
    """Return the limits of the logarithms of the free hyperparameters, the likelihood's last.

    They are the user's, or as wide as double precision makes sense of: variances from a small
    part of ``least_variance`` to a multiple of ``power``, the mean square of y; lengths between
    ``shortest`` and ``longest``, by what the splines can express.
    """
    kernel = problem.kernel
    wide = {}
    for prefix, part in kernel.labelled:
        grid = grids if len(part.along) > 1 else grids[part.along[0].dim]
        limits = part.limits(grid, least_variance, power)
        wide |= {prefix + name: pair for name, pair in limits.items()}
    for name, length in shortest.items():
        wide[name] = max(wide[name][0], length), wide[name][1]
    for name, length in longest.items():
        wide[name] = min(wide[name][0], length), min(wide[name][1], length)
    free = [name for name in kernel.parameters if name not in kernel.fixed]
    limits = [kernel.bounds.get(name, wide[name]) for name in free]
    limits += problem.likelihood.limits(*noise)
    if problem.fixed_likelihood:
        limits[len(free) :] = [(value, value) for value in problem.likelihood.values]
    return [(np.log(low), np.log(high)) for low, high in limits]
