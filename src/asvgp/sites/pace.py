"""How far steps go towards the sites that the data ask for, learnt from those before.

Where weights answer strongly to variances, whole steps go too far again and again; elsewhere they
go too short. Both happen on one map, near a coast and far from it, so that every cell has a pace of
its own, where its sums are all that belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asvgp.basis import Array
from asvgp.policies import SITES
from asvgp.sites.readings import blended
from asvgp.statistics import Statistics
from asvgp.statistics.combining import SUMS


@dataclass
class Pace:
    """Shares of the way that steps go: one of each cell, or one of all.

    Where numbers of a likelihood move with the sites, cells cannot tell what their steps did: it is
    not ``by_cells``.
    """

    by_cells: bool = True
    share: float = 1.0
    most: float = 1.0
    shares: Array | None = None  # of the cells, where each has its own

    @property
    def length(self) -> float:
        """Share of the way that a step goes, on average."""
        return self.share if self.shares is None else float(self.shares.mean())

    def towards(self, old: Statistics, new: Statistics) -> Statistics:
        """Return sites on the way from old ones to those that the data ask for."""
        if not self.by_cells or not of_cells(old):
            self.shares = None
            return blended(old, new, self.share)
        if self.shares is None or self.shares.shape != old.cell_weights.shape:
            self.shares = np.ones(old.cell_weights.shape)
        have, wanted = old.cell_weights, new.cell_weights
        # no weight may become negative because a step goes farther than asked for
        with np.errstate(divide="ignore", invalid="ignore"):
            most = (1.0 - SITES.least_kept) * have / (have - wanted)
        farthest = np.where((wanted < have) & (wanted > 0.0), np.maximum(most, 1.0), np.inf)
        return _blended_by_cells(old, new, np.minimum(self.shares, farthest))

    def restart(self) -> None:
        """Forget what was learnt."""
        self.share = self.most = 1.0
        self.shares = None

    def failed(self) -> None:
        """Take note of a step that lost."""
        if self.shares is not None:
            self.shares = 0.5 * self.shares
        else:
            self.most, self.share = SITES.slower * self.share, 0.5 * self.share

    def gained(
        self,
        before: tuple[Statistics, Statistics],
        after: tuple[Statistics, Statistics],
        rate: float = 0.0,
    ) -> None:
        """Take note of a step that gained, by sites and what the data asked for instead.

        Of one pace for all, the next step is ``rate`` times as long as the last. One that is to go
        back went too far, and comes nearest if it is shortened by that.
        """
        if self.shares is None:
            if rate < SITES.back:
                self.share = self.most = max(self.share / (1.0 - rate), SITES.least_share)
                return
            faster = SITES.faster if rate < SITES.on else 2.0
            self.most = min(1.0, faster * self.most)
            self.share = min(self.most, 1.5 * self.share)
            return
        (old, wanted), (new, wanted_then) = (
            [each.cell_weights for each in pair] for pair in (before, after)
        )
        went, nearer = new - old, (wanted - old) - (wanted_then - new)
        # the share that would have ended where nothing more is asked for
        with np.errstate(divide="ignore", invalid="ignore"):
            best = went / nearer
        best = np.where(np.isfinite(best) & (best > 0.0), best, SITES.longest_share)
        best = np.clip(best, SITES.shortest_share, SITES.longest_share)
        self.shares = np.sqrt(self.shares * best)


def of_cells(sites: Statistics) -> bool:
    """Return True where several inputs have cells with all the sums: no columns but constants.

    Along one input, steps settle well enough with one pace for all.
    """
    if len(sites.grids) < 2 or sites.smooths:
        return False
    return sites.linear == 0 or np.allclose(sites.column_gram, sites.weight, 1e-9, 0.0)


def _blended_by_cells(old: Statistics, new: Statistics, shares: Array) -> Statistics:
    """Return sites between two, every cell a share of its own of the way to the new ones."""
    inputs = len(old.grids)

    def mixed(name: str, first: int) -> Array:
        a, b = getattr(old, name), getattr(new, name)
        share = shares.reshape((1,) * first + shares.shape + (1,) * (a.ndim - first - inputs))
        return a + share * (b - a)

    share = float(shares.mean())
    sums = {name: (1.0 - share) * getattr(old, name) + share * getattr(new, name) for name in SUMS}
    sums |= {"moments": mixed("moments", 0), "targets": mixed("targets", 1)}
    sums["cross"] = mixed("cross", 0)
    weight = sums["moments"][(..., *[0] * inputs)].sum()
    total = sums["targets"][(..., *[0] * inputs)].reshape(len(new.targets), -1).sum(axis=1)
    sums["column_gram"] = np.full_like(new.column_gram, weight)
    sums["column_targets"] = np.repeat(total[:, None], new.linear, axis=1)
    return replace(new, **sums)
