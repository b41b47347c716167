"""What training on several inputs maximises, and within which limits.

Under "elbo" that is the bound. The evidence of the spline field does not pay for the variance
that the splines miss, which predictions add to theirs: alone it would be as content with a
long lengthscale and a huge variance as with the true ones, where data do not tell them apart.
So a term on cells wider than the data are dense pays for what it misses, as in the bound, but
in units of how much neighbouring data differ in place of the noise. On cells as fine as the
data nothing is paid: what those miss of a rough field is no fault of its hyperparameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.grid import GridEngine
from asvgp.model.levels import finest_levels, marginal_moments, most_cells
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.statistics import Statistics
from asvgp.training.climb import Problem
from asvgp.training.field_starts import (
    grids_by_input,
    noise_estimate,
    without_effects,
)
from asvgp.training.optimise import Objective
from asvgp.training.starts import State, mean_weight, signal_power


@dataclass(frozen=True)
class Nearby:
    """How data lie: variance between neighbours, and widths of cells as fine as the data.

    ``lengths`` are those along which neighbours tell of each other, by input, where known.
    """

    scatter: float
    spacing: tuple[float, ...]
    lengths: dict[int, float] | None = None

    @classmethod
    def of(cls, plan: Plan, stats: Statistics) -> Nearby:
        """From statistics on the finest grids, which are the plan's."""
        scatter = noise_estimate(plan, without_effects(plan, stats))
        floor = finest_levels(None, plan, marginal_moments(stats), stats.count)
        widths = zip(plan.grids, floor, strict=True)
        return cls(scatter, tuple(grid.spacing * 2**level for grid, level in widths))

    def prices(self, kernel: Kernel, plan: Plan, outputs: int) -> Array:
        """What a unit of missed variance costs, for every hyperparameter the price of its term."""
        out, first = np.zeros(len(kernel.parameters) + 1), 0
        for term, part in enumerate(kernel.components):
            last = first + len(part.parameters)
            if term in plan.terms and not self.as_fine(plan, plan.terms.index(term)):
                out[first:last] = FIELD.missed_price * outputs / self.scatter
            first = last
        return out

    def as_fine(self, plan: Plan, number: int) -> bool:
        """Whether a term of the main block is on such cells; halves do not count."""
        ratio = 1.0
        for d, (grid, fine) in enumerate(zip(plan.grids, self.spacing, strict=True)):
            if plan.degrees[number][d]:
                ratio *= grid.spacing * 2 ** plan.levels[number][d] / fine
        return ratio < 2.0


