"""Statistics for other processes: of the tables only the box of cells that hold data."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from asvgp.basis import occupied
from asvgp.statistics.combining import TABLES

if TYPE_CHECKING:
    from asvgp.statistics.statistics import Statistics


def packed(stats: Statistics) -> dict[str, Any]:
    """Return the fields, with the box of cells in which any sum is not zero."""
    D = len(stats.grids)  # sums, not weights, as weights of both signs may cancel
    filled = stats.moments.any(axis=tuple(range(D, 2 * D)))
    filled = filled | stats.targets.any(axis=(0, *range(1 + D, 1 + 2 * D)))
    box = occupied(np.asarray(filled | stats.cross.any(axis=tuple(range(D, 2 * D + 1)))))
    state = {item.name: getattr(stats, item.name) for item in fields(stats)}
    for name, lead in TABLES.items():
        state[name] = np.array(state[name][(*[slice(None)] * lead, *box)], order="C")
    return state | {"box": box}


def unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with whole tables."""
    box = state.pop("box")
    cells = tuple(grid.cells for grid in state["grids"])
    for name, lead in TABLES.items():
        part = state[name]
        whole = np.zeros((*part.shape[:lead], *cells, *part.shape[lead + len(cells) :]))
        whole[(*[slice(None)] * lead, *box)] = part
        state[name] = whole
    return state
