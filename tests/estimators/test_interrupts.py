"""Ctrl-C: the first waits, the second does not, and afterwards all is as it was."""

from __future__ import annotations

import signal
import threading
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from asvgp import GPRegressor, Matern32, StudentT
from asvgp.runtime.interrupts import TimeIsUp, patient_interrupts, plain_interrupts
from asvgp.sites import train
from asvgp.training import optimise
from tests.interrupted import interrupted_climbs

CHAIN = "asvgp.posterior.chain.ChainPosterior"


@pytest.fixture(autouse=True)
def usual():
    """As in a program, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_waits_and_the_second_strikes(capfd):
    with patient_interrupts("a moment") as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == "\na moment\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_any_all_is_as_it_was():
    with patient_interrupts("a moment") as asked:
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert not asked.is_set()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_threads_have_none():
    found = []

    def work():
        with patient_interrupts("a moment") as asked:
            found.append((asked.is_set(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]


def test_other_errors_stay_what_they_are():
    with pytest.raises(SystemError, match="another"), plain_interrupts():
        raise SystemError("another") from ValueError()


def chained(*errors: BaseException, cause: bool = True) -> BaseException:
    """Return the last of errors, each of which was raised because of the one before it."""
    for before, after in pairwise(errors):
        after.__cause__ = before if cause else None
        after.__context__ = before
        after.__suppress_context__ = cause
    return errors[-1]


@pytest.mark.parametrize("cause", [True, False])
@pytest.mark.parametrize("between", [0, 1, 2])
def test_an_interrupt_is_found_however_far_back(between, cause):
    errors = [SystemError("a result with an exception set") for _ in range(between + 1)]
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        raise chained(KeyboardInterrupt(), *errors, cause=cause)


def test_chains_without_an_interrupt_stay_what_they_are():
    ring = [SystemError("one"), ValueError("two"), SystemError("three")]
    error = chained(*ring)
    ring[0].__cause__ = error  # and which even go round
    with pytest.raises(SystemError, match="three"), plain_interrupts():
        raise error


def test_an_interrupt_that_was_dealt_with_is_none():
    error = SystemError("later")
    error.__context__, error.__suppress_context__ = KeyboardInterrupt(), True
    with pytest.raises(SystemError, match="later"), plain_interrupts():
        raise error


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_estimators_are_interrupted_plainly(where, monkeypatch):
    """In the pass over the data and in predictions, which are compiled as training is."""

    def struck(*_, **__):
        raise chained(KeyboardInterrupt(), SystemError("one"), SystemError("two"))

    x = np.linspace(0.0, 10.0, 50)
    gp = GPRegressor(Matern32(), num_basis=20).fit(x, np.sin(x))
    before = gp.predict(x)
    target = {"fit": "asvgp.estimators.regressor.absorb", "predict": f"{CHAIN}.predict"}[where]
    with monkeypatch.context() as patch:
        patch.setattr(target, struck)
        with pytest.raises(KeyboardInterrupt):
            gp.fit(x, x) if where == "fit" else gp.predict(x)
    np.testing.assert_array_equal(gp.predict(x), before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_summaries_are_interrupted_plainly_and_fits_need_none(error, monkeypatch):
    """Bands that reach below zero are looked at in summaries, not when the model is replaced."""

    def struck(*_, **__):
        raise chained(error(), SystemError("one"))

    x = np.linspace(0.0, 10.0, 50)
    gp = GPRegressor(Matern32(), num_basis=20).fit(x, 3.0 + np.sin(x))
    with monkeypatch.context() as patch:
        patch.setattr("asvgp.structures.structure.Structure.predict", struck)
        before = gp.fit(x, 4.0 + np.sin(x)).kernel_
        with pytest.raises(SystemError if error is ValueError else KeyboardInterrupt):
            gp.summary()
    assert gp.kernel_ == before
    assert gp.summary().observations == 50


def test_ctrl_c_ends_the_fits_of_a_family_that_would_follow(monkeypatch):
    climbs = interrupted_climbs(monkeypatch)
    x = np.linspace(0.0, 10.0, 60)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_t(3, len(x))
    with pytest.warns(ConvergenceWarning, match="interrupted; the best state so far is kept"):
        gp = GPRegressor(Matern32(), likelihood=StudentT()).fit(x, y)
    assert len(climbs) == 1  # none with other degrees of freedom
    assert gp.optimization_.interrupted
    assert np.all(np.isfinite(gp.predict(x)))


@pytest.mark.parametrize("late", [True, False])
def test_what_ends_a_further_fit_of_a_family_is_told(late, monkeypatch):
    first, settled_on = [], train._settled_on

    def noted(*given, **settings):
        first.append(settled_on(*given, **settings))
        return first[-1]

    def striking(climb):
        def until_the_first_is_there(*given):
            if first:
                raise TimeIsUp("max_time=7 was up") if late else KeyboardInterrupt
            return climb(*given)

        return until_the_first_is_there

    monkeypatch.setattr(train, "_settled_on", noted)
    for name in ("_limited", "_whole"):
        monkeypatch.setattr(optimise, name, striking(getattr(optimise, name)))
    x = np.linspace(0.0, 10.0, 60)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_t(3, len(x))
    why = "max_time=7 was up" if late else "interrupted"
    with pytest.warns(ConvergenceWarning, match=f"{why}; the best state so far is kept"):
        gp = GPRegressor(Matern32(), num_basis=20, likelihood=StudentT()).fit(x, y)
    assert gp.optimization_.interrupted
    assert gp.optimization_.out_of_time == late


def test_ctrl_c_in_the_first_climb_of_a_field_ends_it(monkeypatch):
    climbs = []

    def struck(*_):
        climbs.append(1)
        if len(climbs) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("asvgp.training.optimise._limited", struck)
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (200, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best state so far is kept"):
        gp = GPRegressor(Matern32(), num_basis=12).fit(X, y)
    assert gp.optimization_.interrupted
    assert len(climbs) == 1  # and no second look at other shapes
