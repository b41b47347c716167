"""Products of processes over different inputs: separable kernels."""

# pyright: reportIncompatibleVariableOverride=false
# (fields of a component, properties of a product: both are read only)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.kernels.base import Component, Kernel


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """A product of processes over different inputs, with one variance.

    Made by multiplying kernels. The variances of the factors multiply; only their product can
    be estimated. Hyperparameters are named by the input they belong to: ``"lengthscale[lon]"``.

    Examples
    --------
    >>> from asvgp import Matern12, Matern32
    >>> kernel = Matern32(2.0, variance=3.0, dim="lon") * Matern12(1.0, dim="time")
    >>> kernel.parameters
    ('lengthscale[lon]', 'lengthscale[time]', 'variance')
    >>> kernel.values.tolist()
    [2.0, 1.0, 3.0]
    """

    factors: tuple[Component, ...]  # of variance one
    variance: float
    fixed: tuple[str, ...] = ()
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, parts: Sequence[Component | Product]) -> Product:
        """Multiply components and products."""
        factors = tuple(factor for part in parts for factor in part.factors)
        dims = [factor.dim for factor in factors]
        for number, dim in enumerate(dims):
            if dim is None:
                raise ValueError(
                    f"{factors[number]!r} is a factor of a product and needs an input: "
                    "give dim=..., the number or the name of a column."
                )
            if dim in dims[:number]:
                raise ValueError(
                    f"The product of {' and '.join(map(repr, parts))} is over input {dim!r} twice; "
                    "factors must be over different inputs."
                )
        variance = prod(part.variance for part in parts)
        fixed, bounds = [], {}
        for part in parts:  # a product's hyperparameters have their inputs' names already
            own = part.parameters
            names = {p: p if isinstance(part, Product) else _named(p, part) for p in own}
            fixed += [names[p] for p in part.fixed if p != "variance"]
            bounds |= {names[p]: pair for p, pair in part.bounds.items() if p != "variance"}
        if any("variance" in part.fixed for part in parts):
            fixed.append("variance")
        ends = [part.bounds["variance"] for part in parts if "variance" in part.bounds]
        if ends:
            rest = prod(part.variance for part in parts if "variance" not in part.bounds)
            bounds["variance"] = tuple(rest * prod(pair[side] for pair in ends) for side in (0, 1))
        return cls(factors, variance, tuple(fixed), bounds)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the hyperparameters of every factor, then the variance."""
        names = [_named(p, factor) for factor in self.factors for p in factor.parameters[:-1]]
        return (*names, "variance")

    @property
    def unset(self) -> tuple[str, ...]:
        """Names of the scales that the user has not set."""
        return tuple(_named(name, factor) for factor in self.factors for name in factor.unset)

    @property
    def listed(self) -> tuple[float, ...]:
        """The hyperparameters as the user gave them: durations stay durations."""
        return (*(v for factor in self.factors for v in factor.listed[:-1]), self.variance)

    def with_factors(self, factors) -> Product:
        """Return a copy with other factors in the place of these, also over other inputs."""
        new = Product(tuple(factors), self.variance)
        names = dict(zip(self.parameters, new.parameters, strict=True))
        bounds = {names[name]: pair for name, pair in self.bounds.items()}
        return new.replace(fixed=tuple(names[name] for name in self.fixed), bounds=bounds)

    def replace(self, **changes) -> Product:
        """Return a copy with some hyperparameters changed."""
        factors = []
        for factor in self.factors:
            own = {p: changes[n] for p in factor.parameters if (n := _named(p, factor)) in changes}
            factors.append(factor.replace(**own))
        rest = {k: v for k, v in changes.items() if k in ("variance", "fixed", "bounds")}
        values = {"variance": self.variance, "fixed": self.fixed, "bounds": self.bounds} | rest
        return Product(tuple(factors), **values)

    def limits(self, grid: Any, spread: float, power: float) -> dict[str, tuple[float, float]]:
        """Return the limits of every factor; ``grid`` maps inputs to grids."""
        out: dict[str, tuple[float, float]] = {}
        for factor in self.factors:
            own = factor.limits(grid[factor.dim], spread, power)
            out |= {_named(p, factor): pair for p, pair in own.items() if p != "variance"}
            out["variance"] = own["variance"]
        return out

    def candidates(self, lengths, periods, variance: float) -> Sequence[Product]:
        """Return one copy per entry of ``lengths``, each a mapping from inputs to lengths."""
        options = []
        for length in lengths:
            changes = {"variance": variance}
            for factor in self.factors:
                start = factor.candidates([length[factor.dim]], [], 1.0)[0]
                changes |= {_named(p, factor): getattr(start, p) for p in factor.parameters[:-1]}
            options.append(self.replace_free(changes))
        return options

    @property
    def memory(self) -> float:
        """Distance over which the process forgets its state: the longest of its factors."""
        return max(factor.memory for factor in self.factors)

    def covariance(self, lag) -> Array:
        """Evaluate the covariance at distances along every input, (..., factors)."""
        lag = np.asarray(lag, dtype=float)
        out = np.full(lag.shape[:-1], self.variance)
        for i, factor in enumerate(self.factors):
            out = out * factor.covariance(lag[..., i])
        return out

    def __repr__(self) -> str:
        first, *rest = self.factors
        return " * ".join(map(repr, (first.replace(variance=self.variance), *rest)))


def _named(parameter: str, factor: Component) -> str:
    return f"{parameter}[{factor.dim}]"
