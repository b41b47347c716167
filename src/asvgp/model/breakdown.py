"""Words for a posterior precision that cannot be factored, or only with few digits left."""

from __future__ import annotations

import numpy as np

from asvgp.kernels import Kernel
from asvgp.kernels.algebra import renamed
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.axis import Axis
from asvgp.model.levels import stiffness
from asvgp.model.plan import Plan
from asvgp.policies import FIELD


def no_digits(
    plan: Plan, kernel: Kernel, noise: float, failure: NotPositiveDefinite | float
) -> np.linalg.LinAlgError:
    """Return an error that says how many digits are missing, of which term, and what to change.

    ``failure`` is what broke the elimination, or the error of log|P|.
    """
    axes = all_axes(plan, kernel)
    if isinstance(failure, NotPositiveDefinite):
        what = "The posterior precision is not positive definite to rounding"
        failed = failure.failed
        if failed is None and len(failure.pivots):
            failed = failure.pivots[0]
        edges = np.cumsum([0, *plan.counts(kernel), *plan.smooth_counts])
        place = len(axes) if failed is None else int(np.searchsorted(edges, failed, "right")) - 1
    else:
        what = f"Rounding leaves too few digits: the bound is only known to {failure:.2g} nats"
        place = stiffest(axes)
    terms = [place] if place < len(axes) else list(range(len(axes)))
    return np.linalg.LinAlgError(
        f"{what}, at noise variance {noise:.4g}. " + advice(plan, kernel, terms)
    )


def stiffest(axes: list[list[Axis]]) -> int:
    """Return the number of the term that loses most digits."""
    return int(np.argmax([stiffness(each) for each in axes]))


def advice(plan: Plan, kernel: Kernel, numbers: list[int]) -> str:
    """Describe terms by their functions and lengthscales in cells, and say what to change.

    ``numbers`` count the terms of the main block first, then the smooths.
    """
    axes, components = all_axes(plan, kernel), [*plan.terms, *plan.smooths]
    words, shorter = [], []
    for number in numbers:
        sides = []
        component = kernel.components[components[number]]
        for axis in axes[number]:
            if axis.process is None:
                continue
            name, value = axis.process.parameters[0], axis.process.values[0]
            column = plan.column(axis.process.dim)
            sides.append(
                f"{axis.count} splines of degree {axis.degree} along input {column!r}, "
                f"{name} {value:.4g} = {value / axis.grid.spacing:.3g} cells"
            )
            limit = FIELD.almost_polynomial * (axis.fine.upper - axis.fine.lower)
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
