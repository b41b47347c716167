"""Functionals of a series at points: f, a derivative or one component, as weights on functions.

Along the line a functional acts on the functions of one cell, beyond the ends by the Markov
property on those of the end cell. Around a circle the phase goes on everywhere. A season that
drifts has products of both, and by the rule of Leibniz so have its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from scipy import sparse

from asvgp.basis import Array, bspline_coefficients, taylor_shift
from asvgp.linalg.chain.multiply import covariance_times
from asvgp.model.memory import joint_step
from asvgp.model.series.terms import Line, Season, SplineAxis, Term, Trend
from asvgp.model.series.wave import cell_functions
from asvgp.posterior.around import CircleRows
from asvgp.posterior.covariances import Covariances
from asvgp.posterior.tails import Splines

_FEW = 64  # rows at a time where each needs its own few cells only


def splines_of(axis: Line) -> Splines:
    """Return the polynomials of an axis, continued beyond the domain."""
    assert axis.process is not None
    ends = axis.fine.lower, axis.fine.upper
    return Splines(axis.process, axis.grid, axis.degree, ends)


def cell_basis(axis: Line) -> Array:
    """Return the functions of a cell in powers of s."""
    if isinstance(axis, SplineAxis):
        return bspline_coefficients(axis.degree)
    return cell_functions(axis.process.order, axis.degree)


class LineRows:
    """Derivatives of the orders 0 to ``order`` at points, of functions along the line.

    Attributes
    ----------
    numbers : ndarray of int, (n, w)
    weights : list of arrays of shape (n, w)
    """

    def __init__(self, axis: Line, x: Array, order: int):
        self.axis, splines, basis = axis, splines_of(axis), cell_basis(axis)
        pairs = [splines.rows(x, i) for i in range(order + 1)]
        self.cells = pairs[0][0]
        self.numbers = axis.numbers[self.cells]
        self.weights = [taylor @ basis.T for _, taylor in pairs]
        # covariances are known in powers of s for splines, by function for waves
        self._local = [t for _, t in pairs] if isinstance(axis, SplineAxis) else self.weights

    def covariance(self, i: int, j: int) -> Array:
        """Return what the functions have of the covariance of two derivatives, (n,)."""
        axis = self.axis
        table = axis.covariances if isinstance(axis, SplineAxis) else axis.cell_covariances
        return np.einsum("na,nab,nb->n", self._local[i], table[self.cells], self._local[j])


class TermRows:
    """A derivative of one component at points.

    Attributes
    ----------
    numbers : ndarray of int, (n, w)
        Among the component's functions.
    weights : ndarray of shape (n, w)
    """

    def __init__(self, term: Term, x: Array, order: int = 0):
        self.term, self.order, self.count = term, order, len(x)
        self._line = None if isinstance(term, Season) else LineRows(term.axis, x, order)
        self._circle = None if isinstance(term, Trend) else CircleRows(term.circle, x, order)
        line, circle = self._line, self._circle
        if line is None or circle is None:
            one = line or circle
            assert one is not None
            self.numbers, self.weights = one.numbers, one.weights[order]
            return
        pairs = circle.numbers[:, :, None] * line.axis.count + line.numbers[:, None, :]
        self.numbers = pairs.reshape(self.count, pairs.shape[1] * pairs.shape[2])
        weights = np.zeros(pairs.shape)
        for i in range(order + 1):
            around, along = circle.weights[order - i], line.weights[i]
            weights += comb(order, i) * around[:, :, None] * along[:, None, :]
        self.weights = weights.reshape(self.numbers.shape)

    @property
    def matrix(self) -> sparse.csr_array:
        """The weights on the component's functions, (n, size)."""
        return csr(self.numbers, self.weights, self.term.size)

    @property
    def missed(self) -> Array:
        """Prior variance that the functions do not have, (n,)."""
        line, circle, order = self._line, self._circle, self.order
        captured = np.zeros(self.count)
        if line is None or circle is None:
            one = line or circle
            assert one is not None
            captured += one.covariance(order, order)
        else:
            for i in range(order + 1):
                for j in range(order + 1):
                    part = line.covariance(i, j) * circle.covariance(order - i, order - j)
                    captured += comb(order, i) * comb(order, j) * part
        whole = prior_covariance(self.term, np.zeros(1), order)[0]
        return whole - self.term.variance * captured


def prior_covariance(term: Term, lag: Array, order: int = 0) -> Array:
    """Return the prior covariance of derivatives of a component at x + lag and at x."""
    if isinstance(term, Season):
        return term.variance * Covariances(term.circle.process)(lag, order, order)
    assert term.axis.process is not None
    line = Covariances(term.axis.process)
    if isinstance(term, Trend):
        return term.variance * line(lag, order, order)
    circle, out = Covariances(term.circle.process), np.zeros(np.shape(lag))
    for i in range(order + 1):
        for j in range(order + 1):
            part = line(lag, i, j) * circle(lag, order - i, order - j)
            out += comb(order, i) * comb(order, j) * part
    return term.variance * out


