"""One family a case, beside SciPy's distribution of y given f."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln, expit, log_expit

from asvgp.likelihoods import (
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    Family,
    Gamma,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)


@dataclass
class Case:
    family: Family  # with everything free that can be
    log_density: Callable  # of y, f, extra and the values of the free parameters
    y: list[float]
    extra: list[float] | None = None
    mean: Callable | None = None  # of f and extra; with whole y it is summed instead

    @property
    def ys(self):
        return np.array(self.y)

    @property
    def extras(self):
        return None if self.extra is None else np.array(self.extra)


def _bernoulli(y, f, extra, values):
    return np.log(np.where(y == 1.0, expit(f), expit(-f)))


def _probit(y, f, extra, values):
    return stats.norm.logcdf(np.where(y == 1.0, f, -f))


def _binomial(y, f, extra, values):
    # SciPy's logpmf is -inf where a probability rounds to one.
    choices = -np.log(extra + 1.0) - betaln(extra - y + 1.0, y + 1.0)
    return choices + y * log_expit(f) + (extra - y) * log_expit(-f)


def _negative_binomial(y, f, extra, values):
    (r,) = values
    odds = f - np.log(r)
    choices = -np.log(y + r) - betaln(r, y + 1.0)
    return choices + y * log_expit(odds) + r * log_expit(-odds)


def _gamma(y, f, extra, values):
    (shape,) = values
    return stats.gamma.logpdf(y, shape, scale=np.exp(f) / shape)


def _exponential(y, f, extra, values):
    seen, censored = stats.expon.logpdf(y, scale=np.exp(f)), stats.expon.logsf(y, scale=np.exp(f))
    return np.where(extra == 1.0, seen, censored)


def _weibull(y, f, extra, values):
    (shape,) = values
    survival = -((y * np.exp(-f)) ** shape)
    seen = np.log(shape) - shape * f + (shape - 1.0) * np.log(y)
    return np.where(extra == 1.0, seen, 0.0) + survival


def _student(y, f, extra, values):
    df, scale = values
    return stats.t.logpdf(y, df, loc=f, scale=scale)


def _beta(y, f, extra, values):
    (precision,) = values
    a, b = precision * expit(f), precision * expit(-f)
    return (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y) - betaln(a, b)


def _ordinal(y, f, extra, values):
    """Of four levels, the first cut at -0.5."""
    ends = np.concatenate([[-np.inf], -0.5 + np.cumsum([0.0, *values]), [np.inf]])
    level = np.asarray(y).astype(int)
    upper, lower = ends[level + 1] - f, ends[level] - f
    # The difference of two probabilities, from the side where both are small
    swap = upper + lower > 0.0
    upper, lower = np.where(swap, -lower, upper), np.where(swap, -upper, lower)
    return log_expit(upper) + np.log1p(-np.exp(log_expit(lower) - log_expit(upper)))


def _inflated(y, f, extra, values):
    (inflation,) = values
    log_p = np.log1p(-inflation) + stats.poisson.logpmf(y, np.exp(f))
    return np.where(y == 0.0, np.logaddexp(np.log(inflation), log_p), log_p)


COUNTS = [0.0, 1.0, 7.0, 60.0]
TIMES = [0.01, 0.8, 6.0, 2.5]
CASES = {
    "Poisson": Case(Poisson(), lambda y, f, e, p: stats.poisson.logpmf(y, np.exp(f)), COUNTS),
    "Bernoulli": Case(Bernoulli(), _bernoulli, [0.0, 1.0]),
    "probit": Case(Bernoulli(link="probit"), _probit, [0.0, 1.0]),
    "Binomial": Case(Binomial(), _binomial, [0.0, 3.0, 12.0], [4.0, 7.0, 12.0]),
    "NegativeBinomial": Case(
        NegativeBinomial(dispersion=2.5, free=("dispersion",)), _negative_binomial, COUNTS
    ),
    "Gamma": Case(Gamma(shape=3.0, free=("shape",)), _gamma, TIMES),
    "Exponential": Case(Exponential(), _exponential, TIMES, [1.0, 0.0, 1.0, 0.0]),
    "Weibull": Case(Weibull(shape=1.7, free=("shape",)), _weibull, TIMES, [1.0, 0.0, 1.0, 0.0]),
    "StudentT": Case(
        StudentT(df=4.0, scale=0.7, free=("df", "scale")), _student, [-9.0, -0.4, 0.1, 3.0]
    ),
}

CASES |= {
    "Beta": Case(Beta(precision=20.0, free=("precision",)), _beta, [1e-4, 0.3, 0.55, 0.98]),
    "Ordinal": Case(
        Ordinal(levels=4, gaps=(0.8, 1.9), first=-0.5, free=("gap 1", "gap 2")),
        _ordinal,
        [0.0, 1.0, 2.0, 3.0],
    ),
    "ZeroInflatedPoisson": Case(
        ZeroInflatedPoisson(inflation=0.2, free=("inflation",)), _inflated, COUNTS
    ),
}

# Means and variances of f: every rule of the quadrature is used.
PLACES = np.array([[m, v] for m in (-2.5, 0.0, 1.3) for v in (1e-4, 0.05, 0.3, 0.8, 3.0, 9.0)])


def grid(case: Case):
    """Every y with every mean and variance: y, extra, m and v as arrays of one length."""
    n = len(case.y)
    y = np.tile(case.ys, len(PLACES))
    extra = None if case.extra is None else np.tile(case.extras, len(PLACES))
    m, v = np.repeat(PLACES, n, axis=0).T
    return y, extra, np.ascontiguousarray(m), np.ascontiguousarray(v)


def gaussian_mean(function, m, v, breaks=()):
    """Return the mean of a function of one f under N(m, v), by adaptive quadrature."""
    s = np.sqrt(v)
    reach = 16.0 + 2.0 * s  # exp(2 f) and large y have their weight far from m
    points = [-8.0, -1.0, 0.0, 1.0, 8.0, *np.clip((np.asarray(breaks) - m) / s, -reach, reach)]
    return quad(
        lambda x: float(function(m + s * x)) * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi),
        -reach,
        reach,
        points=sorted(set(points)),
        epsabs=1e-12,
        epsrel=1e-11,
        limit=500,
    )[0]
