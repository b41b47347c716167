"""Measurements with outliers: noise of Student's t distribution around f."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import gammaln, psi, stdtr, stdtrit

from asvgp.basis import Array
from asvgp.likelihoods import mixture
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.quadrature import NODES, START, WEIGHTS, rule

_PI_SQUARED = math.pi**2


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _student(d, v, a):
    """Return the means of log(1 + r**2 / a) and three rational functions for r ~ N(d, v).

    They are r / (a + r**2), (a - r**2) / (a + r**2)**2 and r**2 / (a + r**2). The singularity is
    sqrt(a) away; one logarithm serves a pair of places.
    """
    number = rule(_PI_SQUARED * v / a)
    first, last = START[number], START[number + 1]
    s = math.sqrt(v) if v > 0.0 else 0.0
    scale = 1.0 / a
    square = d * d
    inverse = 1.0 / (a + square)
    value = WEIGHTS[first] * math.log(1.0 + square * scale)
    slope = WEIGHTS[first] * d * inverse
    bend = WEIGHTS[first] * (a - square) * inverse * inverse
    share = WEIGHTS[first] * square * inverse
    for j in range(first + 1, last):
        right, left = d + s * NODES[j], d - s * NODES[j]
        right_square, left_square = right * right, left * left
        at_right, at_left = 1.0 + right_square * scale, 1.0 + left_square * scale
        both = 1.0 / (at_right * at_left)
        p, q = at_left * both * scale, at_right * both * scale
        value += WEIGHTS[j] * math.log(at_right * at_left)
        slope += WEIGHTS[j] * (right * p + left * q)
        bend += WEIGHTS[j] * ((a - right_square) * p * p + (a - left_square) * q * q)
        share += WEIGHTS[j] * (right_square * p + left_square * q)
    return value, slope, bend, share


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _student_rows(y, m, v, df, scale, constant, value, slope, weight, share):
    a = df * scale * scale
    for i in range(y.shape[0]):
        mean, g, w, share[i] = _student(y[i] - m[i], v[i], a)
        value[i] = constant - 0.5 * (df + 1.0) * mean
        slope[i] = (df + 1.0) * g
        weight[i] = (df + 1.0) * w


@dataclass(frozen=True, repr=False)
class StudentT(Family):
    """Noise around f with heavy tails: y = f + scale t, with t of ``df`` degrees of freedom.

    Outliers lose their influence on f the farther they are away. The weights of rows may be
    negative: log p is not concave in f.

    Parameters
    ----------
    df : float or "auto", default=4.0
        Degrees of freedom: the fewer, the heavier the tails.
    scale : float or "auto", default="auto"
        In units of y; the standard deviation is ``scale * sqrt(df / (df - 2))`` with more than
        two degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> near, far = np.array([0.0]), np.array([9.0])
    >>> noise = StudentT(df=4.0, scale=1.0)
    >>> noise.expected(near, None, np.zeros(1), np.zeros(1))[2].round(3)
    array([1.25])
    >>> noise.expected(far, None, np.zeros(1), np.zeros(1))[2].round(3)
    array([-0.053])
    """

    df: float | str = 4.0
    scale: float | str = "auto"

    name: ClassVar[str] = "student-t"
    inverse_link: ClassVar[str] = "identity"
    log_concave: ClassVar[bool] = False
    starts: ClassVar[dict[str, float]] = {"df": 4.0, "scale": 1.0}
    # Beyond two hundred degrees of freedom nobody can tell the noise from Gaussian noise.
    bounds: ClassVar[dict[str, tuple[float, float]]] = {
        "df": (1.0, 200.0),
        "scale": (1e-150, 1e150),
    }

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are finite."""
        y = np.asarray(y, dtype=np.float64)
        self._refuse(~np.isfinite(y), y, "y must contain finite numbers", first_row)

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight, _ = self._expected(y, m, v)
        return value, slope, weight

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(parameter) of every free parameter."""
        return self.expected_and_slopes(y, extra, m, v)[3]

    def expected_and_slopes(
        self, y: Array, extra: Any, m: Array, v: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Return what `expected` and `slopes` do, by one quadrature."""
        df, scale = self.number("df"), self.number("scale")
        value, slope, weight, share = self._expected(y, m, v)
        every = {"scale": (df + 1.0) * share - 1.0}
        if "df" in self.free:
            logs = (_log_factor(df, scale) - value) * (2.0 / (df + 1.0))
            of_df = psi(0.5 * (df + 1.0)) - psi(0.5 * df) - 1.0 / df
            every["df"] = 0.5 * (df * (of_df - logs) + (df + 1.0) * share)
        by_number = np.array([every[name] for name in self.free]).reshape(len(self.free), len(m))
        return value, slope, weight, by_number

    def _expected(self, y: Array, m: Array, v: Array) -> Array:
        """Return V, its slope and weight, and the mean of r**2 / (df scale**2 + r**2)."""
        df, scale = self.number("df"), self.number("scale")
        out = np.empty((4, len(m)))
        _student_rows(y, m, v, df, scale, _log_factor(df, scale), *out)
        return out

    def robust_weights(
        self, y: Array, extra: Any, m: Array, v: Array
    ) -> tuple[Array, Array] | None:
        """Return the slopes and weights of the EM algorithm, which are never negative."""
        df, scale = self.number("df"), self.number("scale")
        weight = (df + 1.0) / (df * scale * scale + (y - m) ** 2 + v)
        return weight * (y - m), weight

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return y itself."""
        return np.array(y, dtype=np.float64) if offset is None else y - offset

    def alternatives(self) -> Sequence[Family]:
        """Return copies with smaller scales: many outliers make the first guess too large."""
        if "scale" not in self.free:
            return []
        return [replace(self, scale=factor * self.number("scale")) for factor in (0.3, 0.1, 0.03)]

    def _guess(self, y: Array, extra: Any, weight: Any, offset: Any) -> dict[str, float]:
        """Return half the scatter of y for the scale, as the field explains a part of it."""
        left = y if offset is None else y - offset
        if weight is not None:
            left = left[weight > 0.0]
        if len(left) == 0:
            return {}
        deviations = np.abs(left - np.median(left))
        scale = float(np.median(deviations)) / 0.6745
        if scale <= 0.0:  # more than half of all y are equal
            scale = float(np.mean(deviations))
        return {"scale": 0.5 * scale} if scale > 0.0 else {}

    def limits(self) -> list[tuple[float, float]]:
        """Return (lower, upper) for every free parameter; that of the scale moves with it."""
        scale = self.number("scale")
        around = {"df": self.bounds["df"], "scale": (1e-4 * scale, 1e4 * scale)}
        return [around[name] for name in self.free]

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return f."""
        return f

    def response_moments(self, m: Array, v: Array, extra: Any = None) -> tuple[Array, Array]:
        """Return m and v."""
        return m, v

    def variance(self, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the variance of a new y: infinite with two degrees of freedom or fewer."""
        return v + self._scatter(m, extra)

    def _scatter(self, f: Array, extra: Any) -> Array:
        df, scale = self.number("df"), self.number("scale")
        return np.full(np.shape(f), scale**2 * df / (df - 2.0) if df > 2.0 else math.inf)

    def _sharpness(self, m: Array, v: Array, extra: Any) -> Array | float:
        return _PI_SQUARED / (self.number("df") * self.number("scale") ** 2)

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        return stdtr(self.number("df"), (y - f) / self.number("scale"))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        return f + self.number("scale") * stdtrit(self.number("df"), share)

    def log_predictive_density(self, y: Array, m: Array, v: Array, extra: Any = None) -> Array:
        """Return the log density of new observations y under f ~ N(m, v)."""
        df, scale = self.number("df"), self.number("scale")

        def function(f, rows):
            d = (y[rows, None] - f) / scale
            return _log_factor(df, scale) - 0.5 * (df + 1.0) * np.log1p(d * d / df)

        return mixture.log_mean_exp(function, m, v, self._sharpness(m, v, extra))

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one y for every f."""
        return f + self.number("scale") * rng.standard_t(self.number("df"), np.shape(f))

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return (df + 1) log(1 + (y - mean)**2 / (df scale**2))."""
        df, scale = self.number("df"), self.number("scale")
        return (df + 1.0) * np.log1p(((y - mean) / scale) ** 2 / df)


def _log_factor(df: float, scale: float) -> float:
    """Return the logarithm of the density's factor."""
    return float(
        gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * math.log(math.pi * df)
    ) - math.log(scale)
