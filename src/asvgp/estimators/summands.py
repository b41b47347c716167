"""Components as people read them: parts of one season together, and without those of no size."""

from __future__ import annotations

from typing import NamedTuple

from asvgp.kernels import Kernel, season_names
from asvgp.policies import SERIES
from asvgp.training.starts import mean_weight


class Summand(NamedTuple):
    """Components of a kernel that are shown as one."""

    name: str  # of seasons, where one has several parts; empty where a component's own name does
    shown: tuple[int, ...]  # by their numbers
    hidden: tuple[int, ...] = ()  # others that have practically no variance, and go with it

    @property
    def numbers(self) -> tuple[int, ...]:
        """All components that are added."""
        return self.shown + self.hidden


def summands(gp) -> list[Summand]:
    """Return the components of a fitted model as they are shown.

    A season that stays and one that drifts, of one period, are one. Components with practically no
    variance are left to the first that has some.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, Periodic
    >>> kernel = Matern32(9.0) + Periodic(4.0) + Periodic(4.0) * Matern32(20.0)
    >>> gp = GPRegressor(kernel, optimizer=None, noise_variance=0.1)
    >>> summands(gp.fit(np.arange(30.0), np.sin(np.arange(30.0) * np.pi / 2)))
    [Summand(name='', shown=(0,), hidden=()), Summand(name='season of 4', shown=(1, 2), hidden=())]
    """
    kernel: Kernel = gp.kernel_
    posterior = gp.posterior_  # of sites, where the likelihood is not Gaussian
    least = SERIES.unused_variance * posterior.noise / mean_weight(posterior.stats)
    groups: dict[str | int, list[int]] = {}  # by the name of the season, or by the component
    for number, name in enumerate(season_names(kernel)):
        groups.setdefault(name or number, []).append(number)
    several = any(len(group) > 1 for group in groups.values())
    sizes = {number: part.variance for number, part in enumerate(kernel.components)}
    clear = [key for key, group in groups.items() if max(sizes[i] for i in group) >= least]
    out, rest = [], [i for key, group in groups.items() if key not in clear for i in group]
    for key in clear or list(groups):
        group, hidden = groups[key], [] if out or not clear else rest
        name = key if isinstance(key, str) and several else ""
        out.append(Summand(name, tuple(group), tuple(hidden)))
    return out
