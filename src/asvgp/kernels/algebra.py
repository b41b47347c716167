"""Sums of kernels and fixed effects, and components by the names of their columns."""

# pyright: reportIncompatibleVariableOverride=false
# (fields of a component, properties of a sum: both are read only)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from asvgp.kernels.base import Component, Kernel
from asvgp.kernels.effects import Effect
from asvgp.kernels.product import Product
from asvgp.times import Duration


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """A sum of independent processes, each with its own hyperparameters.

    Made by adding kernels and fixed effects. Where there are several components,
    hyperparameters are named by the one they belong to, counted from one: ``"2.period"``.

    Examples
    --------
    >>> from asvgp import SHO, Matern52
    >>> kernel = Matern52(lengthscale=30.0) + SHO(period=1.0, quality=20.0)
    >>> kernel
    Matern52(lengthscale=30.0, variance=1.0) + SHO(period=1.0, quality=20.0, variance=1.0)
    >>> kernel.parameters
    ('1.lengthscale', '1.variance', '2.period', '2.quality', '2.variance')
    >>> kernel.covariance([0.0]).tolist()
    [2.0]
    """

    parts: tuple[Component | Product, ...]
    fixed_effects: tuple[Effect, ...] = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The fixed effects."""
        return self.fixed_effects

    @property
    def components(self) -> tuple[Any, ...]:
        """The summands."""
        return self.parts

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the hyperparameters, component by component."""
        return tuple(f"{i}{p}" for i, part in self.labelled for p in part.parameters)

    @property
    def fixed(self) -> tuple[str, ...]:
        """Names of the fixed hyperparameters."""
        return tuple(f"{i}{p}" for i, part in self.labelled for p in part.fixed)

    @property
    def bounds(self) -> Mapping[str, tuple[float, float]]:
        """Bounds by the names of the hyperparameters."""
        return {f"{i}{p}": pair for i, part in self.labelled for p, pair in part.bounds.items()}

    @property
    def listed(self) -> tuple[float, ...]:
        """The hyperparameters as the user gave them: durations stay durations."""
        return tuple(value for part in self.parts for value in part.listed)

    def replace_parts(self, parts: Any) -> Sum:
        """Return a copy with other components."""
        return Sum(tuple(parts), self.fixed_effects)

    def replace(self, **changes: Any) -> Sum:
        """Return a copy with some hyperparameters changed."""
        pairs = zip(self.parts, self._by_part(changes), strict=True)
        return self.replace_parts(part.replace(**values) for part, values in pairs)

    def replace_free(self, changes: Mapping[str, float]) -> Sum:
        """Return a copy with other hyperparameters, within bounds; fixed ones do not change."""
        pairs = zip(self.parts, self._by_part(changes), strict=True)
        return self.replace_parts(part.replace_free(values) for part, values in pairs)

    def _by_part(self, changes: Mapping[str, float]) -> list[dict[str, float]]:
        """Return changes of hyperparameters by component."""
        by_part: list[dict[str, float]] = [{} for _ in self.parts]
        for name, value in changes.items():
            number, _, parameter = name.partition(".") if len(self.parts) > 1 else (1, "", name)
            by_part[int(number) - 1][parameter] = value
        return by_part

    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Sum]:
        """Return sums to start training from.

        The first has the given scales and equal shares of the variance. Scales that the user
        has not set are tried at all lengths; components that are alike get scales spread over
        the lengths; and every component is tried with nearly all of the variance.
        """
        if len(self.parts) == 1:
            options = self.parts[0].candidates(lengths, periods, variance)
            return [self.replace_parts([option]) for option in options]
        share = variance / len(self.parts)
        options = [self.replace_parts(p.replace_free({"variance": share}) for p in self.parts)]
        unset = [bool(part.unset) for part in self.parts]
        if any(unset) and not all(unset):
            for length in lengths:
                options.append(self.replace_parts(_at(p, length, share) for p in self.parts))
        alike = [type(a) is type(b) and a.values[0] == b.values[0] for a, b in pairwise(self.parts)]
        if any(alike):
            spread = np.geomspace(max(lengths), min(lengths), len(self.parts) + 2)[1:-1]
            pairs = zip(self.parts, spread, strict=True)
            options.append(self.replace_parts(p.candidates([x], [], share)[0] for p, x in pairs))
        small = 0.1 * variance / (len(self.parts) - 1)
        beside = [_at(part, max(lengths), small) for part in self.parts]
        for i, part in enumerate(self.parts):
            alone = [part.replace_free({"variance": 0.9 * variance})]
            if part.unset:
                alone = part.candidates(lengths, periods, 0.9 * variance)
            for option in alone:
                options.append(self.replace_parts([*beside[:i], option, *beside[i + 1 :]]))
        return options

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in (*self.parts, *self.fixed_effects))


