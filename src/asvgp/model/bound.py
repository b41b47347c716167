"""Lower and upper bounds on the evidence, and the gradient of the lower one.

With b = Phi' W y, alpha = P^-1 b / noise and t = k(x, x) sum(w) - tr(K^-1 G) >= 0 (for
averages, with their variances in place of k(x, x)), the variance that the splines miss at
the data, the collapsed bound of one output is

    ELBO = - N/2 log(2 pi noise) + 1/2 sum log w + 1/2 log|K| - 1/2 log|P|
           - (y'Wy - b'alpha) / (2 noise) - t / (2 noise)

and, replacing the noise by noise + t in the quadratic form and dropping the last term, an
upper bound (Titsias, 2014). Fixed effects (`asvgp.model.effects`) take their part off
the quadratic form and add log|S| - log|T| to log|P|.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.chain import Model
from asvgp.model.effects import Design, estimate
from asvgp.model.elimination import Elimination, eliminate
from asvgp.statistics.one_input import Statistics


@dataclass(frozen=True)
class Bound:
    """The pieces of the collapsed bound, summed over outputs.

    Attributes
    ----------
    elbo : float
        Lower bound on the log evidence.
    fit : float
        The same without the trace term: the evidence of the spline field itself.
    missed : float
        ``t``, the prior variance that the splines miss, summed over the data.
    gradient : ndarray
        Of ``elbo`` or ``fit``, whichever was asked for, with respect to the logarithms of
        the kernel's hyperparameters and of the noise variance.
    d_missed : ndarray, optional
        The gradient of ``missed``, for models of several inputs.
    """

    elbo: float
    fit: float
    missed: float
    gradient: Array
    d_missed: Array | None = None


def factored(
    kernel: Kernel, noise: float, stats: Statistics, degree: int | tuple[int, ...] | Model
) -> Elimination:
    """The elimination that all bounds and posteriors start from.

    In place of the degree there may be the model, where it is at hand.
    """
    design = Design.of(kernel, stats)
    known = stats if design is None else design.augmented
    model = degree if isinstance(degree, Model) else Model(kernel, stats.grid, degree)
    return eliminate(model, known, noise)


def lower_bound(
    kernel: Kernel,
    noise: float,
    stats: Statistics,
    degree: int | tuple[int, ...],
    objective: str = "elbo",
    chain: Elimination | None = None,
) -> Bound:
    """The bound and its gradient; no term costs more than O(cells).

    ``chain`` is the elimination for these arguments, where it is at hand.
    """
    design = Design.of(kernel, stats)
    if chain is None:
        chain = factored(kernel, noise, stats, degree)
    model = chain.model
    outputs = len(stats.squares)
    trace_posterior, total = chain.sums
    start = chain.start_covariance
    squares, explained = stats.squares.sum() / noise, chain.explained[:outputs].sum()
    gained = max(chain.log_det - model.log_det, 0.0)
    # Every quadratic form below is a sum over cells of the same element, so the sums of
    # covariances and of outer products of the mean are all that is needed.
    shrunk = 0.0
    if design is None:
        mean_total, _ = chain.means()
        mean_start = chain.start_mean.T @ chain.start_mean
    else:
        effects = estimate(design, chain, noise)
        states = model.num_states
        means, columns = effects.coefficients[:outputs], effects.coefficients[outputs:]
        mean_total = _outer(means)
        mean_start = means[:, 0, :states].T @ means[:, 0, :states]
        spread = np.einsum("pq,pci->qci", effects.root, columns)
        total = total + _outer(spread)
        start = start + spread[:, 0, :states].T @ spread[:, 0, :states]
        trace_posterior = trace_posterior + noise * effects.freedom
        explained = explained + effects.explained.sum()
        gained, shrunk = gained + effects.log_det, effects.shrunk
    # Differences of large numbers, none of them negative but for rounding; a bound that
    # rounding pushed up would be no bound, and training would climb it.
    misfit = max(squares - explained, 0.0)
    unfloored, d_missed = model.missed(stats)
    missed = max(unfloored, 0.0)
    constant = stats.log_weights - stats.count * log(2.0 * pi * noise)
    fit = 0.5 * (outputs * (constant - gained) - misfit)
    elbo = fit - 0.5 * outputs * missed / noise

    d_kernel = 0.5 * (
        outputs * model.d_log_det()
        - model.d_form(outputs * total + mean_total, outputs * start + mean_start)
    )
    # alpha' G alpha / noise = b' alpha / noise - alpha' K alpha
    roughness = model.form(mean_total, mean_start) + shrunk
    d_noise = 0.5 * (
        -outputs * stats.count + outputs * trace_posterior / noise + squares - explained - roughness
    )
    if objective == "elbo":
        d_kernel = d_kernel - 0.5 * outputs * d_missed / noise
        d_noise += 0.5 * outputs * missed / noise
    return Bound(float(elbo), float(fit), float(missed), np.append(d_kernel, d_noise))


def upper_bound(
    kernel: Kernel,
    noise: float,
    stats: Statistics,
    degree: int | tuple[int, ...],
    chain: Elimination | None = None,
) -> float:
    """An upper bound on the log evidence, from one more factorisation."""
    if chain is None:
        chain = factored(kernel, noise, stats, degree)
    model, design = chain.model, Design.of(kernel, stats)
    outputs = len(stats.squares)
    missed = max(model.missed(stats)[0], 0.0)
    gained = max(chain.log_det - model.log_det, 0.0)
    wide = noise + missed
    wider = eliminate(model, chain.stats, wide)
    misfit = stats.squares.sum() / wide - wider.explained[:outputs].sum()
    if design is not None:
        gained += estimate(design, chain, noise).log_det
        misfit -= estimate(design, wider, wide).explained.sum()
    constant = stats.log_weights - stats.count * log(2.0 * pi * noise)
    return float(0.5 * (outputs * (constant - gained) - max(misfit, 0.0)))


def both_bounds(
    kernel: Kernel,
    noise: float,
    stats: Statistics,
    degree: int | tuple[int, ...],
    chain: Elimination | None = None,
) -> tuple[Bound, float]:
    """The lower bound with its gradient, and the upper one, from the same elimination."""
    if chain is None:
        chain = factored(kernel, noise, stats, degree)
    lower = lower_bound(kernel, noise, stats, degree, chain=chain)
    # With next to no noise the two meet, and only rounding could exchange them.
    return lower, max(lower.elbo, upper_bound(kernel, noise, stats, degree, chain))


def _outer(coefficients: Array) -> Array:
    """Sum of ``v v'`` over vectors and cells."""
    rows = coefficients.reshape(-1, coefficients.shape[2])
    return rows.T @ rows
