"""Check that there is something in y to train on, of a size that double precision can hold."""

from __future__ import annotations

import warnings

import numpy as np

from asvgp.data.settings import Settings
from asvgp.policies import DATA
from asvgp.statistics import Statistics
from asvgp.training.starts import mean_weight


def check_variation(
    settings: Settings, stats: Statistics, y=None, first: bool = False, stacklevel: int = 2
) -> None:
    """Raise an error if y cannot be trained on, and warn if it needs an intercept.

    Sums tell a constant y up to rounding; near that, y itself decides where it is at hand. The
    warning comes with the ``first`` data only.
    """
    weight = mean_weight(stats)
    means = stats.sums / stats.weight
    spread = stats.squares / stats.weight - (means - stats.centre) ** 2
    power = float(np.max(means**2 + spread))
    fixed = power == 0.0 and settings.noise_variance is not None
    if not fixed and not DATA.smallest_power < power * weight < DATA.largest_power:
        raise ValueError(
            f"y has a root mean square of {power**0.5:.3g} (and mean weight {weight:.3g}), which "
            "double precision cannot work with. Rescale y, or drop what is zero throughout."
        )
    if not settings.trained:
        return
    square = stats.squares / stats.weight
    constant = bool(np.all(spread <= DATA.constant_rounding * square))
    if not constant and y is not None and np.all(spread <= DATA.constant_suspected * square):
        constant = bool(np.nanmin(y) == np.nanmax(y))
    if constant:
        raise ValueError(
            f"y is constant ({means.min():g}, n_samples = {stats.count}): there is nothing to "
            "train a kernel on. Fix the hyperparameters with optimizer=None and a noise_variance."
        )
    if (
        first
        and np.any(means**2 > DATA.distant_mean * spread)
        and settings.kernel.intercept is None
    ):
        worst = int(np.argmax(means**2 / np.maximum(spread, 1e-300)))
        warnings.warn(
            f"y has a mean of {means[worst]:g}, more than a hundred times its standard deviation, "
            "and the prior mean is zero. Add an intercept to the kernel: + Constant().",
            UserWarning,
            stacklevel=stacklevel,
        )
