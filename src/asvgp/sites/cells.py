"""Cells of one input that training with sites has a use for."""

from typing import Any

import numpy as np

from asvgp.data.settings import Settings
from asvgp.policies import SITES
from asvgp.statistics import Statistics
from asvgp.structures.line import Line
from asvgp.structures.series import Series
from asvgp.structures.structure import Structure


def on_a_line(structure: Structure[Any]) -> bool:
    """Return True where all components share the cells of one chain."""
    return isinstance(structure, Line) and not isinstance(structure, Series)


def coarser(stats: Statistics, most: float) -> Statistics:
    """Return statistics of one input on at most so many cells, if these can be joined."""
    while stats.grid.cells > most and stats.grid.cells % 2 == 0:
        stats = stats.coarsen()
    return stats


def workable(
    settings: Settings, structure: Structure[Any], stats: Statistics, rows: int = 0
) -> Statistics:
    """Return the statistics on cells that are not more than training can use.

    Every step reads so many ``rows`` anew, and makes sums of them on all cells: few rows need few,
    unless wider ones would hold what lies apart on these. Without rows there are nodes on a cell,
    as many as a quadrature needs, so that more cells cost time only. A number of basis functions
    that was asked for is kept.
    """
    if not settings.automatic or not on_a_line(structure):
        return stats
    if not rows:
        return coarser(stats, SITES.most_cells)
    most, apart = max(SITES.most_cells, SITES.cells_per_row * rows), _occupied(stats)
    least = min(SITES.occupied_per_row * rows, SITES.still_apart * apart)
    while stats.grid.cells > most and stats.grid.cells % 2 == 0:
        wider = stats.coarsen()
        if _occupied(wider) < least:
            break
        stats = wider
    return stats


def _occupied(stats: Statistics) -> int:
    """Return the number of cells with data."""
    return int(np.count_nonzero(stats.cell_weights))
