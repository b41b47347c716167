"""Moving quadratic forms and covariances across one cell. Layout: `asvgp.linalg`.

These functions run while compiled code is made (`asvgp.linalg.unrolled`). Small matrices
are dictionaries from pairs of indices to numbers; of symmetric ones the upper triangle.
"""

from functools import lru_cache
from math import comb
from typing import NamedTuple

from asvgp.linalg.unrolled import Markers, unrolled


class Cell(NamedTuple):
    """The numbers of a cell that its markers fix.

    Attributes
    ----------
    n, size : int
        Numbers of states, and of states and innovations.
    shift : tuple of dict
        The rows of the Taylor shift, without its zeros.
    """

    n: int
    size: int
    shift: tuple[dict[int, float], ...]

    @property
    def upper(self) -> list[tuple[int, int]]:
        """Places of the upper triangle of a matrix on the cell's coefficients."""
        return [(i, j) for i in range(self.size) for j in range(i, self.size)]

    @property
    def upper_states(self) -> list[tuple[int, int]]:
        """Places of the upper triangle of a matrix on its states."""
        return [(i, j) for i in range(self.n) for j in range(i, self.n)]


@lru_cache
def cell_of(markers: Markers) -> Cell:
    """Return the numbers of a cell.

    Examples
    --------
    >>> cell_of(((0, 0),)).shift
    ({0: 1.0, 1: 1.0, 2: 1.0}, {1: 1.0, 2: 2.0})
    """
    degrees = [len(component) for component in markers]
    n, shift = sum(degrees), []
    for number, k in enumerate(degrees):
        places = [*range(len(shift), len(shift) + k), n + number]
        shift += [{places[j]: float(comb(j, i)) for j in range(i, k + 1)} for i in range(k)]
    return Cell(n, n + len(degrees), tuple(shift))


def pull_back(cell: Cell, carried) -> dict:
    """Return the upper triangle of ``shift' carried shift``: a form on the next state, seen here.

    Only the upper triangle of ``carried`` is read.
    """
    form = {place: carried[place] for place in cell.upper_states}
    half, joint = {}, {}
    for i in range(cell.n):
        for m, row in enumerate(cell.shift):
            for j, factor in row.items():
                half[i, j] = half.get((i, j), 0.0) + factor * form[min(i, m), max(i, m)]
    for m, row in enumerate(cell.shift):
        for i, factor in row.items():
            for j in range(i, cell.size):
                joint[i, j] = joint.get((i, j), 0.0) + factor * half[m, j]
    return joint


def push_forward(cell: Cell, covariance: dict) -> dict:
    """Return the upper triangle of ``shift covariance shift'``: the next state's covariance."""
    half, state = {}, {}
    for i, row in enumerate(cell.shift):
        for j in range(cell.size):
            half[i, j] = sum(factor * covariance[min(m, j), max(m, j)] for m, factor in row.items())
    for i, j in cell.upper_states:
        state[i, j] = sum(half[i, m] * factor for m, factor in cell.shift[j].items())
    return state


def shift_forward(cell: Cell, values: list) -> list:
    """Return the state at the right knot, or the covariance with it, from a cell's coefficients."""
    return [sum(entry * values[j] for j, entry in row.items()) for row in cell.shift]


def complete(cell: Cell, gain, c, state: list, offsets: list | None = None) -> list:
    """Return the expected coefficients of cell ``c`` from its state, or covariances with them.

    ``offsets`` are those of the innovations; zero by default.
    """
    values = list(state)
    for e in range(cell.size - cell.n):
        total = 0.0 if offsets is None else offsets[e]
        for i, value in enumerate(values):
            total -= gain[c, e, i] * value
        values.append(total)
    return values


@unrolled
def mirror(markers, matrix):
    """Copy the upper triangle of an (n + S, n + S) matrix below its diagonal."""
    for i, j in cell_of(markers).upper:
        matrix[j, i] = matrix[i, j]