def _at(part: Component | Product, length: float, variance: float) -> Component | Product:
    """Return a component with this variance, and with this length where its scale is unset."""
    if part.unset:
        return part.candidates([length], [], variance)[0]
    return part.replace_free({"variance": variance})


def in_time(kernel: Kernel, columns=None) -> Kernel:
    """Return a copy whose scales along time inputs are durations, for printing.

    ``columns`` lists the inputs that are times; by default every input is one.

    Examples
    --------
    >>> from asvgp import Matern32
    >>> in_time(Matern32(lengthscale=7200.0))
    Matern32(lengthscale='2 hours', variance=1.0)
    """

    def timed(part: Component) -> Component:
        timed = {
            name: Duration(getattr(part, name))
            for name, dims in _dims_of_scales(part)
            if columns is None or all(dim in columns for dim in dims)
        }
        return part.replace(**timed) if timed else part

    parts = tuple(
        part.with_factors([timed(factor) for factor in part.factors])
        if isinstance(part, Product)
        else timed(part)
        for part in kernel.components
    )
    return kernel.replace_parts(parts) if isinstance(kernel, Sum) else parts[0]


def check_units(kernel: Kernel, times, untrained: bool = False) -> None:
    """Check that scales along times are durations and that scales along numbers are numbers.

    A scale that the user has not set passes, because training will find it, unless it stays as
    it is: because it is fixed, or ``untrained``. ``times`` holds the columns that are times.
    """
    only = kernel.components[0].factors[0].dim is None
    parts = [
        (factor, component)
        for component in kernel.components
        for factor in (component.factors if isinstance(component, Product) else (component,))
    ]
    for part, whole in parts:
        if getattr(part, "rotation", None) is not None:
            _check_rotation(part, times)
        for name, dims in _dims_of_scales(part):
            timely = {bool(times) if only and dim is None else dim in times for dim in dims}
            if len(timely) > 1:
                raise ValueError(
                    f"{part!r}: {name} is along times and along numbers. Give a lengthscale for "
                    "each: lengthscale=('7 days', 1.0)."
                )
            time, value = timely.pop(), getattr(part, name)
            held = whole.name_of(part, name) in whole.fixed
            free = name in part.unset and not untrained and not held
            if time and not isinstance(value, Duration) and not free:
                timed = any(isinstance(getattr(part, scale), Duration) for scale in part.scales)
                example = Duration(value) if timed and name in part.unset else f"{value:g} days"
                raise ValueError(
                    f"{part!r}: {name} has no unit, but X holds times. Write for example "
                    f"{name}='{example}'."
                )
            if not time and isinstance(value, Duration):
                raise ValueError(
                    f"{part!r}: {name} is a duration, but X holds numbers. Give {name} in the "
                    "units of X, or X as times (strings: pandas.to_datetime)."
                )


def _check_rotation(part: Component, times) -> None:
    """Check that a kernel that turns two inputs into each other has the same unit along both."""
    dims = part.dim if isinstance(part.dim, tuple) else ()
    if len({dim in times for dim in dims}) > 1:
        raise ValueError(
            f"{part!r}: a rotation turns one input into the other, but one holds times and the "
            "other numbers. Leave rotation out, or give both in one unit, for example kilometres "
            "and hours times a speed."
        )


def _dims_of_scales(part: Component) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the names of the scales, each with the inputs whose units it has."""
    if not isinstance(part.dim, tuple):
        return [(name, (part.dim,)) for name in part.scales]
    if len(part.scales) == 1:
        return [(part.scales[0], part.dim)]
    return [(name, (dim,)) for name, dim in zip(part.scales, part.dim, strict=True)]


def renamed(part, names: tuple[str, ...] | None):
    """Return a component whose inputs are named instead of numbered."""
    if names is None:
        return part
    if isinstance(part, Product):
        return part.with_factors(renamed(factor, names) for factor in part.factors)
    if isinstance(part.dim, tuple):
        return part.replace(dim=tuple(names[dim] for dim in part.dim))
    return part.replace(dim=names[part.dim])


def renamed_effect(effect: Effect, names: tuple[str, ...] | None) -> Effect:
    """Return a fixed effect whose column is named instead of numbered."""
    dim = getattr(effect, "dim", None)
    return replace(effect, dim=names[dim]) if names and isinstance(dim, int) else effect  # pyright: ignore[reportCallIssue]
