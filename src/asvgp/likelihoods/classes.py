"""Yes or no, once (Bernoulli) or in several trials (Binomial)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Number
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import bdtr, expit, gammaln, log_ndtr, ndtr, ndtri, xlogy
from scipy.stats import binom

from asvgp.basis import Array
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.quadrature import NODES, START, WEIGHTS, logistic, rule

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _logit_rows(y, trials, m, v, value, slope, weight):
    for i in range(y.shape[0]):
        mean, share, bend = logistic(m[i], v[i])
        value[i] = y[i] * m[i] - trials[i] * mean
        slope[i] = y[i] - trials[i] * share
        weight[i] = trials[i] * bend


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _logistic_rows(m, v, value, slope, bend):
    for i in range(m.shape[0]):
        value[i], slope[i], bend[i] = logistic(m[i], v[i])


def _logistic_moments(m: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return the means of log(1 + exp(f)) and of its first two derivatives, row by row."""
    value, slope, bend = np.empty((3, len(m)))
    _logistic_rows(m, v, value, slope, bend)
    return value, slope, bend


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _log_normal_cdf(z):
    """Return log Phi(z), its slope and minus its second derivative."""
    if z > -25.0:
        value = math.log(0.5 * math.erfc(-z * _ROOT_HALF))
        slope = math.exp(-0.5 * z * z - _HALF_LOG_2PI - value)
        return value, slope, slope * (slope + z)
    # Phi(z) = phi(z) / -z (1 - 1 / z**2 + 3 / z**4 - ...)
    inverse = 1.0 / (z * z)
    rest = 1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse))
    series = 1.0 - inverse * rest
    value = -0.5 * z * z - _HALF_LOG_2PI - math.log(-z) + math.log(series)
    # slope + z would cancel: it is -z (1 - series) / series
    return value, -z / series, rest / (series * series)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _probit_rows(y, m, v, value, slope, weight):
    for i in range(y.shape[0]):
        sign = 2.0 * y[i] - 1.0
        number = rule(v[i])
        first, last = START[number], START[number + 1]
        s = math.sqrt(v[i]) if v[i] > 0.0 else 0.0
        total, g, w = _log_normal_cdf(sign * m[i])
        total, g, w = WEIGHTS[first] * total, WEIGHTS[first] * g, WEIGHTS[first] * w
        for j in range(first + 1, last):
            a, b, c = _log_normal_cdf(sign * m[i] + s * NODES[j])
            d, e, f = _log_normal_cdf(sign * m[i] - s * NODES[j])
            total += WEIGHTS[j] * (a + d)
            g += WEIGHTS[j] * (b + e)
            w += WEIGHTS[j] * (c + f)
        value[i], slope[i], weight[i] = total, sign * g, w


