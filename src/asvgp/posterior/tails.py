"""Functionals of one process along one input, as weights on the coefficients of its splines.

Inside the domain a spline is a polynomial on every cell, and a functional at a point acts on
the Taylor coefficients of one cell. Beyond the ends the Markov property continues it: given
the state ``F = (f, f', ..., f^(p))`` at the nearer end, the process a distance t further is
expected to be in the state ``exp(A t) F``. So a functional out there acts on the end cell.
"""

from __future__ import annotations

from math import comb, factorial, inf
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array, Grid, bspline_coefficients, mean_powers
from asvgp.kernels import Component
from asvgp.kernels.dynamics import Dynamics
from asvgp.posterior.covariances import Covariances
from asvgp.runtime.lazy import cached_property


class Stretches(NamedTuple):
    """Averages over intervals as weights over stretches of cells (`asvgp.linalg.chain.sweep`)."""

    begin: np.ndarray  # first cell of every stretch, (m,)
    end: np.ndarray  # last cell
    head: Array  # weights on the coefficients of the first, (m, coefficients)
    tail: Array  # on those of the last; zero where they are the same
    full: Array  # factor of ``whole`` on the cells in between, (m,)
    whole: Array  # average over one cell, (coefficients,)

    def on(self, where: Array) -> Stretches:
        """Return the part that acts on some of the coefficients."""
        head, tail, whole = (
            np.ascontiguousarray(part[..., where]) for part in (self.head, self.tail, self.whole)
        )
        return self._replace(head=head, tail=tail, whole=whole)


class Splines:
    """Splines of one process along one input, continued beyond the ends of the domain.

    The ``ends`` are those of the grid, unless its last cell reaches beyond the domain. A circle
    has none.

    Examples
    --------
    >>> from asvgp import Matern12
    >>> cell, weights = Splines(Matern12(2.0), Grid(0.0, 1.0, 2), 1).rows([0.25, 3.0])
    >>> cell.tolist(), weights.round(3).tolist()  # exp(-1) of the value at the right end
    ([0, 1], [[1.0, 0.5], [0.368, 0.368]])
    """

    def __init__(
        self,
        process: Component,
        grid: Grid,
        degree: int,
        ends: tuple[float, float] | None = None,
    ):
        self.process, self.grid, self.degree = process, grid, degree
        self.lower, self.upper = (grid.lower, grid.upper) if ends is None else ends
        if grid.cyclic:
            self.lower, self.upper = -inf, inf

    @cached_property
    def dynamics(self) -> Dynamics:
        """The process in continuous time."""
        return Dynamics(self.process)

    def locate(self, x) -> tuple[np.ndarray, Array]:
        """Return cells and local coordinates of points, moved to the nearer end if beyond it."""
        return self.grid.locate(np.clip(x, self.lower, self.upper))

    def rows(self, x, order: int = 0) -> tuple[np.ndarray, Array]:
        """Return the cells and Taylor weights (n, k + 1) of f, or of a derivative, at points."""
        x = np.asarray(x, dtype=float)
        cells, s = self.locate(x)
        powers = np.arange(self.degree + 1)
        falling = np.array([factorial(i) / factorial(max(i - order, 0)) for i in powers])
        falling[:order] = 0.0
        weights = falling / self.grid.spacing**order * s[:, None] ** np.maximum(powers - order, 0)
        for right in (False, True):
            beyond = x > self.upper if right else x < self.lower
            if beyond.any():
                lag = x[beyond] - self.upper if right else self.lower - x[beyond]
                power = self.dynamics.powers[order] / self.dynamics.unit**order
                state = (1.0 if right else -1.0) ** order * self.dynamics.rows(lag) @ power
                weights[beyond] = self._on_end_cell(state, right)
        return cells, weights

    def covariance(self, lag, order: int = 0) -> Array:
        """Return the prior covariance of f, or of a derivative, at points so far apart."""
        return Covariances(self.process)(np.asarray(lag), order, order)

    def averages(self, low: Array, high: Array) -> Stretches:
        """Return the averages over the intervals ``low <= high``; of length zero, f itself."""
        h, degree = self.grid.spacing, self.degree
        a, b = np.clip(low, self.lower, self.upper), np.clip(high, self.lower, self.upper)
        (begin, s), (end, t) = self.grid.locate(a), self.grid.locate(b)
        single = begin == end
        # Lengths left of the domain, inside it and right of it, as shares of the whole.
        inside = np.where(single, (b - a) / h, (1.0 - s) + (end - begin - 1.0) + t)
        before = np.maximum(np.minimum(high, self.lower) - low, 0.0) / h
        after = np.maximum(high - np.maximum(low, self.upper), 0.0) / h
        total = before + inside + after
        point = total == 0.0  # then all of it lies in one place
        left, right = low < self.lower, high > self.upper
        divisor = np.where(point, 1.0, total)
        before = np.where(point & left, 1.0, before / divisor)
        after = np.where(point & right, 1.0, after / divisor)
        inside = np.where(point & ~left & ~right, 1.0, inside / divisor)
        share = np.where(single, inside, (1.0 - s) / divisor)
        head = share[:, None] * mean_powers(s, np.where(single, t, 1.0), degree)
        share = np.where(single, 0.0, t / divisor)
        powers = np.arange(degree + 1)
        tail = (share[:, None] * t[:, None] ** powers) / (powers + 1.0)
        for beyond, share, gap in (
            (left, before, self.lower - np.minimum(high, self.lower)),
            (right, after, np.maximum(low, self.upper) - self.upper),
        ):
            rows = np.flatnonzero(beyond)
            if not len(rows):
                continue
            length = np.where(point, 0.0, share * divisor * h)[rows]
            averages = self.dynamics.average_rows(length)
            state = np.einsum("ti,tij->tj", averages, self.dynamics.matrices(gap[rows]))
            weights = share[rows, None] * self._on_end_cell(state, beyond is right)
            last = ~single[rows] & (beyond is right)
            head[rows[~last]] += weights[~last]
            tail[rows[last]] += weights[last]
        return Stretches(begin, end, head, tail, 1.0 / divisor, 1.0 / (powers + 1.0))

    def _on_end_cell(self, state: Array, right: bool) -> Array:
        """Turn weights on the state at an end, in the dynamics' unit, into Taylor weights.

        Leftwards is a mirror image, in which odd derivatives change their sign.
        """
        size = state.shape[1]
        # An end is a knot of the finest cells, not always of a coarser spline's last cell.
        place = float(right)
        if right and self.upper != self.grid.upper:
            place = float(self.locate(self.upper)[1])
        to_taylor = np.array(
            [
                [comb(j, i) * place ** (j - i) if j >= i else 0.0 for j in range(self.degree + 1)]
                for i in range(size)
            ]
        )
        ratio = (1.0 if right else -1.0) * self.dynamics.unit / self.grid.spacing
        return (state * np.array([factorial(i) * ratio**i for i in range(size)])) @ to_taylor


def in_splines(stretches: Stretches, degree: int, count: int) -> Array:
    """Return stretches as weights on all B-splines of a grid, (m, count)."""
    basis = bspline_coefficients(degree).T
    head, tail, whole = (part @ basis for part in (*stretches[2:4], stretches.whole))
    out, rows = np.zeros((len(head), count)), np.arange(len(head))
    function = np.arange(count)
    for j in range(degree + 1):
        cell = function - j
        between = (cell > stretches.begin[:, None]) & (cell < stretches.end[:, None])
        out += between * (stretches.full * whole[j])[:, None]
        out[rows, stretches.begin + j] += head[:, j]
        out[rows, stretches.end + j] += tail[:, j]
    return out
