"""Transforms of y: models of targets whose swings grow with their level.

The process and its noise are Gaussian on the scale of z = (y**power - 1) / power (Box and Cox,
1964), which is log y for a power of zero; for a power of one it is y itself. The density of y is
that of z times the derivative dz/dy, so that the evidence of y is that of z plus the sum of
``log dz/dy`` over the data, and models with different transforms compare. What is asked of y
follows from the Gaussian distribution of z: quantiles and samples by the inverse, means,
variances and covariances in closed form for the logarithm, else by Gauss-Hermite quadrature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from numbers import Real
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss, hermevander
from scipy.special import gammaln

from asvgp.basis import Array
from asvgp.policies import TRANSFORM
from asvgp.runtime.checks import in_rows
from asvgp.runtime.lazy import cached_property

_NODES = 64  # of the quadrature: moments of roots that matter are right to ten digits and more
_TERMS = 24  # of Mehler's expansion; those of (1 + z / 2)**2 end after two


@dataclass(frozen=True)
class Transform:
    """The transform of Box and Cox with a power from zero, log y, to one, y itself.

    Examples
    --------
    >>> log = Transform(0.0)
    >>> log.forward(np.array([1.0, 10.0])).round(3).tolist()
    [0.0, 2.303]
    >>> mean, variance = log.moments(np.zeros(1), np.ones(1))
    >>> mean.round(3).tolist(), variance.round(3).tolist()
    ([1.649], [4.671])
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(
                f"The power of a transform must be from 0 (log y) to 1 (y itself), got "
                f"{self.power!r}: with a negative one y has no mean, and swings that shrink with "
                "the level are not what a transform of y is for."
            )

    @property
    def identity(self) -> bool:
        """True where y is modelled as it is."""
        return self.power == 1.0

    @property
    def exponential(self) -> bool:
        """True where y is the exponential of z."""
        return self.power == 0.0

    def __str__(self) -> str:
        if self.identity:
            return "y"
        named = {0.0: "log y", 0.5: "2 (sqrt y - 1)"}
        return named.get(self.power, f"(y**{self.power:g} - 1) / {self.power:g}")

    # ------------------------------------------------------------ values

    def forward(self, y: Array) -> Array:
        """Return z; y must be positive unless this is the identity."""
        if self.identity:
            return y
        log = np.log(y)
        return log if self.power == 0.0 else np.expm1(self.power * log) / self.power

    def inverse(self, z: Array) -> Array:
        """Return y. It is zero where z is below all that positive y have."""
        if self.identity:
            return z
        if self.power == 0.0:
            return np.exp(z)
        return np.maximum(1.0 + self.power * z, 0.0) ** (1.0 / self.power)

    def log_jacobian(self, y: Array) -> Array:
        """Return ``log dz/dy`` for positive y."""
        return (self.power - 1.0) * np.log(y)

    def log_density(self, y: Array, log_density: Array) -> Array:
        """Return the log density of y, given that of z there; y has no density at zero or below."""
        if self.identity:
            return log_density
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(y <= 0.0, -np.inf, log_density + self.log_jacobian(y))

    # ------------------------------------------------------------ distributions

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of y, given those of a Gaussian z."""
        if self.identity:
            return mean, variance
        if self.power == 0.0:
            first = np.exp(mean + 0.5 * variance)
            return first, first**2 * np.expm1(variance)
        values, weights = self._at_nodes(mean, np.sqrt(variance))
        first = values @ weights
        return first, (values - first[..., None]) ** 2 @ weights

    def covariance(self, mean: Array, covariance: Array) -> Array:
        """Return the covariance matrix of y, given mean (n,) and covariance (n, n) of z.

        By Mehler's formula it is ``sum_k rho**k a_k a_k' / k!``, with the correlations rho of z
        and the coefficients ``a_k`` of y in Hermite polynomials of the standardised z.
        """
        if self.identity:
            return covariance
        if self.exponential:
            first, _ = self.moments(mean, np.diag(covariance))
            return np.outer(first, first) * np.expm1(covariance)
        std = np.sqrt(np.diag(covariance))
        values, weights = self._at_nodes(mean, std)
        nodes, _ = _quadrature.rule
        scaled = hermevander(nodes, _TERMS) * np.exp(-0.5 * gammaln(np.arange(_TERMS + 1.0) + 1.0))
        coefficients = values @ (weights[:, None] * scaled)
        scale = np.outer(std, std)
        rho = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0.0)
        out, power = np.zeros_like(scale), np.ones_like(scale)
        for a in coefficients.T[1:]:
            power *= rho
            out += power * np.outer(a, a)
        np.fill_diagonal(out, self.moments(mean, std**2)[1])
        return out

    def band(self, mean: Array, std: Array, factor: float) -> tuple[Array, Array, Array]:
        """Return the mean of y, and its quantiles so many standard deviations of z to each side."""
        low, high = (self.inverse(mean + sign * factor * std) for sign in (-1.0, 1.0))
        return self.moments(mean, std**2)[0], low, high

    def _at_nodes(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Return y at the nodes of a quadrature, (..., nodes), and the weights."""
        nodes, weights = _quadrature.rule
        return self.inverse(mean[..., None] + std[..., None] * nodes), weights


