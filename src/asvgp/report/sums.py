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

from itertools import product
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, by_power
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.grid import GridPosterior

_LEAST_LEFT = 1e-9  # of 1 - h, below which a cell's mean determines f there


class CellMeans(NamedTuple):
    """Means of y in the cells that hold data.

    Attributes
    ----------
    x : ndarray of shape (cells,)
        Mean input of the data.
    mean : ndarray of shape (outputs, cells)
        Mean of y, as observed.
    z : ndarray of shape (outputs, cells)
        Difference to the prediction without this cell, in standard deviations.
    covariates : ndarray of shape (cells, columns)
        Means of the columns of linear effects.
    """

    x: Array
    mean: Array
    z: Array
    covariates: Array


def cell_means(posterior: ChainPosterior) -> CellMeans:
    """Compare the means of cells with what the rest of the statistics predicts for them."""
    stats, model, grid = posterior.stats, posterior.model, posterior.grid
    seen = np.flatnonzero(stats.moments[:, 0] > 0.0)
    weight = stats.moments[seen, 0]
    powers = stats.moments[seen][:, stats.pair[0]] / weight[:, None]
    phi = powers[:, model.power]
    splines = np.einsum("oti,ti->ot", posterior.coefficients[:, seen], phi)
    covariance = posterior.chain.marginals(keep=True)[2][seen]
    own = np.einsum("ti,tij,tj->t", phi, covariance, phi)
    x = grid.lower + grid.spacing * (seen + powers[:, 1])
    covariates = (stats.columns[:, seen, 0] / weight).T + stats.column_centre
    predicted = splines
    if posterior.effects is not None:
        design = posterior.effect_values(x, covariates)
        own = own + posterior.effects.variance(posterior.effects.left(splines, design))
        predicted, _ = posterior.with_effects(splines, np.empty(0), design)
    mean = stats.targets[:, seen, 0] / weight + stats.centre[:, None]
    left = 1.0 - weight * own / posterior.noise
    left[left < _LEAST_LEFT] = np.nan
    z = (mean - predicted) / np.sqrt(posterior.noise * left / weight)
    return CellMeans(x, mean, z, covariates)


class Remainder(NamedTuple):
    """Variance of y that the model explains, and the rest, per output.

    Attributes
    ----------
    explained : ndarray
        Share of the variance of y that the posterior mean accounts for, at the data.
    noise_ratio : ndarray
        Residual variance, allowing for the degrees of freedom spent, over that of the noise.
    """

    explained: Array
    noise_ratio: Array


def remainder(posterior: ChainPosterior | GridPosterior, freedom: float) -> Remainder:
    """Compute the sums of squares of the residuals from the statistics.

    Parameters
    ----------
    posterior : ChainPosterior or GridPosterior
    freedom : float
        Effective degrees of freedom.
    """
    stats = posterior.stats
    residual = (
        _of_line(posterior) if isinstance(posterior, ChainPosterior) else _of_field(posterior)
    )
    total = stats.squares - stats.weight * (stats.sums / stats.weight - stats.centre) ** 2
    free = max(stats.count - freedom, 1.0)
    residual = np.maximum(residual, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = np.where(total > 0.0, 1.0 - residual / total, np.nan)
    return Remainder(explained, residual / (free * posterior.noise))


def _of_line(posterior: ChainPosterior) -> Array:
    """Return ``|y - mean|**2``, weighted: y less its effects of other columns, less polynomials."""
    stats, model, effects = posterior.stats, posterior.model, posterior.effects
    outputs, size = len(stats.squares), stats.degree + 1
    polynomials = by_power(posterior.coefficients[:outputs], model.power, size)
    targets, squares = stats.targets, stats.squares
    if effects is not None:
        design = effects.design
        stats, beta = design.stats, effects.beta - design.centring.offset  # of centred y
        polynomials = polynomials + np.einsum("po,pcj->ocj", beta, design.taylor)
        targets = stats.targets - np.einsum("po,pcj->ocj", beta, design.sums)
        squares = (
            stats.squares
            - 2.0 * np.einsum("po,po->o", beta, design.with_y)
            + np.einsum("po,pq,qo->o", beta, design.products, beta)
        )
    pair = stats.pair
    fitted = sum(
        np.einsum(
            "oc,oc,c->o", polynomials[:, :, i], polynomials[:, :, j], stats.moments[:, column]
        )
        for (i, j), column in np.ndenumerate(pair)
    )
    return squares - 2.0 * np.einsum("ocj,ocj->o", polynomials, targets) + fitted


def _of_field(posterior: GridPosterior) -> Array:
    """Return ``|y - mean|**2`` for several inputs: one polynomial per cell, with columns beside."""
    stats, plan = posterior.stats, posterior.plan
    beta = posterior.columns.copy()  # (columns, outputs); the sums are of centred y
    beta[len(beta) - plan.effects :] -= posterior.engine.centring.offset
    out = stats.squares - 2.0 * np.einsum("oc,co->o", stats.column_targets, beta)
    out = out + np.einsum("co,cd,do->o", beta, stats.column_gram, beta)
    if not plan.inputs:
        return out
    sizes = [p + 1 for p in plan.powers]
    cells = int(np.prod([grid.cells for grid in plan.grids]))
    moments = stats.moments.reshape(cells, -1)
    wide = [2 * p + 1 for p in plan.powers]
    cross = stats.cross.reshape(cells, int(np.prod(sizes)), stats.cross.shape[-1])
    powers = list(product(*(range(n) for n in sizes)))
    for o, table in enumerate(posterior.means):
        targets = stats.targets[o].reshape(cells, -1)
        part = -2.0 * float(np.sum(table * targets))
        part += 2.0 * float(np.einsum("cp,cpk,k->", table, cross, beta[:, o], optimize=True))
        for i, first in enumerate(powers):
            for j, second in enumerate(powers):
                place = np.ravel_multi_index(np.add(first, second), wide)
                part += float(np.sum(table[:, i] * table[:, j] * moments[:, place]))
        out[o] += part
    return out
