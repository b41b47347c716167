"""Exactly periodic processes of any shape: a Matérn process wrapped around a circle.

The Matérn with ``lambda = sqrt(2 nu) / lengthscale`` solves ``L f = white noise`` on the line. On a
circle of circumference T the same equation has the covariance ``S(r) = sum_j k(r + j T)``. The
sums are geometric: with ``a = lambda T``, they are combinations of ``sum_j j**m exp(-a j)`` with
positive coefficients, which lose no digits, however long or short the lengthscale is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, exp, expm1, log, log1p, sqrt
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels.base import Component, Unset
from asvgp.kernels.matern import Matern12, Matern32, Matern52

_MATERNS = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
# Coefficients of the polynomial P in k = P(z) exp(-z) at unit variance, z = lambda |r|, and of
# -z (P' - P): the derivative of k with respect to log z is never positive.
_COVARIANCE = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1.0 / 3.0)}
_DECREASE = {
    0.5: (0.0, 1.0),
    1.5: (0.0, 0.0, 1.0),
    2.5: (0.0, 0.0, 1.0 / 3.0, 1.0 / 3.0),
}
# sum_j j**m q**j is q (or 1, for m = 0) times this polynomial in q, over (1 - q)**(m + 1).
_EULERIAN = ((1.0,), (1.0,), (1.0, 1.0), (1.0, 4.0, 1.0))
_INTEGRAL = {0.5: 2.0, 1.5: 4.0, 2.5: 16.0 / 3.0}  # of k over all z
_MEAN = 1e-6  # variance of the mean of a centred process, relative to its swings: K stays regular
_DEFAULT = 0.3  # lengthscale in periods where the user sets none
_STARTS = (_DEFAULT, 0.1, 1.0)  # the likeliest first: some starts take one only


@dataclass(frozen=True)
class CircleForm:
    """A process ``L f = white noise`` on a circle, in the units of some knot spacing.

    ``L = sum_i operator[i] d**i`` (the last entry is 1), and the white noise has spectral density
    ``exp(log_density)``, for which the process has the kernel's variance everywhere. The squared
    RKHS norm is the integral of ``(L f)**2`` around the circle over the density. Arrays that start
    with ``d_`` are derivatives with respect to the logarithms of lengthscale and variance, which
    run along their first axis. Where ``mean_share`` is a number, this holds of functions whose
    mean is zero, and the mean has that share of the variance.
    """

    operator: Array
    d_operator: Array
    log_density: float
    d_log_density: Array
    mean_share: float | None = None


@dataclass(frozen=True, repr=False)
class Periodic(Component):
    """Kernel of functions that repeat exactly and may have any shape.

    It is a Matérn process on a circle: the covariance is ``variance * S(lag) / S(0)`` with
    ``S(r) = sum_j k(r + j * period)``, where k is the Matérn covariance. Multiply it by a Matérn
    kernel over the same input if the shape changes over time:
    ``Periodic("1 day") * Matern32("20 days")``. With several inputs, use it for an input that goes
    round in a circle: ``Periodic(360.0, dim="lon") * Matern32(dim="lat")``.

    Parameters
    ----------
    period : float or duration
        The period. Training does not change it. If X holds times it is a duration, such as "1
        day", "1 week" or "1 year" (365.25 days).
    lengthscale : float or duration
        Distance along the circle over which the function changes, in the units of the input. By
        default it is estimated, starting from 0.3 periods.
    variance : float
        Prior variance of the function.
    nu : {0.5, 1.5, 2.5}
        Smoothness of the Matérn process.
    centred : bool
        Whether the mean over a period is zero (up to a thousandth of a standard deviation). Then a
        season does not share the level with a constant or a trend, and a season that drifts cannot
        take the place of a trend. Only for models of one input.
    dim, fixed, bounds
        The same as in `Matern12`.

    Examples
    --------
    >>> from asvgp import Matern32, Periodic
    >>> kernel = Periodic(24.0, lengthscale=6.0)
    >>> kernel
    Periodic(period=24.0, lengthscale=6.0, variance=1.0, nu=1.5)
    >>> kernel.covariance([0.0, 12.0, 24.0, 2412.0]).round(3)
    array([1.   , 0.276, 1.   , 0.276])
    >>> Periodic(24.0, lengthscale=6.0, centred=True).covariance([0.0, 12.0, 24.0]).round(3)
    array([ 1.   , -0.678,  1.   ])
    >>> (Periodic("1 day", "6 hours") * Matern32("20 days")).parameters
    ('phase_lengthscale', 'lengthscale', 'variance')
    """

    period: float
    lengthscale: float = Unset(_DEFAULT)
    variance: float = 1.0
    nu: float = 1.5
    dim: int | str | None = None
    centred: bool = False

    parameters: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")
    scales: ClassVar[tuple[str, ...]] = ("period", "lengthscale")

    def __post_init__(self) -> None:
        if self.nu not in _MATERNS:
            known = ", ".join(map(str, _MATERNS))
            raise ValueError(f"Periodic: nu must be one of {known}, got {self.nu!r}.")
        if not isinstance(self.centred, bool):
            raise TypeError(f"Periodic: centred must be True or False, got {self.centred!r}.")
        object.__setattr__(self, "nu", float(self.nu))
        if isinstance(self.lengthscale, Unset):
            period = self._checked("period")
            object.__setattr__(self, "lengthscale", Unset(_DEFAULT * period))
        super().__post_init__()

    @property
    def order(self) -> int:
        """The number of derivatives: nu - 1/2."""
        return int(self.nu)

    @property
    def _printed(self) -> tuple[str, ...]:
        """Names of the numbers that print: a lengthscale that goes by the period does not."""
        names = ("period", "lengthscale", "variance", "nu", *(("centred",) if self.centred else ()))
        return tuple(name for name in names if name not in self.unset)

    @property
    def resolved_length(self) -> float:
        """Length that cells must resolve: at most a quarter of a period."""
        return min(self.lengthscale, self.period / 4.0)

    @property
    def memory(self) -> float:
        """Distance along the circle over which the process forgets its state."""
        return min(self.lengthscale, self.period)

    @property
    def _turn(self) -> float:
        """``a``: one period in units of the decay length of the Matérn covariance."""
        return sqrt(2.0 * self.nu) * self.period / self.lengthscale

    @property
    def swings(self) -> float:
        """Variance of the wrapped Matérn that counts as one: all, or that about its mean."""
        (whole,) = _wrapped([_COVARIANCE[self.nu]], np.zeros(()), self._turn)
        (here,) = self._sums(0.0, _COVARIANCE)
        return (1.0 + self._mean) * float(here) / float(whole)

    @property
    def _mean(self) -> float:
        """Variance of the mean over a period beside that of the swings about it, if centred."""
        return _MEAN if self.centred else 0.0

    def covariance(self, lag: Any) -> Array:
        """Evaluate ``variance * S(lag) / S(0)``, of a centred process with S less its mean."""
        (total,), (here,) = self._sums(lag, _COVARIANCE), self._sums(0.0, _COVARIANCE)
        return self.variance / (1.0 + self._mean) * (total / here + self._mean)

    def slopes(self, lag: Any) -> Array:
        """Return derivatives of the covariance by the log-parameters; the last is itself."""
        total, slope = self._sums(lag, _COVARIANCE, _DECREASE)
        total_here, slope_here = self._sums(0.0, _COVARIANCE, _DECREASE)
        rows = np.array([slope - total * (slope_here / total_here), total]) / total_here
        rows[1] += self._mean
        return self.variance / (1.0 + self._mean) * rows

    def _sums(self, lag, *tables: Mapping[float, tuple[float, ...]]) -> list[Array]:
        """Return the sums around the circle of functions with these coefficients.

        Of a centred process, less their mean, which is the same for S and its derivative by the
        log lengthscale: the mean of S grows as the lengthscale.
        """
        phase = np.mod(np.abs(np.asarray(lag, dtype=float)), self.period) / self.period
        mean = _INTEGRAL[self.nu] / self._turn if self.centred else 0.0
        sums = _wrapped([table[self.nu] for table in tables], phase, self._turn)
        return [total - mean for total in sums]

    def circle(self, spacing: float = 1.0) -> CircleForm:
        """Return the process on the circle, in units of ``spacing``.

        Examples
        --------
        >>> from asvgp import Periodic
        >>> Periodic(24.0, lengthscale=6.0).circle().operator.round(3)
        array([0.083, 0.577, 1.   ])
        """
        line = _MATERNS[self.nu](self.lengthscale, self.variance).markov(spacing)
        at_zero, slope = map(float, self._sums(0.0, _COVARIANCE, _DECREASE))
        share = _MEAN / (1.0 + _MEAN) if self.centred else None
        return CircleForm(
            line.operator,
            line.d_operator,
            line.log_density - log(at_zero) + log1p(-(share or 0.0)),
            line.d_log_density - np.array([slope / at_zero, 0.0]),
            share,
        )

    def markov(self, spacing: float = 1.0) -> NoReturn:
        """Raise an error: the state at one place of a circle does not part it in two."""
        raise TypeError(f"{self!r} is a process on a circle: it has no Markov form on the line.")

    def transition(self, lag: Any) -> NoReturn:
        """Raise an error, as `markov` does."""
        self.markov()

    @property
    def lengths(self) -> tuple[float, float]:
        """Lengthscales from a small part of the period to where hardly more than a constant is.

        Of a centred process hardly anything changes beyond two periods, and digits are lost.
        """
        return self.period / 200.0, (2.0 if self.centred else 20.0) * self.period

    def limits(self, grid: Grid, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return bounds for training."""
        return {"lengthscale": self.lengths, "variance": (1e-10 * spread, 1e3 * power)}

    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Self]:
        """Return copies with lengthscales in proportion to the period, where it is not set."""
        if "lengthscale" in self.unset and "lengthscale" not in self.fixed:
            scales = [share * self.period for share in _STARTS]
        else:
            scales = [self.lengthscale]
        return [self.replace_free({"lengthscale": x, "variance": variance}) for x in scales]


