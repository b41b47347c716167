"""The Gaussian likelihood."""

import numpy as np
import pytest
from scipy.stats import norm

from asvgp.likelihoods import Gaussian


def test_new_observations_scatter_by_the_noise_over_their_weight():
    likelihood, latent, weight = Gaussian(0.5), np.array([1.0, 2.0]), np.array([1.0, 4.0])
    np.testing.assert_allclose(likelihood.observation_variance(latent), [1.5, 2.5])
    np.testing.assert_allclose(likelihood.observation_variance(latent, weight), [1.5, 2.125])


def test_log_predictive_density_is_that_of_scipy():
    rng = np.random.default_rng(0)
    y, mean, variance, weight = rng.uniform(0.5, 2.0, (4, 30))
    got = Gaussian(0.3).log_predictive_density(y, mean, variance, weight)
    np.testing.assert_allclose(got, norm.logpdf(y, mean, np.sqrt(variance + 0.3 / weight)))


def test_parameters_can_be_replaced():
    likelihood = Gaussian(0.3)
    assert likelihood.parameters == ("noise variance",)
    assert likelihood.with_values(2.0 * likelihood.values) == Gaussian(0.6)
    assert likelihood.with_noise(0.1) == Gaussian(0.1)


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
def test_noise_must_be_positive(noise):
    with pytest.raises(ValueError, match="noise variance must be positive"):
        Gaussian(noise)
