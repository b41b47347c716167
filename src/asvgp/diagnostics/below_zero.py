"""Bands of new observations that reach below zero, where no observation is."""

from __future__ import annotations

from asvgp.policies import VERDICT


def below_zero(share: float, zeros: bool) -> str:
    """Say what to do about this share of intervals below zero; empty where it is small.

    Transforms do not take ``zeros``, so that with those in y the remedy is another.

    Examples
    --------
    >>> below_zero(0.01, zeros=False)
    ''
    >>> print(below_zero(0.25, zeros=False))
    No observation is below zero, but 25 % of the 95 % intervals begin there. Give \
transform="sqrt" or "log"
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
        f"No observation is below zero, but {100.0 * share:.2g} % of the 95 % intervals begin "
        f"there. {remedy}"
    )
