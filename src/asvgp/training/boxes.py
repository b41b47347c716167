"""Parts of a field to train on: boxes of cells, whose sums are the statistics of their data.

Short lengths and the noise are known from a few boxes as well as from everything, at a small
part of the cost. Only the sum of squares is not kept cell by cell: on a box it is that of
the cells' means and a share of what varies within cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asvgp.kernels import Constant, Kernel
from asvgp.model.plan import Plan
from asvgp.policies import FIELD
from asvgp.statistics import Statistics


def boxes(
    kernel: Kernel,
    plan: Plan,
    stats: Statistics,
    coarsening: tuple[int, ...],
    sides: tuple[int, ...] = FIELD.box_sides,
    most: int = FIELD.boxes,
) -> list[Statistics]:
    """Return the statistics of boxes, on cells ``coarsening`` times as wide.

    They have ``sides`` of so many such cells, by the number of inputs, and there are ``most`` of
    them at most. The boxes are spread over the domain, hold data, and are always the same. The
    list is empty for a small field, and if there are smooths or effects other than constants,
    whose sums are not kept cell by cell. A box goes all around a circle; if that is too long for
    boxes, there are none.
    """
    D, plain = len(plan.inputs), all(isinstance(e, Constant) for e in kernel.effects)
    if not 2 <= D < len(sides) or plan.smooths or not plain:
        return []
    multiple, longest = FIELD.box_alignment[D], sides[D]
    shape = [-(-grid.cells // f) for grid, f in zip(stats.grids, coarsening, strict=True)]
    side = [multiple * max(1, min(longest, n) // multiple) for n in shape]
    for d, grid in enumerate(stats.grids):
        if grid.cyclic:
            side[d] = shape[d]
    if np.prod(side) > 2 * longest**D:
        return []
    if np.prod(shape) < FIELD.boxes_from * most * longest**D:
        return []
    lengths = [s * f for s, f in zip(side, coarsening, strict=True)]
    steps = [multiple * f for f in coarsening]
    squares = _squares(stats)
    rng = np.random.default_rng(0)
    last = [(g.cells - s) // step for g, s, step in zip(stats.grids, lengths, steps, strict=True)]
    places = np.stack([rng.integers(0, n + 1, 20 * most) for n in last], axis=1)
    chosen: list[Statistics] = []
    enough = 0.5 * stats.weight * np.prod(lengths) / np.prod([g.cells for g in stats.grids])
    taken = np.zeros((0, D))
    for place in places:
        start = place * steps
        if len(taken) and np.any(np.all(np.abs(taken - start) < lengths, axis=1)):
            continue
        box = tuple(slice(a, a + s) for a, s in zip(start, lengths, strict=True))
        weight = float(stats.cell_weights[box].sum())
        if weight < enough:
            continue
        chosen.append(_cut(stats, squares, box, weight).coarsen(coarsening))
        taken = np.concatenate([taken, start[None]])
        if len(chosen) == most:
            break
    return chosen


def _squares(stats: Statistics) -> np.ndarray:
    """Return sums of squares, (outputs, cells...): of the means, and the rest by weight."""
    weight = stats.cell_weights
    sums = stats.targets[(..., *([0] * len(stats.grids)))]
    means = np.divide(sums**2, weight, out=np.zeros_like(sums), where=weight > 0.0)
    rest = np.maximum(stats.squares - means.reshape(len(sums), -1).sum(axis=1), 0.0)
    # Weights of observations beyond the first of a cell, which alone has no scatter.
    one = stats.weight / stats.observations
    more = np.maximum(weight - one, 0.0)
    share = more / max(more.sum(), 1e-300)
    return means + rest.reshape(-1, *([1] * len(stats.grids))) * share


def _cut(stats: Statistics, squares, box: tuple[slice, ...], weight: float) -> Statistics:
    """Return the statistics on a box of cells, as if it were all there is."""
    grids = tuple(
        grid
        if grid.cyclic
        else replace(
            grid,
            lower=grid.lower + grid.spacing * part.start,
            upper=grid.lower + grid.spacing * part.stop,
            cells=part.stop - part.start,
        )
        for grid, part in zip(stats.grids, box, strict=True)
    )
    targets, share = stats.targets[(slice(None), *box)], weight / stats.weight
    first = [0] * len(box)
    sums = targets[(..., *first)].reshape(len(targets), -1).sum(axis=1)
    constants = stats.linear
    return replace(
        stats,
        grids=grids,
        moments=stats.moments[box],
        targets=targets,
        cross=stats.cross[box],
        column_gram=np.full((constants, constants), weight),
        column_targets=np.repeat(sums[:, None], constants, axis=1),
        squares=squares[(slice(None), *box)].reshape(len(targets), -1).sum(axis=1),
        count=max(1, round(share * stats.count)),
        log_weights=share * stats.log_weights,
        log_jacobian=share * stats.log_jacobian,
    )
