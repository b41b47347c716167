"""Bands of new observations that reach below zero, where no observation is."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from asvgp.policies import VERDICT

_SHARES: WeakKeyDictionary[object, float] = WeakKeyDictionary()  # of posteriors, as they take time


def below_zero(share: float, zeros: bool) -> str:
    """Say what to do about this share of intervals below zero; empty where it is small.

    Transforms do not take ``zeros``, so that with those in y the remedy is another.

    Examples
    --------
    >>> below_zero(0.01, zeros=False)
    ''
    >>> print(below_zero(0.25, zeros=False))
    No observation is below zero, but 25 % of the 95 % intervals extend below \
zero. Give transform="sqrt" or "log"
    >>> below_zero(0.996, zeros=True).split(", ")[1]
    'but 100 % of the 95 % intervals extend below zero. For counts give likelihood=Poisson(); for \
amounts with some zeros'
    """
    if share < VERDICT.below_zero:
        return ""
    remedy = 'Give transform="sqrt" or "log"'
    if zeros:
        remedy = (
            "For counts give likelihood=Poisson(); for amounts with some zeros, add a small "
            'number to y and give transform="sqrt"'
        )
    return (
        f"No observation is below zero, but {100.0 * share:.0f} % of the 95 % intervals extend "
        f"below zero. {remedy}"
    )


def found_below_zero(data: Any, fitted: Any) -> str:
    """Say what to do about bands of a fitted model that reach below zero; empty if they do not.

    They are looked at where the data keep some points, and nowhere else.
    """
    points, lowest = data.looked_at, data.stats.lowest
    if points is None or not data.transform.identity or lowest < 0.0:
        return ""
    posterior = fitted.posterior
    if posterior not in _SHARES:
        mean, variance = data.structure.predict(posterior, points)
        _SHARES[posterior] = float(np.mean(mean < 1.96 * np.sqrt(variance + fitted.noise)))
    return below_zero(_SHARES[posterior], zeros=lowest == 0.0)
