"""The posterior of a series: factored once, then a polynomial per cell.

On a finest cell the mean is a polynomial, and so are ``phi' P^-1 phi`` and what the functions
miss of the prior variance. Beyond the ends values depend on the functions of the end cells
(`asvgp.posterior.series_rows`), whose block of P^-1 is kept for either end, so that forecasts
take no factorisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood, likelihood_of
from asvgp.linalg.cells.polynomial import add_columns, bilinear, evaluate
from asvgp.model.bound import upper_bound
from asvgp.model.memory import joint_step
from asvgp.model.series.engine import SeriesEngine, SeriesFactored
from asvgp.model.series.inverse import (
    SeriesInverse,
    component_squares,
    differentiate,
    end_numbers,
    series_inverse,
)
from asvgp.posterior.posterior import (
    FittedValues,
    GridPoints,
    Posterior,
    check_component,
    lift_diagonal,
)
from asvgp.posterior.series_averages import IntervalAverages
from asvgp.posterior.series_rows import CoefficientCovariance, SeriesRows, prior_covariance
from asvgp.posterior.target import Target
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import each_chunk, each_share, one_blas_thread
from asvgp.statistics import Statistics

_CHUNK = 1 << 12
_EPS = float(np.finfo(float).eps)
_NONE = np.empty(0)


class SeriesPosterior(Posterior[GridPoints]):
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood, or float
        A number stands for Gaussian noise of that variance, at weight one.
    engine : SeriesEngine
    """

    def __init__(self, kernel: Kernel, likelihood: Likelihood | float, engine: SeriesEngine):
        self._describe(kernel, likelihood, engine)
        self.mean = self.factored.mean_as_given()

    def _describe(
        self, kernel: Kernel, likelihood: Likelihood | float, engine: SeriesEngine
    ) -> None:
        self.kernel, self.likelihood, self.engine = kernel, likelihood_of(likelihood), engine
        self.plan, self.stats, self.tables = engine.plan, engine.statistics, engine.tables
        self.prior, self.outputs = engine.prior(kernel), engine.outputs
        self._known_inverse: SeriesInverse | None = None
        self._mean_tables: dict[Target, Array] = {}
        self._square_tables: dict[int, Array] = {}
        self._missed_tables: dict[int | None, Array] = {}
        self._variance_tables: dict[int | None, Array] = {}

    def anew(self, kernel: Kernel, likelihood: Likelihood, stats: Statistics) -> SeriesPosterior:
        """Return the posterior of other statistics on the same grids, at another state."""
        return SeriesPosterior(kernel, likelihood, self.engine.with_statistics(stats))

    def release(self) -> None:
        """Let go of the matrices of P, which are made again where they are needed."""
        vars(self).pop("factored", None)
        self.engine.release()

    @property
    def parts(self) -> tuple[Any, ...]:
        """Arguments of `restored`."""
        return self.kernel, self.likelihood, self.stats, self.plan, self.state

    @classmethod
    def restored(
        cls, kernel, likelihood, stats, plan, state: Mapping[str, Any], device: str = "cpu"
    ) -> SeriesPosterior:
        """Return a posterior whose `state` was saved; P is factored only when it is needed.

        That is so for what the state lacks, for the variances of components and derivatives
        inside the domain, for covariances and averages that reach into it, and for paths. All of
        it is done on the CPU, whatever the ``device``.
        """
        self = cls.__new__(cls)
        self._describe(kernel, likelihood, SeriesEngine(kernel, plan, stats))
        self.mean = state["mean"] if "mean" in state else self.factored.mean_as_given()
        if "inverse" in state:
            self._known_inverse = SeriesInverse(*state["inverse"])
        return self

    @property
    def state(self) -> dict[str, Any]:
        """Arrays that predictions read, beside kernel, noise and statistics."""
        return {"mean": self.mean, "inverse": tuple(self._inverse)}

    @cached_property
    def factored(self) -> SeriesFactored:
        """P, factored."""
        try:
            with one_blas_thread:  # on several the last digits might differ
                return self.engine.factor(self.kernel, self.likelihood)
        except np.linalg.LinAlgError as error:  # of what a file holds: training tries this first
            raise ValueError(
                "The statistics of this model cannot be those of data, or its hyperparameters not "
                f"those of a fit: {error} If it came from a file, that was altered: fit it again."
            ) from error

    @property
    def _inverse(self) -> SeriesInverse:
        if self._known_inverse is None:
            self._known_inverse = series_inverse(self.factored)
        return self._known_inverse

    def upper_bound(self) -> float:
        """Compute an upper bound on the log evidence, from one more factorisation."""
        return upper_bound(self.factored)

    def __repr__(self) -> str:
        return (
            f"SeriesPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {self.engine.size} basis functions)"
        )

    # ------------------------------------------------------------ what is asked

    def target(self, component: int | None = None, order: Any = None) -> Target:
        """Return what is asked for, checked to exist."""
        return Target.of(self, component, order)

    def rows(self, points: GridPoints, target: Target) -> SeriesRows:
        """Return the functional at points as weights on functions."""
        terms = dict(enumerate(self.prior.terms))
        terms = {i: t for i, t in terms.items() if target.component in (None, i)}
        effects, x = target.effects(points, self.engine.centring), points.main[:, 0]
        acting = {} if target.others else terms
        return SeriesRows(acting, self.tables.offsets, x, target.order, effects, self.engine.size)

    @property
    def effects(self) -> Array:
        """Coefficients of the effects' centred columns, (effects, outputs)."""
        return self.mean[self.engine.size - self.plan.effects :]

    @property
    def given_effects(self) -> tuple[Array, Array]:
        """Coefficients of the effects' columns as given, and their covariance."""
        matrix = self.engine.centring.to_given
        return matrix @ self.effects, matrix @ self._effects_inverse @ matrix.T

    @property
    def _effects_inverse(self) -> Array:
        """P^-1 of the effects."""
        start = self._inverse.ends.shape[1] - self.plan.effects
        return np.ascontiguousarray(self._inverse.ends[0, start:, start:])

    # ------------------------------------------------------------ polynomials per cell

    def _means(self, target: Target) -> Array:
        """Return the mean of components as polynomials per cell, (outputs, cells, powers)."""
        if target not in self._mean_tables:
            table = self.tables.polynomials(self.mean, target.component)
            self._mean_tables[target] = differentiate(table, self.plan.grid, target.order)
        return self._mean_tables[target]

    def _squares(self, target: Target) -> Array:
        """Return ``phi' P^-1 phi`` of components as a polynomial per cell."""
        if target.component is None and not target.order:
            return self._inverse.squares
        if target.order not in self._square_tables:
            squares = component_squares(self.factored, target.order)
            self._square_tables[target.order] = squares
        number = -1 if target.component is None else target.component
        return self._square_tables[target.order][number]

    def _missed(self, component: int | None) -> Array:
        """Return the prior variance that the functions miss, a polynomial per cell."""
        if component not in self._missed_tables:
            cells = np.arange(self.plan.grid.cells)
            out = np.zeros((len(cells), 2 * self.plan.powers + 1))
            for number, term in enumerate(self.prior.terms):
                if component in (None, number):
                    captured = term.captured(cells)
                    out[:, : captured.shape[1]] -= captured
                    out[:, 0] += term.variance
            self._missed_tables[component] = out
        return self._missed_tables[component]

    def _variance(self, component: int | None) -> Array:
        """Return the variance of the components' sum, or of one, as a polynomial per cell."""
        if component not in self._variance_tables:
            both = self._squares(Target(component)) + self._missed(component)
            self._variance_tables[component] = both
        return self._variance_tables[component]

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
        target, outside = self.target(component, order), self._outside(points)
        if not outside.any():
            mean, var = self._by_cells(points, target, variance)
        elif outside.all():
            mean, var = self._by_rows(points, target, variance)
        else:
            mean, var = np.empty((self.outputs, len(points))), np.empty(len(points) * variance)
            for where, evaluated in ((~outside, self._by_cells), (outside, self._by_rows)):
                part = evaluated(points.take(where), target, variance)
                mean[:, where] = part[0]
                if variance:
                    var[where] = part[1]
        return mean, np.maximum(var, _EPS * self.kernel.prior_variance)

    def fitted_values(self, points: GridPoints) -> FittedValues:
        """Return the posterior at places of its data, for leave-one-out."""
        outside = self._outside(points)
        if outside.any():
            raise ValueError(
                f"{np.count_nonzero(outside)} of {len(points)} inputs are outside the domain, so "
                "they are not among the posterior's data."
            )
        target, squares = Target(), self._inverse.squares
        magnitude = self._evaluate(points, [np.abs(squares)])[0]
        mean, quadratic = self._by_cells(points, target, table=squares, magnitude=magnitude)
        variance = quadratic + self._evaluate(points, [self._missed(None)])[0]
        variance = np.maximum(variance, _EPS * self.kernel.prior_variance)
        return FittedValues(mean, variance, quadratic, magnitude)

    def _outside(self, points: GridPoints) -> np.ndarray:
        x, grid = points.main[:, 0], self.plan.grid
        return (x < grid.lower) | (x > grid.upper)

    def _evaluate(self, points: GridPoints, tables) -> Array:
        """Return polynomials per cell at points inside the domain, (tables, n)."""
        x, grid, out = points.main[:, 0], self.plan.grid, np.empty((len(tables), len(points)))

        def share(start: int, stop: int) -> None:
            for begin, end in each_chunk(start, stop):
                cells, s = grid.locate(x[begin:end])
                for table, values in zip(tables, out, strict=True):
                    size = np.array([table.shape[1]])
                    evaluate(table, size, cells, s[:, None], np.empty(size[0]), values[begin:end])

        each_share(len(x), share)
        return out

    def path_values(self, tables: Array, points: GridPoints) -> Array:
        """Return polynomials per cell, (outputs, cells, powers), at points; NaN outside."""
        outside, grid = self._outside(points), self.plan.grid
        inside = GridPoints(
            np.clip(points.main, grid.lower, grid.upper), points.smooths, points.effects
        )
        values = self._evaluate(inside, tables)
        values[:, outside] = np.nan
        return values

    def _by_cells(
        self,
        points: GridPoints,
        target: Target,
        variance: bool = True,
        table: Array | None = None,
        magnitude: Array = _NONE,
    ) -> tuple[Array, Array]:
        """Return mean and variance at points inside the domain.

        The variance of the components comes from another ``table``, if there is one; ``magnitude``
        gets the absolute terms that effects add.
        """
        tables = []
        if not target.others:
            tables += list(self._means(target))
            if variance and table is None:
                plain = not target.order
                table = self._variance(target.component) if plain else self._squares(target)
            if variance:
                tables.append(table)
        values = self._evaluate(points, tables)
        if target.others:
            values = np.zeros((self.outputs + variance, len(points)))
        mean, var = values[: self.outputs], values[self.outputs] if variance else _NONE
        if target.component is None and self.plan.effects:
            effects = np.ascontiguousarray(target.effects(points, self.engine.centring))
            mean += (effects @ self.effects).T
            if variance:
                self._add_effects(points, target, effects, var, magnitude)
        if variance and target.order and not target.others:
            for begin in range(0, len(points), _CHUNK):
                chunk = slice(begin, begin + _CHUNK)
                var[chunk] += self.rows(points.take(chunk), target).missed
        return mean, var

    def _add_effects(
        self, points: GridPoints, target: Target, effects: Array, var: Array, magnitude: Array
    ) -> None:
        """Add the effects: to the quadratic form twice what they share with f, and their own."""
        grid, columns = self.plan.grid, self._effects_inverse
        cross = differentiate(self._inverse.cross, grid, target.order, axis=1)
        if target.others:
            cross = np.zeros_like(cross)

        def share(start: int, stop: int) -> None:
            for begin, end in each_chunk(start, stop):
                cells, s = grid.locate(points.main[begin:end, 0])
                into = effects[begin:end], var[begin:end], magnitude[begin:end]
                add_columns(cross, columns, cells, s, *into)

        each_share(len(points), share)

    @cached_property
    def _end_numbers(self) -> np.ndarray:
        return end_numbers(self.tables)

    @cached_property
    def _end_places(self) -> np.ndarray:
        """Places of all functions in the blocks of both ends, -1 for others, (2, size)."""
        out = np.full((2, self.engine.size), -1, dtype=np.int64)
        for side in range(2):
            out[side, self._end_numbers[side]] = np.arange(self._end_numbers.shape[1])
        return out

    def _by_rows(
        self, points: GridPoints, target: Target, variance: bool = True
    ) -> tuple[Array, Array]:
        """Return mean and variance at points outside the domain."""
        n = len(points)
        mean, var = np.empty((self.outputs, n)), np.empty(n * variance)
        for begin in range(0, n, _CHUNK):
            chunk = slice(begin, min(begin + _CHUNK, n))
            part = points.take(chunk)
            rows = self.rows(part, target)
            mean[:, chunk] = np.einsum("nw,nwo->on", rows.weights, self.mean[rows.numbers])
            if variance:
                side = (part.main[:, 0] > self.plan.grid.upper).astype(np.int64)
                both = self._end_places[side[:, None], rows.numbers], rows.weights
                bilinear(self._inverse.ends, side, *both, *both, var[chunk])
                var[chunk] += rows.missed
        return mean, var

    # ------------------------------------------------------------ joint covariances

    def quadratic(self, rows: sparse.csr_array, covariance: bool = True) -> Array:
        """Return ``phi' P^-1 phi`` between all rows of weights, or of each with itself."""
        n, size = len(rows.indptr) - 1, self.engine.size
        used = np.unique(rows.indices)
        for side, numbers in enumerate(self._end_numbers):
            if (self._end_places[side, used] >= 0).all():
                dense = rows[:, numbers].toarray()
                half = dense @ self._inverse.ends[side]
                return half @ dense.T if covariance else np.einsum("ni,ni->n", half, dense)
        out, step = np.empty((n, n) if covariance else n), joint_step(n, size)
        for start in range(0, n, step):
            chunk = slice(start, min(start + step, n))
            right = rows[chunk].T.toarray(order="C")
            solved = self.factored.solve(right)
            if covariance:
                out[:, chunk] = rows @ solved
            else:
                out[chunk] = np.einsum("in,in->n", right, solved)
        return out

    @cached_property
    def _of_prior(self) -> list[CoefficientCovariance]:
        """K^-1 of every component."""
        return [CoefficientCovariance(term) for term in self.prior.terms]

    def covariance(
        self, points: GridPoints, order: Any = None, component: int | None = None
    ) -> Array:
        """Return the posterior covariance matrix of f, of a derivative or of a component."""
        target, x = self.target(component, order), points.main[:, 0]
        rows = self.rows(points, target)
        out = self.quadratic(rows.matrix)
        for number, part in rows.terms.items():
            out -= self._of_prior[number].quadratic(part.matrix, covariance=True)
            for begin in range(0, len(x), _CHUNK):
                chunk = slice(begin, begin + _CHUNK)
                out[chunk] += prior_covariance(part.term, x[chunk, None] - x, target.order)
        out = 0.5 * (out + out.T)
        lift_diagonal(out, _EPS * self.kernel.prior_variance)
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
        effects = 0.5 * (target.effects(low, centring) + target.effects(high, centring))
        terms = dict(enumerate(self.prior.terms))
        terms = {i: t for i, t in terms.items() if component in (None, i)}
        ends = low.main[:, 0], high.main[:, 0]
        intervals = IntervalAverages(terms, self.plan.grid, *ends)
        rows = intervals.matrix(self.tables.offsets, effects, self.engine.size)
        mean = (rows @ self.mean).T
        if not (variance or covariance):
            return mean, np.empty(0)
        spread, prior = self.quadratic(rows, covariance), 0.0
        for number in terms:
            whole, captured = intervals.prior(number, self._of_prior[number], covariance)
            spread += whole - captured
            prior = prior + whole
        if not covariance:
            return mean, np.maximum(spread, _EPS * prior)
        spread = 0.5 * (spread + spread.T)
        lift_diagonal(spread, _EPS * np.diagonal(prior))
        return mean, spread

    def volumes(self, lower: GridPoints, upper: GridPoints) -> Array:
        """Return the signed lengths of intervals, (m,)."""
        return upper.main[:, 0] - lower.main[:, 0]

    def centred(self, component: int, x: Array) -> tuple[Array, Array]:
        """Return mean (outputs, n) and variance (n,) of a component less its average at the data.

        Between a component and the intercept a constant can be moved without changing the sum
        much: the data know this difference better than the component itself. The average is of
        the functions.
        """
        check_component(self, component)
        x = np.asarray(x, dtype=float).ravel()
        points = GridPoints(
            x[:, None], np.empty((len(x), 0)), np.zeros((len(x), self.plan.effects))
        )
        average, shared = self._data_average(component)
        mean, var = self.predict(points, component=component)
        rows = self.rows(points, Target(component)).matrix
        var = var - 2.0 * (rows @ shared)[:, 0] + float(average @ shared[:, 0])
        floor = _EPS * self.kernel.prior_variance
        return mean - (average @ self.mean)[:, None], np.maximum(var, floor)

    def _data_average(self, component: int) -> tuple[Array, Array]:
        """Return a component's average over the data as weights, and P^-1 times them."""
        stats, size = self.stats, self.engine.size
        moments = stats.moments[None, :, : self.plan.powers + 1]
        average = np.zeros(size)
        where = self.tables.where(component)
        average[where] = self.tables.sums(moments)[where, 0] / max(stats.weight, 1e-300)
        return average, self.factored.solve(average[:, None])
