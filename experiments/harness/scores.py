"""How good predictions are: of the mean, and of the whole predictive distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from experiments.methods.child import LEVELS, QUANTILES

Array = NDArray[np.float64]


def scores(y: Array, mean: Array, std: Array | None) -> dict[str, float | None]:
    """MSE, NLPD, CRPS and the share of values inside 95 % intervals.

    Parameters
    ----------
    y, mean : (n,) arrays
        Held-out observations and their predicted means.
    std : (n,) array or None
        Standard deviations of the predictions *of observations*, noise included. None for a
        method that has none: then only the error of the mean is known.
    """
    error = y - mean
    out: dict[str, float | None] = {"mse": float(np.mean(error**2))}
    if std is None:
        return out | {"nlpd": None, "crps": None, "coverage": None}
    z = error / std
    nlpd = 0.5 * np.log(2.0 * np.pi) + np.log(std) + 0.5 * z**2
    crps = std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return out | {
        "nlpd": float(np.mean(nlpd)),
        "crps": float(np.mean(crps)),
        "coverage": float(np.mean(np.abs(z) < norm.ppf(0.975))),
    }


def quantiles_of(mean: Array, spread: Array) -> Array:
    """Quantiles at `QUANTILES`, a row for each mean: those given, or those of normal distributions.

    Parameters
    ----------
    mean : (n,) array
    spread : (n,) or (n, len(QUANTILES)) array
        Standard deviations, or the quantiles themselves.
    """
    if spread.ndim == 2:
        return spread
    return mean[:, None] + spread[:, None] * norm.ppf(QUANTILES)


def forecast_scores(
    y: Array, mean: Array, quantiles: Array | None, scale: float
) -> dict[str, float | None]:
    """MASE, CRPS and the shares of values inside the 80 % and 95 % bands.

    The CRPS is twice the pinball loss, averaged over the middles of twenty equal parts of [0, 1];
    so forecasts given as quantiles and as normal distributions are scored alike.

    Parameters
    ----------
    y, mean : (n,) arrays
        Values held out and their point forecasts.
    quantiles : (n, len(QUANTILES)) array or None
        Of the predictive distributions of values, noise included.
    scale : float
        What errors are divided by: the mean absolute error of a seasonal naive forecast over the
        history, as usual for the MASE. The CRPS is divided by it, too.
    """
    out: dict[str, float | None] = {"mase": float(np.mean(np.abs(y - mean))) / scale}
    if quantiles is None:
        return out | {"crps": None, "inside_80": None, "inside_95": None}
    column = {level: quantiles[:, i] for i, level in enumerate(QUANTILES)}
    pinball = [np.maximum(p * (y - column[p]), (p - 1.0) * (y - column[p])) for p in LEVELS]
    inside = {
        f"inside_{name}": float(np.mean((y >= column[low]) & (y <= column[high])))
        for name, low, high in ((80, 0.1, 0.9), (95, 0.025, 0.975))
    }
    return out | {"crps": 2.0 * float(np.mean(pinball)) / scale} | inside


def seasonal_error(x: Array, y: Array, season: float) -> float:
    """Mean absolute difference of values a season apart: the scale of the MASE.

    Parameters
    ----------
    x : (n,) array
        Places of the values, in steps; some may be missing.
    y : (n,) array
    season : float
        In steps.
    """
    before = x - season
    there = np.isin(np.rint(before), np.rint(x))
    return float(np.mean(np.abs(y[there] - np.interp(before[there], x, y))))
