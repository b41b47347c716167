"""Functionals of a whole field at points: f, its derivatives, or one term, as sparse rows.

A row has weights on the products of the functions of one cell of every term of the main
block, and on k + 1 columns of every smooth. Only what a functional acts on is in it: of a
single smooth nothing but its own k + 1 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import sparse

from asvgp.basis import Array, bspline_coefficients
from asvgp.model.axis import Axis
from asvgp.model.elements import outer
from asvgp.model.grid import GridEngine
from asvgp.model.grid_prior import GridPrior
from asvgp.model.joint import JointPrior
from asvgp.model.joint_axis import JointAxis
from asvgp.model.memory import joint_step
from asvgp.posterior.posterior import GridPoints
from asvgp.posterior.tails import Splines


class Rows:
    """Functionals along one input, of one term."""

    def __init__(self, axis: Axis, x: Array, order: int = 0):
        self.axis, self.order, n = axis, order, len(x)
        self.splines: Splines | None = None
        if axis.process is None:
            self.first = np.zeros(n, dtype=np.int64)  # cell of the splines that each row acts on
            self.weights = np.full((n, 1), float(order == 0))  # on the functions alive there
            self.prior = float(order == 0)  # variance under the process of variance one
            self.taylor = self.weights
            return
        if isinstance(axis, JointAxis):
            self.first, self.weights = axis.rows(x, order)
            return
        self.splines = Splines(
            axis.process, axis.grid, axis.degree, (axis.fine.lower, axis.fine.upper)
        )
        self.first, self.taylor = self.splines.rows(x, order)
        self.weights = self.taylor @ bspline_coefficients(axis.degree).T
        self.prior = float(self.splines.covariance(np.zeros(1), order)[0])

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions that each row acts on, (n, w)."""
        return self.axis.numbers[self.first]

    @property
    def captured(self) -> Array:
        """``phi' K^-1 phi``: the part of ``prior`` that the splines have, (n,)."""
        if self.axis.process is None:
            return self.weights[:, 0] ** 2
        covariances = self.axis.covariances
        out = np.empty(len(self.first))
        for start in range(0, len(out), 1 << 14):
            rows = slice(start, start + (1 << 14))
            t = self.taylor[rows]
            out[rows] = np.einsum("ni,nij,nj->n", t, covariances[self.first[rows]], t)
        return out


class Functionals:
    """Rows of f, of a derivative of it, or of one component, at points anywhere.

    ``order`` maps columns of X to the order of the derivative, for which the points come with
    that of the effects' columns. Without ``main`` the main block is left out.
    """

    def __init__(
        self,
        engine: GridEngine,
        prior: GridPrior,
        points: GridPoints,
        order: Mapping[int, int] | None = None,
        component: int | None = None,
        main: bool = True,
    ):
        self.engine, self.prior, self.points, orders = engine, prior, points, order or {}
        self._asked = order, component, main
        plan, kernel, n = engine.plan, prior.kernel, len(points)
        self.main: list[tuple[int, list[Rows]]] = []  # numbers of terms, a row along every input
        self.smooths: list[tuple[int, Rows]] = []
        # A derivative along another input of what does not vary with it is zero.
        for number, axes in enumerate(prior.axes if main else ()):
            if component not in (None, plan.terms[number]) or not set(orders) <= set(plan.inputs):
                continue
            rows = [
                Rows(axis, points.main[:, d], orders.get(plan.inputs[d], 0))
                for d, axis in enumerate(axes)
            ]
            self.main.append((number, rows))
        index, weights = [np.empty((n, 0), dtype=np.int64)], [np.empty((n, 0))]
        first = 0
        for j, smooth in enumerate(prior.smooths):
            over = kernel.components[plan.smooths[j]].factors[0].dim
            if component in (None, plan.smooths[j]) and set(orders) <= {over}:
                row = Rows(smooth.axis, points.smooths[:, j], orders.get(over, 0))
                self.smooths.append((j, row))
                index.append(first + row.numbers)
                weights.append(row.weights)
            first += smooth.size
        self._with_effects = np.zeros(n, dtype=bool)
        if component is None and plan.effects:
            effects = points.effects
            if not orders:
                effects = effects - engine.centring.centres
            index.append(np.broadcast_to(first + np.arange(plan.effects), effects.shape))
            weights.append(effects)
            self._with_effects = np.any(effects != 0.0, axis=1)
        # Global columns and the weights on them, (n, w).
        self.index = np.ascontiguousarray(np.concatenate(index, axis=1))
        self.weights = np.ascontiguousarray(np.concatenate(weights, axis=1))

    def take(self, rows: np.ndarray) -> Functionals:
        """Return some of the rows."""
        return Functionals(self.engine, self.prior, self.points.take(rows), *self._asked)

    @property
    def missed(self) -> Array:
        """Prior variance that the splines do not have, (n,)."""
        return self.prior_variances[0]

    @property
    def prior_variances(self) -> tuple[Array, Array]:
        """Prior variance that the splines do not have, and that which they have, (n,) each.

        That of effects is not limited, so the second is infinite where they act.
        """
        prior = self.prior
        missed, held = np.zeros((2, len(self.points)))
        for number, rows in self.main:
            captured, whole, term = np.ones(len(self.points)), 1.0, prior.terms[number]
            for unit, places in zip(term.units, term.places, strict=True):
                own = [rows[d] for d in places]
                if isinstance(unit, JointPrior):
                    pairs = [(row.first, row.weights) for row in own]
                    captured *= unit.captured(pairs, self._values_inside(own, places))
                    whole *= unit.process.derivative_variance([row.order for row in own])
                else:
                    captured *= own[0].captured
                    whole *= own[0].prior
            missed += term.variance * (whole - captured)
            held += term.variance * captured
        for number, row in self.smooths:
            variance, captured = prior.smooths[number].variance, row.captured
            missed += variance * (row.prior - captured)
            held += variance * captured
        held[self._with_effects] = np.inf
        return missed, held

    def _values_inside(self, rows: Sequence[Rows], places: Sequence[int]) -> np.ndarray:
        """Return which rows over some inputs are values, not derivatives, inside the domain."""
        inside = np.full(len(self.points), all(row.order == 0 for row in rows))
        for d in places:
            inside &= self.engine.plan.grids[d].holds(self.points.main[:, d])
        return inside

    @property
    def columns(self) -> sparse.csr_array:
        """The weights on the columns, (n, C)."""
        return _sparse(self.index, self.weights, self.engine.plan.columns)

    def of_term(self, rows: list[Rows], number: int) -> tuple[np.ndarray, Array]:
        """Return functions and weights of a term of the main block, (n, w)."""
        return outer([(row.numbers, row.weights) for row in rows], self._counts(number))

    def _counts(self, number: int) -> list[int]:
        return [axis.count for axis in self.prior.axes[number]]

    @property
    def matrix(self) -> sparse.csr_array:
        """The weights on all functions, (n, size)."""
        acting = dict(self.main)
        blocks = []
        for number in range(len(self.prior.axes)):
            size = int(np.prod(self._counts(number)))
            if number in acting:
                blocks.append(_sparse(*self.of_term(acting[number], number), size))
            else:
                blocks.append(sparse.csr_array((len(self.points), size)))
        return sparse.csr_array(sparse.hstack([*blocks, self.columns], format="csr"))


