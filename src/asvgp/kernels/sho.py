"""A stochastically driven, damped harmonic oscillator (the SHO term of celerite)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels.base import Component, MarkovForm, Unset


@dataclass(frozen=True, repr=False)
class SHO(Component):
    """Kernel of a damped oscillator: functions that oscillate with a drifting phase.

    An oscillation keeps its phase for about ``quality`` periods. Below a quality of 1/2 the
    process does not oscillate. It is the solution of the equation
    ``f'' + (omega / quality) f' + omega**2 f = white noise`` with ``omega = 2 pi / period``.

    Parameters
    ----------
    period : float or duration
        Period of the undamped oscillator, in the units of the input. A duration, such as "1 day",
        if X holds times.
    quality : float
        Quality factor, the number of periods over which the oscillation keeps its phase.
    variance : float
        Prior variance of the function.
    dim, fixed, bounds
        The same as in `Matern12`.

    Examples
    --------
    >>> from asvgp import SHO
    >>> kernel = SHO(period=24.0, quality=10.0)
    >>> kernel
    SHO(period=24.0, quality=10.0, variance=1.0)
    >>> kernel.covariance([0.0, 12.0, 24.0]).round(2)
    array([ 1.  , -0.85,  0.73])
    """

    period: float = Unset(1.0)
    quality: float = 1.0
    variance: float = 1.0
    dim: int | str | None = None

    parameters: ClassVar[tuple[str, ...]] = ("period", "quality", "variance")
    scales: ClassVar[tuple[str, ...]] = ("period",)

    @property
    def order(self) -> int:
        """The number of derivatives."""
        return 1

    @property
    def resolved_length(self) -> float:
        """Length that cells must resolve: a quarter of a period."""
        return self.period / 4.0

    def _damped(self, lag) -> tuple[Array, Array]:
        """Return decaying ``cos`` and ``sin / frequency``, smooth at critical damping."""
        lag = np.asarray(lag, dtype=float)
        omega = 2.0 * pi / self.period
        decay = omega / (2.0 * self.quality)
        if self.quality > 0.5:
            frequency = omega * sqrt((1.0 - 0.5 / self.quality) * (1.0 + 0.5 / self.quality))
            envelope, angle = np.exp(-decay * lag), frequency * lag
            return envelope * np.cos(angle), envelope * (np.sin(angle) / frequency)
        split = omega * sqrt((0.5 / self.quality - 1.0) * (0.5 / self.quality + 1.0))
        slow, fast = omega**2 / (decay + split), decay + split
        near, far = np.exp(-slow * lag), np.exp(-fast * lag)
        with np.errstate(invalid="ignore", divide="ignore"):
            sine = -np.expm1(-2.0 * split * lag) / (2.0 * split) if split > 0.0 else lag
        return 0.5 * (near + far), near * sine

    def covariance(self, lag: Any) -> Array:
        """Evaluate the covariance at the given distances."""
        cosine, sine = self._damped(lag)
        return self.variance * (cosine + pi / (self.period * self.quality) * sine)

    def slopes(self, lag: Any) -> Array:
        """Return derivatives of the covariance by the log-parameters; the last is itself."""
        damping = 0.5 / self.quality
        gap = (1.0 - damping) * (1.0 + damping)
        if abs(gap) < 1e-3:  # the formula for the quality has no digits left
            return super().slopes(lag)
        cosine, sine = self._damped(lag)
        omega = 2.0 * pi / self.period
        turned, sine = omega * np.asarray(lag, dtype=float), omega * sine
        by_quality = -damping / gap * (sine - turned * cosine)
        return self.variance * np.array([turned * sine, by_quality, cosine + damping * sine])

    def markov(self, spacing: float = 1.0) -> MarkovForm:
        """Return the process in units of ``spacing``."""
        omega = 2.0 * pi * spacing / self.period
        damping = omega / self.quality
        zero = np.zeros((2, 2))
        covariance = self.variance * np.diag([1.0, omega**2])
        d_period = -2.0 * self.variance * np.diag([0.0, omega**2])
        return MarkovForm(
            np.array([omega**2, damping, 1.0]),
            np.array([[-2.0 * omega**2, -damping, 0.0], [0.0, -damping, 0.0], [0.0, 0.0, 0.0]]),
            log(2.0 * damping * omega**2 * self.variance),
            np.array([-3.0, -1.0, 1.0]),
            covariance,
            np.stack([d_period, zero, covariance]),
        )

    def transition(self, lag: Any) -> Array:
        """Return the weights of ``f`` and ``f'`` in the expected value of f ahead."""
        cosine, sine = self._damped(lag)
        return np.stack([cosine + pi / (self.period * self.quality) * sine, sine], axis=-1)

    @property
    def memory(self) -> float:
        """The damping time, or the slower decay of an overdamped oscillator."""
        return self.period / (2.0 * pi) * max(2.0 * self.quality, 1.0 / self.quality)

    def limits(self, grid: Grid, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return bounds from the knot spacing to far above the domain, from overdamped to pure."""
        return {
            "period": (grid.spacing, 1e2 * (grid.upper - grid.lower)),
            "quality": (1e-2, 1e6),
            "variance": (1e-10 * spread, 1e3 * power),
        }

    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Self]:
        """Return broad resonances at all lengths and sharp ones at the peaks of the spectrum."""
        broad = [(2.0 * pi * length, 1.0) for length in lengths]
        sharp = [(period, quality) for period in periods for quality in (3.0, 30.0)]
        return [
            self.replace_free({"period": period, "quality": quality, "variance": variance})
            for period, quality in broad + sharp
        ]
