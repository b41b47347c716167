"""Counts with a rate of exp(f): Poisson, and with more scatter the negative binomial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import betainc, gammaincinv, gammaln, ndtri, pdtr, psi, xlogy
from scipy.stats import nbinom, poisson

from asvgp.basis import Array
from asvgp.likelihoods.family import Family, weighted_mean
from asvgp.likelihoods.quadrature import MOST_EXPONENT, softplus


def growth(exponent: Array) -> Array:
    """Return exp of what is finite, limited so that it stays so."""
    return np.exp(np.minimum(exponent, MOST_EXPONENT))


def lognormal_moments(m: Array, v: Array) -> tuple[Array, Array]:
    """Return mean and variance of exp(f) under f ~ N(m, v)."""
    return growth(m + 0.5 * v), -growth(2.0 * (m + v)) * np.expm1(-v)


def shrunken_rate(counts: Array, mass: Array) -> Array:
    """Return log of counts over mass, shrunken by half a count to the overall rate."""
    counts, mass = np.maximum(counts, 0.0), np.maximum(mass, 0.0)
    total = float(mass.sum())
    overall = (float(counts.sum()) + 0.5) / total if total > 0.0 else 1.0
    return np.log(counts + 0.5) - np.log(mass + 0.5 / overall)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _poisson_rows(y, m, v, value, slope, weight):
    for i in range(y.shape[0]):
        rate = math.exp(min(m[i] + 0.5 * v[i], MOST_EXPONENT))
        value[i] = y[i] * m[i] - rate - math.lgamma(y[i] + 1.0)
        slope[i] = y[i] - rate
        weight[i] = rate


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _negative_binomial_rows(y, m, v, r, value, slope, weight):
    log_r, of_r = math.log(r), math.lgamma(r)
    for i in range(y.shape[0]):
        total = y[i] + r
        mean, share, bend = softplus(m[i] - log_r, v[i])
        value[i] = (
            math.lgamma(total)
            - of_r
            - math.lgamma(y[i] + 1.0)
            + y[i] * (m[i] - log_r)
            - total * mean
        )
        slope[i] = y[i] - total * share
        weight[i] = total * bend


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _softplus_rows(m, v, value, slope, bend):
    for i in range(m.shape[0]):
        value[i], slope[i], bend[i] = softplus(m[i], v[i])


def softplus_moments(m: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return the means of log(1 + exp(f)) and of its first two derivatives, row by row."""
    value, slope, bend = np.empty((3, len(m)))
    _softplus_rows(m, v, value, slope, bend)
    return value, slope, bend


