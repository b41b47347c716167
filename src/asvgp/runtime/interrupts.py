"""Handling of Ctrl-C during long work."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Turn Ctrl-C inside a compiled function into a plain `KeyboardInterrupt`.

    If Ctrl-C is pressed while a numba function returns, Python raises a `SystemError` whose
    cause is the interrupt, or another such error that it caused.

    Examples
    --------
    >>> try:
    ...     with plain_interrupts():
    ...         raise SystemError("a result with an exception set") from KeyboardInterrupt()
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """
    try:
        yield
    except SystemError as error:
        if _by_interrupt(error):
            raise KeyboardInterrupt from None
        raise


def _by_interrupt(error: BaseException) -> bool:
    """Return True if Ctrl-C is what an error goes back to."""
    found: list[BaseException] = [error]
    for each in found:  # which grows
        if isinstance(each, KeyboardInterrupt):
            return True
        before = (
            [each.__cause__] if each.__suppress_context__ else [each.__cause__, each.__context__]
        )
        found += [other for other in before if other is not None and other not in found]
    return False


class TimeIsUp(KeyboardInterrupt):
    """The end of a time that work was given: it is left as after Ctrl-C, with the best so far."""


@dataclass(frozen=True)
class Deadline:
    """The end of a time in seconds, of which ``begin`` is the beginning.

    Examples
    --------
    >>> Deadline(3600.0).passed, Deadline(1.0, begin=time.perf_counter() - 2.0).passed
    (False, True)
    """

    seconds: float
    begin: float = field(default_factory=time.perf_counter)

    @property
    def passed(self) -> bool:
        """True once the time is up."""
        return time.perf_counter() > self.begin + self.seconds

    def error(self, stage: str) -> TimeIsUp:
        """Return the error that ends the work, which says how far that has come."""
        return TimeIsUp(f"max_time={self.seconds:g} was up {stage}")


@contextmanager
def patient_interrupts(note: str) -> Iterator[threading.Event]:
    """Let the first Ctrl-C only set an event and print a note; the second interrupts as usual.

    Threads other than the main one never receive Ctrl-C, so nothing changes there.

    Examples
    --------
    >>> with patient_interrupts("a moment") as asked:
    ...     asked.is_set()
    False
    """
    asked = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield asked
        return

    def wait(_number, _frame) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)
        # Not by print, in the middle of which it may have struck.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"\n{note}\n".encode())

    signal.signal(signal.SIGINT, wait)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
