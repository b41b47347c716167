"""How many digits an elimination leaves, and words for when they are too few.

The squared norm of a long process is stiffer along rough functions than along smooth ones, by
about the product over inputs of (lengthscale in cells)**(2 nu), if nu is its smoothness. P has
to hold both, so what is smooth is known to rounding times that ratio: bounds and predictions
are good to no more.
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Component, Matern12, Matern32, Matern52, Matern72
from asvgp.kernels.labels import renamed
from asvgp.model.breakdown import all_axes, explained
from asvgp.model.grid import GridFactored
from asvgp.model.levels import longest_in_cells, marginal_moments
from asvgp.model.plan import Plan
from asvgp.policies import VERDICT

_EPS = float(np.finfo(float).eps)


def relative_errors(factored: GridFactored) -> Array:
    """Estimate how well the coefficients of every term are known, beside rounding alone.

    From one more solution: a random right-hand side has its part of the softest direction.
    Terms of the main block first, then the smooths.
    """
    engine, plan, kernel = factored.engine, factored.engine.plan, factored.kernel
    axes = all_axes(plan, kernel)
    counts = [int(np.prod([axis.count for axis in own])) for own in axes]
    right = np.random.default_rng(0).choice([-1.0, 1.0], (engine.size, 1))
    right[engine.size - plan.effects :] = 0.0
    solved = factored.solve(right)[:, 0]
    out, first = np.empty(len(axes)), 0
    for i, (own, count) in enumerate(zip(axes, counts, strict=True)):
        stiffest = np.prod([float(np.abs(axis.matrix.data).max()) for axis in own])
        softest = np.sqrt(np.mean(solved[first : first + count] ** 2))
        variance = kernel.components[(*plan.terms, *plan.smooths)[i]].variance
        out[i] = _EPS * stiffest * softest / variance
        first += count
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
            + explained(plan, kernel, [worst])
        )
    if errors[worst] > VERDICT.few_digits:
        return [
            f"bounds and predictions are good to about {errors[worst]:.0e} only. "
            + explained(plan, kernel, [worst]).rstrip(".")
        ]
    return []


def fewer_than_asked(asked: Plan, factored: GridFactored) -> list[str]:
    """Return notes on terms with fewer splines than asked for, where that costs the bound much."""
    engine, kernel = factored.engine, factored.kernel
    plan, stats, notes = engine.plan, engine.statistics, []
    wanted, used = all_axes(asked, kernel), all_axes(plan, kernel)
    missed = factored.missed(derivatives=False)[0]
    moments = marginal_moments(stats)
    for number, term in enumerate((*plan.terms, *plan.smooths)):
        sides, lost, other = [], 0.0, ""
        for d, (full, own) in enumerate(zip(wanted[number], used[number], strict=True)):
            if own.process is None or own.count >= full.count:
                continue
            along = missed[term]
            if number < len(plan.terms):  # of what is missed, this input's part
                share = 1.0 - own.trace(moments[d])[0] / stats.weight
                along = kernel.components[term].variance * stats.weight * share
            cost = along / (2.0 * factored.noise * stats.count)
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
            longest = longest_in_cells(
                axis.degree for axis in used[number] if axis.process is not None
            )
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
