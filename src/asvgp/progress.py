"""Progress on standard error for work that takes long enough to wonder about."""

from __future__ import annotations

import sys
import time


class Progress:
    """One line that rewrites itself, from two seconds on.

    Parameters
    ----------
    mode : {"auto", True, False}
        "auto" shows progress only on a terminal.
    """

    def __init__(self, mode: str | bool = "auto"):
        self.shown = sys.stderr.isatty() if mode == "auto" else bool(mode)
        self.begin = time.perf_counter()
        self.last = self.begin + 2.0  # quiet for the first two seconds
        self.open = False
        self.done = 0

    def passing(self, total: int):
        """A callback that counts rows of the pass over the data."""

        def advance(rows: int) -> None:
            self.done += rows
            elapsed = time.perf_counter() - self.begin
            rate = self.done / max(elapsed, 1e-9)
            left = (total - self.done) / rate
            self.write(f"pass over the data: {self.done:,} of {total:,}, {left:.0f} s left")

        return advance

    def training(self, cells: int, evaluations: int, objective: float) -> None:
        """A callback for the optimiser."""
        self.write(f"training on {cells:,} cells: evaluation {evaluations}, {objective:.6g} nats")

    def write(self, text: str) -> None:
        """Show a line, a few times a second at most."""
        now = time.perf_counter()
        if self.shown and now - self.last > 0.2:
            self.last = now
            self.open = True
            print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)

    def announce(self, text: str) -> None:
        """A line that stays."""
        if self.shown:
            self.close()
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the cursor on a clean line."""
        if self.open:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)
            self.open = False
