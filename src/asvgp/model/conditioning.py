"""How many digits an elimination leaves, and words for when they are too few.

The squared norm of a long process is stiffer along rough functions than along smooth ones, by
about the product over inputs of (lengthscale in cells)**(2 nu), if nu is its smoothness. P has
to hold both, so what is smooth is known to rounding times that ratio: bounds and predictions
are good to no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Component, Kernel, Matern12, Matern32, Matern52, Matern72
from asvgp.kernels.labels import renamed
from asvgp.model.axis import Axis
from asvgp.model.levels import most_cells
from asvgp.model.plan import Plan
from asvgp.policies import VERDICT

if TYPE_CHECKING:
    from asvgp.model.assembly import Assembly, Factor

_EPS = float(np.finfo(float).eps)


def relative_errors(assembly: Assembly, kernel: Kernel, factor: Factor) -> Array:
    """Roughly, how well the coefficients of every term are known, beside rounding alone.

    From one more solution: a random right-hand side has its part of the softest direction.
    Terms of the main block first, then the smooths.
    """
    plan, axes = assembly.plan, _axes(assembly.plan, kernel)
    counts = [int(np.prod([axis.count for axis in own])) for own in axes]
    right = np.random.default_rng(0).choice([-1.0, 1.0], (assembly.size, 1))
    right[assembly.size - plan.effects :] = 0.0
    solved = assembly.solve(factor, right)[:, 0]
    out, first = np.empty(len(axes)), 0
    for i, (own, count) in enumerate(zip(axes, counts, strict=True)):
        stiffest = np.prod([float(np.abs(axis.matrix.data).max()) for axis in own])
        softest = np.sqrt(np.mean(solved[first : first + count] ** 2))
        variance = kernel.components[(*plan.terms, *plan.smooths)[i]].variance
        out[i] = _EPS * stiffest * softest / variance
        first += count
    return out


def check_digits(
    assembly: Assembly, kernel: Kernel, noise: float, factor: Factor, refuse: bool
) -> list[str]:
    """Notes on terms of which few digits are left; an error, if wanted, where there are none."""
    errors = relative_errors(assembly, kernel, factor)
    worst = int(np.argmax(errors))
    if errors[worst] > VERDICT.no_digits and refuse:
        raise np.linalg.LinAlgError(
            f"Rounding leaves no digit of the posterior, at noise variance {noise:.4g}. "
            + explained(assembly.plan, kernel, [worst])
        )
    if errors[worst] > VERDICT.few_digits:
        return [
            f"bounds and predictions are good to about {errors[worst]:.0e} only. "
            + explained(assembly.plan, kernel, [worst]).rstrip(".")
        ]
    return []


def not_positive_definite(plan: Plan, kernel: Kernel, noise: float, error) -> np.linalg.LinAlgError:
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
    axes, owners = _axes(plan, kernel), [*plan.terms, *plan.smooths]
    words, shorter = [], []
    for number in which:
        part = kernel.components[owners[number]]
        sides = []
        longest = most_cells(axis.degree for axis in axes[number] if axis.process is not None)
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


def fewer_than_asked(asked: Plan, assembly: Assembly, kernel: Kernel, noise: float) -> list[str]:
    """Notes on terms with fewer splines than asked for, where that costs the bound something."""
    from asvgp.model.field_bound import Priors
    from asvgp.training.field_starts import marginal_moments

    plan, stats, notes = assembly.plan, assembly.stats, []
    wanted, used = _axes(asked, kernel), _axes(plan, kernel)
    missed = Priors(assembly, kernel).missed(derivatives=False)[0]
    moments = marginal_moments(plan, stats)
    for number, term in enumerate((*plan.terms, *plan.smooths)):
        sides, lost, other = [], 0.0, ""
        for d, (full, own) in enumerate(zip(wanted[number], used[number], strict=True)):
            if own.process is None or own.count >= full.count:
                continue
            along = missed[number]
            if number < len(plan.terms):  # of what is missed, this input's part
                share = 1.0 - own.trace(moments[d])[0] / stats.weight
                along = kernel.components[term].variance * stats.weight * share
            cost = along / (2.0 * noise * stats.count)
            if cost < VERDICT.nearly_enough:
                continue
            lost, other = lost + cost, other or rougher(own.process)
            name, value = own.process.parameters[0], own.process.values[0]
            sides.append(
                f"{own.count} in place of {full.count} along input "
                f"{plan.column(own.process.dim)!r}, where {name} {value:.4g} = "
                f"{value / own.grid.spacing:.3g} of their cells"
            )
        if sides:
            label = repr(renamed(kernel.components[term], plan.names))
            longest = most_cells(axis.degree for axis in used[number] if axis.process is not None)
            notes.append(
                f"term {term + 1} ({label}) has fewer splines than num_basis asks for: "
                f"{'; '.join(sides)}. With more than about {longest:.2g} cells a lengthscale "
                "rounding leaves too few digits of such a term; that costs the bound "
                f"{lost:.2g} nats per datum"
                + (f", and a rougher kernel, {other}, can have them" if other else "")
            )
    return notes


def rougher(process: Component) -> str:
    """Which kernel leaves more digits on fine cells, in words; none where there is none."""
    below = {Matern72: Matern52, Matern52: Matern32, Matern32: Matern12}.get(type(process))  # pyright: ignore[reportArgumentType]
    return f"as {below.__name__} in place of {type(process).__name__}" if below else ""


def wide_deviations(missed: float, scatter: float, noise: float) -> list[str]:
    """A note where predictive variances are mostly what the splines miss."""
    if missed <= VERDICT.wide_deviations * (scatter + noise):
        return []
    return [
        "standard deviations are wider than they need be: the splines miss a variance of "
        f"{missed:.3g} on average, which is added to that of predictions, and neighbouring data "
        f"differ by {scatter:.3g}. Try a larger num_basis, objective='elbo', or a rougher kernel"
    ]


def _axes(plan: Plan, kernel: Kernel) -> list[list[Axis]]:
    """Of all terms, the main block's first."""
    return [*plan.axes(kernel), *([axis] for axis in plan.smooth_axes(kernel))]
