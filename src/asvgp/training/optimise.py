"""L-BFGS on the logarithms of the free hyperparameters."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from asvgp.basis import Array

if TYPE_CHECKING:
    from asvgp.training.objective import Objective
    from asvgp.training.problem import State


@dataclass(frozen=True)
class LBFGS:
    """Settings of the optimiser.

    Parameters
    ----------
    max_iterations : int
        Limit on the iterations at each resolution.
    tolerance : float
        Stop when an iteration gains less than this many nats.
    restarts : int
        Number of further starting points to train from; the best result is kept.

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
    """Outcome of training.

    Attributes
    ----------
    converged : bool
    message : str
        How training ended, in words.
    evaluations : int
        Number of bounds and gradients computed, over all resolutions and starts.
    objective : float
        Value reached, in nats.
    seconds : float
    interrupted : bool
        True if Ctrl-C ended training.
    at_bounds : list of str
        Hyperparameters that ended on a bound.
    notes : list of str
        Notes for the user about the result.
    trace : list of float
        Objective at every evaluation at the final resolution.
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
        """Record that Ctrl-C ended training."""
        self.converged, self.interrupted = False, True
        self.message = "interrupted; the best state so far is kept"

    def __str__(self) -> str:
        text = f"{self.message} ({self.evaluations} evaluations, {self.seconds:.2f} s)"
        if self.at_bounds:
            text += f"; at a bound: {', '.join(self.at_bounds)}"
        return "; ".join([text, *self.notes])


def maximise(objective: Objective, start: State, settings: LBFGS) -> Report:
    """Climb from a state; ``objective.best`` holds the best one, whatever happens.

    Where the start has no value, because P cannot be factored, that is an error.
    """
    begin = time.perf_counter()
    theta = objective.encode(start)
    before = objective.evaluations
    value, gradient = objective.slope(theta)
    if value == -np.inf and objective.failure is not None:
        raise objective.failure
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
