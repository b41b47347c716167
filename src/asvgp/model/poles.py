"""What splines that end before the poles leave out of a process on the sphere.

A process f on the sphere is the sum of two independent parts: one on which some functionals vanish,
with the same norm, and ``u(x)' b``, where u has the covariances of f with the functionals and b the
covariance ``M``, the inverse of that of the functionals. These are means of f times cos(m lon) or
sin(m lon) over rings close to the poles, where all splines vanish: m = 0 tells of the value at the
pole, m = 1 of the slope there. Splines have the first part. The second one is smooth
away from the poles: on the cells of the splines, u is all but a spline itself, with coefficients A.
So the coefficients of f have the covariance ``K^-1 + A M A'``, and the precision

    K - V S V'   with   V = K A,   S = (M^-1 + A' V)^-1.

All that K is asked for is found from it by this update of low rank.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from math import pi
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import block_diag, solve

from asvgp.basis import Array, Grid
from asvgp.degrees import POLE, distances
from asvgp.kernels import AlongEarth, EarthMatern
from asvgp.kernels.earth import correlations
from asvgp.model.devices import Device, DeviceArray, Factor
from asvgp.model.earth_axis import LAST_KNOT
from asvgp.model.joint_axis import JointAxis

if TYPE_CHECKING:
    from asvgp.model.joint import JointPrior

_STEP = 1e-4  # of log lengthscale, in differences
_RING = POLE - LAST_KNOT  # [degrees] Distance of rings from their pole: all splines end there
_WAVES = ((0, np.cos), (1, np.cos), (1, np.sin))
_UNNOTICED = 1e-6  # [correlation] Between a ring and the data: the ring need not be told of
_PLACES = 32, 512  # on a ring: seen from the cells of splines, and from the ring itself


class PoleForms(NamedTuple):
    """What poles add to forms of K, with derivatives by the logarithm of the lengthscale."""

    trace: float
    energy: float
    d_trace: float
    d_energy: float


class Poles:
    """The update of K of a kernel on the sphere, at variance one.

    Functionals are columns: those of one wave, cos(m lon) or sin(m lon), come together. Arrays that
    begin with ``d_`` are derivatives by the logarithm of the lengthscale.
    """

    def __init__(self, prior: JointPrior, process: EarthMatern):
        self.prior, (self.lon, self.lat) = prior, prior.axes
        alpha, axes = process.alpha, (self.lon, self.lat)
        found = [_sites(type(a), a.grid, a.degree, a.outer, alpha) for a in axes]
        (lon, to_lon), (lat, to_lat) = found
        self.wave = to_lon @ np.stack([turn(m * np.radians(lon)) for m, turn in _WAVES], axis=1)
        rings = near_rings(process, self.lat.grid)
        self.of_column = np.repeat(np.arange(len(_WAVES)), len(rings))
        values = [
            _functionals(rings, lat, to_lat, process.decay * np.exp(step), alpha)
            for step in (0.0, _STEP, -_STEP)
        ]
        # Coefficients along the meridian, (functions, columns), and the functionals' covariance
        (self.along, self.inner), ends = values[0], values[1:]
        self.d_along, self.d_inner = ((ends[0][i] - ends[1][i]) / (2.0 * _STEP) for i in range(2))
        self.spread = np.linalg.inv(self.inner)  # M
        self.d_spread = -self.spread @ self.d_inner @ self.spread

    @cached_property
    def _products(self) -> tuple[Array, Array, Array, Array]:
        """V and its derivative, (functions, poles), S and its derivative."""
        prior, wave = self.prior, self.wave[:, self.of_column][:, None, :]
        A, d_A = wave * self.along, wave * self.d_along
        V, d_V = np.zeros_like(A), prior.apply(d_A, (0, 1))
        for powers, value in prior.products(A, (0, 1)):
            V += prior.coefficients[powers] * value
            d_V += prior.d_coefficients[(0, *powers)] * value
        A, d_A, V, d_V = (x.reshape(-1, x.shape[2]) for x in (A, d_A, V, d_V))
        half = d_A.T @ V
        S = np.linalg.inv(self.inner + A.T @ V)
        # A' dK A is A' (dV - K dA), and A' K dA is V' dA
        d_inverse = self.d_inner + half + A.T @ d_V
        return V, d_V, 0.5 * (S + S.T), -S @ (0.5 * (d_inverse + d_inverse.T)) @ S

    @property
    def update(self) -> tuple[Array, Array]:
        """V and S."""
        return self._products[0], self._products[2]

    @property
    def log_det(self) -> float:
        """What is added to ``log|K|``."""
        _, _, S, _ = self._products
        return float(np.linalg.slogdet(S)[1] + np.linalg.slogdet(self.inner)[1])

    @property
    def d_log_det(self) -> Array:
        """Its derivative."""
        _, _, S, d_S = self._products
        slope = np.trace(np.linalg.solve(S, d_S)) + np.sum(self.spread * self.d_inner)
        return np.array([slope])

    def forms(self, mean: Array, solved: Array) -> PoleForms:
        """Return what is added to the trace of P^-1 K and to the energy.

        ``mean`` is (functions, outputs), ``solved`` is P^-1 V.
        """
        V, d_V, S, d_S = self._products
        between, of_mean = V.T @ solved, V.T @ mean
        d_trace = 2.0 * np.sum((d_V @ S) * solved) + np.sum(d_S * between)
        d_energy = 2.0 * np.sum((d_V.T @ mean) * (S @ of_mean))
        d_energy += np.sum(of_mean * (d_S @ of_mean))
        return PoleForms(
            -float(np.sum(S * between)),
            -float(np.sum(of_mean * (S @ of_mean))),
            -d_trace,
            -d_energy,
        )

    # ------------------------------------------------------------ on cells and at points

    def squares(self, derivative: bool = False) -> Array:
        """Return ``u' M u`` on the cells of the data, interleaved powers, or its derivative."""
        lon, lat = self.lon.alone(), self.lat.alone()
        waves = _on_cells(lon, self.wave)
        value, slope = _on_cells(lat, self.along), _on_cells(lat, self.d_along)
        total = 0.0
        for number in range(waves.shape[1]):
            own = np.flatnonzero(self.of_column == number)
            M, d_M = (each[np.ix_(own, own)] for each in (self.spread, self.d_spread))
            u, d_u = value[:, own], slope[:, own]
            along = _product(u, M, u)
            if derivative:
                along = 2.0 * _product(d_u, M, u) + _product(u, d_M, u)
            wave = waves[:, [number]]
            around = _product(wave, np.ones((1, 1)), wave)
            total = total + np.multiply.outer(around.ravel(), along.ravel())
        return np.asarray(total)

    def captured(self, rows) -> Array:
        """Return ``u' M u`` at rows along both inputs: a cell, and weights on its functions."""
        (around, lon), (first, lat) = rows
        waves = np.einsum("nr,nrm->nm", lon, self.wave[self.lon.numbers[around]])
        values = np.einsum("nr,nrm->nm", lat, self.along[self.lat.numbers[first]])
        values = values * waves[:, self.of_column]
        return np.einsum("ni,ij,nj->n", values, self.spread, values)

    def solve(self, right: Array) -> Array:
        """Return ``A M A'`` times right-hand sides, (functions, n)."""
        A = (self.wave[:, self.of_column][:, None, :] * self.along).reshape(len(right), -1)
        return A @ (self.spread @ (A.T @ right))


