"""Variances that holes in the data ask for."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern, Matern32, load
from asvgp.estimators import default_field
from asvgp.likelihoods import Gaussian
from asvgp.training.problem import State
from asvgp.training.sample_evidence import Factor, Model, Sample, Trained, sample_of
from asvgp.training.widening import widened, widening

SIDE, LENGTH, NOISE = 52, 0.15, 0.01
TERM = (Factor((0,), 1.5), Factor((1,), 1.5))


def lattice() -> np.ndarray:
    along = np.linspace(0.0, 1.0, SIDE)
    return np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2)


def field(seed: int) -> np.ndarray:
    """Return a draw of variance one of a product of Matérn-3/2 kernels on the lattice."""
    rng = np.random.default_rng(seed)
    along = np.linspace(0.0, 1.0, SIDE)
    root = np.linalg.cholesky(Matern32(LENGTH)(along, along) + 1e-9 * np.eye(SIDE))
    return (root @ rng.standard_normal((SIDE, SIDE)) @ root.T).ravel()


def at_truth(y: np.ndarray, variance: float) -> tuple[Trained, Sample]:
    """Return the true model of a field of this variance, and a sample of it with noise."""
    noisy = y + NOISE**0.5 * np.random.default_rng(9).standard_normal(len(y))
    sample = sample_of(lattice(), noisy[:, None])
    assert sample is not None
    scaled = np.array([variance, NOISE]) / sample.scale**2
    return Trained(Model((TERM,)), np.log([LENGTH, LENGTH, *scaled]), 0.0, 0.0), sample


@pytest.mark.parametrize("seed", range(3))
def test_bands_of_the_true_model_are_left_alone(seed):
    assert widening(*at_truth(field(seed), 1.0)) == 1.0


@pytest.mark.parametrize("times", [2.0, 3.0])
def test_variances_that_are_too_small_are_left_to_training(times):
    best, sample = at_truth(field(0), 1.0)
    small = best._replace(theta=best.theta - np.log([1.0, 1.0, times, times]))
    assert widening(small, sample) == 1.0


@pytest.mark.parametrize("times", [3.0, 6.0])
def test_variances_that_are_too_small_in_gaps_alone_are_found_to_be(times):
    best, sample = at_truth(field(0), 1.0)
    # The noise, which is most of the error beside other rows, is right.
    short = best._replace(theta=best.theta - np.log([1.0, 1.0, times, 1.0]))
    assert 1.2 < widening(short, sample) < 1.3 * times


def test_few_rows_and_known_noise_tell_nothing():
    best, sample = at_truth(2.0 * field(0), 1.0)
    assert widening(best, sample) > 1.0
    few = sample_of(lattice()[:900], field(0)[:900, None])
    known = sample_of(lattice(), field(0)[:, None], known_noise=True)
    assert few is not None
    assert known is not None
    assert widening(best, few) == widening(best, known) == 1.0


def test_wider_bands_have_the_same_means():
    x, y = lattice()[::7], 3.0 + field(0)[::7]
    kernel = Matern(1, 0.3, 2.0, dim=(0, 1)) + Matern32(0.2, dim=0) * Matern32(0.1, dim=1)
    states = [State(kernel + Constant(), Gaussian(0.1))]
    states.append(widened(states[0], 2.5))
    assert states[1].noise == 0.25
    found = []
    for each in states:
        gp = GPRegressor(each.kernel, num_basis=12, noise_variance=each.noise, optimizer=None)
        found.append(gp.fit(x, y).predict(lattice(), return_std=True))
    (mean, std), (same, wide) = found
    assert np.allclose(mean, same, atol=1e-6)
    assert np.allclose(wide, np.sqrt(2.5) * std, rtol=1e-5)


def test_a_default_has_the_variances_that_holes_ask_for(tmp_path, monkeypatch):
    x, y = lattice()[::9], 3.0 + field(0)[::9]
    plain = GPRegressor().fit(x, y)
    monkeypatch.setattr(default_field, "widening", lambda *_: 2.5)
    wide = GPRegressor().fit(x, y)
    mean, std = plain.predict(lattice(), return_std=True)
    same, wider = wide.predict(lattice(), return_std=True)
    assert np.allclose(mean, same, atol=1e-5)
    assert np.allclose(wider, np.sqrt(2.5) * std, rtol=1e-3)
    assert np.isclose(wide.noise_variance_, 2.5 * plain.noise_variance_)
    assert "variances are 2.5 times those of the highest evidence" in wide.summary().kernel_choice
    wide.save(tmp_path / "field.asvgp", full=True)
    again = load(tmp_path / "field.asvgp")
    assert np.allclose(again.predict(x), wide.predict(x))
    more, usual = (gp.partial_fit(x[:5], y[:5]).kernel_.prior_variance for gp in (again, plain))
    assert 2.0 < more / usual < 3.1  # trained anew, and widened once
