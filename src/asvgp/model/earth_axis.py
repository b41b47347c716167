"""Splines of a kernel on the sphere along longitude and latitude.

For ``f = Lambda(longitude) Psi(latitude)`` the Laplacian on the sphere is

    Laplace f = Lambda (Psi'' - tan(lat) Psi') + Lambda'' Psi / cos(lat)**2.

In the squared norm of `asvgp.kernels.earth` all derivatives of Lambda are moved by parts, until
both functions have as many: splines vanish at the ends with their derivatives, or go round. So K
is a sum over the number a of these, and over powers of ``s**2``, of tables ``T_a`` along the
circle, those of the plane, times tables along the meridian with weights in the cosine of the
latitude. These are found by Gauss quadrature, exact but for rounding.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import comb, radians

import numpy as np

from asvgp.basis import Array, Grid, operator_gram, spline_pieces
from asvgp.degrees import TURN, Latitudes
from asvgp.kernels import AlongEarth, Component
from asvgp.kernels.earth import meridian_tables
from asvgp.model.joint_axis import JointAxis, folded_tails, widths_beyond
from asvgp.runtime.lazy import cached_property

LAST_KNOT = 88.0  # [degrees] Of latitude: splines end here
# [distance left to the last knot] Width of cells near it. What is left of a process that is told
# its jets there (`asvgp.model.rings`) has slopes at all scales. Measured: nu = 2, 40 degrees,
# 48 x 24 cells: 2.3e-4 of the variance are missed with 0.4, 0.9e-4 with 0.5, 5e-3 on equal cells
_SHRINKING = 0.5
_NODES = 32  # Gauss nodes on a cell of latitudes

Jets = dict[tuple[int, int], Array]  # functions along a meridian with derivatives, by (a, power)


class LongitudeAxis(JointAxis):
    """Splines along a circle of latitude, or along an arc with cells beyond the data."""

    def __init__(
        self, process: AlongEarth, grid: Grid, degree: int, level: int, powers: int, outer: int
    ):
        super().__init__(process, grid, degree, level, powers, 0 if grid.cyclic else outer)
        self.count = self.cells if self.closed else self.count

    @property
    def _room(self) -> float:
        """Room beyond either end of the data, up to the other side of the Earth, in cells."""
        return 0.5 * (TURN - (self.grid.upper - self.grid.lower)) / self.grid.spacing

    def enough(self, outer: int) -> int:
        """Return so many cells beyond the data, or as many as meet on the other side of the Earth.

        Where splines go round, none is wider than it would be on open ground.
        """
        growing = np.cumsum(widths_beyond(outer, self.degree))
        if self.grid.cyclic or growing[-1] < self._room:
            return outer
        return int(np.searchsorted(growing, self._room)) + 1

    @property
    def closed(self) -> bool:
        """True if the splines go round, on cells beyond the data that meet each other."""
        natural = float(widths_beyond(self.outer, self.degree).sum())
        met = natural >= self._room and self.outer > 0 and self.cells >= 2 * self.degree
        return self.grid.cyclic or met

    @cached_property
    def knots(self) -> Array:
        """All knots in units of the spacing, the first of the data at zero."""
        cells, k = self.grid.cells, self.degree
        if not self.closed:
            return limited_knots(cells, self.outer, k, (self._room, self._room))
        turn = TURN / self.grid.spacing
        low = np.cumsum(widths_beyond(self.outer))
        low *= self._room / low[-1] if len(low) else 1.0
        knots = np.concatenate([-low[::-1], np.arange(cells + 1.0), cells + low])
        around = np.arange(-k, len(knots) + k)  # the knots and some of the next turns
        turns, place = np.divmod(around, len(knots) - 1)
        return knots[:-1][place] + turn * turns

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the functions alive on each cell of their own, (cells, degree + 1)."""
        return super().numbers % self.count

    @cached_property
    def elements(self) -> Array:
        """Tables of K by powers of omega and cells, (powers, cells, k + 1, k + 1)."""
        if not self.closed:
            return super().elements
        k = self.degree
        width, pieces = np.diff(self.knots)[k:-k], self._polynomials[k:-k]
        gram, out = operator_gram(self.process.alpha, k), []
        for a in range(self.process.alpha + 1):
            block = pieces @ gram[a, a] @ pieces.transpose(0, 2, 1)
            out.append(block * (width ** (1.0 - 2.0 * a))[:, None, None])
        return np.stack(out)

    def rows(self, x: Array, order: int = 0) -> tuple[np.ndarray, Array]:
        """Return cells and weights (n, k + 1) on their functions of f, or of a derivative."""
        return super().rows(self.grid.around(x), order)


