"""The posterior of one input: factored once, then a polynomial per cell.

On a cell the mean is a polynomial of degree k and the variance one of degree 2k, both kept
in a table with a row per cell, so that a prediction is two Horner schemes whatever N and M
were. Outside the domain the Markov property gives both exactly from the state at the
nearer end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid, by_power
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood, likelihood_of
from asvgp.linalg.cells.polynomial import evaluate_line
from asvgp.linalg.chain.covariance import add_covariance
from asvgp.model.bound import upper_bound
from asvgp.model.chain import ChainEngine, ChainFactored
from asvgp.model.chain_effects import Estimate, input_power
from asvgp.model.elimination import Elimination
from asvgp.model.prior import ChainPrior
from asvgp.posterior.averages import Chain
from asvgp.posterior.chain_averages import ChainAverages, fitted_values
from asvgp.posterior.posterior import (
    FittedValues,
    LinePoints,
    Posterior,
    check_component,
    check_order,
    lift_diagonal,
)
from asvgp.posterior.tails import Splines
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share, one_blas_thread
from asvgp.statistics import Statistics

_EPS = float(np.finfo(float).eps)
_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix per row


class ChainPosterior(Posterior[Any]):
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood, or float
        A number stands for Gaussian noise of that variance, at weight one.
    stats : Statistics
    degree : int or tuple of int
        Spline degree of all components, or one per component.
    engine : ChainEngine, optional
        That of these statistics, if there is one already.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> x = np.linspace(0, 1, 50)
    >>> stats = Statistics.from_data(x, np.sin(6 * x), Grid(0.0, 1.0, 20), degree=2)
    >>> posterior = ChainPosterior(Matern32(0.5), 1e-4, stats, degree=2)
    >>> mean, variance = posterior.predict(np.array([0.5, 100.0]))
    >>> mean.round(2).tolist()  # inside; and far outside, where the prior is back
    [[0.14, 0.0]]
    >>> variance.round(2).tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        kernel: Kernel,
        likelihood: Likelihood | float,
        stats: Statistics,
        degree: int | tuple[int, ...],
        engine: ChainEngine | None = None,
    ):
        self._describe(kernel, likelihood, stats, degree, engine)
        self.coefficients  # noqa: B018 (factored now, so that what fails does so here)

    def _describe(self, kernel, likelihood, stats, degree, engine=None) -> None:
        self.kernel, self.likelihood = kernel, likelihood_of(likelihood)
        self.stats, self.degree = stats, degree
        self.engine = engine or ChainEngine(kernel, stats, degree)
        self.grid: Grid = stats.grid
        self._saved: Mapping[str, Any] = {}  # empty unless restored

    def anew(self, kernel: Kernel, likelihood: Likelihood, stats: Statistics) -> ChainPosterior:
        """Return the posterior of other statistics on the same grids, at another state."""
        engine = self.engine.with_statistics(stats)
        return ChainPosterior(kernel, likelihood, stats, self.degree, engine)

    @property
    def parts(self) -> tuple[Any, ...]:
        """Arguments of `restored`."""
        return self.kernel, self.likelihood, self.stats, self.degree, self.state

    @classmethod
    def restored(
        cls, kernel, likelihood, stats, degree, state: Mapping[str, Any], device: str = "cpu"
    ) -> ChainPosterior:
        """Return a posterior whose `state` was saved; P is factored only when it is needed."""
        self = cls.__new__(cls)
        self._describe(kernel, likelihood, stats, degree)
        self._saved = state
        return self

    @property
    def state(self) -> dict[str, Any]:
        """Arrays that predictions read, beside kernel, noise and statistics."""
        effects = {}
        if self.effects is not None:
            left_out = ("design", "coefficients")  # the statistics', and those beside this
            names = [f.name for f in fields(Estimate) if f.name not in left_out]
            effects = {name: getattr(self.effects, name) for name in names}
        return {
            "coefficients": self.coefficients,
            "reductions": self._reductions,
            "effects": effects,
        }

    @cached_property
    def model(self) -> ChainPrior:
        """The prior precision K, factored."""
        return self.engine.prior(self.kernel)

    @cached_property
    def splines(self) -> list[Splines]:
        """The splines of every component, continued beyond the ends."""
        return [Splines(prior.kernel, self.grid, prior.degree) for prior in self.model.priors]

    def involved(self, component: int | None) -> list[int]:
        """Return the numbers of the components that a functional acts on: one, or all."""
        return list(range(len(self.model.priors))) if component is None else [component]

    @cached_property
    def factored(self) -> ChainFactored:
        """P, factored."""
        with one_blas_thread:  # on several the last digits might differ
            return self.engine.factor(self.kernel, self.likelihood)

    @property
    def chain(self) -> Elimination:
        """P of the splines, factored."""
        return self.factored.chain

    @cached_property
    def effects(self) -> Estimate | None:
        """The posterior of the fixed effects, if there are any."""
        with one_blas_thread:
            design = self.engine.design
            if design is not None and "effects" in self._saved:
                saved = {"coefficients": self.coefficients, **self._saved["effects"]}
                return Estimate(design=design, **saved)
            return None if design is None else self.factored.effects

    @cached_property
    def coefficients(self) -> Array:
        """Means of every cell's coefficients, (outputs, cells, n + S), the effects' ``a`` after."""
        saved = self._saved.get("coefficients")
        return self.factored.coefficients if saved is None else saved

    @cached_property
    def _mean_polynomials(self) -> list[Array]:
        """Taylor coefficients of the mean, of the sum and of each component."""
        model = self.model
        if len(model.where) == 1:  # the sum is its only component
            return [self.coefficients] * 2
        every = np.arange(len(model.power))
        return [
            by_power(self.coefficients[:, :, where], model.power[where])
            for where in (every, *model.where)
        ]

    @cached_property
    def _reductions(self) -> list[tuple[Array, Array]]:
        """Prior minus posterior variance, of the sum and of each component.

        Each as polynomials per cell, and as covariances of both end cells' coefficients.
        """
        if "reductions" in self._saved:
            return self._saved["reductions"]
        model = self.model
        before, after = self.cell_covariances
        reductions = []
        for where in (np.arange(len(model.power)), *model.where):
            block = np.ix_(np.array([0, -1]), where, where)
            polynomials = np.zeros((len(before), 2 * int(model.power[where].max()) + 1))
            for i, j in product(where, where):  # one after the other, for cells may be many
                power = model.power[i] + model.power[j]
                polynomials[:, power] += before[:, i, j] - after[:, i, j]
            reductions.append((polynomials, before[block] - after[block]))
            if len(model.where) == 1:  # the sum is its only component
                return 2 * reductions
        return reductions

    def upper_bound(self) -> float:
        """Compute an upper bound on the log evidence, from one more factorisation."""
        return upper_bound(self.factored)

    def __repr__(self) -> str:
        return (
            f"ChainPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {self.model.size} basis functions)"
        )

    @cached_property
    def cell_covariances(self) -> tuple[Array, Array]:
        """Covariances of every cell's coefficients, under the prior and the posterior."""
        model = self.model
        after = self.factored.covariances
        before = np.zeros_like(after)
        for where, prior in zip(model.where, model.priors, strict=True):
            before[np.ix_(np.arange(len(before)), where, where)] = prior.covariances()
        return before, after

    def predict(
        self,
        points,
        variance: bool = True,
        component: int | None = None,
        order: int = 0,
    ) -> tuple[Array, Array]:
        """Return the mean (outputs, n) and latent variance (n,) at finite inputs, in any order.

        Of the sum or of one component, of f or of a derivative of it. Without ``variance`` the
        second array is empty. Without covariates, effects of other columns are left out.
        """
        points = LinePoints.of(points)
        if order:
            mean, var = self._derivative(points.x, variance, component, order)
        else:
            mean, var = self.of_splines(points.x, variance, component)
        design = self.effect_values(points.x, points.covariates, component, order)
        return self.with_effects(mean, var, design)

    def _derivative(
        self, x: Array, variance: bool, component: int | None, order: int
    ) -> tuple[Array, Array]:
        """Return mean and variance of a derivative of the splines' part."""
        order = check_order(self, order, component)
        prior = float(self._prior(np.zeros(1), order, component)[0])
        mean = np.empty((len(self.coefficients), len(x)))
        var, reduction = np.empty(len(x) if variance else 0), np.empty((0, 0, 0))
        if variance:
            before, after = self.cell_covariances
            reduction = before - after
        for start in range(0, len(x), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            cells, weights = self.rows(x[chunk], order, component)
            mean[:, chunk] = np.einsum("oti,ti->ot", self.coefficients[:, cells], weights)
            if variance:
                spread = np.einsum("tij,tj->ti", reduction[cells], weights)
                reduced = prior - np.einsum("ti,ti->t", spread, weights)
                var[chunk] = np.maximum(reduced, _EPS * prior)
        return mean, var

    def _prior(self, lag: Array, order: int, component: int | None) -> Array:
        """Return the prior covariance of a derivative at points these distances apart."""
        total = np.zeros(lag.shape)
        for number in self.involved(component):
            total += self.splines[number].covariance(lag, order)
        return total

    def effect_values(
        self,
        x: Array,
        covariates: Array | None = None,
        component: int | None = None,
        power: int = 0,
        centred: bool = True,
    ) -> Array:
        """Return Z at the inputs, (n, effects), or a derivative of it along the input.

        It is zero for a component, which has no part in the effects. Without ``covariates`` the
        columns that need them are taken as zero. ``centred`` as `Design` has them.
        """
        out = np.zeros((len(x), len(self.kernel.effects)))
        columns = iter(() if covariates is None or power else covariates.T)
        for i, effect in enumerate(self.kernel.effects if component is None else ()):
            of_input = input_power(self.kernel, effect)
            if of_input is None:
                out[:, i] = next(columns, 0.0)
            elif of_input >= power:
                out[:, i] = np.asarray(x, dtype=float) ** (of_input - power)
        if centred and component is None and not power and self.effects is not None:
            out -= self.effects.design.centring.centres
        return out

    def with_effects(self, mean: Array, spread: Array, design: Array) -> tuple[Array, Array]:
        """Turn functionals of the splines, and of Z, into functionals of the whole.

        ``spread`` holds variances, a covariance matrix, or nothing.
        """
        if self.effects is None:
            return mean, spread
        left = self.effects.left(mean, design)
        if spread.ndim == 2:
            spread = spread + left @ self.effects.covariance @ left.T
        elif len(spread):
            spread = spread + self.effects.variance(left)
        return self.effects.mean(mean, design), spread

    def of_splines(self, x: Array, variance: bool, component: int | None) -> tuple[Array, Array]:
        """Return mean and variance of the splines, the columns of ``a`` after the outputs."""
        grid, which = self.grid, 0 if component is None else component + 1
        kernel = self.kernel if component is None else self.kernel.components[component]
        coef = self._mean_polynomials[which]
        k = coef.shape[2] - 1
        polynomials, ends = np.empty((0, 2 * k + 1)), None
        if variance:
            polynomials, ends = self._reductions[which]
        mean = np.empty((len(coef), len(x)))
        var = np.empty(len(x) if variance else 0)
        scale = grid.cells / (grid.upper - grid.lower)
        # The smallest variance that rounding of the prior's lets us tell from zero.
        floor = _EPS * kernel.prior_variance

        def share(start: int, stop: int) -> int:
            outside = 0
            for begin, end in each_chunk(start, stop):
                outside += evaluate_line(
                    as_doubles(x[begin:end]),
                    grid.lower,
                    grid.upper,
                    scale,
                    coef,
                    polynomials,
                    kernel.prior_variance,
                    floor,
                    begin,
                    mean,
                    var,
                )
            return outside

        if sum(each_share(len(x), share)):
            rows = np.flatnonzero((x < grid.lower) | (x > grid.upper))
            cells, weights = self.rows(x[rows], component=component)
            mean[:, rows] = np.einsum("oti,ti->ot", self.coefficients[:, cells], weights)
            if ends is not None:
                if component is not None:
                    weights = weights[:, self.model.where[component]]
                right = (x[rows] > grid.upper).astype(int)
                reduction = np.einsum("ti,tij,tj->t", weights, ends[right], weights)
                var[rows] = np.maximum(kernel.prior_variance - reduction, floor)
        return mean, var

    def fitted_values(self, points) -> FittedValues:
        """Return the posterior at places of its data, averages included, for leave-one-out."""
        return fitted_values(self, LinePoints.of(points))

    def centred(self, component: int, x) -> tuple[Array, Array]:
        """Return mean (outputs, n) and variance (n,) of a component less its average at the data.

        Between a component and the intercept a constant can be moved without changing the sum
        much: the data know this difference better than the component itself. The average is of
        the splines.
        """
        x = np.asarray(x, dtype=float).ravel()
        average, shared = self._data_averages[component]
        means = np.einsum("oci,ci->o", self.coefficients, average)
        mean, var = self.of_splines(x, True, component)
        var += float(np.sum(shared * average))
        for start, stop in each_chunk(0, len(x)):
            cells, weights = self.rows(x[start:stop], component=component)
            var[start:stop] -= 2.0 * np.einsum("ti,ti->t", shared[cells], weights)
        floor = _EPS * self.kernel.components[component].prior_variance
        design = self.effect_values(x, component=component)
        return self.with_effects(mean - means[:, None], np.maximum(var, floor), design)

    @cached_property
    def _data_averages(self) -> dict[int, tuple[Array, Array]]:
        """Weights of the average over the data of each component, and P^-1 of them."""
        model, stats, out = self.model, self.stats, {}
        powers = stats.moments[:, stats.pair[0]] / max(stats.weight, 1e-300)
        for number, where in enumerate(model.where):
            weights = np.zeros((self.grid.cells, len(model.power)))
            weights[:, where] = powers[:, model.power[where]]
            out[number] = weights, self.factored.solve(weights)
        return out

    def rows(self, x, order: int = 0, component: int | None = None) -> tuple[np.ndarray, Array]:
        """Return f, or a derivative of it, at points as weights on the coefficients of one cell.

        Of the sum or of one component, beyond the ends too: cells (n,) and weights (n, n + S).
        """
        x = np.asarray(x, dtype=float).ravel()
        cells = np.empty(0, dtype=np.int64)
        weights = np.zeros((len(x), len(self.model.power)))
        for number in self.involved(component):
            cells, weights[:, self.model.where[number]] = self.splines[number].rows(x, order)
        return cells, weights

    def covariance(self, points, order: int = 0, component: int | None = None) -> Array:
        """Return the posterior covariance matrix of f, or of a derivative, at the given inputs."""
        points = LinePoints.of(points)
        order, count = check_order(self, order, component), len(points)
        rank = np.argsort(points.x, kind="stable")
        x = np.asarray(points.x, dtype=float)[rank]
        cells, weights = self.rows(x, order, component)
        out = self._prior(np.abs(x[:, None] - x), order, component)
        floor = _EPS * float(out.flat[0]) if count else 0.0
        for sign, where, chain in self.chains(component):
            add_covariance(
                chain.markers,
                chain.settled,
                chain.gain,
                chain.cov[cells],
                cells,
                np.ascontiguousarray(weights[:, where]),
                sign,
                out,
            )
        lift_diagonal(out, floor)
        mean = np.einsum("oti,ti->ot", self.coefficients[:, cells], weights)
        covariates = None if points.covariates is None else points.covariates[rank]
        design = self.effect_values(x, covariates, component, order)
        unsorted = np.empty_like(out)
        unsorted[np.ix_(rank, rank)] = self.with_effects(mean, out, design)[1]
        return unsorted

    def covariance_root(self, covariance: Array) -> Array:
        """Return a root of a covariance matrix of this posterior."""
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:  # equal or very near points: singular to rounding
            return super().covariance_root(covariance)

    def chains(self, component: int | None) -> list[tuple[float, Array, Chain]]:
        """Return the prior's chains, with minus, and the posterior's, with the places of each.

        The places are those of their coefficients among the posterior's.
        """
        model = self.model
        before, after = self.cell_covariances
        cells, every = np.arange(len(after)), np.arange(len(model.power))
        chains = []
        for number in self.involved(component):
            where = model.where[number]
            covariances = before[np.ix_(cells, where, where)]
            chains.append((-1.0, where, Chain.of_prior(model.priors[number], covariances)))
        whole = Chain(model.markers, 0, self.chain.gain, after)
        return [*chains, (1.0, every, whole)]

    def averages(
        self,
        low,
        high,
        variance: bool = True,
        covariance: bool = False,
        component: int | None = None,
    ) -> tuple[Array, Array]:
        """Return means (outputs, m) and variances (m,) of averages of f over intervals.

        With ``covariance`` the second is the covariance matrix (m, m), without ``variance``
        empty. The average over an interval of length zero is f there.

        Notes
        -----
        Means cost O(1) per interval, variances O(cells in it), for the covariance of a stretch
        is a walk along the chain. Nothing is a difference of integrals from a common origin:
        short intervals are as accurate as long ones.
        """
        start, stop = _intervals(low, high)
        check_component(self, component)
        over = ChainAverages(self, np.minimum(start, stop), np.maximum(start, stop), component)
        spread = np.empty(0)
        if covariance:
            spread = over.covariance()
        elif variance:
            spread = over.variance()
        # The effects are linear in x: their average is their value in the middle.
        design = self.effect_values(over.low + 0.5 * (over.high - over.low), component=component)
        return self.with_effects(over.mean(), spread, design)

    def volumes(self, lower, upper) -> Array:
        """Return the signed lengths of intervals."""
        start, stop = _intervals(lower, upper)
        return stop - start


def _intervals(lower, upper) -> tuple[Array, Array]:
    """Return finite ends of intervals, as many of each."""
    ends = LinePoints.of(lower, "lower").x, LinePoints.of(upper, "upper").x
    start, stop = np.broadcast_arrays(*(end.astype(float) for end in ends))
    return start, stop
