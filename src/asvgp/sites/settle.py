"""Steps to the sites of one state of the hyperparameters.

A step moves the sums of the sites towards those that the present posterior asks for: an ascent
direction of the bound (it is a natural gradient), so that a step which is short enough gains.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.model.bound import lower_bound
from asvgp.policies import SITES
from asvgp.sites.readings import Found, Reading, blended
from asvgp.statistics import Statistics

UNIT = Gaussian(1.0)  # the weights of sites are inverse variances


@dataclass(frozen=True, eq=False)
class Settled:
    """Sites, their posterior, and the bound that they reach."""

    posterior: Any
    sites: Statistics
    found: Found
    bound: float  # on the log evidence
    steps: int = 0
    converged: bool = False

    def gradient(self) -> Array:
        """Return the gradient by the logarithms of the kernel's and the family's parameters.

        At the best sites it is that of a Gaussian model of them, with the sites held.
        """
        gaussian = lower_bound(self.posterior.factored, "elbo")
        return np.append(gaussian.gradient[:-1], self.found.slopes)


def divergence(posterior: Any) -> float:
    """Return the Kullback-Leibler divergence of the coefficients' posterior from their prior."""
    factored = posterior.factored
    forms = factored.forms()
    return 0.5 * (factored.gained + forms.energy - forms.freedom)


def look(
    reading: Reading,
    family: Family,
    before: Any,
    kernel: Kernel,
    sites: Statistics,
    robust: bool = False,
) -> Settled:
    """Return the posterior of sites, on the cells of another one, and what the data say there."""
    posterior = before.anew(kernel, UNIT, sites)
    found = reading.found(family, posterior, posterior.engine.statistics, robust)
    bound = found.value - divergence(posterior)
    return Settled(posterior, sites, found, bound if np.isfinite(bound) else -np.inf)


def rounding(now: Settled) -> float:
    """Return how well a bound is known, in nats."""
    size = SITES.rounding_by_size * now.posterior.engine.size
    return size + (SITES.rounding * abs(now.bound) if np.isfinite(now.bound) else 0.0)


def settle(
    reading: Reading,
    family: Family,
    before: Any,
    kernel: Kernel,
    sites: Statistics,
    tolerance: float = 1e-6,
    robust_steps: int = 0,
) -> Settled:
    """Step until a step gains less than ``tolerance`` nats.

    The posterior ``before`` says on which cells; ``sites`` are on its grids. The first
    ``robust_steps`` take positive weights only, whatever they do to the bound.
    """
    now = look(reading, family, before, kernel, sites, robust_steps > 0)
    for left in range(robust_steps, 0, -1):
        now = look(reading, family, before, kernel, now.found.sites, left > 1)
    share, steps, converged = 1.0, robust_steps, False
    while steps < SITES.most_steps:
        steps += 1
        trial, sites = None, blended(now.sites, now.found.sites, share)
        with suppress(np.linalg.LinAlgError):  # overshot: no Gaussian has such sites
            trial = look(reading, family, before, kernel, sites)
        slack = rounding(now)
        if trial is None or not trial.bound >= now.bound - slack:
            share *= 0.5
            if share < SITES.least_share:
                break
            continue
        gain, now = trial.bound - now.bound, trial
        if gain <= tolerance + slack and share == 1.0:
            converged = True
            break
        share = min(1.0, 1.5 * share)
    return Settled(now.posterior, now.sites, now.found, now.bound, steps, converged)
