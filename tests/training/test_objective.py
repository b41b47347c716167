"""The objective of training: states at which P cannot be factored, sums of engines, prices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from asvgp import LBFGS, Matern32
from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound
from asvgp.model.chain import ChainEngine
from asvgp.model.engine import Engine
from asvgp.model.grid import GridEngine
from asvgp.model.plan import Plan
from asvgp.statistics import Statistics
from asvgp.training.climb import climb, ranked
from asvgp.training.fit import train
from asvgp.training.nearby import Nearby, field_limits
from asvgp.training.objective import Objective
from asvgp.training.optimise import Report, maximise
from asvgp.training.problem import Problem, State
from asvgp.training.schedule_line import LineSchedule, line_limits

CELLS = 12


class Brittle:
    """An engine that cannot factor P at lengthscales above a limit."""

    def __init__(self, engine: Engine, limit: float):
        self.engine, self.limit, self.failed = engine, limit, 0
        self.kernel, self.statistics = engine.kernel, engine.statistics
        self.size, self.outputs = engine.size, engine.outputs

    def factor(self, kernel: Kernel, likelihood, remember: bool = True):
        if kernel.values[0] > self.limit:
            self.failed += 1
            raise np.linalg.LinAlgError("P is not positive definite")
        return self.engine.factor(kernel, likelihood, remember)

    def with_statistics(self, statistics):
        return Brittle(self.engine.with_statistics(statistics), self.limit)


class NoGradient(Brittle):
    """An engine that factors P everywhere, but has no gradient at lengthscales above a limit."""

    def factor(self, kernel: Kernel, likelihood, remember: bool = True) -> Any:
        factored = self.engine.factor(kernel, likelihood, remember)
        return factored if kernel.values[0] <= self.limit else _WithoutForms(factored, self)


class _WithoutForms:
    def __init__(self, factored, owner: NoGradient):
        self.factored, self.owner = factored, owner

    def __getattr__(self, name: str):
        return getattr(self.factored, name)

    def forms(self):
        self.owner.failed += 1
        raise np.linalg.LinAlgError("Too few digits of the gradient")


def line(objective: str = "elbo"):
    """Problem, engine and limits of one input."""
    x = np.random.default_rng(0).uniform(0.0, 1.0, 200)
    y = np.sin(9.0 * x) + 0.1 * np.random.default_rng(1).standard_normal(200)
    problem = Problem(Matern32(0.2), Gaussian(), 2, objective, LBFGS())
    stats = Statistics.from_data(x, y, Grid(0.0, 1.0, CELLS), 2)
    return problem, ChainEngine(problem.kernel, stats, 2), line_limits(problem, stats, stats)


def field(objective: str = "elbo"):
    """Problem, engine and limits of two inputs."""
    X = np.random.default_rng(0).uniform(0.0, 1.0, (300, 2))
    y = np.sin(6.0 * X[:, 0]) * np.cos(5.0 * X[:, 1])
    y += 0.1 * np.random.default_rng(1).standard_normal(300)
    grids = (Grid(0.0, 1.0, CELLS),) * 2
    plan = Plan((0, 1), grids, (2, 2), (0,), ((2, 2),), ((0, 0),))
    kernel = Matern32(0.2, dim=0) * Matern32(0.2, dim=1)
    problem = Problem(kernel, Gaussian(), (2, 2), objective, LBFGS())
    stats = Statistics.from_data(X, y, grids, (2, 2))
    scatter = Nearby.of(kernel, plan, stats).scatter
    return problem, GridEngine(kernel, plan, stats), field_limits(problem, plan, stats, scatter)


def states(kernel: Kernel, lengths) -> list[State]:
    """The kernel with several lengthscales."""
    name = kernel.parameters[0]
    return [State(kernel.replace_free({name: length}), Gaussian(0.05)) for length in lengths]


@pytest.mark.parametrize("model", [line, field])
class TestUnfactorable:
    def test_it_is_left_out_of_the_ranking(self, model):
        problem, engine, limits = model()
        objective = Objective(problem, [Brittle(engine, 0.5)], limits)
        order = ranked(objective, states(problem.kernel, (2.0, 0.1, 0.3)))
        assert len(order) == 2
        assert all(state.kernel.values[0] < 0.5 for state in order)
        assert objective.evaluations == 2

    def test_training_ends_at_a_state_that_can_be_factored(self, model):
        problem, engine, limits = model()
        free = Objective(problem, [engine], limits)
        (start,) = states(problem.kernel, (0.1,))
        maximise(free, start, problem.settings)
        assert free.best[1] is not None
        limit = 0.9 * free.best[1].kernel.values[0]
        brittle = Brittle(engine, limit)
        objective = Objective(problem, [brittle], limits)
        state, report = climb(objective, [start], problem.settings, 1, Report())
        assert brittle.failed
        assert state.kernel.values[0] <= limit
        assert np.isfinite(report.objective)
        assert report.objective < free.best[0]

    def test_it_is_worse_than_all_that_are_known(self, model):
        problem, engine, limits = model()
        objective = Objective(problem, [Brittle(engine, 0.5)], limits)
        good, bad = states(problem.kernel, (0.2, 2.0))
        known = objective.value(objective.bound(good))
        failed = objective.bound(bad)
        assert objective.value(failed) < known
        assert not failed.gradient.any()

    def test_it_is_an_error_where_there_is_nothing_else(self, model):
        problem, engine, limits = model()
        objective = Objective(problem, [Brittle(engine, 0.01)], limits)
        starts = states(problem.kernel, (0.1, 0.2))
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            climb(objective, starts, problem.settings, 1, Report())

    def test_a_start_without_a_gradient_gives_way_to_the_next(self, model):
        """Its value alone may be the best of all starts, and no climb begins there."""
        problem, engine, limits = model()
        short, best = states(problem.kernel, (0.05, 0.25))
        free = Objective(problem, [engine], limits)
        assert free.value_at(best) > free.value_at(short)
        brittle = NoGradient(engine, 0.2)
        objective = Objective(problem, [brittle], limits)
        state, report = climb(objective, [short, best], problem.settings, 1, Report())
        assert brittle.failed
        assert state.kernel.values[0] <= 0.2
        reached = lower_bound(engine.factor(*state)).elbo
        assert report.objective == pytest.approx(reached, abs=1e-8)
        assert objective.value(objective.bound(state)) == pytest.approx(reached, abs=1e-8)
        assert reached > free.value_at(short)

    def test_starts_without_gradients_are_an_error(self, model):
        problem, engine, limits = model()
        objective = Objective(problem, [NoGradient(engine, 0.01)], limits)
        with pytest.raises(np.linalg.LinAlgError, match="digits of the gradient"):
            climb(objective, states(problem.kernel, (0.1, 0.2)), problem.settings, 1, Report())


@pytest.mark.parametrize("model", [line, field])
def test_a_gradient_after_the_value_takes_no_other_factorisation(model, monkeypatch):
    problem, engine, limits = model()
    (state,) = states(problem.kernel, (0.2,))
    expected = lower_bound(engine.factor(*state))
    objective, factored = Objective(problem, [engine], limits), []
    factor = engine.factor
    monkeypatch.setattr(engine, "factor", lambda *at: (factored.append(at), factor(*at))[1])
    value = objective.value_at(state)
    np.testing.assert_allclose(objective.bound(state).gradient, expected.gradient)
    assert value == pytest.approx(expected.elbo)
    assert len(factored) == objective.evaluations == 1


@pytest.mark.parametrize("model", [line, field])
@pytest.mark.parametrize("kind", ["elbo", "evidence"])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_slope_is_the_derivative(model, kind, parts):
    """Of the sum over engines, in units of the step, the price included."""
    problem, engine, limits = model(kind)
    price = None
    if kind == "evidence" and isinstance(engine, GridEngine):
        price = Nearby(0.01, (0.01, 0.01)).price(problem.kernel, engine.plan, 1)
        assert price.prices.any()
    objective = Objective(problem, [engine] * parts, limits, price, step=0.5)
    theta = objective.encode(State(problem.kernel, Gaussian(0.02)))
    _, slope = objective.slope(theta)
    for i in range(len(theta)):
        shift = 1e-4 * np.eye(len(theta))[i]
        high, low = objective.slope(theta + shift)[0], objective.slope(theta - shift)[0]
        assert slope[i] == pytest.approx((high - low) / 2e-4, rel=1e-5, abs=1e-5)


@dataclass(frozen=True)
class Fixed(Gaussian):
    """Noise that is no parameter."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return ()

    @property
    def values(self) -> Array:
        return np.empty(0)

    def with_values(self, values: Array) -> Fixed:
        assert not len(values)
        return self

    def limits(self, least: float, most: float) -> list[tuple[float, float]]:
        return []