@dataclass(frozen=True, repr=False)
class Poisson(Family):
    """Counts of events at a rate of exp(f), independent of each other.

    The mean and the variance of y are exp(f), times the exposure where there is one.

    Examples
    --------
    >>> import numpy as np
    >>> mean, variance = Poisson().response_moments(np.zeros(1), np.full(1, 0.5))
    >>> mean.round(3), Poisson().variance(np.zeros(1), np.full(1, 0.5)).round(3)
    (array([1.284]), array([2.354]))
    """

    name: ClassVar[str] = "poisson"
    takes: ClassVar[frozenset[str]] = frozenset({"exposure"})
    whole: ClassVar[bool] = True
    support: ClassVar[tuple[float, float]] = (-1.0, math.inf)

    @property
    def one_read(self) -> bool:
        """True: y f - exp(f) has one curve."""
        return True

    @property
    def offset_in_one_read(self) -> bool:
        """True: an offset multiplies exp(f)."""
        return True

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are counts."""
        self._check_counts(np.asarray(y, dtype=np.float64), first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight = np.empty((3, len(m)))
        _poisson_rows(y, m, v, value, slope, weight)
        return value, slope, weight

    def measure(self, y: Array, extra: Any, weight: Any, offset: Any) -> tuple[Array, Array]:
        """Return exposures, as offsets say, and counts, both times their weights."""
        weight = np.ones(len(y)) if weight is None else weight
        mass = weight if offset is None else weight * growth(offset)
        return mass, weight * y

    def constants(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return what rows add to the constant itself."""
        out = -gammaln(y + 1.0) if offset is None else y * offset - gammaln(y + 1.0)
        return (out if weight is None else weight * out)[None]

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the mean of exp(f), which is its own derivative."""
        rate = growth(m + 0.5 * v)
        return rate, rate, rate

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return log of counts over exposure, shrunken to the overall rate."""
        return shrunken_rate(linear, mass)

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return log of counts over exposure, shrunken to the overall rate."""
        exposure = np.ones(len(y)) if offset is None else growth(offset)
        return shrunken_rate(y, exposure)

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return exp(f)."""
        return growth(f)

    def response_moments(self, m: Array, v: Array, extra: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of the rate, which is log-normal."""
        return lognormal_moments(m, v)

    def variance(self, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the variance of a new count."""
        mean, variance = lognormal_moments(m, v)
        return mean + variance

    def _scatter(self, f: Array, extra: Any) -> Array:
        return growth(f)

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return np.maximum(growth(np.minimum(m + 2.0 * np.sqrt(v), 30.0)), 1.0)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        return np.where(y < 0.0, 0.0, pdtr(np.maximum(np.floor(y), 0.0), growth(f)))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        rate = growth(f)
        # Far up, where SciPy's are NaN, they are those of a normal distribution and its skewness.
        normal, z = np.asarray(rate) > 1e9, ndtri(share)
        far = rate + z * np.sqrt(rate) + (z * z - 1.0) / 6.0
        return np.where(normal, far, poisson.ppf(share, np.minimum(rate, 1e9)))

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one count for every f."""
        return rng.poisson(np.minimum(growth(f), 1e18)).astype(np.float64)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return 2 (y log(y / mean) - y + mean)."""
        return 2.0 * (xlogy(y, y) - xlogy(y, np.maximum(mean, 1e-300)) - y + mean)


@dataclass(frozen=True, repr=False)
class NegativeBinomial(Family):
    """Counts with a mean of mu = exp(f) and a variance of mu + mu**2 / dispersion.

    That is the distribution of Poisson counts whose rates scatter about the mean by a Gamma
    distribution of shape ``dispersion``; the larger it is, the nearer they are to Poisson counts.

    Parameters
    ----------
    dispersion : float or "auto", default="auto"
        Also known as size, r or theta. Where it is given, and no row has an exposure, the data are
        read once.

    Examples
    --------
    >>> import numpy as np
    >>> NegativeBinomial(dispersion=2.0).variance(np.log([3.0]), np.zeros(1)).round(6)
    array([7.5])
    """

    dispersion: float | str = "auto"

    name: ClassVar[str] = "negative-binomial"
    takes: ClassVar[frozenset[str]] = frozenset({"exposure"})
    starts: ClassVar[dict[str, float]] = {"dispersion": 1.0}
    # Beyond a million, counts below thousands are Poisson's to all digits that lgamma keeps.
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"dispersion": (1e-3, 1e6)}
    sharper: ClassVar[tuple[str, ...]] = ("dispersion",)
    whole: ClassVar[bool] = True
    support: ClassVar[tuple[float, float]] = (-1.0, math.inf)

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are counts."""
        self._check_counts(np.asarray(y, dtype=np.float64), first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight = np.empty((3, len(m)))
        _negative_binomial_rows(y, m, v, self.number("dispersion"), value, slope, weight)
        return value, slope, weight

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(dispersion), where that is free."""
        if not self.free:
            return np.zeros((0, len(m)))
        r = self.number("dispersion")
        mean, share, _ = softplus_moments(m - math.log(r), v)
        return (r * (psi(y + r) - psi(r)) - y - r * mean + (y + r) * share)[None]

    @property
    def one_read(self) -> bool:
        """True if r is known: log p = y f - (y + r) log(1 + exp(f) / r), and a constant."""
        return not self.free

    def measure(self, y: Array, extra: Any, weight: Any, offset: Any) -> tuple[Array, Array]:
        """Return y + r and counts, times their weights."""
        if self.free:
            raise self._reads_again()
        self._no_offset(offset)
        mass = y + self.number("dispersion")
        return (mass, y) if weight is None else (weight * mass, weight * y)

    def constants(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return what rows add to the constant itself."""
        r = self.number("dispersion")
        out = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0) - y * math.log(r)
        return (out if weight is None else weight * out)[None]

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the means of log(1 + exp(f) / r) and of its first two derivatives."""
        if self.free:
            raise self._reads_again()
        return softplus_moments(m - math.log(self.number("dispersion")), v)

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return log of the mean counts, shrunken to the overall one."""
        rows = np.maximum(mass - linear, 0.0) / self.number("dispersion")
        return shrunken_rate(linear, rows)

    def working(self, y: Array, extra: Array | None, f: Array) -> tuple[Array, Array]:
        """Return slopes at f and the weights that are expected of y: small counts lower none."""
        r = self.number("dispersion")
        _, share, _ = softplus_moments(f - math.log(r), np.zeros(len(f)))
        return y - (y + r) * share, r * share

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return log of counts over exposure, shrunken to the overall rate."""
        exposure = np.ones(len(y)) if offset is None else growth(offset)
        return shrunken_rate(y, exposure)

    def _guess(self, y: Array, extra: Any, weight: Any, offset: Any) -> dict[str, float]:
        """Return what the scatter about one overall rate suggests."""
        exposure = np.ones(len(y)) if offset is None else growth(offset)
        rate = weighted_mean(y, weight) / max(weighted_mean(exposure, weight), 1e-300)
        excess = weighted_mean((y - rate * exposure) ** 2, weight) - weighted_mean(y, weight)
        square = weighted_mean((rate * exposure) ** 2, weight)
        # The field explains a part of that scatter, so the start is not below a tenth.
        return {"dispersion": max(square / excess, 0.1) if 100.0 * excess > square else 100.0}

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return exp(f)."""
        return growth(f)

    def response_moments(self, m: Array, v: Array, extra: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of the rate, which is log-normal."""
        return lognormal_moments(m, v)

    def variance(self, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the variance of a new count."""
        mean, variance = lognormal_moments(m, v)
        return (
            mean + (variance + np.minimum(mean, 1e130) ** 2) / self.number("dispersion") + variance
        )

    def _scatter(self, f: Array, extra: Any) -> Array:
        return growth(f) + np.minimum(growth(f), 1e130) ** 2 / self.number("dispersion")

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        rate, r = growth(np.minimum(m + 2.0 * np.sqrt(v), 30.0)), self.number("dispersion")
        return np.maximum(rate * r / (rate + r), 1.0)

    def _success(self, f: Any) -> Any:
        """Return the probability that scipy's parametrisation has."""
        return 1.0 / (1.0 + growth(f) / self.number("dispersion"))

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        whole = np.maximum(np.floor(y), 0.0)
        r, success = self.number("dispersion"), self._success(f)
        # Written by whichever side's probability is small, which is not rounded then.
        share = np.where(
            success < 0.5,
            betainc(r, whole + 1.0, success),
            1.0 - betainc(whole + 1.0, r, 1.0 - success),
        )
        return np.where(y < 0.0, 0.0, share)

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        r = self.number("dispersion")
        near = nbinom.ppf(share, r, self._success(np.minimum(f, 30.0)))
        # Far up, counts scatter as their rates do.
        return np.where(np.asarray(f) > 30.0, growth(f) * gammaincinv(r, share) / r, near)

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one count for every f."""
        rate = growth(f) * rng.standard_gamma(self.number("dispersion"), np.shape(f))
        return rng.poisson(np.minimum(rate / self.number("dispersion"), 1e18)).astype(np.float64)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return twice what log p lacks with this mean to that with a mean of y."""
        r, mean = self.number("dispersion"), np.maximum(mean, 1e-300)
        return 2.0 * (xlogy(y, y) - xlogy(y, mean) + (y + r) * (np.log(mean + r) - np.log(y + r)))
