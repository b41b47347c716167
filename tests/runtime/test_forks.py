"""Processes that are forked while a thread of their parent is at work."""

import os
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import asvgp
from asvgp import GPRegressor, Matern32
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import one_blas_thread

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


class Slow:
    """A value that is computed while a fork happens."""

    def __init__(self, begun=None, go=None):
        self.begun, self.go = begun, go

    @cached_property
    def value(self) -> float:
        if self.begun is not None and self.go is not None:
            self.begun.set()
            assert self.go.wait(20.0)
        return 3.0


def ends_well(work) -> bool:
    """Return True if a forked child does some work, and does not wait for ever."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends the child, whatever it waits for
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


@forks
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_lazy_attributes_are_computed_after_a_fork():
    begun, go = threading.Event(), threading.Event()
    slow = Slow(begun, go)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    try:
        assert begun.wait(20.0)
        assert ends_well(lambda: Slow().value)
    finally:
        go.set()
        thread.join()
    assert slow.value == 3.0


@forks
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_fits_after_a_fork_in_the_middle_of_others():
    x = np.linspace(0.0, 10.0, 50)
    held, go = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread, one_blas_thread.lock:
            held.set()
            go.wait(20.0)

    def work():
        GPRegressor(Matern32(), num_basis=20).fit(x, np.sin(x)).predict(x, return_std=True)

    work()
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(20.0)
        assert ends_well(work)
    finally:
        go.set()
        thread.join()
    assert one_blas_thread.inside == 0
    assert one_blas_thread.limiter is None


def test_no_module_uses_attributes_with_a_lock():
    folder = Path(asvgp.__file__).parent
    found = [
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        if re.search(r"functools import .*cached_property|functools\.cached_prop", file.read_text())
    ]
    assert found == [str(Path("runtime") / "lazy.py")]


def test_a_lazy_attribute_is_computed_once():
    made = []

    class Counted:
        @cached_property
        def value(self) -> int:
            made.append(self)
            return len(made)

    one, other = Counted(), Counted()
    assert (one.value, one.value, other.value, one.value) == (1, 1, 2, 1)
    assert "value" in vars(one)
    del one.value
    assert one.value == 3
    assert isinstance(vars(Counted)["value"], cached_property)
