"""Expected log densities, against SciPy's densities and adaptive quadrature."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from asvgp.likelihoods import Bernoulli
from asvgp.likelihoods.quadrature import LARGEST, full, logistic, rule, softplus

from .cases import CASES, Case, gaussian_mean, grid

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
free_cases = {name: case for name, case in CASES.items() if case.family.free}


def quadrature(case: Case):
    """V row by row, by adaptive quadrature of SciPy's log density."""
    y, extra, m, v = grid(case)
    values = case.family.values
    return np.array(
        [
            gaussian_mean(
                lambda f, i=i: case.log_density(
                    y[i], f, None if extra is None else extra[i], values
                ),
                m[i],
                v[i],
                [y[i]],
            )
            for i in range(len(y))
        ]
    )


@each_case
def test_values_are_those_of_adaptive_quadrature(case):
    y, extra, m, v = grid(case)
    expected = quadrature(case)
    np.testing.assert_allclose(
        case.family.expected(y, extra, m, v)[0], expected, rtol=1e-8, atol=2e-8
    )


@each_case
def test_slopes_and_weights_are_derivatives_of_the_values(case):
    y, extra, m, v = grid(case)
    _, g, w = case.family.expected(y, extra, m, v)

    def value(m, v):
        return case.family.expected(y, extra, m, v)[0]

    step = 1e-3  # Richardson's differences: errors of the fourth power of the step
    near = (value(m + step, v) - value(m - step, v)) / (2.0 * step)
    far = (value(m + 2.0 * step, v) - value(m - 2.0 * step, v)) / (4.0 * step)
    np.testing.assert_allclose(g, (4.0 * near - far) / 3.0, rtol=1e-6, atol=1e-6)
    step = 1e-3 * v
    near = (value(m, v + step) - value(m, v - step)) / (2.0 * step)
    far = (value(m, v + 2.0 * step) - value(m, v - 2.0 * step)) / (4.0 * step)
    # A difference in v of rounded values: 1e-16 V / (1e-3 v)
    rounding = 1e-12 * (1.0 + np.abs(value(m, v))) / v
    difference = np.abs(w + 2.0 * (4.0 * near - far) / 3.0)
    assert np.all(difference <= 1e-6 * (1.0 + np.abs(w)) + rounding)


