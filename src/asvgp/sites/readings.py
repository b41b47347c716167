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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, NamedTuple, Protocol

import numpy as np

from asvgp.basis import Array
from asvgp.likelihoods.family import Family
from asvgp.policies import SITES, START
from asvgp.runtime.parallel import each_share
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.statistics.combining import SUMS
from asvgp.statistics.nodes import Nodes, lebesgue_nodes, nodes_of
from asvgp.structures.observed import Observed, positive_sites
from asvgp.structures.structure import Points, Structure

ALIKE, NO_EVENT = "all y are alike", "no event was seen"


class Found(NamedTuple):
    """The data, seen from one posterior."""

    value: float  # sum of the expected log densities, in nats
    slopes: Array  # its derivatives with respect to the logarithms of the family's parameters
    sites: Statistics


class Level(NamedTuple):
    """The mean and the variance of f, the same everywhere."""

    mean: float
    variance: float


class Reading(Protocol):
    """Turns a posterior into sites."""

    @property
    def count(self) -> int:
        """Number of rows, each as often as its weight says."""
        ...

    @property
    def alike(self) -> str:
        """Why there is nothing to train on: all targets are the same, or no event was seen."""
        ...

    def found(
        self, family: Family, posterior: Any, like: Statistics, robust: bool = False
    ) -> Found:
        """Return what the data say, with sites on the grids of ``like``.

        With ``robust``, all weights are positive, also those of a family that is not log-concave.
        """
        ...

    def begin(
        self, family: Family, like: Statistics, everywhere: Level | None = None
    ) -> Statistics:
        """Return sites to begin with, before there is a posterior.

        They are those of a given mean and variance of f ``everywhere``, or else of what rows or
        cells say themselves, shrunken to the means of y in large boxes of the inputs.
        """
        ...

    def level(self, family: Family, m: float, v: float) -> float:
        """Return about the value of `found` where f has one mean and one variance everywhere."""
        ...


def number_of_rows(stats: Statistics) -> int:
    """Return the number of rows with targets, each as often as its weight says."""
    return max(1, round(float(stats.constants[-1])))


@dataclass(frozen=True, eq=False)
class RowReading:
    """Rows that are read anew for every posterior, block by block."""

    structure: Structure[Any]
    blocks: Callable[[], Iterable[Observed]]
    count: int

    @property
    def alike(self) -> str:
        """Why there is nothing to train on: all targets are the same, or no event was seen."""
        ends, none_seen = [], True
        for rows in self.blocks():
            if len(rows.y):
                ends.append((rows.y.min(), rows.y.max()))
                none_seen = none_seen and rows.extra is not None and not np.any(rows.extra)
        if none_seen:
            return NO_EVENT
        return ALIKE if min(low for low, _ in ends) == max(high for _, high in ends) else ""

    def found(
        self, family: Family, posterior: Any, like: Statistics, robust: bool = False
    ) -> Found:
        """Return what the data say; see `Reading`."""
        value, slopes = 0.0, np.zeros(len(family.parameters))
        sums, level = _accumulator(like), 0.0
        for rows in self.blocks():
            mean, variance = self.structure.predict(posterior, rows.points)
            m, v = mean[0], variance
            seen = m if rows.offset is None else m + rows.offset
            densities, g, w, parts = _expected(family, rows.y, rows.extra, seen, v)
            if robust and (positive := family.robust_weights(rows.y, rows.extra, seen, v)):
                g, w = positive
            value += _dot(densities, rows.weight)
            slopes += np.array([_dot(part, rows.weight) for part in parts])
            level += _add_sites(sums, rows, m, g, w)
        return Found(value, slopes, _site_statistics(sums.statistics(), level, self.count))

    def begin(
        self, family: Family, like: Statistics, everywhere: Level | None = None
    ) -> Statistics:
        """Return sites to begin with; see `Reading`."""
        if everywhere is not None:
            return self.at(everywhere, family, like).sites
        sums, boxes = _accumulator(like), Boxes.of(like, self.count)
        levels = boxes.levels(family, self.blocks())
        for rows in self.blocks():
            f = _own_levels(family, rows, levels[boxes.of_points(rows.points)])
            _add_sites(sums, rows, f, *positive_sites(family, rows, f))
        return _site_statistics(sums.statistics(), None, self.count)

    def at(self, everywhere: Level, family: Family, like: Statistics) -> Found:
        """Return what the data say where f has one mean and one variance everywhere."""
        value, sums, level = 0.0, _accumulator(like), 0.0
        for rows in self.blocks():
            m, v = (np.full(len(rows.y), number) for number in everywhere)
            seen = m if rows.offset is None else m + rows.offset
            densities, g, w, _ = _expected(family, rows.y, rows.extra, seen, v)
            value += _dot(densities, rows.weight)
            level += _add_sites(sums, rows, m, g, w)
        return Found(value, np.zeros(0), _site_statistics(sums.statistics(), level, self.count))

    def level(self, family: Family, m: float, v: float) -> float:
        """Return the value of one f everywhere, by the first block of rows; see `Reading`."""
        rows = next(iter(self.blocks()))
        seen = np.full(len(rows.y), m) + (0.0 if rows.offset is None else rows.offset)
        values = family.expected(rows.y, rows.extra, seen, np.full(len(rows.y), v))[0]
        return (
            _dot(values, rows.weight)
            * self.count
            / max(_dot(np.ones(len(values)), rows.weight), 1.0)
        )


