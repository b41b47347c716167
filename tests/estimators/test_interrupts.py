"""Ctrl-C: the first waits, the second does not, and afterwards all is as it was."""

from __future__ import annotations

import signal
import threading

import pytest

from asvgp.runtime.interrupts import patient_interrupts, plain_interrupts


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
