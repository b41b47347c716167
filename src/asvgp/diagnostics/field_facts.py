"""What a summary says of a field: its structure, degrees of freedom, and basis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asvgp.diagnostics.field_verdict import basis_verdict
from asvgp.diagnostics.summary import Facts
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.memory import spilled
from asvgp.posterior.grid import GridPosterior
from asvgp.runtime.memory import in_words
from asvgp.statistics import Statistics
from asvgp.training.nearby import Nearby


def field_facts(posterior: GridPosterior, objective: str, stats: Statistics) -> Facts:
    """Structure, degrees of freedom, and whether the basis is large enough.

    ``stats`` are those on the finest grids.
    """
    assembly, plan = posterior.engine, posterior.plan
    factored = posterior.factored
    degrees = [k for own in plan.degrees for k in own if k] + list(plan.smooth_degrees)
    prices = 0.0
    if objective == "evidence":
        finest = replace(
            plan,
            grids=stats.grids,
            levels=tuple((0,) * len(stats.grids) for _ in plan.terms),
            smooth_grids=tuple(grid for grid, _ in stats.smooths),
        )
        nearby = Nearby.of(posterior.kernel, finest, stats)
        prices = nearby.price(posterior.kernel, plan, assembly.outputs).prices

    def trained(kernel: Kernel, noise: float) -> Bound:
        at = factored
        if (kernel, noise) != (posterior.kernel, posterior.noise):
            at = assembly.factor(kernel, Gaussian(noise), remember=False)
        bound = lower_bound(at, objective)
        return replace(bound, gradient=bound.gradient - prices * np.asarray(bound.d_missed))

    return Facts(
        tuple(degrees),
        structure_lines(posterior),
        factored.forms().freedom,
        tuple(map(float, factored.component_freedoms())),
        basis_verdict(posterior),
        trained,
    )


def structure_lines(posterior: GridPosterior) -> tuple[str, ...]:
    """How P is factored, over how many functions, in words and numbers."""
    assembly, plan, kernel = posterior.engine, posterior.plan, posterior.kernel
    if not plan.inputs:
        n = float(assembly.size)
        return (
            f"additive: dense factor of {assembly.size:,} functions, "
            f"{in_words(assembly.tables.need.memory)} at the peak, "
            f"{n**3 / 1e9:,.1f} Gflop a bound",
        )
    cost, need, spills = assembly.tables.tree.cost(), assembly.tables.need, assembly.tables.on_disk
    lines = [
        f"grid in {len(plan.inputs)} inputs, nested dissection: {assembly.size:,} functions, "
        f"a Cholesky factor of {cost.factor_nonzeros:,.0f} non-zeros, "
        f"{in_words(need.rest if spills else need.memory)} at the peak, "
        f"{(cost.factor_flops + cost.inverse_flops) / 1e9:,.1f} Gflop a bound"
        + spilled(need, spills)
    ]
    for number, axes in enumerate(plan.axes(kernel)):
        counts = " x ".join(str(axis.count) for axis in axes if axis.process is not None)
        lines.append(f"term {plan.terms[number] + 1}: {counts} splines")
    for term, count in zip(plan.smooths, plan.smooth_counts, strict=True):
        lines.append(f"term {term + 1}: {count} splines, a column of every cell")
    return tuple(lines)
