"""Matérn kernels over two or three inputs jointly: functions of a distance, not products.

In coordinates ``u_d = x_d / s_d`` with ``s = lengthscale / sqrt(2 nu)`` the spectral density is
``q / (1 + |omega|**2)**alpha`` with ``alpha = nu + D / 2``. Where alpha is a whole number the
squared RKHS norm is local, ``1/q`` times the integral of ``|(1 - Laplace)**(alpha / 2) f|**2`` over
the whole space, and needs no boundary terms.
"""

# pyright: reportIncompatibleVariableOverride=false
# (class attributes of other components, properties here: both are read only)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, cos, exp, gamma, inf, lgamma, log, pi, prod, sin, sqrt
from numbers import Real
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from scipy.special import kve

from asvgp.basis import Array, Grid
from asvgp.kernels.base import Component, Unset, _readable

SMOOTHNESS = {2: (1.0, 2.0, 3.0), 3: (0.5, 1.5, 2.5)}  # by the number of inputs
_NEAR = 1e-8  # distance in decay lengths that stands for zero


def bessel(order: float, r: Array) -> Array:
    """Return ``r**order K_order(r)``, K being the modified Bessel function, for any real order."""
    away = np.maximum(r, _NEAR)
    value = away**order * kve(order, away) * np.exp(-away)
    if order <= 0.0:
        return value
    return np.where(r < _NEAR, 2.0 ** (order - 1.0) * gamma(order), value)


class JointSmoothness:
    """What the smoothness and the number of inputs of a joint kernel say of its splines."""

    nu: float
    inputs: int  # D, of the joint kernel

    @property
    def alpha(self) -> int:
        """``nu + D / 2``: half the order of the differential operator."""
        return round(self.nu + 0.5 * self.inputs)

    @property
    def order(self) -> int:
        """The number of derivatives of the process."""
        return ceil(self.nu) - 1

    @property
    def least_degree(self) -> int:
        """Smallest degree of splines that have a norm."""
        return self.alpha

    @property
    def default_degree(self) -> int:
        """Spline degree that is used unless the user asks for another one."""
        return self.alpha + 1


