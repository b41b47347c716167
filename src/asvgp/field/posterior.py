"""The posterior of a field: factored once, then a polynomial per cell.

On a cell the mean is a polynomial in the local coordinates, and so is ``phi' P^-1 phi``.
Both are kept in tables with a row per cell, so that a prediction inside the domain is a few
Horner schemes. Everything else that is linear (beyond the domain, derivatives, single
terms' uncertainty, joint covariances) goes by `asvgp.field.rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from asvgp.basis import Array, Grid
from asvgp.field.assembly import Assembly, along
from asvgp.field.axis import Axis
from asvgp.field.bound import Priors, Solution, last_solution
from asvgp.field.rows import Rows
from asvgp.kernels import Kernel
from asvgp.linalg.polynomial import evaluate, quadratic
from asvgp.parallel import each_chunk, each_share, one_blas_thread

_CHUNK = 1 << 12
_EPS = float(np.finfo(float).eps)


class Points(NamedTuple):
    """Places to predict at: the main block's inputs, the smooths', and the effects' columns."""

    main: Array
    smooths: Array
    effects: Array

    def take(self, rows) -> Points:
        """Some of them."""
        return Points(self.main[rows], self.smooths[rows], self.effects[rows])

    def __len__(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return len(self.main)


class FieldPosterior:
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    noise : float
        Noise variance of an observation of weight one.
    assembly : Assembly
    """

    def __init__(self, kernel: Kernel, noise: float, assembly: Assembly):
        self._describe(kernel, noise, assembly)
        self.mean = self.solution.mean.copy()  # of the coefficients; y as given
        self.mean[assembly.size - self.plan.effects :] += assembly.centring.offset

    def _describe(self, kernel: Kernel, noise: float, assembly: Assembly) -> None:
        self.kernel, self.noise, self.assembly = kernel, noise, assembly
        self.plan, self.stats = assembly.plan, assembly.stats
        self.priors = Priors(assembly, kernel)
        self.outputs = assembly.outputs

    @classmethod
    def restored(
        cls, kernel: Kernel, noise: float, assembly: Assembly, state: Mapping[str, Any]
    ) -> FieldPosterior:
        """A posterior whose `state` was kept; P is factored again only when it is needed."""
        self = cls.__new__(cls)
        self._describe(kernel, noise, assembly)
        self.mean = state["mean"]
        name = "_inverse" if assembly.inputs else "_column_inverse"
        vars(self)[name] = state["inverse"]
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What predictions read, beside kernel, noise and statistics."""
        inverse = self._inverse if self.assembly.inputs else self._column_inverse
        return {"mean": self.mean, "inverse": inverse}

    @cached_property
    def solution(self) -> Solution:
        """P, factored."""
        with one_blas_thread:  # on several the last digits might differ
            return last_solution(self.assembly, self.kernel, self.noise)

    @cached_property
    def terms(self) -> list[Array]:
        """Means of the coefficients of every term of the main block."""
        return self.assembly.split(self.mean)[0]

    @cached_property
    def columns(self) -> Array:
        """Means of those of the columns."""
        return self.assembly.split(self.mean)[1]

    def __repr__(self) -> str:
        return (
            f"FieldPosterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} "
            f"observations, {self.assembly.size} basis functions)"
        )

    # ------------------------------------------------------------ polynomials per cell

    def _tables(self, coefficients: Array) -> list[Array]:
        """Polynomials per cell of every output, (cells, powers), from coefficients (size, r)."""
        terms, _ = self.assembly.split(coefficients)
        total = 0.0
        for axes, tensor in zip(self.assembly.axes, terms, strict=True):
            matrices = [axis.spline_matrix.T for axis in axes]
            total = total + along(np.moveaxis(tensor, -1, 0), matrices)
        return [self._by_cell(table, 1) for table in np.asarray(total)]

    def _by_cell(self, tensor: Array, factor: int) -> Array:
        """An interleaved tensor as (cells, powers); ``factor`` 2 for squares."""
        plan, D = self.plan, self.assembly.inputs
        sizes = [factor * p + 1 for p in plan.powers]
        shape = [n for grid, p in zip(plan.grids, sizes, strict=True) for n in (grid.cells, p)]
        order = [*range(0, 2 * D, 2), *range(1, 2 * D, 2)]
        cells = int(np.prod([grid.cells for grid in plan.grids]))
        return np.ascontiguousarray(tensor.reshape(shape).transpose(order)).reshape(cells, -1)

    @cached_property
    def _means(self) -> list[Array]:
        return self._tables(self.mean)

    @cached_property
    def _inverse(self) -> tuple[Array, Array, Array]:
        """From one selected inversion, polynomials per cell and P^-1 of the columns.

        The polynomials are ``phi' P^-1 phi``, and those with the columns, (cells, powers, C).
        """
        assembly, leaves, plan = self.assembly, self.assembly.leaves, self.plan
        shape = [g.cells * (2 * p + 1) for g, p in zip(plan.grids, plan.powers, strict=True)]
        engine, columns = assembly.engine, plan.columns
        squares = engine.zeros(tuple(shape))
        of_columns = np.zeros((columns, columns))
        thin = [g.cells * (p + 1) for g, p in zip(plan.grids, plan.powers, strict=True)]
        cross = engine.zeros((*thin, columns))
        values = (
            [[leaves.values(d, i) for d in range(assembly.inputs)] for i in range(len(plan.terms))]
            if columns
            else []
        )

        def consume(start: int, stop: int, blocks: Array) -> None:
            nonlocal of_columns
            total = 0.0
            for i, j in leaves.pairs:
                part = leaves.polynomials(blocks, start, stop, (i, j))
                total = total + (part if i == j else 2.0 * part)
            leaves.paste(total, start, stop, [2 * p + 1 for p in plan.powers], squares)
            if columns:
                if start == 0:
                    of_columns = engine.back(blocks[0, -columns:, -columns:]).copy()
                part = leaves.expand(blocks[:, :, -columns:], values, start, stop)
                leaves.paste(part, start, stop, [p + 1 for p in plan.powers], cross)

        self.solution.factor.selected_inverse(consume)
        by_cell, cross = self._by_cell(engine.back(squares), 2), engine.back(cross)
        if columns:
            parts = [self._by_cell(cross[..., c], 1) for c in range(columns)]
            return by_cell, np.stack(parts, axis=-1), of_columns
        return by_cell, np.empty((len(by_cell), 0, 0)), of_columns

    # ------------------------------------------------------------ prediction

    def predict(self, points: Points, variance: bool = True) -> tuple[Array, Array]:
        """Mean (outputs, n) and latent variance (n,), anywhere."""
        n = len(points)
        if not self.assembly.inputs:
            return self._additive(points, variance)
        outside = self._outside(points.main)
        if outside.all() and n:
            return self.functionals(points, variance=variance)
        mean, var = np.empty((self.outputs, n)), np.empty(n if variance else 0)
        cells, s = self._locate(points.main)
        sizes = np.array([p + 1 for p in self.plan.powers])
        for o in range(self.outputs):
            _evaluate(self._means[o], sizes, cells, s, mean[o])
        design = self._design(points)
        mean += (design @ self.columns).T
        if variance:
            squares, cross, of_columns = self._inverse
            _evaluate(squares, 2 * sizes - 1, cells, s, var)
            if self.plan.columns:
                var += self._column_variance(design, cross, of_columns, cells, s, sizes)
            var += self._missed(points)
            np.maximum(var, _EPS * self.kernel.prior_variance, out=var)
        if outside.any():
            rows = np.flatnonzero(outside)
            part, spread = self.functionals(points.take(rows), variance=variance)
            mean[:, rows] = part
            if variance:
                var[rows] = spread
        return mean, var

    def _column_variance(self, design, cross, of_columns, cells, s, sizes) -> Array:
        """What the columns add: twice their covariance with the splines, and their own."""
        out = np.empty(len(cells))
        for start in range(0, len(out), _CHUNK):
            rows = slice(start, start + _CHUNK)
            powers = np.ones((len(s[rows]), 1))
            for d, size in enumerate(sizes):
                power = s[rows, d, None] ** np.arange(size)
                powers = (powers[:, :, None] * power[:, None, :]).reshape(len(powers), -1)
            part = np.einsum("np,npc->nc", powers, cross[cells[rows]])
            c = design[rows].toarray()
            out[rows] = np.sum(c * (2.0 * part + c @ of_columns), axis=1)
        return out

    def _missed(self, points: Points) -> Array:
        """``k - phi' K^-1 phi`` of all terms at points."""
        out = np.zeros(len(points))
        for axes, variance in zip(self.priors.axes, self.priors.variances, strict=True):
            part = np.ones(len(points))
            for d, axis in enumerate(axes):
                part *= _line(axis, points.main[:, d])
            out += variance * (1.0 - part)
        return out + self._missed_smooths(points)

    def _missed_smooths(self, points: Points) -> Array:
        out = np.zeros(len(points))
        for j, (axis, variance) in enumerate(
            zip(self.priors.smooths, self.priors.smooth_variances, strict=True)
        ):
            out += variance * (1.0 - Rows(axis, points.smooths[:, j]).captured)
        return out

    def _additive(self, points: Points, variance: bool) -> tuple[Array, Array]:
        design = self._design(points)
        mean = (design @ self.columns).T
        if not variance:
            return mean, np.empty(0)
        var = self._missed_smooths(points)
        blocks = np.ascontiguousarray(self._column_inverse)[None]

        def share(start: int, stop: int) -> None:
            # Every row has the same few columns of each smooth, and all effects.
            part = design[start:stop]
            width = part.indices.size // max(stop - start, 1)
            index, weights = (a.reshape(-1, width) for a in (part.indices, part.data))
            own = np.empty(stop - start)
            leaf = np.zeros(stop - start, dtype=np.int64)
            quadratic(blocks, leaf, index.astype(np.int64), weights, own)
            var[start:stop] += own

        each_share(len(var), share)
        return mean, np.maximum(var, _EPS * self.kernel.prior_variance)

    @cached_property
    def _column_inverse(self) -> Array:
        """P^-1 of the columns."""
        if self.assembly.inputs:
            return self._inverse[2]
        return self.solution.factor.inverse()  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def given_effects(self) -> tuple[Array, Array]:
        """Coefficients of the effects' columns as given, and their covariance."""
        count, matrix = self.plan.effects, self.assembly.centring.to_given
        own = slice(self.plan.columns - count, None)
        return matrix @ self.columns[own], matrix @ self._column_inverse[own, own] @ matrix.T

    def _design(
        self, points: Points, orders: tuple[int, ...] | None = None, value: bool = True
    ) -> sparse.csr_array:
        """Values of the global columns, (n, C), or derivatives: of the smooths by ``orders``.

        Of the effects' columns, which are centred here, the points have them.
        """
        n, parts = len(points), []
        for j, axis in enumerate(self.priors.smooths):
            order = 0 if orders is None else orders[j]
            rows = Rows(axis, points.smooths[:, j], order)
            at = rows.first[:, None] + np.arange(rows.weights.shape[1])
            pointer = np.arange(n + 1) * rows.weights.shape[1]
            shape = (n, axis.count)
            parts.append(sparse.csr_array((rows.weights.ravel(), at.ravel(), pointer), shape=shape))
        count = points.effects.shape[1]  # zeros too: all rows have as many entries
        at = np.broadcast_to(np.arange(count), (n, count)).ravel()
        pointer = np.arange(n + 1) * count
        effects = points.effects - self.assembly.centring.centres if value else points.effects
        parts.append(sparse.csr_array((effects.ravel(), at, pointer), shape=(n, count)))
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

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

        ``orders`` maps columns of X to the order of the derivative. Variances take one
        selected inversion.
        """
        orders = orders or {}
        main, design, prior = self._functional_rows(points, orders, term)
        mean = np.zeros((self.outputs, len(points)))
        for number, rows in main:
            index, weights = _outer(rows, [axis.count for axis in self.priors.axes[number]])
            flat = self.terms[number].reshape(-1, self.outputs)
            mean += np.einsum("nm,nmo->on", weights, flat[index])
        mean += (design @ self.columns).T
        if not variance:
            return mean, np.empty(0)
        var = prior + self._quadratic(points, main, design)
        return mean, np.maximum(var, _EPS * self.kernel.prior_variance)

    def _functional_rows(self, points: Points, orders: dict[int, int], term: int | None):
        """Rows of the main block's terms, values of the columns, and what the splines miss."""
        plan, n = self.plan, len(points)
        main, prior = [], np.zeros(n)
        # A derivative along another input of what does not vary with it is zero.
        for number, axes in enumerate(self.priors.axes):
            if term not in (None, plan.terms[number]) or not set(orders) <= set(plan.inputs):
                continue
            rows = [
                Rows(axis, points.main[:, d], orders.get(plan.inputs[d], 0))
                for d, axis in enumerate(axes)
            ]
            captured = np.prod([row.captured for row in rows], axis=0)
            whole = float(np.prod([row.prior for row in rows]))
            prior += self.priors.variances[number] * (whole - captured)
            main.append((number, rows))
        names = [self.kernel.components[t].factors[0].dim for t in plan.smooths]
        others = sum(orders.values())
        own = tuple(orders.get(name, 0) for name in names)
        design = None
        if others or term is not None:
            design = self._design(points, own, value=not others).tolil()
        if design is None:
            return main, self._design(points), prior + self._missed_smooths(points)
        first = 0
        for j, axis in enumerate(self.priors.smooths):
            last = first + axis.count
            if term not in (None, plan.smooths[j]) or others != own[j]:
                design[:, first:last] = 0.0
            else:
                row = Rows(axis, points.smooths[:, j], own[j])
                prior += self.priors.smooth_variances[j] * (row.prior - row.captured)
            first = last
        if term is not None:
            design[:, first:] = 0.0
        return main, sparse.csr_array(design), prior

    def _quadratic(self, points: Points, main, design) -> Array:
        """``phi' P^-1 phi`` of rows, leaf by leaf."""
        n, columns = len(points), self.plan.columns
        dense = design.toarray() if columns else np.empty((n, 0))
        if not self.assembly.inputs:
            return np.sum(dense * (dense @ self._column_inverse), axis=1)
        leaves, tree = self.assembly.leaves, self.assembly.tree
        interval = []
        for d, grid in enumerate(self.plan.grids):
            own, _ = grid.locate(np.clip(points.main[:, d], grid.lower, grid.upper))
            interval.append(np.searchsorted(tree.leaf_intervals[d], own, "right") - 1)
        shape = tuple(len(edges) - 1 for edges in tree.leaf_intervals)
        number_of = np.empty(shape, dtype=np.int64)
        number_of[tuple(tree.leaves.T)] = np.arange(len(tree.leaves))
        leaf = number_of[tuple(interval)]
        index, weights = [], []
        for number, rows in main:
            local = []
            for d, row in enumerate(rows):
                first = tree.leaf_ranges[number][d].first[interval[d]]
                local.append((row.first - first, row.weights))
            own, w = _outer_local(local, leaves.shapes[number])
            index.append(own + leaves.offsets[number])
            weights.append(w)
        index.append(np.broadcast_to(np.arange(leaves.block - columns, leaves.block), (n, columns)))
        weights.append(dense)
        index = np.ascontiguousarray(np.concatenate(index, axis=1))
        weights = np.ascontiguousarray(np.concatenate(weights, axis=1))
        order = np.argsort(leaf, kind="stable")
        edges = np.searchsorted(leaf[order], np.arange(len(tree.leaves) + 1))
        out = np.empty(n)

        back = self.assembly.engine.back

        def consume(start: int, stop: int, blocks) -> None:
            rows = order[edges[start] : edges[stop]]
            if not len(rows):
                return
            part = np.empty(len(rows))
            quadratic(
                np.ascontiguousarray(back(blocks)),
                leaf[rows] - start,
                index[rows],
                weights[rows],
                part,
            )
            out[rows] = part

        self.solution.factor.selected_inverse(consume)
        return out

    def covariance(self, points: Points) -> Array:
        """Posterior covariance matrix of f at points."""
        main, design, _ = self._functional_rows(points, {}, None)
        blocks = []
        prior = np.zeros((len(points), len(points)))
        for number, rows in main:
            counts = [axis.count for axis in self.priors.axes[number]]
            index, weights = _outer(rows, counts)
            pointer = np.arange(len(points) + 1) * index.shape[1]
            blocks.append(
                sparse.csr_array(
                    (weights.ravel(), index.ravel(), pointer),
                    shape=(len(points), int(np.prod(counts))),
                )
            )
            whole, captured = 1.0, 1.0
            for d, row in enumerate(rows):
                a, b = _prior_pair(row, points.main[:, d])
                whole, captured = whole * a, captured * b
            prior += self.priors.variances[number] * (whole - captured)
        for j, axis in enumerate(self.priors.smooths):
            a, b = _prior_pair(Rows(axis, points.smooths[:, j]), points.smooths[:, j])
            prior += self.priors.smooth_variances[j] * (a - b)
        functions = sparse.csr_array(sparse.hstack([*blocks, design], format="csr"))
        right = np.ascontiguousarray(functions.toarray().T)
        solved = self.assembly.solve(self.solution.factor, right)
        out = prior + functions @ solved
        out = 0.5 * (out + out.T)
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, _EPS * self.kernel.prior_variance, out=diagonal)
        return out

    def fitted_variance(self, points: Points, variance: Array) -> Array:
        """``phi' P^-1 phi`` at points inside, where the variance is known."""
        return variance - self._missed(points)

    def path_values(self, coefficients: Array, tables: list[Array], points: Points) -> Array:
        """Splines with other coefficients, (size, outputs), at points, (outputs, n)."""
        _, columns = self.assembly.split(coefficients)
        values = (self._design(points) @ columns).T
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


