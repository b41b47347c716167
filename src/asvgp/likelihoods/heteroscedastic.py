"""Gaussian noise whose variance varies along the inputs, by a process of its own.

The logarithm of the noise variance is a second process g, beside f: y ~ N(f(x), exp(g(x))). With
independent Gaussian posteriors of the two, all expectations are in closed form: given g, f has
Gaussian observations of weight ``E = mean of exp(-g)``; given f, the mean of the squared residual
``r`` has a gamma distribution of shape one half and mean ``exp(g)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numba
import numpy as np
from scipy.special import ndtr, ndtri

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import mixture
from asvgp.likelihoods.family import Family
from asvgp.likelihoods.positive import Gamma
from asvgp.likelihoods.quadrature import MOST_EXPONENT
from asvgp.policies import SITES

_LOG_TWO_PI = math.log(2.0 * math.pi)
# Densities of y, as functions of g, fall off about as fast as exp(-exp(-g)) where y is far out.
_SHARPNESS = 10.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _squares_rows(r, m, v, value, slope, weight):
    for i in range(r.shape[0]):
        share = 0.5 * r[i] * math.exp(min(0.5 * v[i] - m[i], MOST_EXPONENT))
        value[i] = -0.5 * (_LOG_TWO_PI + m[i]) - share
        slope[i] = share - 0.5
        weight[i] = share


@numba.njit(cache=True, nogil=True, error_model="numpy")
def mean_precisions(m, v, out):
    """Write the means of exp(-g) under g ~ N(m, v) to ``out``."""
    for i in range(m.shape[0]):
        out[i] = math.exp(min(0.5 * v[i] - m[i], MOST_EXPONENT))


@dataclass(frozen=True, repr=False)
class SquaredResiduals(Gamma):
    """Squared residuals r of Gaussian noise of variance exp(g), as observations of g.

    They are gamma variables of shape one half. The value is log N(y; f, exp(g)), in which r is the
    mean of (y - f)**2.

    Examples
    --------
    >>> import numpy as np
    >>> one, zero = np.ones(1), np.zeros(1)
    >>> [float(part[0].round(3)) for part in SquaredResiduals().expected(one, None, zero, zero)]
    [-1.419, 0.0, 0.5]
    """

    shape: float | str = 0.5

    name: ClassVar[str] = "squared-residuals"

    @property
    def one_read(self) -> bool:
        """False: every posterior of f has residuals of its own."""
        return False

    def expected(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array, Array]:
        """Return V = E log N(y; f, exp(g)) under g ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight = np.empty((3, len(m)))
        _squares_rows(y, m, v, value, slope, weight)
        return value, slope, weight

    def robust_weights(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array]:
        """Return slopes, and the weights that are expected: those of small residuals vanish."""
        _, slope, _ = self.expected(y, extra, m, v)
        return slope, np.full(len(m), 0.5)


