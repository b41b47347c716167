"""Verdicts on the basis: whether it is large enough, and if not, how much finer to make it.

What splines miss along one input falls with a power of the cells' width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

import numpy as np

from asvgp.basis import Grid
from asvgp.kernels import AlongJoint, Component, Kernel
from asvgp.model.axis import Axis
from asvgp.model.levels import marginal_moments
from asvgp.model.plan import Plan
from asvgp.model.prior import ChainPrior, data_variance
from asvgp.policies import VERDICT
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.series import SeriesPosterior
from asvgp.statistics import Statistics


@dataclass(frozen=True)
class BasisVerdict:
    """The answer to the question whether more basis functions would help.

    Attributes
    ----------
    missed_share : float
        Share of the prior variance at the data that the splines miss.
    penalty : float
        Loss of the bound for that, in nats per datum: all that finer knots can recover.
    gain : float
        The part of it that twice the resolution would recover, by theory: the missed
        variance of a kernel with p derivatives falls like ``h**min(2 (k - p), 2 p + 1)``.
    num_basis : int
        Present number of basis functions: of one component for one input, else of all.
    suggested : int
        Number that should bring the penalty below 0.001 nats per datum.
    verdict : str
        The answer in words.
    """

    missed_share: float
    penalty: float
    gain: float
    num_basis: int
    suggested: int
    verdict: str

    @property
    def enough(self) -> bool:
        """True if the answer is yes."""
        return self.penalty < VERDICT.enough

    def __str__(self) -> str:
        return self.verdict


@dataclass(frozen=True)
class Side:
    """The splines of one component along one input."""

    process: Component
    degree: int
    grid: Grid  # the splines' own cells
    penalty: float  # loss of the bound to what they miss, in nats per datum
    place: int = 0  # number of the input among those of the main block and the smooths

    @property
    def rate(self) -> int:
        """The power of the cells' width that the penalty falls with, by theory."""
        order = self.process.order
        if isinstance(self.process, AlongJoint):
            return round(2.0 * self.process.nu)
        return min(2 * (self.degree - order), 2 * order + 1)

    def left(self, times: float) -> float:
        """Return the penalty on cells so many times as fine."""
        return self.penalty * float(times) ** -self.rate


def total_penalty(sides: Sequence[Side], times: float = 1.0) -> float:
    """Return the penalty of all splines on cells so many times as fine."""
    return sum(side.left(times) for side in sides)


def _short_answer(penalty: float) -> str:
    return "yes" if penalty < VERDICT.enough else "nearly"


def series_verdict(posterior: SeriesPosterior | ExactPosterior) -> BasisVerdict:
    """Judge the basis of a series, by what its components miss of the prior at the data."""
    engine, stats = posterior.engine, posterior.engine.statistics
    missed = np.maximum(posterior.factored.missed()[0], 0.0)
    penalty = float(missed.sum()) / (2.0 * posterior.noise * stats.observations)
    share = float(missed.sum()) / (posterior.kernel.prior_variance * stats.weight)
    words, suggested = _short_answer(penalty), engine.size
    if penalty >= VERDICT.nearly_enough:
        suggested = 2 * stats.grid.cells
        words = f"no: fit the kernel found, gp.kernel_, again with num_basis={suggested}"
    return BasisVerdict(share, penalty, 0.5 * penalty, engine.size, suggested, words)


def line_verdict(
    kernel: Kernel, noise: float, stats: Statistics, degree: int | tuple[int, ...]
) -> BasisVerdict:
    """Judge the basis of a model of one input, by what it misses of the prior at the data.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> x = np.linspace(0, 1, 1000)
    >>> for cells in (20, 100, 500):
    ...     stats = Statistics.from_data(x, np.sin(9 * x), Grid(0.0, 1.0, cells), degree=2)
    ...     print(line_verdict(Matern32(0.3), 0.01, stats, degree=2))
    no: raise num_basis to about 270
    nearly
    yes
    """
    prior, grid = ChainPrior(kernel, stats.grid, degree), stats.grid
    missed = [max(part.missed(stats)[0], 0.0) for part in prior.priors]
    sides = [
        Side(part.kernel, part.degree, grid, lost / (2.0 * noise * stats.observations))
        for part, lost in zip(prior.priors, missed, strict=True)
    ]
    penalty, top = total_penalty(sides), max(prior.degrees)
    suggested = num_basis = grid.cells + top
    if penalty >= VERDICT.enough:
        low, high = 0.0, 60.0  # log2 of the refinement, by bisection
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            enough = total_penalty(sides, 2.0**middle) < VERDICT.enough
            low, high = (low, middle) if enough else (middle, high)
        suggested = grid.cells * 2.0**high + top
        unit = 10 ** max(floor(log10(suggested)) - 1, 0)
        suggested = ceil(suggested / unit) * unit  # two digits, rounded up
    words = _short_answer(penalty)
    if penalty >= VERDICT.nearly_enough:
        words = f"no: raise num_basis to about {suggested:,}"
        if stats.averaged:
            words += ", or the degree where knots would cut intervals"
    share = sum(missed) / sum(data_variance(part, stats)[0] for part in kernel.components)
    gain = penalty - total_penalty(sides, 2.0)
    return BasisVerdict(share, penalty, gain, num_basis, suggested, words)