def _on_cells(axis: JointAxis, coefficients: Array) -> Array:
    """Return splines with these coefficients on the cells of the data, (cells, columns, powers)."""
    return np.einsum("crp,crm->cmp", axis.pieces, coefficients[axis.numbers[axis.first]])


def _product(left: Array, middle: Array, right: Array) -> Array:
    """Return ``left' middle right`` of polynomials, (cells, powers)."""
    size = left.shape[2]
    pairs = np.einsum("cip,ij,cjq->cpq", left, middle, right)
    out = np.zeros((len(left), 2 * size - 1))
    for p in range(size):
        out[:, p : p + size] += pairs[:, p]
    return out


def near_rings(process: EarthMatern, grid: Grid) -> Array:
    """Return the latitudes of those rings around the poles that data on a grid know of."""
    rings, edges = np.array([POLE - _RING, _RING - POLE]), np.array([grid.upper, grid.lower])
    known = correlations(np.radians(np.abs(rings - edges)), process.decay, process.alpha)
    return rings[known > _UNNOTICED]


def _functionals(
    rings: Array, sites: Array, fit: Array, s: float, alpha: int
) -> tuple[Array, Array]:
    """Return coefficients along the meridian of covariances with functionals, and theirs.

    The columns of a wave are those of the rings.
    """

    def seen(lat: Array, count: int) -> Array:
        """Return means over the rings of k times 1 and cos(lon), (2, places, rings)."""
        turn = np.arange(count) * (2.0 * pi / count)
        here = np.stack([np.zeros(len(lat)), lat], axis=1)[:, None]
        waves = np.stack([np.ones(count), np.cos(turn)], axis=1) / count
        out = []
        for ring in rings:
            places = np.stack([np.degrees(turn), np.full(count, ring)], axis=1)
            out.append(correlations(distances(here, places), s, alpha) @ waves)
        return np.stack(out).transpose(2, 1, 0)

    outside, inside = seen(sites, _PLACES[0]), seen(rings, _PLACES[1])
    inside = 0.5 * (inside + inside.transpose(0, 2, 1)) * np.array([1.0, 0.5])[:, None, None]
    along = [fit @ outside[m] for m, _ in _WAVES]
    return np.concatenate(along, axis=1), np.asarray(block_diag(*(inside[m] for m, _ in _WAVES)))


