"""Transforms of y: values, densities and moments against quadrature in one and two dimensions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from asvgp.data.transforms import IDENTITY, Transform, parse_transform, transformed

POWERS = [0.0, 0.25, 0.5, 0.9]
Y = np.array([0.2, 1.0, 3.0, 50.0])


@pytest.mark.parametrize("power", [*POWERS, 1.0])
def test_the_inverse_and_the_derivative_belong_to_the_transform(power):
    transform, step = Transform(power), 1e-6
    assert_allclose(transform.inverse(transform.forward(Y)), Y, rtol=1e-12)
    slope = (transform.forward(Y + step) - transform.forward(Y - step)) / (2 * step)
    assert_allclose(transform.log_jacobian(Y), np.log(slope), atol=1e-7)


def test_small_powers_approach_the_logarithm():
    assert_allclose(Transform(1e-9).forward(Y), np.log(Y), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_moments_and_densities_of_y_agree(power):
    transform, m, s = Transform(power), 3.0, 0.7
    mean, variance = transform.moments(np.array([m]), np.array([s**2]))

    def density(y):
        z = transform.forward(np.array(y))
        return float(np.exp(transform.log_density(np.array(y), norm.logpdf(z, m, s))))

    low, high = transform.inverse(
        np.array([max(m - 9 * s, -1 / power if power else -99), m + 9 * s])
    )
    middle = float(transform.inverse(np.array(m)))
    expected = [
        quad(lambda y, k=k: y**k * density(y), low, high, points=[middle])[0] for k in range(3)
    ]
    assert_allclose(expected[0], 1.0, rtol=1e-6)
    assert_allclose(mean, expected[1], rtol=1e-6)
    assert_allclose(variance, expected[2] - expected[1] ** 2, rtol=1e-5)


@pytest.mark.parametrize("power", POWERS)
def test_covariances_are_those_of_two_dimensional_quadrature(power):
    transform, mean = Transform(power), np.array([2.0, 2.5, 3.0])
    root = np.array([[0.5, 0.0, 0.0], [0.4, 0.3, 0.0], [-0.2, 0.1, 0.4]])
    latent = root @ root.T
    found = transform.covariance(mean, latent)
    u, w = np.polynomial.hermite_e.hermegauss(40)
    w = w / w.sum()
    for i, j in [(0, 1), (0, 2), (1, 2), (2, 2)]:
        pair = latent[np.ix_([i, j], [i, j])]
        half = np.linalg.cholesky(pair + 1e-14 * np.eye(2))
        a = transform.inverse(mean[i] + half[0, 0] * u)[:, None]
        b = transform.inverse(mean[j] + half[1, 0] * u[:, None] + half[1, 1] * u)
        weights = np.outer(w, w)
        expected = np.sum(weights * a * b) - np.sum(weights * a) * np.sum(weights * b)
        assert_allclose(found[i, j], expected, rtol=1e-6)
    assert_allclose(np.diag(found), transform.moments(mean, np.diag(latent))[1], rtol=1e-10)


def test_a_place_that_is_known_exactly_has_no_covariance():
    latent = np.array([[0.0, 0.0], [0.0, 0.3]])
    found = Transform(0.5).covariance(np.ones(2), latent)
    assert_allclose([found[0, 0], found[0, 1]], 0.0, atol=1e-14)


def test_bands_are_quantiles_of_y():
    mean, low, high = Transform(0.0).band(np.array([1.0]), np.array([0.5]), 2.0)
    assert_allclose([low[0], high[0]], np.exp([0.0, 2.0]))
    assert_allclose(mean, np.exp(1.125))


@pytest.mark.parametrize(
    "given, powers",
    [(None, [1]), ("log", [0]), ("sqrt", [0.5]), (0.3, [0.3]), (1, [1]), ("auto", [1, 0])],
)
def test_what_users_write(given, powers):
    assert [transform.power for transform in parse_transform(given)] == powers


@pytest.mark.parametrize("given", ["ln", -0.5, 1.5, True, ("log",), np.nan])
def test_what_is_no_transform_is_refused(given):
    with pytest.raises(ValueError, match=r"power|transform"):
        parse_transform(given)


def test_candidates_stand_beside_each_other_and_missing_rows_are_in_no_sum():
    y = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])
    values, sums = transformed(y, (IDENTITY, Transform(0.0)))
    assert_array_equal(values[:, :2], y)
    assert_allclose(values[:, 2:], np.log(y))
    assert_allclose(sums, [0.0, 0.0, -np.log(4.0), -np.log(10.0)])
    same, sums = transformed(y, (IDENTITY,))
    assert same is y
    assert_array_equal(sums, 0.0)


def test_a_transform_without_a_value_is_ruled_out_or_refused():
    y = np.array([1.0, 0.0, np.nan, -2.0, 3.0])
    values, sums = transformed(y, (IDENTITY, Transform(0.0)))
    assert_array_equal(sums, [0.0, -np.inf])
    assert_array_equal(np.isnan(values).any(axis=1), np.isnan(y))  # no further row is missing
    with pytest.raises(ValueError, match=r"zero or negative in 2 of 5 rows \(1, 3\).*log y"):
        transformed(y, (Transform(0.0),))
