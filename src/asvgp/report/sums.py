"""Residuals from the statistics alone, for reports without data.

The mean of y in a cell is an observation of the average of f over the data there, with the noise
variance over the weight. Leaving it out is the leave-one-out of
`asvgp.posterior.leave_one_out`, with averages of
the basis functions in place of their values: with r the residual of a cell's mean, W its weight,
and h = W phi' P^-1 phi / noise,

    r / sqrt(noise (1 - h) / W)

is standard normal if the model is right. Nothing is known of single observations but their sum of
squares, and that is compared with the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, by_power
from asvgp.model.chain_effects import input_power
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.series import SeriesPosterior
from asvgp.statistics import Statistics

AnyPosterior = ChainPosterior | GridPosterior | SeriesPosterior | ExactPosterior
_LEAST_LEFT = 1e-9  # of 1 - h, below which a cell's mean determines f there


class CellMeans(NamedTuple):
    """Means of y in the cells that hold data."""

    x: Array  # mean input of the data, (cells,)
    mean: Array  # of y, as observed, (outputs, cells)
    z: Array  # difference to the prediction without this cell, in standard deviations
    covariates: Array  # means of the columns of linear effects, (cells, columns)


def cell_means(posterior: ChainPosterior) -> CellMeans:
    """Compare the means of cells with what the rest of the statistics predicts for them."""
    stats, model, grid = posterior.stats, posterior.model, posterior.grid
    held = np.flatnonzero(stats.moments[:, 0] > 0.0)
    weight = stats.moments[held, 0]
    powers = stats.moments[held][:, stats.pair[0]] / weight[:, None]
    phi = powers[:, model.power]
    splines = np.einsum("oti,ti->ot", posterior.coefficients[:, held], phi)
    covariance = posterior.chain.marginals(keep=True)[2][held]
    variance = np.einsum("ti,tij,tj->t", phi, covariance, phi)
    x = grid.lower + grid.spacing * (held + powers[:, 1])
    covariates = (stats.columns[:, held, 0] / weight).T + stats.column_centre
    predicted = splines
    if posterior.effects is not None:
        design = posterior.effect_values(x, covariates)
        variance = variance + posterior.effects.variance(posterior.effects.left(splines, design))
        predicted, _ = posterior.with_effects(splines, np.empty(0), design)
    mean = stats.targets[:, held, 0] / weight + stats.centre[:, None]
    left = 1.0 - weight * variance / posterior.noise
    left[left < _LEAST_LEFT] = np.nan
    z = (mean - predicted) / np.sqrt(posterior.noise * left / weight)
    return CellMeans(x, mean, z, covariates)


class Remainder(NamedTuple):
    """Variance of y that the model explains, and the rest, per output."""

    explained: Array  # share of the variance of y that the posterior mean accounts for, at the data
    noise_ratio: Array  # residual variance, allowing for degrees of freedom, over that of the noise


NOT_KNOWN = Remainder(np.empty(0), np.empty(0))


def remainder(posterior: AnyPosterior, freedom: float) -> Remainder:
    """Compute the sums of squares of the residuals from the statistics.

    ``freedom`` are the effective degrees of freedom of the model.
    """
    stats = posterior.stats
    residual = np.maximum(_residual_squares(*_mean(posterior)), 0.0)
    total = stats.squares - stats.weight * (stats.sums / stats.weight - stats.centre) ** 2
    free = max(stats.observations - freedom, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = np.where(total > 0.0, 1.0 - residual / total, np.nan)
    return Remainder(explained, residual / (free * posterior.noise))


def _mean(posterior: AnyPosterior) -> tuple[Statistics, Array, Array]:
    """Return the statistics, the mean as polynomials per cell, and coefficients of columns."""
    if isinstance(posterior, ChainPosterior):
        return _of_line(posterior)
    if isinstance(posterior, GridPosterior):
        return _of_field(posterior)
    return _of_series(posterior)


def _of_line(posterior: ChainPosterior) -> tuple[Statistics, Array, Array]:
    """Return the statistics, the mean as polynomials per cell, and coefficients of covariates."""
    stats, effects = posterior.stats, posterior.effects
    outputs = len(stats.squares)
    mean = by_power(posterior.coefficients[:outputs], posterior.model.power, stats.degree + 1)
    if effects is None:
        return stats, mean, np.empty((0, outputs))
    kernel, design = posterior.kernel, effects.design
    beta = effects.beta - design.centring.offset  # the sums are of centred y
    covariates = [input_power(kernel, effect) is None for effect in kernel.effects]
    return design.stats, mean + np.einsum("po,pcj->ocj", beta, design.taylor), beta[covariates]


def _of_field(posterior: GridPosterior) -> tuple[Statistics, Array, Array]:
    """Return the statistics, the mean as polynomials per cell, and coefficients of columns."""
    beta = posterior.columns.copy()
    beta[len(beta) - posterior.plan.effects :] -= posterior.engine.centring.offset
    mean = posterior.means if posterior.plan.inputs else np.empty((len(beta.T), 0, 0))
    return posterior.stats, mean, beta


def _of_series(
    posterior: SeriesPosterior | ExactPosterior,
) -> tuple[Statistics, Array, Array]:
    """Return the statistics, the mean as polynomials per cell, and coefficients of effects."""
    stats = posterior.stats
    beta = posterior.effects - posterior.engine.centring.offset
    if isinstance(posterior, SeriesPosterior):
        return stats, posterior.tables.polynomials(posterior.mean), beta
    # every cell holds one input, or none: there f is a number
    engine, mean = posterior.engine, np.zeros_like(stats.targets)
    noise = posterior.noise / engine.weight[:, None]
    fitted = engine.y - engine.columns @ beta - noise * posterior.residual
    mean[:, stats.cell_weights > 0.0, 0] = fitted.T
    return stats, mean, beta


def _residual_squares(stats: Statistics, mean: Array, beta: Array) -> Array:
    """Return ``|y - mean|**2``, weighted, of every output.

    The mean is a polynomial on every cell, (outputs, cells, powers), and columns times ``beta``.
    """
    out = stats.squares - 2.0 * np.einsum("oc,co->o", stats.column_targets, beta)
    out = out + np.einsum("co,cd,do->o", beta, stats.column_gram, beta)
    if not stats.grids:
        return out
    columns = stats.cross.reshape(*mean.shape[1:], len(beta))
    targets = stats.targets.reshape(mean.shape) - np.einsum("cpk,ko->ocp", columns, beta)
    out = out - 2.0 * np.einsum("ocp,ocp->o", mean, targets)
    moments = stats.moments.reshape(mean.shape[1], -1)
    for (i, j), place in np.ndenumerate(_pairs(stats)):
        out = out + np.einsum("oc,oc,c->o", mean[:, :, i], mean[:, :, j], moments[:, place])
    return out


def _pairs(stats: Statistics) -> Array:
    """Return the places, among the moments of a cell, of the products of two powers."""
    if len(stats.grids) == 1:
        return stats.pair
    powers = np.indices([k + 1 for k in stats.degrees]).reshape(len(stats.degrees), -1)
    both = powers[:, :, None] + powers[:, None, :]
    return np.asarray(np.ravel_multi_index(tuple(both), [2 * k + 1 for k in stats.degrees]))
