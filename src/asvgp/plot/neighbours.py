"""Correlation of residuals with those near them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from asvgp.basis import Array

LAGS = 30
_ANCHORS = 20_000  # observations whose neighbours are looked for, in several dimensions


class Correlations(NamedTuple):
    """Correlations of residuals with their neighbours."""

    values: Array  # with the k-th neighbour, k = 1, 2, ...
    pairs: int  # behind each


def in_order(z: Array, lags: int = LAGS) -> Correlations:
    """Return the correlations of residuals that come in the order of their places."""
    z = z - z.mean() if len(z) else z
    power = float(z @ z) or 1.0
    lags = max(min(lags, len(z) - 1), 0)
    products = np.array([z[lag:] @ z[:-lag] for lag in range(1, lags + 1)])
    return Correlations(products / power, max(len(z), 1))


def nearest(z: Array, places: Array, lags: int = LAGS) -> Correlations:
    """Return the correlations with the nearest neighbours in several inputs.

    Places, (n, inputs), are on scales that make distances comparable.
    """
    n = len(z)
    lags = min(lags, n - 1)
    z = z - z.mean()
    anchors = np.random.default_rng(0).permutation(n)[:_ANCHORS]
    near = np.asarray(KDTree(places).query(places[anchors], k=lags + 1)[1])
    # At places with several observations an anchor is anywhere among them, or not found.
    others = near != anchors[:, None]
    others[others.all(axis=1), -1] = False
    products = z[anchors][:, None] * z[near[others].reshape(len(anchors), lags)]
    return Correlations(products.mean(axis=0) / (float(z @ z) / n or 1.0), len(anchors))