@dataclass(frozen=True, repr=False)
class Heteroscedastic(Family):
    """Gaussian noise around f whose log-variance is a second process along the inputs.

    ``y ~ N(f(x), exp(g(x)))``, where f has the kernel of the estimator and g the one given here.
    Both are trained together. `GPRegressor.predict_noise` returns the standard deviation of the
    noise along the inputs, with bands.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        That of g, the logarithm of the noise variance, over columns that the kernel of f is over.
        None is ``Matern32() + Constant()`` over the inputs of f, a product of them over two or
        three inputs, and a sum of one per input over more. Without ``Constant()`` the noise
        variance would tend to one in the squared units of y.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Heteroscedastic
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0.0, 10.0, 500)
    >>> y = np.sin(x) + np.exp(0.3 * x - 4.0) * rng.standard_normal(500)
    >>> gp = GPRegressor(likelihood=Heteroscedastic()).fit(x, y)
    >>> quiet, lively = gp.predict_noise([1.0, 9.0])
    >>> bool(quiet < 0.05 and 0.15 < lively < 0.5)
    True
    """

    kernel: Kernel | None = None

    name: ClassVar[str] = "heteroscedastic"
    inverse_link: ClassVar[str] = "identity"
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        kernel: Any = self.kernel
        if isinstance(kernel, type) and issubclass(kernel, Kernel):
            raise TypeError(
                f"kernel must be an instance: {kernel.__name__}(), not {kernel.__name__}."
            )
        if kernel is not None and not isinstance(kernel, Kernel):
            raise TypeError(
                "kernel of Heteroscedastic must be that of the logarithm of the noise variance, "
                f"such as Matern32() + Constant(), or None, got {kernel!r}."
            )
        if kernel is not None and not kernel.components:
            raise ValueError(
                f"kernel={kernel!r} has fixed effects only: add a process, such as Matern32()."
            )

    def _shown(self) -> list[str]:
        return [] if self.kernel is None else [f"kernel={self.kernel!r}"]

    # --- the hyperparameters of the kernel of g are free parameters of the likelihood

    @property
    def _free(self) -> list[str]:
        kernel = self.kernel
        return [] if kernel is None else [n for n in kernel.parameters if n not in kernel.fixed]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the free hyperparameters of the kernel of g."""
        return tuple(f"noise {name}" for name in self._free)

    @property
    def values(self) -> Array:
        """The free hyperparameters, in the order of ``parameters``."""
        if self.kernel is None:
            return np.empty(0)
        every = dict(zip(self.kernel.parameters, self.kernel.values, strict=True))
        return np.array([every[name] for name in self._free])

    def with_values(self, values: Any) -> Self:
        """Return a copy with other values of the free hyperparameters."""
        if self.kernel is None:
            return self
        changes = dict(zip(self._free, map(float, values), strict=True))
        return replace(self, kernel=self.kernel.replace_free(changes))

    def limits(self) -> list[tuple[float, float]]:
        """Return (lower, upper) for every free hyperparameter, far from where it is now."""
        kernel, far, pairs = self.kernel, SITES.farthest, []
        for name, value in zip(self._free, self.values, strict=True):
            assert kernel is not None
            low, high = value / far, value * far
            if name.endswith("variance"):
                high = max(min(high, SITES.most_variance), 1.01 * low)
            pairs.append(kernel.bounds.get(name, (low, high)))
        return pairs

    # --- rows; ``extra`` has two columns, mean and variance of g

    def check(self, y: Array, extra: Array | None = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are finite."""
        y = np.asarray(y, dtype=np.float64)
        self._refuse(~np.isfinite(y), y, "y must contain finite numbers", first_row)

    def expected(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array, Array]:
        """Return V = E log N(y; f, exp(g)), dV/dm and -2 dV/dv, row by row."""
        mean, variance = _of_noise(extra, len(m))
        precision = np.empty(len(m))
        mean_precisions(mean, variance, precision)
        slope = precision * (y - m)
        value = -0.5 * (_LOG_TWO_PI + mean + slope * (y - m) + precision * v)
        return value, slope, precision

    def robust_weights(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array]:
        """Return residuals, and weights of one: what the noise is like is not known yet."""
        return y - m, np.ones(len(y))

    def start(
        self, y: Array, extra: Array | None, weight: Array | None, offset: Array | None
    ) -> Array:
        """Return y itself."""
        return np.array(y, dtype=np.float64) if offset is None else y - offset

    # --- new observations

    def response(self, f: Array, extra: Array | None = None) -> Array:
        """Return f."""
        return f

    def response_moments(
        self, m: Array, v: Array, extra: Array | None = None
    ) -> tuple[Array, Array]:
        """Return m and v."""
        return m, v

    def variance(self, m: Array, v: Array, extra: Array | None = None) -> Array:
        """Return v and the mean of exp(g)."""
        return v + self._scatter(m, extra)

    def _scatter(self, f, extra):
        mean, variance = _of_noise(extra, len(f))
        return np.exp(np.minimum(mean + 0.5 * variance, MOST_EXPONENT))

    def cdf(
        self, y: Array, m: Array, v: Array, extra: Array | None = None, below: bool = False
    ) -> Array:
        """Return P(Y <= y) of a new Y, by quadrature over g."""
        mean, variance = _of_noise(extra, len(m))
        left = np.asarray(y, dtype=np.float64) - m

        def share(g, rows):
            return ndtr(left[rows, None] / np.sqrt(v[rows, None] + np.exp(g)))

        return mixture.expectation(share, mean, variance, _SHARPNESS)

    def quantiles(self, shares: Any, m: Array, v: Array, extra: Array | None = None) -> Array:
        """Return quantiles of a new y, of shape (rows, shares): the distribution is symmetric."""
        shares = np.atleast_1d(np.asarray(shares, dtype=np.float64))
        if not np.all((shares > 0.0) & (shares < 1.0)):
            raise ValueError(f"Quantiles are of shares between 0 and 1, got {shares.tolist()}.")
        mean, variance = _of_noise(extra, len(m))
        spread = np.sqrt(v + np.exp(mean))
        zero, found = np.zeros(len(m)), {}
        for tail in {float(min(share, 1.0 - share)) for share in shares}:
            if tail == 0.5:
                found[tail] = zero
                continue
            # In units of a typical deviation; with g so far up, a hundredth of the tail is left.
            reach = -float(ndtri(0.01 * tail))
            far = -ndtri(0.99 * tail) * np.sqrt(
                (v + np.exp(mean + reach * np.sqrt(variance))) / spread**2
            )
            found[tail] = mixture.root(
                lambda z, tail=tail: tail - self.cdf(-z * spread, zero, v, extra),
                zero,
                far,
            )
        steps = [np.sign(share - 0.5) * found[float(min(share, 1.0 - share))] for share in shares]
        return m[:, None] + spread[:, None] * np.stack(steps, axis=1)

    def log_predictive_density(
        self, y: Array, m: Array, v: Array, extra: Array | None = None
    ) -> Array:
        """Return the log density of new observations, by quadrature over g."""
        mean, variance = _of_noise(extra, len(m))
        squares = (np.asarray(y, dtype=np.float64) - m) ** 2

        def log_density(g, rows):
            spread = v[rows, None] + np.exp(g)
            return -0.5 * (_LOG_TWO_PI + np.log(spread) + squares[rows, None] / spread)

        return mixture.log_mean_exp(log_density, mean, variance, _SHARPNESS)

    def sample(self, f: Array, rng: np.random.Generator, extra: Array | None = None) -> Array:
        """Return one y for every f."""
        mean, variance = _of_noise(extra, len(f))
        g = mean + np.sqrt(variance) * rng.standard_normal(np.shape(f))
        return f + np.exp(0.5 * g) * rng.standard_normal(np.shape(f))

    def deviance(self, y: Array, mean: Array, extra: Array | None = None) -> Array:
        """Return (y - mean)**2: what is explained is the variance of y."""
        return (y - mean) ** 2

    def _share_below(self, y, f, extra):
        raise TypeError("Distributions of y are mixtures over g: call cdf.")

    def _point(self, share, f, extra):
        raise TypeError("Distributions of y are mixtures over g: call quantiles.")


def _of_noise(extra: Array | None, rows: int) -> tuple[Array, Array]:
    """Return mean and variance of g; without any, those of a noise variance of one."""
    if extra is None:
        return np.zeros(rows), np.zeros(rows)
    return np.ascontiguousarray(extra[:, 0]), np.ascontiguousarray(extra[:, 1])
