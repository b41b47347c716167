"""Is the model right? Leave-one-out predictions, their calibration, degrees of freedom.

Removing observation i takes a matrix of rank one from P, so that with the posterior mean m
and q = phi' P^-1 phi at its place, and the leverage h = w q / noise (how far the mean moves
with y), Sherman and Morrison give

    mean without i = (m - h y) / (1 - h),        phi' P_-i^-1 phi = q / (1 - h):

q is one more polynomial per cell, and all N predictions take one pass over the data. For
averages of f, phi holds those of the basis functions.
"""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass, fields

import numba
import numpy as np
from scipy.special import erf, kolmogorov, ndtr, ndtri

from asvgp.basis import Array, mean_powers
from asvgp.kernels.dynamics import Dynamics
from asvgp.model.effects import Design, by_power
from asvgp.posterior.line import Posterior
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share
from asvgp.statistics.intervals import cut

# The removal of a point cannot be told from rounding where 1 - h is below this times what
# rounding of q comes to.
_LEAST_LEFT = 1e-13
_EPS = float(np.finfo(float).eps)
_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix a row
_LEVELS = (0.50, 0.80, 0.95, 0.99)
_FAR = float(ndtri(0.995) / ndtri(0.75))  # medians of its size that 1 % of a normal lies beyond


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Predictions of every observation from all the others.

    Arrays are (n,) where y was, else (outputs, n), on a grid with its shape in place of n; NaN
    where y is missing.

    Attributes
    ----------
    mean : ndarray
        Predicted without the observation.
    std : ndarray
        Standard deviation of that prediction of the observation, its noise included.
    residual : ndarray
        Observed minus predicted.
    z : ndarray
        Residual in standard deviations: standard normal if the model is right.
    log_density : ndarray
        Log predictive density of the observation, in nats.
    """

    mean: Array
    std: Array
    residual: Array
    z: Array
    log_density: Array

    def on_grid(self, shape: tuple[int, ...]) -> LeaveOneOut:
        """The same in the shape of the grid that the rows are the points of."""
        parts = (getattr(self, field.name) for field in fields(self))
        return LeaveOneOut(*(part.reshape(*part.shape[:-1], *shape) for part in parts))


def leave_one_out(
    posterior: Posterior, x, y, weights=None, covariates=None, width=None
) -> LeaveOneOut:
    """Exact leave-one-out predictive distributions at fixed hyperparameters, in one pass.

    The same as refitting without each observation in turn, on the same knots.

    Parameters
    ----------
    posterior : Posterior
    x : array-like of shape (n,)
        Inputs the posterior was made from, or some of them.
    y : array-like of shape (n,) or (n, outputs)
        Their targets. A row with a NaN is missing, as it was in the posterior's statistics.
    weights : array-like of shape (n,), optional
        The weights they were given.
    covariates : array of shape (n, columns), optional
        Their columns of linear effects.
    width : array of shape (n,), optional
        Widths of the intervals that they are averages over.

    Returns
    -------
    LeaveOneOut

    Warns
    -----
    RuntimeWarning
        Where the noise is so small that an observation determines f at its place to all
        digits; the result is NaN there.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32
    >>> x = np.linspace(0, 6, 200)
    >>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> gp = GPRegressor(Matern32()).fit(x, y)
    >>> loo = leave_one_out(gp.posterior_, x, y)
    >>> bool(np.all(np.abs(loo.residual) >= np.abs(y - gp.predict(x))))
    True
    >>> print(f"mean log density {loo.log_density.mean():.2f}")
    mean log density 0.90
    """
    x, y = np.asarray(x).ravel(), np.asarray(y)
    single = y.ndim == 1
    table = y[:, None] if single else y
    weights = np.empty(0) if weights is None else np.asarray(weights).ravel()
    _check(posterior, x, table, weights)
    if width is not None and len(rows := cut(x, width, posterior.grid)):
        raise ValueError(
            f"Knots cut {len(rows)} of {len(x)} intervals, the first in row {rows[0]}, so they are "
            "not among the posterior's data."
        )
    grid = posterior.grid
    scale = grid.cells / (grid.upper - grid.lower)
    polynomials = _posterior_polynomials(posterior)
    marker = (0,) * (polynomials.shape[1] - 1)
    floor = _EPS * posterior.kernel.prior_variance
    mean, variance = posterior._of_splines(x, True, None)
    own, size, middle = np.empty(len(x)), np.empty(len(x)), x

    def evaluate(start: int, stop: int) -> None:
        for begin, end in each_chunk(start, stop):
            out = (own[begin:end], size[begin:end])
            _horner(marker, as_doubles(x[begin:end]), grid.lower, scale, polynomials, *out)

    each_share(len(x), evaluate)
    if width is not None:
        middle = x + 0.5 * width
        rows = np.flatnonzero(width > 0.0)
        mean[:, rows], variance[rows], own[rows], size[rows] = _averages(
            posterior, x[rows], width[rows]
        )
    if posterior.effects is not None:
        design = posterior.effect_values(middle, covariates)
        own += posterior.effects.variance(posterior.effects.left(mean, design))
        mean, variance = posterior.with_effects(mean, variance, design)
    residual, z, density = (np.empty_like(mean) for _ in range(3))

    def share(start: int, stop: int) -> tuple[int, int]:
        observed = lost = 0
        for begin, end in each_chunk(start, stop):
            part = _leave_out(
                as_doubles(table[begin:end].T),
                as_doubles(weights[begin:end]),
                own[begin:end],
                size[begin:end],
                posterior.noise,
                floor,
                _LEAST_LEFT,
                mean[:, begin:end],
                variance[begin:end],
                residual[:, begin:end],
                z[:, begin:end],
                density[:, begin:end],
            )
            observed, lost = observed + part[0], lost + part[1]
        return observed, lost

    observed, lost = np.sum(each_share(len(x), share), axis=0)
    if observed > posterior.stats.count:
        raise ValueError(
            f"{observed} observations are to be left out, but the posterior was made from "
            f"{posterior.stats.count}: pass the data it was made from, or some of them."
        )
    if lost:
        warnings.warn(
            f"{lost} of {observed} leave-one-out predictions are NaN: with noise variance "
            f"{posterior.noise:.3g} the observation itself determines f to all digits, or it "
            "was not among the posterior's data.",
            RuntimeWarning,
            stacklevel=2,
        )
    if single:
        return LeaveOneOut(mean[0], variance, residual[0], z[0], density[0])
    std = np.repeat(variance[None], len(mean), axis=0)
    return LeaveOneOut(mean, std, residual, z, density)


def _check(posterior: Posterior, x: Array, y: Array, weights: Array) -> None:
    outputs = len(posterior.stats.squares)
    if y.ndim != 2 or y.shape != (len(x), outputs):
        raise ValueError(
            f"x has {len(x)} rows and the posterior {outputs} output(s), but y has shape {y.shape}."
        )
    if len(weights) not in (0, len(x)):
        raise ValueError(f"There are {len(weights)} weights for {len(x)} rows.")
    grid = posterior.grid
    outside = np.count_nonzero(~((x >= grid.lower) & (x <= grid.upper)))
    if outside:
        raise ValueError(
            f"{outside} of {len(x)} inputs are outside the domain ({grid.lower:g}, "
            f"{grid.upper:g}), so they are not among the posterior's data."
        )


def _posterior_polynomials(posterior: Posterior) -> Array:
    """``phi' P^-1 phi`` by powers of s, a row per cell."""
    power = posterior.model.power
    cov = posterior.chain.marginals(keep=True)[2]
    out = np.zeros((len(cov), 2 * int(power.max()) + 1))
    for i, first in enumerate(power):
        for j, second in enumerate(power):
            out[:, first + second] += cov[:, i, j]
    return out


