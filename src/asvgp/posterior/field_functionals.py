"""Functionals of a whole field at points: f, its derivatives, or one term, as sparse rows.

A row has weights on the products of the functions of one cell of every term of the main
block, and on k + 1 columns of every smooth. Only what a functional acts on is in it: of a
single smooth nothing but its own k + 1 columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from asvgp.basis import Array
from asvgp.model.axis import Axis
from asvgp.model.grid import GridEngine
from asvgp.model.grid_prior import GridPrior
from asvgp.model.memory import joint_step
from asvgp.posterior.rows import Rows


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


class Functionals:
    """Rows of f, of a derivative of it, or of one term, at points anywhere.

    Parameters
    ----------
    engine : GridEngine
    prior : GridPrior
    points : Points
        Of a derivative, with that of the effects' columns.
    orders : dict
        Order of the derivative by column of X.
    term : int, optional
        The only one to act on.
    main : bool
        Whether the main block is asked for.

    Attributes
    ----------
    main : list of (int, list of Rows)
        Numbers of terms of the main block, with a row along every input.
    smooths : list of (int, Rows)
    index, weights : ndarray of shape (n, w)
        Global columns, and the weights on them.
    """

    def __init__(
        self,
        engine: GridEngine,
        prior: GridPrior,
        points: Points,
        orders: dict[int, int] | None = None,
        term: int | None = None,
        main: bool = True,
    ):
        self.engine, self.prior, self.points, orders = engine, prior, points, orders or {}
        plan, kernel, n = engine.plan, prior.kernel, len(points)
        self.main: list[tuple[int, list[Rows]]] = []
        self.smooths: list[tuple[int, Rows]] = []
        # A derivative along another input of what does not vary with it is zero.
        for number, axes in enumerate(prior.axes if main else ()):
            if term not in (None, plan.terms[number]) or not set(orders) <= set(plan.inputs):
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
            if term in (None, plan.smooths[j]) and set(orders) <= {over}:
                row = Rows(smooth.axis, points.smooths[:, j], orders.get(over, 0))
                self.smooths.append((j, row))
                index.append(first + row.first[:, None] + np.arange(row.weights.shape[1]))
                weights.append(row.weights)
            first += smooth.size
        if term is None and plan.effects:
            effects = points.effects
            if not orders:
                effects = effects - engine.centring.centres
            index.append(np.broadcast_to(first + np.arange(plan.effects), effects.shape))
            weights.append(effects)
        self.index = np.ascontiguousarray(np.concatenate(index, axis=1))
        self.weights = np.ascontiguousarray(np.concatenate(weights, axis=1))

    @property
    def missed(self) -> Array:
        """Prior variance that the splines do not have, (n,)."""
        prior, out = self.prior, np.zeros(len(self.points))
        for number, rows in self.main:
            captured = np.prod([row.captured for row in rows], axis=0)
            whole = float(np.prod([row.prior for row in rows]))
            out += prior.terms[number].variance * (whole - captured)
        for number, row in self.smooths:
            out += prior.smooths[number].variance * (row.prior - row.captured)
        return out

    @property
    def columns(self) -> sparse.csr_array:
        """The weights on the columns, (n, C)."""
        return _sparse(self.index, self.weights, self.engine.plan.columns)

    def of_term(self, rows: list[Rows], number: int) -> tuple[np.ndarray, Array]:
        """Functions and weights of a term of the main block, (n, w)."""
        return outer([(row.first, row.weights) for row in rows], self._counts(number))

    def _counts(self, number: int) -> list[int]:
        return [axis.count for axis in self.prior.axes[number]]

    @property
    def matrix(self) -> sparse.csr_array:
        """The weights on all functions, (n, size); of all terms."""
        blocks = [
            _sparse(*self.of_term(rows, number), int(np.prod(self._counts(number))))
            for number, rows in self.main
        ]
        return sparse.csr_array(sparse.hstack([*blocks, self.columns], format="csr"))


def outer(parts, counts) -> tuple[np.ndarray, Array]:
    """Flat function numbers and weights of products of rows, (n, functions)."""
    n = len(parts[0][0])
    index, weights = np.zeros((n, 1), dtype=np.int64), np.ones((n, 1))
    for (first, own), count in zip(parts, counts, strict=True):
        place = first[:, None] + np.arange(own.shape[1])
        shape = n, index.shape[1] * own.shape[1]
        index = (index[:, :, None] * count + place[:, None, :]).reshape(shape)
        weights = (weights[:, :, None] * own[:, None, :]).reshape(shape)
    return index, weights


def _sparse(index: np.ndarray, weights: Array, columns: int) -> sparse.csr_array:
    """Rows with as many entries each, zeros too."""
    n, width = index.shape
    pointer = np.arange(n + 1) * width
    return sparse.csr_array((weights.ravel(), index.ravel(), pointer), shape=(n, columns))


def covariance(rows: Functionals, solve: Callable[[Array], Array]) -> Array:
    """Covariance of f between points, by some right-hand sides of ``solve`` at a time.

    Beside the result only `asvgp.model.memory.joint_bytes` of memory is taken.
    """
    prior, points, functions = rows.prior, rows.points, rows.matrix
    n, size = len(points), rows.engine.size
    out = np.empty((n, n))
    lines = [
        (prior.terms[number].variance, [_Line(r, points.main[:, d]) for d, r in enumerate(own)])
        for number, own in rows.main
    ]
    for j, row in rows.smooths:
        lines.append((prior.smooths[j].variance, [_Line(row, points.smooths[:, j])]))
    step = joint_step(n, size)
    for start in range(0, n, step):
        some = slice(start, min(start + step, n))
        out[:, some] = functions @ solve(functions[some].T.toarray(order="C"))
        for variance, own in lines:
            whole, captured = own[0].between(some)
            for line in own[1:]:
                a, b = line.between(some)
                whole *= a
                captured *= b
            out[:, some] += variance * (whole - captured)
    for start in range(0, n, step):  # in place: the other half is as good
        some, rest = slice(start, start + step), slice(start, n)
        part = 0.5 * (out[some, rest] + out[rest, some].T)
        out[some, rest] = part
        out[rest, some] = part.T
    return out


class _Line:
    """Prior covariances between points along an input, and what the splines have of them."""

    def __init__(self, row: Rows, x: Array):
        self.axis: Axis = row.axis
        self.x = x
        if self.axis.process is not None:
            index = row.first[:, None] + np.arange(row.weights.shape[1])
            self.functions = _sparse(index, row.weights, self.axis.count)
            self.stiffness = splu(self.axis.matrix.tocsc())

    def between(self, some: slice) -> tuple[Array, Array]:
        """Of all points with some."""
        if self.axis.process is None:
            shape = len(self.x), len(self.x[some])
            return np.ones(shape), np.ones(shape)
        solved = self.stiffness.solve(self.functions[some].T.toarray())
        return self.axis.process(self.x, self.x[some]), self.functions @ solved
