"""Whether a field's basis is large enough, and if not, how much finer it can be.

What the splines of a term miss is shared among its inputs as it would be along each alone.
Along one it falls with a power of the cells' width, until a lengthscale has as many cells as
rounding can bear (`asvgp.model.levels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log2

import numpy as np

from asvgp.basis import Grid
from asvgp.diagnostics.summary import BasisVerdict
from asvgp.kernels import Component
from asvgp.model.axis import Axis
from asvgp.model.conditioning import rougher
from asvgp.model.levels import levels_by_digits, longest_in_cells, marginal_moments, scale_of
from asvgp.model.plan import Plan
from asvgp.policies import VERDICT
from asvgp.posterior.grid import GridPosterior
from asvgp.statistics import Statistics


@dataclass(frozen=True)
class Side:
    """One term along one input.

    Attributes
    ----------
    place : int
        Of the input among those of the main block and then of the smooths.
    process : Component
    penalty : float
        What the bound pays for what is missed, in nats per datum.
    rate : int
        The power of the cells' width that it falls with.
    room : float
        How many times as fine the cells can be, for the digits that are left.
    grid : Grid
        The splines' own cells.
    """

    place: int
    process: Component
    penalty: float
    rate: int
    room: float
    grid: Grid

    def within(self, times: float) -> float:
        """As many times as fine, or as digits allow: in steps of half a doubling."""
        return min(
            times, max(1.0, 2.0 ** (floor(2.0 * log2(VERDICT.advised_margin * self.room)) / 2.0))
        )

    def left(self, times: float) -> float:
        """The penalty on cells so many times as fine."""
        return self.penalty * float(times) ** -self.rate


def basis_verdict(posterior: GridPosterior) -> BasisVerdict:
    """Is the basis large enough? By what the splines miss of the prior at the data."""
    kernel, stats, size = posterior.kernel, posterior.stats, posterior.engine.size
    sides, missed = _sides(posterior)
    penalty = sum(side.penalty for side in sides)
    gain = penalty - sum(side.left(2.0) for side in sides)
    share = missed / (kernel.prior_variance * stats.weight)
    times = 1
    while sum(side.left(times) for side in sides) >= VERDICT.enough and times < 1024:
        times *= 2
    words, finer = "yes" if penalty < VERDICT.enough else "nearly", _finer(posterior, sides, times)
    if penalty >= VERDICT.nearly_enough:
        words = f"no: about {times} times as many along every input would be"
        short = [side for side in _deciding(sides) if side.room < times]
        if short:
            regained = penalty - sum(side.left(side.within(times)) for side in sides)
            worst = max(short, key=lambda side: side.left(side.within(times)))
            other = rougher(worst.process)
            if regained >= VERDICT.worthwhile * penalty:
                words = (
                    f"no: num_basis={_counts(finer, posterior)} would regain about {regained:.2g} "
                    "nats per datum; still finer splines would leave too few digits of so long a "
                    "term" + (f", unless its kernel is rougher, {other}" if other else "")
                )
            else:
                finer = None
                words = (
                    "no, but finer splines would leave too few digits of so smooth and long a term"
                    + (f"; a rougher kernel, {other}, can have them" if other else "")
                )
    suggested = size
    if times > 1 and finer is not None:
        suggested = sum(finer.counts(kernel)) + finer.columns
    return BasisVerdict(share, penalty, gain, size, suggested, words)


def stopped_short(posterior: GridPosterior, finest: Statistics) -> list[str]:
    """A note where an automatic choice ended with clearly more to gain.

    On its finest cells, which finer ones would regain; or where digits end it, which none would.
    """
    sides, _ = _sides(posterior)
    grids = (*finest.grids, *(grid for grid, _ in finest.smooths))
    ended = [side for side in _deciding(sides) if side.grid == grids[side.place]]
    regained = sum(side.penalty - side.left(side.within(2.0)) for side in ended)
    penalty = sum(side.penalty for side in sides)
    costs = f"costs the bound {penalty:.2g} nats per datum and makes standard deviations wider"
    if regained > VERDICT.finer_grid_gain:
        now = _counts(_finer(posterior, sides, 1.0), posterior)
        then = _counts(_finer(posterior, ended, 2.0), posterior)
        return [
            f"the automatic resolution stopped at {now} basis functions, its finest cells. What "
            f"such splines miss {costs}: num_basis={then} would regain about {regained:.2g}"
        ]
    if penalty > VERDICT.lost_to_digits and any(
        side.within(2.0) < 2.0 for side in _deciding(sides)
    ):
        return [
            f"what the splines miss {costs}. Finer ones would leave too few digits of so smooth "
            "and long a term beside so little noise"
        ]
    return []


def _sides(posterior: GridPosterior) -> tuple[list[Side], float]:
    """Every term along every input of its own, and the variance missed by all of them."""
    plan, stats, kernel = posterior.plan, posterior.stats, posterior.kernel
    by_component = posterior.engine.missed(posterior.prior, derivatives=False)[0]
    missed = by_component[[*plan.terms, *plan.smooths]]
    moments, sides = marginal_moments(stats), []
    unit = 2.0 * posterior.noise * stats.count

    def side(place: int, axis: Axis, lost: float, finest: float) -> Side:
        process, k = axis.process, axis.degree
        assert process is not None
        rate = min(2 * (k - process.order), 2 * process.order + 1)
        room = finest * axis.grid.spacing / scale_of(process)
        return Side(place, process, float(lost / unit), rate, room, axis.grid)

    for axes, lost in zip(plan.axes(kernel), missed, strict=False):
        own = [(d, axis) for d, axis in enumerate(axes) if axis.process is not None]
        alone = [max(1.0 - axis.trace(moments[d])[0] / stats.weight, 0.0) for d, axis in own]
        parts = np.array(alone) / sum(alone) if sum(alone) > 0.0 else [1.0 / len(own)] * len(own)
        finest = longest_in_cells(axis.degree for _, axis in own)
        sides += [
            side(d, axis, part * lost, finest) for (d, axis), part in zip(own, parts, strict=True)
        ]
    columns = zip(plan.smooth_axes(kernel), missed[len(plan.terms) :], strict=True)
    for number, (axis, lost) in enumerate(columns, start=len(plan.inputs)):
        sides.append(side(number, axis, lost, longest_in_cells([axis.degree])))
    return sides, float(missed.sum())


def _deciding(sides: Sequence[Side]) -> list[Side]:
    """Those with a good part of the penalty."""
    least = VERDICT.deciding_part * sum(side.penalty for side in sides)
    return [side for side in sides if side.penalty >= least]


def _finer(posterior: GridPosterior, sides: Sequence[Side], times: float) -> Plan:
    """The plan on cells so many times as fine, where some of these sides want and can have it.

    With splines as a num_basis of that many would have them, at these hyperparameters.
    """
    plan, kernel, most = posterior.plan, posterior.kernel, len(posterior.plan.inputs)
    grids = []
    for place, grid in enumerate((*plan.grids, *plan.smooth_grids)):
        cells = [grid.cells]
        if place < most:  # none need be on the finest
            cells = [axes[place].grid.cells for axes in plan.axes(kernel) if axes[place].process]
        wanted = [side.within(times) for side in _deciding(sides) if side.place == place]
        share = max(wanted, default=1.0)
        grids.append(Grid(grid.lower, grid.upper, ceil(share * max(cells))))
    flat = tuple((0,) * most for _ in plan.terms)
    finer = replace(plan, grids=tuple(grids[:most]), levels=flat, smooth_grids=tuple(grids[most:]))
    return replace(finer, levels=levels_by_digits(kernel, finer))


def _counts(plan: Plan, posterior: GridPosterior) -> tuple[int, ...]:
    """Numbers of basis functions as a user gives them: one an input, in order of columns."""
    over = [posterior.kernel.components[term].factors[0].dim for term in plan.smooths]
    along = [grid.cells + k for grid, k in zip(plan.grids, plan.powers, strict=True)]
    counts: dict[int, int] = {}
    pairs = zip((*plan.inputs, *over), (*along, *plan.smooth_counts), strict=True)
    for column, count in pairs:
        counts[column] = max(count, counts.get(column, 0))
    return tuple(counts[column] for column in sorted(counts))
