"""Training from further starts: never worse than from fewer."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from asvgp import LBFGS, SHO, Constant, GPRegressor, Matern12, Matern32, Periodic
from asvgp.likelihoods import Gaussian
from asvgp.training.optimise import Report
from asvgp.training.problem import Problem
from asvgp.training.restarts import with_restarts

RNG = np.random.default_rng(3)
X = RNG.uniform(0.0, 10.0, 200)
Y = np.sin(3.0 * X) + 0.3 * np.sin(40.0 * X) + 0.1 * RNG.standard_normal(200)
PLANE = RNG.uniform(0.0, 10.0, (150, 2))
HEIGHT = np.sin(PLANE[:, 0]) + np.cos(3.0 * PLANE[:, 1]) + 0.1 * RNG.standard_normal(150)
HOURS = np.arange(400.0)
DAILY = np.sin(2.0 * np.pi * HOURS / 24.0) + 0.1 * RNG.standard_normal(400)
ROUGH = Matern12(1.0, dim=0) * Matern12(1.0, dim=1)
SMOOTH = Matern32(5.0, dim=0) * Matern32(5.0, dim=1)


def result(value: float, interrupted: bool = False):
    report = Report(evaluations=10, seconds=1.0, interrupted=interrupted)
    return SimpleNamespace(elbo=value, evidence=-value, report=report, timings={"training": 1.0})


def problem(objective: str, restarts: int) -> Problem:
    return Problem(Matern32(), Gaussian(), 2, objective, LBFGS(restarts=restarts))


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
@pytest.mark.parametrize("values", [(1.0, 2.0), (2.0, 1.0)])
def test_the_better_of_both_is_kept(objective, values):
    """By the number that was maximised, even where further starts led to a worse end."""

    def train(given):
        return result(values[given.settings.restarts > 0])

    kept = with_restarts(problem(objective, 3), train)
    assert kept.elbo == (max(values) if objective == "elbo" else min(values))
    assert kept.report.evaluations == 20
    assert kept.timings == {"training": 2.0}


def test_without_restarts_there_is_one_training():
    trained = []
    with_restarts(problem("elbo", 0), lambda given: trained.append(given) or result(1.0))
    assert [given.settings.restarts for given in trained] == [0]


def test_an_interrupt_ends_both():
    trained = []
    kept = with_restarts(
        problem("elbo", 2), lambda given: trained.append(given) or result(1.0, interrupted=True)
    )
    assert kept.report.interrupted
    assert len(trained) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("objective", ["elbo", "evidence"])
@pytest.mark.parametrize(
    ("kernel", "x", "y"),
    [
        (Matern32() + Constant(), X, Y),
        (Matern32(2.0) + Matern32(0.1), X, Y),
        (Matern32() + SHO(24.0), HOURS, DAILY),
        (Matern32() + Periodic(24.0), HOURS, DAILY),
        (SMOOTH + ROUGH, PLANE, HEIGHT),
    ],
    ids=["line", "sum", "wave", "season", "field"],
)
def test_more_starts_are_never_worse(kernel, x, y, objective):
    reached = []
    for restarts in (0, 2):
        settings = replace(LBFGS(max_iterations=40), restarts=restarts)
        fitted = GPRegressor(kernel, objective=objective, optimizer=settings).fit(x, y)._fitted()
        reached.append(fitted.elbo if objective == "elbo" else fitted.evidence)
    assert reached[1] >= reached[0] - 1e-6
