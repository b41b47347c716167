"""The engine for one input: components share a grid and are eliminated along it as one chain."""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array, by_power
from asvgp.kernels import Kernel
from asvgp.linalg.chain import elimination as loops
from asvgp.linalg.chain import sweep
from asvgp.model.chain_effects import Design, Estimate, estimate
from asvgp.model.effects import without_centres
from asvgp.model.elimination import Elimination, eliminate
from asvgp.model.engine import Forms, NoiseModel, Remembered, divergence
from asvgp.model.prior import ChainPrior
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics


class ChainEngine:
    """The model of one input for given statistics.

    Components and effects of the ``kernel`` matter; its hyperparameters do not. ``degree`` is
    the spline degree of all components, or has one per component.
    """

    def __init__(self, kernel: Kernel, statistics: Statistics, degree: int | tuple[int, ...]):
        statistics = without_centres(kernel, statistics)
        self.kernel, self.statistics, self.degree = kernel, statistics, degree
        self.outputs, components = len(statistics.squares), len(kernel.components)
        self.degrees = (degree,) * components if isinstance(degree, int) else degree
        functions = sum(self.degrees) + components * statistics.grid.cells
        self.size = functions + len(kernel.effects)
        self._last: Remembered[tuple[Elimination, Estimate | None]] = Remembered()
        self._prior: ChainPrior | None = None

    @cached_property
    def design(self) -> Design | None:
        """The columns of the fixed effects, None where the kernel has none."""
        return Design.of(self.kernel, self.statistics)

    def with_statistics(self, statistics: Statistics) -> ChainEngine:
        """Return an engine for other sums; on the same grid, the last K is still good."""
        other = ChainEngine(self.kernel, statistics, self.degree)
        if other.statistics.grid == self.statistics.grid:
            other._prior = self._prior
        return other

    def prior(self, kernel: Kernel) -> ChainPrior:
        """Return K at the given hyperparameters, factored; the last one is kept."""
        if self._prior is None or self._prior.kernel is not kernel:
            self._prior = ChainPrior(kernel, self.statistics.grid, self.degree)
        return self._prior

    def factor(
        self, kernel: Kernel, likelihood: NoiseModel, remember: bool = True
    ) -> ChainFactored:
        """Factor P and solve for the mean; the effects are eliminated last."""
        solution = self._last.get(
            kernel, likelihood, lambda: self._solve(kernel, likelihood.noise), remember
        )
        return ChainFactored(self, kernel, likelihood, *solution)

    def _solve(self, kernel: Kernel, noise: float) -> tuple[Elimination, Estimate | None]:
        design = self.design
        if design is None:
            return eliminate(self.prior(kernel), self.statistics, noise), None
        chain = eliminate(self.prior(kernel), design.augmented, noise)
        return chain, estimate(design, chain, noise)


