"""Compiled Matérn correlations against high precision."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from asvgp.training.correlation import correlation

DISTANCES = np.array([1e-7, 1e-3, 0.1, 0.777, 1.0, 3.3, 12.0, 40.0, 63.9, 70.0])


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 1.0, 2.0, 3.0])
def test_correlations_and_their_derivatives_are_those_of_bessel_functions(nu):
    value, slope = correlation(nu, DISTANCES**2)
    with mpmath.workdps(30):

        def exact(r):
            return 2 ** (1 - nu) / mpmath.gamma(nu) * r**nu * mpmath.besselk(nu, r)

        for i, r in enumerate(map(mpmath.mpf, DISTANCES)):
            assert abs(value[i] - exact(r)) < 1e-11
            # -r d/dr is the derivative by the logarithm of the length
            assert abs(slope[i] * r**2 + r * mpmath.diff(exact, r)) < 2e-11


@pytest.mark.parametrize("nu", [0.5, 1.0, 3.0])
def test_a_place_is_one_with_itself(nu):
    value, slope = correlation(nu, np.zeros(2))
    assert np.allclose(value, 1.0)
    assert np.all(np.isfinite(slope))
