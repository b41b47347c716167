"""The engine without splines: the field at the inputs themselves, for few distinct ones.

Where every occupied cell holds one distinct input, the moments tell where it is, and nothing need
be approximated. With D the summed weights of the n inputs, A = K + noise D^-1 is dense; the
unknowns are f at the inputs and the fixed effects. K here is the *covariance* of f at the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, get_lapack_funcs, solve_triangular

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.effects import Centring, column_precisions, without_centres
from asvgp.model.engine import Forms, NoiseModel, Remembered
from asvgp.statistics import Statistics

_POTRF, _POTRI = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
_STEP = 5e-4  # of a logarithm, for differences of the fourth order


def distinct_inputs(stats: Statistics) -> Array | None:
    """Return the inputs of one grid in increasing order; None where a cell holds several.

    Examples
    --------
    >>> from asvgp.basis import Grid
    >>> x = np.array([0.1, 0.1, 0.7])
    >>> distinct_inputs(Statistics.from_data(x, x, Grid(0.0, 1.0, 4), degree=2)).round(6).tolist()
    [0.1, 0.7]
    """
    moments, grid = stats.moments, stats.grid
    occupied = np.flatnonzero(moments[:, 0] > 0.0)
    weight, first, second = moments[occupied, :3].T
    s = first / weight
    spread = second / weight - s**2
    if np.any(spread > 1e-12):
        return None
    return grid.lower + (occupied + s) * grid.spacing


class Lags:
    """Distances between inputs, each distinct one once."""

    def __init__(self, x: Array, spacing: float):
        place = (x - x[0]) / spacing
        whole = np.rint(place)
        self.regular = bool(np.all(np.abs(place - whole) < 1e-6))
        if self.regular:
            steps = whole.astype(np.int64)
            apart = np.abs(steps[:, None] - steps)
            self.values = spacing * np.arange(int(steps[-1]) + 1)
            self.index = apart
        else:
            self.values, index = np.unique(np.abs(x[:, None] - x), return_inverse=True)
            self.index = index.reshape(len(x), len(x))

    def matrix(self, values: Array) -> Array:
        """Return the matrix with a value for every distance."""
        return values[self.index]

    def sums(self, matrix: Array) -> Array:
        """Return the sums of a matrix's entries by distance."""
        return np.bincount(self.index.ravel(), matrix.ravel(), minlength=len(self.values))