class _Quadrature:
    """The rule for expectations under the standard normal distribution, made when needed."""

    @cached_property
    def rule(self) -> tuple[Array, Array]:
        """Nodes and weights."""
        nodes, weights = hermegauss(_NODES)
        return nodes, weights / sqrt(2.0 * np.pi)


_quadrature = _Quadrature()
IDENTITY = Transform()


def parse_transform(given: Any) -> tuple[Transform, ...]:
    """Return the transforms that a user's argument allows: one, or with "auto" several.

    Examples
    --------
    >>> [str(transform) for transform in parse_transform("auto")]
    ['y', 'log y']
    >>> parse_transform("sqrt")
    (Transform(power=0.5),)
    """
    names = {None: 1.0, "log": 0.0, "sqrt": 0.5}
    if isinstance(given, str) and given == "auto":
        return tuple(map(Transform, TRANSFORM.candidates))
    if given is None or (isinstance(given, str) and given in names):
        return (Transform(names[given]),)
    if isinstance(given, Real) and not isinstance(given, bool):
        return (Transform(float(given)),)
    raise ValueError(
        "transform must be None, 'auto', 'log', 'sqrt' or a power from 0 to 1 (of Box and Cox), "
        f"got {given!r}."
    )


def transformed(
    y: Array, transforms: Sequence[Transform], weights: Array | None = None
) -> tuple[Array, Array]:
    """Return y as a model sees it, and the sums of ``w log dz/dy``, one for each of its outputs.

    Several transforms stand beside each other as further outputs, (n, transforms * outputs). A
    transform that y is not in the range of has a sum of minus infinity there, and zeros in those
    rows; where it is the only one, an error is raised. Rows with a NaN are missing, and not in
    the sums.
    """
    table = y.reshape(len(y), -1)
    outputs = table.shape[1]
    if all(transform.identity for transform in transforms):
        return y, np.zeros(outputs)
    table = np.asarray(table, dtype=float)
    known = ~np.isnan(table).any(axis=1)
    wrong = (table <= 0.0).any(axis=1) & known
    impossible = bool(wrong.any())
    if impossible and len(transforms) == 1:
        raise ValueError(
            f"y is zero or negative in {in_rows(wrong)}, where {transforms[0]} does not exist. "
            "Drop or fix those rows, add a constant to y, or model y itself: transform=None."
        )
    positive = np.where(table > 0.0, table, 1.0) if impossible else table
    often = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=float)
    logs = often[known] @ np.log(positive[known]) if outputs else np.empty(0)
    columns, sums = [], []
    for transform in transforms:
        columns.append(table if transform.identity else transform.forward(positive))
        total = (transform.power - 1.0) * logs
        sums.append(np.full(outputs, -np.inf) if impossible and not transform.identity else total)
    values = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    return values.reshape(y.shape) if len(columns) == 1 else values, np.concatenate(sums)
