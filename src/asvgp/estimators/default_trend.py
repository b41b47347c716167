"""The trend of the kernel that is used where the user gives none.

Means over the shortest season, or where there is none over equal stretches, tell what there is
besides seasons: perhaps a level, which lasts longer than a season and returns, and perhaps a trend,
which does not return: a line; *growth*, a line with a steady bend; or a line whose slope *wanders*.
Whether there is one is decided by the evidence of small Gaussian processes of these means, over a
grid of hyperparameters.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from asvgp.basis import Array
from asvgp.kernels import SHO, Kernel, Linear, Matern32
from asvgp.policies import DEFAULT
from asvgp.runtime.parallel import one_blas_thread

_ROUNDING = 1e-20  # of the mean square of y
_SIZES = 10.0 ** np.arange(-1.0, 6.5, 0.75)  # of trends, relative to the variance of the rest


class Trend(NamedTuple):
    """What means over a season show: a trend, and how long a level lasts."""

    level: float = 0.0  # the lengthscale of the level, in the units of x; zero where there is none
    line: bool = False
    bend: str = ""  # of the line: "growth", "wander" or nothing
    variance: float = 0.0  # of the process that bends it, in the units of y squared

    def scaled(self, square: float, bends: bool) -> Trend:
        """Return the trend of values whose squares are so many times larger; straight at will."""
        return self._replace(variance=self.variance * square, bend=self.bend if bends else "")

    def added_to(self, kernel: Kernel, span: float, length: Callable[[float], float]) -> Kernel:
        """Return a kernel with level and trend of data over a span; ``length`` makes durations.

        Of a wave far longer than the data they see an arc, which is nearly a parabola. A Matérn
        that is longer than the data is nearly an integrated random walk beside a line.
        """
        if self.level:
            kernel = kernel + Matern32(lengthscale=length(self.level))
        if self.bend == "growth":
            fixed = ("period", "quality", "variance")
            period = length(DEFAULT.growth_period * span)
            wave = SHO(
                period=period, quality=DEFAULT.growth_quality, variance=self.variance, fixed=fixed
            )
            kernel = kernel + wave
        elif self.bend == "wander":
            long = length(DEFAULT.wander_length * span)
            fixed = ("lengthscale", "variance")
            kernel = kernel + Matern32(lengthscale=long, variance=self.variance, fixed=fixed)
        return kernel + Linear() if self.line else kernel


def trend_of(x: Array, y: Array, width: float | None = None) -> Trend:
    """Return the trend of y (rows, outputs) less its seasons, from means over a width of sorted x.

    Without a season there is no width: stretches are then few, so that what returns is not taken
    for a trend, and each counts however full it is. Values that their neighbours tell get a line
    at most: a smooth curve without noise is the Matérn's.

    Examples
    --------
    >>> x = np.arange(2000.0)
    >>> noise = np.random.default_rng(0).standard_normal((2000, 1))
    >>> trend_of(x, noise, 24.0)
    Trend(level=0.0, line=False, bend='', variance=0.0)
    >>> trend_of(x, noise + 0.01 * x[:, None], 24.0).line
    True
    """
    if len(x) < DEFAULT.fewest_means or x[0] == x[-1]:
        return Trend()
    smooth = width is None and _scatter(x, y) < DEFAULT.least_scatter
    if width is None:
        width = max(float(np.median(np.diff(x))), (x[-1] - x[0]) / DEFAULT.plain_means)
        t, means, width = _means(x, y, width, 0.0)
    else:
        t, means, width = _means(x, y, width, DEFAULT.full_mean)
    if len(t) < DEFAULT.fewest_means:
        return Trend()
    means = means - means.mean(axis=0)
    scale = float(np.mean(means**2))
    if scale <= _ROUNDING * float(np.mean(y**2)):
        return Trend()
    with one_blas_thread:  # matrices are small
        found = _likeliest(t, means / scale**0.5)
    found = found._replace(bend="") if smooth else found
    return found._replace(level=found.level * width, variance=found.variance * scale)


def _scatter(x: Array, y: Array) -> float:
    """Return the variance of y about lines through its neighbours, relative to that of y."""
    gaps = np.diff(x)
    both = gaps[:-1] + gaps[1:]
    share = np.divide(gaps[:-1], both, out=np.full(len(both), 0.5), where=both > 0.0)[:, None]
    errors = y[1:-1] - (1.0 - share) * y[:-2] - share * y[2:]
    about = np.mean(errors**2 / (1.0 + share**2 + (1.0 - share) ** 2))
    return float(about / max(np.mean((y - y.mean(axis=0)) ** 2), 1e-300))


def _likeliest(t: Array, means: Array) -> Trend:
    """Return the trend of means at numbered places, of zero mean and variance one."""
    span, lag = t[-1] - t[0], np.abs(t[:, None] - t)
    u = (t - t.mean()) / span
    line, angle = 12.0**0.5 * u[:, None], 2.0 * np.pi / DEFAULT.growth_period * u
    values, vectors = np.linalg.eigh(Matern32(DEFAULT.wander_length * span).covariance(lag))
    main = slice(-DEFAULT.wander_functions, None)
    bends = {
        "growth": (np.stack([np.cos(angle), np.sin(angle)], axis=1), DEFAULT.growth_gain),
        "wander": (
            vectors[:, main] * np.sqrt(np.maximum(values[main], 0.0)),
            DEFAULT.wander_gain,
        ),
    }
    lengths = [length for length in DEFAULT.level_lengths if length <= DEFAULT.longest_level * span]
    pairs = [(0.0, 0.0), *product(lengths, DEFAULT.level_shares)]
    levels = [_Level(lag, means, *pair) for pair in pairs]
    none = _best([level.evidence([]) for level in levels])
    straight = _best([lv.evidence([(line, size)]) for lv in levels for size in _SIZES])
    trend, likeliest = Trend(), none
    least = reached = none.evidence + DEFAULT.line_gain
    if straight.evidence > least:
        reached, trend, likeliest = straight.evidence, Trend(line=True), straight
    slope = line, straight.sizes[0]
    bent = []
    for name, (functions, needed) in bends.items():
        tried = [lv.evidence([slope, (functions, size)]) for lv in levels for size in _SIZES]
        found = _best(tried)
        if found.evidence > max(reached + needed, least):
            simpler = DEFAULT.simpler_growth if name == "growth" else 0.0
            bent.append((found.evidence + simpler, name, found))
    if bent:
        _, name, likeliest = max(bent)
        trend = Trend(0.0, True, name, float(likeliest.sizes[1] * likeliest.unit))
    level = max(likeliest.level, DEFAULT.first_level) if likeliest.level else 0.0
    return trend._replace(level=level)


class _Found(NamedTuple):
    """The evidence of means at the likeliest scale, and the hyperparameters that it is of."""

    evidence: float
    unit: float  # the scale, a variance
    level: float  # the lengthscale of the level; zero where there is noise alone
    sizes: tuple[float, ...]  # variances of the coefficients of trends, in units


def _best(found: list[_Found]) -> _Found:
    """Return what has the highest evidence; without a level, unless that gains enough."""
    best, plain = max(found), max(one for one in found if not one.level)
    return best if best.evidence > plain.evidence + DEFAULT.level_gain else plain


class _Level:
    """A level that wanders and returns, and noise: the means but for their trend and average."""

    def __init__(self, lag: Array, y: Array, length: float, share: float):
        self._length = length
        matrix = (1.0 - share) * np.eye(len(lag))
        if share:
            matrix += share * Matern32(length).covariance(lag)
        self._root = np.tril(cho_factor(matrix, lower=True)[0])
        one, self._y = self._whitened(np.ones((len(y), 1))), self._whitened(y)
        self._log_det = 2.0 * float(np.log(np.diag(self._root)).sum())
        self._one = one / np.linalg.norm(one)  # the average may be anything
        self._log_det += 2.0 * float(np.log(np.linalg.norm(one)))
        self._y = self._y - self._one @ (self._one.T @ self._y)
        self._known: dict[int, tuple[Array, Array]] = {}

    def _whitened(self, columns: Array) -> Array:
        return solve_triangular(self._root, columns, lower=True, check_finite=False)

    def evidence(self, trends: list[tuple[Array, float]]) -> _Found:
        """Return the log evidence at the likeliest scale.

        Trends are functions, and the variance of their coefficients relative to the scale.
        """
        rows, outputs = self._y.shape
        squares, log_det = float(np.sum(self._y**2)), self._log_det
        if trends:
            columns = np.concatenate([self._less_average(f) * s**0.5 for f, s in trends], axis=1)
            root = np.linalg.cholesky(np.eye(columns.shape[1]) + columns.T @ columns)
            half = solve_triangular(root, columns.T @ self._y, lower=True, check_finite=False)
            squares -= float(np.sum(half**2))
            log_det += 2.0 * float(np.log(np.diag(root)).sum())
        freedom = (rows - 1) * outputs
        unit = max(squares, 1e-12 * freedom) / freedom
        evidence = -0.5 * (freedom * float(np.log(unit)) + outputs * log_det)
        return _Found(evidence, unit, self._length, tuple(float(size) for _, size in trends))

    def _less_average(self, functions: Array) -> Array:
        """Return functions, whitened and without their part along the average; remembered."""
        key = id(functions)
        if key not in self._known:
            white = self._whitened(functions)
            self._known[key] = functions, white - self._one @ (self._one.T @ white)
        return self._known[key][1]


def _means(x: Array, y: Array, width: float, full: float) -> tuple[Array, Array, float]:
    """Return numbers of stretches of a width or a multiple of it, means of y there, the width.

    Those with fewer values than ``full`` times the median are left out.
    """
    span = x[-1] - x[0]
    width = width * max(1.0, np.ceil(span / width / DEFAULT.most_means))
    place = np.floor((x[-1] - x) / width * (1.0 + 1e-9)).astype(int)
    count = np.bincount(place)
    sums = np.stack([np.bincount(place, column) for column in y.T], axis=1)
    kept = np.flatnonzero((count > 0) & (count >= full * np.median(count[count > 0])))[::-1]
    return -kept.astype(float), sums[kept] / count[kept, None], float(width)
