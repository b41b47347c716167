"""A limit on the time of training: it ends with the best state, and says how far it came."""

import re
import time
import warnings
from datetime import timedelta

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import asvgp
from asvgp import SHO, Constant, GPRegressor, Matern32
from asvgp.data.settings import Settings
from asvgp.runtime.interrupts import Deadline
from asvgp.training import objective
from tests.cli.command_line import call

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, 500))
Y = np.sin(3.0 * X) + 0.1 * RNG.standard_normal(500)
PLANE = RNG.uniform(0.0, 1.0, (300, 2))
HEIGHT = np.sin(5.0 * PLANE[:, 0]) + 0.1 * RNG.standard_normal(300)
HOURS = np.arange(3000.0)
DAILY = np.sin(2.0 * np.pi * HOURS / 24.0) + 0.1 * RNG.standard_normal(3000)
CASES = {
    "line": (Matern32() + Constant(), {}, X, Y),
    "given": (Matern32(), {"num_basis": 3000}, X, Y),
    "exact": (Matern32() + SHO(24.0), {}, HOURS[:400], DAILY[:400]),
    "series": (Matern32() + SHO(24.0) + Constant(), {"num_basis": 800}, HOURS, DAILY),
    "field": (Matern32() + Constant(), {}, PLANE, HEIGHT),
    "default": (None, {}, X, Y),
    "default field": (None, {}, PLANE, HEIGHT),
    "transform": (Matern32() + Constant(), {"transform": "auto"}, X, np.exp(Y)),
}


@pytest.fixture
def slow(monkeypatch):
    """A clock by which every evaluation of the bound takes a second, and nothing else any time."""
    evaluated = []
    bound = objective.lower_bound

    def counted(*arguments):
        evaluated.append(1)
        return bound(*arguments)

    monkeypatch.setattr(objective, "lower_bound", counted)
    monkeypatch.setattr(Deadline, "passed", property(lambda self: len(evaluated) > self.seconds))
    return evaluated


@pytest.mark.parametrize("limit", [1e-3, 5.0, 30.0])
@pytest.mark.parametrize("name", CASES)
def test_it_ends_with_the_best_state(name, limit, slow):
    kernel, settings, x, y = CASES[name]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gp = GPRegressor(kernel, max_time=limit, **settings).fit(x, y)
    report = gp.optimization_
    if report.out_of_time:
        (told,) = [w for w in warned if w.category is ConvergenceWarning]
        match = rf"max_time={limit:g} was up (after evaluation \d+|before finer cells)"
        assert re.search(match, str(told.message))
        assert report.interrupted
        assert not report.converged
    else:
        assert limit >= 5.0
    if limit < 30.0 and name != "transform":  # whose choice among models is not cut short
        assert len(slow) < limit + 12  # stages of training, each of which has one evaluation
    mean, std = gp.predict(x, return_std=True)
    assert np.isfinite([gp.elbo_, gp.evidence_upper_bound_, *mean, *std]).all()
    assert gp.elbo_ <= gp.evidence_upper_bound_ + 1e-6 * abs(gp.elbo_)


def test_more_time_is_not_worse(slow):
    reached = []
    for limit in (1.0, 3.0, 10.0, 20.0):
        slow.clear()
        with pytest.warns(ConvergenceWarning, match=r"max_time=.* on 255 cells"):
            gp = GPRegressor(Matern32(), max_time=limit, num_basis=258).fit(X, Y)
        reached.append(gp.elbo_)
    assert reached == sorted(reached)
    assert reached[-1] > reached[0]


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_enough_time_changes_nothing():
    free = GPRegressor(Matern32() + Constant()).fit(X, Y)
    timed = GPRegressor(Matern32() + Constant(), max_time="1 hour").fit(X, Y)
    assert timed.elbo_ == free.elbo_
    assert timed.optimization_.converged
    assert not timed.optimization_.out_of_time


def test_the_clock_begins_with_the_fit():
    """And not with training: the pass over the data may have taken all of it."""
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09 was up after evaluation 1 on"):
        GPRegressor(Matern32(), max_time=1e-9).fit(X, Y)
    assert not Deadline(10.0).passed
    assert Deadline(10.0, time.perf_counter() - 11.0).passed


def test_training_that_waited_is_limited_too():
    gp = GPRegressor(Matern32(), max_time=1e-9).partial_fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09 was up"):
        gp.predict(X)


def test_it_is_saved_with_the_model(tmp_path):
    with pytest.warns(ConvergenceWarning, match="max_time"):
        gp = GPRegressor(Matern32(), max_time=1e-9).fit(X, Y)
    gp.save(tmp_path / "model.asvgp")
    loaded = asvgp.load(tmp_path / "model.asvgp")
    assert loaded.max_time == 1e-9
    assert loaded.optimization_.out_of_time


def test_ways_to_write_it():
    for given in (90, 90.0, "90", "90 s", "1.5 minutes", timedelta(seconds=90)):
        assert Settings.parse(Matern32(), max_time=given).max_time == 90.0
    assert Settings.parse(Matern32()).max_time is None
    for given in (0, -1, float("nan"), True, "soon", [3], "1 month"):
        with pytest.raises(ValueError, match="max_time must be None, a number of seconds, or a"):
            Settings.parse(Matern32(), max_time=given)


def test_the_command(tmp_path):
    np.save(tmp_path / "data.npy", np.column_stack([X, Y]))
    output = tmp_path / "model.asvgp"
    command = ["fit", tmp_path / "data.npy", "--target", "1", "--kernel", "Matern32"]
    ended = call(*command, "--max-time", "1e-9", "-o", output)
    assert "max_time=1e-09 was up after evaluation 1 on 256 cells" in ended.stderr
    assert asvgp.load(output).optimization_.out_of_time
