"""Proportions strictly between zero and one: the Beta distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import betainc, betaincinv, expit, logit, polygamma, psi

from asvgp.basis import Array
from asvgp.likelihoods.family import Family, weighted_mean
from asvgp.likelihoods.mixture import root
from asvgp.likelihoods.quadrature import NODES, START, WEIGHTS, rule

_FAR = 150.0  # beyond, one over the squared probability would overflow; log p is linear there


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _digammas(x):
    """Return digamma and trigamma of a positive number: recurrence, then asymptotic series."""
    first, second = 0.0, 0.0
    while x < 8.0:
        inverse = 1.0 / x
        first -= inverse
        second += inverse * inverse
        x += 1.0
    inverse = 1.0 / x
    q = inverse * inverse
    first += math.log(x) - 0.5 * inverse
    first -= q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132)))))
    tail = q * (1 / 42 - q * (1 / 30 - q * (5 / 66 - q * (691 / 2730))))
    second += inverse + 0.5 * q + inverse * q * (1 / 6 - q * (1 / 30 - tail))
    return first, second


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _point(ratio, f, precision):
    """Return the part of log p that depends on f, its two derivatives and that by precision.

    ``ratio`` is log(y / (1 - y)).
    """
    f = min(max(f, -_FAR), _FAR)
    e = math.exp(-abs(f))
    large, small = 1.0 / (1.0 + e), e / (1.0 + e)
    mean, rest = (large, small) if f > 0.0 else (small, large)
    a, b = mean * precision, rest * precision
    of_a, bend_a = _digammas(a)
    of_b, bend_b = _digammas(b)
    change = large * small  # of the mean by f
    slope = precision * (ratio - of_a + of_b)
    value = a * ratio - math.lgamma(a) - math.lgamma(b)
    first = change * slope
    second = first * (rest - mean) - (change * precision) ** 2 * (bend_a + bend_b)
    return value, first, second, a * (ratio - of_a) - b * of_b


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _beta_rows(y, m, v, precision, value, slope, weight, change):
    of_precision = math.lgamma(precision)
    gain, _ = _digammas(precision)
    for i in range(y.shape[0]):
        log_y, log_rest = math.log(y[i]), math.log1p(-y[i])
        ratio = log_y - log_rest
        number = rule(1.5 * v[i])  # poles of digammas weigh more than a logarithm's end
        first, last = START[number], START[number + 1]
        s = math.sqrt(v[i]) if v[i] > 0.0 else 0.0
        total, g, w, p = _point(ratio, m[i], precision)
        unit = WEIGHTS[first]
        total, g, w, p = unit * total, unit * g, unit * w, unit * p
        for j in range(first + 1, last):
            a, b, c, d = _point(ratio, m[i] + s * NODES[j], precision)
            e, f, h, k = _point(ratio, m[i] - s * NODES[j], precision)
            total += WEIGHTS[j] * (a + e)
            g += WEIGHTS[j] * (b + f)
            w += WEIGHTS[j] * (c + h)
            p += WEIGHTS[j] * (d + k)
        value[i] = total + of_precision + (precision - 1.0) * log_rest - log_y
        slope[i] = g
        weight[i] = -w
        change[i] = p + precision * (gain + log_rest)


@dataclass(frozen=True, repr=False)
class Beta(Family):
    """Proportions with a mean of mu = 1 / (1 + exp(-f)).

    Their variance is mu (1 - mu) / (1 + precision). Zero and one are not possible.

    Parameters
    ----------
    precision : float or "auto", default="auto"
        The sum of the two exponents that the Beta distribution has.

    Examples
    --------
    >>> import numpy as np
    >>> Beta(precision=3.0).variance(np.zeros(1), np.zeros(1))
    array([0.0625])
    """

    precision: float | str = "auto"

    name: ClassVar[str] = "beta"
    inverse_link: ClassVar[str] = "share"
    log_concave: ClassVar[bool] = False
    starts: ClassVar[dict[str, float]] = {"precision": 10.0}
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"precision": (1e-2, 1e6)}
    sharper: ClassVar[tuple[str, ...]] = ("precision",)
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are between zero and one."""
        y = np.asarray(y, dtype=np.float64)
        self._refuse(
            ~((y > 0.0) & (y < 1.0)), y, "y must contain numbers between 0 and 1", first_row
        )

    def _rows(self, y: Any, m: Any, v: Any) -> Any:
        out = np.empty((4, len(m)))
        _beta_rows(y, m, v, self.number("precision"), *out)
        return out

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight, _ = self._rows(y, m, v)
        return value, slope, weight

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(precision), where that is free."""
        return self._rows(y, m, v)[3:] if self.free else np.zeros((0, len(m)))

    def robust_weights(
        self, y: Array, extra: Any, m: Array, v: Array
    ) -> tuple[Array, Array] | None:
        """Return slopes and Fisher's information at m: far from y, log p is not concave in f."""
        precision = self.number("precision")
        f = np.clip(m, -_FAR, _FAR)
        mean, rest = expit(f), expit(-f)
        bends = polygamma(1, precision * mean) + polygamma(1, precision * rest)
        return self.expected(y, extra, m, v)[1], (precision * mean * rest) ** 2 * bends

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return the logits of y, shrunken a little to one half."""
        f = logit(0.05 + 0.9 * y)
        return f if offset is None else f - offset

    def _guess(self, y: Array, extra: Any, weight: Any, offset: Any) -> dict[str, float]:
        """Return what the scatter of y about its mean suggests."""
        mean = weighted_mean(y, weight)
        spread = weighted_mean((y - mean) ** 2, weight)
        return {"precision": min(mean * (1.0 - mean) / spread, 1e3) if spread > 0.0 else 1e3}

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return the mean 1 / (1 + exp(-f))."""
        return expit(f)

    def _scatter(self, f: Array, extra: Any) -> Array:
        return expit(f) * expit(-f) / (1.0 + self.number("precision"))

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return max(0.25 * self.number("precision"), 1.0)

    def _exponents(self, f: Any) -> tuple[Array, Array]:
        precision = self.number("precision")
        return precision * np.maximum(expit(f), 1e-100), precision * np.maximum(expit(-f), 1e-100)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        return betainc(*self._exponents(f), np.clip(y, 0.0, 1.0))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        return betaincinv(*self._exponents(f), share)

    def _to_line(self, y: Array) -> Array:
        return logit(np.clip(y, 1e-300, 1.0 - 1e-16))

    def _from_line(self, z: Array) -> Array:
        return expit(z)

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one proportion for every f."""
        return np.clip(rng.beta(*self._exponents(f)), 1e-300, 1.0 - 1e-16)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return twice what log p lacks with this mean to the best one, at this precision."""
        ratio = logit(y)

        def excess(f):
            a, b = self._exponents(f)
            return psi(a) - psi(b) - ratio

        best = root(excess, np.full(len(y), -_FAR), np.full(len(y), _FAR), 1e-9)
        zero = np.zeros(len(y))
        at = logit(np.clip(mean, 1e-300, 1.0 - 1e-16))
        log_p = [self.expected(y, None, f, zero)[0] for f in (best, at)]
        return np.maximum(2.0 * (log_p[0] - log_p[1]), 0.0)
