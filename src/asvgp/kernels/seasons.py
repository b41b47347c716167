"""Components as parts of seasons: those of one period are one season to a reader."""

from __future__ import annotations

from asvgp.kernels.base import Kernel
from asvgp.kernels.periodic import Periodic
from asvgp.times import Duration

_CALENDAR = {Duration(7 * 86400): "1 week", Duration(365.25 * 86400): "1 year"}


def season_names(kernel: Kernel) -> list[str]:
    """Return the season that each component is part of; nothing for those that are not periodic.

    Kernels over several inputs have none: their components are told apart by their inputs.

    Examples
    --------
    >>> from asvgp import Matern32
    >>> season_names(Periodic(24.0) + Periodic(24.0) * Matern32() + Matern32())
    ['season of 24', 'season of 24', '']
    """
    one_input = len({f.dim for part in kernel.components for f in part.factors}) == 1
    periods = [
        [f.period for f in part.factors if isinstance(f, Periodic)] for part in kernel.components
    ]
    return [f"season of {period_in_words(own[0])}" if own and one_input else "" for own in periods]


def period_in_words(period: float) -> str:
    """Return a period as people call it.

    Examples
    --------
    >>> period_in_words(24.0), period_in_words(Duration(86400)), period_in_words(Duration(604800))
    ('24', '1 day', '1 week')
    """
    if isinstance(period, Duration):
        return _CALENDAR.get(period) or str(period)
    return f"{period:g}"
