"""Positive amounts and times: Gamma, and exponential or Weibull times with censoring."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import gamma, gammainc, gammaincinv, gammaln, psi, xlogy

from asvgp.basis import Array
from asvgp.likelihoods.counts import growth, lognormal_moments
from asvgp.likelihoods.family import Family, weighted_mean
from asvgp.likelihoods.quadrature import MOST_EXPONENT


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _gamma_rows(y, m, v, shape, constant, value, slope, weight):
    for i in range(y.shape[0]):
        log_y = math.log(y[i])
        ratio = shape * math.exp(min(log_y - m[i] + 0.5 * v[i], MOST_EXPONENT))
        value[i] = constant + (shape - 1.0) * log_y - shape * m[i] - ratio
        slope[i] = ratio - shape
        weight[i] = ratio


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _weibull_rows(y, event, m, v, shape, value, slope, weight):
    log_shape = math.log(shape)
    for i in range(y.shape[0]):
        log_y = math.log(y[i])
        power = shape * (log_y - m[i])
        hazard = math.exp(min(power + 0.5 * shape * shape * v[i], MOST_EXPONENT))
        value[i] = event[i] * (log_shape + power - log_y) - hazard
        slope[i] = shape * (hazard - event[i])
        weight[i] = shape * shape * hazard


class _LogMean(Family):
    """What families of positive y whose mean is a multiple of exp(f) share."""

    support: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def _mean_factor(self) -> float:
        """Return the mean over exp(f)."""
        return 1.0

    def _squared_variation(self) -> float:
        """Return the variance of y given f over its squared mean."""
        return 1.0

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return the mean of y, a multiple of exp(f)."""
        return self._mean_factor() * growth(f)

    def response_moments(self, m: Array, v: Array, extra: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of the mean response, which is log-normal."""
        mean, variance = lognormal_moments(m, v)
        return self._mean_factor() * mean, self._mean_factor() ** 2 * variance

    def variance(self, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the variance of a new y."""
        mean, variance = self.response_moments(m, v)
        return variance + self._squared_variation() * (variance + np.minimum(mean, 1e130) ** 2)

    def first_bend(self, shares: Array, bend: Array) -> Array:
        """Return exp(-f), or what is expected of it if that is more: short times lower no weight.

        With the weights of what was seen, f would be free where all y are below their box's mean.
        """
        return np.maximum(bend, -shares)

    def working(self, y: Array, extra: Any, f: Array) -> tuple[Array, Array]:
        """Return slopes at f and weights, or those that are expected of y where they are more."""
        slope, weight = self.expected(y, extra, f, np.zeros(len(f)))[1:]
        return slope, np.maximum(weight, self._information(y, extra))

    def _information(self, y: Array, extra: Any) -> Any:
        """Return the weights that are expected of y."""
        return 1.0 / self._squared_variation()

    def _scatter(self, f: Array, extra: Any) -> Array:
        return self._squared_variation() * np.minimum(self.response(f), 1e130) ** 2


@dataclass(frozen=True, repr=False)
class Gamma(_LogMean):
    """Positive amounts with a mean of mu = exp(f) and a variance of mu**2 / shape.

    The data are read once, also where the shape is free.

    Parameters
    ----------
    shape : float or "auto", default="auto"
        One over the squared coefficient of variation.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma(shape=4.0).quantiles([0.5], np.zeros(1), np.zeros(1)).round(3)
    array([[0.918]])
    """

    shape: float | str = "auto"

    name: ClassVar[str] = "gamma"
    starts: ClassVar[dict[str, float]] = {"shape": 1.0}
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"shape": (1e-2, 1e6)}
    sharper: ClassVar[tuple[str, ...]] = ("shape",)

    @property
    def one_read(self) -> bool:
        """True: log p = shape (-f - y exp(-f)), and a constant."""
        return True

    @property
    def offset_in_one_read(self) -> bool:
        """True: an offset divides y."""
        return True

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are positive."""
        self._check_times(np.asarray(y, dtype=np.float64), None, first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        shape = self.number("shape")
        value, slope, weight = np.empty((3, len(m)))
        _gamma_rows(y, m, v, shape, _gamma_factor(shape), value, slope, weight)
        return value, slope, weight

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(shape), where that is free."""
        if not self.free:
            return np.zeros((0, len(m)))
        shape, log_y = self.number("shape"), np.log(y)
        ratio = growth(log_y - m + 0.5 * v)
        return (shape * (math.log(shape) + 1.0 - psi(shape) + log_y - m - ratio))[None]

    def measure(self, y: Array, extra: Any, weight: Any, offset: Any) -> tuple[Array, Array]:
        """Return y over exp(offset) and minus one, times their weights."""
        mass = y if offset is None else y * growth(-offset)
        weight = np.ones(len(y)) if weight is None else weight
        return weight * mass, -weight

    def constants(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return weights, and log y and offsets times them."""
        weight = np.ones(len(y)) if weight is None else weight
        return np.array(
            [weight, weight * np.log(y), np.zeros(len(y)) if offset is None else weight * offset]
        )

    def constant(self, sums: Array) -> tuple[float, Array]:
        """Return the sum of c(y) and its slope by log(shape), where that is free."""
        shape, (weight, logs, offsets) = self.number("shape"), map(float, sums)
        value = weight * _gamma_factor(shape) + (shape - 1.0) * logs - shape * offsets
        slope = shape * (weight * (math.log(shape) + 1.0 - psi(shape)) + logs - offsets)
        return value, np.array([slope] if self.free else [])

    @property
    def factor(self) -> float:
        """The shape."""
        return self.number("shape")

    def factor_slopes(self) -> Array:
        """Return one for the shape, where that is free."""
        return np.ones(len(self.free))

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the means of exp(-f), of its slope and of its second derivative."""
        mean = growth(0.5 * v - m)
        return mean, -mean, mean

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return log of the mean, shrunken to the overall one by half an amount."""
        return _shrunken_mean(mass, -linear)

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return log y."""
        return np.log(y) if offset is None else np.log(y) - offset

    def _guess(self, y: Array, extra: Any, weight: Any, offset: Any) -> dict[str, float]:
        """Return what the scatter of log y suggests, of which the field explains a part."""
        logs = np.log(y) if offset is None else np.log(y) - offset
        spread = weighted_mean((logs - weighted_mean(logs, weight)) ** 2, weight)
        return {"shape": min(1.0 / spread + 0.5, 100.0) if spread > 0.0 else 100.0}

    def _squared_variation(self) -> Any:
        return 1.0 / self.number("shape")

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return max(self.number("shape"), 1.0)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        shape = self.number("shape")
        return gammainc(shape, shape * np.maximum(y, 0.0) * growth(-f))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        shape = self.number("shape")
        return np.maximum(gammaincinv(shape, share), 1e-300) / shape * growth(f)

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one amount for every f."""
        shape = self.number("shape")
        return growth(f) * rng.standard_gamma(shape, np.shape(f)) / shape

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return 2 (y / mean - 1 - log(y / mean)), that of a shape of one."""
        ratio = y / np.maximum(mean, 1e-300)
        return 2.0 * (ratio - 1.0 - np.log(ratio))


class _Survival(_LogMean):
    """What exponential and Weibull times with censoring share; ``shape`` is one for the former."""

    takes: ClassVar[frozenset[str]] = frozenset({"event"})
    _steepest: ClassVar[float] = 10.0  # shape of which powers of times, in any units, are summed

    def _shape(self) -> float:
        return 1.0

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are positive and all events zero or one."""
        self._check_times(np.asarray(y, dtype=np.float64), extra, first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight = np.empty((3, len(m)))
        _weibull_rows(y, _events(extra, y), m, v, self._shape(), value, slope, weight)
        return value, slope, weight

    def _information(self, y: Array, extra: Any) -> Any:
        return self._shape() ** 2 * _events(extra, y)

    @property
    def one_read(self) -> bool:
        """True if the shape is known: log p = -shape event f - y**shape exp(-shape f)."""
        return not self.free and self._shape() <= self._steepest

    @property
    def offset_in_one_read(self) -> bool:
        """True: an offset divides y."""
        return True

    def measure(self, y: Array, extra: Any, weight: Any, offset: Any) -> tuple[Array, Array]:
        """Return powers of times over exp(offset) and minus events, times their weights."""
        if self.free:
            raise self._reads_again()
        shape = self._shape()
        mass = growth(shape * (np.log(y) if offset is None else np.log(y) - offset))
        linear = -shape * _events(extra, y)
        return (mass, linear) if weight is None else (weight * mass, weight * linear)

    def constants(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return what events add to the constant itself."""
        shape = self._shape()
        each = math.log(shape) + (shape - 1.0) * np.log(y)
        out = _events(extra, y) * (each if offset is None else each - shape * offset)
        return (out if weight is None else weight * out)[None]

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the means of exp(-shape f), of its slope and of its second derivative."""
        if self.free:
            raise self._reads_again()
        shape = self._shape()
        mean = growth(0.5 * shape**2 * v - shape * m)
        return mean, -shape * mean, shape**2 * mean

    def first_bend(self, shares: Array, bend: Array) -> Array:
        """Return shape**2 exp(-shape f), or what is expected of it if that is more."""
        return np.maximum(bend, -self._shape() * shares)

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return log of time over events, shrunken to the overall mean by half an event."""
        shape = self._shape()
        return _shrunken_mean(mass, -linear / shape) / shape

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return log y, more where it is censored, shrunken to the overall mean."""
        shape = self._shape()
        logs = np.log(y) if offset is None else np.log(y) - offset
        top = float(logs.max()) if len(logs) else 0.0  # so that powers of y do not overflow
        return top + _shrunken_mean(np.exp(shape * (logs - top)), _events(extra, y)) / shape

    def _mean_factor(self) -> Any:
        return float(gamma(1.0 + 1.0 / self._shape()))

    def _squared_variation(self) -> Any:
        return float(gamma(1.0 + 2.0 / self._shape())) / self._mean_factor() ** 2 - 1.0

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return max(self._shape() ** 2, 1.0)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        logs = np.log(np.maximum(y, 1e-300)) - f
        return -np.expm1(-growth(self._shape() * logs))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        return growth(f) * (-math.log1p(-share)) ** (1.0 / self._shape())

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one time for every f, none of them censored."""
        return growth(f) * rng.standard_exponential(np.shape(f)) ** (1.0 / self._shape())

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return twice what log p lacks with this mean to that with the best one."""
        event, shape = _events(extra, y), self._shape()
        logs = shape * (np.log(y) - np.log(np.maximum(mean, 1e-300) / self._mean_factor()))
        return 2.0 * (growth(logs) - event - event * logs)


@dataclass(frozen=True, repr=False)
class Exponential(_Survival):
    """Waiting times with a mean of exp(f), of which some may have been cut short.

    A row with ``event`` zero is censored: nothing had happened until y. The data are read once.

    Examples
    --------
    >>> import numpy as np
    >>> time, seen = np.array([2.0, 2.0]), np.array([1.0, 0.0])
    >>> Exponential().expected(time, seen, np.zeros(2), np.zeros(2))[0]
    array([-2., -2.])
    """

    name: ClassVar[str] = "exponential"


@dataclass(frozen=True, repr=False)
class Weibull(_Survival):
    """Waiting times whose risk grows as y**(shape - 1), of which some may have been cut short.

    The scale is exp(f): P(Y > y) = exp(-(y exp(-f))**shape), and the mean is
    exp(f) Gamma(1 + 1 / shape). A row with ``event`` zero is censored: nothing had happened
    until y.

    Parameters
    ----------
    shape : float or "auto", default="auto"
        Of more than one, the risk grows with time, of less than one it falls. Where it is given,
        and is ten at most, the data are read once.

    Examples
    --------
    >>> import numpy as np
    >>> Weibull(shape=2.0).response(np.zeros(1)).round(3)
    array([0.886])
    """

    shape: float | str = "auto"

    name: ClassVar[str] = "weibull"
    starts: ClassVar[dict[str, float]] = {"shape": 1.0}
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"shape": (0.05, 100.0)}

    def _shape(self) -> Any:
        return self.number("shape")

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(shape), where that is free."""
        if not self.free:
            return np.zeros((0, len(m)))
        shape = self.number("shape")
        power = shape * (np.log(y) - m)
        hazard = growth(power + 0.5 * shape**2 * v)
        return (_events(extra, y) * (1.0 + power) - hazard * (power + shape**2 * v))[None]

    def _guess(self, y: Array, extra: Any, weight: Any, offset: Any) -> dict[str, float]:
        """Return what the scatter of log y suggests, of which the field explains a part."""
        logs = np.log(y) if offset is None else np.log(y) - offset
        spread = weighted_mean((logs - weighted_mean(logs, weight)) ** 2, weight)
        return {"shape": min(math.pi / math.sqrt(6.0 * spread), 10.0) if spread > 0.0 else 10.0}


def _events(extra: Array | None, y: Array) -> Array:
    """Return one where an event was seen: everywhere, unless something else is said."""
    return np.ones(len(y)) if extra is None else np.asarray(extra, dtype=np.float64)


def _gamma_factor(shape: float) -> float:
    return float(xlogy(shape, shape) - gammaln(shape))


def _shrunken_mean(amounts: Array, events: Array) -> Array:
    """Return log of amounts over events, shrunken by half an event to the overall mean."""
    amounts, events = np.maximum(amounts, 0.0), np.maximum(events, 0.0)
    total = float(amounts.sum())
    overall = total / (float(events.sum()) + 0.5) if total > 0.0 else 1.0
    return np.log(amounts + 0.5 * overall) - np.log(events + 0.5)