def _wrapped(polynomials: Sequence[Sequence[float]], phase: Array, turn: float) -> list[Array]:
    """Return, of every polynomial P, the sum over all integers j of ``P(z_j) exp(-z_j)``.

    Here ``z_j = turn |phase + j|``, and ``phase`` lies in [0, 1]. Polynomials are given by their
    coefficients, none of them negative.
    """
    q, rest = exp(-turn), -expm1(-turn)
    sums = []  # over j >= 0 of (turn j)**m q**j
    for m in range(max(map(len, polynomials))):
        value = sum(c * q**i for i, c in enumerate(_EULERIAN[m])) / rest
        sums.append(value * (q if m else 1.0) * (turn / rest) ** m)
    totals = [np.zeros(np.shape(phase)) for _ in polynomials]
    for share in (phase, 1.0 - phase):
        z = turn * share
        decay = np.exp(-z)
        for total, coefficients in zip(totals, polynomials, strict=True):
            degree, value = len(coefficients) - 1, np.zeros(np.shape(phase))
            for power in range(degree, -1, -1):  # of z in (z + turn j)**n, expanded and summed
                value = value * z + sum(
                    coefficients[n] * comb(n, power) * sums[n - power]
                    for n in range(power, degree + 1)
                )
            total += value * decay
    return totals