@numba.njit(cache=True, nogil=True)
def _horner(marker, x, lower, scale, polynomials, own, size):
    """Values of the cells' polynomials at x, and what their terms come to without signs."""
    top = len(marker)
    last = polynomials.shape[0] - 1
    for n in range(x.shape[0]):
        t = (x[n] - lower) * scale
        c = min(int(t), last)
        s = t - c
        value = polynomials[c, top]
        terms = abs(value)
        for j in range(top - 1, -1, -1):
            value = value * s + polynomials[c, j]
            terms = terms * s + abs(polynomials[c, j])
        own[n] = value
        size[n] = terms


def _averages(posterior: Posterior, x: Array, width: Array) -> tuple[Array, Array, Array, Array]:
    """Means and variances of averages inside cells, their q, and its terms without signs."""
    power, coef = posterior.model.power, posterior.coefficients
    before, after = posterior._cell_covariances
    mean, (variance, own, size) = np.empty((len(coef), len(x))), np.empty((3, len(x)))
    for start in range(0, len(x), _CHUNK):
        rows = slice(start, start + _CHUNK)
        cells, s, t = posterior.grid.locate_intervals(x[rows], width[rows])
        weights = mean_powers(s, t, int(power.max()))[:, power]
        mean[:, rows] = np.einsum("oti,ti->ot", coef[:, cells], weights)
        form = "ti,tij,tj->t"
        own[rows] = np.einsum(form, weights, after[cells], weights)
        size[rows] = np.einsum(form, np.abs(weights), np.abs(after[cells]), np.abs(weights))
        variance[rows] = own[rows] - np.einsum(form, weights, before[cells], weights)
        for component in posterior.kernel.components:
            variance[rows] += Dynamics(component).average_variance(width[rows])
    return mean, np.maximum(variance, _EPS * posterior.kernel.prior_variance), own, size


