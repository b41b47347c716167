"""Oscillators along a line: piecewise polynomials of high degree, as smooth as the process.

The norm of a long-lived oscillator punishes every function that is not nearly a solution of
``L f = 0``. On cells of half a period, polynomials of degree nine follow such solutions to five
digits. The functions of a cell are the states (f and its first derivatives) at its two ends, and
*bubbles*, which vanish at both together with these derivatives. Bubbles are alive on one cell
only, so that they cost next to nothing, and the unknowns that couple cells are the states.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial import Legendre, Polynomial

from asvgp.basis import Array, Grid
from asvgp.kernels import Component
from asvgp.linalg.chain.blocks import chain_of_blocks
from asvgp.model.circle import shifts
from asvgp.model.moments import CellMoments
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.tables import cached_tables


@lru_cache
def cell_functions(order: int, degree: int) -> Array:
    """Return the functions of a cell in powers of s, (degree + 1, degree + 1).

    First the states at s = 0 and at s = 1 (derivatives over factorials), then the bubbles.
    """
    states = order + 1
    rows = np.zeros((2 * states, degree + 1))
    for j in range(degree + 1):
        for i in range(states):
            taylor = Polynomial.basis(j).deriv(i) if i else Polynomial.basis(j)
            rows[i, j] = taylor(0.0)
            rows[states + i, j] = taylor(1.0)
    factorials = np.cumprod([1.0, *range(1, states)])
    rows /= np.tile(factorials, 2)[:, None]
    out = np.zeros((degree + 1, degree + 1))
    # the interpolating polynomials of the lowest degree
    out[: 2 * states, : 2 * states] = np.linalg.inv(rows[:, : 2 * states]).T
    bump = Polynomial([0.0, 1.0, -1.0]) ** states
    for i in range(degree + 1 - 2 * states):
        shape = Legendre.basis(i, domain=[0.0, 1.0]).convert(kind=Polynomial)
        bubble = np.convolve(np.array(bump.coef, float), np.array(shape.coef, float))
        out[2 * states + i, : len(bubble)] = bubble * 4.0**states
    return out


@lru_cache
def _at_nodes(order: int, degree: int) -> Array:
    """Return derivatives of the functions at Gauss nodes, times root weights.

    (nodes, order + 2, degree + 1), evaluated with more digits than the result has.
    """
    nodes, weights = np.polynomial.legendre.leggauss(degree + 1)
    nodes = ((nodes + 1.0) / 2.0).astype(np.longdouble)
    functions = cell_functions(order, degree).astype(np.longdouble)
    out = np.zeros((degree + 1, order + 2, degree + 1))
    for j, coefficients in enumerate(functions):
        for i in range(order + 2):
            value = np.zeros_like(nodes)
            for power in range(degree, i - 1, -1):
                falling = np.prod(np.arange(power - i + 1, power + 1, dtype=np.longdouble))
                value = value * nodes + coefficients[power] * falling
            out[:, i, j] = (value * np.sqrt(weights / 2.0)).astype(float)
    return out


class WaveAxis:
    """Functions and K of one process along a line, on cells that are ``2**level`` finest ones.

    The process has variance one. Arrays that begin with ``d_`` have a leading axis for the
    logarithms of its hyperparameters but the variance.
    """

    def __init__(self, process: Component, grid: Grid, degree: int, level: int):
        self.process, self.fine, self.degree, self.level = process, grid, degree, level
        self.grid = grid.coarsen(2**level)
        self.states, cells = process.order + 1, self.grid.cells
        self.bubbles = degree + 1 - 2 * self.states
        self.count = self.states * (cells + 1) + self.bubbles * cells
        self._form = process.markov(self.grid.spacing)

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on each cell of their own, (cells, degree + 1)."""
        cells, knots = np.arange(self.grid.cells)[:, None], self.grid.cells + 1
        state, bubble = np.arange(self.states), np.arange(self.bubbles)
        left = cells + state * knots
        inner = self.states * knots + cells + bubble * self.grid.cells
        return np.concatenate([left, left + 1, inner], axis=1)

    @property
    def inner(self) -> np.ndarray:
        """True for functions that are alive on one cell: the bubbles."""
        return np.arange(self.count) >= self.states * (self.grid.cells + 1)

    @property
    def parts(self) -> Array:
        """The functions in powers of s of each finest cell, (2**level, degree + 1, degree + 1)."""
        return _pieces(self.process.order, self.degree, self.level)

    @cached_property
    def element(self) -> Array:
        """K of the functions of a cell, without what the first state adds."""
        root = self._root
        return root.T @ root

    @property
    def _root(self) -> Array:
        nodes = _at_nodes(self.process.order, self.degree)
        return np.einsum("qij,i->qj", nodes, self._form.operator) * np.exp(
            -0.5 * self._form.log_density
        )

    @cached_property
    def d_element(self) -> Array:
        """Derivatives of ``element``."""
        cross = self._d_root.transpose(0, 2, 1) @ self._root
        return cross + cross.transpose(0, 2, 1)

    @property
    def _d_root(self) -> Array:
        form, nodes = self._form, _at_nodes(self.process.order, self.degree)
        scale = np.exp(-0.5 * form.log_density)
        half = np.einsum("qij,pi->pqj", nodes, form.d_operator[:-1]) * scale
        return half - 0.5 * form.d_log_density[:-1, None, None] * self._root

    @cached_property
    def boundary(self) -> Array:
        """What the prior of the first state adds to the element of the first cell."""
        out = np.zeros((self.degree + 1,) * 2)
        out[: self.states, : self.states] = self._start
        return out

    @property
    def _taylor(self) -> Array:
        factorials = np.cumprod([1.0, *range(1, self.states)])
        return np.outer(factorials, factorials)

    @cached_property
    def _start(self) -> Array:
        return np.linalg.inv(self._form.covariance) * self._taylor

    @cached_property
    def _d_start(self) -> Array:
        inverse = np.linalg.inv(self._form.covariance)
        return -inverse @ self._form.d_covariance[:-1] @ inverse * self._taylor

    @cached_property
    def _condensed(self) -> tuple[Array, Array, Array]:
        """Bubbles given the states, (bubbles, states), the covariance that remains, a root of K.

        The root is of the states' K without their bubbles.
        """
        outer = 2 * self.states
        root = self._root
        q, r = np.linalg.qr(root[:, outer:])
        inner = np.linalg.inv(r)
        given = -inner @ (q.T @ root[:, :outer])
        left = root[:, :outer] + root[:, outer:] @ given
        return given, inner @ inner.T, left

    @cached_property
    def _chain(self) -> tuple[float, Array, Array, Array]:
        given, inner, left = self._condensed
        extend = np.concatenate([np.eye(2 * self.states), given])
        q, root = np.linalg.qr(left)
        d_root = q.T @ (self._d_root @ extend)
        cells = self.grid.cells
        log_det, d_log_det, blocks, d_blocks = chain_of_blocks(
            root, d_root, self._start, self._d_start, cells
        )
        outer = 2 * self.states
        log_det -= cells * float(np.linalg.slogdet(inner)[1])
        d_log_det = d_log_det + cells * np.sum(
            inner * self.d_element[:, outer:, outer:], axis=(1, 2)
        )
        return log_det, d_log_det, blocks, d_blocks

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        return self._chain[0]

    @property
    def d_log_det(self) -> Array:
        """Derivatives of ``log|K|``."""
        return self._chain[1]

    def form(self, total: Array, start: Array) -> float:
        """Return ``tr(element total) + tr(boundary start)``, ``total`` being summed over cells."""
        return float(np.sum(self.element * total) + np.sum(self.boundary * start))

    def d_form(self, total: Array, start: Array) -> Array:
        """Return the derivatives of `form`."""
        first = start[: self.states, : self.states]
        return np.sum(self.d_element * total, axis=(1, 2)) + np.sum(
            self._d_start * first, axis=(1, 2)
        )

    @cached_property
    def cell_covariances(self) -> Array:
        """K^-1 of the functions of every cell, (cells, degree + 1, degree + 1)."""
        given, inner, _ = self._condensed
        extend = np.concatenate([np.eye(2 * self.states), given])
        out = extend @ self._chain[2] @ extend.T
        out[:, 2 * self.states :, 2 * self.states :] += inner
        return out

    @cached_property
    def variance_polynomials(self) -> Array:
        """``phi' K^-1 phi`` on the finest cells, in powers of s, (cells, 2 degree + 1)."""
        products = _products(self.process.order, self.degree)
        size = len(products)
        own = (
            self.cell_covariances.reshape(-1, (self.degree + 1) ** 2) @ products.reshape(size, -1).T
        )
        finest = own @ _legendre_parts(size - 1, self.level).transpose(1, 0, 2).reshape(size, -1)
        return finest.reshape(-1, size)[: self.fine.cells]

    def trace(self, moments: CellMoments) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` of moments on the finest cells, and its derivatives."""
        own = moments.joined(_legendre_parts(2 * self.degree, self.level))
        outer, size = 2 * self.states, self.degree + 1
        given, inner, _ = self._condensed
        extend = np.concatenate([np.eye(outer), given])
        d_given = np.zeros((len(self.d_element), size, outer))
        d_given[:, outer:] = -inner @ (self.d_element[:, outer:] @ extend)
        # products of functions are linear in the moments: one table for each of them
        table = _products(self.process.order, self.degree)
        states = own @ (extend.T @ table @ extend).reshape(len(table), -1)
        _, _, blocks, d_blocks = self._chain
        flat = blocks.reshape(len(blocks), -1)
        whole = own.sum(axis=0)
        bubbles = np.tensordot(whole, table[:, outer:, outer:], 1)
        trace = float(np.vdot(flat, states) + np.sum(inner * bubbles))
        slopes = d_blocks.reshape(*d_blocks.shape[:2], -1) * states
        d_trace = slopes.sum(axis=(1, 2))
        # the states' share of the bubbles moves with the hyperparameters
        weights = (own.T @ flat).reshape(len(table), outer, outer)
        pulled = np.einsum("tab,bo,tco->ac", table, extend, weights, optimize=True)
        d_trace += 2.0 * np.sum(d_given * pulled, axis=(1, 2))
        d_inner = -inner @ self.d_element[:, outer:, outer:] @ inner
        d_trace += np.sum(d_inner * bubbles, axis=(1, 2))
        return trace, d_trace


@cached_tables
def _pieces(order: int, degree: int, level: int) -> Array:
    functions = cell_functions(order, degree).astype(np.longdouble)
    moved = shifts(degree, 2**level, np.longdouble)
    return np.einsum("aj,wji->wai", functions, moved).astype(float)


@cached_tables
def _legendre_parts(degree: int, level: int) -> Array:
    """Return Legendre polynomials of a cell in powers of s of its parts.

    (2**level, polynomials, powers). Their coefficients alternate and are large, so that more
    digits are carried than the result has.
    """
    width = 2**level
    out = np.zeros((width, degree + 1, degree + 1), dtype=np.longdouble)
    # P_{j+1} = ((2 j + 1) u P_j - j P_{j-1}) / (j + 1) with u = centre + slope s on a part
    centre = 2 * np.arange(width, dtype=np.longdouble) / width - 1
    slope = np.longdouble(2) / width
    out[:, 0, 0] = 1
    if degree:
        out[:, 1, 0], out[:, 1, 1] = centre, slope
    for j in range(1, degree):
        raised = centre[:, None] * out[:, j]
        raised[:, 1:] += slope * out[:, j, :-1]
        out[:, j + 1] = ((2 * j + 1) * raised - j * out[:, j - 1]) / (j + 1)
    return out.astype(float)


@lru_cache
def _products(order: int, degree: int) -> Array:
    """Return Legendre coefficients of the products of a cell's functions, (powers, size, size)."""
    size = 2 * degree + 1
    nodes, weights = np.polynomial.legendre.leggauss(size + 1)
    functions = cell_functions(order, degree).astype(np.longdouble)
    s = ((nodes + 1.0) / 2.0).astype(np.longdouble)
    values = (functions @ (s ** np.arange(degree + 1)[:, None])).astype(float)
    legendre = np.polynomial.legendre.legvander(nodes, size - 1)
    scale = weights[:, None] / 2.0 * legendre * (2.0 * np.arange(size) + 1.0)
    return np.einsum("qt,aq,bq->tab", scale, values, values)