def _sparse(index: np.ndarray, weights: Array, columns: int) -> sparse.csr_array:
    """Return a matrix of rows with as many entries each, zeros included."""
    n, width = index.shape
    pointer = np.arange(n + 1) * width
    return sparse.csr_array((weights.ravel(), index.ravel(), pointer), shape=(n, columns))


def covariance(rows: Functionals, solve: Callable[[Array], Array]) -> Array:
    """Return the covariance between functionals, by some right-hand sides of ``solve`` at a time.

    Beside the result only `asvgp.model.memory.joint_bytes` of memory is taken.
    """
    prior, points, functions = rows.prior, rows.points, rows.matrix
    n, size = len(points), rows.engine.size
    out = np.empty((n, n))
    lines: list[tuple[float, list[_Line | _Joint]]] = []
    for number, along in rows.main:
        term, parts = prior.terms[number], []
        for unit, places in zip(term.units, term.places, strict=True):
            x = points.main[:, list(places)]
            if isinstance(unit, JointPrior):
                parts.append(_Joint(unit, [along[d] for d in places], x))
            else:
                parts.append(_Line(along[places[0]], x[:, 0]))
        lines.append((term.variance, parts))
    for j, row in rows.smooths:
        lines.append((prior.smooths[j].variance, [_Line(row, points.smooths[:, j])]))
    step = joint_step(n, size)
    for start in range(0, n, step):
        chunk = slice(start, min(start + step, n))
        out[:, chunk] = functions @ solve(functions[chunk].T.toarray(order="C"))
        for variance, along in lines:
            whole, captured = along[0].between(chunk)
            for line in along[1:]:
                a, b = line.between(chunk)
                whole *= a
                captured *= b
            out[:, chunk] += variance * (whole - captured)
    for start in range(0, n, step):  # in place: the other half is as good
        chunk, rest = slice(start, start + step), slice(start, n)
        part = 0.5 * (out[chunk, rest] + out[rest, chunk].T)
        out[chunk, rest] = part
        out[rest, chunk] = part.T
    return out


class _Joint:
    """The same between points over the inputs of a joint kernel."""

    def __init__(self, unit: JointPrior, rows: list[Rows], x: Array):
        self.unit, self.rows, self.x = unit, rows, x
        counts = [row.axis.count for row in rows]
        pairs = [(row.numbers, row.weights) for row in rows]
        self.functions = _sparse(*outer(pairs, counts), unit.count)

    def between(self, chunk: slice) -> tuple[Array, Array]:
        """Return both between all points and a chunk of them."""
        solved = self.unit.solve(self.functions[chunk].T.toarray())
        orders = [row.order for row in self.rows]
        whole = self.unit.process.between(self.x, self.x[chunk], orders)
        return whole, self.functions @ solved


class _Line:
    """Prior covariances between points along an input, and what the splines have of them."""

    def __init__(self, row: Rows, x: Array):
        self.row, self.x, axis = row, x, row.axis
        if axis.process is not None:
            self.functions = _sparse(row.numbers, row.weights, axis.count)

    def between(self, chunk: slice) -> tuple[Array, Array]:
        """Return both between all points and a chunk of them."""
        splines = self.row.splines
        if splines is None:
            shape = len(self.x), len(self.x[chunk])
            return np.full(shape, self.row.prior), np.full(shape, self.row.prior)
        solved = self.row.axis.solve(self.functions[chunk].T.toarray())
        lag = np.abs(self.x[:, None] - self.x[chunk])
        return splines.covariance(lag, self.row.order), self.functions @ solved