class ExactEngine:
    """The model of one input at its distinct inputs, for given statistics."""

    def __init__(self, kernel: Kernel, statistics: Statistics):
        statistics = without_centres(kernel, statistics)
        self.kernel, self.statistics = kernel, statistics
        inputs = distinct_inputs(statistics)
        if inputs is None:
            raise ValueError("Some cells hold several distinct inputs.")
        self.x, self.outputs, self.effects = inputs, statistics.outputs, len(kernel.effects)
        self.size = len(inputs) + self.effects
        occupied = statistics.moments[:, 0] > 0.0
        self.weight = statistics.moments[occupied, 0]
        self.y = statistics.targets[:, occupied, 0].T / self.weight[:, None]
        self.columns = statistics.cross[occupied, 0] / self.weight[:, None]
        self.lags = Lags(inputs, statistics.grid.spacing)
        self.centring = Centring(statistics.column_centre, statistics.centre, kernel.intercept)
        self.precision = column_precisions(kernel, statistics)
        self.effects_prior, self._pull, self._constant = self.centring.prior(self.precision)
        self._last: Remembered[Solution] = Remembered()

    def with_statistics(self, statistics: Statistics) -> ExactEngine:
        """Return an engine for other sums."""
        return ExactEngine(self.kernel, statistics)

    def factor(
        self, kernel: Kernel, likelihood: NoiseModel, remember: bool = True
    ) -> ExactFactored:
        """Factor A and solve for the mean; the effects are eliminated last."""
        solution = self._last.get(
            kernel, likelihood, lambda: self._solve(kernel, likelihood.noise), remember
        )
        return ExactFactored(self, kernel, likelihood, solution)

    def covariances(self, kernel: Kernel) -> list[Array]:
        """Return every component's covariance at the distinct lags."""
        return [_covariance(part, self.lags.values) for part in kernel.components]

    def _solve(self, kernel: Kernel, noise: float) -> Solution:
        matrix = self.lags.matrix(np.sum(self.covariances(kernel), axis=0))
        diagonal = np.einsum("ii->i", matrix)
        diagonal += noise / self.weight
        root, failed = _POTRF(matrix, lower=1, overwrite_a=1)
        if failed:
            raise LinAlgError(
                f"The covariance of {kernel!r} with noise variance {noise:.3g} at {len(self.x)} "
                "inputs is not positive definite to working precision."
            )
        stats, right = self.statistics, np.concatenate([self.y, self.columns], axis=1)
        solved = cho_solve((root, True), right)
        at_y, at_columns = solved[:, : self.outputs], solved[:, self.outputs :]
        # of the scatter within inputs, and of what A leaves
        within = stats.column_gram - self.columns.T @ (self.weight[:, None] * self.columns)
        beta, effects_root, log_det = np.empty((0, self.outputs)), np.empty((0, 0)), 0.0
        explained = np.sum(self.weight[:, None] * self.y**2, axis=0) / noise
        explained = explained - np.sum(self.y * at_y, axis=0)
        if self.effects:
            schur = self.effects_prior + within / noise + self.columns.T @ at_columns
            scatter = stats.column_targets.T - self.columns.T @ (self.weight[:, None] * self.y)
            target = scatter / noise + self.columns.T @ at_y - self._pull
            effects_root = np.linalg.cholesky(schur)
            beta = cho_solve((effects_root, True), target)
            explained = explained + np.sum(target * beta, axis=0) - self._constant
            log_det = 2.0 * float(np.log(np.diag(effects_root)).sum())
            log_det -= float(np.log(self.precision).sum())
        log_det += 2.0 * float(np.log(np.diag(root)).sum())
        log_det += float(np.log(self.weight / noise).sum())
        residual = at_y - at_columns @ beta
        return Solution(root, residual, at_columns, beta, effects_root, within, explained, log_det)


@dataclass(frozen=True, eq=False)
class Solution:
    """A factored, and what was solved with it."""

    root: Array  # of A, lower
    residual: Array  # A^-1 (y - Z beta), (n, outputs)
    columns: Array  # A^-1 Z, (n, effects)
    beta: Array  # (effects, outputs), of centred columns
    effects_root: Array
    within: Array  # scatter of the columns within inputs
    explained: Array
    log_det: float  # log|P| - log|K|, effects included


