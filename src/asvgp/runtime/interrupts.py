"""Ctrl-C, wherever it strikes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let Ctrl-C be a `KeyboardInterrupt`, also in the middle of a compiled function.

    A function of numba that hands over its result when Ctrl-C strikes ends in a `SystemError`,
    the result having come with an exception; the interrupt is its cause.

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
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


@contextmanager
def patient_interrupts(note: str) -> Iterator[threading.Event]:
    """Let the first Ctrl-C only set an event, and be told so; the second strikes as usual.

    In other threads than the main one nothing changes: there is no Ctrl-C in them.

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
