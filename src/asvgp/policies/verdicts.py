"""Verdicts on a fit, and notes about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VerdictPolicy:
    """What a summary, a note or a warning says of a fit."""

    enough: float = 1e-3  # [nats per datum] The basis is enough below: as `LINE.settled_gain`.
    nearly_enough: float = 1e-2  # [nats per datum] Fewer splines than asked for may cost this.
    # [nats per datum] An automatic grid that a twice finer one would improve by more gets a
    # warning. Measured: docs/fields.md states it; no figures
    finer_grid_gain: float = 0.02
    deciding_part: float = 0.1  # [penalty] An input with a smaller part of it does not decide.
    few_digits: float = 1e-4  # [nats per function or datum, whichever are fewer] A note from here.
    wide_deviations: float = 0.5  # [scatter + noise] A note if the splines miss more variance.
    clear_errors: float = 4.0  # [standard errors] Calibration errors are reported beyond these,
    clear_moment: float = 0.05  # [mean, variance or correlation of residuals] and beyond this,
    clear_coverage: float = 0.01  # [share of the data] or this of a band.
    unlikely: float = 1e-4  # [p-value] Not normal if the Kolmogorov-Smirnov test says so,
    clear_distance: float = 0.02  # [distance of distributions] and beyond this.
    # [nats] Of a direction that training left too early, curving upwards. Measured: commit cb1124c
    rising: float = 0.5
    # [share] Of intervals that extend below zero, where all observations are positive.
    below_zero: float = 0.05
    points_looked_at: int = 1000  # [points] For those intervals, in a summary.
    rows_looked_at: int = 25_000  # [rows] For the deviance that a likelihood explains.
    clear_scatter: float = 1.5  # [ratio of variances] Counts beyond are not Poisson's.
    # [mean count] Dispersion of counts that adds less than a hundredth to Poisson's variance.
    far_dispersion: float = 100.0
    light_tails: float = 100.0  # [degrees of freedom] Nobody can tell from Gaussian noise.


VERDICT = VerdictPolicy()