class CoefficientCovariance:
    """K^-1 of one component: the prior covariance of its coefficients."""

    def __init__(self, term: Term):
        self.term = term
        if isinstance(term, Season):
            return
        axis = term.axis
        if isinstance(axis, SplineAxis):  # in powers of s, which long processes are graded in
            states, cov, shift = axis.degree, axis.covariances, taylor_shift(axis.degree)
        else:
            states, cov = axis.states, axis.cell_covariances
            shift = np.eye(states, axis.degree + 1, states)
        first = cov[:, :states, :states]
        scale = 1.0 / np.sqrt(np.einsum("cii->ci", first))
        even = first * scale[:, :, None] * scale[:, None, :]
        gain = np.linalg.solve(even, cov[:, :states] * scale[:, :, None]) * scale[:, :, None]
        if isinstance(axis, SplineAxis):  # of functions from here on, but for the states
            basis = bspline_coefficients(axis.degree)
            turn = np.linalg.inv(basis)
            cov, gain, shift = turn.T @ cov @ turn, gain @ turn, shift @ basis.T
        self._cov, self._shift = np.ascontiguousarray(cov), np.ascontiguousarray(shift)
        self._gain = np.ascontiguousarray(gain.transpose(0, 2, 1))
        # every function is looked up on the first cell where it is alive
        _, self._places = np.unique(axis.numbers.ravel(), return_index=True)

    def quadratic(self, rows: sparse.csr_array, covariance: bool) -> Array:
        """Return ``phi' K^-1 phi`` between all rows of weights, or of each with itself."""
        n = len(rows.indptr) - 1
        step = joint_step(n, self.term.size)
        if not covariance:
            # few at a time: rows that follow each other act on few cells together
            starts = range(0, n, min(step, _FEW))
            parts = [self._diagonal(rows[start : start + min(step, _FEW)]) for start in starts]
            return np.concatenate([np.empty(0), *parts])
        rows, times = self._window(rows)
        out = np.empty((n, n))
        for start in range(0, n, step):
            chunk = slice(start, start + step)
            out[:, chunk] = rows @ times(rows[chunk].T.toarray(order="C"))
        return out

    def _diagonal(self, rows: sparse.csr_array) -> Array:
        rows, times = self._window(rows)
        right = rows.T.toarray(order="C")
        return np.einsum("in,in->n", right, times(right))

    def _window(self, rows: sparse.csr_array) -> tuple[sparse.csr_array, Callable[[Array], Array]]:
        """Return rows on the functions of the cells they act on, and ``K^-1`` of these."""
        term = self.term
        if isinstance(term, Season):
            return rows, lambda right: term.variance * (term.circle.inverse @ right)
        axis, used = term.axis, np.unique(rows.indices) % term.axis.count
        cells = self._places[used] // self._gain.shape[1]
        first, last = (int(cells.min()), int(cells.max()) + 1) if len(used) else (0, 1)
        functions, places = np.unique(axis.numbers[first:last].ravel(), return_index=True)
        count = 1 if isinstance(term, Trend) else term.circle.count
        columns = (np.arange(count)[:, None] * axis.count + functions).ravel()

        def times(right: Array) -> Array:
            table = right.reshape(count, len(functions), -1).transpose(1, 0, 2)
            shape = table.shape
            table = self._along(table.reshape(len(functions), -1), places, slice(first, last))
            if isinstance(term, Trend):
                return term.variance * table
            out = np.einsum("ab,ibn->ain", term.circle.inverse, table.reshape(shape), optimize=True)
            return term.variance * out.reshape(len(right), -1)

        return rows[:, columns], times

    def _along(self, right: Array, places: np.ndarray, where: slice) -> Array:
        """Return the line's part on some cells for right-hand sides, (functions, n)."""
        cov, gain, n = self._cov[where], self._gain[where], right.shape[1]
        table = np.zeros((gain.shape[0] * gain.shape[1], n))
        table[places] = right
        local = table.reshape(*gain.shape[:2], n)
        out = np.empty_like(local)
        covariance_times(cov, gain, self._shift, local, out)
        return out.reshape(-1, n)[places]


class SeriesRows:
    """Rows of f, of a derivative of it, or of one component, at points anywhere.

    Parameters
    ----------
    terms : dict
        Components that take part, by number.
    offsets : list of int
        Number of the first function of every component.
    x : ndarray of shape (n,)
    order : int
    effects : ndarray of shape (n, effects)
        Values of the effects' columns; zeros where they have no part.
    size : int
        Number of all functions, the effects being the last.
    """

    def __init__(self, terms, offsets: list[int], x: Array, order: int, effects: Array, size: int):
        self.terms = {number: TermRows(term, x, order) for number, term in terms.items()}
        self.size, count = size, effects.shape[1]
        last = np.broadcast_to(np.arange(size - count, size), effects.shape)
        numbers = [rows.numbers + offsets[number] for number, rows in self.terms.items()]
        weights = [rows.weights for rows in self.terms.values()]
        self.numbers = np.concatenate([*numbers, last], axis=1)
        self.weights = np.concatenate([*weights, effects], axis=1)

    @property
    def missed(self) -> Array:
        """Prior variance that the functions do not have, (n,)."""
        return sum((rows.missed for rows in self.terms.values()), np.zeros(len(self.weights)))

    @property
    def matrix(self) -> sparse.csr_array:
        """The weights on all functions, (n, size)."""
        return csr(self.numbers, self.weights, self.size)


def csr(numbers: np.ndarray, weights: Array, size: int) -> sparse.csr_array:
    """Return a matrix of rows with as many entries each, zeros included."""
    n, width = numbers.shape
    pointer = np.arange(n + 1) * width
    return sparse.csr_array((weights.ravel(), numbers.ravel(), pointer), shape=(n, size))
