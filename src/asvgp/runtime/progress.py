"""Progress on standard error for work that takes long enough to wonder about."""

from __future__ import annotations

import sys
import time

from numba.core import event

_COMPILING = "numba:compile"  # not where a function comes from numba's cache


class Progress(event.Listener):
    """One line that rewrites itself, from two seconds on.

    As a context it also reports that functions are being compiled, which takes a while on a new
    machine, and it leaves a clean line. "auto" shows progress only on a terminal.
    """

    def __init__(self, mode: str | bool = "auto"):
        self.shown = sys.stderr.isatty() if mode == "auto" else bool(mode)
        self.last = time.perf_counter() + 2.0  # quiet for the first two seconds
        self.open = False

    def passing(self, total: int | None, work: str = "pass over the data"):
        """Return a callback that counts rows of a pass; ``total`` is None if it is unknown."""
        begin, done = time.perf_counter(), 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            rate = done / max(time.perf_counter() - begin, 1e-9)
            per_second = f"{rate / 1e6:.3g} million per second"
            if total is None:
                self.write(f"{work}: {done:,} rows, {per_second}")
            else:
                left = max(total - done, 0) / max(rate, 1e-9)
                self.write(f"{work}: {done:,} of {total:,}, {per_second}, {left:.0f} s left")

        return advance

    def training(self, cells: int, evaluations: int, objective: float) -> None:
        """Show the state of training; the optimiser calls this."""
        self.write(f"training on {cells:,} cells: evaluation {evaluations}, {objective:.6g} nats")

    def write(self, text: str) -> None:
        """Show a line, at most a few times per second."""
        now = time.perf_counter()
        if self.shown and now - self.last > 0.2:
            self.last = now
            self.open = True
            print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)

    def announce(self, text: str) -> None:
        """Print a line that stays."""
        if self.shown:
            self.close()
            print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        event.register(_COMPILING, self)
        return self

    def __exit__(self, *exception) -> None:
        event.unregister(_COMPILING, self)
        self.close()

    def on_start(self, event) -> None:
        """Report that a function is about to be compiled."""
        self.write("compiling (once)")

    def on_end(self, event) -> None:
        """Do nothing: the next line replaces this one."""

    def close(self) -> None:
        """Leave the cursor on a clean line."""
        if self.open:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)
            self.open = False
