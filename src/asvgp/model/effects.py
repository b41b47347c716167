"""Priors and centring of fixed effects, for any number of inputs.

The coefficients beta of the columns Z of fixed effects have the prior N(0, T^-1) with T diagonal.
How they are eliminated is the engines' business: `asvgp.model.chain_effects` for one input; for
others they are the last global columns of `asvgp.model.grid`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel, Linear
from asvgp.policies import DATA
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Centring:
    """Numbers subtracted from y and from the columns of Z, for which the intercept makes up.

    With beta the coefficients of the centred columns for centred y, the coefficients of the
    columns as the user gave them are ``to_given @ beta + offset``. The prior N(0, T^-1) is that
    of the latter.
    """

    centres: Array  # of the columns, (effects,); zero for the intercept
    centre: Array  # of y, (outputs,)
    intercept: int | None  # number of the effect; without one all centres are zero

    @cached_property
    def to_given(self) -> Array:
        """J, which takes coefficients of centred columns to those of the columns as given."""
        matrix = np.eye(len(self.centres))
        if self.intercept is not None:
            matrix[self.intercept] -= self.centres
        return matrix

    @cached_property
    def offset(self) -> Array:
        """The centre of y in the row of the intercept, zero elsewhere, (effects, outputs)."""
        out = np.zeros((len(self.centres), len(self.centre)))
        if self.intercept is not None:
            out[self.intercept] = self.centre
        return out

    def prior(self, precision: Array, first: Array | float = 0.0) -> tuple[Array, Array, Array]:
        """Return the prior of beta: ``J'TJ``, ``J'T offset``, and ``offset'T offset`` by output.

        With ``first``, coefficients of the centred columns, it is the prior of beta less these.
        """
        offset = self.offset + self.to_given @ (first + np.zeros_like(self.offset))
        weighted = precision[:, None] * offset
        matrix = self.to_given.T @ (precision[:, None] * self.to_given)
        return matrix, self.to_given.T @ weighted, np.sum(offset * weighted, axis=0)

    def energy(self, precision: Array, beta: Array) -> float:
        """Return ``beta' T beta`` of the coefficients as given, summed over outputs."""
        coefficients = self.to_given @ beta + self.offset
        return float(np.sum(precision[:, None] * coefficients**2))


def without_centres(kernel: Kernel, stats: Statistics) -> Statistics:
    """Return the statistics; without an intercept, those of y as it was before centring."""
    if kernel.intercept is not None:
        return stats
    return stats.recentred(np.zeros_like(stats.centre), np.zeros_like(stats.column_centre))


def near_means(columns: Sequence[Array], weights: Array | None = None) -> Array:
    """Estimate the mean of each column from a sample of its rows; zero if all are missing."""
    out = np.zeros(len(columns))
    for i, column in enumerate(columns):
        step = max(1, len(column) // DATA.mean_rows)
        sample = np.asarray(column[::step], dtype=float)
        known = np.isfinite(sample)
        share = None if weights is None else weights[::step][known]
        out[i] = np.average(sample[known], weights=share) if known.any() else 0.0
    return out


def mean_square(stats: Statistics) -> float:
    """Return the largest mean square of an output, with its centre added back."""
    weight = max(stats.weight, 1e-300)
    means = stats.sums / weight
    power = float(np.max(stats.squares / weight + 2.0 * stats.centre * means - stats.centre**2))
    return max(power, float(np.max(means**2))) or 1.0


def lost_digits(kernel: Kernel, stats: Statistics, noise: float, estimated: bool = False) -> str:
    """Say how much of the bound is rounding beside linear effects; nothing if that is little.

    The sum of squares of y holds what the effects explain, which is subtracted again: its rounding
    is divided by the noise. Noise that was ``estimated`` and is less than that rounding is none: y
    is reproduced exactly.
    """
    slopes = [effect.name for effect in kernel.effects if isinstance(effect, Linear)]
    rows = max(1.0, float(stats.observations * len(stats.squares)))
    square = float(np.sum(stats.squares)) / noise / rows
    nats = float(np.finfo(float).eps) * square
    if not slopes or nats < DATA.lost_bound:
        return ""
    if estimated and nats >= DATA.unseen_noise:
        return (
            "y has no noise that could be told from rounding: the model reproduces y to "
            f"{square**-0.5:.1g} of its variation. Predictions are not affected, but the bound has "
            "no meaning here for comparing models. If y does have noise as small as that, subtract "
            f"the linear trend ({', '.join(slopes)}) from y before the fit, and add it to the "
            "predictions"
        )
    weight = stats.weight / max(stats.observations, 1.0)  # of one observation, on average
    return (
        f"y varies by {square**0.5:.2g} times the standard deviation of the noise "
        f"({(noise / weight) ** 0.5:.2g}), and sums of squares are only accurate to 16 digits, so "
        f"the bound is uncertain by about {nats:.1g} nats per datum. "
        f"Subtract the linear trend ({', '.join(slopes)}) "
        "from y before the fit, and add it to the predictions"
    )


def prior_precisions(
    kernel: Kernel, power: float, means: Array, squares: Array, centres: Array | float = 0.0
) -> Array:
    """Return the diagonal of T: from the priors that were given, or too small to matter.

    ``power`` is the mean square of y; ``means`` and ``squares`` are means and mean squares of the
    columns after centring; ``centres`` are the numbers subtracted from them.
    """
    spreads = squares - means**2
    flat = spreads <= 1e-12 * squares
    scales = np.where(flat, np.where(squares > 0.0, squares, 1.0), spreads)
    # An intercept at the origin of columns that vary little far from it can be large.
    constant = np.arange(len(scales)) == kernel.intercept
    lever = 1.0 + np.sum(np.where(constant, 0.0, (means + centres) ** 2 / scales))
    widths = DATA.wide_prior * power * np.where(constant, lever, 1.0 / scales)
    variances = [effect.variance for effect in kernel.effects]
    return np.array([1.0 / (w if v is None else v) for v, w in zip(variances, widths, strict=True)])


def column_precisions(kernel: Kernel, stats: Statistics) -> Array:
    """Return the diagonal of T where all effects are columns of the statistics, the last ones."""
    count = len(kernel.effects)
    if not count:
        return np.empty(0)
    gram = stats.column_gram[-count:, -count:] / stats.weight
    means = np.zeros(count) if kernel.intercept is None else gram[kernel.intercept]
    squares, centres = np.diag(gram), stats.column_centre
    return prior_precisions(kernel, mean_square(stats), means, squares, centres)


def ridge(gram: Array, with_y: Array, squares: Array) -> tuple[Array, Array, Array]:
    """Regress y on columns alone.

    Return coefficients, (effects, outputs), and the squares that these explain and leave.
    """
    diagonal = np.diag(gram)
    scale = np.where(diagonal > 0.0, np.maximum(diagonal, 1e-300) ** -0.5, 0.0)
    system = gram * np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    beta = scale[:, None] * np.linalg.solve(system, scale[:, None] * with_y)
    explained = np.sum(beta * (2.0 * with_y - gram @ beta), axis=0)
    return beta, explained, np.maximum(squares - explained, 1e-15 * squares)