@numba.njit(cache=True, nogil=True)
def _leave_out(
    y,
    w,
    own,
    size,
    noise,
    floor,
    least,
    mean,
    variance,
    residual,
    z,
    density,
):
    """Turn predictions into leave-one-out ones in place; ``variance`` becomes the deviation.

    Returns how many observations there are and how many of them could not be removed.
    """
    outputs = y.shape[0]
    observed, lost = 0, 0
    for n in range(y.shape[1]):
        missing = False
        for o in range(outputs):
            missing |= np.isnan(y[o, n])
        private = noise / w[n] if w.shape[0] > 0 else noise
        leverage = own[n] / private
        left = 1.0 - leverage
        hopeless = left < least * max(1.0, size[n] / private)
        if not missing:
            observed += 1
            lost += hopeless
        if missing or hopeless:
            variance[n] = np.nan
            for o in range(outputs):
                mean[o, n] = residual[o, n] = z[o, n] = density[o, n] = np.nan
            continue
        total = max(variance[n] + own[n] * leverage / left, floor) + private
        std = np.sqrt(total)
        variance[n] = std
        for o in range(outputs):
            error = (y[o, n] - mean[o, n]) / left
            mean[o, n] = y[o, n] - error
            residual[o, n] = error
            z[o, n] = error / std
            density[o, n] = -0.5 * np.log(2.0 * np.pi * total) - 0.5 * z[o, n] ** 2
    return observed, lost


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
        """Whether there is nothing to note."""
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


def calibration(z, x=None) -> Calibration:
    """Compare standardised residuals with the standard normal distribution.

    Parameters
    ----------
    z : array-like of shape (n,) or (outputs, n)
        Standardised residuals; NaN is left out.
    x : array-like of shape (n,), optional
        Inputs, in whose order neighbours are taken; by default the order given.

    Returns
    -------
    Calibration

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
    reach = {level: 4.0 * error for level, error in errors.items()}
    # The middle is narrower than predicted, and what lies outside far from it is too much for
    # a normal that fits the middle.
    size = np.abs(values)
    beyond = float(np.mean(size > _FAR * np.median(size)))
    heavy = (
        coverage[0.50] > 0.50 + max(0.01, reach[0.50])
        and coverage[0.99] < 0.99
        and beyond > 0.01 + max(0.01, reach[0.99])
    )
    largest = float(size.max())
    notes = []
    if heavy:
        notes.append(
            f"residuals have heavy tails: the 50% band covers {coverage[0.50]:.1%} but the 99% "
            f"band covers {coverage[0.99]:.1%}, and the largest is {largest:.3g} standard "
            "deviations: outliers, or noise that is not normal or not the same everywhere"
        )
    elif abs(variance - 1.0) > max(0.05, 4.0 * (2.0 / n) ** 0.5):
        larger, why = "smaller", "noise too large"
        if variance > 1.0:
            larger, why = "larger", "noise too small or kernel too smooth"
        notes.append(f"residuals are {larger} than predicted (variance {variance:.2f}): {why}")
    if abs(mean) > max(0.05, 4.0 * n**-0.5):
        notes.append(f"predictions are off by {mean:+.2f} standard deviations on average")
    off = [
        f"{level:.0%} band covers {share:.1%}"
        for level, share in coverage.items()
        if abs(share - level) > max(0.01, reach[level])
    ]
    if off and not heavy:
        notes.append(", ".join(off))
    if autocorrelation > max(0.05, 4.0 * n**-0.5):
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
    if p_value < 1e-4 and distance > 0.02 and not notes:
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


def effective_degrees_of_freedom(posterior: Posterior) -> float:
    """``tr(P^-1 G) / noise``: the trace of the matrix that takes y to fitted values.

    Per output; between zero and the number of basis functions.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32
    >>> x = np.linspace(0, 6, 200)
    >>> gp = GPRegressor(Matern32(3.0), num_basis=50, noise_variance=0.01, optimizer=None)
    >>> round(effective_degrees_of_freedom(gp.fit(x, np.sin(x)).posterior_), 1)
    15.5
    """
    effects = 0.0 if posterior.effects is None else posterior.effects.freedom
    return posterior.chain.sums[0] / posterior.noise + effects


def component_degrees_of_freedom(posterior: Posterior) -> Array:
    """`effective_degrees_of_freedom` of every component; with the effects' they add up to it.

    ``tr(P^-1 G S_i) / noise`` with ``S_i`` selecting the coefficients of component i: the
    trace of the matrix that takes y to the component's fitted values.
    """
    model, stats, effects = posterior.model, posterior.stats, posterior.effects
    if len(model.where) == 1 and effects is None:
        return np.array([effective_degrees_of_freedom(posterior)])
    cov = posterior.chain.marginals(keep=True)[2]
    parts, pair = [], model.pair(stats)
    for where in model.where:
        total = 0.0
        for i in where:
            for j, column in enumerate(pair[i]):
                total += float(cov[:, i, j] @ stats.moments[:, column])
        parts.append(total)
    design = Design.of(posterior.kernel, stats)
    if effects is not None and design is not None:
        columns, powers = posterior.coefficients[effects.outputs :], stats.degree + 1
        left = design.taylor - by_power(columns, model.power, powers)
        for number, where in enumerate(model.where):
            own = by_power(columns[:, :, where], model.power[where], powers)
            nothing = np.zeros_like(own), np.zeros_like(design.products)
            parts[number] -= float(np.sum(effects.covariance * design.inner(left, own, *nothing)))
    return np.array(parts) / posterior.noise
