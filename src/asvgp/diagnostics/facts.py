"""What a summary needs to know of a model: its structure, degrees of freedom, and basis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from asvgp.diagnostics.verdict import BasisVerdict, field_verdict, line_verdict, series_verdict
from asvgp.kernels import Kernel
from asvgp.likelihoods import Likelihood
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.memory import spilled
from asvgp.model.series.terms import Season
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.series import SeriesPosterior
from asvgp.runtime.memory import in_words
from asvgp.statistics import Statistics
from asvgp.training.nearby import Nearby


@dataclass(frozen=True)
class Facts:
    """What a summary needs to know of a model."""

    degrees: tuple[int, ...]  # by component and input
    structure: tuple[str, ...]  # lines on how the model is factored
    freedom: float  # effective degrees of freedom of one output
    component_freedom: tuple[float, ...]  # part of every component; the rest is that of the effects
    verdict: BasisVerdict
    bound: Callable[[Kernel, Likelihood], Bound] | None = None  # if not that of one input


def line_facts(posterior: ChainPosterior) -> Facts:
    """Gather the facts of a model of one input."""
    degrees, factored = posterior.engine.degrees, posterior.factored
    return Facts(
        degrees,
        (),
        factored.forms().freedom,
        tuple(map(float, factored.component_freedoms())),
        line_verdict(posterior.kernel, posterior.noise, posterior.stats, degrees),
    )


def field_facts(posterior: GridPosterior, objective: str, stats: Statistics) -> Facts:
    """Gather the facts of a model of several inputs; ``stats`` are those on the finest grids."""
    engine, plan = posterior.engine, posterior.plan
    factored = posterior.factored
    every = [k for degrees in plan.degrees for k in degrees if k] + list(plan.smooth_degrees)
    price = None
    if objective == "evidence":
        finest = replace(
            plan,
            grids=stats.grids,
            levels=tuple((0,) * len(stats.grids) for _ in plan.terms),
            smooth_grids=tuple(grid for grid, _ in stats.smooths),
        )
        nearby = Nearby.of(posterior.kernel, finest, stats)
        price = nearby.price(posterior.kernel, plan, engine.outputs)

    def trained(kernel: Kernel, likelihood: Likelihood) -> Bound:
        at = factored
        if (kernel, likelihood) != (posterior.kernel, posterior.likelihood):
            at = engine.factor(kernel, likelihood, remember=False)
        bound = lower_bound(at, objective)
        if price is None:
            return bound
        return replace(bound, gradient=bound.gradient - price.slope(bound))

    return Facts(
        tuple(every),
        structure_lines(posterior),
        factored.forms().freedom,
        tuple(map(float, factored.component_freedoms())),
        field_verdict(posterior),
        trained,
    )


def series_facts(posterior: SeriesPosterior | ExactPosterior, objective: str) -> Facts:
    """Gather the facts of a series."""
    engine, factored = posterior.engine, posterior.factored

    def trained(kernel: Kernel, likelihood: Likelihood) -> Bound:
        at = factored
        if (kernel, likelihood) != (posterior.kernel, posterior.likelihood):
            at = engine.factor(kernel, likelihood, remember=False)
        return lower_bound(at, objective)

    freedoms = factored.forms().freedom, tuple(map(float, factored.component_freedoms()))
    if isinstance(posterior, ExactPosterior):
        words = f"exact: no splines, the field at {len(posterior.engine.x):,} distinct inputs"
        return Facts((), (words,), *freedoms, series_verdict(posterior), trained)
    engine, factored = posterior.engine, posterior.factored
    cost = engine.tables.tree.cost()
    inner = int(engine.tables.inner.sum())
    beyond = engine.size - inner - engine.tables.coupled(engine.statistics)
    of_which = [f"{inner:,} inside one cell"] * bool(inner)
    of_which += [f"{beyond:,} in gaps of the data"] * bool(beyond)
    functions = f"{engine.size:,} functions" + (f" ({' and '.join(of_which)})" if of_which else "")
    lines = [
        f"series, dissection of {engine.plan.grid.cells:,} cells: {functions}, "
        f"a Cholesky factor of {cost.factor_nonzeros:,.0f} non-zeros, "
        f"{(cost.factor_flops + cost.inverse_flops) / 1e9:,.2f} Gflop a bound"
    ]
    degrees = []
    for number, (part, term) in enumerate(
        zip(engine.plan.parts, factored.prior.terms, strict=True)
    ):
        counts = []
        if part.along is not None:
            assert not isinstance(term, Season)
            counts.append(f"{term.axis.count:,} along the line")
            degrees.append(part.along.degree)
        if part.around is not None:
            counts.append(f"{part.around.count} around the period")
            degrees.append(part.around.degree)
        lines.append(f"component {number + 1}: {' x '.join(counts)}")
    return Facts(
        tuple(degrees),
        tuple(lines),
        *freedoms,
        series_verdict(posterior),
        trained,
    )


def structure_lines(posterior: GridPosterior) -> tuple[str, ...]:
    """Say how P is factored, over how many functions, in words and numbers."""
    engine, plan, kernel = posterior.engine, posterior.plan, posterior.kernel
    if not plan.inputs:
        n = float(engine.size)
        return (
            f"additive: dense factor of {engine.size:,} functions, "
            f"{in_words(engine.tables.need.memory)} at the peak, "
            f"{n**3 / 1e9:,.1f} Gflop a bound",
        )
    cost, need, spills = engine.tables.tree.cost(), engine.tables.need, engine.tables.on_disk
    lines = [
        f"grid in {len(plan.inputs)} inputs, nested dissection: {engine.size:,} functions, "
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
