"""The structure of a series: which functions each component has, and on which cells.

A plan is chosen once; values of hyperparameters do not enter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from asvgp.basis import Grid
from asvgp.policies import SERIES


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

    @property
    def spare_levels(self) -> int:
        """How often finest cells can be joined in pairs before one of its own would be cut."""
        spare = []
        if self.along is not None:
            least = SERIES.least_wave_level if self.along.wave else 0
            spare.append(self.along.level - least)
        if self.around is not None:
            width = self.around.width
            spare.append((width & -width).bit_length() - 1)
        return max(0, min(spare, default=0))

    def no_wider(self, other: Part) -> Part:
        """Return this part, on the cells of another of the same kind where those are narrower."""
        along, around = self.along, self.around
        if along is not None and other.along is not None and along.wave == other.along.wave:
            along = replace(along, level=min(along.level, other.along.level))
        if around is not None and other.around is not None:
            around = min(around, other.around, key=lambda one: one.width)
        return Part(along, around)

    def coarsened(self, times: int) -> Part:
        """Return the same functions, counted in finest cells ``2**times`` times as wide."""
        along, around = self.along, self.around
        return Part(
            None if along is None else replace(along, level=along.level - times),
            None if around is None else replace(around, width=around.width >> times),
        )


@dataclass(frozen=True)
class SeriesPlan:
    """One part per component of the kernel, the finest cells, and the number of fixed effects."""

    grid: Grid
    powers: int  # the largest power in the statistics
    parts: tuple[Part, ...]
    effects: int = 0

    @property
    def spare_levels(self) -> int:
        """How often finest cells can be joined in pairs, with all functions as they are."""
        return min((part.spare_levels for part in self.parts), default=0)

    def coarsened(self, times: int) -> SeriesPlan:
        """Return the same functions on finest cells ``2**times`` times as wide."""
        parts = tuple(part.coarsened(times) for part in self.parts)
        return replace(self, grid=self.grid.coarsen(2**times), parts=parts)
