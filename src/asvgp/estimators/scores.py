"""Normal scores of observations under a likelihood that is not Gaussian.

The probability integral transform of y, P(Y <= y) under its prediction, is uniform if the model is
right, and its normal score standard normal. Where y is a count or a class, the distribution jumps
at y, and a number is drawn between the two ends of the jump (randomised quantile residuals, Dunn
and Smyth 1996). The same goes for times of which is known that they are longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from asvgp.basis import Array
from asvgp.data.inputs import as_rows
from asvgp.structures.observed import Beside


class Scores(NamedTuple):
    """Normal scores of all rows, NaN where y is missing."""

    z: Array
    mean: Array  # of y as predicted


def normal_scores(
    gp, X, y, sample_weight=None, beside: Beside | None = None, held_out=False, seed: int = 0
) -> Scores:
    """Return the normal scores of observations, each predicted without itself.

    If they are ``held_out``, the model does not know them. The same seed draws the same scores.
    """
    beside = Beside() if beside is None else beside
    X, y, sample_weight, *rest = as_rows(X, y, sample_weight, *beside)
    data, posterior = gp._fit_data(), gp.posterior_
    rows = data.rows(X, y, sample_weight, None, None, *rest)
    seen = rows.observed
    assert seen is not None
    family = gp._family()
    if held_out:
        mean, v = data.structure.predict(posterior, seen.points)
        m = mean[0] if seen.offset is None else mean[0] + seen.offset
        process = gp._fitted().noise_process
        extra = seen.extra if process is None else process.moments(data.structure, seen.points)
    else:
        m, v, extra = gp._without_own(seen)
    low = family.cdf(seen.y, m, v, extra, below=True)
    high = family.cdf(seen.y, m, v, extra)
    if "event" in family.takes and seen.extra is not None:
        high = np.where(seen.extra == 0.0, 1.0, high)
    share = low + np.random.default_rng(seed).random(len(m)) * (high - low)
    z = ndtri(np.clip(share, np.finfo(float).tiny, 1.0 - 1e-16))
    mean, _ = family.response_moments(m, v, extra)
    full = np.full((2, rows.points.count), np.nan)
    full[:, ~np.isnan(rows.y)] = z, mean
    return Scores(*full)