@each_case
def test_without_variance_it_is_the_log_density(case):
    y, extra, m, _ = grid(case)
    value, _, _ = case.family.expected(y, extra, m, np.zeros(len(m)))
    np.testing.assert_allclose(
        value, case.log_density(y, m, extra, case.family.values), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("case", free_cases.values(), ids=free_cases.keys())
def test_slopes_by_parameters_are_differences_of_values(case):
    y, extra, m, v = grid(case)
    family, step = case.family, 1e-4
    slopes = family.slopes(y, extra, m, v)
    assert slopes.shape == (len(family.parameters), len(y))
    for j in range(len(slopes)):
        move = np.exp(step * np.eye(len(slopes))[j])
        above, below = (
            family.with_values(family.values * change).expected(y, extra, m, v)[0]
            for change in (move, 1.0 / move)
        )
        difference = (above - below) / (2.0 * step)
        np.testing.assert_allclose(slopes[j], difference, rtol=1e-5, atol=1e-6)


@each_case
def test_fixed_parameters_have_no_slopes(case):
    y, extra, m, v = grid(case)
    fixed = replace(case.family, free=())
    assert fixed.parameters == ()
    assert fixed.slopes(y, extra, m, v).shape == (0, len(y))
    assert fixed.values.shape == (0,)


@each_case
def test_values_stay_finite_far_away(case):
    for m in (-300.0, -40.0, 40.0, 300.0):
        for v in (0.0, 1e-12, 1.0, 100.0, 1e4):
            places = np.full(len(case.y), m), np.full(len(case.y), v)
            for out in case.family.expected(case.ys, case.extras, *places):
                assert np.all(np.isfinite(out)), (m, v)
            assert np.all(np.isfinite(case.family.slopes(case.ys, case.extras, *places)))


@each_case
def test_weights_are_positive_or_can_be_replaced(case):
    y, extra, m, v = grid(case)
    _, _, w = case.family.expected(y, extra, m, v)
    robust = case.family.robust_weights(y, extra, m, v)
    concave = case.family.name not in ("student-t", "beta", "zero-inflated-poisson")
    assert concave == (robust is None) == bool(np.all(w > 0.0))
    if robust is not None:
        g, w = robust
        assert np.all(w > 0.0)
        assert np.all(np.isfinite(g))


def test_weights_of_the_em_algorithm():
    """Their slopes are those of a bound that touches V where f has no variance."""
    for name in ("StudentT", "ZeroInflatedPoisson"):
        y, extra, m, _ = grid(CASES[name])
        family, zero = CASES[name].family, np.zeros(len(m))
        robust = family.robust_weights(y, extra, m, zero)
        assert robust is not None
        g, _ = robust
        np.testing.assert_allclose(g, family.expected(y, extra, m, zero)[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("number", range(len(LARGEST)))
def test_rules_integrate_polynomials(number):
    nodes, weights = full(number)
    assert rule(LARGEST[number]) == number
    np.testing.assert_allclose(nodes, -nodes[::-1])
    moments = [weights @ nodes**power for power in range(6)]
    expected = [1, 0, 0, 0, 0, 0] if number == 0 else [1, 0, 1, 0, 3, 0]
    np.testing.assert_allclose(moments, expected, atol=1e-9)


@pytest.mark.parametrize("v", [30.0, 300.0, 3000.0])
def test_wide_gaussians_lose_no_digits(v):
    for m in (-20.0, 0.4, 9.0):
        value, slope, _ = softplus(m, v)
        parts = np.linspace(-30.0, 30.0, 13)
        mean = gaussian_mean(lambda f: np.logaddexp(0.0, f), m, v, parts)
        assert abs(value - mean) < 1e-8
        share = gaussian_mean(lambda f: 0.5 * (1.0 + np.tanh(0.5 * f)), m, v, parts)
        assert abs(slope - share) < 1e-8


@pytest.mark.parametrize("v", [4.001, 8.0, 8.001, 16.0, 16.001, 32.0, 32.001, 100.0, 3000.0])
def test_logits_of_large_variance_take_few_places(v):
    for m in (-60.0, -20.0, -1.5, 0.0, 0.4, 9.0, 60.0):
        value, slope, bend = logistic(m, v)
        parts = np.linspace(-30.0, 30.0, 13)
        mean = gaussian_mean(lambda f: np.logaddexp(0.0, f), m, v, parts)
        assert abs(value - mean) < 3e-9
        share = gaussian_mean(lambda f: 0.5 * (1.0 + np.tanh(0.5 * f)), m, v, parts)
        assert abs(slope - share) < 3e-9
        narrow = gaussian_mean(lambda f: 0.25 * (1.0 - np.tanh(0.5 * f) ** 2), m, v, parts)
        assert abs(bend - narrow) < 1e-8


@pytest.mark.parametrize("z", [-1e8, -300.0, -40.0, -25.001, -24.999, -8.0, 0.0, 6.0])
def test_probit_keeps_its_digits_in_the_tail(z):
    one, zero = np.ones(1), np.zeros(1)
    value, slope, weight = Bernoulli(link="probit").expected(one, None, np.array([z]), zero)
    with mpmath.workdps(60):
        point = mpmath.mpf(z)
        if z < -1e4:  # the continued fraction of Mills' ratio
            ratio = -point - 1 / (point - 2 / point)
            log_p = mpmath.log(mpmath.npdf(point)) - mpmath.log(ratio)
        else:
            log_p = mpmath.log(mpmath.ncdf(point))
            ratio = mpmath.npdf(point) / mpmath.ncdf(point)
        assert value[0] == pytest.approx(float(log_p), rel=1e-12, abs=1e-15)
        assert slope[0] == pytest.approx(float(ratio), rel=1e-9)
        assert weight[0] == pytest.approx(float(ratio * (ratio + point)), rel=1e-7, abs=1e-9)
