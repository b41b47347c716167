"""The posterior of one input at the places of its own data, for leave-one-out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array, by_power, mean_powers
from asvgp.linalg.cells.polynomial import evaluate_terms
from asvgp.linalg.unrolled import markers_of
from asvgp.posterior.posterior import FittedValues, LinePoints
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share
from asvgp.statistics.intervals import cut

if TYPE_CHECKING:
    from asvgp.posterior.chain import ChainPosterior

_EPS = float(np.finfo(float).eps)
_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix per row


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
