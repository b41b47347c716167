"""The base classes of kernels: named hyperparameters, and a Markov process behind them."""

# pyright: reportIncompatibleVariableOverride=false
# (fields of a component, properties of a sum: both are read only)

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from asvgp.basis import Array
from asvgp.runtime.arguments import NamingClass
from asvgp.times import Duration, as_duration

if TYPE_CHECKING:
    from asvgp.kernels.effects import Effect


_STEP = 5e-4  # of a logarithm, for differences of the fourth order


class Unset(float):
    """The default value of a scale that the user has not set."""


@dataclass(frozen=True)
class MarkovForm:
    """A stationary process ``L f = white noise`` in the units of some knot spacing.

    ``L = sum_i operator[i] d**i`` (the last entry is 1), the white noise has spectral
    density ``exp(log_density)``, and ``(f, f', ..., f^(p))`` has the stationary covariance
    ``covariance``. Arrays that start with ``d_`` are derivatives with respect to the
    logarithms of the kernel's hyperparameters, which run along their first axis.
    """

    operator: Array
    d_operator: Array
    log_density: float
    d_log_density: Array
    covariance: Array
    d_covariance: Array


class Kernel(ABC, metaclass=NamingClass):
    """A covariance function with named hyperparameters: a sum of independent components.

    Kernels are immutable values. They add: ``Matern52(30.0) + SHO(period=1.0)``, and multiply
    when they act on different inputs: ``Matern32(dim=0) * Matern32(dim=1)``, or when one is
    periodic: ``Periodic(1.0) * Matern32(20.0)``. Covariances and variances are those of the
    components; fixed effects do not count towards them.
    """

    parameters: tuple[str, ...]
    fixed: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]

    @property
    def components(self) -> tuple[Any, ...]:
        """The processes whose sum this kernel describes: by default itself alone."""
        return (self,)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The fixed effects that are added to the components."""
        return ()

    @property
    @abstractmethod
    def listed(self) -> tuple[float, ...]:
        """The hyperparameters as the user gave them: durations stay durations."""

    @property
    def values(self) -> Array:
        """The hyperparameters, in the order of ``parameters``."""
        return np.array(self.listed, dtype=float)

    @abstractmethod
    def replace(self, **changes: Any) -> Self:
        """Return a copy with some hyperparameters changed."""

    @abstractmethod
    def replace_free(self, changes: Mapping[str, float]) -> Self:
        """Return a copy with other hyperparameters, within bounds; fixed ones do not change."""

    def _within_bounds(self, changes: Mapping[str, float]) -> dict[str, float]:
        """Return the changes of free hyperparameters, moved inside their bounds."""
        free = {name: float(value) for name, value in changes.items() if name not in self.fixed}
        for name in free.keys() & self.bounds.keys():
            low, high = self.bounds[name]
            free[name] = min(max(free[name], low), high)
        return free

    @abstractmethod
    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Self]:
        """Return copies to start training from, with these correlation lengths and periods."""

    @property
    def labelled(self) -> list[tuple[str, Any]]:
        """Every component, after the prefix of the names of its hyperparameters."""
        several = len(self.components) > 1
        return [(f"{i}." if several else "", part) for i, part in enumerate(self.components, 1)]

    def places_of(self, number: int) -> slice:
        """Return the places of a component's hyperparameters among all ``parameters``."""
        counts = [len(part.parameters) for part in self.components]
        first = sum(counts[:number])
        return slice(first, first + counts[number])

    @property
    def intercept(self) -> int | None:
        """Index of the intercept among the effects, or None."""
        from asvgp.kernels.effects import Constant

        places = [i for i, effect in enumerate(self.effects) if isinstance(effect, Constant)]
        return places[0] if places else None

    @property
    def prior_variance(self) -> float:
        """The prior variance ``k(x, x)``."""
        return float(sum(component.values[-1] for component in self.components))

    @property
    def d_prior_variance(self) -> Array:
        """Derivatives of ``k(x, x)`` with respect to the log-hyperparameters."""
        values = [component.values for component in self.components]
        return np.concatenate([np.append(np.zeros(len(v) - 1), v[-1]) for v in values])

    @property
    def memory(self) -> float:
        """Distance over which the process forgets its state."""
        return max(component.memory for component in self.components)

    def covariance(self, lag: Any) -> Array:
        """Evaluate the covariance function at the given distances."""
        parts = (component.covariance(lag) for component in self.components)
        return sum(parts, np.zeros(np.shape(lag)))

    def __add__(self, other: Any) -> Kernel:
        from asvgp.kernels.algebra import Sum
        from asvgp.kernels.effects import Effect

        if isinstance(other, Effect):
            return Sum(self.components, (*self.effects, other))
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(self.components + other.components, self.effects + other.effects)

    def __rmul__(self, other: Any) -> Kernel:
        return self.__mul__(other)

    def __mul__(self, other: Any) -> Kernel:
        from asvgp.kernels.algebra import Sum
        from asvgp.kernels.effects import Effect
        from asvgp.kernels.product import Product

        if isinstance(other, Effect):
            raise TypeError(
                f"{other!r} is a fixed effect, which adds to kernels: write {_short(self)} + "
                f"{other!r}."
            )
        if isinstance(other, Real):
            raise TypeError(
                f"A kernel is not multiplied by a number ({other!r}): its size is its variance, "
                f"{_short(self, f'variance={other!r}')}."
            )
        if not isinstance(other, Kernel):
            return NotImplemented
        if self.effects or other.effects:
            raise ValueError("Fixed effects add to kernels; they do not multiply.")
        products = tuple(Product.of((a, b)) for a in self.components for b in other.components)
        return products[0] if len(products) == 1 else Sum(products)

    def __call__(self, x: Any, y: Any = None) -> Array:
        """Return the covariance matrix between two sets of inputs, (n,) or (n, columns).

        Examples
        --------
        >>> from asvgp import Matern12
        >>> Matern12(lengthscale=2.0)([0.0, 2.0]).round(3)
        array([[1.   , 0.368],
               [0.368, 1.   ]])
        """
        x = np.asarray(x, dtype=float)
        y = x if y is None else np.asarray(y, dtype=float)
        one = all(len({f.dim for f in part.along}) == 1 for part in self.components)
        if x.ndim == 1 or (x.shape[1] == 1 and one):
            return self.covariance(np.abs(x.ravel()[:, None] - y.ravel()[None, :]))
        total = np.zeros((len(x), len(y)))
        for part in self.components:
            value = np.full(total.shape, part.variance)
            for factor in part.factors:
                columns = factor.dim if isinstance(factor.dim, tuple) else (factor.dim,)
                if not all(isinstance(column, int) for column in columns):
                    raise ValueError(f"{factor!r}: columns must be numbers here, not names.")
                value *= factor.between(x[:, columns], y[:, columns])
            total += value
        return total