def _outer(rows: list[Rows], counts: list[int]) -> tuple[np.ndarray, Array]:
    """Flat function numbers and weights of products of rows, (n, functions)."""
    return _outer_local([(row.first, row.weights) for row in rows], counts)


def _outer_local(parts, counts) -> tuple[np.ndarray, Array]:
    n = len(parts[0][0])
    index, weights = np.zeros((n, 1), dtype=np.int64), np.ones((n, 1))
    for (first, own), count in zip(parts, counts, strict=True):
        place = first[:, None] + np.arange(own.shape[1])
        index = (index[:, :, None] * count + place[:, None, :]).reshape(n, -1)
        weights = (weights[:, :, None] * own[:, None, :]).reshape(n, -1)
    return index, weights


def _prior_pair(row: Rows, x: Array) -> tuple[Array, Array]:
    """Prior covariance between all points along an input, and what the splines have of it."""
    axis, n = row.axis, len(x)
    if axis.process is None:
        return np.ones((n, n)), np.ones((n, n))
    functions = np.zeros((n, axis.count))
    at = row.first[:, None] + np.arange(row.weights.shape[1])
    functions[np.arange(n)[:, None], at] = row.weights
    solved = splu(axis.matrix.tocsc()).solve(functions.T)
    return axis.process(x), functions @ solved
