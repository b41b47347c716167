"""The engine without splines: the field at the inputs themselves, for few distinct ones.

Where every occupied cell holds one distinct input, the moments tell where it is, and nothing need
be approximated. With D the summed weights of the n inputs, A = K + noise D^-1 is dense; the
unknowns are f at the inputs and the fixed effects. K here is the *covariance* of f at the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from scipy.linalg import solve_triangular

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.effects import Centring, column_precisions, without_centres
from asvgp.model.engine import Forms, NoiseModel, Remembered, divergence
from asvgp.model.exact_matrix import (
    DenseMatrix,
    Lags,
    RegularMatrix,
    is_toeplitz,
    over_root,
    rooted,
    solve_rooted,
    solved_matrix,
)
from asvgp.model.information import regular_information
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics


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
        self._right = np.concatenate([self.y, self.columns], axis=1)
        weighted = self.weight[:, None] * self.columns
        # scatter of the columns within inputs, and of columns and y
        self.within = statistics.column_gram - self.columns.T @ weighted
        self._scatter = statistics.column_targets.T - weighted.T @ self.y
        self._squares = np.sum(self.weight[:, None] * self.y**2, axis=0)
        self._log_weight = float(np.log(self.weight).sum())
        self.lags = Lags(inputs, statistics.grid.spacing)
        self.centring = Centring(statistics.column_centre, statistics.centre, kernel.intercept)
        self.precision = column_precisions(kernel, statistics)
        self.effects_prior, self._pull, self._constant = self.centring.prior(self.precision)
        self._last: Remembered[Solution] = Remembered()

    @property
    def cheap(self) -> bool:
        """True where no matrix is needed."""
        return is_toeplitz(self.lags, 1.0 / self.weight)

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

    def information(self, kernel: Kernel, noise: float) -> Array | None:
        """Return roughly what the data tell about log-hyperparameters and the log noise.

        None where inputs are not regular.
        """
        if not self.lags.regular:
            return None
        noise = noise / float(np.mean(self.weight))
        lags, inputs = self.lags.values, len(self.x)
        return regular_information(kernel, noise, lags, inputs, self.outputs)

    def _solve(self, kernel: Kernel, noise: float) -> Solution:
        slopes = [part.slopes(self.lags.values) for part in kernel.components]
        values = np.sum([rows[-1] for rows in slopes], axis=0)
        matrix, solved = solved_matrix(self.lags, values, noise / self.weight, self._right)
        at_y, at_columns = solved[:, : self.outputs], solved[:, self.outputs :]
        beta, effects_root, log_det = np.empty((0, self.outputs)), np.empty((0, 0)), 0.0
        explained = self._squares / noise - np.sum(self.y * at_y, axis=0)
        if self.effects:
            schur = self.effects_prior + self.within / noise + self.columns.T @ at_columns
            target = self._scatter / noise + self.columns.T @ at_y - self._pull
            effects_root, log_det = rooted(schur)
            beta = solve_rooted(effects_root, target)
            explained = explained + np.sum(target * beta, axis=0) - self._constant
            log_det -= float(np.log(self.precision).sum())
        log_det += matrix.log_det + self._log_weight - len(self.weight) * log(noise)
        residual = at_y - at_columns @ beta
        return Solution(
            slopes,
            values,
            matrix,
            residual,
            at_columns,
            beta,
            effects_root,
            explained,
            log_det,
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """A factored, and what was solved with it."""

    slopes: list[Array]  # of every component at the distinct lags; the last are covariances
    values: Array  # covariance of f at the distinct lags
    matrix: DenseMatrix | RegularMatrix  # A
    residual: Array  # A^-1 (y - Z beta), (n, outputs)
    columns: Array  # A^-1 Z, (n, effects)
    beta: Array  # (effects, outputs), of centred columns
    effects_root: Array
    explained: Array
    log_det: float  # log|P| - log|K|, effects included


class ExactFactored:
    """The model at one state of the hyperparameters."""

    def __init__(
        self, engine: ExactEngine, kernel: Kernel, likelihood: NoiseModel, solution: Solution
    ):
        self.engine, self.kernel, self.likelihood = engine, kernel, likelihood
        self.noise, self.solution, self.defect = likelihood.noise, solution, 0.0
        self.gained, self.explained = max(solution.log_det, 0.0), solution.explained

    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return zeros: nothing is missed at the inputs."""
        return np.zeros(len(self.kernel.components)), np.zeros(len(self.kernel.parameters))

    def slopes_of_missed(self) -> Array:
        """Return zeros, too."""
        return self.missed()[1]

    @cached_property
    def dense(self) -> DenseMatrix:
        """A as a dense matrix, for variances at many places."""
        matrix, engine = self.solution.matrix, self.engine
        if isinstance(matrix, DenseMatrix):
            return matrix
        return DenseMatrix(engine.lags, self.solution.values, self.noise / engine.weight)

    @property
    def inverse(self) -> Array:
        """A^-1 less what the effects take, (n, n)."""
        return self.dense.inverse - self.spread @ self.spread.T

    @cached_property
    def spread(self) -> Array:
        """A^-1 Z times a root of the effects' covariance, (n, effects)."""
        solution = self.solution
        if not self.engine.effects:
            return np.empty((len(self.engine.x), 0))
        return over_root(solution.columns, solution.effects_root)

    @cached_property
    def _sums(self) -> tuple[Array, float]:
        """Sums by lag of the inverse less what the effects take, and its trace times the noise."""
        return self.solution.matrix.inverse_sums(self.spread, self._noises[:, 0])

    def divergence(self) -> float:
        """Return the divergence of the coefficients' posterior from their prior, in nats."""
        return divergence(self.gained, self.forms())

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs."""
        engine, solution, noise = self.engine, self.solution, self.noise
        inverse, trace = self._sums
        outer = engine.lags.outer_sums(solution.residual)
        weights = 0.5 * (outer - engine.outputs * inverse)
        slopes = [rows @ weights for rows in solution.slopes]
        energy = float(solution.values @ outer)
        freedom = len(engine.x) - trace
        if engine.effects:
            energy += engine.centring.energy(engine.precision, solution.beta)
            inside = solve_rooted(solution.effects_root, engine.within)
            freedom += float(np.trace(inside)) / noise
        return Forms(freedom, energy, np.concatenate(slopes))

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component."""
        inverse, _ = self._sums
        return np.array([rows[-1] @ inverse for rows in self.solution.slopes])

    # Of the unknowns, f at the inputs and the effects: given the effects f has the covariance
    # N - N A^-1 N with N the noise of the inputs, and it moves with them by -(Z - N A^-1 Z).

    def solve(self, rows: Array) -> Array:
        """Return ``P^-1`` times right-hand sides, (size, n): f at the inputs, then effects."""
        n, solution = len(self.engine.x), self.solution
        first, beta = rows[:n], rows[n:]
        if self.engine.effects:
            target = beta - self._moved.T @ first
            beta = solve_rooted(solution.effects_root, target)
        scaled = self._noises * first
        values = scaled - self._noises * self.dense.solve(scaled)
        return np.concatenate([values - self._moved @ beta, beta])

    def draw(self, normals: Array) -> Array:
        """Return draws with covariance ``P^-1``, made from standard normals, (size, n)."""
        n, solution = len(self.engine.x), self.solution
        beta = normals[n:]
        if self.engine.effects:
            beta = solve_triangular(solution.effects_root, beta, lower=True, trans=1)
        half = np.sqrt(self._noises)
        inner = np.eye(n) - half * self.dense.solve(np.diag(half[:, 0]))
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
