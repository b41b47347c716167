"""L-BFGS on the logarithms of the free hyperparameters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.chain import ChainEngine
from asvgp.model.effects import without_effects
from asvgp.policies import LINE
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.statistics import Statistics
from asvgp.training.starts import State, mean_weight, signal_power, signal_spread


@dataclass(frozen=True)
class LBFGS:
    """Settings of the optimiser.

    Parameters
    ----------
    max_iterations : int
        Per resolution.
    tolerance : float
        Stop when an iteration gains less than this many nats.
    restarts : int
        Further starting points to train from, the best result being kept.

    Examples
    --------
    >>> from asvgp import LBFGS, GPRegressor
    >>> GPRegressor(optimizer=LBFGS(restarts=2))
    GPRegressor(optimizer=LBFGS(max_iterations=200, tolerance=0.0001, restarts=2))
    """

    max_iterations: int = 200
    tolerance: float = 1e-4
    restarts: int = 0

    def __post_init__(self) -> None:
        whole = all(isinstance(n, int | np.integer) for n in (self.max_iterations, self.restarts))
        real = isinstance(self.tolerance, int | float | np.number) and self.tolerance > 0.0
        if not (whole and real and self.max_iterations >= 1 and self.restarts >= 0):
            raise ValueError(
                "LBFGS needs whole numbers max_iterations >= 1 and restarts >= 0, and "
                f"tolerance > 0, got {self!r}."
            )


@dataclass
class Report:
    """How training went.

    Attributes
    ----------
    converged : bool
    message : str
        In words.
    evaluations : int
        Bounds and gradients computed, over all resolutions and starts.
    objective : float
        The value reached, in nats.
    seconds : float
    interrupted : bool
        Whether Ctrl-C ended it.
    at_bounds : list of str
        Hyperparameters that ended on a bound.
    notes : list of str
        What a user should know of the result.
    trace : list of float
        The objective at every evaluation at the final resolution.
    """

    converged: bool = True
    message: str = "hyperparameters kept as given"
    evaluations: int = 0
    objective: float = float("nan")
    seconds: float = 0.0
    interrupted: bool = False
    at_bounds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trace: list[float] = field(default_factory=list)

    def interrupt(self) -> None:
        """Note that Ctrl-C struck."""
        self.converged, self.interrupted = False, True
        self.message = "interrupted; the best state so far is kept"

    def __str__(self) -> str:
        text = f"{self.message} ({self.evaluations} evaluations, {self.seconds:.2f} s)"
        if self.at_bounds:
            text += f"; at a bound: {', '.join(self.at_bounds)}"
        return "; ".join([text, *self.notes])


def is_scale(name: str) -> bool:
    """Whether a hyperparameter is a length along the input."""
    return name.rpartition(".")[2] in ("lengthscale", "period")


class Objective:
    """The bound as a function of the free log-hyperparameters.

    Remembers the best state it has seen, so that whatever ends the optimisation early,
    nothing is lost.
    """

    def __init__(
        self,
        kernel: Kernel,
        stats: Statistics,
        degree: int | tuple[int, ...],
        objective: str,
        known_noise: float | None = None,
    ):
        self.kernel, self.stats, self.degree, self.objective = kernel, stats, degree, objective
        self.known_noise = known_noise
        self.free = [i for i, p in enumerate(kernel.parameters) if p not in kernel.fixed]
        self.names = [kernel.parameters[i] for i in self.free] + ["noise variance"]
        self.limits = self._limits()
        self.trace: list[float] = []
        self.known: dict[State, Bound] = {}
        self.best: tuple[float, State | None] = (-np.inf, None)
        self.watch: Callable[[int, float], None] | None = None

    def _limits(self) -> list[tuple[float, float]]:
        """Log-bounds: the user's, or as wide as double precision makes sense of.

        The bound subtracts ``variance / noise`` times N from itself, so that their ratio
        must stay well below 1 / eps for the difference to mean anything.
        """
        plain = without_effects(self.kernel, self.stats)
        power, spread = signal_power(plain), signal_spread(plain)
        wide = self.kernel.limits(self.stats.grid, spread, power)
        limits = []
        for i in self.free:
            name = self.kernel.parameters[i]
            lower, upper = self.kernel.bounds.get(name, wide[name])
            if self.objective == "evidence" and name not in self.kernel.bounds and is_scale(name):
                # On wider knots the splines are another process, which training would exploit.
                cells = (
                    LINE.shortest_lengthscale
                    if name.endswith("lengthscale")
                    else LINE.shortest_lengthscale / 2.0
                )
                lower = max(lower, min(cells * self.stats.grid.spacing, upper))
            limits.append((np.log(lower), np.log(upper)))
        if self.known_noise is not None:
            return [*limits, (np.log(self.known_noise), np.log(self.known_noise))]
        noise = mean_weight(self.stats) * np.array(
            [
                max(LINE.least_noise * spread, LINE.least_noise_of_power * power),
                LINE.most_noise * power,
            ]
        )
        return [*limits, (np.log(noise[0]), np.log(noise[1]))]

    def encode(self, state: State) -> Array:
        """The free log-hyperparameters of a state, moved inside the limits."""
        kernel, noise = state
        theta = np.log(np.append(kernel.values[self.free], noise))
        return np.clip(theta, *np.array(self.limits).T)

    def decode(self, theta: Array) -> State:
        """The state at a point."""
        values = np.exp(theta)
        changes = {
            self.kernel.parameters[i]: value
            for i, value in zip(self.free, values[:-1], strict=True)
        }
        # Rounding of exp(log(bound)) must not leave the user's bounds.
        return self.kernel.replace_free(changes), float(values[-1])

    def _bound(self, kernel: Kernel, noise: float) -> Bound:
        return lower_bound(self.engine.factor(kernel, Gaussian(noise)), self.objective)

    @cached_property
    def engine(self) -> ChainEngine:
        """The model for these statistics."""
        return ChainEngine(self.kernel, self.stats, self.degree)

    def bound(self, state: State) -> Bound:
        """The bound of a state, computed once; the best state is remembered."""
        if state in self.known:
            return self.known[state]
        with plain_interrupts():
            bound = self._bound(*state)
        self.known[state] = bound
        value = self.value(bound)
        self.trace.append(value)
        if value > self.best[0]:
            self.best = (value, state)
        if self.watch is not None:
            self.watch(self.evaluations, value)
        return bound

    @property
    def evaluations(self) -> int:
        """Bounds computed so far."""
        return len(self.trace)

    def value(self, bound: Bound) -> float:
        """The number that is maximised."""
        return bound.elbo if self.objective == "elbo" else bound.fit

    def rounding(self) -> float:
        """How well the objective is known at the best state, in nats."""
        if self.best[1] is None:
            return 0.0
        kernel, noise = self.best[1]
        large = self.stats.squares.sum() + kernel.prior_variance * self.stats.weight
        return 1e-14 * float(large) / noise

    def slope(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient at a point."""
        bound = self.bound(self.decode(theta))
        gradient = bound.gradient[[*self.free, len(self.kernel.parameters)]]
        return self.value(bound), gradient


