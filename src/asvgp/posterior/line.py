"""The posterior process: factored once, then a polynomial per cell.

On a cell the mean is a polynomial of degree k and the variance one of degree 2k, both kept
in a table with a row per cell, so that a prediction is two Horner schemes whatever N and M
were. Outside the domain the Markov property gives both exactly from the state at the
nearer end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

import numba
import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.linalg.chain.covariance import add_covariance
from asvgp.linalg.chain.elimination import means, solve
from asvgp.model.bound import upper_bound
from asvgp.model.chain import ChainEngine, ChainFactored
from asvgp.model.effects import Estimate, by_power, own_power
from asvgp.model.elimination import Elimination
from asvgp.model.prior import ChainPrior
from asvgp.posterior.tails import Splines
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share, one_blas_thread
from asvgp.statistics import Statistics


class Posterior:
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    noise : float
        Noise variance of an observation of weight one.
    stats : Statistics
    degree : int

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 1, 50)
    >>> stats = Statistics.from_data(x, np.sin(6 * x), Grid(0.0, 1.0, 20), degree=2)
    >>> posterior = Posterior(Matern32(0.5), 1e-4, stats, degree=2)
    >>> mean, variance = posterior.predict(np.array([0.5, 100.0]))
    >>> mean.round(2).tolist()  # inside; and far outside, where the prior is back
    [[0.14, 0.0]]
    >>> variance.round(2).tolist()
    [0.0, 1.0]
    """

    def __init__(
        self, kernel: Kernel, noise: float, stats: Statistics, degree: int | tuple[int, ...]
    ):
        self._describe(kernel, noise, stats, degree)
        self.coefficients  # noqa: B018 (factored now, so that what fails does so here)

    def _describe(self, kernel, noise, stats, degree) -> None:
        self.kernel, self.noise, self.stats, self.degree = kernel, noise, stats, degree
        self.engine = ChainEngine(kernel, stats, degree)
        self.grid: Grid = stats.grid
        self._known_effects: dict[str, Any] = {}

    @classmethod
    def restored(cls, kernel, noise, stats, degree, state: Mapping[str, Any]) -> Posterior:
        """A posterior whose `state` was kept; P is factored again only when it is needed."""
        self = cls.__new__(cls)
        self._describe(kernel, noise, stats, degree)
        self._known_effects = dict(state["effects"])
        vars(self).update(coefficients=state["coefficients"], _reductions=state["reductions"])
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What predictions read, beside kernel, noise and statistics."""
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

    @property
    def model(self) -> ChainPrior:
        """K."""
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
            return self.engine.factor(self.kernel, Gaussian(self.noise))

    @property
    def chain(self) -> Elimination:
        """P of the splines, factored."""
        return self.factored.chain

    def upper_bound(self) -> float:
        """Compute an upper bound on the log evidence, from one more factorisation."""
        return upper_bound(self.factored)

    @cached_property
    def effects(self) -> Estimate | None:
        """The posterior of the fixed effects, if there are any."""
        with one_blas_thread:
            design = self.engine.design
            if design is not None and self._known_effects:
                known: dict[str, Any] = {"coefficients": self.coefficients}
                return Estimate(design=design, **known, **self._known_effects)
            return None if design is None else self.factored.effects

    @cached_property
    def coefficients(self) -> Array:
        """Means of every cell's coefficients, (outputs, cells, n + S), the effects' ``a`` after."""
        if self.effects is None:
            return self.chain.means(keep=True)[1]
        return self.effects.coefficients

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

        Polynomials per cell, and the covariances of both end cells' coefficients whole.
        """
        model = self.model
        before, after = self._cell_covariances
        reductions = []
        for where in (np.arange(len(model.power)), *model.where):
            block = np.ix_(np.array([0, -1]), where, where)
            powers = (model.power[where][:, None] + model.power[where]).ravel()
            flat = (before - after)[:, where][:, :, where].reshape(len(before), -1)
            reductions.append((by_power(flat, powers), before[block] - after[block]))
            if len(model.where) == 1:  # the sum is its only component
                return 2 * reductions
        return reductions

    def __repr__(self) -> str:
        return (
            f"Posterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} observations, "
            f"{self.model.size} basis functions)"
        )

    @cached_property
    def _cell_covariances(self) -> tuple[Array, Array]:
        """Covariances of every cell's coefficients, under the prior and the posterior."""
        model = self.model
        after = self.chain.marginals(keep=True)[2]
        before = np.zeros_like(after)
        for where, prior in zip(model.where, model.priors, strict=True):
            before[np.ix_(np.arange(len(before)), where, where)] = prior.covariances()
        return before, after

    def predict(
        self,
        x,
        variance: bool = True,
        component: int | None = None,
        covariates: Array | None = None,
    ) -> tuple[Array, Array]:
        """Mean (outputs, n) and latent variance (n,) at finite inputs, in any order.

        Of the sum, or of one component. Without ``variance`` the second array is empty.
        ``covariates`` are the columns of linear effects, (n, columns); without them, these
        effects are left out.
        """
        x = np.asarray(x).ravel()
        mean, var = self._of_splines(x, variance, component)
        design = self.effect_values(x, covariates, component)
        return self.with_effects(mean, var, design)

    def effect_values(
        self,
        x: Array,
        covariates: Array | None = None,
        component: int | None = None,
        power: int = 0,
        centred: bool = True,
    ) -> Array:
        """Z at the inputs, (n, effects), or a derivative of it along the input.

        Zero for a component, which has no part in the effects. Without ``covariates`` the
        columns that need them are taken as zero. ``centred`` as `Design` has them.
        """
        out = np.zeros((len(x), len(self.kernel.effects)))
        columns = iter(() if covariates is None or power else covariates.T)
        for i, effect in enumerate(self.kernel.effects if component is None else ()):
            own = own_power(self.kernel, effect)
            if own is None:
                out[:, i] = next(columns, 0.0)
            elif own >= power:
                out[:, i] = np.asarray(x, dtype=float) ** (own - power)
        if centred and component is None and not power and self.effects is not None:
            out -= self.effects.design.centring.centres
        return out

    def with_effects(self, mean: Array, spread: Array, design: Array) -> tuple[Array, Array]:
        """Functionals of the splines, and of Z, as functionals of the whole.

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

    def _of_splines(self, x: Array, variance: bool, component: int | None) -> tuple[Array, Array]:
        """Mean and variance of the splines' part, the columns of ``a`` after the outputs."""
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
        floor = float(np.finfo(float).eps * kernel.prior_variance)

        def share(start: int, stop: int) -> int:
            outside = 0
            for begin, end in each_chunk(start, stop):
                outside += _evaluate(
                    (0,) * k,
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

    def centred(self, component: int, x) -> tuple[Array, Array]:
        """Mean (outputs, n) and variance (n,) of a component less its average over the data.

        Between a component and the intercept a constant can be moved without changing the sum
        much: the data know this difference better than the component itself. The average is of
        the splines.
        """
        x = np.asarray(x, dtype=float).ravel()
        average, shared = self._averages[component]
        means = np.einsum("oci,ci->o", self.coefficients, average)
        mean, var = self._of_splines(x, True, component)
        var += float(np.sum(shared * average))
        for start, stop in each_chunk(0, len(x)):
            cells, weights = self.rows(x[start:stop], component=component)
            var[start:stop] -= 2.0 * np.einsum("ti,ti->t", shared[cells], weights)
        floor = np.finfo(float).eps * self.kernel.components[component].prior_variance
        design = self.effect_values(x, component=component)
        return self.with_effects(mean - means[:, None], np.maximum(var, floor), design)

    @cached_property
    def _averages(self) -> dict[int, tuple[Array, Array]]:
        """Of each component, the weights of its average over the data, and P^-1 of them."""
        model, chain, stats, out = self.model, self.chain, self.stats, {}
        powers = stats.moments[:, stats.pair[0]] / max(stats.weight, 1e-300)
        every = np.arange(len(model.power))
        for number, where in enumerate(model.where):
            weights = np.zeros((self.grid.cells, len(every)))
            weights[:, where] = powers[:, model.power[where]]
            offset = np.empty(chain.offset.shape[1:])
            right, _ = solve(model.markers, every, weights, 1.0, chain.gain, chain.rho, offset)
            start = chain.start_covariance @ right
            inverse, total = np.empty_like(weights), np.zeros((len(every), len(every)))
            means(model.markers, chain.gain, offset, start, total, inverse)
            out[number] = weights, inverse
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

    def covariance(self, x, covariates: Array | None = None) -> Array:
        """Posterior covariance matrix of f at the given inputs."""
        x = np.asarray(x, dtype=float).ravel()
        mean = self._of_splines(x, False, None)[0]
        return self.with_effects(
            mean, self._spline_covariance(x), self.effect_values(x, covariates)
        )[1]

    def _spline_covariance(self, x: Array) -> Array:
        """Covariance of the splines' part."""
        order = np.argsort(x, kind="stable")
        cells, weights = self.rows(x[order])
        out = self.kernel(x[order])
        before, after = self._cell_covariances
        model, chain = self.model, self.chain
        for where, prior in zip(model.where, model.priors, strict=True):
            own = np.ix_(cells, where, where)
            add_covariance(
                prior.markers,
                prior.first,
                prior.gain[:, None, :],
                before[own],
                cells,
                np.ascontiguousarray(weights[:, where]),
                -1.0,
                out,
            )
        add_covariance(
            model.markers,
            0,
            chain.gain,
            after[cells],
            cells,
            weights,
            1.0,
            out,
        )
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, np.finfo(float).eps * self.kernel.prior_variance, out=diagonal)
        unsorted = np.empty_like(out)
        unsorted[np.ix_(order, order)] = out
        return unsorted


@numba.njit(cache=True, nogil=True)
def _evaluate(
    degree, x, lower, upper, scale, coef, polynomials, prior, floor, begin, mean, variance
):
    """Means and variances inside the domain, written from ``begin``; counts those outside."""
    k = len(degree)
    outputs = coef.shape[0]
    last = coef.shape[1] - 1
    both = variance.shape[0] > 0
    outside = 0
    for n in range(x.shape[0]):
        if x[n] < lower or x[n] > upper:
            outside += 1
            continue
        t = (x[n] - lower) * scale
        c = min(int(t), last)
        s = t - c
        for o in range(outputs):
            value = coef[o, c, k]
            for j in range(k - 1, -1, -1):
                value = value * s + coef[o, c, j]
            mean[o, begin + n] = value
        if both:
            value = polynomials[c, 2 * k]
            for j in range(2 * k - 1, -1, -1):
                value = value * s + polynomials[c, j]
            variance[begin + n] = max(prior - value, floor)
    return outside
