"""Random models against one dense Gaussian process; ``python -m tests.oracle`` runs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asvgp import SHO, Matern, Matern32, Matern52, Matern72, Periodic
from tests.oracle.compare import check, reproducer
from tests.oracle.models import Model, make
from tests.oracle.processes import Atoms, Process

SPAN = 20
LINE = Model(3, 40, "10.0 * rng.uniform(size=n)", "np.sin(X)", 0.1, ("Matern52(2.0, 1.5)",))


@pytest.mark.parametrize("first", range(0, 160, SPAN))
def test_random_models_agree_with_a_dense_process(first):
    """Compare bounds, moments, components, derivatives, integrals and rows left out."""
    outcomes = [check(seed) for seed in range(first, first + SPAN)]
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    assert not wrong, "\n\n".join(outcome.report() for outcome in wrong)
    compared = [outcome for outcome in outcomes if not outcome.refused]
    assert len(compared) >= 0.75 * SPAN
    assert sum(outcome.checked for outcome in compared) > 30 * len(compared)


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": 0.11},
        {"parts": ("Matern52(2.1, 1.5)",)},
        {"parts": ("Matern52(2.0, 1.5)", "Matern12(1.0, 0.01)")},
        {"effects": ("Constant(variance=0.1)",)},
        {"weights": "np.full(n, 1.1)"},
        {"transform": "log"},
    ],
    ids=repr,
)
def test_the_oracle_notices_a_slightly_different_model(wrong, monkeypatch):
    """Fit one model and compare it with the dense twin of another."""
    model = replace(LINE, num_basis="300")
    assert not check(model).wrong
    fitted, other = model.run(), replace(model, **wrong)
    claimed = replace(other, num_basis="'auto'").run()
    monkeypatch.setattr(type(claimed["gp"]), "kernel_", claimed["gp"].kernel_)
    monkeypatch.setattr(Model, "run", lambda self: {**claimed, "gp": fitted["gp"]})
    assert check(other).wrong


def test_a_reproducer_is_a_small_program(monkeypatch):
    """Break the noise of every fit, and shrink the first model that shows it."""
    whole = Model.run

    def broken(self):
        made = whole(replace(self, noise=1.3 * self.noise))
        made["y"] = whole(self)["y"]
        return made

    monkeypatch.setattr(Model, "run", broken)
    model = replace(LINE, effects=("Constant(variance=2.0)",), weights="rng.uniform(1, 2, n)")
    text = reproducer(check(model))
    assert "weights" not in text
    assert "Constant" not in text
    assert len(text.splitlines()) <= 10
    variables: dict = {}
    monkeypatch.undo()
    exec("\n".join(text.splitlines()[1:]), variables)
    assert variables["n"] < model.n
    assert np.isfinite(variables["gp"].elbo_)


def test_a_seed_makes_one_model():
    assert make(5) == make(5) != make(6)


KERNELS = [
    Matern72(0.7, 1.3),
    SHO(0.8, 3.0, 1.2),
    SHO(0.8, 0.2, 1.2),
    SHO(0.8, 0.5),
    Periodic(0.6, 0.4, 1.1, nu=2.5, centred=True),
    Periodic(0.6, 0.2, 1.1) * Matern52(2.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_covariances_are_those_of_the_kernel_and_differentiate_and_integrate(kernel):
    process, x, y = Process(kernel), np.array([0.1, 0.5, 0.93]), np.array([-0.3, 0.5, 2.0])
    np.testing.assert_allclose(
        process.covariance(Atoms.at(x), Atoms.at(y)), kernel(x, y), rtol=1e-12, atol=1e-13
    )
    step, at = 1e-5, Atoms.at(y)
    up, down = (process.covariance(Atoms.at(x + s), at) for s in (step, -step))
    slopes = process.covariance(Atoms.at(x, [1]), at)
    np.testing.assert_allclose(slopes, (up - down) / (2 * step), atol=1e-5)
    up, down = (process.covariance(Atoms.at(x, [1]), Atoms.at(y + s)) for s in (step, -step))
    bends = process.covariance(Atoms.at(x, [1]), Atoms.at(y, [1]))
    np.testing.assert_allclose(bends, (up - down) / (2 * step), rtol=3e-3, atol=1e-3)
    nodes = np.linspace(0.0, 1.5, 6001)
    values = np.trapezoid(process.covariance(Atoms.at(nodes), at), nodes, axis=0)
    whole = Atoms.integrals([0.0], [1.5])
    np.testing.assert_allclose(process.covariance(whole, at)[0], values, atol=1e-5)
    values = np.trapezoid(process.covariance(Atoms.at(nodes), whole)[:, 0], nodes)
    np.testing.assert_allclose(process.covariance(whole, whole), values, atol=1e-5)


@pytest.mark.parametrize("rotation", [None, 0.7])
def test_joint_covariances_are_those_of_the_kernel_and_differentiate(rotation):
    kernel = Matern(2.0, (0.7, 1.1), 1.3, dim=(0, 1), rotation=rotation)
    rng = np.random.default_rng(0)
    process, x, y = Process(kernel), rng.uniform(size=(4, 2)), rng.uniform(size=(3, 2))
    at = Atoms.at(y)
    np.testing.assert_allclose(process.covariance(Atoms.at(x), at), kernel(x, y), rtol=1e-10)
    for axis in np.eye(2, dtype=int):
        up, down = (process.covariance(Atoms.at(x + s * axis), at) for s in (1e-5, -1e-5))
        slopes = process.covariance(Atoms.at(x, axis), at)
        np.testing.assert_allclose(slopes, (up - down) / 2e-5, atol=1e-6)
        up, down = (Atoms.at(y + s * axis) for s in (1e-5, -1e-5))
        up, down = (process.covariance(Atoms.at(x, axis), new) for new in (up, down))
        bends = process.covariance(Atoms.at(x, axis), Atoms.at(y, axis))
        np.testing.assert_allclose(bends, (up - down) / 2e-5, atol=1e-5)


def test_averages_are_those_of_fine_points():
    process, x = Process(Matern32(0.4)), np.array([0.0, 0.3, 1.0])
    means = Atoms.averages(x, np.array([0.2, 0.0, 0.5]))
    nodes = (np.arange(2000) + 0.5) / 2000
    fine = process.covariance(Atoms.at(1.0 + 0.5 * nodes), means).mean(axis=0)
    np.testing.assert_allclose(process.covariance(means, means)[2], fine, atol=1e-6)
