"""Room for joint kernels beyond the data: as many growing cells as their lengths ask for."""

from __future__ import annotations

from dataclasses import replace
from math import log

from asvgp.kernels import EarthMatern, Kernel
from asvgp.kernels.algebra import renamed
from asvgp.model.earth_axis import LatitudeAxis, LongitudeAxis
from asvgp.model.grid_prior import GridPrior
from asvgp.model.joint import JointPrior
from asvgp.model.joint_axis import JointAxis, widths_beyond
from asvgp.model.joint_share import missed_share
from asvgp.model.plan import Plan
from asvgp.policies import FIELD


def cells_beyond(decay: float, nu: float) -> int:
    """Return how many growing cells make enough room beyond the data.

    ``decay`` is the decay length of the covariance in cells of the data.

    Examples
    --------
    >>> cells_beyond(4.0, nu=1.0)
    4
    """
    finer = max(decay / FIELD.joint_coarse, 1.0)
    room = decay * (FIELD.joint_room + FIELD.joint_more_room * nu * log(finer))
    outer = 0
    while widths_beyond(outer).sum() < room:
        outer += 1
    return outer


def with_room(plan: Plan, kernel: Kernel, times: float = 1.0, least: float = 0.0) -> Plan:
    """Return the plan with cells beyond the data for the joint terms of a kernel.

    There is room for ``times`` their lengthscales, and for ``least`` of the domain.
    """
    beyond = []
    for axes in plan.axes(kernel):
        outer = []
        for axis in axes:
            if not isinstance(axis, JointAxis) or axis.grid.cyclic:
                outer.append(0)
                continue
            process, span = axis.process, axis.fine.upper - axis.fine.lower
            length = max(times * max(process.reach, process.lengthscale), least * span)
            decay = length * process.decay / process.lengthscale
            outer.append(cells_beyond(decay / axis.grid.spacing, process.nu))
            if isinstance(axis, LongitudeAxis):
                outer[-1] = axis.enough(outer[-1])
            if isinstance(axis, LatitudeAxis) and axis.limited(outer[-1]):
                outer[-1] += FIELD.pole_cells
        beyond.append(tuple(outer))
    if not any(map(any, beyond)):
        return plan
    return replace(plan, outer=tuple(beyond))


def has_room(plan: Plan, wanted: Plan) -> bool:
    """Return True if a plan is another one but for more cells beyond the data, or as many."""
    if replace(plan, outer=()) != replace(wanted, outer=()):
        return False
    pairs = zip(plan.outer, wanted.outer, strict=True)
    return all(a >= b for own, other in pairs for a, b in zip(own, other, strict=True))


def little_room(prior: GridPrior) -> list[str]:
    """Return notes on joint terms that miss far more variance at the edges than cells explain."""
    notes, plan = [], prior.plan
    for number, term in zip(plan.terms, prior.terms, strict=True):
        for unit in term.units:
            if not isinstance(unit, JointPrior):
                continue
            edge, amid = unit.missed_shares()
            pairs = zip(unit.process.along, unit.axes, strict=True)
            usual = max(
                missed_share(along, along.decay / axis.grid.spacing, axis.degree)
                for along, axis in pairs
            )
            if edge > max(FIELD.little_room * usual, 2.0 * FIELD.tolerated_loss):
                label = repr(renamed(prior.kernel.components[number], plan.names))
                missed = f"{edge:.2g} of its variance at the edges and {amid:.2g} on average"
                if isinstance(unit.process, EarthMatern):
                    notes.append(
                        f"term {number + 1} ({label}) extends farther towards a pole than its "
                        f"splines, which miss {missed}. Standard deviations there are therefore "
                        "too wide. In a product, each pole needs unknowns for every basis function "
                        "of the other inputs, and here these would be too many. Use fewer basis "
                        "functions along the other inputs, nu=1 or a shorter lengthscale"
                    )
                    continue
                notes.append(
                    f"term {number + 1} ({label}) has too little room beyond the data: the splines "
                    f"miss {missed}. Fit again with kernel=kernel_, or give bounds on the "
                    "lengthscale"
                )
    return notes