class ChainFactored:
    """P of one input, factored: the elimination of the splines, and the effects given it."""

    def __init__(
        self,
        engine: ChainEngine,
        kernel: Kernel,
        likelihood: NoiseModel,
        chain: Elimination,
        effects: Estimate | None,
    ):
        self.engine, self.kernel, self.likelihood = engine, kernel, likelihood
        self.noise = likelihood.noise
        self.chain, self.effects, self.prior = chain, effects, chain.prior
        self.defect = 0.0
        # never negative but for rounding
        self.gained = max(chain.log_det - chain.prior.log_det, 0.0)
        self.explained = chain.explained[: engine.outputs]
        if effects is not None:
            self.gained += effects.log_det
            self.explained = effects.explained

    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return the variance that the splines miss at the data per component, and derivatives.

        The latter cost next to nothing here, so that they are always computed.
        """
        return self.prior.missed(self.engine.statistics)

    def slopes_of_missed(self) -> Array:
        """Return the derivatives of the missed variance."""
        return self.missed()[1]

    def divergence(self) -> float:
        """Return the divergence of the coefficients' posterior from their prior, in nats."""
        return divergence(self.gained, self.forms())

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs."""
        # Every quadratic form is a sum over cells of the same element, so the sums of
        # covariances and of outer products of the mean are all that is needed.
        prior, outputs = self.prior, self.engine.outputs
        freedom, total, start = self._covariance_sums
        mean_total, mean_start = self._mean_sums
        gradient = 0.5 * (
            outputs * prior.d_log_det()
            - prior.d_form(outputs * total + mean_total, outputs * start + mean_start)
        )
        energy = prior.form(mean_total, mean_start)
        if self.effects is not None:
            energy += self.effects.shrunk
        return Forms(freedom, energy, gradient)

    @cached_property
    def _covariance_sums(self) -> tuple[float, Array, Array]:
        """``tr(P^-1 G) / noise``; P^-1 on the cells, summed, and on the first state."""
        chain, effects = self.chain, self.effects
        trace, total = chain.sums
        freedom, start = trace / self.noise, chain.start_covariance
        if effects is None:
            return freedom, total, start
        columns = effects.coefficients[self.engine.outputs :]
        spread = np.einsum("pq,pci->qci", effects.root, columns)
        first = spread[:, 0, : self.prior.num_states]
        return freedom + effects.freedom, total + _outer(spread), start + first.T @ first

    @property
    def _mean_sums(self) -> tuple[Array, Array]:
        """Outer products of the mean on the cells, summed, and of its first state."""
        if self.effects is None:
            return self.chain.means()[0], self.chain.start_mean.T @ self.chain.start_mean
        means = self.effects.coefficients[: self.engine.outputs]
        first = means[:, 0, : self.prior.num_states]
        return _outer(means), first.T @ first

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component.

        ``tr(P^-1 G S_i) / noise`` with ``S_i`` selecting the coefficients of component i: the
        trace of the matrix that takes y to the component's fitted values. By G, not as functions
        less ``tr(P^-1 K)``, which would be a small difference of large numbers.
        """
        prior, stats, effects = self.prior, self.engine.statistics, self.effects
        if len(prior.where) == 1 and effects is None:
            return np.array([self.chain.sums[0] / self.noise])
        pair, parts = prior.pair(stats), []
        for where in prior.where:
            total = 0.0
            for i in where:
                for j, column in enumerate(pair[i]):
                    total += float(self.covariances[:, i, j] @ stats.moments[:, column])
            parts.append(total)
        design = self.engine.design
        if effects is not None and design is not None:
            columns, powers = self.coefficients[effects.outputs :], stats.degree + 1
            columns = design.at_data(columns)
            left = design.at_data(design.taylor) - by_power(columns, prior.power, powers)
            for number, where in enumerate(prior.where):
                part = by_power(columns[:, :, where], prior.power[where], powers)
                nothing = np.zeros_like(part), np.zeros_like(design.products)
                inner = design.inner(left, part, *nothing)
                parts[number] -= float(np.sum(effects.covariance * inner))
        return np.array(parts) / self.noise

    @cached_property
    def coefficients(self) -> Array:
        """Means of every cell's coefficients, (outputs, cells, n + S), the effects' ``a`` after."""
        if self.effects is None:
            return self.chain.means(keep=True)[1]
        return self.effects.coefficients

    @cached_property
    def covariances(self) -> Array:
        """P^-1 of every cell's coefficients given the effects, (cells, n + S, n + S)."""
        return self.chain.marginals(keep=True)[2]

    def solve(self, rows: Array) -> Array:
        """Return ``P^-1`` times functionals of the splines, given the effects.

        ``rows`` and the result hold a vector per cell, (cells, n + S): weights on the coefficients
        of every cell, and coefficients.
        """
        prior, chain = self.prior, self.chain
        every, offset = np.arange(len(prior.power)), np.empty(chain.offset.shape[1:])
        right = np.zeros(prior.num_states)
        loops.solve(prior.markers, every, rows, 1.0, chain.gain, chain.rho, offset, right)
        start = chain.start_covariance @ right
        out, total = np.empty_like(rows), np.zeros((len(every), len(every)))
        loops.means(prior.markers, chain.gain, offset, start, total, out)
        return out

    def draw(self, normals: Array) -> Array:
        """Return draws of every cell's coefficients given the effects, (n, cells, n + S).

        ``normals`` are standard normals of shape (n, states + cells * components).
        """
        prior, chain = self.prior, self.chain
        n, cells = prior.num_states, prior.grid.cells
        start = normals[:, :n] @ chain.start_root.T
        coefficients = np.empty((len(normals), cells, len(prior.power)))
        coefficients[:, :, n:] = normals[:, n:].reshape(len(normals), cells, -1)
        sweep.draw(prior.markers, chain.gain, chain.rho**-0.5, start, coefficients)
        return coefficients


def _outer(coefficients: Array) -> Array:
    """Return the sum of ``v v'`` over vectors and cells."""
    rows = coefficients.reshape(-1, coefficients.shape[2])
    return rows.T @ rows
