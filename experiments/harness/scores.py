"""How good predictions are: of the mean, and of the whole predictive distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

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