@dataclass(frozen=True)
class Boxes:
    """Equal boxes of the inputs, so large that each holds rows enough for a mean of y."""

    grids: tuple[Any, ...]
    along: int  # number of boxes along every input

    @classmethod
    def of(cls, like: Statistics, count: int) -> Boxes:
        """Return boxes of the grids of statistics."""
        share = (count / SITES.rows_of_box) ** (1.0 / max(len(like.grids), 1))
        return cls(like.grids, int(np.clip(share, 1, SITES.most_boxes)))

    @property
    def count(self) -> int:
        """Number of boxes."""
        return self.along ** len(self.grids)

    def of_points(self, points: Points) -> Array:
        """Return the number of the box of every point."""
        number = np.zeros(points.count, dtype=np.intp)
        for x, grid in zip(points.main, self.grids, strict=True):
            share = (x - grid.lower) / (grid.upper - grid.lower)
            step = np.floor(self.along * (share % 1.0 if grid.cyclic else share)).astype(np.intp)
            number = self.along * number + np.clip(step, 0, self.along - 1)
        return number

    def levels(self, family: Family, blocks: Iterable[Observed]) -> Array:
        """Return f in every box, by the means of what is there."""
        sums = np.zeros((4, self.count))  # of weights, y, extra and offset
        parts = [False, False]
        for rows in blocks:
            number, weight = self.of_points(rows.points), rows.weight
            sums[0] += np.bincount(number, weight, self.count)
            for i, column in enumerate((rows.y, rows.extra, rows.offset), 1):
                if column is not None:
                    column = column if weight is None else column * weight
                    sums[i] += np.bincount(number, column, self.count)
            parts = [rows.extra is not None, rows.offset is not None]
        there = sums[0] > 0.0
        means = sums[1:, there] / sums[0, there]
        extra, offset = (means[i] if part else None for i, part in enumerate(parts, 1))
        levels = np.zeros(self.count)
        levels[there] = family.start(means[0], extra, None, offset)
        return levels


def _own_levels(family: Family, rows: Observed, f: Array) -> Array:
    """Return f of every row from that of its box and what it says itself."""
    if family.inverse_link == "identity":
        return f
    narrow = np.zeros(len(f))

    def slopes(f: Array) -> tuple[Array, Array]:
        seen = f if rows.offset is None else f + rows.offset
        # without weights: a row of weight two says what two rows say, each for itself
        return family.expected(rows.y, rows.extra, seen, narrow)[1:]

    return _shrunken(f, slopes)


def _shrunken(prior: Array, slopes: Callable[[Array], tuple[Array, Array]]) -> Array:
    """Return the most probable f under log densities and normal priors of variance one.

    Without it, rows far from the mean of their box would stand for the box, not for themselves.
    """
    f, most = prior.copy(), SITES.longest_start_step
    for _ in range(SITES.start_steps):
        g, w = slopes(f)
        f += np.clip((g + prior - f) / (1.0 + np.maximum(w, 0.0)), -most, most)
    return f


def _add_sites(sums: Accumulator, rows: Observed, m: Array, g: Array, w: Array) -> float:
    """Add the sites of rows to sums, and return the sum of ``w m**2``."""
    if rows.weight is not None:
        g, w = g * rows.weight, w * rows.weight
    rows.points.add_to(sums, g + w * m, w)
    return float(w @ m**2)


