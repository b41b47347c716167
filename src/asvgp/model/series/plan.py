"""The structure of a series: which functions each component has, and on which cells.

A plan is chosen once; values of hyperparameters do not enter.
"""

from __future__ import annotations

from dataclasses import dataclass

from asvgp.basis import Grid


@dataclass(frozen=True)
class Along:
    """Functions along the line: B-splines, or those of an oscillator if ``wave``.

    Their cells are ``2**level`` finest cells wide.
    """

    degree: int
    level: int
    wave: bool = False


@dataclass(frozen=True)
class Around:
    """Cyclic splines: a period is ``count`` cells of ``width`` finest cells each."""

    degree: int
    count: int
    width: int


@dataclass(frozen=True)
class Part:
    """Functions of one component: along the line, around a circle, or products of both."""

    along: Along | None = None
    around: Around | None = None

    @property
    def power(self) -> int:
        """The largest power of s that its functions have on a finest cell."""
        along = 0 if self.along is None else self.along.degree
        return along + (0 if self.around is None else self.around.degree)


@dataclass(frozen=True)
class SeriesPlan:
    """One part per component of the kernel, the finest cells, and the number of fixed effects."""

    grid: Grid
    powers: int  # the largest power in the statistics
    parts: tuple[Part, ...]
    effects: int = 0