class FieldObjective(Objective):
    """The bound of a field, or of parts of one, as a function of the free log-hyperparameters.

    Parameters
    ----------
    problem : Problem
    assemblies : list of GridEngine
        The bound is the sum of theirs.
    nearby : Nearby
    known_noise : float, optional
    step : float
        The optimiser's unit.
    """

    def __init__(
        self,
        problem: Problem,
        assemblies: list[GridEngine],
        nearby: Nearby,
        known_noise: float | None = None,
        step: float = 1.0,
    ):
        self.assemblies, self.assembly = assemblies, assemblies[0]
        self.plan, self.step = self.assembly.plan, 1.0
        self.price = np.zeros(len(problem.kernel.parameters) + 1)
        if problem.objective == "evidence":
            self.price = nearby.prices(problem.kernel, self.plan, self.assembly.outputs)
        super().__init__(
            problem.kernel,
            self.assembly.statistics,  # pyright: ignore[reportArgumentType]
            problem.degree,
            problem.objective,
            known_noise,
        )
        self.step = step
        self.limits = [(low / step, high / step) for low, high in self.limits]

    def encode(self, state: State) -> Array:
        """The free log-hyperparameters of a state in units of the step, inside the limits."""
        kernel, noise = state
        theta = np.log(np.append(kernel.values[self.free], noise)) / self.step
        return np.clip(theta, *np.array(self.limits).T)

    def decode(self, theta: Array) -> State:
        """The state at a point."""
        return super().decode(self.step * theta)

    def slope(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient at a point."""
        value, gradient = super().slope(theta)
        return value, self.step * gradient

    def _limits(self) -> list[tuple[float, float]]:
        plain = without_effects(self.plan, self.assembly.statistics)
        power = signal_power(plain)
        grids = grids_by_input(self.kernel, self.plan)
        wide: dict[str, tuple[float, float]] = {}
        several = len(self.kernel.components) > 1
        for number, part in enumerate(self.kernel.components, start=1):
            label = f"{number}." if several else ""
            own = part.limits(
                grids if len(part.factors) > 1 else grids[part.factors[0].dim], power, power
            )
            wide |= {label + name: pair for name, pair in own.items()}
        if self.objective == "evidence":  # a process shorter than its cells is another one
            wide |= {
                name: (max(pair[0], floor), pair[1])
                for name, pair in wide.items()
                if (floor := self._shortest(name)) is not None
            }
        for name, longest in self._longest():
            wide[name] = (min(wide[name][0], longest), min(wide[name][1], longest))
        limits = []
        for i in self.free:
            name = self.kernel.parameters[i]
            lower, upper = self.kernel.bounds.get(name, wide[name])
            limits.append((np.log(lower), np.log(upper)))
        if self.known_noise is not None:
            return [*limits, (np.log(self.known_noise), np.log(self.known_noise))]
        noise = (
            mean_weight(self.assembly.statistics)
            * power
            * np.array([FIELD.least_noise, FIELD.most_noise])
        )
        if self.objective == "evidence":
            noise[0] = min(
                max(noise[0], FIELD.least_noise_of_scatter * noise_estimate(self.plan, plain)),
                noise[1],
            )
        return [*limits, (np.log(noise[0]), np.log(noise[1]))]

    def _longest(self):
        """Names of lengths, with the longest that two cells over the domain can express."""
        several = len(self.kernel.components) > 1
        grids = grids_by_input(self.kernel, self.plan)
        smooths = zip(self.plan.smooths, self.plan.smooth_degrees, strict=True)
        main = zip(self.plan.terms, self.plan.degrees, strict=True)
        for term, degrees in (*main, *((term, (degree,)) for term, degree in smooths)):
            part = self.kernel.components[term]
            cells = most_cells(k for k in degrees if k)
            for factor in part.factors:
                name = factor.parameters[0] + (f"[{factor.dim}]" if len(part.factors) > 1 else "")
                span = grids[factor.dim].upper - grids[factor.dim].lower
                yield (f"{term + 1}." if several else "") + name, 0.5 * cells * span

    def _shortest(self, name: str) -> float | None:
        """The least length that a term's cells can express, for a hyperparameter that is one."""
        number, _, parameter = name.rpartition(".") if "." in name else ("1", "", name)
        if not parameter.startswith(("lengthscale", "period")):
            return None
        term = int(number) - 1
        part = self.kernel.components[term]
        if term not in self.plan.terms:
            return None
        place = self.plan.terms.index(term)
        for d, column in enumerate(self.plan.inputs):
            if parameter.endswith(f"[{column}]") or [f.dim for f in part.factors] == [column]:
                level = self.plan.levels[place][d]
                cells = FIELD.shortest_length if level else FIELD.shortest_length_on_finest
                return cells * self.plan.grids[d].spacing * 2**level
        return None

    def _bound(self, kernel: Kernel, noise: float) -> Bound:
        try:
            likelihood = Gaussian(noise)
            bounds = [
                lower_bound(engine.factor(kernel, likelihood), self.objective)
                for engine in self.assemblies
            ]
        except np.linalg.LinAlgError:
            if self.best[1] is None:
                raise
            # Too long for its cells to be told from rounding: worse than all that is known.
            worst = min(self.trace) - abs(min(self.trace))
            flat = np.zeros(len(kernel.parameters) + 1)
            return Bound(worst, worst, 0.0, flat, flat)
        slopes = [np.asarray(b.d_missed) for b in bounds]
        d_missed, gradient = np.sum(slopes, axis=0), np.sum([b.gradient for b in bounds], axis=0)
        return Bound(
            sum(b.elbo for b in bounds),
            sum(b.fit for b in bounds),
            sum(b.missed for b in bounds),
            gradient - self.price * d_missed,
            d_missed,
        )

    def value(self, bound: Bound) -> float:
        """The number that is maximised."""
        if self.objective == "elbo":
            return bound.elbo
        # What is missed is proportional to the variances, the last of each term.
        variances = [name.rpartition(".")[2] == "variance" for name in self.kernel.parameters]
        slopes = np.asarray(bound.d_missed)[:-1][variances]
        return bound.fit - float(self.price[:-1][variances] @ slopes)
