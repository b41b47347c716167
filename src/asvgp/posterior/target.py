"""What a posterior of one input is asked for: f, a component of it, or a derivative of either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.model.effects import Centring
from asvgp.posterior.posterior import GridPoints, Posterior, check_component
from asvgp.runtime.checks import non_negative_integer


class Target(NamedTuple):
    """The quantity asked for."""

    component: int | None = None
    order: int = 0  # of the derivative along the series' input
    others: bool = False  # True for derivatives along other columns: components do not vary there

    @classmethod
    def of(cls, posterior: Posterior[Any], component: int | None, order: Any) -> Target:
        """Return what is asked for, checked to exist.

        ``order`` is a number, or maps columns of X to numbers.
        """
        check_component(posterior, component)
        over = posterior.kernel.components[0].factors[0].dim or 0
        if not isinstance(order, Mapping):
            order = {over: order or 0}
        orders = {c: non_negative_integer(m, "the order of a derivative") for c, m in order.items()}
        along = orders.pop(over, 0)
        for number, part in enumerate(posterior.kernel.components):
            for factor in part.factors if component in (None, number) else ():
                if along > factor.order:
                    raise ValueError(
                        f"The derivative of order {along} of f does not exist: {factor!r} has "
                        f"{factor.order}. Take a smoother kernel there, or ask for a component."
                    )
        return cls(component, along, any(orders.values()))

    @property
    def derivative(self) -> bool:
        """True for derivatives of f."""
        return self.others or self.order > 0

    def effects(self, points: GridPoints, centring: Centring) -> Array:
        """Return the effects' columns as their coefficients want them, (n, effects)."""
        if self.component is not None:
            return np.zeros_like(points.effects)
        return points.effects if self.derivative else points.effects - centring.centres
