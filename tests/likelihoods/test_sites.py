"""Site steps of a small dense process: every family climbs to a stationary point of the bound."""

import numpy as np
import pytest

from .cases import CASES

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def elbo(family, y, extra, prior, precision, linear):
    """The bound, the posterior's moments and the next sites, for given sites."""
    size = len(y)
    inverse = np.linalg.inv(prior)
    total = inverse + np.diag(precision)
    if np.linalg.eigvalsh(total).min() <= 0.0:
        return None
    covariance = np.linalg.inv(total)
    mean, variance = covariance @ linear, np.diag(covariance).copy()
    value, g, w = family.expected(y, extra, mean, variance)
    kl = 0.5 * (
        mean @ inverse @ mean
        + np.trace(inverse @ covariance)
        - size
        + np.linalg.slogdet(prior)[1]
        - np.linalg.slogdet(covariance)[1]
    )
    return value.sum() - kl, mean, variance, g, w


@each_case
def test_sites_climb_to_a_stationary_point(case):
    rng = np.random.default_rng(4)
    size, family = 30, case.family
    x = np.linspace(0.0, 3.0, size)
    distance = np.abs(x[:, None] - x)
    prior = (1.0 + distance) * np.exp(-distance) + 1.0 + 1e-8 * np.eye(size)
    extra = None if case.extra is None else np.resize(case.extras, size)
    y = family.sample(np.sin(2.0 * x), rng, extra)
    family.check(y, extra)
    start = family.start(y, extra, None, None)
    _, g, w = family.expected(y, extra, start, np.zeros(size))
    sites = w, g + w * start
    state, steps = elbo(family, y, extra, prior, *sites), 0
    assert state is not None
    for steps in range(1, 60):
        bound, mean, variance, g, w = state
        robust = family.robust_weights(y, extra, mean, variance) if steps <= 3 else None
        g, w = (g, w) if robust is None else robust
        target = w, g + w * mean
        rate = 1.0
        while True:
            moved = [(1.0 - rate) * a + rate * b for a, b in zip(sites, target, strict=True)]
            state = elbo(family, y, extra, prior, *moved)
            if state is not None and state[0] >= bound - 1e-9:
                break
            rate *= 0.5
            assert rate > 1e-4
        sites = moved
        if state[0] - bound < 1e-10 and steps > 4:
            break
    assert steps < 40
    _, mean, variance, g, w = state
    # Stationary: g = K^-1 m, and the precision of the sites is w.
    np.testing.assert_allclose(prior @ g, mean, atol=1e-4)
    np.testing.assert_allclose(sites[0], w, rtol=1e-3, atol=1e-3)
