"""Fields converge to the exact Gaussian process: their bounds rise to its evidence."""

from itertools import pairwise

import numpy as np
import pytest

from asvgp import GPRegressor, Matern, Matern32, Matern52

NOISE = 0.01
SMOOTH = Matern32(0.5, dim=0) * Matern52(0.7, dim=1)
KERNELS = {
    "product": SMOOTH,
    "sum of products": SMOOTH + Matern52(0.3, 0.3, dim=0) * Matern52(0.3, dim=1),
    "joint": Matern(2, 0.5, dim=(0, 1)),
    "joint, turned": Matern(2, (0.6, 0.9), dim=(0, 1), rotation=0.5),
}


@pytest.mark.parametrize("name", KERNELS)
def test_bounds_rise_to_the_evidence(name):
    kernel, rng = KERNELS[name], np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (100, 2))
    root = np.linalg.cholesky(kernel(X, X) + NOISE * np.eye(len(X)))
    y = root @ rng.standard_normal(len(X))
    white = np.linalg.solve(root, y)
    evidence = -0.5 * white @ white - np.log(np.diag(root) * np.sqrt(2.0 * np.pi)).sum()
    below = []
    for count in (14, 24, 44):
        gp = GPRegressor(kernel, num_basis=count, noise_variance=NOISE, optimizer=None).fit(X, y)
        below.append(evidence - gp.elbo_)
        assert gp.evidence_upper_bound_ > evidence
    assert min(below) > -1e-3
    assert all(fewer > more for fewer, more in pairwise(below))
    assert below[-1] < 0.1