class NodeReading:
    """A quadrature rule of the inputs and exact sums of the targets, in place of rows.

    ``stats`` are sums of T / B with weights B. Their cells must be at least as fine as those of the
    posterior, so that its mean is one polynomial on each. The rule is that of their moments, or
    given: of events of a point process, B is a density and T the events, none of which has a mass.
    Along one input, where cells are more than ``per_cell`` on each of the posterior, wider ones
    are taken for it.
    """

    def __init__(
        self,
        structure: Structure[Any],
        stats: Statistics,
        nodes: Nodes | None = None,
        per_cell: int | None = SITES.rule_cells,
    ):
        self.per_cell, self._wider = per_cell, dict[int, NodeReading]()
        self.events, self.structure = nodes is not None, structure
        self.alike = "" if self.events or not _alike(stats) else ALIKE
        if self.alike and not stats.sums.any():
            self.alike = NO_EVENT
        self.stats = stats.recentred(np.zeros(stats.outputs), stats.column_centre)
        self.count = number_of_rows(stats)
        inputs, self.masses, cells = nodes_of(self.stats) if nodes is None else nodes
        self.points = self._points(inputs)
        self.shares, self.cells = self._cell_means()[cells], cells  # of T / B, about every node
        self._linear, self._tau = self._exact_targets()
        self._kept: tuple[Any, Statistics] | None = None

    def suited(self, grids: Sequence[Any]) -> NodeReading:
        """Return the reading by cells as wide as those of a posterior on ``grids`` allow."""
        if self.events or self.per_cell is None or len(grids) != 1:
            return self
        cells, wider = self.stats.grid.cells, 1
        while cells % (2 * wider) == 0 and cells >= 2 * wider * self.per_cell * grids[0].cells:
            wider *= 2
        if wider == 1:
            return self
        if wider not in self._wider:
            self._wider[wider] = NodeReading(self.structure, self.stats.coarsen(wider))
        return self._wider[wider]

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
            tau = np.moveaxis(np.moveaxis(tau, axis, -1) @ np.linalg.inv(powers), -1, axis)
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
        if (suited := self.suited(like.grids)) is not self:
            return suited.found(family, posterior, like, robust)
        mean, v = self.structure.predict(posterior, self.points)
        linear, _ = self.structure.predict(posterior, self._linear, variance=False)
        factor, (constant, slopes) = family.factor, family.constant(self.stats.constants[:-1])
        curve, slope, bend = _each_row(lambda rows: family.curve(mean[0][rows], v[rows]), len(v))
        value = factor * float(self._tau @ linear[0] - self.masses @ curve)
        sites = self._sites(family, like, mean[0], slope, bend)
        return Found(value + constant, value * family.factor_slopes() + slopes, sites)

    def error(self, family: Family, posterior: Any) -> float:
        """Return about the error of `found`'s value, from a rule on cells twice as wide, in nats.

        That rule's error is many times larger; `SITES.rule_gain` is the least that it is. NaN is
        returned where no cells can be twice as wide.
        """
        if (suited := self.suited(posterior.engine.statistics.grids)) is not self:
            return suited.error(family, posterior)
        stats = self.stats
        factors = [1 if grid.cyclic and grid.cells % 2 else 2 for grid in stats.grids]
        if self.events or max(factors) == 1:
            return nan
        wider = stats.coarsen(factors)
        inputs, masses, cells = nodes_of(wider)
        narrow = np.unravel_index(self.cells, stats.cell_weights.shape)
        places = tuple(place // factor for place, factor in zip(narrow, factors, strict=True))
        total = np.zeros(wider.cell_weights.size)
        for points, mass, cell in (
            (self._points(inputs), masses, cells),
            (self.points, -self.masses, np.ravel_multi_index(places, wider.cell_weights.shape)),
        ):
            mean, v = self.structure.predict(posterior, points)
            total += np.bincount(cell, mass * family.curve(mean[0], v)[0], len(total))
        # of cells one by one, as errors of both signs may cancel in one of the sums
        return family.factor * float(np.abs(total).sum()) / SITES.rule_gain

    def begin(
        self, family: Family, like: Statistics, everywhere: Level | None = None
    ) -> Statistics:
        """Return sites to begin with; see `Reading`."""
        if everywhere is not None:
            f, v = (np.full(len(self.masses), value) for value in everywhere)
            return self._sites(family, like, f, *family.curve(f, v)[1:])
        boxes = Boxes.of(like, self.count)
        number = boxes.of_points(self.points)
        linear = np.bincount(number, self.shares * self.masses, boxes.count)
        mass = np.bincount(number, self.masses, boxes.count)
        there, levels = mass > 0.0, np.zeros(boxes.count)
        levels[there] = family.start_from_sums(linear[there], mass[there])
        f = self._own_levels(family, levels[number])
        _, slope, bend = family.curve(f, np.zeros(len(f)))
        bend = family.first_bend(self.shares, bend)
        return self._sites(family, like, f, slope, bend, first=True)

    def _own_levels(self, family: Family, f: Array) -> Array:
        """Return f on every node from that of its box and what is in its cell."""
        if family.inverse_link == "identity":
            return f
        there = np.bincount(self.cells) > 0
        cell = (np.cumsum(there) - 1)[self.cells]
        mass, total = (np.bincount(cell, m) for m in (self.masses, self.shares * self.masses))
        level, narrow = np.zeros((2, len(mass)))
        level[cell] = f  # that of its last node, where a box ends in the cell

        def slopes(f: Array) -> tuple[Array, Array]:
            _, slope, bend = family.curve(f, narrow)
            return family.factor * (total - mass * slope), family.factor * mass * bend

        return _shrunken(level, slopes)[cell]

    def level(self, family: Family, m: float, v: float) -> float:
        """Return the value of one f everywhere; see `Reading`."""
        curve = family.curve(np.array([m]), np.array([v]))[0]
        return family.factor * float(self._tau.sum() * m - self.masses.sum() * curve[0])

    def _sites(
        self,
        family: Family,
        like: Statistics,
        f: Array,
        slope: Array,
        bend: Array,
        first: bool = False,
    ) -> Statistics:
        masses = family.factor * self.masses
        sums = _accumulator(like)
        self.points.add_to(sums, masses * (bend * f - slope), masses * bend)
        sites, exact = sums.statistics(), self._targets_on(like)
        sites = replace(
            sites,
            targets=sites.targets + family.factor * exact.targets,
            column_targets=sites.column_targets + family.factor * exact.column_targets,
        )
        level = None if first else float(masses @ (bend * f**2))
        return _site_statistics(sites, level, self.count)


def _alike(stats: Statistics) -> bool:
    """Return True where all targets are the same, relative to their masses."""
    centre, weight = stats.centre[0], max(stats.weight, 1e-300)
    from_centre = stats.centred_sums[0] / weight
    spread = stats.squares[0] / weight - from_centre**2
    # of that difference, and of every target before
    rounding = SITES.alike * from_centre**2 + (SITES.alike_each * centre) ** 2
    return bool(spread <= rounding)


def _accumulator(like: Statistics) -> Accumulator:
    return Accumulator(replace(like.emptied(), centre=np.zeros(1)), premultiplied=True)


def _site_statistics(sites: Statistics, level: float | None, count: int) -> Statistics:
    """Return statistics of Gaussian observations with noise of variance one.

    Their sum of squares is what is expected of such noise, beside what the means of cells tell or,
    where most cells hold one row, beside the ``level``, the sum of ``w m**2``: that of the sites
    themselves would be dominated by few rows of little weight. First sites have no level, as their
    m know nothing yet of what varies: starting values then are of what the sites show.
    """
    weight = sites.cell_weights
    sums = sites.targets[(0, ..., *[0] * len(sites.grids))]
    occupied = weight > 0.0
    freedom = count - int(np.count_nonzero(occupied))
    if len(sites.grids) and (level is None or freedom >= START.shared_cells * count):
        level = float(np.sum(sums[occupied] ** 2 / weight[occupied])) - (count - max(freedom, 0))
    squares = np.array([(level or 0.0) + count])
    return replace(sites, squares=squares, count=count, missing=0, log_weights=0.0)


def _expected(
    family: Family, y: Array, extra: Array | None, m: Array, v: Array
) -> tuple[Array, ...]:
    """Return expectations of all rows and their slopes by numbers of the family, on all cores."""

    def some(rows: slice) -> tuple[Array, ...]:
        beside = None if extra is None else extra[rows]
        return family.expected_and_slopes(y[rows], beside, m[rows], v[rows])

    return _each_row(some, len(y))


def _each_row(compute: Callable[[slice], tuple[Array, ...]], count: int) -> tuple[Array, ...]:
    """Return columns of so many rows, computed on all cores."""
    parts = each_share(count, lambda start, stop: compute(slice(start, stop)))
    if len(parts) == 1:
        return parts[0]
    return tuple(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))


def _dot(values: Array, weight: Array | None) -> float:
    return float(values.sum() if weight is None else values @ weight)


def blended(old: Statistics, new: Statistics, share: float) -> Statistics:
    """Return sites between two, ``share`` of the way to the new ones."""
    if share == 1.0:
        return new
    mixed = {name: (1.0 - share) * getattr(old, name) + share * getattr(new, name) for name in SUMS}
    return replace(new, **mixed)