def maximise(objective: Objective, start: State, settings: LBFGS) -> Report:
    """Climb from ``start``; ``objective.best`` holds the best state, whatever happens."""
    begin = time.perf_counter()
    theta = objective.encode(start)
    before = objective.evaluations
    value, gradient = objective.slope(theta)
    # In these units the first step, along the gradient, changes parameters by about e.
    unit = max(float(np.abs(gradient).max()), 1e-6 * abs(value), 1e-12)
    report = Report()

    def scaled(theta: Array) -> tuple[float, Array]:
        value, gradient = objective.slope(theta)
        return -value / unit, -gradient / unit

    try:
        while True:
            before_this = objective.best[0]
            result = minimize(
                scaled,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=objective.limits,
                options={
                    "maxiter": settings.max_iterations,
                    "ftol": max(settings.tolerance / max(unit, abs(value)), 1e-15),
                    "gtol": 1e-3 * settings.tolerance / unit,
                    "maxls": 30,
                },
            )
            report.converged = bool(result.success)
            report.message = "converged" if report.converged else _plain_words(result)
            if result.status != 2 or objective.best[1] is None:
                break
            # A line search found nothing better: begin afresh from the best state, and if
            # that gains no more than rounding of the objective, this is as far as it goes.
            if objective.best[0] - before_this <= max(settings.tolerance, objective.rounding()):
                report.converged, report.message = True, "converged"
                break
            theta = objective.encode(objective.best[1])
    except KeyboardInterrupt:
        report.interrupt()
    reached = max([value, *objective.trace[before:]])
    if reached == objective.best[0] and objective.best[1] is not None:
        theta = objective.encode(objective.best[1])
        low, high = np.array(objective.limits).T
        at_bounds = (np.minimum(theta - low, high - theta) < 1e-6) & (low < high)
        report.at_bounds = [n for n, yes in zip(objective.names, at_bounds, strict=True) if yes]
    report.objective = reached
    report.evaluations = objective.evaluations - before
    report.seconds = time.perf_counter() - begin
    report.trace = list(objective.trace)
    return report


def _plain_words(result) -> str:
    if result.nit >= 1 and "ITERATIONS" in str(result.message).upper():
        return f"stopped after {result.nit} iterations; raise LBFGS(max_iterations=...)"
    return (
        "stopped early, because no better state was found along the gradient; the best state is "
        "kept. Where y has a large mean, add Constant() to the kernel; where it has no noise, give "
        "a noise_variance with optimizer=None"
    )
