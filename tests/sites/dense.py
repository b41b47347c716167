"""Dense variational inference with any likelihood: the twin of `asvgp.sites`."""

from __future__ import annotations

import numpy as np


def dense_posterior(K, family, y, extra=None, weight=None, offset=None):
    """Return the highest bound of a Gaussian posterior of f at the data, its mean and variance.

    Natural gradient steps on one site per row, halved where they lose.
    """
    n = len(y)
    offset = np.zeros(n) if offset is None else offset
    weight = np.ones(n) if weight is None else weight

    def at(precision, right):
        system = np.eye(n) + K * precision
        S = np.linalg.solve(system, K)
        m, v = S @ right, np.diag(S).copy()
        sign, log_det = np.linalg.slogdet(system)
        energy = (right - precision * m) @ m  # of m under the prior, m = K (right - precision m)
        divergence = 0.5 * (energy - precision @ v + log_det)
        if sign <= 0.0 or np.any(v <= 0.0):
            return -np.inf, m, v, right, precision
        values, g, w = family.expected(y, extra, m + offset, v)
        return weight @ values - divergence, m, v, weight * (g + w * m), weight * w

    f = np.full(n, np.median(family.start(y, extra, None, None)))
    robust = family.robust_weights(y, extra, f + offset, np.zeros(n))
    g, w = robust or family.expected(y, extra, f + offset, np.zeros(n))[1:]
    w = np.maximum(w, 1e-3 * np.abs(w).mean())
    precision, right = weight * w, weight * (g + w * f)
    now, share = at(precision, right), 1.0
    for _ in range(500):
        trial = [(1 - share) * a + share * b for a, b in ((precision, now[4]), (right, now[3]))]
        then = at(*trial)
        if not then[0] >= now[0] - 1e-10:
            share *= 0.5
            if share < 1e-6:
                break
            continue
        gain, now, (precision, right) = then[0] - now[0], then, trial
        share = min(1.0, 1.5 * share)
        if gain < 1e-10:
            break
    return now[:3]
