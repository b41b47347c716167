"""The posterior of one input: factored once, then a polynomial per cell.

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

import numpy as np

from asvgp.basis import Array, Grid, by_power, mean_powers
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.linalg.cells.polynomial import evaluate_line, evaluate_terms
from asvgp.linalg.chain.covariance import add_covariance
from asvgp.linalg.chain.elimination import means, solve
from asvgp.linalg.unrolled import markers_of
from asvgp.model.bound import upper_bound
from asvgp.model.chain import ChainEngine, ChainFactored
from asvgp.model.chain_effects import Estimate, input_power
from asvgp.model.elimination import Elimination
from asvgp.model.prior import ChainPrior
from asvgp.posterior.averages import Chain, Pieces
from asvgp.posterior.checks import check_component, check_order, lift_diagonal
from asvgp.posterior.points import LinePoints
from asvgp.posterior.posterior import FittedValues
from asvgp.posterior.samples import eigen_root
from asvgp.posterior.tails import Splines, Stretches
from asvgp.runtime.parallel import as_doubles, each_chunk, each_share, one_blas_thread
from asvgp.statistics import Statistics
from asvgp.statistics.intervals import cut

_EPS = float(np.finfo(float).eps)
_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix per row


class ChainPosterior:
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
        >>> from asvgp.statistics.intervals import cut
    from asvgp.statistics import Statistics
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
        noise: float,
        stats: Statistics,
        degree: int | tuple[int, ...],
        engine: ChainEngine | None = None,  # of these statistics, where it is at hand
    ):
        self._describe(kernel, noise, stats, degree, engine)
        self.coefficients  # noqa: B018 (factored now, so that what fails does so here)

    def _describe(self, kernel, noise, stats, degree, engine=None) -> None:
        self.kernel, self.noise, self.stats, self.degree = kernel, noise, stats, degree
        self.engine = engine or ChainEngine(kernel, stats, degree)
        self.grid: Grid = stats.grid
        self._known_effects: dict[str, Any] = {}

    @classmethod
    def restored(cls, kernel, noise, stats, degree, state: Mapping[str, Any]) -> ChainPosterior:
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

    @cached_property
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
            f"ChainPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {self.model.size} basis functions)"
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
            mean, var = self._of_splines(points.x, variance, component)
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
            before, after = self._cell_covariances
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
        """Z at the inputs, (n, effects), or a derivative of it along the input.

        Zero for a component, which has no part in the effects. Without ``covariates`` the
        columns that need them are taken as zero. ``centred`` as `Design` has them.
        """
        out = np.zeros((len(x), len(self.kernel.effects)))
        columns = iter(() if covariates is None or power else covariates.T)
        for i, effect in enumerate(self.kernel.effects if component is None else ()):
            own = input_power(self.kernel, effect)
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
        floor = _EPS * kernel.prior_variance

        def share(start: int, stop: int) -> int:
            outside = 0
            for begin, end in each_chunk(start, stop):
                outside += evaluate_line(
                    markers_of((k,)),
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
        points = LinePoints.of(points)
        x, width, grid = points.x, points.width, self.grid
        outside = np.count_nonzero(~((x >= grid.lower) & (x <= grid.upper)))
        if outside:
            raise ValueError(
                f"{outside} of {len(x)} inputs are outside the domain ({grid.lower:g}, "
                f"{grid.upper:g}), so they are not among the posterior's data."
            )
        if width is not None and len(rows := cut(x, width, grid)):
            raise ValueError(
                f"Knots cut {len(rows)} of {len(x)} intervals, the first in row {rows[0]}, so they "
                "are not among the posterior's data."
            )
        mean, variance = self._of_splines(x, True, None)
        quadratic, magnitude = np.empty((2, len(x)))
        polynomials = self._squares
        markers = markers_of((polynomials.shape[1] - 1,))
        scale = grid.cells / (grid.upper - grid.lower)

        def share(start: int, stop: int) -> None:
            for begin, end in each_chunk(start, stop):
                out = (quadratic[begin:end], magnitude[begin:end])
                points = as_doubles(x[begin:end])
                evaluate_terms(markers, points, grid.lower, scale, polynomials, *out)

        each_share(len(x), share)
        if width is not None:
            rows = np.flatnonzero(width > 0.0)
            for start in range(0, len(rows), _CHUNK):
                part = rows[start : start + _CHUNK]
                values = self._averages_in_cells(x[part], width[part])
                mean[:, part], variance[part], quadratic[part], magnitude[part] = values
        if self.effects is not None:
            design = self.effect_values(points.middle, points.covariates)
            quadratic += self.effects.variance(self.effects.left(mean, design))
            mean, variance = self.with_effects(mean, variance, design)
        return FittedValues(mean, variance, quadratic, magnitude)

    @property
    def _squares(self) -> Array:
        """``phi' P^-1 phi`` by powers of s, a row per cell."""
        power, cov = self.model.power, self.chain.marginals(keep=True)[2]
        return by_power(cov.reshape(len(cov), -1), (power[:, None] + power).ravel())

    def _averages_in_cells(self, x: Array, width: Array) -> FittedValues:
        """Return fitted values of averages over intervals inside cells, without effects."""
        power = self.model.power
        before, after = self._cell_covariances
        cells, s, t = self.grid.locate_intervals(x, width)
        weights = mean_powers(s, t, int(power.max()))[:, power]
        mean = np.einsum("oti,ti->ot", self.coefficients[:, cells], weights)
        form = "ti,tij,tj->t"
        quadratic = np.einsum(form, weights, after[cells], weights)
        magnitude = np.einsum(form, np.abs(weights), np.abs(after[cells]), np.abs(weights))
        variance = quadratic - np.einsum(form, weights, before[cells], weights)
        for splines in self.splines:
            variance += splines.dynamics.average_variance(width)
        floor = _EPS * self.kernel.prior_variance
        return FittedValues(mean, np.maximum(variance, floor), quadratic, magnitude)

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
        floor = _EPS * self.kernel.components[component].prior_variance
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

    def covariance(self, points, order: int = 0, component: int | None = None) -> Array:
        """Return the posterior covariance matrix of f, or of a derivative, at the given inputs."""
        points = LinePoints.of(points)
        order, count = check_order(self, order, component), points.count
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
            return eigen_root(covariance)

    def chains(self, component: int | None) -> list[tuple[float, Array, Chain]]:
        """Return the prior's chains, with minus, and the posterior's, with the places of each.

        The places are those of their coefficients among the posterior's.
        """
        model = self.model
        before, after = self._cell_covariances
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
        lower, upper = np.minimum(start, stop), np.maximum(start, stop)
        stretches = self._stretches(lower, upper, component)
        mean, spread = self._mean_over(stretches), np.empty(0)
        if covariance:
            spread = self._covariance_over(lower, upper, component)
        elif variance:
            spread = self._variance_over(stretches, upper - lower, component)
        # The effects are linear in x: their average is their value in the middle.
        middle = lower + 0.5 * (upper - lower)
        return self.with_effects(mean, spread, self.effect_values(middle, component=component))

    def volumes(self, lower, upper) -> Array:
        """Return the signed lengths of intervals."""
        start, stop = _intervals(lower, upper)
        return stop - start

    def _stretches(self, low: Array, high: Array, component: int | None) -> Stretches:
        """Return averages over intervals as weights on the coefficients of all components."""
        model = self.model
        head, tail = np.zeros((2, len(low), len(model.power)))
        whole, parts = np.zeros(len(model.power)), None
        for number in self.involved(component):
            where = model.where[number]
            parts = self.splines[number].averages(low, high)
            head[:, where], tail[:, where], whole[where] = parts.head, parts.tail, parts.whole
        assert parts is not None
        return Stretches(parts.begin, parts.end, head, tail, parts.full, whole)

    def _mean_over(self, averages: Stretches) -> Array:
        """Return posterior means (outputs, m), the whole cells by prefix sums."""
        f, coef = averages, self.coefficients
        running = np.zeros((coef.shape[0], coef.shape[1] + 1))
        np.cumsum(coef @ f.whole, axis=1, out=running[:, 1:])
        between = running[:, f.end] - running[:, np.minimum(f.begin + 1, f.end)]
        return (
            np.einsum("oti,ti->ot", coef[:, f.begin], f.head)
            + f.full * between
            + np.einsum("oti,ti->ot", coef[:, f.end], f.tail)
        )

    def _variance_over(self, averages: Stretches, length: Array, component: int | None) -> Array:
        """Return posterior variances (m,)."""
        prior = np.zeros(len(length))
        for number in self.involved(component):
            prior += self.splines[number].dynamics.average_variance(length)
        total = prior.copy()
        for sign, where, chain in self.chains(component):
            total += sign * chain.variances(averages.on(where))
        return np.maximum(total, _EPS * prior)

    def _covariance_over(self, low: Array, high: Array, component: int | None) -> Array:
        """Return the posterior covariance (m, m), by the pieces that the intervals' ends cut."""
        if not len(low):
            return np.empty((0, 0))
        pieces = Pieces(low, high, self.grid.lower, self.grid.upper)
        averages = self._stretches(pieces.start, pieces.stop, component)
        prior = np.zeros((len(pieces.length), len(pieces.length)))
        for number in self.involved(component):
            prior += pieces.prior(self.splines[number].dynamics)
        spread = prior.copy()
        for sign, where, chain in self.chains(component):
            chain.add_covariance(averages.on(where), sign, spread)
        out = pieces.joined(spread)
        floor = np.einsum("ai,ij,aj->a", pieces.shares, prior, pieces.shares, optimize=True)
        lift_diagonal(out, _EPS * floor)
        return out


def _intervals(lower, upper) -> tuple[Array, Array]:
    """Return finite ends of intervals, as many of each."""
    ends = LinePoints.of(lower, "lower").x, LinePoints.of(upper, "upper").x
    start, stop = np.broadcast_arrays(*(end.astype(float) for end in ends))
    return start, stop