@dataclass(frozen=True, repr=False)
class Component(Kernel):
    """A kernel that is one Markov process; its last hyperparameter is the variance.

    All components take two keyword arguments. ``fixed`` names hyperparameters that
    training leaves alone; ``bounds`` maps names to ``(lower, upper)`` pairs that training
    respects.
    """

    fixed: tuple[str, ...] | str = dataclasses.field(default=(), kw_only=True)
    bounds: Mapping[str, tuple[float, float]] = dataclasses.field(
        default_factory=dict, kw_only=True, hash=False
    )

    if TYPE_CHECKING:  # every component has these fields, in an order of its own
        variance: float
        dim: Any  # a column's number or name, or None; of a joint kernel several

    parameters: ClassVar[tuple[str, ...]]
    scales: ClassVar[tuple[str, ...]]  # fields in the units of the input, trained or not

    def __post_init__(self) -> None:
        name = self.written_name
        for parameter in dict.fromkeys((*self.scales, *self.parameters)):
            number = self._checked(parameter)
            if not isinstance(getattr(self, parameter), Unset):
                object.__setattr__(self, parameter, number)
        fixed = (self.fixed,) if isinstance(self.fixed, str) else self.fixed
        if not (isinstance(fixed, Sequence) and all(isinstance(f, str) for f in fixed)):
            raise TypeError(f"{name}: fixed must name hyperparameters, got {self.fixed!r}.")
        object.__setattr__(self, "fixed", tuple(fixed))
        if not isinstance(self.bounds, Mapping):
            raise TypeError(
                f"{name}: bounds must map names to (lower, upper), got {self.bounds!r}."
            )
        bounds = dict(self.bounds)
        object.__setattr__(self, "bounds", bounds)
        for parameter in (*self.fixed, *self.bounds):
            if parameter not in self.parameters:
                raise ValueError(
                    f"{name} has no hyperparameter {parameter!r}; it has "
                    f"{', '.join(self.parameters)}."
                )
        for parameter, pair in list(bounds.items()):
            try:
                lower, upper = (self._duration(parameter, end) for end in pair)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{name}: bounds of {parameter} must be a pair of numbers, got {pair!r}."
                ) from None
            if not 0.0 < lower <= getattr(self, parameter) <= upper:
                raise ValueError(
                    f"{name}: bounds of {parameter} must satisfy 0 < lower <= value <= "
                    f"upper, got {lower!r} <= {getattr(self, parameter)!r} <= {upper!r}."
                )
            bounds[parameter] = (lower, upper)

    def _checked(self, parameter: str) -> float:
        """Return a scale or another hyperparameter as a number, or raise an error."""
        name, value = self.written_name, getattr(self, parameter)
        try:
            number = self._duration(parameter, value)
        except (TypeError, ValueError) as error:
            wanted = "number or duration" if parameter in self.scales else "number"
            raise type(error)(
                f"{name}: {parameter} must be a positive {wanted}, got {value!r}. {error}"
            ) from None
        if not (np.isfinite(number) and number > 0.0):
            raise ValueError(f"{name}: {parameter} must be positive and finite, got {value!r}.")
        return number

    def _duration(self, parameter: str, value) -> float:
        """Convert a value to float; scales along the input may be durations such as "7 days"."""
        duration = as_duration(value) if parameter in self.scales else None
        return float(value) if duration is None else duration

    @property
    @abstractmethod
    def order(self) -> int:
        """The number p of derivatives that the process has."""

    @property
    def least_degree(self) -> int:
        """Smallest degree of splines that hold the process."""
        return self.order + 1

    @property
    def default_degree(self) -> int:
        """Spline degree that is used unless the user asks for another one.

        One more than the smallest, on which the missed variance falls like the square of the
        spacing only, whatever the kernel. A process without derivatives gains little by that.
        """
        return self.order + 2 if self.order else 1

    @property
    def resolved_length(self) -> float:
        """Length that cells must resolve: by default the first hyperparameter."""
        return getattr(self, self.parameters[0])

    @property
    def unset(self) -> tuple[str, ...]:
        """Names of the scales that the user has not set."""
        return tuple(name for name in self.scales if isinstance(getattr(self, name), Unset))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some hyperparameters, flags or bounds changed.

        Examples
        --------
        >>> from asvgp import Matern32
        >>> Matern32(lengthscale=2.0).replace(variance=9.0)
        Matern32(lengthscale=2.0, variance=9.0)
        """
        return dataclasses.replace(self, **changes)

    def replace_free(self, changes: Mapping[str, float]) -> Self:
        """Return a copy with other hyperparameters, within bounds; fixed ones do not change."""
        free = self._within_bounds(changes)
        if free.keys() <= set(self.parameters) and all(0.0 < v < inf for v in free.values()):
            return self._with(**free)
        return self.replace(**free)  # which says what is wrong

    def _with(self, **values) -> Self:
        """Return a copy with other values that need no checks: training makes many."""
        new = object.__new__(type(self))
        vars(new).update(vars(self), **values)
        return new

    @property
    def _printed(self) -> tuple[str, ...]:
        """Names of the numbers that print."""
        return self.parameters

    def __repr__(self) -> str:
        return self.written(self.fixed, self.bounds)

    def written(self, fixed: Any, bounds: Any) -> str:
        """Return the kernel as code, with these settings for training."""
        parts = [f"{name}={_readable(getattr(self, name))}" for name in self._printed]
        settings = {"fixed": fixed, "bounds": bounds}
        if self.dim is not None:
            parts.append(f"dim={self.dim!r}")
        parts += [f"{name}={value!r}" for name, value in settings.items() if value]
        return f"{self.written_name}({', '.join(parts)})"

    @property
    def written_name(self) -> str:
        """Name of the class, as users write it."""
        return type(self).__name__

    @property
    def listed(self) -> tuple[float, ...]:
        """The hyperparameters as the user gave them: durations stay durations."""
        return tuple(getattr(self, parameter) for parameter in self.parameters)

    @property
    def factors(self) -> tuple[Self, ...]:
        """The kernel at variance one: a product with a single factor."""
        return (self._with(variance=1.0, fixed=(), bounds={}),)

    @property
    def along(self) -> tuple[Component, ...]:
        """The process of variance one along every input: one, unless it is joint over several."""
        return self.factors

    def name_of(self, factor: Component, parameter: str) -> str:
        """Return the name of a factor's hyperparameter, as products do: here its plain name."""
        return parameter

    @abstractmethod
    def limits(self, grid: Any, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return default bounds for training, for y with this variance and mean square."""

    @abstractmethod
    def covariance(self, lag: Any) -> Array:
        """Evaluate the covariance function at the given distances."""

    def between(self, x: Array, y: Array) -> Array:
        """Return the covariance between places (n, inputs) and (m, inputs), (n, m)."""
        return self.covariance(np.abs(x - y[:, 0]))

    def slopes(self, lag: Any) -> Array:
        """Return derivatives of the covariance by the log-parameters, (parameters, ...).

        The last, by the variance, is the covariance itself. Here the others are found by
        differences of the fourth order; kernels with a formula do better.
        """
        out = []
        for name in self.parameters[:-1]:
            at = getattr(self, name)
            values = [
                self.replace(**{name: at * exp(steps * _STEP)}).covariance(lag)
                for steps in (1.0, -1.0, 2.0, -2.0)
            ]
            slope = 8.0 * (values[0] - values[1]) - (values[2] - values[3])
            out.append(slope / (12.0 * _STEP))
        return np.array([*out, self.covariance(lag)])

    @abstractmethod
    def markov(self, spacing: float = 1.0) -> MarkovForm:
        """Return the process in units of ``spacing``: operator, density, stationary covariance."""

    @abstractmethod
    def transition(self, lag: Any) -> Array:
        """Return row 0 of ``exp(A lag)``: E[f] at a distance ``lag >= 0`` past a known state.

        Shape ``(len(lag), order + 1)``: the weights of ``f, f', ..., f^(p)``.
        """

    @property
    @abstractmethod
    def memory(self) -> float:
        """Distance over which the process forgets its state."""


def _readable(value: float) -> str:
    """Format a number with six digits so that it looks like a float; durations with units."""
    if isinstance(value, Duration | bool):
        return repr(value)
    text = f"{value:.6g}"
    return text if any(mark in text for mark in ".en") else text + ".0"


def _short(kernel: Kernel, *settings: str) -> str:
    """Write a kernel the way an example would."""
    first = kernel.components[0].factors[0] if kernel.components else kernel
    dim = getattr(first, "dim", None)
    shown = [*settings] if dim is None else [*settings, f"dim={dim!r}"]
    name = first.written_name if isinstance(first, Component) else type(first).__name__
    return f"{name}({', '.join(shown)})"
