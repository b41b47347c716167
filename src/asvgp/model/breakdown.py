"""Words for a posterior precision that cannot be factored, or only with few digits left."""

from __future__ import annotations

import numpy as np

from asvgp.kernels import Kernel
from asvgp.kernels.algebra import renamed
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.axis import Axis
from asvgp.model.levels import longest_in_cells
from asvgp.model.plan import Plan


def not_positive_definite(
    plan: Plan, kernel: Kernel, noise: float, error: NotPositiveDefinite
) -> np.linalg.LinAlgError:
    """Return an error that names the term that failed, its resolution, and what to change."""
    failed = error.failed
    if failed is None and len(error.pivots):
        failed = error.pivots[0]
    edges = np.cumsum([0, *plan.counts(kernel), *plan.smooth_counts])
    terms = place = len(edges) - 1
    if failed is not None:
        place = int(np.searchsorted(edges, failed, "right")) - 1
    return np.linalg.LinAlgError(
        f"The posterior precision is not positive definite to rounding, at noise variance "
        f"{noise:.4g}. " + advice(plan, kernel, [place] if place < terms else list(range(terms)))
    )


def advice(plan: Plan, kernel: Kernel, numbers: list[int]) -> str:
    """Describe terms by their functions and lengthscales in cells, and say what to change.

    ``numbers`` count the terms of the main block first, then the smooths.
    """
    axes, components = all_axes(plan, kernel), [*plan.terms, *plan.smooths]
    words, shorter = [], []
    for number in numbers:
        sides = []
        component = kernel.components[components[number]]
        longest = longest_in_cells(component.factors)
        for axis in axes[number]:
            if axis.process is None:
                continue
            name, value = axis.process.parameters[0], axis.process.values[0]
            column = plan.column(axis.process.dim)
            sides.append(
                f"{axis.count} splines of degree {axis.degree} along input {column!r}, "
                f"{name} {value:.4g} = {value / axis.grid.spacing:.3g} cells"
            )
            limit = 0.5 * longest * (axis.fine.upper - axis.fine.lower)
            if value > limit:
                shorter.append(f"{limit:.3g} along input {column!r}")
        label = repr(renamed(component, plan.names))
        words.append(f"term {components[number] + 1} ({label}): {'; '.join(sides)}")
    remedy = "use a smaller num_basis, 'auto', or bounds on the lengthscale."
    if shorter:
        remedy = (
            "on this domain such a process is almost a polynomial. Use a lengthscale of at "
            f"most {', '.join(shorter)}, or Linear() and Constant() in its place."
        )
    return (
        f"{'. '.join(words)}. The longer a lengthscale is in cells, the more digits are lost: "
        + remedy
    )


def all_axes(plan: Plan, kernel: Kernel) -> list[list[Axis]]:
    """Return the axes of all terms, those of the main block first."""
    return [*plan.axes(kernel), *([axis] for axis in plan.smooth_axes(kernel))]
