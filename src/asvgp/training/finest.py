"""The finest cells of an automatic grid: how many in all, and how many of them along each input.

Training chooses among these cells and wider ones; finer ones would need the data again. So there
are as many as are worth summing up. With several inputs they are shared out so that a lengthscale
has as many cells along every input: hours that tell day from night need more than a map of a
small country.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2

import numpy as np

from asvgp.basis import Array
from asvgp.policies import DATA, FIELD, LINE


def finest_cells(x, lower: float, upper: float, whole: bool = True, raised: bool = False) -> int:
    """Return the finest cells of one input worth accumulating: about a dozen per gap of the points.

    With fewer, where the field is rough and hardly noisy, what the splines miss would be taken
    for noise; half as many do if all splines have a degree that is ``raised`` above the smallest.
    Where points crowd in a small part of the domain, that is many more than there are points: up
    to `LINE.most_finest_cells`, or where there are as many per point to
    `LINE.most_finest_cells_in_memory`. From `DATA.many_rows` points on it is
    `LINE.most_finest_cells`, without a look at them: if x is not the ``whole`` of the data,
    there are so many.
    """
    if not whole or len(x) > DATA.many_rows:
        return LINE.most_finest_cells
    sample = np.asarray(x[:: max(1, len(x) // 4096)], dtype=float)
    gaps = np.diff(np.unique(sample))
    gap = float(np.median(gaps)) * len(sample) / len(x) if len(gaps) else upper - lower
    each, most = LINE.cells_per_gap[raised], LINE.most_finest_cells_in_memory[raised]
    wanted = each * (upper - lower) / gap
    most = max(LINE.most_finest_cells, min(most, each * len(x)))
    cells = LINE.fewest_finest_cells
    while cells < min(wanted, most):
        cells *= 2
    return cells


def doublings(inputs: int, rows: int) -> int:
    """Return how often one cell may be halved, along one input or another."""
    cheap = min(FIELD.cheap_cells_per_row * rows, FIELD.cheap_cells)
    wanted = max(FIELD.cells_per_row * rows, cheap, FIELD.fewest_cells)
    return floor(log2(min(FIELD.most_cells[inputs], wanted)))


def shared_out(times: int, widths: Sequence[float] | Array, lengths: Array) -> list[int]:
    """Return the cells along every input: one at a time is halved, where lengths are shortest.

    There are ``times`` halvings in all, or less if fewer remain than inputs that need the next
    one about as much. ``lengths`` are lengthscales in the units of the ``widths`` of the domain;
    one that is NaN is taken to be middling, and if none is known all are infinite.

    Examples
    --------
    >>> import numpy as np
    >>> shared_out(12, [1.0, 1.0], np.array([np.inf, np.inf]))
    [64, 64]
    >>> shared_out(12, [1.0, 1.0], np.array([0.01, 0.1]))
    [128, 32]
    """
    halved = np.full(len(widths), FIELD.least_doublings[len(widths)])
    more = np.zeros(len(widths))
    if np.isfinite(lengths).any():
        needs = np.maximum(np.log2(np.asarray(widths) / lengths), -1.0)  # or beyond the domain
        more = np.nan_to_num(needs - np.nanmean(needs))
    surely = np.sign(more) * np.maximum(np.abs(more) - 1.0, 0.0)
    for need in (surely, more):  # lengths are known to a factor of two; what is left, by them
        while (left := times - halved.sum()) > 0:
            short = need - halved
            if np.count_nonzero(short > short.max() - 1.0) > left:
                break
            halved[np.argmax(short)] += 1
    return [2 ** int(n) for n in halved]


def halved(cells: Sequence[int], widths: Sequence[float] | Array, lengths: Array) -> list[int]:
    """Return half as many cells in all: wider ones where a lengthscale has most of them.

    So many are enough for splines of more than the smallest degree: they miss less, and their
    factorisation takes about as long.

    Examples
    --------
    >>> import numpy as np
    >>> halved([128, 64], [1.0, 1.0], np.array([0.01, 0.1]))
    [128, 32]
    """
    out = np.array(cells)
    fewest = 2 ** FIELD.least_doublings[len(cells)]
    each = np.minimum(np.nan_to_num(lengths / np.asarray(widths), nan=0.0), 2.0) * out
    widest = int(np.argmax(np.where(out > fewest, each, -1.0)))
    out[widest] = max(out[widest] // 2, fewest)
    return out.tolist()


def smooth_cells(rows: int, smooths: int) -> int:
    """Return the number of cells of every smooth."""
    cells = int(np.clip(2 ** floor(log2(max(rows / 2, 1))), *FIELD.smooth_cells))
    while cells * smooths > FIELD.most_smooth_columns:
        cells //= 2
    return cells