@dataclass(frozen=True, repr=False)
class JointMatern(JointSmoothness, Component):
    """A Matérn kernel over two or three inputs jointly, as `Matern` makes it.

    ``lengthscale`` is a number or has one entry per input, ``dim`` has one column per input, or is
    None for all columns of X. With a ``rotation`` the two lengthscales are those along axes that
    are turned by this angle, in radians.
    """

    nu: float
    lengthscale: float | tuple[float, ...] = Unset(1.0)
    variance: float = 1.0
    dim: tuple[int | str, ...] | None = None
    rotation: float | None = None

    def __post_init__(self) -> None:
        if self.dim is not None:
            object.__setattr__(self, "dim", _checked_dim(self.dim))
        object.__setattr__(self, "nu", _checked_nu(self.nu, self.dim))
        length = self.lengthscale
        if isinstance(length, Sequence) and not isinstance(length, str):
            wanted = len(self.dim) if self.dim else _inputs_of(self.nu)
            if wanted is not None and len(length) != wanted:
                raise ValueError(
                    f"Matern: {len(length)} lengthscales for {wanted} inputs; give one for all, or "
                    "one for each."
                )
            if self.dim is None and not 2 <= len(length) <= 3:
                raise ValueError(
                    f"Matern: {len(length)} lengthscales; there are two or three inputs."
                )
            object.__setattr__(self, "lengthscale", tuple(length))
            for name, value in zip(self.scales, length, strict=True):
                object.__setattr__(self, name, value)
        if self.rotation is not None and (len(self.scales) != 2 or len(self.dim or (0, 1)) != 2):
            raise ValueError("Matern: a rotation takes two inputs, with a lengthscale for each.")
        if isinstance(self.rotation, int | float) and -inf < self.rotation <= 0.0:
            same = f"{self.rotation % pi:.6g}, which turns as far" if self.rotation % pi else "none"
            raise ValueError(
                f"Matern: rotation must be positive, got {self.rotation!r} radians. Give {same}."
            )
        super().__post_init__()
        if isinstance(self.lengthscale, tuple):
            lengths = tuple(getattr(self, name) for name in self.scales)
            object.__setattr__(self, "lengthscale", lengths)

    @property
    def written_name(self) -> str:
        """Name of the class, as users write it."""
        return "Matern"

    # ------------------------------------------------------------ hyperparameters

    @property
    def scales(self) -> tuple[str, ...]:
        """Names of the lengths in units of inputs."""
        if not isinstance(self.lengthscale, tuple):
            return ("lengthscale",)
        return tuple(f"lengthscale[{d}]" for d in self.dim or range(len(self.lengthscale)))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the hyperparameters: one lengthscale, or one per input, and the variance."""
        turned = () if self.rotation is None else ("rotation",)
        return (*self.scales, *turned, "variance")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some hyperparameters changed, or over other inputs."""
        if not isinstance(self.lengthscale, tuple):
            return replace(self, **changes)
        own = {name: changes.pop(name) for name in self.scales if name in changes}
        if own:
            changes["lengthscale"] = tuple(own.get(n, getattr(self, n)) for n in self.scales)
        if "dim" in changes:
            settings = {"fixed": self.fixed, "bounds": self.bounds} | changes
            bare = replace(self, **{**changes, "fixed": (), "bounds": {}})
            names = dict(zip(self.scales, bare.scales, strict=True))
            changes["fixed"] = tuple(names.get(name, name) for name in settings["fixed"])
            changes["bounds"] = {names.get(n, n): pair for n, pair in settings["bounds"].items()}
        return replace(self, **changes)

    def _with(self, **values) -> Self:
        """Return a copy with other values; lengthscales by input make one tuple."""
        return self.replace(**values)

    def name_of(self, factor: Component, parameter: str) -> str:
        """Return the name of a hyperparameter, also of the process along one of the inputs."""
        if isinstance(factor, AlongJoint) and len(self.scales) > 1 and parameter == "lengthscale":
            return f"lengthscale[{factor.dim}]"
        return parameter

    def written(self, fixed: Any, bounds: Any) -> str:
        """Return the kernel as code, with these settings for training."""
        length = self.lengthscale
        shown = _readable(length) if not isinstance(length, tuple) else None
        shown = shown or f"({', '.join(map(_readable, length))})"  # pyright: ignore
        parts = [f"nu={self.nu:g}", f"lengthscale={shown}", f"variance={_readable(self.variance)}"]
        if self.rotation is not None:
            parts.append(f"rotation={_readable(self.rotation)}")
        settings = {"dim": self.dim, "fixed": fixed, "bounds": bounds}
        parts += [f"{name}={value!r}" for name, value in settings.items() if value]
        return f"Matern({', '.join(parts)})"

    # ------------------------------------------------------------ the process

    @property
    def inputs(self) -> int:
        """Number of inputs D."""
        if self.dim is not None:
            return len(self.dim)
        if isinstance(self.lengthscale, tuple):
            return len(self.lengthscale)
        return _inputs_of(self.nu) or 2

    @property
    def lengths(self) -> tuple[float, ...]:
        """The lengthscale along every input."""
        length = self.lengthscale
        return length if isinstance(length, tuple) else (length,) * self.inputs

    @property
    def resolved_length(self) -> float:
        """Length that cells must resolve: the shortest."""
        return min(self.lengths)

    @property
    def memory(self) -> float:
        """Distance over which the process forgets its state."""
        return max(self.lengths)

    @property
    def along(self) -> tuple[AlongJoint, ...]:
        """The process along every input, the others at rest."""
        lengths = self.lengths
        if self.rotation is not None:
            lengths = (min(lengths),) * len(lengths)
        dims: Sequence[Any] = self.dim or (None,) * self.inputs
        turned = self.rotation is not None
        longest = (max(self.lengths),) * len(lengths) if turned else lengths
        return tuple(
            AlongJoint(
                nu=self.nu,
                lengthscale=float(length),
                dim=dim,
                inputs=self.inputs,
                turned=turned,
                reach=float(reach),
            )
            for length, dim, reach in zip(lengths, dims, longest, strict=True)
        )

    @property
    def metric(self) -> tuple[Array, Array]:
        """A of ``1 + omega' A omega``, and its derivatives by all parameters but the variance."""
        s2 = np.array(self.lengths, dtype=float) ** 2 / (2.0 * self.nu)
        if len(self.scales) == 1:
            return np.diag(s2), 2.0 * np.diag(s2)[None]
        if self.rotation is None:
            return np.diag(s2), np.stack([2.0 * np.diag(row) for row in np.diag(s2)])
        c, s = cos(self.rotation), sin(self.rotation)
        axes = np.array([[c, s], [-s, c]])  # rows: the directions of the two lengthscales
        slope = np.array([[-s, c], [-c, -s]]) * self.rotation
        parts = [2.0 * s2[i] * np.outer(axes[i], axes[i]) for i in range(2)]
        half = slope.T @ (s2[:, None] * axes)
        return axes.T @ (s2[:, None] * axes), np.stack([*parts, half + half.T])

    def _squared(self, lag: Array) -> Array:
        """Return the squared distance in decay lengths of lags (..., D)."""
        solved = np.linalg.solve(self.metric[0], lag[..., None])[..., 0]
        return np.sum(lag * solved, axis=-1)

    def covariance(self, lag: Any) -> Array:
        """Evaluate the covariance at lags along every input, (..., D)."""
        r = np.sqrt(np.maximum(self._squared(np.asarray(lag, dtype=float)), 0.0))
        return self.variance * 2.0 ** (1.0 - self.nu) / gamma(self.nu) * bessel(self.nu, r)

    def derivative_covariance(self, lag: Any, orders: Sequence[int]) -> Array:
        """Return the prior covariance of a derivative of f at places that are lags (..., D) apart.

        The covariance is a function g of the squared distance; its derivatives are of the same
        kind, of lower smoothness.
        """
        lag = np.asarray(lag, dtype=float)
        if not any(orders):
            return self.covariance(lag)
        inverse = np.linalg.inv(self.metric[0])
        shape, D = lag.shape[:-1], lag.shape[-1]
        steps = [d for d, order in enumerate(orders) for _ in range(2 * order)]
        r = np.sqrt(np.maximum(self._squared(lag), 0.0)).ravel()
        u = (lag @ inverse).reshape(-1, D)  # half the gradient of the squared distance
        # terms by (powers of u, derivative of g): differentiate one step at a time
        terms: dict[tuple[tuple[int, ...], int], float] = {((0,) * D, 0): 1.0}
        for d in steps:
            new: dict[tuple[tuple[int, ...], int], float] = {}
            for (powers, m), c in terms.items():
                up = tuple(p + (e == d) for e, p in enumerate(powers))
                new[up, m + 1] = new.get((up, m + 1), 0.0) + 2.0 * c
                for e, p in enumerate(powers):
                    if p and inverse[e, d]:
                        down = tuple(q - (f == e) for f, q in enumerate(powers))
                        new[down, m] = new.get((down, m), 0.0) + c * p * inverse[e, d]
            terms = new
        out = np.zeros(len(r))
        for (powers, m), c in terms.items():
            g = (-0.5) ** m * bessel(self.nu - m, r)
            out += c * np.prod(u ** np.array(powers), axis=1) * g
        out *= (-1.0) ** sum(orders) * self.variance * 2.0 ** (1.0 - self.nu) / gamma(self.nu)
        out = np.where(r < 1e-6, self.variance * self.derivative_variance(orders), out)
        return out.reshape(shape)

    def between(self, x: Array, y: Array, orders: Sequence[int] = ()) -> Array:
        """Return the prior covariance of f, or of a derivative, between places (n, D), (m, D)."""
        return self.derivative_covariance(x[:, None] - y, orders)

    def derivative_variance(self, orders: Sequence[int]) -> float:
        """Return the prior variance of a derivative of f, at variance one: a spectral moment."""
        j = sum(orders)
        if not j:
            return 1.0
        radial = exp(lgamma(self.nu - j) - lgamma(self.nu)) / pi ** (0.5 * self.inputs)
        inverse = np.linalg.inv(self.metric[0])
        if self.rotation is None:
            moments = (gamma(o + 0.5) * inverse[d, d] ** o for d, o in enumerate(orders))
            return radial * prod(moments)
        # Moments of normal variables with covariance 1/2 A^-1 in place of independent ones
        steps = tuple(d for d, order in enumerate(orders) for _ in range(2 * order))
        return exp(lgamma(self.nu - j) - lgamma(self.nu)) * _gaussian_moment(0.5 * inverse, steps)

    @property
    def log_density(self) -> float:
        """``log q`` of the spectral density in decay lengths, at variance one."""
        D = self.inputs
        return 0.5 * D * log(4.0 * pi) + lgamma(self.alpha) - lgamma(self.nu)

    def stencil(self, spacing: Sequence[float]) -> tuple[Array, Array]:
        """Return coefficients of K at variance one by powers of omega, and their derivatives.

        K is the sum of them times Kronecker products of tables ``T_p`` along the inputs, in units
        of the ``spacing``; the powers p are even without a rotation and then counted by two.
        Derivatives are by the logarithms of all parameters but the variance.
        """
        metric, slopes = self.metric
        h = np.asarray(spacing, dtype=float)
        metric, slopes = metric / np.outer(h, h), slopes / np.outer(h, h)
        step, D = 2 if self.rotation is None else 1, self.inputs
        size = 2 * self.alpha // step + 1

        def quadratic(form: Array, constant: float) -> dict[tuple[int, ...], float]:
            out = {(0,) * D: constant}
            for d, e in product(range(D), repeat=2):
                if form[d, e]:
                    power = [0] * D
                    power[d] += 1
                    power[e] += 1
                    key = tuple(p // step for p in power)
                    out[key] = out.get(key, 0.0) + form[d, e]
            return out

        base, powered = quadratic(metric, 1.0), {(0,) * D: 1.0}
        for _ in range(self.alpha - 1):
            powered = _multiplied(powered, base)
        scale = exp(-self.log_density) / sqrt(np.linalg.det(metric))
        value = _tensor(_multiplied(powered, base), D, size) * scale
        d_value = []
        for slope in slopes:
            part = _tensor(_multiplied(powered, quadratic(slope, 0.0)), D, size)
            volume = 0.5 * float(np.trace(np.linalg.solve(metric, slope)))
            d_value.append(self.alpha * scale * part - volume * value)
        if step == 1:  # i omega stands for a derivative: two odd powers make i * i
            odd = np.indices(value.shape) % 2
            sign = np.where(odd.sum(axis=0) == 2, -1.0, 1.0)
            value, d_value = value * sign, [part * sign for part in d_value]
        return value, np.stack(d_value)

    def markov(self, spacing: float = 1.0) -> NoReturn:
        """Raise an error: a place does not part the plane in two."""
        raise TypeError(f"{self!r} is over several inputs: it has no Markov form on a line.")

    def transition(self, lag: Any) -> NoReturn:
        """Raise an error, as `markov` does."""
        self.markov()

    # ------------------------------------------------------------ training

    def limits(self, grid: Any, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return bounds from far below the knot spacing to far above the domain.

        ``grid`` maps inputs to grids.
        """
        grids = [grid[d] for d in self.dim or ()]
        ends = [(1e-2 * g.spacing, 1e2 * (g.upper - g.lower)) for g in grids]
        if len(self.scales) == 1 or self.rotation is not None:
            ends = [(min(low for low, _ in ends), max(high for _, high in ends))] * len(self.scales)
        out = dict(zip(self.scales, ends, strict=True))
        if self.rotation is not None:
            out["rotation"] = (0.02, 2.0 * pi)  # half a turn is none: training begins between
        return out | {"variance": (1e-10 * spread, 1e3 * power)}

    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Self]:
        """Return one copy per entry of ``lengths``: a length, or lengths by input."""
        out = []
        for length in lengths:
            if isinstance(length, Mapping):
                along = [length[d] for d in self.dim or ()]
            else:
                along = [length] * self.inputs
            if len(self.scales) == 1:
                along = [exp(sum(map(log, along)) / len(along))]
            changes = dict(zip(self.scales, along, strict=True)) | {"variance": variance}
            out.append(self.replace_free(changes))
        return out


@dataclass(frozen=True, repr=False)
class AlongJoint(JointSmoothness, Component):
    """A joint Matérn kernel along one of its inputs, the others at rest: of variance one."""

    nu: float
    lengthscale: float
    variance: float = 1.0
    dim: int | str | None = None
    inputs: int = 2  # of the joint kernel
    turned: bool = False  # True with a rotation
    reach: float = 0.0  # the longer of two turned lengthscales

    parameters: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")
    scales: ClassVar[tuple[str, ...]] = ("lengthscale",)

    @property
    def written_name(self) -> str:
        """Name of the class, as users write it."""
        return "Matern"

    @property
    def decay(self) -> float:
        """Decay length of the covariance."""
        return self.lengthscale / sqrt(2.0 * self.nu)

    @property
    def memory(self) -> float:
        """Distance over which the process forgets its state."""
        return self.lengthscale

    def covariance(self, lag) -> Array:
        """Evaluate the covariance at distances along the input."""
        r = np.abs(np.asarray(lag, dtype=float)) / self.decay
        return self.variance * 2.0 ** (1.0 - self.nu) / gamma(self.nu) * bessel(self.nu, r)

    def markov(self, spacing: float = 1.0) -> NoReturn:
        """Raise an error: the process is not one of a single input."""
        raise TypeError(f"{self!r} is a part of a joint kernel: it has no Markov form.")

    def transition(self, lag) -> NoReturn:
        """Raise an error, as `markov` does."""
        self.markov()

    def limits(self, grid: Grid, spread: float, power: float) -> NoReturn:
        """Raise an error: the whole kernel has limits."""
        self.markov()

    def candidates(self, lengths, periods, variance: float) -> NoReturn:
        """Raise an error: the whole kernel has candidates."""
        self.markov()


def _checked_dim(dim: Any) -> tuple[int | str, ...]:
    """Return the columns of a joint kernel, or raise an error."""
    if isinstance(dim, str) or not isinstance(dim, Sequence):
        raise TypeError(f"Matern: dim must be a column, or two or three of them, got {dim!r}.")
    if not 2 <= len(dim) <= 3:
        advice = f"; for one, give dim={dim[0]!r}" if len(dim) == 1 else ""
        named = "1 column" if len(dim) == 1 else f"{len(dim)} columns"
        raise ValueError(
            f"Matern: dim names {named}, but a joint kernel is over two or three{advice}."
        )
    for column in dim:
        if isinstance(column, bool) or not isinstance(column, int | str | np.integer):
            raise TypeError(f"Matern: dim must hold numbers or names of columns, got {dim!r}.")
    if len(set(dim)) < len(dim):
        raise ValueError(f"Matern: dim={tuple(dim)!r} names a column twice.")
    return tuple(d if isinstance(d, str) else int(d) for d in dim)


def _checked_nu(nu: Any, dim: Sequence[Any] | None) -> float:
    """Return the smoothness, or raise an error that lists those there are."""
    allowed = (
        SMOOTHNESS[len(dim)] if dim else tuple(v for pair in SMOOTHNESS.values() for v in pair)
    )
    if not isinstance(nu, Real) or isinstance(nu, bool) or float(nu) not in allowed:
        known = (f"{count} inputs {_listed(values)}" for count, values in SMOOTHNESS.items())
        where = f" over {len(dim)} inputs" if dim else ""
        raise ValueError(
            f"Matern: there is no nu={nu!r}{where}. nu may be 1/2, 3/2, 5/2 or 7/2 over one input, "
            f"over {' and over '.join(known)}."
        )
    return float(nu)


def _listed(values: Sequence[float]) -> str:
    words = [f"{int(2 * v)}/2" if v % 1 else f"{v:g}" for v in values]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _inputs_of(nu: float) -> int | None:
    """Return the number of inputs that a smoothness belongs to."""
    return next((count for count, values in SMOOTHNESS.items() if nu in values), None)


def _multiplied(a: dict, b: dict) -> dict[tuple[int, ...], float]:
    """Return the product of two polynomials in several variables."""
    out: dict[tuple[int, ...], float] = {}
    for (p, x), (q, y) in product(a.items(), b.items()):
        key = tuple(i + j for i, j in zip(p, q, strict=True))
        out[key] = out.get(key, 0.0) + x * y
    return out


def _tensor(polynomial: dict, inputs: int, size: int) -> Array:
    out = np.zeros((size,) * inputs)
    for powers, value in polynomial.items():
        out[powers] = value
    return out


def _gaussian_moment(covariance: Array, steps: tuple[int, ...]) -> float:
    """Return the mean of a product of centred normal variables, by pairs (Isserlis)."""
    if not steps:
        return 1.0
    first, *rest = steps
    total = 0.0
    for i, other in enumerate(rest):
        left = (*rest[:i], *rest[i + 1 :])
        total += covariance[first, other] * _gaussian_moment(covariance, left)
    return total
