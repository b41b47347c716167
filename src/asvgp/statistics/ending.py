"""The end of a series: its last input, and the typical spacing of the inputs before it.

Forecasts continue from there. Moments alone do not tell: a cell may hold several inputs, weights
hide their number, and times must come out to the second. So both numbers are noted in the pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics

_RECENT = 4096  # inputs, about, that the spacing is measured on
_MANY = 1 << 16  # inputs, from which on only the last ones are looked at
_REGULAR = 0.9  # of the gaps must be whole numbers of steps
_CLOSE = 0.01  # of a step


@dataclass(frozen=True)
class Ending:
    """The last input of data, and the median gap between the distinct inputs before it.

    Examples
    --------
    >>> Ending.of(np.array([3.0, 0.0, 1.0, 2.0, 6.0, 7.0, 7.0]))
    Ending(last=7.0, step=1.0, regular=True)
    >>> Ending.of(np.arange(8)).joined(Ending.of(np.array([8])))
    Ending(last=8.0, step=1.0, regular=True)
    """

    last: float | None = None
    step: float | None = None
    regular: bool = True  # False where gaps are not whole numbers of steps

    @classmethod
    def of(cls, x: Array) -> Ending:
        """Return the end of inputs in any order."""
        if not len(x):
            return cls()
        if len(x) > _MANY:  # without a look at all of them: `ending_of` checks it by the moments
            tail, some = x[-_RECENT:], x[:: len(x) // _RECENT]
            if np.any(tail[1:] < tail[:-1]) or some.max() > tail[-1]:
                return cls()
            x = tail
        first, last = float(x.min()), float(x.max())
        if len(x) > _RECENT:
            x = x[x >= last - (last - first) * (_RECENT / len(x))]
        if len(x) > 16 * _RECENT:  # crowded at the end
            x = np.partition(x, len(x) - _RECENT)[-_RECENT:]
        gaps = np.diff(np.unique(np.asarray(x, dtype=float)))
        if not len(gaps):
            return cls(last)
        step = float(np.median(gaps))
        uneven = np.abs(gaps / step - np.maximum(np.rint(gaps / step), 1.0))
        return cls(last, step, bool(np.mean(uneven < _CLOSE) >= _REGULAR))

    def joined(self, other: Ending) -> Ending:
        """Return the end of both data together; the spacing is that of the later ones."""
        if self.last is None or other.last is None:
            return other if self.last is None else self
        earlier, later = (self, other) if self.last <= other.last else (other, self)
        step = earlier.step if later.step is None else later.step
        if step is None and other.last != self.last:
            step = abs(other.last - self.last)
        return Ending(max(self.last, other.last), step, self.regular and other.regular)


def ending_of(stats: Statistics) -> Ending:
    """Return the end of the data of one input; where it was not noted, as the moments tell it.

    Those of old files have no note of it, and neither have data whose last inputs were forgotten.
    In cells that hold several inputs these are taken to be evenly spaced.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.arange(10.0)
    >>> stats = Statistics.from_data(x, x, Grid(0.0, 20.0, 5), degree=2)
    >>> ending_of(replace(stats, ending=Ending()))
    Ending(last=9.0, step=1.0, regular=True)
    """
    noted, grid, pair = stats.ending, stats.grid, stats.pair
    cells = np.flatnonzero(stats.cell_weights > 0.0)
    if not len(cells):
        return noted
    if noted.last is not None and grid.locate(noted.last)[0] >= cells[-1]:
        return noted
    weight, spacing = stats.moments[cells, 0], grid.spacing
    mean = stats.moments[cells, pair[0, 1]] / weight
    spread = np.maximum(stats.moments[cells, pair[1, 1]] / weight - mean**2, 0.0)
    x = grid.lower + (cells + mean) * spacing
    several = spread > 1e-10
    found, step = Ending.of(x), noted.step
    if step is None and not several.any():
        step = found.step
    elif step is None:  # n values a step apart have the variance step**2 (n**2 - 1) / 12
        n = np.maximum(weight[several] * (stats.observations / stats.weight), 2.0)
        step = spacing * float(np.median(np.sqrt(12.0 * spread[several] / (n**2 - 1.0))))
    length = step or 0.0
    half = (np.sqrt(12.0 * spread[-1] * spacing**2 + length**2) - length) / 2.0
    digits = 6 - floor(log10(step or spacing))
    last = round(float(x[-1]) + float(half), digits)
    regular = noted.regular and (found.regular or bool(several.any()))
    return Ending(last, None if step is None else round(step, digits), regular)
