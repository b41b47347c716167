"""Splines of several inputs where data or digits end: what is used, missed, and said of it."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import GPRegressor, Matern32, Matern52
from asvgp.basis import Grid
from asvgp.diagnostics.curvature import standard_errors
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.conditioning import fewer_than_requested, least_noise, wide_deviations
from asvgp.statistics import Statistics
from tests.engines import engine_bound


def smooth(count: int = 800):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (count, 2))
    return X, np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.01 * rng.standard_normal(count)


def test_evidence_does_not_buy_missed_variance_with_long_lengthscales():
    X, y = smooth()
    gp = GPRegressor(Matern52(), objective="evidence").fit(X, y)
    std = gp.predict(X[:200], return_std=True)[1]
    assert std.mean() < 0.012  # 0.04 and more if what is missed costs nothing
    assert gp.noise_variance_ == pytest.approx(1e-4, rel=0.2)
    assert gp.optimization_.objective == gp.evidence_
    assert not gp.optimization_.notes
    assert {row["note"] for row in gp.summary().hyperparameters} <= {"", "off maximum"}


def test_the_gradient_of_missed_variance():
    X, y = smooth(300)
    kernel = Matern52(0.4, 2.0, dim=0) * Matern52(0.7, dim=1)
    gp = GPRegressor(kernel, num_basis=8, noise_variance=0.01, optimizer=None).fit(X, y)
    assembly, kernel = gp.posterior_.engine, gp.posterior_.kernel
    factored = assembly.factor(kernel, Gaussian(0.01))
    slope = lower_bound(factored, "evidence", missed="about").d_missed
    assert slope[-1] == 0.0  # of the noise
    for i, name in enumerate(kernel.parameters):
        ends = []
        for step in (-1e-4, 1e-4):
            moved = kernel.replace_free({name: kernel.values[i] * np.exp(step)})
            ends.append(engine_bound(assembly, moved, 0.01).missed)
        assert slope[i] == pytest.approx((ends[1] - ends[0]) / 2e-4, rel=1e-4)


@pytest.fixture(scope="module")
def by_size():
    """Fits of one long product with several numbers of splines, and its evidence."""
    X, y = smooth(300)
    kernel = Matern52(0.5, 0.5, dim=0) * Matern52(0.5, dim=1)
    fixed = {"noise_variance": 1e-4, "optimizer": None}
    sizes = 10, 20, 45
    fits = {n: GPRegressor(kernel, num_basis=n, **fixed).fit(X, y) for n in sizes}
    full = kernel(X) + 1e-4 * np.eye(len(y))
    misfit = y @ np.linalg.solve(full, y)
    return fits, -0.5 * (misfit + np.linalg.slogdet(2 * np.pi * full)[1])


def test_as_many_splines_are_used_as_are_asked_for(by_size):
    fits, evidence = by_size
    for asked, gp in fits.items():
        assert gp.num_basis_ == gp.resolution_[-1].num_basis == (asked, asked)
        assert gp.posterior_.engine.size == asked**2
    bounds = [gp.elbo_ for gp in fits.values()]
    assert bounds == sorted(bounds)
    assert evidence - 0.25 < bounds[-1] < evidence + 1e-3


def test_fewer_splines_than_asked_for_are_announced(by_size):
    fits, _ = by_size
    asked, used = fits[45].posterior_.plan, fits[10].posterior_.factored
    (note,) = fewer_than_requested(asked, used)
    assert "fewer splines than num_basis asks for: 10 in place of 45" in note
    assert not fewer_than_requested(used.engine.plan, used)


def test_words_for_the_least_noise():
    assert least_noise(1.0, 0.01, []) == []
    assert least_noise(1.0, 0.05, ["noise variance"]) == []  # at another bound
    (note,) = least_noise(1.0, 0.01, ["lengthscale", "noise variance"])
    assert "ended at 0.01, its lower limit for objective='evidence' (1% of the variance" in note


def test_fits_that_end_at_the_least_noise_say_so():
    """A smooth field on a lattice, whose neighbours differ by far more than its noise."""
    rng = np.random.default_rng(0)
    axes = np.arange(30.0), np.arange(20.0)
    y = np.sin(axes[0] / 5.0)[:, None] * np.cos(axes[1] / 5.0) + 1e-3 * rng.standard_normal(
        (30, 20)
    )
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), objective="evidence")
    with pytest.warns(UserWarning, match="its lower limit for objective='evidence'"):
        gp.fit(axes, y)
    assert "noise variance" in gp.optimization_.at_bounds


def test_words_for_wide_deviations():
    assert wide_deviations(0.1, 1.0, 0.1) == []
    (note,) = wide_deviations(3.0, 1.0, 0.1)
    assert "wider than necessary" in note
    assert "3" in note


def test_only_what_the_data_leave_open_has_no_maximum():
    X, y = smooth(300)
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=10).fit(X, y)
    facts = gp._fit_data().structure.facts(gp.posterior_, "elbo")
    # A variance so small that the objective curves upwards along it.
    kernel = gp.posterior_.kernel.replace_free({"variance": 1e-7})
    errors = standard_errors(kernel, 1.0, gp.stats_, facts.degrees, bound=facts.bound)
    assert errors.notes[kernel.parameters.index("variance")] == "no maximum"
    assert "no maximum" not in errors.notes[-1]
    assert np.isfinite(errors.log_errors[-1])


@pytest.mark.parametrize("slope, note", [(0.0, "no maximum"), (30.0, "off maximum")])
@pytest.mark.parametrize("upwards", [[1.0, 0.0], [0.5**0.5, 0.5**0.5]])
def test_where_training_ended_on_a_slope_nothing_is_said_of_a_maximum(slope, note, upwards):
    _, y = smooth(300)
    x = np.linspace(0.0, 1.0, 300)
    stats = Statistics.from_data(x, y, Grid(0.0, 1.0, 10), 2)
    up = np.array([*upwards, 0.0])
    across = np.array([-up[1], up[0], 0.0])
    hessian = 1.0 * np.outer(up, up) - 90.0 * np.outer(across, across) - np.diag([0.0, 0.0, 50.0])

    def bound(kernel, likelihood):  # a ridge that curves upwards, with a slope along it
        place = np.log(np.append(kernel.values, likelihood.values))
        return Bound(0.0, 0.0, 0.0, hessian @ place + slope * up, np.zeros(3))

    errors = standard_errors(Matern32(1.0, 1.0), 1.0, stats, 2, bound=bound)
    lost = [i for i, error in enumerate(errors.log_errors) if np.isnan(error)]
    assert len(lost) == 1
    assert errors.notes[lost[0]] == note
    assert errors.notes[2] == ""


def test_a_summary_of_many_inputs_keeps_its_columns_apart():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 8))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    kernel = sum((Matern32(0.5, 0.1, dim=d) for d in range(1, 8)), start=Matern32(0.5, 0.1, dim=0))
    gp = GPRegressor(kernel, num_basis=20, noise_variance=0.01, optimizer=None).fit(X, y)
    text = str(gp.summary())
    assert "\nBasis functions   20, 20, 20" in text
    assert "\nSpline degree     3\n" in text
    words = " ".join(text.split())
    assert "at the peak" in words
    assert "Gflop a bound" in words
