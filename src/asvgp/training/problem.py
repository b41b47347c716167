"""What is to be trained, and the states that training moves between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.statistics import Statistics
from asvgp.training.optimise import LBFGS

Watch = Callable[[int, int, float], None]  # cells or functions, evaluations, objective


class State(NamedTuple):
    """Hyperparameters: those of the kernel and those of the likelihood."""

    kernel: Kernel
    likelihood: Gaussian

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        return self.likelihood.noise


@dataclass(frozen=True)
class Problem:
    """The kernel, the noise and the settings of one training run."""

    kernel: Kernel  # as the user gave it
    noise: float | None  # the user's starting value
    degree: int | tuple[int, ...]  # of the splines of all components, or one per component
    objective: str  # "elbo" or "evidence"
    settings: LBFGS
    watch: Watch | None = None  # called after every evaluation
    known_noise: bool = False  # True if the noise is given and stays as it is

    def start(self, estimate: float) -> State:
        """Return the given hyperparameters, with an estimate of the noise if none is given."""
        return State(self.kernel, Gaussian(estimate if self.noise is None else self.noise))

    def centred(self, stats: Statistics) -> Statistics:
        """Return statistics of y less its mean only if there is an intercept to take it up."""
        if self.kernel.intercept is not None:
            return stats
        return stats.recentred(0.0 * stats.centre, 0.0 * stats.column_centre)
