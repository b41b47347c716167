"""Training models of several inputs: what it ends with, what it says of that, what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import GPRegressor, Matern52


def test_inputs_without_effect_do_not_spoil_a_fine_basis():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1000, 3))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    kernel = Matern52(dim=0) + Matern52(dim=1) + Matern52(dim=2)
    few, many = (GPRegressor(kernel, num_basis=n).fit(X, y) for n in (30, 100))
    # Their lengths end far beyond the domain, where 100 splines could not be told apart.
    assert min(many.kernel_.values[2::2]) > 5.0
    assert many.elbo_ > few.elbo_ - 1.0
    assert many.noise_variance_ == pytest.approx(0.01, rel=0.1)
    assert many.num_basis_[0] == 100
    np.testing.assert_allclose(many.predict(X[:50]), few.predict(X[:50]), atol=0.05)
