"""The problem of training, the states that it moves between, and the record of a resolution."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood
from asvgp.runtime.interrupts import Deadline
from asvgp.training.optimise import LBFGS

Watch = Callable[[int, int, float], None]  # cells or functions, evaluations, objective


class State(NamedTuple):
    """Hyperparameters: those of the kernel and those of the likelihood."""

    kernel: Kernel
    likelihood: Likelihood

    @property
    def noise(self) -> float:
        """Noise variance of an observation of weight one."""
        return self.likelihood.noise


@dataclass(frozen=True)
class Problem:
    """The kernel, the likelihood and the settings of one training run."""

    kernel: Kernel  # as the user gave it
    likelihood: Likelihood
    degree: int | tuple[int, ...]  # of the splines of all components, or one per component
    objective: str  # "elbo" or "evidence"
    settings: LBFGS
    watch: Watch | None = None  # called after every evaluation
    from_user: bool = False  # True if the likelihood's parameters are the user's starting values
    fixed_likelihood: bool = False  # True if they stay as they are
    sites: bool = False  # True of pseudo-observations, whose squares are in no bound
    near: State | None = None  # from a sample of the rows: training stays near it
    information: Array | None = None  # about what all rows tell of its log-hyperparameters
    deadline: Deadline | None = None  # when training ends with the best state so far
    widening: float = 1.0  # factor of all variances once training is over

    def likelihoods(self, noises: Iterable[float]) -> list[Likelihood]:
        """Return the likelihood to start from: as given, or with each of these noise variances."""
        if self.from_user or self.fixed_likelihood:
            return [self.likelihood]
        return list(dict.fromkeys(map(self.likelihood.with_noise, sorted(noises))))


@dataclass(frozen=True)
class Level:
    """Result of training on one resolution, with bounds on the log evidence in nats."""

    num_basis: int | tuple[int, ...]  # functions of each component; or along every input
    spacing: float | tuple[float, ...]  # distance between knots, along every input
    elbo: float
    upper_bound: float  # NaN where it is not computed
    missed_share: float  # of the prior variance at the data, by the splines
