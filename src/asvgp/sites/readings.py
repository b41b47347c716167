"""What data say under a likelihood that is not Gaussian, given the posterior so far.

The variational posterior that suits a likelihood best is that of Gaussian *sites*:
pseudo-observations with weights ``w = -2 dV/dv`` and targets ``g + w m``, where V is the expected
log density of an observation under a Gaussian f with mean m and variance v, and g = dV/dm (Khan
and Lin, 2017). The posterior depends on them only through their sums per cell, so that nothing is
kept for a row.

A *reading* turns a posterior into these sums, in one of two ways. `RowReading` reads the rows
again. `NodeReading` needs no rows: for families with ``log p(y|f) = T f - B A(f) + c(y)``, the
sums of T per cell are exact, and the sum of ``B A(f)`` is an integral by the measure of the
inputs, for which the moments per cell give a quadrature rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from asvgp.basis import Array
from asvgp.likelihoods.family import Family
from asvgp.runtime.parallel import each_share
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.statistics.nodes import lebesgue_nodes, nodes_of
from asvgp.structures.observed import Observed, working_response
from asvgp.structures.structure import Points, Structure

_LEAST_WEIGHT = 1e-10  # of sites that structures are fitted to, relative to the mean weight


class Found(NamedTuple):
    """The data, seen from one posterior."""

    value: float  # sum of the expected log densities, in nats
    slopes: Array  # its derivatives with respect to the logarithms of the family's parameters
    sites: Statistics


class Reading(Protocol):
    """Turns a posterior into sites."""

    @property
    def count(self) -> int:
        """Number of rows."""
        ...

    def found(
        self, family: Family, posterior: Any, like: Statistics, robust: bool = False
    ) -> Found:
        """Return what the data say, with sites on the grids of ``like``.

        With ``robust``, all weights are positive, also those of a family that is not log-concave.
        """
        ...

    def begin(self, family: Family, like: Statistics) -> Statistics:
        """Return sites to begin with, before there is a posterior."""
        ...


@dataclass(frozen=True, eq=False)
class RowReading:
    """Rows that are read anew for every posterior, block by block."""

    structure: Structure[Any]
    blocks: Callable[[], Iterable[Observed]]
    count: int

    def found(
        self, family: Family, posterior: Any, like: Statistics, robust: bool = False
    ) -> Found:
        """Return what the data say; see `Reading`."""
        value, slopes = 0.0, np.zeros(len(family.parameters))
        sums, squares = _accumulator(like), 0.0
        for rows in self.blocks():
            mean, variance = self.structure.predict(posterior, rows.points)
            m, v = mean[0], variance
            seen = m if rows.offset is None else m + rows.offset
            densities, g, w = _expected(family, rows.y, rows.extra, seen, v)
            if robust and (positive := family.robust_weights(rows.y, rows.extra, seen, v)):
                g, w = positive
            value += _dot(densities, rows.weight)
            if len(slopes):
                parts = family.slopes(rows.y, rows.extra, seen, v)
                slopes = slopes + np.array([_dot(part, rows.weight) for part in parts])
            squares += _add_sites(sums, rows, m, g, w)
        return Found(value, slopes, _site_statistics(sums.statistics(), squares, self.count))

    def begin(self, family: Family, like: Statistics) -> Statistics:
        """Return the sites of a generalised linear model at its customary start."""
        sums, squares = _accumulator(like), 0.0
        for rows in self.blocks():
            z, w = working_response(family, rows)
            squares += _add_sites(sums, rows, np.zeros(len(z)), w * z, w, weighted=True)
        return _site_statistics(sums.statistics(), squares, self.count)


def _add_sites(
    sums: Accumulator, rows: Observed, m: Array, g: Array, w: Array, weighted: bool = False
) -> float:
    """Add the sites of rows to sums, and return their weighted sum of squares."""
    targets = g + w * m
    if rows.weight is not None and not weighted:
        targets, w = targets * rows.weight, w * rows.weight
    rows.points.add_to(sums, targets, w)
    heavy = w > _LEAST_WEIGHT * max(float(np.mean(np.abs(w))), 1e-300)
    return float(np.sum(targets[heavy] ** 2 / w[heavy]))


class NodeReading:
    """A quadrature rule of the inputs and exact sums of the targets, in place of rows.

    ``stats`` are sums of T / B with weights B. Their cells must be at least as fine as those of the
    posterior, so that its mean is one polynomial on each.
    """

    def __init__(self, structure: Structure[Any], stats: Statistics):
        self.structure = structure
        self.stats = stats.recentred(np.zeros(stats.outputs), stats.column_centre)
        self.count = stats.count
        inputs, self.masses, cells = nodes_of(self.stats)
        self.points = self._points(inputs)
        self.shares = self._cell_means()[cells]  # of T / B, about every node
        self._linear, self._tau = self._exact_targets()
        self._kept: tuple[Any, Statistics] | None = None

    def _points(self, inputs: tuple[Array, ...]) -> Points:
        columns = dict(zip(self.structure.layout.used, inputs, strict=True))
        points = self.structure.points_at(columns)
        ends = tuple((float(x.min()), float(x.max())) for x in inputs)
        return replace(points, ranges=ends)

    def _cell_means(self) -> Array:
        """Return the mean of T / B on every cell, zero where there are no data."""
        stats = self.stats
        weight = stats.cell_weights.ravel()
        totals = stats.targets[(0, ..., *[0] * len(stats.grids))].ravel()
        return np.divide(totals, weight, out=np.zeros_like(totals), where=weight > 0.0)

    def _exact_targets(self) -> tuple[Points, Array]:
        """Return points with signed masses that sum polynomials as T does, exactly."""
        stats = self.stats
        tau = stats.targets[0]
        for d, degree in enumerate(stats.degrees):
            nodes = 0.5 + 0.5 * np.polynomial.legendre.leggauss(degree + 1)[0]
            powers = np.vander(nodes, increasing=True)  # rows: nodes
            axis = len(stats.grids) + d
            tau = np.moveaxis(
                np.linalg.solve(powers.T, np.moveaxis(tau, axis, -1)[..., None]), -2, axis
            )[..., 0]
        nodes = lebesgue_nodes(stats.grids, [degree + 1 for degree in stats.degrees])
        tau = tau.reshape(-1)
        used = stats.cell_weights.ravel()[nodes.cells] > 0.0
        return self._points(tuple(x[used] for x in nodes.inputs)), tau[used]

    def _targets_on(self, like: Statistics) -> Statistics:
        """Return sums of T on the grids of ``like``, with its columns."""
        key = like.grids, like.degrees
        if self._kept is None or self._kept[0] != key:
            sums = Accumulator(replace(like.emptied(), centre=np.zeros(1)))
            self._linear.add_to(sums, self._tau, None)
            self._kept = key, sums.statistics()
        return self._kept[1]

    def found(
        self, family: Family, posterior: Any, like: Statistics, robust: bool = False
    ) -> Found:
        """Return what the data say; see `Reading`."""
        mean, v = self.structure.predict(posterior, self.points)
        linear, _ = self.structure.predict(posterior, self._linear, variance=False)
        factor, (constant, slopes) = family.factor, family.constant(self.stats.constants)
        curve, slope, bend = family.curve(mean[0], v)
        value = factor * float(self._tau @ linear[0] - self.masses @ curve)
        sites = self._sites(family, like, mean[0], slope, bend)
        return Found(value + constant, value * family.factor_slopes() + slopes, sites)

    def begin(self, family: Family, like: Statistics) -> Statistics:
        """Return the sites at the means of the cells, shrunk towards the overall mean."""
        f = family.start_from_sums(self.shares * self.masses, self.masses)
        _, slope, bend = family.curve(f, np.zeros(len(f)))
        return self._sites(family, like, f, slope, bend)

    def _sites(
        self, family: Family, like: Statistics, f: Array, slope: Array, bend: Array
    ) -> Statistics:
        masses = family.factor * self.masses
        sums = _accumulator(like)
        self.points.add_to(sums, masses * (bend * f - slope), masses * bend)
        sites, exact = sums.statistics(), self._targets_on(like)
        sites = replace(
            sites,
            targets=sites.targets + family.factor * exact.targets,
            column_targets=sites.column_targets + family.factor * exact.column_targets,
        ).recentred(like.centre, like.column_centre)
        z = f + (self.shares - slope) / np.maximum(bend, 1e-300)
        # of the scatter of y inside cells, which sums do not know, as much as the noise has
        squares = float(masses @ (bend * z**2)) + self.count
        return _site_statistics(sites, squares, self.count)


def _accumulator(like: Statistics) -> Accumulator:
    return Accumulator(replace(like.emptied(), centre=np.zeros(1)), premultiplied=True)


def _site_statistics(sites: Statistics, squares: float, count: int) -> Statistics:
    """Return statistics of Gaussian observations of which all but a constant is known."""
    return replace(sites, squares=np.array([squares]), count=count, missing=0, log_weights=0.0)


def _expected(
    family: Family, y: Array, extra: Array | None, m: Array, v: Array
) -> tuple[Array, Array, Array]:
    """Return expectations of all rows, on all cores."""

    def share(start: int, stop: int):
        rows = slice(start, stop)
        return family.expected(y[rows], None if extra is None else extra[rows], m[rows], v[rows])

    parts = each_share(len(y), share)
    if len(parts) == 1:
        return parts[0]
    values, g, w = (np.concatenate(part) for part in zip(*parts, strict=True))
    return values, g, w


def _dot(values: Array, weight: Array | None) -> float:
    return float(values.sum() if weight is None else values @ weight)


def blended(old: Statistics, new: Statistics, share: float) -> Statistics:
    """Return sites between two, ``share`` of the way to the new ones."""
    if share == 1.0:
        return new
    names = "moments", "targets", "cross", "column_gram", "column_targets", "squares"
    mixed = {
        name: (1.0 - share) * getattr(old, name) + share * getattr(new, name) for name in names
    }
    return replace(new, **mixed)
