"""Averages of a series over intervals, as weights on functions, and their prior covariances.

The ends of all intervals cut the line into pieces; an interval's average is a sum of those over
its pieces. Along the line and around a circle averages of the functions are known; their products
are integrated by Gauss nodes on every cell, which is exact inside the domain.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid
from asvgp.kernels.dynamics import Dynamics
from asvgp.model.series.terms import Drift, Season, Term, Trend
from asvgp.posterior.around import around_averages
from asvgp.posterior.averages import Pieces
from asvgp.posterior.series_rows import (
    CoefficientCovariance,
    TermRows,
    cell_basis,
    prior_covariance,
    splines_of,
)
from asvgp.runtime.lazy import cached_property

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0
_REACH = 60.0  # lengthscales after which a Matérn process has forgotten everything
_SHORT = 1e-3  # of a panel: shorter pieces are a few points to a covariance
_CHUNK = 1 << 12


class IntervalAverages:
    """Averages of components over intervals.

    Parameters
    ----------
    terms : dict
        Components by number.
    grid : Grid
        The finest cells.
    start, stop : ndarray of shape (m,)
        The ends, in any order.
    """

    def __init__(self, terms: dict[int, Term], grid: Grid, start: Array, stop: Array):
        self.terms, self.grid = terms, grid
        self.low, self.high = np.minimum(start, stop), np.maximum(start, stop)

    @property
    def count(self) -> int:
        """Number of intervals."""
        return len(self.low)

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces that the ends cut the line into."""
        return Pieces(self.low, self.high, self.grid.lower, self.grid.upper)

    @cached_property
    def shares(self) -> sparse.csr_array:
        """Weights of the pieces' averages in those over the intervals, (m, pieces)."""
        cuts, length, point = self.pieces.cuts, self.pieces.length, self.pieces.point
        first = np.searchsorted(cuts, self.low)
        last = np.where(point, first + 1, np.searchsorted(cuts, self.high))
        interval = np.repeat(np.arange(self.count), last - first)
        piece = _ranges(first, last)
        whole = np.where(point, 1.0, self.high - self.low)[interval]
        values = np.where(point[interval], 1.0, length[piece] / whole)
        return sparse.csr_array((values, (interval, piece)), shape=(self.count, len(length)))

    @cached_property
    def _rows(self) -> dict[int, sparse.csr_array]:
        """Averages of every component over the intervals, (m, functions)."""
        if not self.count:
            return {i: sparse.csr_array((0, term.size)) for i, term in self.terms.items()}
        ends = self.pieces.start, self.pieces.stop
        out = {}
        for number, term in self.terms.items():
            if isinstance(term, Trend):
                rows = _along(term, *ends)
            elif isinstance(term, Season):
                rows = sparse.csr_array(around_averages(term.circle, *ends))
            else:
                rows = _products(term, self.grid, *ends)
            out[number] = sparse.csr_array(self.shares @ rows)
        return out

    def matrix(self, offsets: list[int], effects: Array, size: int) -> sparse.csr_array:
        """Return the weights on all functions, (m, size)."""
        out = sparse.csr_array((self.count, size))
        for number, rows in self._rows.items():
            out = out + _shifted(rows, offsets[number], size)
        if effects.size:
            out = out + _shifted(sparse.csr_array(effects), size - effects.shape[1], size)
        return sparse.csr_array(out)

    def prior(
        self, number: int, inverse: CoefficientCovariance, covariance: bool
    ) -> tuple[Array, Array]:
        """Return prior variances or covariances of averages, and what the functions have."""
        whole = self._whole(self.terms[number], covariance)
        return whole, inverse.quadratic(self._rows[number], covariance)

    def _whole(self, term: Term, covariance: bool) -> Array:
        if not self.count:
            return np.zeros((0, 0) if covariance else 0)
        if isinstance(term, Trend):
            assert term.axis.process is not None
            dynamics = Dynamics(term.axis.process)
            if not covariance:
                return term.variance * dynamics.average_variance(self.high - self.low)
            between = term.variance * self.pieces.prior(dynamics)
        else:
            reach = np.max(self.high) - np.min(self.low)
            integral = SecondIntegral(term, reach)
            if not covariance:
                return integral.variances(self.high - self.low)
            between = integral.covariances(self.pieces.start, self.pieces.stop)
        return (self.shares @ (self.shares @ between).T).T


