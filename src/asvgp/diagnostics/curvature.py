"""Standard errors of hyperparameters, from the curvature of the objective."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel, Sum
from asvgp.likelihoods import Likelihood, likelihood_of
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.chain import ChainEngine
from asvgp.policies import VERDICT
from asvgp.runtime.parallel import one_blas_thread
from asvgp.statistics import Statistics

_STEP = 1e-3  # of a log-hyperparameter, in the differences of gradients


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Uncertainty of hyperparameters, from the curvature of the objective.

    Attributes
    ----------
    names : tuple of str
        The kernel's hyperparameters and those of the likelihood, ``"noise variance"``.
    values : ndarray
    log_errors : ndarray
        Standard errors of the logarithms, which to first order are relative errors; NaN
        where there is a reason in ``notes`` not to have one.
    lower, upper : ndarray
        95 % intervals of the hyperparameters.
    notes : tuple of str
        ``"fixed"``, ``"at bound"``, ``"no maximum"`` (the objective does not curve downwards
        there: the data do not determine it, and the others are as if it were known) or
        ``"off maximum"`` (training ended more than half a standard error from it, or where
        the objective still rises).
    covariance : ndarray
        Of the logarithms; NaN in the rows and columns of those without standard error.
    """

    names: tuple[str, ...]
    values: Array
    log_errors: Array
    lower: Array
    upper: Array
    notes: tuple[str, ...]
    covariance: Array


def standard_errors(
    kernel: Kernel,
    likelihood: Likelihood | float,
    stats: Statistics,
    degree: int | tuple[int, ...],
    objective: str = "elbo",
    free: Sequence[bool] | None = None,
    at_bounds: Collection[str] = (),
    bound: Callable[[Kernel, Likelihood], Bound] | None = None,
) -> StandardErrors:
    """Compute standard errors of log-hyperparameters.

    They come from the inverse of the objective's negative Hessian, and the Hessian itself from
    central differences of the analytic gradient, two bounds for every free hyperparameter.

    Parameters
    ----------
    kernel, likelihood, stats, degree, objective
        At the maximum of the objective, "elbo" or "evidence". A number in place of the
        likelihood stands for Gaussian noise of that variance.
    free : sequence of bool, optional
        Which hyperparameters were estimated, the likelihood's last; by default all but
        the kernel's ``fixed`` ones.
    at_bounds : collection of str
        Names of those that training left on a bound. They are taken as known, as are those
        on one of the kernel's ``bounds``.
    bound : callable, optional
        Another bound of kernel and likelihood than that of one input.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0, 10, 1000)
    >>> y = np.sin(3 * x) + 0.1 * rng.standard_normal(1000)
    >>> gp = GPRegressor(Matern32()).fit(x, y)
    >>> errors = standard_errors(gp.kernel_, gp.noise_variance_, gp.stats_, degree=3)
    >>> errors.names
    ('lengthscale', 'variance', 'noise variance')
    >>> bool(errors.lower[2] < 0.01 < errors.upper[2])
    True
    """
    likelihood, first = likelihood_of(likelihood), len(kernel.parameters)
    names = (*kernel.parameters, *likelihood.parameters)
    values = np.append(kernel.values, likelihood.values)
    size = len(names)
    estimated = np.array([name not in kernel.fixed for name in names] if free is None else free)
    if estimated.shape != (size,):
        raise ValueError(f"free must have {size} entries, for {', '.join(names)}.")
    notes = ["" if is_free else "fixed" for is_free in estimated]
    for i, name in enumerate(names):
        ends = kernel.bounds.get(name, (0.0, np.inf))
        stuck = name in at_bounds or any(np.isclose(values[i], end, rtol=1e-6) for end in ends)
        if stuck and estimated[i]:
            notes[i], estimated[i] = "at bound", False
    rows = np.flatnonzero(estimated).tolist()
    theta = np.log(values)
    evaluate = bound or _bound_of_line(kernel, stats, degree, objective)

    def moved(row: int, step: float) -> Array:
        other = theta.copy()
        other[row] += step
        there = np.exp(other)
        state = _with_values(kernel, there[:first]), likelihood.with_values(there[first:])
        return evaluate(*state).gradient[rows]

    covariance = np.full((size, size), np.nan)
    if len(rows):
        with one_blas_thread:
            here = evaluate(kernel, likelihood).gradient[
                rows
            ]  # just as given: a field has it factored
            hessian = [(moved(r, _STEP) - moved(r, -_STEP)) / (2.0 * _STEP) for r in rows]
        curvature = -0.5 * (np.array(hessian) + np.transpose(hessian))
        # Those along which nothing is determined are taken as known by the others.
        determined = np.arange(len(rows))
        while (inverse := _inverse(curvature[np.ix_(determined, determined)])) is None:
            lost, slope = _undetermined(curvature[np.ix_(determined, determined)], here[determined])
            for place, rise in zip(determined[lost], slope[lost], strict=True):
                # Away from a maximum a ridge may curve upwards, whatever the data determine.
                notes[rows[place]] = "off maximum" if abs(rise) > VERDICT.rising else "no maximum"
            determined = determined[~lost]
        places = np.array(rows)[determined]
        covariance[np.ix_(places, places)] = inverse
        # What a Newton step would still change, in standard errors.
        left = np.abs(inverse @ here[determined]) / np.sqrt(np.diag(inverse))
        for row, distance in zip(places.tolist(), left, strict=True):
            if distance > 0.5:
                notes[row] = "off maximum"
    errors = np.sqrt(np.diag(covariance))
    with np.errstate(over="ignore"):
        reach = np.exp(1.959963984540054 * errors)
        lower, upper = values / reach, values * reach
    return StandardErrors(names, values, errors, lower, upper, tuple(notes), covariance)


