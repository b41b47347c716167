"""Training of a large field on boxes of its cells, before all of it is looked at.

Every step to the sites of a large field is dear, and training takes some hundred of them. Boxes
with the same cells tell nearly the same hyperparameters. They are laid side by side, with empty
cells between them, so that they are one field to all that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from asvgp.kernels import Kernel
from asvgp.model.plan import Plan
from asvgp.policies import SITES
from asvgp.statistics import Statistics
from asvgp.training.boxes import boxes


def excerpt(kernel: Kernel, plan: Plan, stats: Statistics) -> Statistics | None:
    """Return the sums of boxes of a field, side by side along its first input.

    None is returned where the field is small, or where boxes of it are no field of their own.
    """
    D = len(plan.inputs)
    if any(type(grid) is not type(stats.grids[0]) or grid.cyclic for grid in stats.grids):
        return None
    parts = boxes(kernel, plan, stats, (1,) * D, SITES.box_sides, SITES.boxes)
    if len(parts) < 2:
        return None
    return side_by_side(parts, stats, parts[0].grids[0].cells // SITES.box_gap)


def side_by_side(parts: Sequence[Statistics], whole: Statistics, gap: int) -> Statistics:
    """Return parts of a field as one, with ``gap`` empty cells between them."""

    def joined(name: str, axis: int):
        arrays = []
        for part in parts:
            sums = getattr(part, name)
            shape = list(sums.shape)
            shape[axis] = gap
            arrays += [sums, np.zeros(shape)]
        return np.concatenate(arrays[:-1], axis=axis)

    first, *others = parts[0].grids
    cells = len(parts) * (first.cells + gap) - gap
    long = replace(first, upper=first.lower + cells * first.spacing, cells=cells)
    added = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("column_gram", "column_targets", "squares", "count", "log_weights")
    }
    share = sum(part.weight for part in parts) / whole.weight
    return replace(
        whole,
        grids=(long, *others),
        moments=joined("moments", 0),
        targets=joined("targets", 1),
        cross=joined("cross", 0),
        constants=share * whole.constants,
        log_jacobian=share * whole.log_jacobian,
        missing=0,
        **added,
    )
