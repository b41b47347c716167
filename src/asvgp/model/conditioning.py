"""Notes on digits, measured where P is factored, and on what splines miss.

Rough functions of a long process are stiffer than smooth ones by a high power of the lengthscale
in cells. P has to hold both, so that an elimination knows smooth directions only to rounding
times that ratio. How much is lost depends on the data, too. Where that ratio could matter
(`asvgp.model.levels.rounding_error`, which exceeds the error by far), it is measured by two
identities:

- with L the factor, v' P v = z' z for v = L^-T z. What is too much or too little is about the
  error of log|P|, and so of the bound (`Solution.defect`). Where it is too large, P is factored
  by square roots, which lose half as many digits (`asvgp.model.grid_roots`). Joint kernels have
  no such roots, and log|K| of theirs is found as log|P| is and measured likewise: where both
  lose too much, there is a note, or an error;
- tr(P^-1 P) is the number of functions, term by term (`TermForms.defect`). The gradient sums P^-1
  against derivatives of K, as this does against K, and is wrong by as much or less. Training takes
  a state where that is too much for a bad one.
"""

from __future__ import annotations

from collections.abc import Collection

from asvgp.kernels import PROCESSES, Component, Matern
from asvgp.kernels.algebra import renamed
from asvgp.model.axis import Axis
from asvgp.model.breakdown import advice, all_axes
from asvgp.model.grid import GridFactored
from asvgp.model.levels import marginal_moments, stiffness
from asvgp.model.plan import Plan
from asvgp.policies import FIELD, VERDICT


def few_digits(factored: GridFactored) -> list[str]:
    """Return a note if few digits are left."""
    stats, defect = factored.engine.statistics, factored.solution.defect
    if defect <= VERDICT.few_digits * min(factored.engine.size, stats.count):
        return []
    terms = all_axes(factored.engine.plan, factored.kernel)
    worst = max(range(len(terms)), key=lambda number: stiffness(terms[number]))
    return [
        f"rounding: the bound is good to about {defect:.1g} nats only. "
        + advice(factored.engine.plan, factored.kernel, [worst]).rstrip(".")
    ]


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
            notes.append(
                f"term {component + 1} ({label}) has fewer splines than num_basis asks for: "
                f"{'; '.join(sides)}. With twice as many cells, rounding errors would leave too "
                f"few digits of this term. The bound loses {lost:.2g} nats per datum"
                + (f"; a rougher kernel, {other}, can have more splines" if other else "")
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
        "standard deviations are wider than necessary: on average the splines miss a variance of "
        f"{missed:.3g}, which is added to that of predictions, while the variance between "
        f"neighbouring data is {scatter:.3g}. Try a larger num_basis, objective='elbo', or a "
        "rougher kernel"
    ]


def least_noise(scatter: float, noise: float, at_bounds: Collection[str]) -> list[str]:
    """Return a note if the noise ended at the least that the evidence allows.

    On cells as wide as splines of a smooth field may have, less would be taken for a fit that is
    better than it is; on finer ones it may be what the data say.
    """
    least = FIELD.least_noise_of_scatter * scatter
    if "noise variance" not in at_bounds or not noise <= 1.01 * least:
        return []
    return [
        f"the noise variance ended at {noise:.3g}, its lower limit for objective='evidence' "
        f"({FIELD.least_noise_of_scatter:.0%} of the variance between neighbouring data). If y has "
        "less noise, a larger num_basis or objective='elbo' may fit much better"
    ]
