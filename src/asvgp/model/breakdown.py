"""Words for a posterior precision that cannot be factored, or only with few digits left."""

from __future__ import annotations

import numpy as np

from asvgp.kernels import Kernel
from asvgp.kernels.labels import renamed
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.axis import Axis
from asvgp.model.levels import longest_in_cells
from asvgp.model.plan import Plan


def not_positive_definite(
    plan: Plan, kernel: Kernel, noise: float, error: NotPositiveDefinite
) -> np.linalg.LinAlgError:
    """What broke, at which resolution and lengthscales, and what to do."""
    pivots = np.asarray(getattr(error, "pivots", ()), dtype=int)
    failed = getattr(error, "failed", None)
    if failed is None and len(pivots):
        failed = pivots[0]
    edges = np.cumsum([0, *plan.counts(kernel), *plan.smooth_counts])
    terms = place = len(edges) - 1
    if failed is not None:
        place = int(np.searchsorted(edges, failed, "right")) - 1
    return np.linalg.LinAlgError(
        f"The posterior precision is not positive definite to rounding, at noise variance "
        f"{noise:.4g}. " + explained(plan, kernel, [place] if place < terms else list(range(terms)))
    )


def explained(plan: Plan, kernel: Kernel, which: list[int]) -> str:
    """Of some terms: functions, lengthscales in cells, and what to do about them."""
    axes, owners = all_axes(plan, kernel), [*plan.terms, *plan.smooths]
    words, shorter = [], []
    for number in which:
        part = kernel.components[owners[number]]
        sides = []
        longest = longest_in_cells(axis.degree for axis in axes[number] if axis.process is not None)
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
        label = repr(renamed(part, plan.names))
        words.append(f"term {owners[number] + 1} ({label}): {'; '.join(sides)}")
    advice = "take a coarser num_basis, 'auto', or bounds on the lengthscale."
    if shorter:
        advice = (
            "on this domain such a process is all but a polynomial. Take a lengthscale of at "
            f"most {', '.join(shorter)}, or Linear() and Constant() in its place."
        )
    return (
        f"{'. '.join(words)}. The longer a lengthscale is in cells, the more digits are lost: "
        + advice
    )


def all_axes(plan: Plan, kernel: Kernel) -> list[list[Axis]]:
    """Return the axes of all terms, those of the main block first."""
    return [*plan.axes(kernel), *([axis] for axis in plan.smooth_axes(kernel))]
