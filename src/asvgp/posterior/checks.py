"""Checks of what a posterior is asked."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.posterior.posterior import Posterior
from asvgp.runtime.checks import non_negative_integer

_SMOOTHER = {1: "Matern32 or SHO", 2: "Matern52", 3: "Matern72"}


def check_component(posterior: Posterior[Any], component: int | None) -> None:
    """Check that the kernel has a component of this number."""
    count = len(posterior.kernel.components)
    if component is not None and not 0 <= index(component) < count:
        raise ValueError(
            f"component must be None or from 0 to {count - 1}, got {component!r}: the kernel is "
            f"{posterior.kernel!r}."
        )


def check_order(posterior: Posterior[Any], order: int, component: int | None) -> int:
    """Return the order of a derivative, after checking that all components involved have it."""
    check_component(posterior, component)
    order = non_negative_integer(order, "order")
    components = posterior.kernel.components
    for number in range(len(components)) if component is None else [component]:
        part = components[number]
        if order <= part.order:
            continue
        known = {0: "no derivative", 1: "one derivative"}.get(part.order)
        known = known or f"{part.order} derivatives"
        name = repr(part)
        if len(components) > 1:
            name = f"component {number} of the sum, {part!r},"
        advice = "Matern72, the smoothest kernel there is, has 3"
        if order in _SMOOTHER:
            advice = f"take a smoother kernel in its place, such as {_SMOOTHER[order]}"
        smooth = [i for i, other in enumerate(components) if other.order >= order]
        if component is None and smooth:
            advice += (
                f", or ask for component {smooth[0]} alone, "
                f"posterior_.predict(x, component={smooth[0]}, order={order})"
            )
        raise ValueError(
            f"The derivative of order {order} of f does not exist: {name} has {known}, and beyond "
            f"that its variance is infinite. Remedy: {advice}."
        )
    return order


def lift_diagonal(matrix: Array, floor) -> None:
    """Raise variances below what rounding of the prior's lets us tell from zero."""
    diagonal = np.einsum("ii->i", matrix)
    np.maximum(diagonal, floor, out=diagonal)
