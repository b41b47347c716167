"""The Matérn family of smoothness nu = p + 1/2 and order p, from one implementation.

A kernel of order p is the stationary solution of ``(d + lambda)**(p + 1) f = white noise``
with ``lambda = sqrt(2 nu) / lengthscale``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from math import comb, factorial, gamma, log, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels.base import Component, MarkovForm, Unset
from asvgp.kernels.earth import EarthMatern
from asvgp.kernels.joint import JointMatern
from asvgp.runtime.arguments import NamingClass


@lru_cache
def _polynomial(p: int) -> Array:
    """Return the coefficients of the covariance's polynomial in z, the constant first."""
    scale = factorial(p) / factorial(2 * p)
    terms = [comb(p, i) * factorial(p + i) / factorial(p) * 2.0 ** (p - i) for i in range(p + 1)]
    return scale * np.array(terms[::-1])


def _horner(coefficients: Array, z: Array) -> Array:
    """Evaluate a polynomial whose constant comes first."""
    out = np.full_like(z, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = out * z + c
    return out


@lru_cache
def _stationary(p: int) -> tuple[Array, Array]:
    """Return the covariance of ``(f, f', ..., f^(p))`` at unit rate and variance, and half powers.

    From the spectral moments of the Student t density: entry (i, j) is, up to its sign,
    ``E[omega**(i + j)]``, and goes with ``rate**(i + j)``.
    """
    covariance = np.zeros((p + 1, p + 1))
    for i in range(p + 1):
        for j in range(i % 2, p + 1, 2):
            m = (i + j) // 2
            moment = gamma(m + 0.5) * gamma(p + 0.5 - m) / (sqrt(pi) * gamma(p + 0.5))
            covariance[i, j] = (-1) ** ((i - j) // 2) * moment
    return covariance, np.add.outer(np.arange(p + 1), np.arange(p + 1)) / 2.0


class MaternFamily(NamingClass):
    """Makes ``Matern(nu, ...)`` the kernel of that smoothness: a subclass, or a joint one."""

    def made(cls, *args: Any, **settings: Any) -> Any:
        """Return an instance."""
        if cls is Matern:
            return _of_smoothness(*args, **settings)
        return super().made(*args, **settings)

    @property
    def maker(cls) -> Any:
        """The function whose arguments a call takes."""
        return _of_smoothness if cls is Matern else super().maker


@dataclass(frozen=True, repr=False)
class Matern(Component, metaclass=MaternFamily):
    """A Matérn kernel over one input, or jointly over two or three inputs.

    Over two or three inputs it is a function of the distance between two places, which is what most
    people mean by a Matérn kernel on a map. (It is not a product of kernels over one input each.)
    Over one input it is the same as `Matern12`, `Matern32`, `Matern52` or `Matern72`.

    Parameters
    ----------
    nu : float
        Smoothness: 1/2, 3/2, 5/2 or 7/2 over one input; 1, 2 or 3 over two inputs; 1/2, 3/2 or 5/2
        over three inputs.
    lengthscale : float, or one per input
        Distance over which the function changes, in the units of the inputs. A single number holds
        for all inputs.
    variance : float
        Prior variance of the function.
    dim : int or str, or a tuple of them
        The inputs, by number or by name. By default all of them.
    rotation : float, optional
        Angle in radians between the inputs and the axes of two lengthscales, from the first input
        towards the second. Only for two inputs. If it is given, it is trained.
    coordinates : "degrees", optional
        Give this if the two inputs are longitude and latitude in degrees, in this order. The kernel
        is then a function of the great-circle distance. The lengthscale is in degrees of arc (111
        km each) and at most 90. Longitudes a turn apart are the same; if the data span more than
        half a turn, the map closes around the Earth. Data may lie at latitudes up to 86 degrees.
        From 88 degrees to the poles, predictions are those of the prior.
    fixed, bounds
        The same as in `Matern12`. The lengthscale of one input is called ``"lengthscale[lon]"``.

    Examples
    --------
    >>> from asvgp import Matern
    >>> kernel = Matern(1, lengthscale=5.0, dim=("lon", "lat"))
    >>> kernel
    Matern(nu=1, lengthscale=5.0, variance=1.0, dim=('lon', 'lat'))
    >>> kernel.parameters
    ('lengthscale', 'variance')
    >>> Matern(1, (5.0, 2.0), dim=(0, 1)).covariance([[5.0, 0.0], [0.0, 2.0]]).round(3)
    array([0.444, 0.444])
    >>> Matern(3 / 2, 2.0, dim="time")
    Matern32(lengthscale=2.0, variance=1.0, dim='time')
    """

    lengthscale: float = Unset(1.0)
    variance: float = 1.0
    dim: int | str | None = None

    parameters: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")
    scales: ClassVar[tuple[str, ...]] = ("lengthscale",)
    nu: ClassVar[float]

    if TYPE_CHECKING:  # the metaclass takes these; checkers and the documentation look here

        def __init__(
            self,
            nu: float,
            lengthscale: float | str | timedelta | Sequence[float] = 1.0,
            variance: float = 1.0,
            dim: int | str | tuple[int | str, ...] | None = None,
            rotation: float | None = None,
            coordinates: str | None = None,
            *,
            fixed: str | tuple[str, ...] = (),
            bounds: Mapping[str, tuple[float, float]] = {},
        ) -> None: ...

    @property
    def order(self) -> int:
        """The number of derivatives: nu - 1/2."""
        return int(self.nu)

    @property
    def rate(self) -> float:
        """``lambda``, the decay rate of the covariance."""
        return sqrt(2 * self.order + 1) / self.lengthscale

    def covariance(self, lag: Any) -> Array:
        """Evaluate ``variance * polynomial(lag) * exp(-lambda lag)``."""
        z = self.rate * np.asarray(lag, dtype=float)
        return self.variance * _horner(_polynomial(self.order), z) * np.exp(-z)

    def slopes(self, lag: Any) -> Array:
        """Return derivatives of the covariance by the log-parameters; the last is itself."""
        z = self.rate * np.asarray(lag, dtype=float)
        polynomial = _polynomial(self.order)  # P: the derivative is z (P - P') exp(-z)
        falling = polynomial.copy()
        falling[:-1] -= np.arange(1, len(polynomial)) * polynomial[1:]
        rows = np.array([z * _horner(falling, z), _horner(polynomial, z)])
        return self.variance * np.exp(-z) * rows

    def markov(self, spacing: float = 1.0) -> MarkovForm:
        """Return the process in units of ``spacing``."""
        p = self.order
        rate = self.rate * spacing
        operator = np.array([comb(p + 1, i) * rate ** (p + 1 - i) for i in range(p + 2)])
        powers = np.arange(p + 1, -1, -1)  # d operator / d log lengthscale: rate falls
        log_density = log(self.variance) + (2 * p + 1) * log(2.0 * rate) + 2.0 * log(factorial(p))
        log_density -= log(factorial(2 * p))
        pattern, half_powers = _stationary(p)
        covariance = self.variance * pattern * rate ** (2.0 * half_powers)
        d_length = -2.0 * half_powers * covariance
        return MarkovForm(
            operator,
            np.stack([-powers * operator, np.zeros_like(operator)]),
            log_density,
            np.array([-(2.0 * p + 1.0), 1.0]),
            covariance,
            np.stack([d_length, covariance]),
        )

    def transition(self, lag: Any) -> Array:
        """Return the weights of the state: ``exp(lambda t) f(t)`` is a polynomial of degree p."""
        p = self.order
        lag = np.asarray(lag, dtype=float)
        weights = np.zeros((*lag.shape, p + 1))
        for j in range(p + 1):
            power = lag**j / factorial(j)
            for i in range(j + 1):
                weights[..., i] += comb(j, i) * self.rate ** (j - i) * power
        return weights * np.exp(-self.rate * lag)[..., None]

    @property
    def memory(self) -> float:
        """Distance over which the process forgets its state: the lengthscale."""
        return self.lengthscale

    def limits(self, grid: Grid, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return bounds from far below the knot spacing to far above the domain."""
        lengths = 1e-2 * grid.spacing, 1e2 * (grid.upper - grid.lower)
        return {"lengthscale": lengths, "variance": (1e-10 * spread, 1e3 * power)}

    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Self]:
        """Return one copy per correlation length."""
        return [self.replace_free({"lengthscale": x, "variance": variance}) for x in lengths]


class _OneInput(Matern):
    """A Matérn kernel over one input, whose class says how smooth it is."""

    if TYPE_CHECKING:

        def __init__(
            self,
            lengthscale: float | str | timedelta = 1.0,
            variance: float = 1.0,
            dim: int | str | None = None,
            *,
            fixed: str | tuple[str, ...] = (),
            bounds: Mapping[str, tuple[float, float]] = {},
        ) -> None: ...


class Matern12(_OneInput):
    """Matérn-1/2 (exponential) kernel: functions that are continuous but jagged.

    Parameters
    ----------
    lengthscale : float or duration
        Distance over which the function changes, in the units of the input. A duration, such as
        "2 hours", if X holds times.
    variance : float
        Prior variance of the function, in the squared units of y.
    dim : int or str, optional
        Number or name of the column of X that the kernel acts on.
    fixed : str or tuple of str
        Names of the hyperparameters that training must not change.
    bounds : dict
        Limits of hyperparameters, as ``{name: (lower, upper)}``.

    Examples
    --------
    >>> from asvgp import Matern12
    >>> Matern12(lengthscale=0.5, fixed="variance")
    Matern12(lengthscale=0.5, variance=1.0, fixed=('variance',))
    """

    nu: ClassVar[float] = 0.5


class Matern32(_OneInput):
    """Matérn-3/2 kernel: smooth functions with one derivative, a good default.

    The parameters are those of `Matern12`.

    Examples
    --------
    >>> from asvgp import Matern32
    >>> Matern32(lengthscale=2.0)
    Matern32(lengthscale=2.0, variance=1.0)
    """

    nu: ClassVar[float] = 1.5


class Matern52(_OneInput):
    """Matérn-5/2 kernel: smoother functions, with two derivatives.

    The parameters are those of `Matern12`.

    Examples
    --------
    >>> from asvgp import Matern52
    >>> Matern52(variance=4.0).covariance([0.0]).tolist()
    [4.0]
    """

    nu: ClassVar[float] = 2.5


class Matern72(_OneInput):
    """Matérn-7/2 kernel: very smooth functions, with three derivatives.

    The parameters are those of `Matern12`.

    Examples
    --------
    >>> from asvgp import Matern72
    >>> Matern72().markov().operator.shape
    (5,)
    """

    nu: ClassVar[float] = 3.5


_UNSET = Unset(1.0)
_BY_NU = {kind.nu: kind for kind in (Matern12, Matern32, Matern52, Matern72)}


def _of_smoothness(
    nu: Any,
    lengthscale: Any = _UNSET,
    variance: float = 1.0,
    dim: Any = None,
    rotation: float | None = None,
    coordinates: str | None = None,
    *,
    fixed: str | tuple[str, ...] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> Component:
    """Return the Matérn kernel of a smoothness over one input, or over several jointly."""
    settings: dict[str, Any] = {"fixed": fixed, "bounds": {} if bounds is None else bounds}
    lengthscale, dim = (
        tuple(each.tolist() if isinstance(each, np.ndarray) else each)
        if isinstance(each, list | np.ndarray) and np.ndim(each)
        else each
        for each in (lengthscale, dim)
    )
    single = dim is not None and not isinstance(dim, tuple)
    if single or (dim is None and nu == Matern72.nu):
        if nu not in _BY_NU:
            raise ValueError(
                f"Matern: there is no nu={nu!r} over one input; it may be 1/2, 3/2, 5/2 or 7/2. "
                "Over two inputs it may be 1, 2 or 3: dim=(0, 1)."
            )
        if coordinates is not None:
            raise ValueError(
                "Matern: coordinates='degrees' takes two inputs, the longitude and the latitude: "
                f"dim=('lon', 'lat'), not dim={dim!r}."
            )
        if rotation is not None:
            raise ValueError("Matern: a rotation takes two inputs, with a lengthscale for each.")
        return _BY_NU[nu](lengthscale, variance, cast(Any, dim), **settings)
    settings |= {"lengthscale": lengthscale, "variance": variance, "rotation": rotation}
    if coordinates is not None:
        return EarthMatern(nu=nu, dim=dim, coordinates=coordinates, **settings)
    return JointMatern(nu=nu, dim=dim, **settings)


def of_one_input(kernel: JointMatern, dim: int | str | None) -> Component:
    """Return the kernel of that smoothness over one input, for a joint one that names none."""
    return _of_smoothness(
        kernel.nu,
        kernel.lengthscale,
        kernel.variance,
        0,
        kernel.rotation,
        fixed=kernel.fixed,
        bounds=kernel.bounds,
    ).replace(dim=dim)
