"""What a summary says of a field: its structure, degrees of freedom, and basis."""

from __future__ import annotations

import numpy as np

from asvgp.field.bound import Priors, field_bound, freedoms
from asvgp.field.memory import in_words, plan_bytes
from asvgp.field.posterior import FieldPosterior
from asvgp.summary import ENOUGH, NEARLY, BasisVerdict, Facts


def field_facts(posterior: FieldPosterior, objective: str) -> Facts:
    """Structure, degrees of freedom, and whether the basis is large enough."""
    assembly, plan = posterior.assembly, posterior.plan
    freedom, by_term = freedoms(assembly, posterior.kernel, posterior.solution)
    order = np.argsort([*plan.terms, *plan.smooths])
    degrees = [k for own in plan.degrees for k in own if k] + list(plan.smooth_degrees)
    return Facts(
        tuple(degrees),
        structure_lines(posterior),
        freedom,
        tuple(float(by_term[i]) for i in order),
        _verdict(posterior),
        lambda kernel, noise: field_bound(assembly, kernel, noise, objective),
    )


def structure_lines(posterior: FieldPosterior) -> tuple[str, ...]:
    """How P is factored, over how many functions, in words and numbers."""
    assembly, plan, kernel = posterior.assembly, posterior.plan, posterior.kernel
    if not plan.inputs:
        return (f"additive: dense factor of {assembly.size:,} functions",)
    cost = assembly.tree.cost()
    lines = [
        f"grid in {len(plan.inputs)} inputs, nested dissection: {assembly.size:,} functions, "
        f"{cost.factor_nonzeros:,.0f} numbers in the factor, "
        f"{in_words(plan_bytes(plan, kernel, assembly.engine))} at the peak, "
        f"{(cost.factor_flops + cost.inverse_flops) / 1e9:,.1f} Gflop a bound"
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
    rates = []
    plan = posterior.plan
    for axes in plan.axes(kernel):
        processes = [(axis.process, axis.degree) for axis in axes if axis.process is not None]
        rates.append(min(min(2 * (k - p.order), 2 * p.order + 1) for p, k in processes))
    for axis in plan.smooth_axes(kernel):
        process = axis.process
        assert process is not None
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
    share = sum(missed) / (kernel.prior_variance * stats.weight)
    size = posterior.assembly.size
    return BasisVerdict(share, penalty, gain, size, size * times, words)
