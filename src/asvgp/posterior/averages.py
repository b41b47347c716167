"""Variances and covariances of averages over intervals, along chains of cells.

The prior of a process and the splines' part of it are both Markov: what an average over one
interval shares with the next passes through the state between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array
from asvgp.kernels.dynamics import Dynamics
from asvgp.linalg.chain.sweep import assemble, stretches
from asvgp.linalg.unrolled import Markers
from asvgp.model.prior import Prior
from asvgp.posterior.tails import Stretches
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import each_share


@dataclass(frozen=True, eq=False)
class Chain:
    """Cells with Gaussian coefficients, each given the one before; letters as in `asvgp.linalg`."""

    markers: Markers
    settled: int
    gain: Array
    cov: Array

    @classmethod
    def of_prior(cls, prior: Prior, covariances: Array) -> Chain:
        """Return the splines' prior, whose cells have these covariances."""
        gain = np.ascontiguousarray(prior.gain[:, None, :])
        return cls(prior.markers, prior.first, gain, covariances)

    def variances(self, averages: Stretches) -> Array:
        """Return the variance of every stretch."""
        return self._walk(averages, keep=False)[0]

    def add_covariance(self, averages: Stretches, sign: float, out: Array) -> None:
        """Add ``sign`` times the covariance matrix of adjoining stretches to ``out``."""
        scratch = np.empty((2, averages.head.shape[1]))
        assemble(*self._walk(averages, keep=True), sign, scratch, out)

    def _walk(self, averages: Stretches, keep: bool) -> tuple[Array, Array, Array, Array]:
        """Return variances of stretches, and with ``keep`` what `assemble` needs besides."""
        count, size = averages.head.shape
        rows = count if keep else 0
        variance, carried, weights = (
            np.empty(count),
            np.zeros((count, size)),
            np.zeros((rows, size)),
        )
        bridges = np.repeat(np.eye(size)[None], rows, axis=0).reshape(-1, size)
        middle = averages.full[:, None] * averages.whole
        parts = np.stack([averages.head, middle, averages.tail], axis=1).reshape(-1, size)

        def share(start: int, stop: int) -> None:
            part, chain = slice(start, stop), (self.markers, self.settled, self.gain, self.cov)
            span = averages.begin[part], averages.end[part], parts[3 * start : 3 * stop]
            between = weights[part], bridges[start * size : stop * size]
            stretches(*chain, *span, carried[part], *between, variance[part])

        each_share(count, share)
        return variance, carried, weights, bridges.reshape(rows, size, size)


class Pieces:
    """The pieces that the ends of intervals, and of the domain, cut the line into.

    They adjoin, so that the prior and what the splines have of it are chains over the pieces.
    """

    def __init__(self, low: Array, high: Array, lower: float, upper: float):
        self.low, self.high, self.point = low, high, low == high
        ends = np.unique(np.concatenate([low, high]))
        walls = np.array([lower, upper])
        walls = walls[(walls > ends[0]) & (walls < ends[-1])]
        cuts = np.union1d(ends, walls)
        # An interval of length zero is a piece of its own.
        self.cuts = np.sort(np.concatenate([cuts, np.unique(low[self.point])]))
        self.start, self.stop = self.cuts[:-1], self.cuts[1:]
        self.length = self.stop - self.start

    @cached_property
    def shares(self) -> Array:
        """Weights of the pieces' averages in those over the intervals, (m, pieces)."""
        first, last = np.searchsorted(self.cuts, self.low), np.searchsorted(self.cuts, self.high)
        pieces = np.arange(len(self.length))
        within = (pieces >= first[:, None]) & (pieces < last[:, None])
        shares = within * self.length / np.where(self.point, 1.0, self.high - self.low)[:, None]
        shares[np.flatnonzero(self.point), first[self.point]] = 1.0
        return shares

    def prior(self, dynamics: Dynamics) -> Array:
        """Return the prior covariance between averages over the pieces."""
        out = np.zeros((len(self.length), len(self.length)))
        weights = dynamics.average_rows(self.length)
        averages = np.einsum("ti,rij->trj", weights, dynamics.powers)
        assemble(
            dynamics.average_variance(self.length),
            averages @ dynamics.stationary[:, 0],
            weights,
            np.ascontiguousarray(dynamics.matrices(self.length).transpose(0, 2, 1)),
            1.0,
            np.empty((2, dynamics.size)),
            out,
        )
        return out

    def joined(self, covariance: Array) -> Array:
        """Return the covariance between the intervals from that between the pieces."""
        out = self.shares @ covariance @ self.shares.T
        return 0.5 * (out + out.T)
