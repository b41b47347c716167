"""Products of processes: separable kernels, and periodic shapes that drift."""

# pyright: reportIncompatibleVariableOverride=false
# (fields of a component, properties of a product: both are read only)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.kernels.base import Component, Kernel
from asvgp.kernels.earth import EarthMatern
from asvgp.kernels.joint import AlongJoint, JointMatern
from asvgp.kernels.matern import Matern
from asvgp.kernels.periodic import Periodic

_PAIR = "Periodic('1 day'{0}) * Matern32('20 days'{0})"


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """A product of processes, with one variance.

    Made by multiplying kernels. The factors are over different inputs, but one `Periodic` and one
    Matérn may share an input, as a periodic shape that drifts; where that is the only input, it
    need not be named. The variances of the factors multiply; only their product can be estimated.
    Hyperparameters are named by the input they belong to: ``"lengthscale[lon]"``. The periodic
    one of two factors over the same input has a ``"phase_lengthscale"``.

    Examples
    --------
    >>> from asvgp import Matern12, Matern32, Periodic
    >>> kernel = Matern32(2.0, variance=3.0, dim="lon") * Matern12(1.0, dim="time")
    >>> kernel.parameters
    ('lengthscale[lon]', 'lengthscale[time]', 'variance')
    >>> kernel.values.tolist()
    [2.0, 1.0, 3.0]
    >>> (kernel * Periodic(24.0, 8.0, dim="time")).parameters[2]
    'phase_lengthscale[time]'
    """

    factors: tuple[Component, ...]  # of variance one
    variance: float
    fixed: tuple[str, ...] = ()
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, parts: Sequence[Component | Product]) -> Product:
        """Multiply components and products."""
        factors = tuple(factor for part in parts for factor in part.factors)
        _check_inputs(factors)
        whole = cls(factors, prod(part.variance for part in parts))
        fixed, bounds, names = [], {}, iter(whole.parameters)
        for part in parts:
            new = dict(zip(part.parameters[:-1], names, strict=False))
            fixed += [new[p] for p in part.fixed if p != "variance"]
            bounds |= {new[p]: pair for p, pair in part.bounds.items() if p != "variance"}
        if any("variance" in part.fixed for part in parts):
            fixed.append("variance")
        ends = [part.bounds["variance"] for part in parts if "variance" in part.bounds]
        if ends:
            rest = prod(part.variance for part in parts if "variance" not in part.bounds)
            bounds["variance"] = tuple(rest * prod(pair[side] for pair in ends) for side in (0, 1))
        return whole.replace(fixed=tuple(fixed), bounds=bounds)

    @property
    def inputs(self) -> tuple[int | str | None, ...]:
        """The inputs, each once, in the order of the factors."""
        return tuple(dict.fromkeys(process.dim for process in self.along))

    @property
    def along(self) -> tuple[Component, ...]:
        """The processes along the inputs: the factors, joint ones by their inputs."""
        return tuple(process for factor in self.factors for process in factor.along)

    def name_of(self, factor: Component, parameter: str) -> str:
        """Return the name that a factor's hyperparameter has in this product."""
        if isinstance(factor, AlongJoint):
            joint = next(f for f in self.factors if f.dim != factor.dim and factor in f.along)
            factor, parameter = joint, joint.name_of(factor, parameter)
        if isinstance(factor, JointMatern):
            over = ",".join(map(str, factor.dim or ()))
            return parameter if "[" in parameter else f"{parameter}[{over}]"
        shared = sum(other.dim == factor.dim for other in self.factors) > 1
        prefix = "phase_" if shared and isinstance(factor, Periodic) else ""
        return prefix + parameter + ("" if factor.dim is None else f"[{factor.dim}]")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the hyperparameters of every factor, then the variance."""
        names = [self.name_of(factor, p) for factor in self.factors for p in factor.parameters[:-1]]
        return (*names, "variance")

    @property
    def unset(self) -> tuple[str, ...]:
        """Names of the scales that the user has not set."""
        return tuple(self.name_of(factor, name) for factor in self.factors for name in factor.unset)

    @property
    def listed(self) -> tuple[float, ...]:
        """The hyperparameters as the user gave them: durations stay durations."""
        return (*(v for factor in self.factors for v in factor.listed[:-1]), self.variance)

    def with_factors(self, factors: Any) -> Product:
        """Return a copy with other factors in the place of these, also over other inputs."""
        new = Product(tuple(factors), self.variance)
        names = dict(zip(self.parameters, new.parameters, strict=True))
        bounds = {names[name]: pair for name, pair in self.bounds.items()}
        return new.replace(fixed=tuple(names[name] for name in self.fixed), bounds=bounds)

    def over(self, dims: Sequence[int | str | None]) -> Product:
        """Return a copy over other inputs, one per factor.

        Examples
        --------
        >>> from asvgp import Matern32
        >>> kernel = Matern32(2.0, dim=0, fixed="lengthscale") * Matern32(dim=1)
        >>> kernel.over(["lon", "lat"]).fixed
        ('lengthscale[lon]',)
        """
        pairs = zip(self.factors, dims, strict=True)
        factors = tuple(factor.replace(dim=dim) for factor, dim in pairs)
        _check_inputs(factors)
        return self.with_factors(factors)

    def replace(self, **changes: Any) -> Product:
        """Return a copy with some hyperparameters changed."""
        factors = []
        for factor in self.factors:
            names = {p: self.name_of(factor, p) for p in factor.parameters[:-1]}
            factors.append(
                factor.replace(**{p: changes[n] for p, n in names.items() if n in changes})
            )
        rest = {k: v for k, v in changes.items() if k in ("variance", "fixed", "bounds")}
        values = {"variance": self.variance, "fixed": self.fixed, "bounds": self.bounds} | rest
        return Product(tuple(factors), **values)

    def replace_free(self, changes: Mapping[str, float]) -> Product:
        """Return a copy with other hyperparameters, within bounds; fixed ones do not change."""
        free = self._within_bounds(changes)
        factors = []
        for factor in self.factors:
            names = {p: self.name_of(factor, p) for p in factor.parameters[:-1]}
            own = {p: free[name] for p, name in names.items() if name in free}
            factors.append(factor.replace_free(own))
        variance = free.get("variance", self.variance)
        return Product(tuple(factors), variance, self.fixed, self.bounds)

    def limits(self, grid: Any, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return the limits of every factor; ``grid`` maps inputs to grids."""
        out: dict[str, tuple[float, float]] = {}
        for factor in self.factors:
            joint = isinstance(factor, JointMatern)
            limits = factor.limits(grid if joint else grid[factor.dim], spread, power)
            variance = limits.pop("variance")
            out |= {self.name_of(factor, p): pair for p, pair in limits.items()}
            out["variance"] = variance
        return out

    def candidates(self, lengths: Any, periods: Any, variance: float) -> Sequence[Product]:
        """Return copies for every entry of ``lengths``, the likeliest first.

        An entry maps inputs to lengths; where there is one input only, it may be the length.
        """
        options = []
        for length in lengths:
            along = length if isinstance(length, Mapping) else dict.fromkeys(self.inputs, length)
            starts = (
                factor.candidates(
                    [along if isinstance(factor, JointMatern) else along[factor.dim]], [], 1.0
                )
                for factor in self.factors
            )
            for chosen in product(*starts):
                values = self.with_factors(chosen).values[:-1].tolist()
                changes = dict(zip(self.parameters, [*values, variance], strict=True))
                options.append(self.replace_free(changes))
        return options

    @property
    def memory(self) -> float:
        """Distance over which the process forgets its state: the longest of its factors."""
        return max(factor.memory for factor in self.factors)

    def covariance(self, lag: Any) -> Array:
        """Evaluate the covariance at distances along every input, (..., inputs).

        Where all factors are over the same input, the last axis is left out.
        """
        lag = np.asarray(lag, dtype=float)
        lags = lag[..., None] if len(self.inputs) == 1 else lag
        out = np.full(lags.shape[:-1], self.variance)
        for factor in self.factors:
            places = [self.inputs.index(process.dim) for process in factor.along]
            joint = isinstance(factor, JointMatern)
            if isinstance(factor, EarthMatern):
                raise ValueError(
                    f"{factor!r} is a function of places, not of distances along inputs: call the "
                    "kernel with places, kernel(X, Y)."
                )
            out = out * factor.covariance(lags[..., places if joint else places[0]])
        return out

    def slopes(self, lag: Any) -> Array:
        """Return derivatives of the covariance by the log-parameters; the last is itself.

        For factors that are all over the same input.
        """
        of_factors = [factor.slopes(lag) for factor in self.factors]
        rows = []
        for number, own in enumerate(of_factors):
            others = [other[-1] for i, other in enumerate(of_factors) if i != number]
            rows.append(own[:-1] * np.prod(others, axis=0))
        whole = np.prod([own[-1] for own in of_factors], axis=0)
        return self.variance * np.concatenate([*rows, whole[None]])

    def __repr__(self) -> str:
        texts = []
        for factor in self.factors:
            names = {self.name_of(factor, p): p for p in factor.parameters[:-1]}
            if not texts:
                factor, names = (
                    factor.replace(variance=self.variance),
                    {**names, "variance": "variance"},
                )
            fixed = tuple(names[name] for name in self.fixed if name in names)
            bounds = {names[name]: pair for name, pair in self.bounds.items() if name in names}
            texts.append(factor.written(fixed, bounds))
        return " * ".join(texts)


def _check_inputs(factors: Sequence[Component]) -> None:
    """Raise an error unless factors are over different inputs, or are pairs that may share one."""
    over: dict[int | str | None, list[Component]] = {}
    for factor in factors:
        for dim in (factor.dim,) if not isinstance(factor.dim, tuple) else factor.dim:
            over.setdefault(dim, []).append(factor)
    for dim, group in over.items():
        pair = len(group) == 2 and {isinstance(factor, Periodic) for factor in group} == {
            True,
            False,
        }
        allowed = pair and any(isinstance(factor, Matern) for factor in group)
        if dim is None and not (allowed and len(over) == 1):
            raise ValueError(
                f"{group[0]!r} is a factor of a product and needs an input: give dim=..., the "
                "number or the name of a column. With a single input, only a Periodic and a "
                f"Matérn kernel can be multiplied: {_PAIR.format('')}."
            )
        if len(group) > 1 and not allowed:
            times = "twice" if len(group) == 2 else f"{len(group)} times"
            raise ValueError(
                f"The product of {' and '.join(map(repr, factors))} is over input {dim!r} {times}; "
                "factors must be over different inputs. Only a Periodic and a Matérn kernel can "
                f"share an input: {_PAIR.format(f', dim={dim!r}')}."
            )