def field_verdict(posterior: GridPosterior) -> BasisVerdict:
    """Judge the basis of a model of several inputs, by what it misses of the prior at the data."""
    kernel, stats, size = posterior.kernel, posterior.stats, posterior.engine.size
    sides, missed = _sides(posterior)
    penalty = total_penalty(sides)
    gain = penalty - total_penalty(sides, 2.0)
    share = missed / (kernel.prior_variance * stats.weight)
    times = 1
    while total_penalty(sides, times) >= VERDICT.enough and times < 1024:
        times *= 2
    words, finer = _short_answer(penalty), _finer(posterior, sides, times)
    if penalty >= VERDICT.nearly_enough:
        words = f"no: about {times} times as many along every input would be enough"
    suggested = size
    if times > 1:
        suggested = sum(finer.counts(kernel)) + finer.columns
    return BasisVerdict(share, penalty, gain, size, suggested, words)


def stopped_short(posterior: GridPosterior, finest: Statistics) -> list[str]:
    """Return a note if an automatic choice ended on its finest cells, with clearly more to gain."""
    sides, kernel = _sides(posterior)[0], posterior.kernel
    grids = (*finest.grids, *(grid for grid, _ in finest.smooths))
    ended = [side for side in _deciding(sides) if side.grid == grids[side.place]]
    regained = sum(side.penalty - side.left(2.0) for side in ended)
    penalty = total_penalty(sides)
    costs = f"lowers the bound by {penalty:.2g} nats per datum and widens standard deviations"
    if regained > VERDICT.finer_grid_gain:
        now = _finer(posterior, sides, 1.0).num_basis(kernel)
        then = _finer(posterior, ended, 2.0).num_basis(kernel)
        return [
            f"the automatic resolution stopped at {now} basis functions, its finest grid. What "
            f"these splines miss {costs}: num_basis={then} would regain about {regained:.2g}"
        ]
    return []


def _sides(posterior: GridPosterior) -> tuple[list[Side], float]:
    """Return all components along each of their inputs, and the variance that they miss in all."""
    plan, stats, kernel = posterior.plan, posterior.stats, posterior.kernel
    by_component = posterior.engine.missed(posterior.prior, derivatives=False)[0]
    missed = by_component[[*plan.terms, *plan.smooths]]
    moments, sides = marginal_moments(stats), []
    unit = 2.0 * posterior.noise * stats.observations

    def side(place: int, axis: Axis, lost: float) -> Side:
        assert axis.process is not None
        return Side(axis.process, axis.degree, axis.grid, float(lost / unit), place)

    for axes, lost in zip(plan.axes(kernel), missed, strict=False):
        # What a term misses is shared among its inputs as it would be along each alone.
        along = [(d, axis) for d, axis in enumerate(axes) if axis.process is not None]
        alone = [max(1.0 - axis.trace(moments[d])[0] / stats.weight, 0.0) for d, axis in along]
        parts = (
            np.array(alone) / sum(alone) if sum(alone) > 0.0 else [1.0 / len(along)] * len(along)
        )
        sides += [side(d, axis, part * lost) for (d, axis), part in zip(along, parts, strict=True)]
    columns = zip(plan.smooth_axes(kernel), missed[len(plan.terms) :], strict=True)
    for number, (axis, lost) in enumerate(columns, start=len(plan.inputs)):
        sides.append(side(number, axis, lost))
    return sides, float(missed.sum())


def _deciding(sides: Sequence[Side]) -> list[Side]:
    """Return those with a good part of the penalty."""
    least = VERDICT.deciding_part * total_penalty(sides)
    return [side for side in sides if side.penalty >= least]


def _finer(posterior: GridPosterior, sides: Sequence[Side], times: float) -> Plan:
    """Return the plan on cells so many times as fine, where these sides need them.

    All terms are on them.
    """
    plan, kernel, main = posterior.plan, posterior.kernel, len(posterior.plan.inputs)
    grids = []
    for place, grid in enumerate((*plan.grids, *plan.smooth_grids)):
        cells = [grid.cells]
        if place < main:  # none need be on the finest
            cells = [axes[place].grid.cells for axes in plan.axes(kernel) if axes[place].process]
        wanted = any(side.place == place for side in _deciding(sides))
        share = times if wanted else 1.0
        grids.append(replace(grid, cells=ceil(share * max(cells))))
    flat = tuple((0,) * main for _ in plan.terms)
    return replace(plan, grids=tuple(grids[:main]), levels=flat, smooth_grids=tuple(grids[main:]))
