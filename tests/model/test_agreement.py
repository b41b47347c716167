"""Agreement with celerite2, which is exact on one input."""

import celerite2
import numpy as np
import pytest
from celerite2 import terms

from asvgp import SHO, GPRegressor, Matern32


def data(n=2000):
    """Irregular times with two gaps, a wave and noise."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 20, n))
    x[((x > 6) & (x < 8)) | ((x > 14) & (x < 14.5))] -= 2.0
    x = np.sort(x)
    return x, np.sin(x) + 0.3 * np.cos(5 * x) + 0.2 * rng.standard_normal(len(x))


@pytest.mark.parametrize("name", ["Matern32", "SHO", "overdamped SHO"])
@pytest.mark.parametrize("degree", [2, 3])
def test_agrees_with_celerite2(name, degree):
    x, y = data()
    noise, variance = 0.04, 1.5
    kernel, term = {
        # celerite2's Matérn-3/2 is the limit eps -> 0 of an SHO; this eps is good to 1e-9.
        "Matern32": (
            Matern32(2.0, variance),
            terms.Matern32Term(sigma=variance**0.5, rho=2.0, eps=1e-5),
        ),
        "SHO": (
            SHO(6.0, 2.0, variance),
            terms.SHOTerm(sigma=variance**0.5, rho=6.0, Q=2.0),
        ),
        "overdamped SHO": (
            SHO(12.0, 0.3, variance),
            terms.SHOTerm(sigma=variance**0.5, rho=12.0, Q=0.3),
        ),
    }[name]
    peer = celerite2.GaussianProcess(term)
    peer.compute(x, diag=np.full(len(x), noise))
    new = np.sort(np.concatenate([np.linspace(-5, 25, 200), x[:20]]))
    mean, variances = peer.predict(y, t=new, return_var=True)
    gp = GPRegressor(
        kernel, num_basis=2000, noise_variance=noise, degree=degree, optimizer=None
    ).fit(x, y)
    m, s = gp.predict(new, return_std=True)
    scale = variance**0.5
    close = {2: 1e-3, 3: 1e-5}[degree]  # the prior's standard deviation being one
    assert np.abs(m - mean).max() < close * scale
    assert np.abs(s - np.sqrt(variances)).max() < close * scale
    assert gp.elbo_ <= peer.log_likelihood(y) + 1e-3 <= gp.evidence_upper_bound_ + 2e-3