def _bound_of_line(
    kernel: Kernel, stats: Statistics, degree: int | tuple[int, ...], objective: str
) -> Callable[[Kernel, Likelihood], Bound]:
    """Return the bound of a model of one input, as a function."""
    engine = ChainEngine(kernel, stats, degree)
    return lambda *state: lower_bound(engine.factor(*state), objective)


def _with_values(kernel: Kernel, values: Array) -> Kernel:
    """Return the kernel with other hyperparameters, whatever is fixed or bounded."""
    parts, first = [], 0
    for component in kernel.components:
        last = first + len(component.parameters)
        changes = dict(zip(component.parameters, values[first:last].tolist(), strict=True))
        parts.append(component.replace(fixed=(), bounds={}, **changes))
        first = last
    return kernel.replace_parts(parts) if isinstance(kernel, Sum) else parts[0]


def _inverse(matrix: Array) -> Array | None:
    """Return the inverse of a positive definite matrix, None if it is not one beyond rounding."""
    diagonal = np.diag(matrix)
    if not np.all(np.isfinite(matrix)) or np.any(diagonal <= 0.0):
        return None
    scale = diagonal**-0.5
    eigenvalues, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    if len(eigenvalues) and eigenvalues[0] <= 1e-8:
        return None
    return (vectors / eigenvalues) @ vectors.T * np.outer(scale, scale)


def _undetermined(matrix: Array, gradient: Array) -> tuple[np.ndarray, Array]:
    """Return the rows that keep a matrix from being positive definite, and slopes along them.

    There is at least one.
    """
    diagonal = np.diag(matrix)
    if not np.all(np.isfinite(matrix)):
        return np.ones(len(matrix), dtype=bool), np.zeros(len(matrix))
    if np.any(diagonal <= 0.0):
        return diagonal <= 0.0, gradient
    scale = diagonal**-0.5
    flattest = np.linalg.eigh(matrix * np.outer(scale, scale))[1][:, 0]
    slope = np.full(len(matrix), flattest @ (scale * gradient))
    return np.arange(len(matrix)) == np.argmax(np.abs(flattest)), slope
