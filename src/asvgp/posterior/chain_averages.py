"""Averages of the posterior of one input over intervals, as functionals of its chain.

Prior, splines' prior and posterior are three chains, and the covariance of averages is that of
the first, less that of the second, plus that of the third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array
from asvgp.posterior.averages import Pieces
from asvgp.posterior.posterior import lift_diagonal
from asvgp.posterior.tails import Stretches

if TYPE_CHECKING:
    from asvgp.posterior.chain import ChainPosterior

_EPS = float(np.finfo(float).eps)


class ChainAverages:
    """Averages of f, or of one component, over intervals ``low <= high``; without effects."""

    def __init__(
        self, posterior: ChainPosterior, low: Array, high: Array, component: int | None = None
    ):
        self.posterior, self.low, self.high, self.component = posterior, low, high, component
        self.involved = posterior.involved(component)
        self.stretches = self._stretches(low, high)

    def _stretches(self, low: Array, high: Array) -> Stretches:
        """Return averages as weights on the coefficients of all components."""
        model = self.posterior.model
        head, tail = np.zeros((2, len(low), len(model.power)))
        whole, parts = np.zeros(len(model.power)), None
        for number in self.involved:
            where = model.where[number]
            parts = self.posterior.splines[number].averages(low, high)
            head[:, where], tail[:, where], whole[where] = parts.head, parts.tail, parts.whole
        assert parts is not None
        return Stretches(parts.begin, parts.end, head, tail, parts.full, whole)

    def mean(self) -> Array:
        """Return posterior means (outputs, m), the whole cells by prefix sums."""
        f, coef = self.stretches, self.posterior.coefficients
        running = np.zeros((coef.shape[0], coef.shape[1] + 1))
        np.cumsum(coef @ f.whole, axis=1, out=running[:, 1:])
        between = running[:, f.end] - running[:, np.minimum(f.begin + 1, f.end)]
        return (
            np.einsum("oti,ti->ot", coef[:, f.begin], f.head)
            + f.full * between
            + np.einsum("oti,ti->ot", coef[:, f.end], f.tail)
        )

    def variance(self) -> Array:
        """Return posterior variances (m,)."""
        length = self.high - self.low
        prior = np.zeros(len(length))
        for number in self.involved:
            prior += self.posterior.splines[number].dynamics.average_variance(length)
        total = prior.copy()
        for sign, where, chain in self.posterior.chains(self.component):
            total += sign * chain.variances(self.stretches.on(where))
        return np.maximum(total, _EPS * prior)

    def covariance(self) -> Array:
        """Return the posterior covariance (m, m), by the pieces that the intervals' ends cut."""
        if not len(self.low):
            return np.empty((0, 0))
        grid = self.posterior.grid
        pieces = Pieces(self.low, self.high, grid.lower, grid.upper)
        stretches = self._stretches(pieces.start, pieces.stop)
        prior = np.zeros((len(pieces.length), len(pieces.length)))
        for number in self.involved:
            prior += pieces.prior(self.posterior.splines[number].dynamics)
        spread = prior.copy()
        for sign, where, chain in self.posterior.chains(self.component):
            chain.add_covariance(stretches.on(where), sign, spread)
        out = pieces.joined(spread)
        floor = np.einsum("ai,ij,aj->a", pieces.shares, prior, pieces.shares, optimize=True)
        lift_diagonal(out, _EPS * floor)
        return out
