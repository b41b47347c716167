"""Ctrl-C, wherever it strikes."""

from __future__ import annotations

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
