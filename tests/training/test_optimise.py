"""Climbing with the curvature that the data suggest, beside climbing without it."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import SHO, Constant, Matern32
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model.exact import ExactEngine
from asvgp.statistics import Statistics
from asvgp.training.climb import climb
from asvgp.training.objective import Objective
from asvgp.training.optimise import LBFGS, Report, Summit, _regular, maximise, updated
from asvgp.training.problem import Problem, State

KERNEL = Matern32(10.0) + SHO(12.0, 5.0) + Constant()


@pytest.fixture(scope="module")
def engine() -> ExactEngine:
    rng = np.random.default_rng(0)
    x = np.delete(np.arange(160.0), [7, 8, 90])
    y = np.sin(x / 12.3 * 2.0 * np.pi) + np.sin(x / 25.0) + 0.3 * rng.standard_normal(len(x))
    columns = np.ones((len(x), 1))
    stats = Statistics.from_data(x, y, Grid(-0.5, 159.5, 160), 3, covariates=columns)
    return ExactEngine(KERNEL, stats)


def climbed(engine: ExactEngine, settings: LBFGS, known: bool, quality: float = 1e4):
    objective = objective_of(engine, settings, known, quality)
    return objective, maximise(objective, State(KERNEL, Gaussian(1.0)), settings)


def objective_of(engine: ExactEngine, settings: LBFGS, known: bool, quality: float = 1e4):
    likelihood = Gaussian(1.0)
    problem = Problem(KERNEL, likelihood, 3, "elbo", settings)
    limits = np.log(
        [(1.0, 1e3), (1e-4, 1e4), (6.0, 24.0), (0.1, quality), (1e-4, 1e4), (1e-4, 9.0)]
    )
    information = engine.information if known else None
    return Objective(problem, [engine], [tuple(pair) for pair in limits], information=information)


def test_the_top_is_the_same_and_reached_sooner(engine):
    settings = LBFGS(tolerance=1e-5)
    (_, plain), (objective, quick) = (climbed(engine, settings, known) for known in (False, True))
    assert quick.converged
    assert quick.objective > plain.objective - 1e-3
    assert quick.evaluations < plain.evaluations
    best = objective.best[1]
    assert best is not None
    theta = objective.encode(best)
    _, gradient = objective.slope(theta)
    curvature = objective.curvature(theta)
    assert curvature is not None
    free = np.array([name not in quick.at_bounds for name in objective.names])
    left = gradient[free] @ np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
    assert left < 1e-3


def test_limits_hold_and_are_named(engine):
    objective, report = climbed(engine, LBFGS(), True, quality=7.0)
    best = objective.best[1]
    assert best is not None
    assert best.kernel.values[3] <= 7.0 * (1.0 + 1e-12)
    assert report.at_bounds == ["2.quality"]


def test_the_number_of_iterations_is_limited(engine):
    _, report = climbed(engine, LBFGS(max_iterations=2), True)
    assert not report.converged
    assert "after 2 iterations" in report.message


@pytest.mark.parametrize("along", [2.0, 1e-3, 0.0, -5.0])
def test_an_updated_curvature_is_that_of_the_step_and_stays_positive(along):
    """Along the step it is what the gradients show, unless that is too little or negative."""
    rng = np.random.default_rng(1)
    root, step = rng.standard_normal((4, 4)), rng.standard_normal(4)
    before = root @ root.T + np.eye(4)
    change = along * before @ step + 0.01 * rng.standard_normal(4)
    after = updated(before, step, change)
    assert np.linalg.eigvalsh(after)[0] > 0.0
    if along == 2.0:
        np.testing.assert_allclose(after @ step, change, rtol=1e-9)
    else:
        assert step @ after @ step == pytest.approx(0.2 * step @ before @ step, rel=1e-9)


def test_a_curvature_that_knows_nothing_of_a_direction_is_made_regular():
    assert np.linalg.eigvalsh(_regular(np.zeros((3, 3)))).tolist() == [1.0, 1.0, 1.0]


class Curve:
    """A function of one number, in place of an objective."""

    def __init__(self, function):
        self.value_at = function

    def decode(self, theta):
        return float(theta[0])


def above(function, at: float, top: float, information: float) -> bool:
    theta, step = np.array([at]), 1e-6
    slope = (function(at + step) - function(at - step)) / (2.0 * step)
    summit = Summit(np.array([top]), function(top), np.array([[information]]))
    return summit.is_above(Curve(function), theta, function(at), np.array([slope]))


def test_a_summit_is_above_its_own_slopes_alone():
    """Not above what is higher, what data tell apart, what falls first, or beyond a valley."""

    def hill(t):
        return -0.5 * t**2

    assert above(hill, -1.0, 0.0, 1.0)
    assert not above(hill, -1.0, 0.0, 100.0)  # the data tell them apart
    assert not above(hill, 0.5, 1.0, 1.0)  # higher than the summit

    def two(t):
        return -((t**2 - 1.0) ** 2) + 0.5 * t

    assert not above(two, -1.3, 1.0, 0.1)  # goes up, to another top first
    assert not above(two, -0.7, 1.0, 0.1)  # goes down first
    assert above(two, 0.6, 1.0, 0.1)


def test_a_climb_to_the_same_top_is_left_below_it(engine):
    """Two starts of one hill: the better top is kept, and the second climb is shorter."""
    settings, other = LBFGS(tolerance=1e-3), Matern32(20.0) + SHO(12.5, 50.0) + Constant()
    starts = [State(kernel, Gaussian(0.5)) for kernel in (KERNEL, other)]
    found = {}
    for agreement in (0.0, 0.1):
        objective = objective_of(engine, settings, True)
        state, report = climb(objective, starts, settings, 2, Report(), agreement=agreement)
        assert state == objective.best[1]
        assert report.converged
        found[agreement] = report
    assert found[0.1].evaluations < found[0.0].evaluations
    assert found[0.1].objective > found[0.0].objective - 0.1


def test_a_higher_top_is_climbed_to_the_end(engine):
    """A summit that stands lower, or elsewhere, changes nothing."""
    settings = LBFGS(tolerance=1e-3)
    objective, plain = climbed(engine, settings, True)
    summit = Summit.of(objective)
    assert summit is not None
    lower = Summit(summit.theta, summit.value - 5.0, summit.information)
    far = Summit(summit.theta + 2.0, summit.value + 5.0, summit.information)
    start = State(KERNEL, Gaussian(1.0))
    for other in (lower, far):
        report = maximise(objective_of(engine, settings, True), start, settings, other)
        assert not report.met
        assert report.objective == pytest.approx(plain.objective, abs=1e-9)