@dataclass(frozen=True, repr=False)
class Bernoulli(Family):
    """Zero or one; the probability of one is a function of f.

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        1 / (1 + exp(-f)), or the distribution function of a standard Gaussian at f. With the
        former the data are read once.

    Examples
    --------
    >>> import numpy as np
    >>> Bernoulli(link="probit").response(np.array([0.0, 1.96])).round(3)
    array([0.5  , 0.975])
    """

    link: str = "logit"

    name: ClassVar[str] = "bernoulli"
    inverse_link: ClassVar[str] = "share"
    whole: ClassVar[bool] = True
    support: ClassVar[tuple[float, float]] = (-1.0, 2.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in ("logit", "probit"):
            raise ValueError(f'link must be "logit" or "probit", got {self.link!r}.')

    @property
    def one_read(self) -> bool:
        """Whether log p = y f - log(1 + exp(f)): with the logit."""
        return self.link == "logit"

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are zero or one."""
        y = np.asarray(y, dtype=np.float64)
        self._refuse((y != 0.0) & (y != 1.0), y, "y must contain 0 or 1", first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight = np.empty((3, len(m)))
        if self.link == "logit":
            _logit_rows(y, np.ones(len(m)), m, v, value, slope, weight)
        else:
            _probit_rows(y, m, v, value, slope, weight)
        return value, slope, weight

    def measure(self, y: Array, extra: Any, weight: Any, offset: Any) -> tuple[Array, Array]:
        """Return weights, and y times them."""
        if not self.one_read:
            raise self._reads_again()
        self._no_offset(offset)
        weight = np.ones(len(y)) if weight is None else weight
        return weight, weight * y

    def constants(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return no rows: there is no constant."""
        return np.zeros((0, len(y)))

    def constant(self, sums: Array) -> tuple[float, Array]:
        """Return zero: there is no constant."""
        return 0.0, np.zeros(0)

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the means of log(1 + exp(f)) and of its first two derivatives."""
        if not self.one_read:
            raise self._reads_again()
        return _logistic_moments(m, v)

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return logits of shares, shrunken to the overall one."""
        return _shrunken_logit(linear, mass)

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return the links of a quarter and of three quarters."""
        share = 0.25 + 0.5 * y
        f = np.log(share) - np.log1p(-share) if self.link == "logit" else ndtri(share)
        return f if offset is None else f - offset

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return the probability of one."""
        return expit(f) if self.link == "logit" else ndtr(f)

    def response_moments(self, m: Array, v: Array, extra: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of the probability."""
        mean, variance = super().response_moments(m, v)
        return (ndtr(m / np.sqrt(1.0 + v)) if self.link == "probit" else mean), variance

    def variance(self, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the variance of a new y, that of its mean probability."""
        mean = self.response_moments(m, v)[0]
        return mean * (1.0 - mean)

    def cdf(self, y: Array, m: Array, v: Array, extra: Any = None, below: bool = False) -> Array:
        """Return P(Y <= y) of a new Y under f ~ N(m, v); with ``below`` P(Y < y)."""
        y = np.ceil(y) - 1.0 if below else np.floor(y)
        mean = self.response_moments(m, v)[0]
        return np.where(y < 0.0, 0.0, np.where(y < 1.0, 1.0 - mean, 1.0))

    def _scatter(self, f: Array, extra: Any) -> Array:
        return self.response(f) * self.response(-f)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        return np.where(y < 0.0, 0.0, np.where(y < 1.0, self.response(-f), 1.0))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        return np.where(self.response(-f) >= share, 0.0, 1.0)

    def log_predictive_density(self, y: Array, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the log probability of new observations y under f ~ N(m, v)."""
        if self.link == "probit":
            return log_ndtr((2.0 * y - 1.0) * m / np.sqrt(1.0 + v))
        return super().log_predictive_density(y, m, v)

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return zero or one for every f."""
        return (rng.random(np.shape(f)) < self.response(f)).astype(np.float64)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return -2 log p with this probability."""
        return _binomial_deviance(y, mean, np.ones_like(y))


@dataclass(frozen=True, repr=False)
class Binomial(Family):
    """Counts of successes in ``trials``, each with a probability of 1 / (1 + exp(-f)).

    Parameters
    ----------
    link : {"logit"}, default="logit"
        The data are read once.

    Examples
    --------
    >>> import numpy as np
    >>> Binomial().response(np.zeros(1), extra=np.array([10.0]))
    array([5.])
    """

    link: str = "logit"

    name: ClassVar[str] = "binomial"
    inverse_link: ClassVar[str] = "share"
    takes: ClassVar[frozenset[str]] = frozenset({"trials"})
    whole: ClassVar[bool] = True
    support: ClassVar[tuple[float, float]] = (-1.0, math.inf)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.link, Number | np.ndarray | list | tuple):
            raise ValueError(
                f"The trials of Binomial belong to the rows: likelihood=Binomial() and "
                f"fit(X, y, trials={self.link!r:.40})."
            )
        if self.link != "logit":
            raise ValueError(f'link of Binomial must be "logit", got {self.link!r}.')

    @property
    def one_read(self) -> bool:
        """True: log p = y f - trials log(1 + exp(f)), and a constant."""
        return True

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are counts of no more than their trials."""
        y = np.asarray(y, dtype=np.float64)
        if extra is None:
            raise ValueError(
                "Binomial needs trials, the number of trials of every row: fit(X, y, trials=10), "
                "or one number per row. Without them, each row is one trial, and y is 0 or 1."
            )
        trials = np.asarray(extra, dtype=np.float64)
        wrong = ~(np.isfinite(trials) & (trials >= 1.0) & (trials == np.floor(trials)))
        self._refuse(wrong, trials, "trials must contain positive whole numbers", first_row)
        self._check_counts(y, first_row)
        problem = "y must contain at most as many successes as there are trials"
        self._refuse(y > trials, y, problem, first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight = np.empty((3, len(m)))
        trials = _trials(extra, y)
        _logit_rows(y, trials, m, v, value, slope, weight)
        return value + _log_choices(y, trials), slope, weight

    def measure(self, y: Array, extra: Any, weight: Any, offset: Any) -> tuple[Array, Array]:
        """Return trials and successes, times their weights."""
        self._no_offset(offset)
        trials = _trials(extra, y)
        return (trials, y) if weight is None else (weight * trials, weight * y)

    def constants(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return the logarithms of the numbers of choices."""
        out = _log_choices(y, _trials(extra, y))
        return (out if weight is None else weight * out)[None]

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the means of log(1 + exp(f)) and of its first two derivatives."""
        return _logistic_moments(m, v)

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return logits of shares, shrunken to the overall one."""
        return _shrunken_logit(linear, mass)

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return logits of shares, shrunken to one half by one trial."""
        f = np.log(y + 0.5) - np.log(_trials(extra, y) - y + 0.5)
        return f if offset is None else f - offset

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return the mean number of successes."""
        return expit(f) if extra is None else extra * expit(f)

    def _scatter(self, f: Array, extra: Any) -> Array:
        return (1.0 if extra is None else extra) * expit(f) * expit(-f)

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return np.maximum(0.25 if extra is None else 0.25 * extra, 1.0)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        trials = np.broadcast_to(1.0 if extra is None else extra, np.broadcast(y, f).shape)
        whole = np.clip(np.floor(y), 0.0, trials)
        return np.where(y < 0.0, 0.0, bdtr(whole, trials.astype(np.int64), expit(f)))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        return np.maximum(binom.ppf(share, 1.0 if extra is None else extra, expit(f)), 0.0)

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one number of successes for every f."""
        trials = np.asarray(1.0 if extra is None else extra)
        return rng.binomial(trials.astype(np.int64), expit(f)).astype(np.float64)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return twice what log p lacks with this mean to that with a mean of y."""
        return _binomial_deviance(y, mean, _trials(extra, y))


def _trials(extra: Array | None, y: Array) -> Array:
    return np.ones(len(y)) if extra is None else np.asarray(extra, dtype=np.float64)


def _log_choices(y: Array, trials: Array) -> Array:
    return gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)


def _shrunken_logit(successes: Array, mass: Array) -> Array:
    """Return logits of successes over mass, shrunken by half a trial to the overall share."""
    mass = np.maximum(mass, 0.0)
    successes = np.clip(successes, 0.0, mass)
    overall = (float(successes.sum()) + 0.5) / (float(mass.sum()) + 1.0)
    return np.log(successes + 0.5 * overall) - np.log(mass - successes + 0.5 * (1.0 - overall))


def _binomial_deviance(y: Array, mean: Array, trials: Array) -> Array:
    mean = np.clip(mean, 1e-300, trials * (1.0 - 1e-16))
    failures = trials - y
    return 2.0 * (
        xlogy(y, y) - xlogy(y, mean) + xlogy(failures, failures) - xlogy(failures, trials - mean)
    )
