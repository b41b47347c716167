"""Counts with more zeros than a Poisson distribution has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import gammaln, xlogy

from asvgp.basis import Array
from asvgp.likelihoods.counts import Poisson, growth, lognormal_moments, shrunken_rate
from asvgp.likelihoods.family import Family, weighted_mean
from asvgp.likelihoods.quadrature import MOST_EXPONENT, NODES, START, WEIGHTS, rule

_POISSON = Poisson()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _zero(f, inflation):
    """Return log p(0 | f), its two derivatives and that by the logarithm of the inflation."""
    rate = math.exp(min(f, 50.0))  # of more, exp(-rate) is zero anyway
    by_chance = (1.0 - inflation) * math.exp(-rate)
    total = inflation + by_chance
    share = by_chance / total
    slope = -rate * share
    change = -inflation * math.expm1(-rate) / total
    return math.log(total), slope, slope + rate * rate * share * (1.0 - share), change


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _inflated_rows(y, m, v, inflation, value, slope, weight, change):
    # exp(-rate) = -inflation / (1 - inflation) is the singularity that is nearest.
    distance = math.atan2(math.pi, math.log((1.0 - inflation) / inflation))
    unit = (math.pi / distance) ** 2
    for i in range(y.shape[0]):
        if y[i] > 0.0:
            rate = math.exp(min(m[i] + 0.5 * v[i], MOST_EXPONENT))
            value[i] = y[i] * m[i] - rate - math.lgamma(y[i] + 1.0) + math.log1p(-inflation)
            slope[i] = y[i] - rate
            weight[i] = rate
            change[i] = -inflation / (1.0 - inflation)
            continue
        number = rule(unit * v[i])
        first, last = START[number], START[number + 1]
        s = math.sqrt(v[i]) if v[i] > 0.0 else 0.0
        total, g, w, p = _zero(m[i], inflation)
        middle = WEIGHTS[first]
        total, g, w, p = middle * total, middle * g, middle * w, middle * p
        for j in range(first + 1, last):
            a, b, c, d = _zero(m[i] + s * NODES[j], inflation)
            e, f, h, k = _zero(m[i] - s * NODES[j], inflation)
            total += WEIGHTS[j] * (a + e)
            g += WEIGHTS[j] * (b + f)
            w += WEIGHTS[j] * (c + h)
            p += WEIGHTS[j] * (d + k)
        value[i], slope[i], weight[i], change[i] = total, g, -w, p


@dataclass(frozen=True, repr=False)
class ZeroInflatedPoisson(Family):
    """Zero with a probability of ``inflation``, else a Poisson count with a rate of exp(f).

    The weights of zeros may be negative: log p is not concave in f.

    Parameters
    ----------
    inflation : float or "auto", default="auto"
        Between zero and one.

    Examples
    --------
    >>> import numpy as np
    >>> ZeroInflatedPoisson(inflation=0.25).response(np.log([8.0])).round(6)
    array([6.])
    """

    inflation: float | str = "auto"

    name: ClassVar[str] = "zero-inflated-poisson"
    log_concave: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"exposure"})
    starts: ClassVar[dict[str, float]] = {"inflation": 0.2}
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"inflation": (1e-4, 0.99)}
    whole: ClassVar[bool] = True
    support: ClassVar[tuple[float, float]] = (-1.0, math.inf)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.number("inflation") < 1.0:
            raise ValueError(f"inflation must be less than one, got {self.inflation}.")

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are counts."""
        self._check_counts(np.asarray(y, dtype=np.float64), first_row)

    def _rows(self, y: Any, m: Any, v: Any) -> Any:
        out = np.empty((4, len(m)))
        _inflated_rows(y, m, v, self.number("inflation"), *out)
        return out

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight, _ = self._rows(y, m, v)
        return value, slope, weight

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(inflation), where that is free."""
        return self._rows(y, m, v)[3:] if self.free else np.zeros((0, len(m)))

    def robust_weights(
        self, y: Array, extra: Any, m: Array, v: Array
    ) -> tuple[Array, Array] | None:
        """Return the slopes and weights of the EM algorithm, which are never negative."""
        inflation = self.number("inflation")
        rate = growth(m + 0.5 * v)
        odds = inflation / (1.0 - inflation) * growth(rate)
        chance = np.where(y > 0.0, 1.0, 1.0 / (1.0 + odds))  # that a zero is the Poisson's
        return y - chance * rate, chance * rate

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return log of counts over exposure, shrunken to the overall rate."""
        exposure = np.ones(len(y)) if offset is None else growth(offset)
        return shrunken_rate(y, exposure)

    def _guess(self, y: Array, extra: Any, weight: Any, offset: Any) -> dict[str, float]:
        """Return the share of zeros beyond those of one rate that fits the positive counts."""
        mean, some = weighted_mean(y, weight), weighted_mean((y > 0.0).astype(np.float64), weight)
        if some <= 0.0:
            return {"inflation": 0.5}
        positive = mean / some
        rate = max(positive - 1.0, 1e-3)
        for _ in range(50):  # rate / (1 - exp(-rate)) = positive
            rate = max(-positive * math.expm1(-rate), 1e-3)
        # The field explains a part of the zeros.
        return {"inflation": min(max(0.8 * (1.0 - mean / rate), 0.02), 0.9)}

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return (1 - inflation) exp(f)."""
        return (1.0 - self.number("inflation")) * growth(f)

    def response_moments(self, m: Array, v: Array, extra: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of the mean response, which is log-normal."""
        mean, variance = lognormal_moments(m, v)
        share = 1.0 - self.number("inflation")
        return share * mean, share**2 * variance

    def variance(self, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the variance of a new count."""
        mean, variance = lognormal_moments(m, v)
        inflation = self.number("inflation")
        square = np.minimum(mean, 1e130) ** 2
        return (1.0 - inflation) * (mean + variance + inflation * square)

    def _scatter(self, f: Array, extra: Any) -> Array:
        rate = growth(f)
        inflation = self.number("inflation")
        return (1.0 - inflation) * (rate + inflation * np.minimum(rate, 1e130) ** 2)

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return _POISSON._sharpness(m, v, extra)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        inflation = self.number("inflation")
        share = inflation + (1.0 - inflation) * _POISSON._share_below(y, f, extra)
        return np.where(y < 0.0, 0.0, share)

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        inflation = self.number("inflation")
        left = max(share - inflation, 1e-300) / (1.0 - inflation)
        return np.maximum(_POISSON._point(left, f, extra), 0.0)

    def log_predictive_density(self, y: Array, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the log probability of new counts y under f ~ N(m, v)."""
        inflation = self.number("inflation")
        by_chance = math.log1p(-inflation) + _POISSON.log_predictive_density(y, m, v)
        return np.where(y > 0.0, by_chance, np.logaddexp(math.log(inflation), by_chance))

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one count for every f."""
        counts = _POISSON.sample(f, rng)
        return np.where(rng.random(np.shape(f)) < self.number("inflation"), 0.0, counts)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return twice what log p lacks with this mean to the best one."""
        inflation = self.number("inflation")
        rate = np.maximum(mean, 1e-300) / (1.0 - inflation)
        log_p = self.expected(y, None, np.log(rate), np.zeros(len(y)))[0]
        best = np.where(y > 0.0, math.log1p(-inflation) + xlogy(y, y) - y - gammaln(y + 1.0), 0.0)
        return 2.0 * (best - log_p)
