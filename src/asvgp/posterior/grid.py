"""The posterior of a field: factored once, then a polynomial per cell.

On a cell the mean is a polynomial in the local coordinates, and so is ``phi' P^-1 phi``.
Both are kept in tables with a row per cell, so that a prediction inside the domain is a few
Horner schemes. Everything else that is linear (beyond the domain, derivatives, single
terms' uncertainty, joint covariances) goes by `asvgp.posterior.grid_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood, likelihood_of
from asvgp.linalg.cells.polynomial import bilinear, evaluate
from asvgp.linalg.multifrontal import Tree
from asvgp.model.axis import Axis
from asvgp.model.bound import upper_bound
from asvgp.model.breakdown import advice, all_axes, stiffest
from asvgp.model.devices import Cpu, Device, device_for
from asvgp.model.elements import outer
from asvgp.model.grid import GridEngine, GridFactored
from asvgp.model.grid_inverse import CellInverse
from asvgp.model.joint import JointPrior, points_of_domain
from asvgp.model.memory import joint_step
from asvgp.policies import FIELD
from asvgp.posterior.boxes import BoxAverages
from asvgp.posterior.grid_rows import Functionals, Rows, covariance
from asvgp.posterior.posterior import FittedValues, GridPoints, Posterior, lift_diagonal
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import each_chunk, each_share, one_blas_thread
from asvgp.runtime.warn import warn
from asvgp.statistics import Statistics

_CHUNK = 1 << 12
_EPS = float(np.finfo(float).eps)
# [prior variance] A variance that is more negative has lost its digits: one standard deviation in a
# hundred of the prior's, far above rounding wherever the bound's digits are accepted.
_LOST = 1e-4


class GridPosterior(Posterior[GridPoints]):
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood, or float
        A number stands for Gaussian noise of that variance, at weight one.
    engine : GridEngine
    """

    def __init__(self, kernel: Kernel, likelihood: Likelihood | float, engine: GridEngine):
        self._describe(kernel, likelihood, engine)
        self.mean = self.factored.mean_as_given()

    def _describe(self, kernel: Kernel, likelihood: Likelihood | float, engine: GridEngine) -> None:
        self.kernel, self.likelihood, self.engine = kernel, likelihood_of(likelihood), engine
        self.plan, self.stats = engine.plan, engine.statistics
        self.prior = engine.prior(kernel)
        self.outputs = engine.outputs
        self._saved_inverse: CellInverse | None = None

    def anew(self, kernel: Kernel, likelihood: Likelihood, stats: Statistics) -> GridPosterior:
        """Return the posterior of other statistics on the same grids, at another state."""
        return GridPosterior(kernel, likelihood, self.engine.with_statistics(stats))

    @property
    def parts(self) -> tuple[Any, ...]:
        """Arguments of `restored`."""
        return self.kernel, self.likelihood, self.stats, self.plan, self.state

    @classmethod
    def restored(
        cls, kernel, likelihood, stats, plan, state: Mapping[str, Any], device: str = "cpu"
    ) -> GridPosterior:
        """Return a posterior whose `state` was saved; P is factored only when it is needed.

        That is done on the ``device``, or on the CPU of a machine without it.
        """

        def chosen() -> Device:
            try:
                return device_for(device)
            except ValueError:
                return Cpu()

        self, engine = cls.__new__(cls), GridEngine(kernel, plan, stats, chosen)
        self._describe(kernel, likelihood, engine)
        self.mean = state["mean"] if "mean" in state else self.factored.mean_as_given()
        if "inverse" in state:
            inverse = state["inverse"]
            if not engine.inputs:  # the columns are all there is
                inverse = np.empty((0, 0)), np.empty((0, 0, len(inverse))), inverse
            self._saved_inverse = CellInverse(*inverse)
        return self

    @property
    def state(self) -> dict[str, Any]:
        """Arrays that predictions read, beside kernel, noise and statistics."""
        inverse = tuple(self._inverse) if self.engine.inputs else self._inverse.columns
        return {"mean": self.mean, "inverse": inverse}

    @cached_property
    def factored(self) -> GridFactored:
        """P, factored."""
        with one_blas_thread:  # on several the last digits might differ
            return self.engine.factor(self.kernel, self.likelihood)

    @cached_property
    def terms(self) -> list[Array]:
        """Means of the coefficients of every term of the main block."""
        return self.engine.tables.split(self.mean)[0]

    @cached_property
    def columns(self) -> Array:
        """Means of the coefficients of the global columns."""
        return self.engine.tables.split(self.mean)[1]

    def upper_bound(self) -> float:
        """Compute an upper bound on the log evidence, from one more factorisation."""
        return upper_bound(self.factored)

    def __repr__(self) -> str:
        return (
            f"GridPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {self.engine.size} basis functions)"
        )

    # ------------------------------------------------------------ polynomials per cell

    def tables(self, coefficients: Array, component: int | None = None) -> Array:
        """Return polynomials per cell of every output, (r, cells, powers), from coefficients.

        Of the main block, or of one component of it.
        """
        tables, plan = self.engine.tables, self.plan
        numbers = [i for i, number in enumerate(plan.terms) if component in (None, number)]
        terms = tables.split(coefficients)[0]
        return tables.polynomials([terms[i] for i in numbers], numbers)

    @cached_property
    def means(self) -> Array:
        """The mean as polynomials per cell of the main block, (outputs, cells, powers)."""
        return self.tables(self.mean)

    @property
    def _inverse(self) -> CellInverse:
        """Polynomials per cell and P^-1 of the columns."""
        return self._saved_inverse or self.factored.cell_inverse

    # ------------------------------------------------------------ prediction

    def predict(
        self,
        points: GridPoints,
        variance: bool = True,
        component: int | None = None,
        order: Mapping[int, int] | None = None,
    ) -> tuple[Array, Array]:
        """Return the mean (outputs, n) and latent variance (n,), anywhere.

        Of the sum or of one component, of f or of a derivative: ``order`` maps columns of X to
        the order of the derivative. Without ``variance`` the second array is empty.
        """
        inside = ~self._outside(points.main)
        outside = len(inside) > 0 and not inside.any()
        if component is not None or order or not self.engine.inputs or outside:
            parts = self._by_rows(points, variance, component, order)
        else:
            parts = self._by_cells(points, variance)
            if not inside.all():
                rows = np.flatnonzero(~inside)
                beyond = self._by_rows(points.take(rows), variance)
                for whole, part in zip(parts, beyond, strict=True):
                    if whole.size:
                        whole[..., rows] = part
        mean, quadratic, missed = parts
        total = quadratic + missed
        if not order:
            self._check_digits(total < -_LOST * self.kernel.prior_variance)
        return mean, np.maximum(total, _EPS * self.kernel.prior_variance)

    def _check_digits(self, lost: np.ndarray) -> None:
        """Warn where variances are impossible by more than rounding can be told from zero."""
        if lost.any():
            number = stiffest(all_axes(self.plan, self.kernel))
            warn(
                f"Rounding errors exceed the predicted variance at {np.count_nonzero(lost)} of "
                f"{len(lost)} points: " + advice(self.plan, self.kernel, [number]),
                RuntimeWarning,
            )

    def fitted_values(self, points: GridPoints) -> FittedValues:
        """Return the posterior at places of its data, for leave-one-out."""
        outside = self._outside(points.main)
        for j, grid in enumerate(self.plan.smooth_grids):
            outside |= ~grid.holds(points.smooths[:, j])
        if outside.any():
            raise ValueError(
                f"{np.count_nonzero(outside)} of {len(points)} inputs are outside the domain, so "
                "they are not among the posterior's data."
            )
        magnitude = np.empty(len(points))
        evaluate = self._by_cells if self.engine.inputs else self._by_rows
        mean, quadratic, missed = evaluate(points, True, magnitude=magnitude)
        variance = np.maximum(quadratic + missed, _EPS * self.kernel.prior_variance)
        return FittedValues(mean, variance, quadratic, magnitude)

    def _by_cells(
        self, points: GridPoints, variance: bool = True, magnitude: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return mean, ``phi' P^-1 phi`` and missed variance at points moved inside the domain.

        Fills the sums of the absolute terms of the second, if there is an array for them.
        """
        n = len(points)
        mean, quadratic, missed = np.empty((self.outputs, n)), np.empty(n * variance), np.empty(0)
        cells, s = self._locate(points.main)
        sizes = np.array([p + 1 for p in self.plan.powers])
        for o in range(self.outputs):
            _evaluate(self.means[o], sizes, cells, s, mean[o])
        if variance:
            _evaluate(self._inverse.squares, 2 * sizes - 1, cells, s, quadratic)
            missed = self._missed_main(points)
        if magnitude is not None:
            _evaluate(np.abs(self._inverse.squares), 2 * sizes - 1, cells, s, magnitude)
        if self.plan.columns:
            self._add_columns(points, cells, s, (mean, quadratic, missed), magnitude)
        return mean, quadratic, missed

    def _add_columns(
        self,
        points: GridPoints,
        cells: np.ndarray,
        s: Array,
        parts: tuple[Array, Array, Array],
        magnitude: Array | None,
    ) -> None:
        """Add the columns: to the quadratic form twice what they share with f, and their own."""
        mean, quadratic, missed = parts
        cross = self._inverse.cross if len(quadratic) else np.empty((0, 0, 0))

        def share(start: int, stop: int) -> None:
            for begin in range(start, stop, _CHUNK):
                rows = slice(begin, min(begin + _CHUNK, stop))
                columns = Functionals(self.engine, self.prior, points.take(rows), main=False)
                mean[:, rows] += (columns.columns @ self.columns).T
                if not len(quadratic):
                    continue
                powers = np.ones((len(columns.weights), 1))
                for d, p in enumerate(self.plan.powers):
                    power = s[rows, d, None] ** np.arange(p + 1)
                    powers = (powers[:, :, None] * power[:, None, :]).reshape(len(powers), -1)
                every = np.broadcast_to(np.arange(powers.shape[1]), powers.shape)
                both = columns.index, columns.weights
                shared = 2.0 * _bilinear(cross, cells[rows], every, powers, *both)
                alone = self._of_columns(columns)
                quadratic[rows] += shared + alone
                missed[rows] += columns.missed
                if magnitude is not None:
                    magnitude[rows] += np.abs(shared) + alone

        each_share(len(cells), share)

    def _missed_main(self, points: GridPoints) -> Array:
        """Return ``k - phi' K^-1 phi`` of the main block's terms at points."""
        out = np.zeros(len(points))
        for term in self.prior.terms:
            part = np.ones(len(points))
            for unit, places in zip(term.units, term.places, strict=True):
                x = points.main[:, list(places)]
                grids = [self.plan.grids[d] for d in places]
                part *= _captured(unit, x, grids)
            out += term.variance * (1.0 - part)
        return out

    @property
    def given_effects(self) -> tuple[Array, Array]:
        """Coefficients of the effects' columns as given, and their covariance."""
        count, matrix = self.plan.effects, self.engine.centring.to_given
        effects = slice(self.plan.columns - count, None)
        return matrix @ self.columns[effects], matrix @ self._inverse.columns[
            effects, effects
        ] @ matrix.T

    def _locate(self, x: Array) -> tuple[np.ndarray, Array]:
        """Return flat cell numbers and local coordinates, of points moved inside the domain."""
        return _located(self.plan.grids, x)

    def _outside(self, x: Array) -> np.ndarray:
        out = np.zeros(len(x), dtype=bool)
        for d, grid in enumerate(self.plan.grids):
            out |= ~grid.holds(x[:, d])
        return out

    # ------------------------------------------------------------ general functionals

    def _by_rows(
        self,
        points: GridPoints,
        variance: bool = True,
        component: int | None = None,
        order: Mapping[int, int] | None = None,
        magnitude: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Return mean, ``phi' P^-1 phi`` and missed variance at any points.

        They are those of the sum or of one component. Variances that the main block has a part
        in take a selected inversion the first time. The second is at most what the splines have of
        the prior's variance: rounding may leave more, of derivatives first.
        """
        n = len(points)
        mean, (quadratic, missed) = np.empty((self.outputs, n)), np.empty((2, n * variance))
        lost = np.zeros(n, dtype=bool)
        if variance:  # before there are threads
            nothing = points.take(slice(0, 0))
            none = Functionals(self.engine, self.prior, nothing, order, component)
            _ = self._quadratic(none), none.missed

        def share(start: int, stop: int) -> None:
            for begin in range(start, stop, _CHUNK):
                chunk = slice(begin, min(begin + _CHUNK, stop))
                rows = Functionals(self.engine, self.prior, points.take(chunk), order, component)
                part = (rows.columns @ self.columns).T
                for number, along_inputs in rows.main:
                    index, weights = rows.of_term(along_inputs, number)
                    flat = self.terms[number].reshape(-1, self.outputs)
                    part += np.einsum("nm,nmo->on", weights, flat[index])
                mean[:, chunk] = part
                if variance:
                    missed[chunk], held = rows.prior_variances
                    found = self._quadratic(rows)
                    lost[chunk] = found > held + _LOST * (held + missed[chunk])
                    quadratic[chunk] = np.minimum(found, held)
                if magnitude is not None:
                    magnitude[chunk] = self._of_columns(rows, absolute=True)

        each_share(n, share)
        self._check_digits(lost)
        return mean, quadratic, missed

    def averages(
        self,
        low: GridPoints,
        high: GridPoints,
        variance: bool = True,
        covariance: bool = False,
        component: int | None = None,
    ) -> tuple[Array, Array]:
        """Return means (outputs, m) and variances (m,) of averages of f over boxes.

        With ``covariance`` the second is the covariance matrix (m, m), without ``variance``
        empty. The boxes lie anywhere between two corners; the effects are those of both
        corners, halved.
        """
        boxes = BoxAverages(self.engine, self.prior, low, high, component)
        mean = boxes.mean(self.terms, self.columns)
        if not (variance or covariance):
            return mean, np.empty(0)
        missed, prior = boxes.missed(covariance)
        spread = boxes.quadratic(self.factored.solve, covariance) + missed
        if not covariance:
            return mean, np.maximum(spread, _EPS * prior)
        spread = 0.5 * (spread + spread.T)
        lift_diagonal(spread, _EPS * np.diagonal(prior))
        return mean, spread

    def volumes(self, lower: GridPoints, upper: GridPoints) -> Array:
        """Return the signed volumes of boxes, over all inputs that splines are over."""
        columns = [self.kernel.components[t].factors[0].dim for t in self.plan.smooths]
        distinct = [columns.index(column) for column in dict.fromkeys(columns)]
        smooths = upper.smooths[:, distinct] - lower.smooths[:, distinct]
        return np.prod(upper.main - lower.main, axis=1) * np.prod(smooths, axis=1)

    def centred(self, component: int, x: Array) -> tuple[Array, Array]:
        """Return mean (outputs, n) and variance (n,) of a smooth less its average over the data.

        Between the smooths and an intercept a constant can be moved without changing the sum: the
        data know this difference better than the smooth itself. The average is of the splines.
        """
        smooth = self.plan.smooths.index(component)
        part, columns = self.prior.smooths[smooth], self.prior.columns[smooth]
        row = Rows(part.axis, x)
        gram = self.stats.column_gram[columns, columns]  # whose functions add up to one
        average = gram.sum(axis=0) / gram.sum()
        mean, var = np.empty((self.outputs, len(x))), np.empty(len(x))
        inverse = self._inverse.columns[columns, columns]
        for begin in range(0, len(x), _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            place = row.numbers[chunk]
            weights = np.tile(-average, (len(place), 1))
            weights[np.arange(len(place))[:, None], place] += row.weights[chunk]
            mean[:, chunk] = (weights @ self.columns[columns]).T
            var[chunk] = np.einsum("ni,ni->n", weights @ inverse, weights)
        var += part.variance * (row.prior - row.captured)
        return mean, np.maximum(var, _EPS * self.kernel.prior_variance)

    def _quadratic(self, rows: Functionals) -> Array:
        """Return ``phi' P^-1 phi`` of rows."""
        own = self._of_columns(rows) if rows.index.shape[1] else np.zeros(len(rows.points))
        if not rows.main:
            return own
        leaf, index, weights = self._on_leaves(rows)
        if (leaf < 0).any():
            return self._quadratic_by_parts(rows, leaf < 0)
        out = own + self._by_leaves(rows, leaf, index, weights)
        error = self._selected_error * self._spread(leaf, index, weights)
        unknown = np.flatnonzero(error > FIELD.known_variance * np.maximum(out, 0.0))
        if len(unknown):
            out[unknown] = self._by_solutions(rows, unknown)
        return out

    def _by_leaves(
        self, rows: Functionals, leaf: np.ndarray, index: np.ndarray, weights: Array
    ) -> Array:
        """Return `_quadratic` of rows, but for the columns alone, by P^-1 of leaves."""
        main = index, weights
        out = _bilinear(self._leaf_inverse, leaf, *main, *main)
        if rows.index.shape[1]:
            behind = rows.index + self._leaf_inverse.shape[1]
            out += 2.0 * _bilinear(self._leaf_inverse, leaf, *main, behind, rows.weights)
        return out

    def _spread(self, leaf: np.ndarray, index: np.ndarray, weights: Array) -> Array:
        """Return what terms of ``phi' P^-1 phi`` are at most in all, whatever their signs.

        Weights of derivatives and beyond the data are large and of both signs, so that digits of
        P^-1 cancel there.
        """
        deviations = self._leaf_deviations[leaf[:, None], index]
        return np.einsum("nm,nm->n", np.abs(weights), deviations) ** 2

    @cached_property
    def _leaf_deviations(self) -> Array:
        """Standard deviations of the functions of every leaf under P^-1, (leaves, s)."""
        diagonal = np.diagonal(self._leaf_inverse, axis1=1, axis2=2)  # negative by rounding only
        return np.sqrt(np.maximum(np.abs(diagonal), np.finfo(float).tiny))

    @cached_property
    def _selected_error(self) -> float:
        """The relative error of P^-1 of the leaves, measured by solutions at some points."""
        x = points_of_domain(self.plan.grids, FIELD.measuring_points)
        smooths = np.array([grid.lower for grid in self.plan.smooth_grids])
        beside = smooths, np.zeros(self.plan.effects)
        points = GridPoints(x, *(np.tile(values, (len(x), 1)) for values in beside))
        rows = Functionals(self.engine, self.prior, points)
        leaf, index, weights = self._on_leaves(rows)
        found = self._by_leaves(rows, leaf, index, weights)
        if rows.index.shape[1]:
            found += self._of_columns(rows)
        error = np.abs(found - self._by_solutions(rows, np.arange(len(x))))
        return float(np.max(error / self._spread(leaf, index, weights)))

    def _quadratic_by_parts(self, rows: Functionals, scattered: np.ndarray) -> Array:
        """Return ``phi' P^-1 phi`` of rows, some of whose functions are on no leaf together.

        Beyond the data, that is, where terms have splines on cells of their own: these take a
        solution each.
        """
        out, every = np.empty(len(scattered)), np.arange(len(scattered))
        out[~scattered] = self._quadratic(rows.take(every[~scattered]))
        out[scattered] = self._by_solutions(rows, every[scattered])
        return out

    def _by_solutions(self, rows: Functionals, numbers: np.ndarray) -> Array:
        """Return ``phi' P^-1 phi`` of some rows by a solution each."""
        matrix = rows.matrix[numbers]
        step = joint_step(matrix.shape[0], self.engine.size)
        parts = []
        for start in range(0, matrix.shape[0], step):
            chunk = matrix[start : start + step]
            solved = self.factored.solve(chunk.T.toarray(order="C"))
            parts.append(chunk.multiply(solved.T).sum(axis=1))
        return np.concatenate(parts)

    def _of_columns(self, rows: Functionals, absolute: bool = False) -> Array:
        """Return the columns' part of ``phi' P^-1 phi``, or the sums of its absolute terms."""
        block, weights = self._inverse.columns, rows.weights
        if absolute:
            block, weights = np.abs(block), np.abs(weights)
        one = np.zeros(len(rows.index), dtype=np.int64)
        return _bilinear(block[None], one, rows.index, weights, rows.index, weights)

    @cached_property
    def _leaf_inverse(self) -> Array:
        """P^-1 of every leaf's functions with themselves and the columns, (leaves, s, s + C).

        Functions with a cell in common are on a leaf together, so that any functional at a
        point finds here what its variance takes.
        """
        tables, device = self.engine.tables, self.engine.device
        main = tables.leaves.block - self.plan.columns
        out = np.empty((len(tables.tree.leaves), main, tables.leaves.block))

        def consume(start: int, stop: int, blocks) -> None:
            out[start:stop] = device.back(blocks[:, :main])

        self.factored.solution.factor.selected_inverse(consume)
        return out

    def _on_leaves(self, rows: Functionals) -> tuple[np.ndarray, np.ndarray, Array]:
        """Return the leaf of every row, and its functions there with their weights, (n, w).

        It is -1 beyond the data where the functions of the terms have no leaf in common.
        """
        leaves, tree, x = self.engine.tables.leaves, self.engine.tables.tree, rows.points.main
        index, weights, places, together = [], [], [], np.full(len(x), True)
        for d, grid in enumerate(self.plan.grids):
            cell, _ = grid.locate(grid.inside(x[:, d]))
            inside = grid.holds(x[:, d])
            cell = cell + self.plan.pads[d]
            cells = [  # a term that is constant along the input is alive everywhere
                np.where(inside, cell, tree_cell(tree, number, d, along[d]))
                for number, along in rows.main
                if along[d].axis.process is not None
            ] or [cell]
            together &= np.all(np.stack(cells) == cells[0], axis=0)
            places.append(cells[0])
        intervals = [
            np.searchsorted(edges, cell, "right") - 1
            for edges, cell in zip(tree.leaf_intervals, places, strict=True)
        ]
        for number, along_inputs in rows.main:
            local = []
            for d, row in enumerate(along_inputs):
                first = tree.leaf_ranges[number][d].first[intervals[d]]
                place = (row.first - first)[:, None] + np.arange(row.weights.shape[1])
                local.append((place, row.weights))
            place, weight = outer(local, leaves.shapes[number])
            index.append(place + leaves.offsets[number])
            weights.append(weight)
        leaf = np.where(together, tree.leaf_numbers[tuple(intervals)], -1)
        return leaf, np.concatenate(index, axis=1), np.concatenate(weights, axis=1)

    def covariance(
        self,
        points: GridPoints,
        order: Mapping[int, int] | None = None,
        component: int | None = None,
    ) -> Array:
        """Return the posterior covariance matrix of f, or of a derivative, at points."""
        rows = Functionals(self.engine, self.prior, points, order, component)
        out = covariance(rows, self.factored.solve)
        lift_diagonal(out, _EPS * self.kernel.prior_variance)
        return out

    def path_values(
        self,
        coefficients: Array,
        tables: Array,
        points: GridPoints,
        component: int | None = None,
    ) -> Array:
        """Return splines with other coefficients, (size, outputs), at points, (outputs, n)."""
        _, columns = self.engine.tables.split(coefficients)
        rows = Functionals(self.engine, self.prior, points, component=component, main=False)
        values = (rows.columns @ columns).T
        if len(tables):
            cells, s = self._locate(points.main)
            sizes = np.array([p + 1 for p in self.plan.powers])
            for o, table in enumerate(tables):
                part = np.empty(len(points))
                _evaluate(table, sizes, cells, s, part)
                values[o] += part
            values[:, self._outside(points.main)] = np.nan
        return values


def _evaluate(table: Array, sizes: Array, cells: np.ndarray, s: Array, out: Array) -> None:
    """Evaluate polynomials at points, on all cores."""

    def share(start: int, stop: int) -> None:
        for begin, end in each_chunk(start, stop):
            points = cells[begin:end], s[begin:end]
            evaluate(table, sizes, *points, np.empty(table.shape[1]), out[begin:end])

    each_share(len(cells), share)


def _captured(unit: Axis | JointPrior, x: Array, grids: list[Grid]) -> Array:
    """Return ``phi' K^-1 phi`` of a unit, at points (n, inputs) moved inside the domain."""
    cells, s = _located(grids, x)
    counts, tensor = [grid.cells for grid in grids], unit.variance_polynomials
    sizes = np.array([n // count for n, count in zip(tensor.shape, counts, strict=True)])
    tensor = tensor.reshape([n for pair in zip(counts, sizes, strict=True) for n in pair])
    order = [*range(0, 2 * len(grids), 2), *range(1, 2 * len(grids), 2)]
    table = np.ascontiguousarray(tensor.transpose(order)).reshape(prod(counts), -1)
    out = np.empty(len(x))
    _evaluate(table, sizes, cells, s, out)
    return out


def _located(grids: Sequence[Grid], x: Array) -> tuple[np.ndarray, Array]:
    """Return flat cell numbers and local coordinates, of points moved inside the domain."""
    cells, s = np.zeros(len(x), dtype=np.int64), np.empty((len(x), x.shape[1]))
    for d, grid in enumerate(grids):
        cell, s[:, d] = grid.locate(grid.inside(x[:, d]))
        cells = cells * grid.cells + cell
    return cells, s


def tree_cell(tree: Tree, number: int, d: int, row: Rows) -> np.ndarray:
    """Return the finest cell where the cell begins that rows of a term along an input act on."""
    edges = tree.spaces[number].lines(tree.cells)[d].edges
    return edges[np.minimum(row.first, len(edges) - 2)].astype(np.int64)


def _bilinear(blocks: Array, block: np.ndarray, i, u: Array, j, v: Array) -> Array:
    """Return ``u' Z v`` of rows with weights u, v on rows i and columns j of their blocks Z."""
    out = np.empty(len(block))
    bilinear(blocks, block, np.ascontiguousarray(i), u, np.ascontiguousarray(j), v, out)
    return out
