"""Predictions of every observation from all the others, in one pass over the data.

Removing observation i takes a matrix of rank one from P, so that with the posterior mean m
and q = phi' P^-1 phi at its place, and the leverage h = w q / noise (how far the mean moves
with y), Sherman and Morrison give

    mean without i = (m - h y) / (1 - h),        phi' P_-i^-1 phi = q / (1 - h).

All that differs between models is how m and q are found (`Posterior.fitted_values`). For
averages of f, phi holds those of the basis functions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numba
import numpy as np

from asvgp.basis import Array
from asvgp.posterior.posterior import Places, Posterior
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share
from asvgp.runtime.warn import warn

# The removal of a point cannot be told from rounding where 1 - h is below this times what
# rounding of q comes to.
_LEAST_LEFT = 1e-13
_EPS = float(np.finfo(float).eps)


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
        """Return the arrays in the shape of the grid whose points the rows are."""
        parts = (getattr(self, field.name) for field in fields(self))
        return LeaveOneOut(*(part.reshape(*part.shape[:-1], *shape) for part in parts))

    def among(self, rows: Array, count: int) -> LeaveOneOut:
        """Return the arrays for all of ``count`` rows: NaN but for these."""
        parts = [getattr(self, field.name) for field in fields(self)]
        wider = [np.full((*part.shape[:-1], count), np.nan) for part in parts]
        for new, part in zip(wider, parts, strict=True):
            new[..., rows] = part
        return LeaveOneOut(*wider)


def leave_one_out(posterior: Posterior[Places], points: Places, y, weights=None) -> LeaveOneOut:
    """Compute exact leave-one-out predictive distributions at fixed hyperparameters.

    They are those of refitting without each observation in turn, on the same knots.

    Parameters
    ----------
    posterior : Posterior
    points : LinePoints or GridPoints
        Places of the data that the posterior was made from, or of some of them; for one input
        an array of shape (n,) will do.
    y : array-like of shape (n,) or (n, outputs)
        Their targets. A row with a NaN is missing, as it was in the posterior's statistics.
    weights : array-like of shape (n,), optional
        The weights they were given. Where these count observations, a row is left out with all
        that it stands for, and the prediction is of one of them.

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
    y, stats = np.asarray(y), posterior.stats
    single, outputs = y.ndim == 1, len(stats.squares)
    table = y[:, None] if single else y
    weights = np.empty(0) if weights is None else np.asarray(weights).ravel()
    values = posterior.fitted_values(points)
    rows = values.mean.shape[1]
    if table.ndim != 2 or table.shape != (rows, outputs):
        raise ValueError(
            f"There are {rows} points and the posterior has {outputs} output(s), but y has shape "
            f"{table.shape}."
        )
    if len(weights) not in (0, rows):
        raise ValueError(f"There are {len(weights)} weights for {rows} rows.")
    mean, std, floor = values.mean, values.variance, _EPS * posterior.kernel.prior_variance
    residual, z, density = (np.empty_like(mean) for _ in range(3))

    def share(start: int, stop: int) -> tuple[int, int]:
        observed = lost = 0
        for begin, end in each_chunk(start, stop):
            part = _leave_out(
                as_doubles(table[begin:end].T),
                as_doubles(weights[begin:end]),
                values.quadratic[begin:end],
                values.magnitude[begin:end],
                posterior.noise,
                stats.counted,
                floor,
                _LEAST_LEFT,
                mean[:, begin:end],
                std[begin:end],
                residual[:, begin:end],
                z[:, begin:end],
                density[:, begin:end],
            )
            observed, lost = observed + part[0], lost + part[1]
        return observed, lost

    observed, lost = np.sum(each_share(rows, share), axis=0)
    if observed > stats.count:
        raise ValueError(
            f"{observed} observations are to be left out, but the posterior was made from "
            f"{stats.count}: pass the data it was made from, or some of them."
        )
    if lost:
        warn(
            f"{lost} of {observed} leave-one-out predictions are NaN: with noise variance "
            f"{posterior.noise:.3g} the observation itself determines f to all digits, or it "
            "was not among the posterior's data.",
            RuntimeWarning,
        )
    if single:
        return LeaveOneOut(mean[0], std, residual[0], z[0], density[0])
    return LeaveOneOut(mean, np.repeat(std[None], outputs, axis=0), residual, z, density)


@numba.njit(cache=True, nogil=True)
def _leave_out(
    y,
    w,
    quadratic,
    magnitude,
    noise,
    counted,
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
        leverage = quadratic[n] / private
        left = 1.0 - leverage
        hopeless = left < least * max(1.0, magnitude[n] / private)
        if not missing:
            observed += 1
            lost += hopeless
        if missing or hopeless:
            variance[n] = np.nan
            for o in range(outputs):
                mean[o, n] = residual[o, n] = z[o, n] = density[o, n] = np.nan
            continue
        total = max(variance[n] + quadratic[n] * leverage / left, floor)
        total += noise if counted else private  # where weights count, of one observation
        std = np.sqrt(total)
        variance[n] = std
        for o in range(outputs):
            error = (y[o, n] - mean[o, n]) / left
            mean[o, n] = y[o, n] - error
            residual[o, n] = error
            z[o, n] = error / std
            density[o, n] = -0.5 * np.log(2.0 * np.pi * total) - 0.5 * z[o, n] ** 2
    return observed, lost
