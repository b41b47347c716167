"""Chains of cells drawn at random, and their dense covariance matrices."""

from math import comb
from typing import NamedTuple

import numpy as np

from asvgp.linalg.unrolled import markers_of


class Chain(NamedTuple):
    """A chain with its dense twin.

    ``roots`` (cells, size, innovations of all) takes independent standard normal numbers, those
    of the first state first, to the coefficients of every cell.
    """

    markers: tuple
    shift: np.ndarray
    gain: np.ndarray
    deviation: np.ndarray
    start: np.ndarray
    roots: np.ndarray

    @property
    def states(self):
        return len(self.shift)

    @property
    def size(self):
        return self.shift.shape[1]

    @property
    def cov(self):
        """(cells, size, size): the cells' own covariance matrices."""
        return self.roots @ self.roots.swapaxes(1, 2)

    @property
    def dense(self):
        """The covariance of all coefficients, cell after cell."""
        root = self.roots.reshape(-1, self.roots.shape[2])
        return root @ root.T


def shift_of(degrees):
    """Return the Taylor shift of all components to the next knot."""
    n, begin = sum(degrees), 0
    shift = np.zeros((n, n + len(degrees)))
    for number, k in enumerate(degrees):
        places = [*range(begin, begin + k), n + number]
        for i in range(k):
            for j in range(i, k + 1):
                shift[begin + i, places[j]] = comb(j, i)
        begin += k
    return shift


def random_chain(degrees, cells, seed=0, forgets=(), settled=0):
    """Return a chain whose gains are equal before ``settled``.

    Cells in ``forgets`` take a state of one component of degree one to zero, plus innovations.
    """
    rng = np.random.default_rng(seed)
    shift = shift_of(degrees)
    n, size = shift.shape
    gain = 0.5 * rng.standard_normal((cells, size - n, size - 1))
    gain[:settled] = gain[settled]
    gain[list(forgets)] = 1.0
    deviation = rng.uniform(0.5, 1.5, (cells, size - n))
    start = np.tril(rng.standard_normal((n, n))) + 2.0 * np.eye(n)
    roots = np.zeros((cells, size, n + cells * (size - n)))
    state = np.zeros((n, roots.shape[2]))
    state[:, :n] = start
    for c in range(cells):
        roots[c, :n] = state
        for e in range(size - n):
            roots[c, n + e] = -gain[c, e, : n + e] @ roots[c, : n + e]
            roots[c, n + e, n + c * (size - n) + e] += deviation[c, e]
        state = shift @ roots[c]
    return Chain(markers_of(tuple(degrees)), shift, gain, deviation, start, roots)
