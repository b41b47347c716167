"""L-BFGS on the logarithms of the free hyperparameters.

Where it is known about how much the data tell of each, that is the curvature to begin with, and
all of BFGS's matrix is kept: climbs are then several times shorter, and end nearer to the top.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from asvgp.basis import Array
from asvgp.policies import SERIES
from asvgp.runtime.interrupts import TimeIsUp

if TYPE_CHECKING:
    from asvgp.training.objective import Objective
    from asvgp.training.problem import State


_LONGEST = 1.5  # [log-hyperparameter] of a step of BFGS: curvatures change over longer ones
_SHORTENINGS = 12  # of a step that gains nothing, at most


@dataclass(frozen=True)
class LBFGS:
    """Settings of the optimiser: L-BFGS, or BFGS where the data suggest a curvature.

    Parameters
    ----------
    max_iterations : int
        Limit on the iterations at each resolution.
    tolerance : float
        Stop when an iteration gains less than this many nats.
    restarts : int
        Number of further starting points to train from; the best result is kept, and is never
        worse than without them.

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
        True if Ctrl-C ended training, or the end of its time.
    out_of_time : bool
        True if it was the latter.
    at_bounds : list of str
        Hyperparameters that ended on a bound.
    notes : list of str
        Notes for the user about the result.
    findings : list of str
        What a summary says about the likelihood; of models from files, also about bands that
        reach below zero.
    missing_code : str
        What looks like a code for missing values among the targets, in words; empty if nothing.
    trace : list of float
        Objective at every evaluation at the final resolution.
    met : bool
        True if the climb ended early below the end of an earlier one.
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
    met: bool = False
    out_of_time: bool = False
    findings: list[str] = field(default_factory=list)
    missing_code: str = ""

    def interrupt(self, by: KeyboardInterrupt | None = None) -> None:
        """Record that Ctrl-C ended training, or the end of its time."""
        self.converged, self.interrupted = False, True
        self.out_of_time = isinstance(by, TimeIsUp)
        why = str(by) if self.out_of_time else "interrupted"
        self.message = f"{why}; the best state so far is kept"

    def __str__(self) -> str:
        text = f"{self.message} ({self.evaluations} evaluations, {self.seconds:.2f} s)"
        if self.at_bounds:
            text += f"; at a bound: {', '.join(self.at_bounds)}"
        return "; ".join([text, *self.notes])


@dataclass(frozen=True, eq=False)
class Summit:
    """Where a climb ended, for later ones that come to the same slopes."""

    theta: Array
    value: float
    information: Array  # about minus the second derivatives of the objective there

    @classmethod
    def of(cls, objective: Objective) -> Summit | None:
        """Return the best state of an objective; None where its curvature is not known."""
        value, state = objective.best
        if state is None:
            return None
        theta = objective.encode(state)
        information = objective.curvature(theta)
        return None if information is None else cls(theta, value, information)

    def is_above(self, objective: Objective, theta: Array, value: float, gradient: Array) -> bool:
        """Return True if a climb from a point would end here.

        The data hardly tell the two apart, and the straight way up to here has no valley.
        """
        way = self.theta - theta
        apart = 0.5 * float(way @ self.information @ way)
        if not (value < self.value and apart < SERIES.same_slopes and float(gradient @ way) > 0.0):
            return False
        middle = objective.value_at(objective.decode(theta + 0.5 * way))
        return middle >= 0.5 * (value + self.value)


def maximise(
    objective: Objective, start: State, settings: LBFGS, summit: Summit | None = None
) -> Report:
    """Climb from a state; ``objective.best`` holds the best one, whatever happens.

    With the ``summit`` of an earlier climb, this one may end where it is certain to end there,
    too. A start where P cannot be factored, or where its gradient is unknown, is an error.
    """
    begin = time.perf_counter()
    theta = objective.encode(start)
    before = objective.evaluations
    value, _ = objective.slope(theta)
    if failure := objective.failures.get(objective.decode(theta)):
        raise failure
    report = Report()
    try:
        curvature = objective.curvature(theta)
        if curvature is None:
            _limited(objective, theta, settings, report)
        else:
            _whole(objective, theta, curvature, settings, report, summit)
    except KeyboardInterrupt as stop:
        report.interrupt(stop)
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