class LatitudeAxis(JointAxis):
    """Splines along a meridian, which end before the poles."""

    def limited(self, outer: int) -> bool:
        """Return True if a pole leaves less room than so many cells beyond the data would take."""
        room = (LAST_KNOT - max(self.grid.upper, -self.grid.lower)) / self.grid.spacing
        return float(widths_beyond(outer, self.degree).sum()) > room

    @cached_property
    def knots(self) -> Array:
        """All knots in units of the spacing, the first of the data at zero."""
        grid = self.grid
        rooms = (grid.lower + LAST_KNOT) / grid.spacing, (LAST_KNOT - grid.upper) / grid.spacing
        return limited_knots(grid.cells, self.outer, self.degree, rooms, _SHRINKING)

    @cached_property
    def elements(self) -> Array:
        """Tables of K by `meridian_tables` and cells, (tables, cells, k + 1, k + 1)."""
        return _meridian(self.grid, self.degree, self.outer, self.process.alpha)

    @cached_property
    def matrices(self) -> list:
        """The tables as sparse matrices."""
        return _sparse_meridian(self.grid, self.degree, self.outer, self.process.alpha)

    @cached_property
    def matrix(self):
        """A matrix about as stiff as K shared out among the inputs, for estimates of rounding."""
        plane = JointAxis(self.process, self.grid, self.degree, 0, self.degree, self.outer)
        return plane.matrix


def earth_axis(
    process: AlongEarth, grid: Grid, degree: int, level: int, powers: int, outer: int
) -> JointAxis:
    """Return the axis of a kernel on the sphere along longitude or latitude."""
    kind = LatitudeAxis if process.latitudes is None else LongitudeAxis
    return kind(process, grid, degree, level, powers, outer)


def at_latitudes(process: Component | None, grids: dict) -> Component | None:
    """Return a process along longitude with the lengths that it has at the latitudes of a grid.

    They are in degrees of longitude: the shortest, nearest to the equator, and how far it reaches
    where degrees are shortest. Other processes are as they are.
    """
    if not isinstance(process, AlongEarth) or process.latitudes is None:
        return process
    grid = grids.get(process.latitudes)
    if not isinstance(grid, Latitudes):
        return process
    near, far = grid.cosines
    length = process.lengthscale
    return replace(process, lengthscale=length / near, reach=length / far)


def limited_knots(
    cells: int, outer: int, tails: int, rooms: tuple[float, float], shrinking: float = 0.0
) -> Array:
    """Return the knots 0, 1, ..., cells, ``outer`` more at both ends and those of the tails.

    They are ever further apart. Where the room at an end is too small for that, cells share what is
    left of it evenly, or take that share of it which they are ``shrinking`` by, if it is more.

    Examples
    --------
    >>> limited_knots(2, 1, 1, (9.0, 1.0)).tolist()
    [-3.75, -1.5, 0.0, 1.0, 2.0, 2.5, 3.0]
    """
    low, high = (_beyond(outer, tails, room, shrinking) for room in rooms)
    return np.concatenate([-low[::-1], np.arange(cells + 1), cells + high])


def _beyond(outer: int, tails: int, room: float, shrinking: float) -> Array:
    """Return distances of knots from the data, the last at most ``room``."""
    widths = widths_beyond(outer, tails)
    growing, growth = np.cumsum(widths), widths[0]
    if growing[-1] <= room:
        return growing
    knots, width = [0.0], 1.0
    for left in range(outer + tails, tails, -1):
        share = max(shrinking, 1.0 / left) * (room - knots[-1])
        width = min(growth * width, share)
        knots.append(knots[-1] + width)
    rest = (room - knots[-1]) * np.arange(1, tails + 1) / tails
    return np.concatenate([knots[1:], knots[-1] + rest])


