"""What a summary says of a field: its structure, degrees of freedom, and basis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asvgp.field.bound import Priors, field_bound, freedoms
from asvgp.field.memory import in_words, spilled
from asvgp.field.objective import Nearby
from asvgp.field.posterior import FieldPosterior
from asvgp.field.resolution import most_cells, scale_of
from asvgp.field.stats import FieldStatistics
from asvgp.inference.bound import Bound
from asvgp.kernels import Kernel
from asvgp.summary import ENOUGH, NEARLY, BasisVerdict, Facts


def field_facts(posterior: FieldPosterior, objective: str, stats: FieldStatistics) -> Facts:
    """Structure, degrees of freedom, and whether the basis is large enough.

    ``stats`` are those on the finest grids.
    """
    assembly, plan = posterior.assembly, posterior.plan
    freedom, by_term = freedoms(assembly, posterior.kernel, posterior.solution)
    order = np.argsort([*plan.terms, *plan.smooths])
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
        prices = nearby.prices(posterior.kernel, plan, assembly.outputs)

    def trained(kernel: Kernel, noise: float) -> Bound:
        bound = field_bound(assembly, kernel, noise, objective)
        return replace(bound, gradient=bound.gradient - prices * np.asarray(bound.d_missed))

    return Facts(
        tuple(degrees),
        structure_lines(posterior),
        freedom,
        tuple(float(by_term[i]) for i in order),
        _verdict(posterior),
        trained,
    )


def structure_lines(posterior: FieldPosterior) -> tuple[str, ...]:
    """How P is factored, over how many functions, in words and numbers."""
    assembly, plan, kernel = posterior.assembly, posterior.plan, posterior.kernel
    if not plan.inputs:
        n = float(assembly.size)
        return (
            f"additive: dense factor of {assembly.size:,} functions, "
            f"{in_words(assembly.need.memory)} at the peak, "
            f"{n**3 / 1e9:,.1f} Gflop a bound",
        )
    cost, need, spills = assembly.tree.cost(), assembly.need, assembly.on_disk
    lines = [
        f"grid in {len(plan.inputs)} inputs, nested dissection: {assembly.size:,} functions, "
        f"{cost.factor_nonzeros:,.0f} numbers in the factor, "
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


def _verdict(posterior: FieldPosterior) -> BasisVerdict:
    """Is the basis large enough? By what the splines miss of the prior at the data."""
    stats, noise, kernel = posterior.stats, posterior.noise, posterior.kernel
    missed, _ = Priors(posterior.assembly, kernel).missed(derivatives=False)
    rates, rooms = [], []
    plan = posterior.plan
    for axes in plan.axes(kernel):
        processes = [(axis.process, axis.degree) for axis in axes if axis.process is not None]
        finest = most_cells(k for _, k in processes)
        cells = [scale_of(a.process) / a.grid.spacing for a in axes if a.process is not None]
        rooms.append(finest / max(cells))
        rates.append(min(min(2 * (k - p.order), 2 * p.order + 1) for p, k in processes))
    for axis in plan.smooth_axes(kernel):
        process = axis.process
        assert process is not None
        rooms.append(most_cells([axis.degree]) * axis.grid.spacing / scale_of(process))
        rates.append(min(2 * (axis.degree - process.order), 2 * process.order + 1))
    penalties = np.array(missed) / (2.0 * noise * stats.count)
    penalty, rates = float(penalties.sum()), np.array(rates)
    gain = float(np.sum(penalties * (1.0 - 2.0**-rates)))
    times = 1
    while np.sum(penalties * float(times) ** -rates) >= ENOUGH and times < 1024:
        times *= 2
    words = "yes" if penalty < ENOUGH else "nearly"
    if penalty >= NEARLY:
        words = f"no: about {times} times as many along every input would be"
        room = min(rooms[i] for i in np.flatnonzero(penalties >= 0.1 * penalty))
        if times > room:
            words = (
                "no, but finer splines would leave too few digits of so smooth and long a term; "
                "rougher kernels, as Matern32 in place of Matern52, can have them"
            )
            times = max(1, int(room))
    share = sum(missed) / (kernel.prior_variance * stats.weight)
    size = posterior.assembly.size
    return BasisVerdict(share, penalty, gain, size, size * times, words)