def _limited(objective: Objective, theta: Array, settings: LBFGS, report: Report) -> None:
    """Climb by L-BFGS from a point, and report how it ended."""
    value, gradient = objective.slope(theta)
    # In these units the first step, along the gradient, changes parameters by about e.
    unit = max(float(np.abs(gradient).max()), 1e-6 * abs(value), 1e-12)

    def scaled(theta: Array) -> tuple[float, Array]:
        value, gradient = objective.slope(theta)
        return -value / unit, -gradient / unit

    while True:
        before = objective.best[0]
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
        at_limit = result.nit >= 1 and "ITERATIONS" in str(result.message).upper()
        report.message = "converged" if report.converged else _plain_words(result.nit, at_limit)
        if result.status != 2 or objective.best[1] is None:
            break
        # A line search found nothing better: begin afresh from the best state, and if
        # that gains no more than rounding of the objective, this is as far as it goes.
        if objective.best[0] - before <= max(settings.tolerance, objective.rounding()):
            report.converged, report.message = True, "converged"
            break
        theta = objective.encode(objective.best[1])


def _whole(
    objective: Objective,
    theta: Array,
    curvature: Array,
    settings: LBFGS,
    report: Report,
    summit: Summit | None,
) -> None:
    """Climb by BFGS, with the curvature that the data suggest to begin with."""
    low, high = np.array(objective.limits).T
    value, gradient = objective.slope(theta)
    curvature, fresh = _regular(curvature), True
    report.converged, report.message = True, "converged"
    for _ in range(settings.max_iterations):
        free = ~(((theta <= low) & (gradient < 0.0)) | ((theta >= high) & (gradient > 0.0)))
        step = np.zeros_like(theta)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        if 0.5 * float(gradient @ step) < settings.tolerance:  # what the best step would gain
            break
        step *= min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        found = _along(objective, theta, value, gradient, step)
        if found is None:
            if fresh:
                # what is left to gain is rounding, or the curvature is of no use here
                if 0.5 * float(gradient @ step) > max(settings.tolerance, objective.rounding()):
                    _limited(objective, theta, settings, report)
                break
            curvature, fresh = _regular(objective.curvature(theta)), True
            continue
        moved, reached, slope = found
        curvature, fresh = updated(curvature, moved - theta, gradient - slope), False
        objective.learnt(moved - theta, gradient - slope)
        gain, theta, value, gradient = reached - value, moved, reached, slope
        if gain < settings.tolerance:
            break
        if summit is not None and summit.is_above(objective, theta, value, gradient):
            report.met = True
            break
    else:
        report.converged = False
        report.message = _plain_words(settings.max_iterations, True)


def _regular(curvature: Array | None) -> Array:
    """Return a curvature of at least one nat per unit squared along all directions."""
    assert curvature is not None
    return curvature + np.eye(len(curvature))


def _along(
    objective: Objective, theta: Array, value: float, gradient: Array, step: Array
) -> tuple[Array, float, Array] | None:
    """Return the first better point along a step inside the limits, with value and gradient."""
    low, high = np.array(objective.limits).T
    for _ in range(_SHORTENINGS):
        moved = np.clip(theta + step, low, high)
        expected = float(gradient @ (moved - theta))
        if not expected > 0.0:
            return None
        state = objective.decode(moved)
        reached = objective.value_at(state)
        if reached >= value + 1e-4 * expected:
            return moved, *objective.slope_at(state)
        # the top of the parabola through both values
        step = step * np.clip(0.5 * expected / (expected + value - reached), 0.1, 0.5)
    return None


def updated(curvature: Array, step: Array, change: Array) -> Array:
    """Return the curvature that a change of the gradient over a step shows, damped by Powell."""
    before = curvature @ step
    along = float(step @ before)
    shown = float(step @ change)
    if shown < 0.2 * along:
        share = 0.8 * along / (along - shown)
        change = share * change + (1.0 - share) * before
        shown = float(step @ change)
    out = curvature - np.outer(before, before) / along + np.outer(change, change) / shown
    return 0.5 * (out + out.T)


def _plain_words(iterations: int, at_limit: bool) -> str:
    if at_limit:
        return f"stopped after {iterations} iterations; raise LBFGS(max_iterations=...)"
    return (
        "stopped early, because no better values were found along the gradient; the best ones are "
        "kept. If y has a large mean, add Constant() to the kernel; if it has no noise, give a "
        "noise_variance with optimizer=None"
    )