@dataclass(frozen=True)
class Scaled(Gaussian):
    """Noise with a second parameter."""

    scale: float = 1.0

    @property
    def parameters(self) -> tuple[str, ...]:
        return "noise variance", "scale"

    @property
    def values(self) -> Array:
        return np.array([self.noise, self.scale])

    def with_values(self, values: Array) -> Scaled:
        return Scaled(*values)

    def limits(self, least: float, most: float) -> list[tuple[float, float]]:
        return [(least, most), (0.1, 10.0)]


def test_a_likelihood_without_parameters_stays_as_it_is():
    problem, engine, _ = line()
    problem = replace(problem, likelihood=Fixed(0.05), from_user=True)
    trained = train(LineSchedule(problem, engine.statistics, auto=False))
    assert trained.state.likelihood == Fixed(0.05)
    assert trained.report.converged
    assert trained.bound.elbo > lower_bound(engine.factor(problem.kernel, Fixed(0.05))).elbo


def test_a_likelihood_may_have_several_parameters():
    problem, engine, _ = line()
    problem, stats = replace(problem, likelihood=Scaled(0.05, 2.0)), engine.statistics
    objective = Objective(problem, [engine], line_limits(problem, stats, stats))
    assert objective.names[-2:] == ["noise variance", "scale"]
    theta = objective.encode(State(problem.kernel, problem.likelihood))
    failed = objective._failed(objective.decode(theta), np.linalg.LinAlgError())
    assert len(theta) == len(failed.gradient) == len(problem.kernel.parameters) + 2
    np.testing.assert_allclose(objective.decode(theta).likelihood.values, (0.05, 2.0))
