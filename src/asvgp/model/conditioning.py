"""How many digits an elimination leaves, and notes where they are too few.

The squared norm of a long process is stiffer along rough functions than along smooth ones, by
about the product over inputs of (lengthscale in cells)**(2 nu), if nu is its smoothness. P has
to hold both, so that smooth directions are known to rounding times that ratio, and bounds and
predictions are no better.
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import PROCESSES, Component, Matern
from asvgp.kernels.algebra import renamed
from asvgp.model.axis import Axis
from asvgp.model.breakdown import advice, all_axes
from asvgp.model.grid import GridFactored
from asvgp.model.levels import longest_in_cells, marginal_moments
from asvgp.model.plan import Plan
from asvgp.policies import VERDICT

_EPS = float(np.finfo(float).eps)


def relative_errors(factored: GridFactored) -> Array:
    """Estimate the relative errors of the coefficients of every term, due to rounding.

    The estimate takes one more solution, for a random right-hand side: it has a part along the
    softest direction. Terms of the main block come first, then the smooths.
    """
    engine, plan, prior = factored.engine, factored.engine.plan, factored.prior
    right = np.random.default_rng(0).choice([-1.0, 1.0], (engine.size, 1))
    right[engine.size - plan.effects :] = 0.0
    solved = factored.solve(right)[:, 0]
    parts = (*prior.terms, *prior.smooths)
    out, first = np.empty(len(parts)), 0
    for i, part in enumerate(parts):
        stiffest = np.prod([float(np.abs(axis.matrix.data).max()) for axis in part.axes])
        softest = np.sqrt(np.mean(solved[first : first + part.size] ** 2))
        out[i] = _EPS * stiffest * softest / part.variance
        first += part.size
    return out


def check_digits(factored: GridFactored, refuse: bool) -> list[str]:
    """Return notes on terms with few digits left.

    With ``refuse``, raise where none are left.
    """
    plan, kernel = factored.engine.plan, factored.kernel
    errors = relative_errors(factored)
    worst = int(np.argmax(errors))
    if errors[worst] > VERDICT.no_digits and refuse:
        raise np.linalg.LinAlgError(
            f"Rounding leaves no digit of the posterior, at noise variance {factored.noise:.4g}. "
            + advice(plan, kernel, [worst])
        )
    if errors[worst] > VERDICT.few_digits:
        return [
            f"bounds and predictions are good to about {errors[worst]:.0e} only. "
            + advice(plan, kernel, [worst]).rstrip(".")
        ]
    return []


def fewer_than_requested(requested: Plan, factored: GridFactored) -> list[str]:
    """Return notes on terms with fewer splines than requested, where that costs the bound much."""
    engine, kernel = factored.engine, factored.kernel
    plan, stats, notes = engine.plan, engine.statistics, []
    requested_axes, used_axes = all_axes(requested, kernel), all_axes(plan, kernel)
    missed = factored.missed(derivatives=False)[0]
    moments = marginal_moments(stats)
    for number, component in enumerate((*plan.terms, *plan.smooths)):
        sides, lost, other = [], 0.0, ""
        pairs = zip(requested_axes[number], used_axes[number], strict=True)
        for d, (full, axis) in enumerate(pairs):
            if axis.process is None or axis.count >= full.count:
                continue
            along = missed[component]
            if number < len(plan.terms):  # the part of it that is missed along this input
                share = 1.0 - axis.trace(moments[d])[0] / stats.weight
                along = kernel.components[component].variance * stats.weight * share
            cost = along / (2.0 * factored.noise * stats.count)
            if cost < VERDICT.nearly_enough:
                continue
            lost, other = lost + cost, other or rougher(axis.process)
            sides.append(_side(plan, axis, full.count))
        if sides:
            label = repr(renamed(kernel.components[component], plan.names))
            longest = longest_in_cells(kernel.components[component].factors)
            notes.append(
                f"term {component + 1} ({label}) has fewer splines than num_basis asks for: "
                f"{'; '.join(sides)}. With more than about {longest:.2g} cells per lengthscale, "
                "rounding leaves too few digits of such a term; this costs the bound "
                f"{lost:.2g} nats per datum"
                + (f", and a rougher kernel, {other}, can have them" if other else "")
            )
    return notes


def _side(plan: Plan, axis: Axis, requested: int) -> str:
    """Describe the splines of a term along one input, beside the number requested."""
    assert axis.process is not None
    name, value = axis.process.parameters[0], axis.process.values[0]
    return (
        f"{axis.count} in place of {requested} along input {plan.column(axis.process.dim)!r}, "
        f"where {name} {value:.4g} = {value / axis.grid.spacing:.3g} of their cells"
    )


def rougher(process: Component) -> str:
    """Name a kernel that leaves more digits on fine cells; an empty string if there is none."""
    if not isinstance(process, Matern):
        return ""
    below = [p for p in PROCESSES if issubclass(p, Matern) and p.nu < process.nu]
    if not below:
        return ""
    nearest = max(below, key=lambda p: p.nu)
    return f"as {nearest.__name__} in place of {type(process).__name__}"


def wide_deviations(missed: float, scatter: float, noise: float) -> list[str]:
    """Return a note if predictive variances are mostly the variance that the splines miss."""
    if missed <= VERDICT.wide_deviations * (scatter + noise):
        return []
    return [
        "standard deviations are wider than they need be: the splines miss a variance of "
        f"{missed:.3g} on average, which is added to that of predictions, and neighbouring data "
        f"differ by {scatter:.3g}. Try a larger num_basis, objective='elbo', or a rougher kernel"
    ]
