"""New observations: moments, distribution functions, quantiles and densities of mixtures."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, gammaincinv, logit, ndtri

from asvgp import NegativeBinomial, Poisson
from asvgp.likelihoods.counts import lognormal_moments

from .cases import CASES, Case, gaussian_mean

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
M = np.array([-1.2, 0.0, 0.9, 0.4])
V = np.array([0.3, 1e-3, 0.8, 0.05])


def extra_of(case: Case):
    """Trials of the predictions; times of predictions are not censored."""
    if case.extra is None:
        return None
    return np.array([9.0, 1.0, 30.0, 4.0]) if "trials" in case.family.takes else np.ones(4)


def everything(case: Case, i: int):
    """All possible y that matter, for sums over them; None where y is continuous."""
    if not case.family.whole:
        return None
    extra = extra_of(case)
    most = {"bernoulli": 1.0, "ordinal": 3.0, "binomial": extra[i] if extra is not None else 0.0}
    return np.arange(most.get(case.family.name, 4000.0) + 1.0)


def integral(case: Case, i: int, function, upto=np.inf):
    """The sum, or the integral, of a function of y times its conditional density, mixed over f."""
    extra = extra_of(case)
    one = None if extra is None else extra[i]
    values = case.family.values
    s = np.sqrt(V[i])
    # Gauss-Hermite in f with many places is exact enough: densities in f are smooth here
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    weights = weights / weights.sum()
    f = M[i] + s * nodes
    ys = everything(case, i)
    if ys is not None:
        ys = ys[ys <= upto]
        density = np.exp(case.log_density(ys[:, None], f[None], one, values)) @ weights
        return float(np.sum(density * function(ys)))

    positive, proportion = case.family.support[0] == 0.0, case.family.support == (0.0, 1.0)

    def integrand(z):
        y = expit(z) if proportion else np.exp(z) if positive else z
        density = np.exp(case.log_density(y, f, one, values)) @ weights
        return function(y) * density * (y * (1.0 - y) if proportion else y if positive else 1.0)

    if proportion:
        parts = np.linspace(-34.0, logit(upto) if upto < 1.0 else 34.0, 30)
    elif positive:
        parts = np.linspace(-40.0, min(np.log(upto), 40.0), 30)
    else:
        end = min(upto, 1e6)
        parts = np.concatenate([[-1e6, -1e4, -300.0], np.linspace(-20.0, min(end, 20.0), 21)])
        parts = np.concatenate([parts, [300.0, 1e4, 1e6]]) if end > 20.0 else parts
    return sum(
        quad(integrand, a, b, epsabs=1e-11, epsrel=1e-9, limit=200)[0]
        for a, b in itertools.pairwise(parts)
    )


@each_case
def test_densities_integrate_to_one(case):
    """Ours against SciPy's, both mixed; SciPy's integrate to one by its own account."""
    extra = extra_of(case)
    if case.family.whole:
        ys = everything(case, 0)
        for i in range(4):
            ys = everything(case, i)
            one = None if extra is None else np.full(len(ys), extra[i])
            m, v = np.full(len(ys), M[i]), np.full(len(ys), V[i])
            density = np.exp(case.family.log_predictive_density(ys, m, v, one))
            assert density.sum() == pytest.approx(1.0, abs=1e-7)
        return
    # The trapezoidal rule along a line that y is mapped to, as densities vanish at both ends
    z, step = np.linspace(-40.0, 40.0, 2001, retstep=True)
    if case.family.support == (0.0, 1.0):
        y, jacobian = expit(z), expit(z) * expit(-z)
    elif case.family.support[0] == 0.0:
        y, jacobian = np.exp(z), np.exp(z)
    else:
        y, jacobian = np.sinh(0.4 * z), 0.4 * np.cosh(0.4 * z)
    keep = (y > 0.0) & (y < 1.0) if case.family.support == (0.0, 1.0) else y > -np.inf
    y, jacobian = y[keep], jacobian[keep]
    for i in range(4):
        m, v = np.full(len(y), M[i]), np.full(len(y), V[i])
        one = None if extra is None else np.ones(len(y))
        density = np.exp(case.family.log_predictive_density(y, m, v, one))
        assert step * (density @ jacobian) == pytest.approx(1.0, abs=1e-6)


@each_case
def test_densities_are_those_of_adaptive_quadrature(case):
    y, extra = case.ys, case.extras
    values = case.family.values
    for i in range(4):
        m, v = np.full(len(y), M[i]), np.full(len(y), V[i])
        got = case.family.log_predictive_density(y, m, v, extra)
        for j in range(len(y)):
            one = None if extra is None else extra[j]
            best = got[j]  # densities may be tiny: compared after scaling

            def scaled(f, one=one, j=j, best=best):
                return np.exp(case.log_density(y[j], f, one, values) - best)

            breaks = M[i] + np.sqrt(V[i]) * np.linspace(-15.0, 15.0, 31)
            assert gaussian_mean(scaled, M[i], V[i], breaks) == pytest.approx(1.0, abs=1e-7)


@each_case
def test_moments_of_y_are_sums_over_y(case):
    extra = extra_of(case)
    mean, _ = case.family.response_moments(M, V, extra)
    variance = case.family.variance(M, V, extra)
    for i in range(4):
        assert mean[i] == pytest.approx(integral(case, i, lambda y: y), rel=1e-6, abs=1e-6)
        if case.family.name == "student-t":
            continue  # the fourth power of y in the tail: see below
        second = integral(case, i, lambda y, i=i: (y - mean[i]) ** 2)
        assert variance[i] == pytest.approx(second, rel=1e-5)


@each_case
def test_moments_of_the_response_are_integrals_over_f(case):
    extra = extra_of(case)
    mean, variance = case.family.response_moments(M, V, extra)
    for i in range(4):
        one = None if extra is None else extra[i]
        first = gaussian_mean(lambda f, one=one: case.family.response(f, one), M[i], V[i])
        assert mean[i] == pytest.approx(first, rel=1e-8, abs=1e-9)
        second = gaussian_mean(
            lambda f, one=one, first=first: (case.family.response(f, one) - first) ** 2, M[i], V[i]
        )
        assert variance[i] == pytest.approx(second, rel=1e-6)


@each_case
def test_shares_below_are_sums_over_y(case):
    extra = extra_of(case)
    quantiles = case.family.quantiles([0.1, 0.5, 0.9], M, V, extra)
    for j in range(3):
        y = np.ascontiguousarray(quantiles[:, j])
        share, below = (case.family.cdf(y, M, V, extra, below=b) for b in (False, True))
        for i in range(4):
            expected = integral(case, i, np.ones_like, upto=y[i])
            assert share[i] == pytest.approx(expected, abs=2e-6)
        if case.family.whole:
            step = share - below
            density = np.exp(case.family.log_predictive_density(y, M, V, extra))
            np.testing.assert_allclose(step, density, atol=2e-7)
        else:
            np.testing.assert_allclose(share, below)


@each_case
def test_quantiles_invert_shares(case):
    extra = extra_of(case)
    shares = np.array([0.001, 0.025, 0.5, 0.9, 0.975, 0.9999])
    quantiles = case.family.quantiles(shares, M, V, extra)
    assert quantiles.shape == (4, 6)
    assert np.all(np.diff(quantiles, axis=1) >= 0.0)
    for j, share in enumerate(shares):
        y = np.ascontiguousarray(quantiles[:, j])
        reached = case.family.cdf(y, M, V, extra)
        if case.family.whole:
            assert np.all(reached >= share)
            assert np.all(case.family.cdf(y, M, V, extra, below=True) < share)
        else:
            np.testing.assert_allclose(reached, share, atol=1e-8)


@each_case
@pytest.mark.parametrize("shares", [[0.0], [0.5, 1.0], [float("nan")]])
def test_quantiles_are_of_shares(case, shares):
    with pytest.raises(ValueError, match="shares between 0 and 1"):
        case.family.quantiles(shares, M, V, extra_of(case))


@each_case
def test_nothing_is_mixed_without_variance(case):
    extra, zero = extra_of(case), np.zeros(4)
    mean, variance = case.family.response_moments(M, zero, extra)
    np.testing.assert_allclose(mean, case.family.response(M, extra))
    np.testing.assert_allclose(variance, 0.0, atol=1e-14)
    y = case.family.quantiles([0.7], M, zero, extra)[:, 0]
    got = case.family.log_predictive_density(y, M, zero, extra)
    expected = case.log_density(y, M, extra, case.family.values)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


@each_case
def test_samples_follow_the_distribution(case):
    """The probability integral transform of samples is uniform: its mean within five errors."""
    rng = np.random.default_rng(3)
    n = 4000
    for i in range(4):
        extra = extra_of(case)
        one = None if extra is None else np.full(n, extra[i])
        f = M[i] + np.sqrt(V[i]) * rng.standard_normal(n)
        y = case.family.sample(f, rng, one)
        m, v = np.full(n, M[i]), np.full(n, V[i])
        upper, lower = (case.family.cdf(y, m, v, one, below=b) for b in (False, True))
        level = lower + (upper - lower) * rng.random(n)
        assert abs(level.mean() - 0.5) < 5.0 * np.sqrt(1.0 / 12.0 / n)
        assert abs((level**2).mean() - 1.0 / 3.0) < 5.0 * np.sqrt(4.0 / 45.0 / n)


def test_the_variance_of_student_noise():
    family = CASES["StudentT"].family
    np.testing.assert_allclose(family.variance(M, V), V + 0.7**2 * 4.0 / 2.0)
    assert np.all(np.isinf(family.with_values([2.0, 0.7]).variance(M, V)))


@pytest.mark.parametrize("name", ["Poisson", "NegativeBinomial", "Binomial"])
def test_large_counts_are_resolved(name):
    """Of large counts, p(y | f) is much narrower than f: quantiles are nearly those of the rate."""
    case = CASES[name]
    m, v = np.array([7.0 if name != "Binomial" else 0.2]), np.array([1.0])
    extra = np.array([10_000.0]) if name == "Binomial" else None
    family = case.family if name != "NegativeBinomial" else case.family.with_values([3000.0])
    got = family.quantiles([0.2, 0.8], m, v, extra)[0]
    rate = family.response(m[0] + np.array([-0.8416212, 0.8416212]), 10_000.0)
    np.testing.assert_allclose(got, rate, rtol=5e-3)
    ys = np.linspace(*got, 9).round()
    m, v, extra = (None if a is None else np.repeat(a, 9) for a in (m, v, extra))
    step = family.cdf(ys, m, v, extra) - family.cdf(ys, m, v, extra, below=True)
    density = np.exp(family.log_predictive_density(ys, m, v, extra))
    np.testing.assert_allclose(step, density, rtol=1e-4)


@pytest.mark.parametrize(
    "y, m, v",
    [(0.0, 50.0, 4.0), (0.0, 8.0, 9.0), (1e6, 0.0, 1.0), (3.0, -60.0, 20.0), (2e4, 9.9, 1e-6)],
)
def test_surprising_counts_have_densities(y, m, v):
    got = CASES["Poisson"].family.log_predictive_density(*np.array([[y], [m], [v]]))[0]
    with mpmath.workdps(40):
        f = np.linspace(-20.0, 20.0, 4001)  # where log p + log N is largest, to begin with
        level = y * f - np.exp(f) - 0.5 * (f - m) ** 2 / v
        top = mpmath.findroot(lambda f: y - mpmath.exp(f) - (f - m) / v, f[np.argmax(level)])
        width = 1 / mpmath.sqrt(mpmath.exp(top) + 1 / v)
        peak = y * top - mpmath.exp(top) - (top - m) ** 2 / (2 * v)
        total = mpmath.quad(
            lambda f: mpmath.exp(y * f - mpmath.exp(f) - (f - m) ** 2 / (2 * v) - peak),
            [top + k * width for k in range(-40, 41, 4)],
        )
        log_p = peak - mpmath.loggamma(y + 1) + mpmath.log(total / mpmath.sqrt(2 * mpmath.pi * v))
    assert got == pytest.approx(float(log_p), abs=1e-6, rel=1e-9)


def test_surprising_classes_have_densities():
    """Far from zero 1 / (1 + exp(-f)) is exp(f), with a mean of exp(m + v / 2)."""
    family, one = CASES["Bernoulli"].family, np.ones(2)
    m, v = np.array([-500.0, -90.0]), np.array([1.0, 30.0])
    np.testing.assert_allclose(family.log_predictive_density(one, m, v), m + 0.5 * v, rtol=1e-9)
    np.testing.assert_allclose(family.log_predictive_density(one, -m, v), 0.0, atol=1e-9)


@pytest.mark.parametrize("rate", [1e8, 9.9e8, 1.1e9, 4e10, 1e11, 1e13, 1e17])
def test_quantiles_of_large_counts_are_in_order(rate):
    """They are those of a normal distribution, or with dispersion of a gamma distribution."""
    shares, m = np.array([1e-6, 0.025, 0.5, 0.975]), np.log(np.full(1, rate))
    spread = np.sqrt(rate + 1e-14 * rate**2)
    (found,) = Poisson().quantiles(shares, m, np.full(1, 1e-14))
    if rate < 1e15:  # beyond, the rule for the mixture is about a tenth of the spread off
        np.testing.assert_allclose((found - rate) / spread, ndtri(shares), atol=2e-2)
    (wide,) = Poisson().quantiles(shares[1:], m, np.ones(1))
    np.testing.assert_allclose(np.log(wide / rate), ndtri(shares[1:]), atol=2e-2)
    (found,) = NegativeBinomial(5.0).quantiles(shares, m, np.zeros(1))
    np.testing.assert_allclose(found / rate, gammaincinv(5.0, shares) / 5.0, rtol=1e-6)


def test_moments_of_rates_are_finite_however_wide_f_is():
    """At variances of hundreds both factors of a variance are large, their product more so."""
    m, v = np.array([0.0, -300.0, 5.0, -3.0, 200.0]), np.array([0.0, 798.0, 1e-9, 0.4, 5000.0])
    mean, variance = lognormal_moments(m, v)
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    wanted = np.exp(2.0 * m[[0, 2, 3]] + v[[0, 2, 3]]) * np.expm1(v[[0, 2, 3]])
    np.testing.assert_allclose(variance[[0, 2, 3]], wanted, rtol=1e-14)
    assert (np.sqrt(variance[[1, 4]]) > 1e100).all()
