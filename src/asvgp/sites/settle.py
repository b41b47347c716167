"""Steps to the sites of one state of the hyperparameters.

A step moves the sums of the sites towards those that the present posterior asks for: an ascent
direction of the bound (it is a natural gradient), so that a step which is short enough gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.family import Family
from asvgp.model.bound import lower_bound
from asvgp.policies import SITES
from asvgp.sites.pace import Pace
from asvgp.sites.readings import Found, Reading, blended
from asvgp.statistics import Statistics
from asvgp.statistics.combining import SUMS

UNIT = Gaussian(1.0)  # the weights of sites are inverse variances


class Asked(NamedTuple):
    """Sites and what the data say there, without the matrices of a posterior."""

    sites: Statistics
    found: Found


@dataclass(frozen=True, eq=False)
class Settled:
    """Sites, their posterior, and the bound that they reach."""

    posterior: Any
    sites: Statistics
    found: Found
    bound: float  # on the log evidence
    steps: int = 0
    converged: bool = False

    @property
    def asked(self) -> Asked:
        """What later steps need to know, of this one."""
        return Asked(self.sites, self.found)

    def gradient(self) -> Array:
        """Return the gradient by the logarithms of the kernel's and the family's parameters.

        At the best sites it is that of a Gaussian model of them, with the sites held.
        """
        gaussian = lower_bound(self.posterior.factored, "elbo")
        return np.append(gaussian.gradient[:-1], self.found.slopes)


def look(
    reading: Reading,
    family: Family,
    before: Any,
    kernel: Kernel,
    sites: Statistics,
    robust: bool = False,
) -> Settled:
    """Return the posterior of sites, on the cells of another one, and what the data say there."""
    try:
        posterior = before.anew(kernel, UNIT, sites)
    except ValueError as error:  # says that a file was altered, where sites are to blame
        raise np.linalg.LinAlgError(f"Sites of {family!r} have no Gaussian posterior.") from error
    found = reading.found(family, posterior, posterior.engine.statistics, robust)
    divergence = posterior.factored.divergence()
    bound = found.value - divergence
    valid = np.isfinite(bound) and divergence > -SITES.rounded_divergence * posterior.engine.size
    return Settled(posterior, sites, found, bound if valid else -np.inf)


def rounding(now: Settled) -> float:
    """Return how well a bound is known, in nats."""
    size = SITES.rounding_by_size * now.posterior.engine.size + now.posterior.factored.defect
    return size + (SITES.rounding * abs(now.bound) if np.isfinite(now.bound) else 0.0)


def settled_in_training(reading: Reading, first: bool = False) -> float:
    """Return the gain of a last step at the first state, or those that training goes through."""
    each = SITES.settled_at_first_per_datum if first else SITES.settled_in_training_per_datum
    return SITES.settled_in_training + each * reading.count


def _wanted(one: Asked, sizes: dict[str, float]) -> Array:
    """Return the whole step that the data ask for, in units of the sizes of sums."""
    parts = (getattr(one.found.sites, n) - getattr(one.sites, n) for n in sizes)
    return np.concatenate([p.ravel() / size for p, size in zip(parts, sizes.values(), strict=True)])


def _sizes(sites: Statistics) -> dict[str, float]:
    """Return the largest numbers of the sums of sites."""
    names = "moments", "targets"
    return {name: max(float(np.abs(getattr(sites, name)).max()), 1e-300) for name in names}


def step_rate(before: Asked, now: Asked) -> float:
    """Return how long the next step is, along the one before and relative to it."""
    sizes = _sizes(before.found.sites)
    first, second = _wanted(before, sizes), _wanted(now, sizes)
    return float(first @ second) / max(float(first @ first), 1e-300)


def leapt(history: Sequence[Asked], share: float = 1.0) -> Statistics:
    """Return the combination of the last targets whose steps cancel best (Anderson, 1965).

    Targets are a ``share`` of the way to what the data asked for.
    """
    last = history[-1].found.sites
    sizes = _sizes(last)
    steps = np.stack([_wanted(one, sizes) for one in history])
    changes = steps[1:] - steps[:-1]
    gram = changes @ changes.T
    gram += 1e-12 * np.trace(gram) * np.eye(len(gram)) + 1e-300 * np.eye(len(gram))
    shares = np.linalg.solve(gram, changes @ steps[-1])
    weights = np.append(0.0, shares) - np.append(shares, 0.0)
    weights[-1] += 1.0
    targets = [blended(one.sites, one.found.sites, share) for one in history]
    pairs = list(zip(weights, targets, strict=True))
    mixed = {name: sum(w * getattr(sites, name) for w, sites in pairs) for name in SUMS}
    return replace(last, **mixed)


def settle(
    reading: Reading,
    family: Family,
    before: Any,
    kernel: Kernel,
    sites: Statistics,
    tolerance: float = 1e-6,
    robust_steps: int = 0,
    most: int = SITES.most_steps,
    begun: Settled | None = None,
    pace: Pace | None = None,
) -> Settled:
    """Step until a step gains less than ``tolerance`` nats.

    The posterior ``before`` says on which cells; ``sites`` are on its grids. The first
    ``robust_steps`` take positive weights only, whatever they do to the bound. There are ``most``
    steps at most; their ``pace`` is known from other states, or learnt. Where ``begun`` is what the
    data say of these sites, they are not asked again.
    """
    now = begun or look(reading, family, before, kernel, sites, robust_steps > 0)
    for left in range(robust_steps, 0, -1):
        now = look(reading, family, now.posterior, kernel, now.found.sites, left > 1)
    if begun is None:
        before.release()
    pace, steps, converged, gain = Pace() if pace is None else pace, robust_steps, False, np.inf
    history, leap, small, pause = [now.asked], 0, 0, 1
    last = before_last = np.inf  # gains of plain steps
    while steps < most:
        steps += 1
        # Most sites settle in a few steps; those that do not go on along the way they came.
        sites = pace.towards(now.sites, now.found.sites)
        share, by_cells = pace.length, pace.shares is not None
        leaping = not by_cells and leap <= 0 and steps > SITES.plain_steps and len(history) > 1
        sites = leapt(history, share) if leaping else sites
        trial, slack = None, rounding(now)
        # A step that is too long may end at sites that no Gaussian has.
        with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            trial = look(reading, family, now.posterior, kernel, sites)
            slack = max(slack, rounding(trial))
        if trial is None or not trial.bound >= now.bound - slack:
            if leaping:
                history, leap, pause = [now.asked], pause, 2 * pause  # plain steps may know better
                continue
            pace.failed()
            if pace.length < SITES.least_share:  # rounding, not the length of steps
                pace.restart()
                break
            continue
        now.posterior.release()
        gain, before, now = trial.bound - now.bound, now.asked, trial
        history, leap = [*history, now.asked][-SITES.leap_from :], leap - 1
        if steps >= SITES.patience:
            tolerance = max(tolerance, SITES.settled_late * settled_in_training(reading))
        enough = abs(gain) > max(tolerance * share, 0.1 * slack)
        if leaping:
            leap = leap if enough else 1  # a plain step has the last word
            if gain < last * min(last / before_last, 1.0):  # as the next plain step would gain
                history, leap, pause = [now.asked], pause, 2 * pause
            continue
        before_last, last = last, max(gain, 1e-300)
        # To and fro across the optimum, steps may gain nothing far from it.
        late = steps > SITES.plain_steps or not enough
        rate = step_rate(before, now.asked) if late and not by_cells else 0.0
        pace.gained((before.sites, before.found.sites), (now.sites, now.found.sites), rate)
        small = 0 if enough or rate < SITES.back else small + 1
        if small >= (1 if share >= 1.0 else SITES.short_steps):
            converged = True
            break
    converged = converged or gain < SITES.unnoticed
    return Settled(now.posterior, now.sites, now.found, now.bound, steps, converged)