@lru_cache(maxsize=64)
def _meridian(grid: Grid, degree: int, outer: int, alpha: int) -> Array:
    """Return the tables along a meridian, in radians, (tables, cells, k + 1, k + 1)."""
    process = AlongEarth(nu=alpha - 1.0, lengthscale=1.0)
    knots = LatitudeAxis(process, grid, degree, 0, degree, outer).knots
    width, pieces = np.diff(knots), spline_pieces(knots, degree)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    s, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    place = grid.lower + grid.spacing * (knots[:-1, None] + width[:, None] * s)  # (cells, nodes)
    lat, h = np.radians(place), radians(grid.spacing) * width
    # The functions and their derivatives at the nodes, (derivatives, functions, cells, nodes)
    jet, powers = [], np.arange(degree + 1)
    for order in range(alpha + 1):
        falling = np.prod([powers - i for i in range(order)], axis=0) * np.ones(degree + 1)
        taylor = falling[:, None] * s ** np.maximum(powers - order, 0)[:, None]
        jet.append((pieces @ taylor).transpose(1, 0, 2) / h[:, None] ** order)
    tan = _tangents(lat, alpha)
    functions: Jets = {(0, 0): np.stack(jet)}
    for _ in range(alpha // 2):
        functions = _operated(functions, tan)
    weight = weights * np.cos(lat) * h[:, None]
    tables = meridian_tables(alpha)
    out = np.zeros((len(tables), len(width), degree + 1, degree + 1))

    def add(a: int, j: int, left: Array, right: Array, weight: Array) -> None:
        out[tables.index((a, j))] += np.einsum("rcq,scq,cq->crs", left, right, weight)

    for (a, i), left in functions.items():
        for (b, j), right in functions.items():
            sign = (-1.0) ** (a - b)  # of derivatives moved by parts
            add(a + b, i + j, sign * left[0], right[0], weight)
            if alpha % 2:  # the gradient, with s**2
                add(a + b, i + j + 1, sign * left[1], right[1], weight)
                add(a + b + 1, i + j + 1, sign * left[0], right[0], weight / np.cos(lat) ** 2)
    return np.stack([folded_tails(block, degree) for block in out])


@lru_cache(maxsize=64)
def _sparse_meridian(grid: Grid, degree: int, outer: int, alpha: int) -> list:
    process = AlongEarth(nu=alpha - 1.0, lengthscale=1.0)
    axis = LatitudeAxis(process, grid, degree, 0, degree, outer)
    return [axis.assembled(block) for block in axis.elements]


def _tangents(lat: Array, order: int) -> Array:
    """Return the tangent and its derivatives, (order + 2, ...): tan' = 1 + tan**2."""
    out = [np.tan(lat)]
    for n in range(order + 1):
        square = sum((comb(n, i) * out[i] * out[n - i] for i in range(n + 1)), np.zeros(()))
        out.append(square + (n == 0))
    return np.stack(out)


def _times(jet: Array, weight: Array, length: int) -> Array:
    """Return a product with so many entries, the derivatives by Leibniz' rule."""
    out = []
    for n in range(length):
        parts = (comb(n, i) * jet[i] * weight[n - i] for i in range(n + 1))
        out.append(sum(parts, np.zeros(())))
    return np.stack(out)


def _operated(functions: Jets, tan: Array) -> Jets:
    """Return ``(1 - s**2 Laplace) f``, with two derivatives less.

    Every function goes with 2 a derivatives along longitude, and with a power of s**2.
    """
    out: Jets = {}

    def add(key: tuple[int, int], value: Array) -> None:
        out[key] = out[key] + value if key in out else value

    for (a, j), jet in functions.items():
        left = len(jet) - 2
        add((a, j), jet[:left])
        add((a, j + 1), _times(jet[1:], tan, left) - jet[2:])
        add((a + 1, j + 1), -_times(jet, tan[1:], left))  # tan' is 1 / cos**2
    return out
