"""Covariances of linear functionals of Gaussian processes, from the definitions of the kernels.

Nothing of the package is used but the numbers in its kernels. Over one input a kernel is an even
function g(|r|). A functional is a sum of atoms: f at a place, or its derivative or antiderivative
of some order there, so that an integral over an interval is the difference of two atoms of order
-1. The covariance of atoms of orders m and n is ``(-1)**n k^(m + n)(r)``, where negative orders
stand for repeated integrals from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, factorial, pi, sqrt

import numpy as np
from scipy.special import gamma, kv

from asvgp.kernels import SHO, Constant, Matern12, Matern32, Matern52, Matern72, Periodic
from asvgp.kernels.joint import JointMatern

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0
_ORDERS = {Matern12: 0, Matern32: 1, Matern52: 2, Matern72: 3}


class Even:
    """An even function of the lag, with its derivatives and repeated integrals."""

    panel: float  # on pieces of this length, counted from zero, it is smooth

    def right(self, order: int, t: np.ndarray) -> np.ndarray:
        """Return the derivative of some order at lags that are not negative."""
        raise NotImplementedError

    def at(self, order: int, lag: np.ndarray) -> np.ndarray:
        """Return the derivative, or with a negative order the integral from zero, at any lag."""
        t = np.abs(lag)
        values = self.right(order, t) if order >= 0 else self._integral(-order, t)
        return values if order % 2 == 0 else np.sign(lag) * values

    def _integral(self, times: int, t: np.ndarray) -> np.ndarray:
        """Integrate once or twice from zero: ``∫ g`` or ``∫ (t - s) g(s) ds``."""
        count = max(1, ceil(t.max() / self.panel)) if t.size else 1
        starts = self.panel * np.arange(count)
        nodes = starts[:, None] + self.panel * _NODES
        g = self.right(0, nodes) * _WEIGHTS * self.panel
        whole = np.concatenate([[0.0], np.cumsum(g.sum(axis=1))])
        first = np.concatenate([[0.0], np.cumsum((nodes * g).sum(axis=1))])
        number = np.minimum((t / self.panel).astype(int), count - 1)
        begin = self.panel * number
        rest = (t - begin)[..., None]
        nodes = begin[..., None] + rest * _NODES
        g = self.right(0, nodes) * _WEIGHTS * rest
        zeroth = whole[number] + g.sum(axis=-1)
        if times == 1:
            return zeroth
        return t * zeroth - first[number] - (nodes * g).sum(axis=-1)


class Decaying(Even):
    """The real part of a sum of ``c t**n exp(-rate t)``."""

    def __init__(self, terms, panel: float):
        self.terms, self.panel = terms, panel

    def right(self, order: int, t: np.ndarray) -> np.ndarray:
        """Return the derivative of some order at lags that are not negative."""
        terms = self.terms
        for _ in range(order):
            lower = [(c * n, n - 1, rate) for c, n, rate in terms if n]
            terms = lower + [(-c * rate, n, rate) for c, n, rate in terms]
        out = np.zeros(np.shape(t))
        for c, n, rate in terms:
            out = out + np.real(c * np.exp(-rate * t)) * t**n
        return out


def matern(p: int, lengthscale: float) -> Decaying:
    """Return the Matérn correlation with smoothness p + 1/2."""
    rate = sqrt(2 * p + 1) / lengthscale
    front = factorial(p) / factorial(2 * p)
    terms = [
        (front * comb(p, i) * factorial(p + i) / factorial(p) * (2 * rate) ** (p - i), p - i, rate)
        for i in range(p + 1)
    ]
    return Decaying(terms, 2.0 * lengthscale)


def oscillator(period: float, quality: float) -> Decaying:
    """Return the correlation of a damped oscillator driven by white noise."""
    omega = 2.0 * pi / period
    decay = omega / (2.0 * quality)
    if quality == 0.5:
        terms = [(1.0, 0, omega), (omega, 1, omega)]
    else:
        frequency = np.sqrt(complex(omega**2 - decay**2))
        half = 0.5 * (1.0 - 1j * decay / frequency)
        other = 0.5 * (1.0 + 1j * decay / frequency)
        terms = [(half, 0, decay - 1j * frequency), (other, 0, decay + 1j * frequency)]
    return Decaying(terms, min(0.5 * period, 4.0 / decay))


class Wrapped(Even):
    """A Matérn correlation wrapped around a circle, of variance one, centred or not."""

    def __init__(self, kernel: Periodic):
        self.period = kernel.period
        self.line = matern(round(kernel.nu - 0.5), kernel.lengthscale)
        self.turns = ceil(60.0 * kernel.lengthscale / kernel.period) + 1
        self.panel = self.period / max(2, ceil(self.period / self.line.panel))
        self.level, self.share, self.size = 0.0, 0.0, 1.0
        if kernel.centred:
            edges = self.panel * np.arange(round(self.period / self.panel))
            nodes = edges[:, None] + self.panel * _NODES
            self.level = (self._sum(0, nodes) @ _WEIGHTS).mean()
            self.share = 1e-6
        self.size = self._sum(0, np.zeros(())) - self.level

    def _sum(self, order: int, t: np.ndarray) -> np.ndarray:
        total = self.line.right(order, t)
        for j in range(1, self.turns + 1):
            total = total + self.line.right(order, t + j * self.period)
            total = total + (-1) ** order * self.line.right(order, j * self.period - t)
        return total

    def right(self, order: int, t: np.ndarray) -> np.ndarray:
        """Return the derivative of some order at lags that are not negative."""
        around = self._sum(order, np.mod(t, self.period))
        if order == 0:
            around = around - self.level + self.share * self.size
        return around / (self.size * (1.0 + self.share))


class Times(Even):
    """The product of two even functions."""

    def __init__(self, one: Even, other: Even):
        self.one, self.other = one, other
        circle, line = (one, other) if isinstance(one, Wrapped) else (other, one)
        self.panel = circle.panel / ceil(circle.panel / line.panel)

    def right(self, order: int, t: np.ndarray) -> np.ndarray:
        """Return the derivative of some order at lags that are not negative."""
        out = np.zeros(np.shape(t))
        for i in range(order + 1):
            out = out + comb(order, i) * self.one.right(i, t) * self.other.right(order - i, t)
        return out


def even(kernel) -> Even:
    """Return the correlation of a kernel over one input."""
    if isinstance(kernel, Periodic):
        return Wrapped(kernel)
    if isinstance(kernel, SHO):
        return oscillator(kernel.period, kernel.quality)
    return matern(_ORDERS[type(kernel)], kernel.lengthscale)


class Joint:
    """A Matérn correlation over several inputs jointly: ``c r**nu K_nu(r)``."""

    def __init__(self, kernel: JointMatern):
        count = len(kernel.dim)
        lengths = kernel.lengthscale if isinstance(kernel.lengthscale, tuple) else None
        lengths = np.array(lengths or [kernel.lengthscale] * count)
        self.nu, self.to_units = kernel.nu, np.diag(sqrt(2.0 * kernel.nu) / lengths)
        if kernel.rotation is not None:
            c, s = np.cos(kernel.rotation), np.sin(kernel.rotation)
            self.to_units = self.to_units @ np.array([[c, s], [-s, c]])

    def _bessel(self, nu: float, r: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            values = 2.0 ** (1.0 - self.nu) / gamma(self.nu) * r**nu * kv(nu, r)
        at_zero = 2.0 ** (nu - self.nu) * gamma(nu) / gamma(self.nu) if nu > 0.0 else np.inf
        return np.where(r > 0.0, values, at_zero)

    def between(self, x, y, one, other) -> np.ndarray:
        """Return covariances of f, or of one of its first derivatives, at x and y."""
        lag = (x[:, None, :] - y[None, :, :]) @ self.to_units.T
        r = np.sqrt((lag**2).sum(axis=-1))
        orders = sum(one) + sum(other)
        if orders == 0:
            return self._bessel(self.nu, r)
        # d/dr (r**nu K_nu) = -r**nu K_(nu - 1), and r**(nu - 1) K_(nu - 1) is even and smooth
        slope = -self._bessel(self.nu - 1.0, r)
        into = [lag @ self.to_units[:, axis] for axis in range(x.shape[1])]
        if orders == 1:
            (axis,) = np.flatnonzero(np.add(one, other))
            return slope * into[axis] * (1.0 if sum(one) else -1.0)
        (a,), (b,) = np.flatnonzero(one), np.flatnonzero(other)
        metric = self.to_units[:, a] @ self.to_units[:, b]
        with np.errstate(invalid="ignore"):
            bend = self._bessel(self.nu - 2.0, r) * into[a] * into[b]
        return -(slope * metric + np.where(r > 0.0, bend, 0.0))


@dataclass
class Atoms:
    """Linear functionals: ``combine`` adds atoms at ``points`` with ``orders`` per input."""

    points: np.ndarray
    orders: np.ndarray
    combine: np.ndarray | None = None

    @classmethod
    def at(cls, points, orders=None) -> Atoms:
        """Return the functions themselves, or a derivative, at places."""
        points = np.asarray(points, float)
        points = points[:, None] if points.ndim == 1 else points
        orders = np.zeros(points.shape[1], int) if orders is None else np.asarray(orders)
        return cls(points, np.broadcast_to(orders, points.shape))

    @classmethod
    def integrals(cls, a, b, average: bool = False) -> Atoms:
        """Return integrals, or averages, over boxes."""
        a, b = (np.asarray(end, float).reshape(len(a), -1) for end in (a, b))
        n, inputs = a.shape
        sides = np.array(np.meshgrid(*[[0, 1]] * inputs, indexing="ij")).reshape(inputs, -1).T
        points = np.where(sides[None], b[:, None], a[:, None])
        signs = np.prod(2 * sides - 1, axis=1)
        combine = np.kron(np.eye(n), signs[None, :])
        if average:
            combine /= np.prod(b - a, axis=1)[:, None]
        points = points.reshape(-1, inputs)
        return cls(points, np.full(points.shape, -1), combine)

    @classmethod
    def averages(cls, x, width) -> Atoms:
        """Return averages over ``[x, x + width]``, or f where the width is zero."""
        x, width = np.asarray(x, float).ravel(), np.broadcast_to(width, np.size(x))
        wide = np.flatnonzero(width > 0.0)
        points = np.concatenate([x, x[wide] + width[wide]])
        orders = np.concatenate([np.where(width > 0.0, -1, 0), np.full(len(wide), -1)])
        combine = np.zeros((len(x), len(points)))
        combine[np.arange(len(x)), np.arange(len(x))] = np.where(width > 0.0, -1.0, 1.0)
        combine[wide, len(x) + np.arange(len(wide))] = 1.0
        combine[wide] /= width[wide, None]
        return cls(points[:, None], orders[:, None], combine)

    def groups(self) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Return the orders that there are, with the numbers of their atoms."""
        unique, inverse = np.unique(self.orders, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        return [
            (tuple(map(int, row)), np.flatnonzero(inverse == i)) for i, row in enumerate(unique)
        ]

    def sums(self, matrix: np.ndarray) -> np.ndarray:
        """Return what the rows of atoms add up to."""
        return matrix if self.combine is None else self.combine @ matrix


class Process:
    """One component of a kernel: products of correlations over one input, or joint ones."""

    def __init__(self, kernel):
        self.variance = float(kernel.values[-1])
        self.along: dict[int, Even] = {}
        self.joint: list[tuple[tuple[int, ...], Joint]] = []
        for factor in kernel.factors:
            if isinstance(factor, JointMatern):
                self.joint.append((tuple(factor.dim), Joint(factor)))
                continue
            dim = factor.dim or 0
            new = even(factor)
            self.along[dim] = Times(self.along[dim], new) if dim in self.along else new

    def covariance(self, one: Atoms, other: Atoms) -> np.ndarray:
        """Return the covariances of two sets of functionals."""
        atoms = np.empty((len(one.points), len(other.points)))
        for m, rows in one.groups():
            for n, columns in other.groups():
                x, y = one.points[rows], other.points[columns]
                value = np.full((len(rows), len(columns)), self.variance)
                for dim, g in self.along.items():
                    sign = -1.0 if n[dim] % 2 else 1.0
                    value = value * sign * g.at(m[dim] + n[dim], x[:, None, dim] - y[None, :, dim])
                for dims, joint in self.joint:
                    picked = list(dims)
                    orders = [m[d] for d in dims], [n[d] for d in dims]
                    value = value * joint.between(x[:, picked], y[:, picked], *orders)
                of = set(self.along).union(*(dims for dims, _ in self.joint))
                if any((m[d], n[d]) != (0, 0) for d in range(len(m)) if d not in of):
                    value = value * self._constant(m, x, of)[:, None]
                    value = value * self._constant(n, y, of)[None, :]
                atoms[np.ix_(rows, columns)] = value
        return other.sums(one.sums(atoms).T).T

    @staticmethod
    def _constant(orders, x: np.ndarray, of: set[int]) -> np.ndarray:
        """Return functionals of one along inputs that the component does not depend on."""
        out = np.ones(len(x))
        for d, order in enumerate(orders):
            if d not in of and order:
                out = out * (x[:, d] if order == -1 else 0.0)
        return out


class Known:
    """A fixed effect: a known function times a coefficient with a normal prior."""

    def __init__(self, effect):
        self.variance = effect.variance
        self.dim = None if isinstance(effect, Constant) else (effect.dim or 0)

    def values(self, atoms: Atoms) -> np.ndarray:
        """Return functionals of the known function."""
        out = np.ones(len(atoms.points))
        for d, x in enumerate(atoms.points.T):
            order, linear = atoms.orders[:, d], d == self.dim
            whole = 0.5 * x**2 if linear else x
            itself, slope = (x, np.ones_like(x)) if linear else (np.ones_like(x), np.zeros_like(x))
            out = out * np.select(
                [order == -1, order == 0, order == 1], [whole, itself, slope], 0.0
            )
        return atoms.sums(out[:, None])[:, 0]

    def covariance(self, one: Atoms, other: Atoms) -> np.ndarray:
        """Return the covariances of two sets of functionals."""
        return self.variance * np.outer(self.values(one), self.values(other))
