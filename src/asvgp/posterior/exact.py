"""The posterior at few distinct inputs, without splines.

With A = K + noise D^-1 at the inputs, Z the effects' columns there and S their Schur complement,
a functional of f with covariances c with f at the inputs and effects z has the mean
``c A^-1 (y - Z beta) + z beta`` and the variance ``prior - c A^-1 c' + h S^-1 h'``,
``h = z - c A^-1 Z``. Nothing is approximated, inside the domain or beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood, likelihood_of
from asvgp.model.bound import upper_bound
from asvgp.model.exact import ExactEngine, ExactFactored
from asvgp.posterior.exact_rows import AveragePrior, InputRows
from asvgp.posterior.lag_integrals import Part, lag_covariance
from asvgp.posterior.posterior import (
    FittedValues,
    GridPoints,
    Posterior,
    lift_diagonal,
)
from asvgp.posterior.target import Target
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import one_blas_thread
from asvgp.statistics import Statistics

_DOUBLES = 1 << 21  # of a chunk of rows
_EPS = float(np.finfo(float).eps)
_SAME = 1e-3  # of a cell: a point as near as this to an input is that input


class ExactPosterior(Posterior[GridPoints]):
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood, or float
        A number stands for Gaussian noise of that variance, at weight one.
    engine : ExactEngine

    Examples
    --------
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0.0, 6.0, 50)
    >>> stats = Statistics.from_data(x, np.sin(x), Grid(-0.05, 6.05, 100), degree=2)
    >>> kernel = Matern32(2.0)
    >>> posterior = ExactPosterior(kernel, 1e-4, ExactEngine(kernel, stats))
    >>> none = np.empty((1, 0))
    >>> mean, _ = posterior.predict(GridPoints(np.array([[1.5]]), none, none))
    >>> mean.round(3)
    array([[0.997]])
    """

    plan = None  # it needs none

    def __init__(self, kernel: Kernel, likelihood: Likelihood | float, engine: ExactEngine):
        self._describe(kernel, likelihood, engine)
        self._restore({})

    def _describe(
        self, kernel: Kernel, likelihood: Likelihood | float, engine: ExactEngine
    ) -> None:
        self.kernel, self.likelihood, self.engine = kernel, likelihood_of(likelihood), engine
        self.stats, self.outputs, self.inputs = engine.statistics, engine.outputs, InputRows(engine)
        self._floor = _EPS * kernel.prior_variance

    def anew(self, kernel: Kernel, likelihood: Likelihood, stats: Statistics) -> ExactPosterior:
        """Return the posterior of other statistics on the same grids, at another state."""
        return ExactPosterior(kernel, likelihood, self.engine.with_statistics(stats))

    @property
    def parts(self) -> tuple[Any, ...]:
        """Arguments of `restored`."""
        return self.kernel, self.likelihood, self.stats, self.plan, self.state

    @classmethod
    def restored(
        cls, kernel, likelihood, stats, plan, state: Mapping[str, Any], device: str = "cpu"
    ) -> ExactPosterior:
        """Return a posterior whose `state` was saved; variances factor A when first needed.

        That is done on the CPU, whatever the ``device``.
        """
        self = cls.__new__(cls)
        self._describe(kernel, likelihood, ExactEngine(kernel, stats))
        self._restore(state)
        return self

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take the arrays of a `state`, or compute them where it lacks one."""
        if not {"residual", "effects"} <= state.keys():
            solution, offset = self.factored.solution, self.engine.centring.offset
            state = {"residual": solution.residual, "effects": solution.beta + offset}
        self.residual: Array = state["residual"]  # A^-1 (y - Z beta), (n, outputs)
        self.effects: Array = state["effects"]  # of centred columns, y as given

    @property
    def state(self) -> dict[str, Any]:
        """Arrays that means are made of, beside kernel, noise and statistics."""
        return {"residual": self.residual, "effects": self.effects}

    @cached_property
    def factored(self) -> ExactFactored:
        """A, factored."""
        with one_blas_thread:  # on several the last digits might differ
            return self.engine.factor(self.kernel, self.likelihood)

    def upper_bound(self) -> float:
        """Compute the log evidence: nothing is missed, so that all bounds are equal."""
        return upper_bound(self.factored)

    def __repr__(self) -> str:
        return (
            f"ExactPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {len(self.engine.x)} distinct inputs)"
        )

    # ------------------------------------------------------------ what is asked

    def target(self, component: int | None = None, order: Any = None) -> Target:
        """Return what is asked for, checked to exist."""
        return Target.of(self, component, order)

    def _parts(self, target: Target) -> Sequence[Part]:
        """Return the components that take part."""
        if target.others:
            return ()
        parts = self.kernel.components
        return parts if target.component is None else (parts[target.component],)

    @property
    def given_effects(self) -> tuple[Array, Array]:
        """Coefficients of the effects' columns as given, and their covariance."""
        matrix = self.engine.centring.to_given
        half = self._effects_half(matrix)
        return matrix @ self.effects, half.T @ half

    # ------------------------------------------------------------ prediction

    def predict(
        self,
        points: GridPoints,
        variance: bool = True,
        component: int | None = None,
        order: Any = None,
    ) -> tuple[Array, Array]:
        """Return the mean (outputs, n) and latent variance (n,), anywhere.

        Of the sum or of one component, of f or of a derivative: ``order`` is that of the
        derivative along the input, or maps columns of X to orders. Without ``variance`` the
        second array is empty.
        """
        target, n = self.target(component, order), len(points)
        parts, effects = self._parts(target), target.effects(points, self.engine.centring)
        prior = lag_covariance(parts, np.zeros(1), target.order, target.order)
        mean, var = np.empty((self.outputs, n)), np.empty(n * variance)
        for chunk in self._chunks(n):
            cross = self.inputs.cross(parts, points.main[chunk, 0], target.order)
            mean[:, chunk] = self._mean(cross, effects[chunk])
            if variance:
                var[chunk] = self._variance(cross, effects[chunk], prior)
        return mean, np.maximum(var, self._floor)

    def _chunks(self, n: int) -> Iterator[slice]:
        """Yield slices of rows."""
        step = max(1, _DOUBLES // max(len(self.engine.x), 1))
        return (slice(begin, min(begin + step, n)) for begin in range(0, n, step))

    def _mean(self, cross: Array, effects: Array) -> Array:
        """Return means of functionals, (outputs, m)."""
        return (cross @ self.residual + effects @ self.effects).T

    def _halves(self, cross: Array, effects: Array) -> tuple[Array, Array]:
        """Return columns whose squares the data take off the prior, and the effects put back."""
        solution = self.factored.solution
        explained = solve_triangular(
            self.factored.dense.root, cross.T, lower=True, check_finite=False
        )
        return explained, self._effects_half(effects - cross @ solution.columns)

    def _effects_half(self, rows: Array) -> Array:
        """Return columns whose squares are the variances of rows of effects, (effects, m)."""
        if not self.engine.effects:
            return np.zeros((0, len(rows)))
        return solve_triangular(self.factored.solution.effects_root, rows.T, lower=True)

    def _variance(self, cross: Array, effects: Array, prior: Array) -> Array:
        """Return variances of functionals, (m,)."""
        explained, added = self._halves(cross, effects)
        return prior - np.sum(explained**2, axis=0) + np.sum(added**2, axis=0)

    def _covariance(self, cross: Array, effects: Array, prior: Array) -> Array:
        """Return covariances of functionals, (m, m)."""
        explained, added = self._halves(cross, effects)
        out = prior - explained.T @ explained + added.T @ added
        return 0.5 * (out + out.T)

    def fitted_values(self, points: GridPoints) -> FittedValues:
        """Return the posterior at places of its data, for leave-one-out.

        There ``K - K A^-1 K = N - N A^-1 N`` with N the noise of the inputs, which loses no digits
        where it is small.
        """
        x, places = points.main[:, 0], self.inputs.x
        outside = self._outside(x)
        if outside.any():
            raise ValueError(
                f"{np.count_nonzero(outside)} of {len(points)} inputs are outside the domain, so "
                "they are not among the posterior's data."
            )
        at = np.searchsorted(0.5 * (places[1:] + places[:-1]), x)
        near = np.abs(places[at] - x) <= _SAME * self.stats.grid.spacing
        factored, engine, at = self.factored, self.engine, at[near]
        solution, inverse = factored.solution, factored.inverse
        noise = (self.noise / engine.weight)[at]
        diagonal = (np.diag(inverse) + np.sum(factored.spread**2, axis=1))[at]
        off = Target().effects(points.take(near), self.engine.centring) - engine.columns[at]
        half = self._effects_half(off + noise[:, None] * solution.columns[at])
        shared = np.sum(half**2, axis=0)
        mean, quadratic = self.predict(points.take(~near))
        out = FittedValues(np.empty((self.outputs, len(x))), *(np.empty(len(x)) for _ in range(3)))
        # K residual = y - Z beta - N residual, of centred y
        level = engine.y[at] + engine.columns[at] @ engine.centring.offset
        out.mean[:, near] = (level + off @ self.effects - noise[:, None] * self.residual[at]).T
        out.quadratic[near] = noise - noise**2 * diagonal + shared
        out.magnitude[near] = noise + noise**2 * diagonal + shared
        # missing rows may be where there are no data
        out.mean[:, ~near], out.quadratic[~near] = mean, quadratic
        out.magnitude[~near] = 2.0 * self.kernel.prior_variance + quadratic
        out.variance[:] = np.maximum(out.quadratic, self._floor)
        return out

    def path_values(
        self, points: GridPoints, weights: Array, effects: Array, component: int | None
    ) -> Array:
        """Return sums of covariances with f at the inputs, (outputs, n); NaN outside the domain.

        ``weights`` are (components, inputs, outputs).
        """
        x, target = points.main[:, 0], Target(component)
        columns = target.effects(points, self.engine.centring)
        out = np.empty((self.outputs, len(x)))
        for chunk in self._chunks(len(x)):
            values = columns[chunk] @ effects
            for number, part in enumerate(self.kernel.components):
                if component in (None, number):
                    values = values + self.inputs.cross([part], x[chunk]) @ weights[number]
            out[:, chunk] = values.T
        out[:, self._outside(x)] = np.nan
        return out

    def _outside(self, x: Array) -> np.ndarray:
        grid = self.stats.grid
        return (x < grid.lower) | (x > grid.upper)

    # ------------------------------------------------------------ joint covariances

    def covariance(
        self, points: GridPoints, order: Any = None, component: int | None = None
    ) -> Array:
        """Return the posterior covariance matrix of f, of a derivative or of a component."""
        target, x = self.target(component, order), points.main[:, 0]
        parts, order = self._parts(target), target.order
        prior = np.empty((len(x), len(x)))
        for chunk in self._chunks(len(x)):
            prior[chunk] = lag_covariance(parts, x[chunk, None] - x, order, order)
        cross = self.inputs.cross(parts, x, order)
        out = self._covariance(cross, target.effects(points, self.engine.centring), prior)
        lift_diagonal(out, self._floor)
        return out

    # ------------------------------------------------------------ averages

    def averages(
        self,
        low: GridPoints,
        high: GridPoints,
        variance: bool = True,
        covariance: bool = False,
        component: int | None = None,
    ) -> tuple[Array, Array]:
        """Return means (outputs, m) and variances (m,) of averages of f over intervals.

        With ``covariance`` the second is the covariance matrix (m, m), without ``variance``
        empty. The intervals lie anywhere; the effects are those of both ends, halved.
        """
        target, centring = self.target(component), self.engine.centring
        parts = self._parts(target)
        effects = 0.5 * (target.effects(low, centring) + target.effects(high, centring))
        ends = low.main[:, 0], high.main[:, 0]
        start, stop = np.minimum(*ends), np.maximum(*ends)
        prior = AveragePrior(parts, self.stats.grid.spacing)
        if covariance:
            cross = self.inputs.average_cross(parts, start, stop)
            whole = prior.covariances(start, stop)
            out = self._covariance(cross, effects, whole)
            lift_diagonal(out, _EPS * np.diagonal(whole))
            return self._mean(cross, effects), out
        m = len(start)
        mean, var = np.empty((self.outputs, m)), np.empty(m * variance)
        for chunk in self._chunks(m):
            cross = self.inputs.average_cross(parts, start[chunk], stop[chunk])
            mean[:, chunk] = self._mean(cross, effects[chunk])
            if variance:
                whole = prior.variances((stop - start)[chunk])
                spread = self._variance(cross, effects[chunk], whole)
                var[chunk] = np.maximum(spread, _EPS * whole)
        return mean, var

    def volumes(self, lower: GridPoints, upper: GridPoints) -> Array:
        """Return the signed lengths of intervals, (m,)."""
        return upper.main[:, 0] - lower.main[:, 0]

    def centred(self, component: int, x: Array) -> tuple[Array, Array]:
        """Return mean (outputs, n) and variance (n,) of a component less its average at the data.

        Between a component and the intercept a constant can be moved without changing the sum
        much: the data know this difference better than the component itself.
        """
        parts = self._parts(self.target(component))
        x, engine = np.asarray(x, dtype=float).ravel(), self.engine
        share = engine.weight / engine.weight.sum()
        average = engine.lags.matrix(lag_covariance(parts, engine.lags.values)) @ share
        own = lag_covariance(parts, np.zeros(1)) + average @ share
        mean, var = np.empty((self.outputs, len(x))), np.empty(len(x))
        for chunk in self._chunks(len(x)):
            cross = self.inputs.cross(parts, x[chunk])
            prior = own - 2.0 * (cross @ share)
            effects = np.zeros((len(cross), engine.effects))
            mean[:, chunk] = self._mean(cross - average, effects)
            var[chunk] = self._variance(cross - average, effects, prior)
        return mean, np.maximum(var, self._floor)
