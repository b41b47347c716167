"""Lower and upper bounds on the evidence, and the gradient of the lower one.

With b = Phi' W y, alpha = P^-1 b / noise and t = k(x, x) sum(w) - tr(K^-1 G) >= 0 (for
averages, with their variances in place of k(x, x)), the variance that the splines miss at
the data, the collapsed bound of one output is

    ELBO = - N/2 log(2 pi noise) + 1/2 sum log w + 1/2 log|K| - 1/2 log|P|
           - (y'Wy - b'alpha) / (2 noise) - t / (2 noise)

and, replacing the noise by noise + t in the quadratic form and dropping the last term, an
upper bound (Titsias, 2014). Fixed effects are among the unknowns of K and P. Where y was
transformed, both get the sum of the log derivatives of the transform: they are of y itself.
Where weights count observations, N is their sum, and there is no sum of log w.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import isnan, log, nan, pi
from typing import Literal

import numpy as np

from asvgp.basis import Array
from asvgp.model.engine import Factored
from asvgp.statistics import Statistics


@dataclass(frozen=True)
class Bound:
    """The collapsed bound and its parts, summed over outputs.

    Gradients are with respect to the logarithms of the kernel's hyperparameters and of the noise.
    """

    elbo: float  # lower bound on the log evidence
    fit: float  # the bound without the trace term: the evidence of the spline field itself
    missed: float  # t, the prior variance that the splines miss, summed over the data, if known
    gradient: Array  # of ``elbo`` or of ``fit``, whichever is the objective
    d_missed: Array
    defect: float = 0.0  # error of the gradient, in nats per datum, as far as it is known


def lower_bound(
    factored: Factored,
    objective: str = "elbo",
    derivatives: bool = True,
    missed: Literal["exact", "about", "left out"] = "exact",
) -> Bound:
    """Return the bound, with the gradient of the ``objective``, "elbo" or "evidence".

    Without ``derivatives`` the gradients are empty, which saves time. The evidence does not need
    the missed variance. Where that is not ``missed="exact"``, it and the elbo are nan; derivatives
    of it are zeros, or about right.
    """
    noise, outputs = factored.noise, factored.engine.outputs
    stats = factored.engine.statistics
    squares, explained = _squares(stats) / noise, float(factored.explained.sum())
    total, d_missed = nan, np.empty(0)
    # Differences of large numbers, none of them negative but for rounding; a bound that
    # rounding pushed up would be no bound, and training would climb it.
    if objective == "elbo" or missed == "exact":
        missed_by, d_missed = factored.missed(derivatives and objective == "elbo")
        total = max(float(missed_by.sum()), 0.0)
    misfit = max(squares - explained, 0.0)
    fit = 0.5 * (_constant(factored) - misfit)
    elbo = fit - 0.5 * outputs * total / noise
    if not derivatives:
        return Bound(elbo, fit, total, np.empty(0), np.empty(0))

    forms = factored.forms()
    gradient, slopes = np.zeros((2, len(forms.gradient) + 1))
    gradient[:-1] = forms.gradient
    if objective == "elbo":
        slopes[:-1] = d_missed
    elif missed == "about":
        slopes[:-1] = factored.slopes_of_missed()
    # alpha' G alpha / noise = b' alpha / noise - alpha' K alpha
    gradient[-1] = 0.5 * (
        -outputs * stats.observations + outputs * forms.freedom + squares - explained - forms.energy
    )
    if objective == "elbo":
        gradient -= 0.5 * outputs * slopes / noise
        gradient[-1] += 0.5 * outputs * total / noise
    return Bound(elbo, fit, total, gradient, slopes, forms.defect)


def upper_bound(factored: Factored) -> float:
    """Return an upper bound on the log evidence, from one more factorisation."""
    engine, noise = factored.engine, factored.noise
    wide = noise + max(float(factored.missed(derivatives=False)[0].sum()), 0.0)
    likelihood = factored.likelihood.with_noise(wide)
    misfit = 0.0  # a bound it is with any number that the misfit is not below
    with suppress(np.linalg.LinAlgError):
        wider = engine.factor(factored.kernel, likelihood, remember=False)
        misfit = _squares(engine.statistics) / wide - float(wider.explained.sum())
    # What rounding may have added to log|P|, as far as it is known, is to be on the safe side.
    unsafe = engine.outputs * factored.defect
    return 0.5 * (_constant(factored) - max(misfit, 0.0) + unsafe)


def _squares(stats: Statistics) -> float:
    """Return the sum of w y**2 over all outputs."""
    squares = float(stats.squares.sum())
    if isnan(squares):
        raise ValueError(
            "These statistics have no sum of squares: the Gaussian bound does not apply."
        )
    return squares


def _constant(factored: Factored) -> float:
    """Return the parts of twice the bounds beside the misfit and the missed variance."""
    stats = factored.engine.statistics
    constant = stats.log_precisions - stats.observations * log(2.0 * pi * factored.noise)
    jacobian = 2.0 * float(stats.log_jacobian.sum())
    return float(factored.engine.outputs * (constant - factored.gained)) + jacobian