@lru_cache(maxsize=64)
def _sites(
    kind: type[JointAxis], grid: Grid, degree: int, outer: int, alpha: int
) -> tuple[Array, Array]:
    """Return places on all full cells, and the matrix from values there to coefficients."""
    axis = kind(AlongEarth(nu=alpha - 1.0, lengthscale=1.0), grid, degree, 0, degree, outer)
    knots = axis.knots[degree : len(axis.knots) - degree]
    nodes, _ = np.polynomial.legendre.leggauss(degree + 1)
    places = knots[:-1, None] + 0.5 * np.diff(knots)[:, None] * (nodes + 1.0)
    x = grid.lower + grid.spacing * places.ravel()
    first, weights = axis.rows(x)
    design = np.zeros((len(x), axis.count))
    np.put_along_axis(design, axis.numbers[first], weights, axis=1)
    return x, solve(design.T @ design, design.T, assume_a="pos")


class UpdatedFactor:
    """A factor of ``P - V S V'`` from one of P."""

    def __init__(self, factor: Factor, V: Array, S: Array, leaf_index: Array, device: Device):
        self.factor, self._device = factor, device
        self._V = device.move(np.ascontiguousarray(V))
        self._solved = factor.solve(self._V)  # P^-1 V
        solved = device.back(self._solved)
        inner = V.T @ solved
        inner = 0.5 * (inner + inner.T)
        core = np.linalg.inv(np.linalg.inv(S) - inner)
        core = 0.5 * (core + core.T)
        _, log_det = np.linalg.slogdet(np.eye(len(S)) - S @ inner)
        self.log_det = factor.log_det + float(log_det)
        self._core = device.move(core)
        # T with (1 + Y T Y')**2 = 1 + Y core Y', where Y' Y is ``inner``
        half, one = _root(core), np.eye(len(S))
        between = one + _root(one + half @ inner @ half)
        self._half = device.move(half @ np.linalg.solve(between, half))
        padded = np.concatenate([solved, np.zeros((1, solved.shape[1]))])
        self._rows = device.move(padded)
        self._index = device.move(
            np.where(leaf_index < 0, len(solved), leaf_index).astype(np.int64)
        )

    @property
    def nbytes(self) -> int:
        """Bytes that the factorisation holds."""
        return self.factor.nbytes

    def solve(self, b: DeviceArray, /) -> DeviceArray:
        """Return the solutions of right-hand sides."""
        return self.factor.solve(b) + self._solved @ (self._core @ (self._solved.T @ b))

    def sample(self, z: DeviceArray, /) -> DeviceArray:
        """Return draws, made from standard normals."""
        drawn = self.factor.sample(z)
        return drawn + self._solved @ (self._half @ (self._V.T @ drawn))

    def selected_inverse(self, consume: Callable[[int, int, DeviceArray], None]) -> None:
        """Pass the inverse on the functions of each leaf to ``consume(start, stop, blocks)``."""

        def updated(start: int, stop: int, blocks: DeviceArray) -> None:
            rows = self._rows[self._index[start:stop]]
            consume(start, stop, blocks + (rows @ self._core) @ rows.swapaxes(1, 2))

        self.factor.selected_inverse(updated)


def _root(matrix: Array) -> Array:
    """Return the symmetric root of a matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
