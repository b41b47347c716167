"""Hyperparameters that are kept as given, and so far from the data that numbers overflow."""

from __future__ import annotations

from collections.abc import Sequence

from asvgp.kernels import Kernel, Periodic
from asvgp.policies import DATA


def check_extremes(
    kernel: Kernel, trained: bool, widths: Sequence[float], power: float, noise: float | None
) -> None:
    """Raise an error for hyperparameters that double precision cannot work with.

    Those that are trained are only begun with, from the nearest value that makes sense. ``widths``
    are those of the inputs' domains, ``power`` is the mean square of y, and ``noise`` the noise
    variance, where that is given.
    """
    far = DATA.longest_period
    for prefix, part in kernel.labelled:
        for factor in part.along:
            if isinstance(factor, Periodic) and factor.period > far * max(widths):
                raise ValueError(
                    f"Periodic: the period {factor.period:.3g} is more than {far:g} times the "
                    f"range of the data, {max(widths):.3g}, in which it is all but straight. Is it "
                    "in the units of the input?"
                )
        for name, value in zip(part.parameters, part.values, strict=True):
            if trained and prefix + name not in kernel.fixed:
                continue
            if name.startswith(("lengthscale", "period")):
                least = min(widths) / DATA.extreme_length
                most = max(widths) * DATA.extreme_length
                beside = f"the range of the data, {max(widths):.3g}"
            elif name == "variance":
                least, most = power / DATA.extreme_variance, power * DATA.extreme_variance
                beside = f"the mean square of y, {power:.3g}"
            else:
                least, most = 1.0 / DATA.extreme_length, DATA.extreme_length
                beside = "one"
            _check(f"{type(part).__name__}: {name}", value, least, most, beside)
    if noise is not None:
        least, most = power / DATA.extreme_variance, power * DATA.extreme_variance
        _check("noise_variance", noise, least, most, f"the mean square of y, {power:.3g}")


def _check(name: str, value: float, least: float, most: float, beside: str) -> None:
    if value < least or (value > most > 0.0):
        raise ValueError(
            f"{name} is {value:.3g}: beside {beside}, that is more than double precision can work "
            f"with. Give a value between {least:.1g} and {most:.1g}, or let it be trained."
        )
