"""Training models of several inputs: what it ends with, what it says of that, what it costs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern32, Matern52
from asvgp.field import engine
from asvgp.inference import effects


def test_inputs_without_effect_do_not_spoil_a_fine_basis():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1000, 3))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    kernel = Matern52(dim=0) + Matern52(dim=1) + Matern52(dim=2)
    few, many = (GPRegressor(kernel, num_basis=n).fit(X, y) for n in (30, 100))
    # Their lengths end far beyond the domain, where 100 splines could not be told apart.
    assert min(many.kernel_.values[2::2]) > 5.0
    assert many.elbo_ > few.elbo_ - 1.0
    assert many.noise_variance_ == pytest.approx(0.01, rel=0.1)
    assert many.num_basis_[0] == 100
    np.testing.assert_allclose(many.predict(X[:50]), few.predict(X[:50]), atol=0.05)


# ---------------------------------------------------------------- nothing is factored twice


def counted(monkeypatch, module, name: str) -> list:
    """Calls of a function, from now on."""
    calls, original = [], getattr(module, name)

    def wrapped(*arguments, **options):
        calls.append(name)
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, wrapped)
    return calls


def test_the_upper_bound_waits_until_it_is_asked_for(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (300, 2))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    factors = counted(monkeypatch, engine, "CpuFactor")
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1)
    gp = GPRegressor(kernel, num_basis=12, noise_variance=0.01, optimizer=None).fit(X, y)
    mean, std = gp.predict(X[:5], return_std=True)
    assert np.isfinite([gp.elbo_, *std]).all()
    assert len(factors) == 1  # the bound's is the posterior's
    again = pickle.loads(pickle.dumps(gp))
    upper = gp.evidence_upper_bound_
    assert len(factors) == 2
    assert gp.elbo_ < upper == gp.evidence_upper_bound_ == gp.resolution_[-1].upper_bound
    assert len(factors) == 2
    assert again.evidence_upper_bound_ == upper
    np.testing.assert_array_equal(gp.predict(X[:5]), mean)


def test_the_posterior_is_what_training_factored_last(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (300, 2))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    factors = counted(monkeypatch, engine, "CpuFactor")
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=12).fit(X, y)
    assert len(factors) <= gp.optimization_.evaluations + 1


def test_effects_of_a_line_are_estimated_once(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 300)
    y = np.sin(x) + 5.0 + 0.1 * rng.standard_normal(300)
    estimates = counted(monkeypatch, effects, "_estimate")
    gp = GPRegressor(Matern32() + Constant(), num_basis=40, noise_variance=0.01, optimizer=None)
    gp.fit(x, y)
    assert gp.elbo_ < 1e3
    assert len(estimates) == 1
    assert gp.elbo_ < gp.evidence_upper_bound_ == gp.resolution_[-1].upper_bound
    assert len(estimates) == 2
