"""A second process for the logarithm of the noise variance, in a reading of its own.

With `Heteroscedastic` noise there are two posteriors, of f and of g. For any posterior of f, the
squared residuals are observations of g by a family of their own, so that the best posterior of g is
found by steps to its sites (`settle`). What the data say of f is said by that posterior of g: to
the steps and the training of f it is one more reading, whose value is the bound with g at its best
and whose slopes are those of the hyperparameters of g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.heteroscedastic import (
    Heteroscedastic,
    SquaredResiduals,
    mean_precisions,
)
from asvgp.model.bound import lower_bound
from asvgp.policies import NOISE, SITES
from asvgp.posterior.posterior import Posterior
from asvgp.sites.readings import Level, RowReading, _accumulator, _add_sites, _site_statistics
from asvgp.sites.settle import Settled, settle
from asvgp.sites.train import _with_effects
from asvgp.statistics import Statistics
from asvgp.structures.observed import Observed
from asvgp.structures.structure import Points, Structure

SQUARES = SquaredResiduals()


@dataclass(frozen=True, eq=False)
class NoiseProcess:
    """The process of the logarithm of the noise variance, as a fit ended with it."""

    structure: Structure[Any]
    posterior: Posterior[Any]

    def points(self, structure: Structure[Any], points: Points) -> Points:
        """Return points of the process of f as points of this one."""
        return noise_points(structure, self.structure, points)

    def moments(self, structure: Structure[Any], points: Points) -> Array:
        """Return mean and variance of g as two columns, at points of the process of f."""
        mean, variance = self.structure.predict(self.posterior, self.points(structure, points))
        return np.stack([mean[0], variance], axis=1)

    def sample(
        self,
        structure: Structure[Any],
        points: Points,
        n_samples: int,
        random_state: Any,
        limit: float | None = None,
    ) -> Array:
        """Return joint draws of g, (1, n, samples), at points of the process of f."""
        points = self.points(structure, points)
        return self.structure.sample(self.posterior, points, n_samples, random_state, limit)

    def left_out(
        self, structure: Structure[Any], points: Points, squares: Array, weight: Array | None
    ) -> Array:
        """Return mean and variance of g at every row, without the row, by its cavity.

        ``squares`` are the means of the squared residuals. Only the part of the variance that the
        splines have knows of a row.
        """
        places = self.structure.places(self.points(structure, points))
        values = self.posterior.fitted_values(places)
        mean, variance, own = values.mean[0], np.ravel(values.variance), values.quadratic
        _, g, w = SQUARES.expected(squares, None, mean, variance)
        if weight is not None:
            g, w = g * weight, w * weight
        left = 1.0 - w * own
        left = np.where(left > SITES.least_left, left, np.nan)
        return np.stack([mean - own * g / left, variance + own * w * own / left], axis=1)

    def __reduce__(self):
        parts = self.structure, type(self.posterior), self.posterior.parts
        return _received, parts


def _received(structure: Structure[Any], kind: Any, parts: tuple) -> NoiseProcess:
    return NoiseProcess(structure, kind.restored(*parts))


def noise_points(structure: Structure[Any], other: Structure[Any], points: Points) -> Points:
    """Return points of one structure as points of another, over some of its columns."""
    columns = structure.columns_at(points)
    ends = dict(zip(structure.layout.used, points.ranges, strict=False))
    found = other.points_at(columns)
    ranges = [ends[column] for column in other.layout.used if column in ends]
    whole = len(ranges) == len(other.layout.used)
    if not whole:
        ranges = [(float(x.min()), float(x.max())) for x in (*found.main, *found.smooths)]
    return Points(found.main, found.smooths, found.effects, ranges=ranges)


class NoiseFound:
    """What the data say of f, with g at its best."""

    def __init__(self, sites: Statistics, noise: Settled, free: Sequence[int]):
        self.sites, self.noise, self.value = sites, noise, noise.bound
        self._free = list(free)

    @property
    def slopes(self) -> Array:
        """Derivatives of the bound by the logarithms of the free hyperparameters of g."""
        return lower_bound(self.noise.posterior.factored, "elbo").gradient[:-1][self._free]


class NoiseReading:
    """Rows in memory, seen from a posterior of f, with a posterior of g that follows it.

    Rows may stand for several each: then ``extra`` has the variance of y among them.
    """

    def __init__(
        self,
        structure: Structure[Any],
        other: Structure[Any],
        rows: Observed,
        count: int,
    ):
        self.structure, self.other, self.rows, self.count = structure, other, rows, count
        self.points = noise_points(structure, other, rows.points)
        self.y = rows.y if rows.offset is None else rows.y - rows.offset
        self.noise: Settled | None = None  # of the last posterior of f
        self.noise_bound = -np.inf  # of the last end of training
        self.steps = 0

    @property
    def alike(self) -> str:
        """Nothing: y that do not vary are refused before."""
        return ""

    def squares(self, posterior: Any) -> Array:
        """Return the means of the squared residuals under a posterior of f."""
        mean, variance = self.structure.predict(posterior, self.rows.points)
        squares = (self.y - mean[0]) ** 2 + variance
        return squares if self.rows.extra is None else squares + self.rows.extra

    def of_squares(self, squares: Array) -> RowReading:
        """Return squared residuals as a reading of g."""
        rows = Observed(self.points, squares, None, self.rows.weight)
        return RowReading(self.other, lambda: (rows,), self.count)

    def precisions(self) -> Array:
        """Return the means of exp(-g) at all rows."""
        assert self.noise is not None
        mean, variance = self.other.predict(self.noise.posterior, self.points)
        out = np.empty(len(self.y))
        mean_precisions(mean[0], variance, out)
        return out

    def found(self, family: Family, posterior: Any, like: Statistics, robust: bool = False) -> Any:
        """Return what the data say; see `Reading`."""
        kernel, last = cast(Kernel, cast(Heteroscedastic, family).kernel), self.noise
        assert last is not None
        reading = self.of_squares(self.squares(posterior))
        now = settle(
            reading,
            SQUARES,
            last.posterior,
            _with_effects(kernel, last.posterior.kernel),
            last.sites,
            NOISE.settled,
            most=NOISE.most_steps,
        )
        self.noise, self.steps = now, self.steps + now.steps
        free = [i for i, name in enumerate(kernel.parameters) if name not in kernel.fixed]
        return NoiseFound(self._sites(like), now, free)

    def begin(
        self, family: Family, like: Statistics, everywhere: Level | None = None
    ) -> Statistics:
        """Return the sites of f by the noise that is known so far."""
        return self._sites(like)

    def level(self, family: Family, m: float, v: float) -> float:
        """Return the value of one f everywhere, by the noise that is known so far."""
        precision = self.precisions()
        if self.rows.weight is not None:
            precision = precision * self.rows.weight
        return -0.5 * float(precision @ ((self.y - m) ** 2 + v))

    def _sites(self, like: Statistics) -> Statistics:
        precision, sums = self.precisions(), _accumulator(like)
        # the targets are E y, whatever f is
        level = _add_sites(sums, self.rows, self.y, np.zeros(len(self.y)), precision)
        return _site_statistics(sums.statistics(), level, self.count)
