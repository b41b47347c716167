"""Training models of several inputs: what it ends with, what it says of that, what it costs."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from asvgp import Constant, GPRegressor, Matern, Matern12, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model import chain
from asvgp.model import devices as engine
from asvgp.policies import FIELD
from asvgp.statistics import Statistics
from asvgp.training import climb, schedule_field
from asvgp.training.optimise import maximise
from asvgp.training.problem import State
from asvgp.training.second_look import other_shapes


def test_inputs_without_effect_do_not_spoil_a_fine_basis():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1000, 3))
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
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


def test_the_posterior_takes_one_factorisation_more_than_training_at_most(monkeypatch):
    """And the bound of the best state one, where training looked elsewhere after it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (300, 2))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    factors = counted(monkeypatch, engine, "CpuFactor")
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=12).fit(X, y)
    assert len(factors) <= gp.optimization_.evaluations + 2


def test_effects_of_a_line_are_estimated_once(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 300)
    y = np.sin(x) + 5.0 + 0.1 * rng.standard_normal(300)
    estimates = counted(monkeypatch, chain, "estimate")
    gp = GPRegressor(Matern32() + Constant(), num_basis=40, noise_variance=0.01, optimizer=None)
    gp.fit(x, y)
    assert gp.elbo_ < 1e3
    assert len(estimates) == 1
    assert gp.elbo_ < gp.evidence_upper_bound_ == gp.resolution_[-1].upper_bound
    assert len(estimates) == 2


# ---------------------------------------------------------------- resolution


def test_few_rows_take_few_cells_and_are_fitted_as_well():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (800, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 3] ** 2 + 0.1 * rng.standard_normal(800)
    many = GPRegressor(Matern32()).partial_fit(X, y)
    assert [grid.cells for grid, _ in many.stats_.smooths] == [256] * 4
    X, y = X[:150], y[:150]
    gp = GPRegressor(Matern32()).fit(X, y)
    assert [grid.cells for grid, _ in gp.stats_.smooths] == [64] * 4
    tried = [level.num_basis for level in gp.resolution_]
    assert len(set(tried)) == len(tried)  # not in circles
    assert gp.num_basis_ == tried[-1]

    def covariance(A, B):
        parts = [part.replace(dim=None) for part in gp.kernel_.components]
        return sum(part(A[:, d], B[:, d]) for d, part in enumerate(parts))

    full = covariance(X, X) + gp.noise_variance_ * np.eye(len(y))
    evidence = -0.5 * (y @ np.linalg.solve(full, y) + np.linalg.slogdet(2 * np.pi * full)[1])
    assert evidence - 6.0 < gp.elbo_ <= evidence <= gp.evidence_upper_bound_
    new = rng.uniform(-1.0, 1.0, (50, 4))
    cross = covariance(new, X)
    mean, std = gp.predict(new, return_std=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(full, y), atol=0.02)
    variance = np.diag(covariance(new, new) - cross @ np.linalg.solve(full, cross.T))
    # What the splines miss of the prior is added: never too sure.
    assert np.all((std > 0.99 * variance**0.5) & (std < 1.35 * variance**0.5))


# ---------------------------------------------------------------- what is said of it


def hilly():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (500, 2))
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.1 * rng.standard_normal(500)


def test_a_failed_search_at_the_end_is_not_hidden(monkeypatch):
    monkeypatch.setattr(schedule_field, "FIELD", replace(FIELD, dear_functions=1))

    def failing(*arguments):
        report = maximise(*arguments)
        report.converged, report.message = False, "stopped early, because"
        return report

    monkeypatch.setattr(climb, "maximise", failing)
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=12)
    with pytest.warns(ConvergenceWarning, match="did not converge: stopped early"):
        gp.fit(*hilly())
    assert not gp.optimization_.converged


@pytest.mark.parametrize("late", [1e3, 0.0])
def test_a_limit_of_iterations_is_judged_by_what_the_last_gained(monkeypatch, late):
    limited = replace(FIELD, dear_functions=1, dear_work=1.0, late_gain=late)  # four iterations
    monkeypatch.setattr(schedule_field, "FIELD", limited)
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=8)
    if late:
        gp.fit(*hilly())
    else:
        with pytest.warns(ConvergenceWarning, match=r"stopped after 4 iterations.*kernel=kernel_"):
            gp.fit(*hilly())
    assert gp.optimization_.converged == bool(late)
    assert "stopped after 4 iterations on the whole field" in gp.optimization_.message


@pytest.mark.parametrize("seed", [0, 2, 9])
def test_a_term_that_is_a_function_of_one_input_alone_is_found(seed):
    """Starts have similar lengths along all inputs: a second look tries others, term by term."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (120, 2))
    true = Matern32(0.25, dim=0) * Matern52(0.12, dim=1)
    true = true + Matern52(0.1, dim=0) * Matern12(50.0, dim=1)
    root = np.linalg.cholesky(true(X, X) + 1e-8 * np.eye(len(X)))
    y = root @ rng.standard_normal(len(X)) + 0.3 * rng.standard_normal(len(X))
    unset = Matern32(dim=0) * Matern52(dim=1) + Matern52(dim=0) * Matern12(dim=1)
    found = GPRegressor(unset, num_basis=12).fit(X, y)
    known = GPRegressor(true, num_basis=12, noise_variance=0.09).fit(X, y)
    assert found.elbo_ > known.elbo_ - 1e-3 * len(X)


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_a_second_look_gives_terms_a_part_of_the_noise(weight):
    """A term of much variance is tried with both; one that has less, with the noise's only."""
    rng = np.random.default_rng(0)
    X, grids = rng.uniform(0.0, 1.0, (50, 2)), (Grid(0.0, 1.0, 4), Grid(0.0, 1.0, 4))
    stats = Statistics.from_data(X, rng.standard_normal(50), grids, (2, 2), np.full(50, weight))
    noise, lengths = 0.2, [*FIELD.look_short, FIELD.look_long]  # of a domain of length one
    now, little = lengths.pop(), FIELD.look_noise * noise
    kernel = Matern32(now, 1.0, dim=0) + Matern32(now, 1e-6, dim=1)
    state = State(kernel, Gaussian(noise * weight))  # an observation has the same noise
    tried = other_shapes(state, dict(enumerate(grids)), stats)
    values = np.array([each.kernel.values for each in tried])  # lengths and variances by turns
    first = values[:, 0] != now  # none leads back
    assert np.all(values[first, 2:] == [now, 1e-6])
    assert np.all(values[~first, :2] == [now, 1.0])
    both = [(length, part) for length in lengths for part in (little, 1.0)]
    np.testing.assert_allclose(values[first, :2], both)
    np.testing.assert_allclose(values[~first, 2:], [(each, little) for each in (*lengths, now)])


def test_cells_beyond_the_data_follow_lengths_that_outgrow_them():
    """A plane asks for lengths that no first plan has room for."""
    x = np.stack(np.meshgrid(np.arange(16.0), np.arange(16.0)), -1).reshape(-1, 2)
    y = 0.3 * x[:, 0] - 0.2 * x[:, 1] + 0.01 * x.prod(axis=1) + 0.2 * np.sin(x[:, 0])
    y += 0.05 * np.random.default_rng(0).standard_normal(256)
    gp = GPRegressor(Matern(1, 5.0, dim=(0, 1)) + Constant(), objective="evidence")
    with pytest.warns(UserWarning, match="noise variance ended") as said:
        gp.fit(x, y)
    assert len(said) == 1  # no word of too little room
    _, std = gp.predict(x, return_std=True)
    assert std.mean() < np.abs(np.diff(y)).mean()
