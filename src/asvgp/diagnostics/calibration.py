"""Are the model's uncertainties right? Standardised residuals beside the standard normal."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, kolmogorov, ndtr, ndtri

from asvgp.likelihoods import Exponential, Family, Poisson, ZeroInflatedPoisson
from asvgp.policies import VERDICT

_LEVELS = (0.50, 0.80, 0.95, 0.99)
_FAR = float(ndtri(0.995) / ndtri(0.75))  # medians of its size that 1 % of a normal lies beyond


@dataclass(frozen=True)
class Calibration:
    """How standardised residuals compare with the standard normal they should be.

    Attributes
    ----------
    count : int
    coverage, coverage_error : dict of float to float
        Share of residuals inside the central band of each level, and its standard error
        were the level right and the residuals independent.
    mean, variance : float
    autocorrelation : float
        Between neighbours in x. Clearly positive: structure that the model does not
        resolve. Leave-one-out residuals of a right model are negatively correlated, each
        being predicted with the help of its neighbours: the more so the more degrees of
        freedom there are an observation.
    distance, p_value : float
        Kolmogorov-Smirnov statistic of the probability integral transforms, and its
        p-value for independent residuals.
    notes : tuple of str
        What is wrong, in words; deviations count that are both significant (four standard
        errors) and large enough to matter.
    """

    count: int
    coverage: dict[float, float]
    coverage_error: dict[float, float]
    mean: float
    variance: float
    autocorrelation: float
    distance: float
    p_value: float
    notes: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """True if there is nothing to note."""
        return not self.notes

    def __str__(self) -> str:
        rows = [f"Calibration of {self.count:,} standardised residuals"]
        rows += [
            f"  {level:4.0%} band covers  {100 * share:6.2f} % "
            f"(+- {100 * self.coverage_error[level]:.2f})"
            for level, share in self.coverage.items()
        ]
        rows += [
            f"  mean              {self.mean:7.3f} (+- {self.count**-0.5:.3f})",
            f"  variance          {self.variance:7.3f} (+- {(2.0 / self.count) ** 0.5:.3f})",
            f"  lag-1 correlation {self.autocorrelation:7.3f} (+- {self.count**-0.5:.3f})",
            f"  Kolmogorov-Smirnov {self.distance:.4f} (p = {self.p_value:.2g})",
        ]
        notes = [f"! {note}" for note in self.notes] or ["Nothing to object to."]
        for note in notes:
            rows += textwrap.wrap(note, 78, initial_indent="  ", subsequent_indent="    ")
        return "\n".join(rows)


def calibration(z, x=None, family: Family | None = None) -> Calibration:
    """Compare standardised residuals with the standard normal distribution.

    Parameters
    ----------
    z : array-like of shape (n,) or (outputs, n)
        Standardised residuals; NaN is left out.
    x : array-like of shape (n,), optional
        Inputs, in whose order neighbours are taken; by default the order given.
    family : Family, optional
        The likelihood, where it is not Gaussian: the notes are in its words.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(0).standard_normal(10_000)
    >>> calibration(z).fine
    True
    >>> calibration(1.5 * z).notes[0]
    'residuals are larger than predicted (variance 2.24): noise too small or kernel too smooth'
    """
    rows = np.atleast_2d(np.asarray(z, dtype=float))
    if x is not None:
        order = np.argsort(np.asarray(x).ravel(), kind="stable")
        if len(order) != rows.shape[1]:
            raise ValueError(f"x has {len(order)} entries for {rows.shape[1]} residuals.")
        rows = rows[:, order]
    present = [row[~np.isnan(row)] for row in rows]
    values = np.concatenate(present)
    n = len(values)
    if n < 2:
        raise ValueError(f"Calibration needs at least two residuals, got {n}.")
    mean, variance = float(values.mean()), float(values.var())
    products = sum(float((row[1:] - mean) @ (row[:-1] - mean)) for row in present)
    autocorrelation = products / (n * variance) if variance > 0.0 else 0.0
    inside = erf(np.abs(values) / 2.0**0.5)  # level of the band that a residual just touches
    coverage = {level: float(np.mean(inside <= level)) for level in _LEVELS}
    errors = {level: (level * (1.0 - level) / n) ** 0.5 for level in _LEVELS}
    pit = np.sort(ndtr(values))
    distance = float(max((np.arange(1, n + 1) / n - pit).max(), (pit - np.arange(n) / n).max()))
    # Stephens' correction makes the limiting distribution good for any n.
    p_value = float(kolmogorov((n**0.5 + 0.12 + 0.11 / n**0.5) * distance))
    reach = {level: VERDICT.clear_errors * error for level, error in errors.items()}
    # The middle is narrower than predicted, and what lies outside far from it is too much for
    # a normal that fits the middle.
    size = np.abs(values)
    beyond = float(np.mean(size > _FAR * np.median(size)))
    heavy = (
        coverage[0.50] > 0.50 + max(VERDICT.clear_coverage, reach[0.50])
        and coverage[0.99] < 0.99
        and beyond > 0.01 + max(VERDICT.clear_coverage, reach[0.99])
    )
    largest = float(size.max())
    notes = []
    if heavy:
        notes.append(
            f"residuals have heavy tails: the 50% band covers {coverage[0.50]:.1%} but the 99% "
            f"band covers {coverage[0.99]:.1%}, and the largest is {largest:.3g} standard "
            "deviations: outliers, or noise that is not normal or not the same everywhere"
        )
    elif abs(variance - 1.0) > max(VERDICT.clear_moment, VERDICT.clear_errors * (2.0 / n) ** 0.5):
        less, more = _reasons(family)
        larger, why = ("larger", more) if variance > 1.0 else ("smaller", less)
        notes.append(f"residuals are {larger} than predicted (variance {variance:.2f}): {why}")
    if abs(mean) > max(VERDICT.clear_moment, VERDICT.clear_errors * n**-0.5):
        notes.append(f"predictions are off by {mean:+.2f} standard deviations on average")
    off = [
        f"{level:.0%} band covers {share:.1%}"
        for level, share in coverage.items()
        if abs(share - level) > max(VERDICT.clear_coverage, reach[level])
    ]
    if off and not heavy:
        notes.append(", ".join(off))
    if autocorrelation > max(VERDICT.clear_moment, VERDICT.clear_errors * n**-0.5):
        notes.append(
            f"neighbours are correlated ({autocorrelation:.2f}): there is structure left that "
            "kernel or basis does not resolve"
        )
    limit = float(-ndtri(5e-5 / n))  # one in ten thousand right models has a residual beyond
    far = int(np.count_nonzero(size > limit))
    if far and not heavy:
        which = "one residual lies" if far == 1 else f"{far:,} residuals lie"
        notes.append(
            f"{which} beyond {limit:.1f} standard deviations, the largest at "
            f"{largest:.3g}: outliers, or tails that are not normal"
        )
    if p_value < VERDICT.unlikely and distance > VERDICT.clear_distance and not notes:
        notes.append(f"residuals are not normal (Kolmogorov-Smirnov p = {p_value:.1g})")
    return Calibration(
        n,
        coverage,
        errors,
        mean,
        variance,
        autocorrelation,
        distance,
        p_value,
        tuple(notes),
    )


def _reasons(family: Family | None) -> tuple[str, str]:
    """Return why residuals may be smaller, and why larger, than a likelihood says."""
    if family is None:
        return "noise too large", "noise too small or kernel too smooth"
    name = type(family).__name__
    more = f"y scatters more than {name} says, or the kernel is too smooth"
    if isinstance(family, Poisson | ZeroInflatedPoisson):
        more += ": try NegativeBinomial()"
    if isinstance(family, Exponential):
        more += ": try Gamma() or Weibull()"
    return f"y scatters less than {name} says", more
