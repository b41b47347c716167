"""How densely data of several inputs lie, and what training makes of it.

The evidence of the spline field does not pay for the variance that the splines miss, which
predictions add to theirs. Alone it would be as content with a long lengthscale and a huge
variance as with the true ones, where data do not tell them apart. So a term on cells wider than
the data are dense pays for what it misses, as in the bound, but in units of how much neighbouring
data differ in place of the noise. On cells as fine as the data nothing is paid: what those miss of
a rough field is no fault of its hyperparameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asvgp.basis import Grid
from asvgp.kernels import Component, Kernel
from asvgp.model.levels import levels_by_data, marginal_moments
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.statistics import Statistics
from asvgp.training.objective import Grids, Limits, MissedPrice, log_limits
from asvgp.training.problem import Problem
from asvgp.training.starts import mean_weight, noise_estimate, signal_power, without_effects


@dataclass(frozen=True)
class Nearby:
    """Spacing and scatter of neighbouring data."""

    scatter: float  # variance between neighbouring data
    spacing: tuple[float, ...]  # of cells as fine as the data, along inputs of the main block
    lengths: dict[int, float] | None = None  # over which neighbours are alike, by input, if known

    @classmethod
    def of(cls, kernel: Kernel, plan: Plan, stats: Statistics) -> Nearby:
        """Estimate from statistics on the finest grids, which are the plan's."""
        scatter = noise_estimate(without_effects(kernel, stats))
        levels = levels_by_data(None, plan, marginal_moments(stats), stats.count)
        widths = zip(plan.grids, levels, strict=True)
        return cls(scatter, tuple(grid.spacing * 2**level for grid, level in widths))

    def price(self, kernel: Kernel, plan: Plan, outputs: int) -> MissedPrice:
        """Return the price of missed variance; terms on cells as fine as the data pay nothing."""
        prices, first = np.zeros(len(kernel.parameters)), 0
        for term, part in enumerate(kernel.components):
            last = first + len(part.parameters)
            if term in plan.terms and not self.as_fine(plan, plan.terms.index(term)):
                prices[first:last] = FIELD.missed_price * outputs / self.scatter
            first = last
        variances = np.array([name.rpartition(".")[2] == "variance" for name in kernel.parameters])
        return MissedPrice(prices, variances)

    def as_fine(self, plan: Plan, number: int) -> bool:
        """Return True if a term of the main block is on cells less than twice as wide as these."""
        ratio = 1.0
        for d, (grid, fine) in enumerate(zip(plan.grids, self.spacing, strict=True)):
            if plan.degrees[number][d]:
                ratio *= grid.spacing * 2 ** plan.levels[number][d] / fine
        return ratio < 2.0


def grids_by_input(kernel: Kernel, plan: Plan) -> Grids:
    """Return the grid of every column that a process is over."""
    grids: dict[int | str | None, Grid] = dict(zip(plan.inputs, plan.grids, strict=True))
    for term, grid in zip(plan.smooths, plan.smooth_grids, strict=True):
        grids[kernel.components[term].factors[0].dim] = grid
    return grids


def field_limits(problem: Problem, plan: Plan, stats: Statistics, scatter: float) -> Limits:
    """Return the limits of training on one plan; ``scatter`` is that of neighbouring data."""
    kernel, plain = problem.kernel, without_effects(problem.kernel, stats)
    power, grids = signal_power(plain), grids_by_input(problem.kernel, plan)
    scale = mean_weight(stats) * power
    least_noise, most_noise = FIELD.least_noise * scale, FIELD.most_noise * scale
    shortest = {}
    if problem.objective == "evidence":
        least = max(least_noise, FIELD.least_noise_of_scatter * scatter)
        least_noise = min(least, most_noise)
        shortest = _shortest(kernel, plan)
    noise = least_noise, most_noise
    return log_limits(problem, grids, power, power, noise, shortest, {})


def _lengths(kernel: Kernel, term: int) -> Iterator[tuple[str, Component]]:
    """Return the names of a term's lengths, each with its process of one input."""
    prefix, part = kernel.labelled[term]
    for process in part.along:
        yield prefix + part.name_of(process, process.parameters[0]), process


def _shortest(kernel: Kernel, plan: Plan) -> dict[str, float]:
    """Return the least lengths that the cells of the main block can express."""
    shortest = {}  # a shorter process is another one, which training would exploit
    for place, term in enumerate(plan.terms):
        for name, process in _lengths(kernel, term):
            d = plan.inputs.index(process.dim)
            level = plan.levels[place][d]
            cells = FIELD.shortest_length if level else FIELD.shortest_length_on_finest
            length = cells * plan.grids[d].spacing * 2**level
            shortest[name] = max(shortest.get(name, 0.0), length)  # one may be along several
    return shortest