class ExactFactored:
    """The model at one state of the hyperparameters."""

    def __init__(
        self, engine: ExactEngine, kernel: Kernel, likelihood: NoiseModel, solution: Solution
    ):
        self.engine, self.kernel, self.likelihood = engine, kernel, likelihood
        self.noise, self.solution = likelihood.noise, solution
        self.gained, self.explained = max(solution.log_det, 0.0), solution.explained

    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return zeros: nothing is missed at the inputs."""
        return np.zeros(len(self.kernel.components)), np.zeros(len(self.kernel.parameters))

    @cached_property
    def inverse(self) -> Array:
        """A^-1 less what the effects take, (n, n)."""
        inverse, _ = _POTRI(self.solution.root, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return inverse - self.spread @ self.spread.T

    @cached_property
    def spread(self) -> Array:
        """A^-1 Z times a root of the effects' covariance, (n, effects)."""
        solution = self.solution
        if not self.engine.effects:
            return np.empty((len(self.engine.x), 0))
        return np.linalg.solve(solution.effects_root, solution.columns.T).T

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """Sums by lag of the inverse, and of outer products of the residual."""
        lags, residual = self.engine.lags, self.solution.residual
        return lags.sums(self.inverse), lags.sums(residual @ residual.T)

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs."""
        engine, solution, noise = self.engine, self.solution, self.noise
        inverse, outer = self._sums
        weights = 0.5 * (outer - engine.outputs * inverse)
        slopes = [_slopes(part, engine.lags.values) @ weights for part in self.kernel.components]
        covariance = np.sum(engine.covariances(self.kernel), axis=0)
        energy = float(covariance @ outer)
        freedom = len(engine.x) - noise * float(np.sum(np.diag(self.inverse) / engine.weight))
        if engine.effects:
            energy += engine.centring.energy(engine.precision, solution.beta)
            half = np.linalg.solve(solution.effects_root, solution.within)
            inside = np.linalg.solve(solution.effects_root, half.T)
            freedom += float(np.trace(inside)) / noise
        return Forms(freedom, energy, np.concatenate(slopes))

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component."""
        inverse, _ = self._sums
        return np.array([part @ inverse for part in self.engine.covariances(self.kernel)])

    # Of the unknowns, f at the inputs and the effects: given the effects f has the covariance
    # N - N A^-1 N with N the noise of the inputs, and it moves with them by -(Z - N A^-1 Z).

    def solve(self, rows: Array) -> Array:
        """Return ``P^-1`` times right-hand sides, (size, n): f at the inputs, then effects."""
        n, solution = len(self.engine.x), self.solution
        first, beta = rows[:n], rows[n:]
        if self.engine.effects:
            target = beta - self._moved.T @ first
            beta = cho_solve((solution.effects_root, True), target)
        scaled = self._noises * first
        values = scaled - self._noises * cho_solve((solution.root, True), scaled)
        return np.concatenate([values - self._moved @ beta, beta])

    def draw(self, normals: Array) -> Array:
        """Return draws with covariance ``P^-1``, made from standard normals, (size, n)."""
        n, solution = len(self.engine.x), self.solution
        beta = normals[n:]
        if self.engine.effects:
            beta = solve_triangular(solution.effects_root, beta, lower=True, trans=1)
        half = np.sqrt(self._noises)
        inner = np.eye(n) - half * cho_solve((solution.root, True), np.diag(half[:, 0]))
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        root = half * vectors * np.sqrt(np.maximum(values, 0.0))
        return np.concatenate([root @ normals[:n] - self._moved @ beta, beta])

    @property
    def _noises(self) -> Array:
        """Noise variance of the mean of y at every input, (n, 1)."""
        return self.noise / self.engine.weight[:, None]

    @property
    def _moved(self) -> Array:
        """The part of the effects' columns that f would explain, (n, effects)."""
        return self.engine.columns - self._noises * self.solution.columns


def _covariance(part, lag: Array) -> Array:
    out = np.full(lag.shape, part.variance)
    for factor in part.factors:
        out *= factor.covariance(lag)
    return out


def _slopes(part, lag: Array) -> Array:
    """Return derivatives of a component's covariance by its log-parameters, the variance last."""
    values = [factor.covariance(lag) for factor in part.factors]
    names, rows = part.parameters[:-1], {}
    for number, factor in enumerate(part.factors):
        rest = part.variance * np.prod([v for i, v in enumerate(values) if i != number], axis=0)
        for name in factor.parameters[:-1]:
            at = getattr(factor, name)

            def moved(steps: float, factor=factor, name=name, at=at) -> Array:
                return factor.replace(**{name: at * np.exp(steps * _STEP)}).covariance(lag)

            slope = 8.0 * (moved(1.0) - moved(-1.0)) - (moved(2.0) - moved(-2.0))
            rows[part.name_of(factor, name)] = rest * slope / (12.0 * _STEP)
    out = [rows[name] for name in names]
    return np.array([*out, part.variance * np.prod(values, axis=0)])
