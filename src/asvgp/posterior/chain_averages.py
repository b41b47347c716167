"""Averages of the posterior of one input over intervals, and its values at its own data.

Prior, splines' prior and posterior are three chains, and the covariance of averages is that of
the first, less that of the second, plus that of the third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array, by_power, mean_powers
from asvgp.linalg.cells.polynomial import evaluate_terms
from asvgp.linalg.unrolled import markers_of
from asvgp.posterior.averages import Pieces
from asvgp.posterior.posterior import FittedValues, LinePoints, lift_diagonal
from asvgp.posterior.tails import Stretches
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share
from asvgp.statistics.intervals import cut

if TYPE_CHECKING:
    from asvgp.posterior.chain import ChainPosterior

_EPS = float(np.finfo(float).eps)
_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix per row


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


def fitted_values(posterior: ChainPosterior, points: LinePoints) -> FittedValues:
    """Return the posterior at places of its data, averages included."""
    x, width, grid, effects = points.x, points.width, posterior.grid, posterior.effects
    _check_data(posterior, points)
    mean, variance = posterior.of_splines(x, True, None)
    quadratic, magnitude = np.empty((2, len(x)))
    power, cov = posterior.model.power, posterior.factored.covariances
    squares = by_power(cov.reshape(len(cov), -1), (power[:, None] + power).ravel())
    markers = markers_of((squares.shape[1] - 1,))
    scale = grid.cells / (grid.upper - grid.lower)

    def share(start: int, stop: int) -> None:
        for begin, end in each_chunk(start, stop):
            out = (quadratic[begin:end], magnitude[begin:end])
            places = as_doubles(x[begin:end])
            evaluate_terms(markers, places, grid.lower, scale, squares, *out)

    each_share(len(x), share)
    if width is not None:
        rows = np.flatnonzero(width > 0.0)
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            values = _averages(posterior, x[part], width[part])
            mean[:, part], variance[part], quadratic[part], magnitude[part] = values
    if effects is not None:
        design = posterior.effect_values(points.middle, points.covariates)
        quadratic += effects.variance(effects.left(mean, design))
        mean, variance = posterior.with_effects(mean, variance, design)
    return FittedValues(mean, variance, quadratic, magnitude)


def _check_data(posterior: ChainPosterior, points: LinePoints) -> None:
    """Check that the posterior can have been made from data at these places."""
    x, width, grid = points.x, points.width, posterior.grid
    outside = np.count_nonzero(~((x >= grid.lower) & (x <= grid.upper)))
    if outside:
        raise ValueError(
            f"{outside} of {len(x)} inputs are outside the domain ({grid.lower:g}, "
            f"{grid.upper:g}), so they are not among the posterior's data."
        )
    if width is not None and len(rows := cut(x, width, grid)):
        raise ValueError(
            f"Knots cut {len(rows)} of {len(x)} intervals, the first in row {rows[0]}, so they "
            "are not among the posterior's data."
        )


def _averages(posterior: ChainPosterior, x: Array, width: Array) -> FittedValues:
    """Return fitted values of averages over intervals inside cells, without effects."""
    power = posterior.model.power
    before, after = posterior.cell_covariances
    cells, s, t = posterior.grid.locate_intervals(x, width)
    weights = mean_powers(s, t, int(power.max()))[:, power]
    mean = np.einsum("oti,ti->ot", posterior.coefficients[:, cells], weights)
    form = "ti,tij,tj->t"
    quadratic = np.einsum(form, weights, after[cells], weights)
    magnitude = np.einsum(form, np.abs(weights), np.abs(after[cells]), np.abs(weights))
    variance = quadratic - np.einsum(form, weights, before[cells], weights)
    for splines in posterior.splines:
        variance += splines.dynamics.average_variance(width)
    floor = _EPS * posterior.kernel.prior_variance
    return FittedValues(mean, np.maximum(variance, floor), quadratic, magnitude)
