"""The posterior of a field: factored once, then a polynomial per cell.

On a cell the mean is a polynomial in the local coordinates, and so is ``phi' P^-1 phi``.
Both are kept in tables with a row per cell, so that a prediction inside the domain is a few
Horner schemes. Everything else that is linear (beyond the domain, derivatives, single
terms' uncertainty, joint covariances) goes by `asvgp.posterior.field_functionals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.linalg.cells.polynomial import bilinear, evaluate
from asvgp.model.axis import Axis
from asvgp.model.bound import upper_bound
from asvgp.model.grid import GridEngine, GridFactored
from asvgp.model.grid_inverse import CellInverse
from asvgp.posterior.field_functionals import Functionals, Points, covariance, outer
from asvgp.posterior.rows import Rows
from asvgp.runtime.parallel import each_chunk, each_share, one_blas_thread

_CHUNK = 1 << 12
_EPS = float(np.finfo(float).eps)


class FieldPosterior:
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    noise : float
        Noise variance of an observation of weight one.
    assembly : GridEngine
    """

    def __init__(self, kernel: Kernel, noise: float, assembly: GridEngine):
        self._describe(kernel, noise, assembly)
        self.mean = self.factored.mean.copy()  # of the coefficients; y as given
        self.mean[assembly.size - self.plan.effects :] += assembly.centring.offset

    def _describe(self, kernel: Kernel, noise: float, assembly: GridEngine) -> None:
        self.kernel, self.noise, self.assembly = kernel, noise, assembly
        self.plan, self.stats = assembly.plan, assembly.statistics
        self.prior = assembly.prior(kernel)
        self.outputs = assembly.outputs

    @classmethod
    def restored(
        cls, kernel: Kernel, noise: float, assembly: GridEngine, state: Mapping[str, Any]
    ) -> FieldPosterior:
        """A posterior whose `state` was kept; P is factored again only when it is needed."""
        self = cls.__new__(cls)
        self._describe(kernel, noise, assembly)
        self.mean = state["mean"]
        if assembly.inputs:
            vars(self)["_inverse"] = CellInverse(*state["inverse"])
        else:
            vars(self)["_column_inverse"] = state["inverse"]
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What predictions read, beside kernel, noise and statistics."""
        inverse = tuple(self._inverse) if self.assembly.inputs else self._column_inverse
        return {"mean": self.mean, "inverse": inverse}

    @cached_property
    def factored(self) -> GridFactored:
        """P, factored."""
        with one_blas_thread:  # on several the last digits might differ
            return self.assembly.factor(self.kernel, Gaussian(self.noise))

    def upper_bound(self) -> float:
        """Compute an upper bound on the log evidence, from one more factorisation."""
        return upper_bound(self.factored)

    @cached_property
    def terms(self) -> list[Array]:
        """Means of the coefficients of every term of the main block."""
        return self.assembly.tables.split(self.mean)[0]

    @cached_property
    def columns(self) -> Array:
        """Means of those of the columns."""
        return self.assembly.tables.split(self.mean)[1]

    def __repr__(self) -> str:
        return (
            f"FieldPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {self.assembly.size} basis functions)"
        )

    # ------------------------------------------------------------ polynomials per cell

    def _tables(self, coefficients: Array) -> Array:
        """Polynomials per cell of every output, (r, cells, powers), from coefficients (size, r)."""
        tables = self.assembly.tables
        return tables.polynomials(tables.split(coefficients)[0])

    @cached_property
    def _means(self) -> Array:
        return self._tables(self.mean)

    @cached_property
    def _inverse(self) -> CellInverse:
        """Polynomials per cell and P^-1 of the columns."""
        return self.factored.cell_inverse

    # ------------------------------------------------------------ prediction

    def predict(self, points: Points, variance: bool = True) -> tuple[Array, Array]:
        """Mean (outputs, n) and latent variance (n,), anywhere."""
        n = len(points)
        if not self.assembly.inputs:
            return self.functionals(points, variance=variance)
        outside = self._outside(points.main)
        if outside.all() and n:
            return self.functionals(points, variance=variance)
        mean, var = np.empty((self.outputs, n)), np.empty(n if variance else 0)
        cells, s = self._locate(points.main)
        sizes = np.array([p + 1 for p in self.plan.powers])
        for o in range(self.outputs):
            _evaluate(self._means[o], sizes, cells, s, mean[o])
        if variance:
            _evaluate(self._inverse.squares, 2 * sizes - 1, cells, s, var)
            var += self._missed_main(points)
        if self.plan.columns:
            self._add_columns(points, cells, s, mean, var)
        if variance:
            np.maximum(var, _EPS * self.kernel.prior_variance, out=var)
        if outside.any():
            rows = np.flatnonzero(outside)
            part, spread = self.functionals(points.take(rows), variance=variance)
            mean[:, rows] = part
            if variance:
                var[rows] = spread
        return mean, var

    def _add_columns(self, points: Points, cells: np.ndarray, s: Array, mean, var) -> None:
        """What the columns add: to the variance twice their covariance with f, and their own."""
        cross = self._inverse.cross if len(var) else np.empty((0, 0, 0))

        def share(start: int, stop: int) -> None:
            for begin in range(start, stop, _CHUNK):
                rows = slice(begin, min(begin + _CHUNK, stop))
                own = Functionals(self.assembly, self.prior, points.take(rows), main=False)
                mean[:, rows] += (own.columns @ self.columns).T
                if not len(var):
                    continue
                powers = np.ones((len(own.weights), 1))
                for d, p in enumerate(self.plan.powers):
                    power = s[rows, d, None] ** np.arange(p + 1)
                    powers = (powers[:, :, None] * power[:, None, :]).reshape(len(powers), -1)
                every = np.broadcast_to(np.arange(powers.shape[1]), powers.shape)
                both = own.index, own.weights
                var[rows] += 2.0 * _bilinear(cross, cells[rows], every, powers, *both)
                var[rows] += self._of_columns(own) + own.missed

        each_share(len(cells), share)

    def _missed_main(self, points: Points) -> Array:
        """``k - phi' K^-1 phi`` of the main block's terms at points."""
        out = np.zeros(len(points))
        for term in self.prior.terms:
            part = np.ones(len(points))
            for d, axis in enumerate(term.axes):
                part *= _line(axis, points.main[:, d])
            out += term.variance * (1.0 - part)
        return out

    @cached_property
    def _column_inverse(self) -> Array:
        """P^-1 of the columns."""
        return self._inverse.columns if self.assembly.inputs else self.factored.cell_inverse.columns

    @property
    def given_effects(self) -> tuple[Array, Array]:
        """Coefficients of the effects' columns as given, and their covariance."""
        count, matrix = self.plan.effects, self.assembly.centring.to_given
        own = slice(self.plan.columns - count, None)
        return matrix @ self.columns[own], matrix @ self._column_inverse[own, own] @ matrix.T

    def _locate(self, x: Array) -> tuple[np.ndarray, Array]:
        """Flat cell numbers and local coordinates, of points moved inside the domain."""
        cells, s = np.zeros(len(x), dtype=np.int64), np.empty((len(x), x.shape[1]))
        for d, grid in enumerate(self.plan.grids):
            own, s[:, d] = grid.locate(np.clip(x[:, d], grid.lower, grid.upper))
            cells = cells * grid.cells + own
        return cells, s

    def _outside(self, x: Array) -> np.ndarray:
        out = np.zeros(len(x), dtype=bool)
        for d, grid in enumerate(self.plan.grids):
            out |= (x[:, d] < grid.lower) | (x[:, d] > grid.upper)
        return out

    # ------------------------------------------------------------ general functionals

    def functionals(
        self,
        points: Points,
        orders: dict[int, int] | None = None,
        term: int | None = None,
        variance: bool = True,
    ) -> tuple[Array, Array]:
        """Mean and variance of f or its derivative at points anywhere, of all or of one term.

        ``orders`` maps columns of X to the order of the derivative. Variances of what the main
        block is in take a selected inversion the first time.
        """
        n = len(points)
        mean, var = np.empty((self.outputs, n)), np.empty(n if variance else 0)
        if variance:  # before there are threads
            few = Functionals(self.assembly, self.prior, points.take(slice(0, 0)), orders, term)
            self._quadratic(few)

        def share(start: int, stop: int) -> None:
            for begin in range(start, stop, _CHUNK):
                some = slice(begin, min(begin + _CHUNK, stop))
                rows = Functionals(self.assembly, self.prior, points.take(some), orders, term)
                part = (rows.columns @ self.columns).T
                for number, own in rows.main:
                    index, weights = rows.of_term(own, number)
                    flat = self.terms[number].reshape(-1, self.outputs)
                    part += np.einsum("nm,nmo->on", weights, flat[index])
                mean[:, some] = part
                if variance:
                    var[some] = rows.missed + self._quadratic(rows)

        each_share(n, share)
        return mean, np.maximum(var, _EPS * self.kernel.prior_variance)

    def centred(self, smooth: int, x: Array) -> tuple[Array, Array]:
        """Mean (outputs, n) and variance (n,) of a smooth less its average over the data.

        Between the smooths and an intercept a constant can be moved without changing the sum: the
        data know this difference better than the smooth itself. The average is of the splines.
        """
        part, own = self.prior.smooths[smooth], self.prior.columns[smooth]
        row = Rows(part.axis, x)
        gram = self.stats.column_gram[own, own]  # whose functions add up to one
        average = gram.sum(axis=0) / gram.sum()
        mean, var = np.empty((self.outputs, len(x))), np.empty(len(x))
        inverse = self._column_inverse[own, own]
        for begin in range(0, len(x), _CHUNK):
            some = slice(begin, begin + _CHUNK)
            place = row.first[some, None] + np.arange(row.weights.shape[1])
            weights = np.tile(-average, (len(place), 1))
            weights[np.arange(len(place))[:, None], place] += row.weights[some]
            mean[:, some] = (weights @ self.columns[own]).T
            var[some] = np.einsum("ni,ni->n", weights @ inverse, weights)
        var += part.variance * (row.prior - row.captured)
        return mean, np.maximum(var, _EPS * self.kernel.prior_variance)

    def _quadratic(self, rows: Functionals) -> Array:
        """``phi' P^-1 phi`` of rows."""
        out = np.zeros(len(rows.points))
        if rows.main:
            leaf, index, weights = self._on_leaves(rows)
            own = index, weights
            out += _bilinear(self._leaf_inverse, leaf, *own, *own)
            if rows.index.shape[1]:
                behind = rows.index + self._leaf_inverse.shape[1]
                part = _bilinear(self._leaf_inverse, leaf, *own, behind, rows.weights)
                out += 2.0 * part
        if rows.index.shape[1]:
            out += self._of_columns(rows)
        return out

    def _of_columns(self, rows: Functionals) -> Array:
        """The part of the columns alone."""
        one = np.zeros(len(rows.index), dtype=np.int64)
        own = rows.index, rows.weights
        return _bilinear(self._column_inverse[None], one, *own, *own)

    @cached_property
    def _leaf_inverse(self) -> Array:
        """P^-1 of every leaf's functions with themselves and the columns, (leaves, s, s + C).

        Functions with a cell in common are on a leaf together, so that any functional at a
        point finds here what its variance takes.
        """
        assembly = self.assembly
        own = assembly.tables.leaves.block - self.plan.columns
        out = np.empty((len(assembly.tables.tree.leaves), own, assembly.tables.leaves.block))

        def consume(start: int, stop: int, blocks) -> None:
            out[start:stop] = assembly.device.back(blocks[:, :own])

        self.factored.solution.factor.selected_inverse(consume)
        return out

    @cached_property
    def _leaf_numbers(self) -> np.ndarray:
        """Leaves by their intervals along the inputs."""
        tree = self.assembly.tables.tree
        out = np.empty([len(edges) - 1 for edges in tree.leaf_intervals], dtype=np.int64)
        out[tuple(tree.leaves.T)] = np.arange(len(tree.leaves))
        return out

    def _on_leaves(self, rows: Functionals) -> tuple[np.ndarray, np.ndarray, Array]:
        """The leaf of every row, and its functions there with their weights, (n, w)."""
        leaves, tree, x = self.assembly.tables.leaves, self.assembly.tables.tree, rows.points.main
        intervals = []
        for d, grid in enumerate(self.plan.grids):
            cell, _ = grid.locate(np.clip(x[:, d], grid.lower, grid.upper))
            intervals.append(np.searchsorted(tree.leaf_intervals[d], cell, "right") - 1)
        index, weights = [], []
        for number, own in rows.main:
            local = []
            for d, row in enumerate(own):
                first = tree.leaf_ranges[number][d].first[intervals[d]]
                local.append((row.first - first, row.weights))
            place, weight = outer(local, leaves.shapes[number])
            index.append(place + leaves.offsets[number])
            weights.append(weight)
        leaf = self._leaf_numbers[tuple(intervals)]
        return leaf, np.concatenate(index, axis=1), np.concatenate(weights, axis=1)

    def covariance(self, points: Points) -> Array:
        """Posterior covariance matrix of f at points."""
        rows = Functionals(self.assembly, self.prior, points)
        out = covariance(rows, self.factored.solve)
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, _EPS * self.kernel.prior_variance, out=diagonal)
        return out

    def fitted_variance(self, points: Points, variance: Array) -> Array:
        """``phi' P^-1 phi`` at points inside, where the variance is known."""
        missed = self._missed_main(points)
        if self.plan.smooths:
            missed += Functionals(self.assembly, self.prior, points, main=False).missed
        return variance - missed

    def path_values(self, coefficients: Array, tables: list[Array], points: Points) -> Array:
        """Splines with other coefficients, (size, outputs), at points, (outputs, n)."""
        _, columns = self.assembly.tables.split(coefficients)
        values = (Functionals(self.assembly, self.prior, points, main=False).columns @ columns).T
        if tables:
            cells, s = self._locate(points.main)
            sizes = np.array([p + 1 for p in self.plan.powers])
            for o, table in enumerate(tables):
                part = np.empty(len(points))
                _evaluate(table, sizes, cells, s, part)
                values[o] += part
            values[:, self._outside(points.main)] = np.nan
        return values


def _evaluate(table: Array, sizes: Array, cells: np.ndarray, s: Array, out: Array) -> None:
    """Polynomials at points, on all cores."""

    def share(start: int, stop: int) -> None:
        for begin, end in each_chunk(start, stop):
            evaluate(table, sizes, cells[begin:end], s[begin:end], out[begin:end])

    each_share(len(cells), share)


def _line(axis: Axis, x: Array) -> Array:
    """``phi' K^-1 phi`` along one input, at points moved inside the domain."""
    grid: Grid = axis.fine
    cells, s = grid.locate(np.clip(x, grid.lower, grid.upper))
    table = axis.variance_polynomials.reshape(grid.cells, -1)
    out = np.empty(len(x))
    _evaluate(table, np.array([table.shape[1]]), cells, s[:, None], out)
    return out


def _bilinear(blocks: Array, block: np.ndarray, i, u: Array, j, v: Array) -> Array:
    """``u' Z v`` of rows with weights u, v on rows i and columns j of their blocks Z."""
    out = np.empty(len(block))
    bilinear(blocks, block, np.ascontiguousarray(i), u, np.ascontiguousarray(j), v, out)
    return out