def _ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return ``first[i], ..., last[i] - 1`` for every i, one after another."""
    counts = last - first
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(before - first, counts)


def _shifted(rows: sparse.csr_array, offset: int, size: int) -> sparse.csr_array:
    """Return rows whose columns begin at ``offset`` of ``size``."""
    parts = rows.data, rows.indices.astype(np.int64) + offset, rows.indptr
    return sparse.csr_array(parts, shape=(len(rows.indptr) - 1, size))


def _along(term: Trend, start: Array, stop: Array) -> sparse.csr_array:
    """Return averages of the functions along the line over intervals, beyond the ends too."""
    axis = term.axis
    parts, basis = splines_of(axis).averages(start, stop), cell_basis(axis).T
    between = _ranges(parts.begin + 1, np.maximum(parts.end, parts.begin + 1))
    counts = np.maximum(parts.end - parts.begin - 1, 0)
    rows = np.arange(len(start))
    piece = np.concatenate([rows, rows, np.repeat(rows, counts)])
    cells = np.concatenate([parts.begin, parts.end, between])
    full = np.repeat(parts.full, counts)[:, None] * (parts.whole @ basis)
    weights = np.concatenate([parts.head @ basis, parts.tail @ basis, full])
    numbers = axis.numbers[cells]
    entries = weights.ravel(), (np.repeat(piece, numbers.shape[1]), numbers.ravel())
    return sparse.csr_array(entries, shape=(len(start), term.size))


def _products(term: Drift, grid: Grid, start: Array, stop: Array) -> sparse.csr_array:
    """Return averages of a drift's functions over intervals, by quadrature on every cell."""
    process = term.axis.process
    assert process is not None
    h, reach, length = grid.spacing, _REACH * process.memory, stop - start
    # too far from the domain nothing is left of the line's functions
    low = np.clip(start, grid.lower - reach, grid.upper + reach)
    high = np.clip(stop, grid.lower - reach, grid.upper + reach)
    first = np.floor((low - grid.lower) / h).astype(np.int64)
    last = np.maximum(np.ceil((high - grid.lower) / h).astype(np.int64), first + 1)
    piece, cell = np.repeat(np.arange(len(start)), last - first), _ranges(first, last)
    a = np.maximum(low[piece], grid.lower + cell * h)
    b = np.maximum(np.minimum(high[piece], grid.lower + (cell + 1) * h), a)
    point = length[piece] == 0.0
    share = np.where(point, 1.0, (b - a) / np.where(point, 1.0, length[piece]))
    numbers, weights = [], []
    for begin in range(0, len(piece), _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        x = a[chunk, None] + (b - a)[chunk, None] * _NODES
        rows = TermRows(term, x.ravel())
        shape = (*x.shape, -1)
        # the functions are the same at all nodes of a cell
        numbers.append(rows.numbers.reshape(shape)[:, len(_NODES) // 2])
        part = np.einsum("q,pqw->pw", _WEIGHTS, rows.weights.reshape(shape))
        weights.append(share[chunk, None] * part)
    numbers, weights = np.concatenate(numbers), np.concatenate(weights)
    entries = weights.ravel(), (np.repeat(piece, numbers.shape[1]), numbers.ravel())
    return sparse.csr_array(entries, shape=(len(start), term.size))


class SecondIntegral:
    """Covariances of averages of a stationary component: second differences of V, ``V'' = k``.

    A season's k repeats, so that with its mean put aside V repeats as well. A drift's k vanishes
    far out. The integrals of k and of ``r k`` are kept at the edges of panels, which no kink of k
    is inside of.
    """

    def __init__(self, term: Season | Drift, reach: float):
        self.term, process = term, term.circle.process
        self.period, length = process.period, process.resolved_length
        reach = min(reach, self.period) if isinstance(term, Season) else reach
        if isinstance(term, Drift):
            assert term.axis.process is not None
            length = min(length, term.axis.process.memory)
            reach = min(reach, _REACH * term.axis.process.memory)
        panels = ceil(2.0 * self.period / length)
        self.width = self.period / panels
        count = panels if isinstance(term, Season) else ceil(reach / self.width) + 1
        self.edges = self.width * np.arange(count + 1)
        self.mean = 0.0
        if isinstance(term, Season):
            zero, _ = self._panels(self.edges[:-1], np.full(count, self.width))
            self.mean = float(zero.sum()) / self.period
        parts = self._panels(self.edges[:-1], np.full(count, self.width))
        self._zero, self._one = (np.concatenate([[0.0], np.cumsum(part)]) for part in parts)

    def _panels(self, start: Array, width: Array) -> tuple[Array, Array]:
        """Return the integrals of ``k - mean`` and of r times it from ``start`` on."""
        r = start[..., None] + width[..., None] * _NODES
        k = prior_covariance(self.term, r) - self.mean
        return width * (k @ _WEIGHTS), width * ((r * k) @ _WEIGHTS)

    def _integrals(self, lag: Array) -> tuple[Array, Array]:
        """Return the integral of ``k - mean`` up to each lag, which is odd, and V, even."""
        distance = np.abs(lag)
        if isinstance(self.term, Season):
            distance = np.mod(distance, self.period)
        inside = np.minimum(distance, self.edges[-1])
        panel = np.minimum((inside / self.width).astype(np.int64), len(self.edges) - 2)
        start = self.edges[panel]
        zero, one = self._panels(start, inside - start)
        zero, one = zero + self._zero[panel], one + self._one[panel]
        return np.sign(lag) * zero, distance * zero - one

    def variances(self, length: Array) -> Array:
        """Return prior variances of averages over intervals of these lengths."""
        short = length < _SHORT * self.width
        second = 2.0 * self._integrals(length)[1] / np.where(short, 1.0, length) ** 2
        return np.where(short, self.term.variance, self.mean + second)

    def covariances(self, start: Array, stop: Array) -> Array:
        """Return prior covariances between averages over intervals."""
        length = stop - start
        short = length < _SHORT * self.width
        safe = np.where(short, 1.0, length)
        nodes = (0.5 * (start + stop))[short]
        out = np.empty((len(start), len(start)))
        second = [
            self._integrals(np.subtract.outer(a, b))[1]
            for a, b in ((stop, start), (start, start), (stop, stop), (start, stop))
        ]
        out[:] = self.mean + (second[0] - second[1] - second[2] + second[3]) / np.outer(safe, safe)
        if len(nodes):
            first = [self._integrals(np.subtract.outer(nodes, end))[0] for end in (start, stop)]
            mixed = self.mean + (first[0] - first[1]) / safe
            out[short] = mixed
            out[:, short] = mixed.T
            apart = np.subtract.outer(nodes, nodes)
            out[np.ix_(short, short)] = prior_covariance(self.term, apart)
        return out
