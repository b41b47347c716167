"""The finest cells of an automatic grid: how many in all, and how many of them along each input.

Training chooses among them and wider ones (`asvgp.model.levels`); finer ones would need the
data again. So there are as many as are worth summing up, and they are shared out so that a
lengthscale has as many cells along every input: hours that tell day from night need more than a
map of a small country.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2

import numpy as np

from asvgp.basis import Array
from asvgp.policies import FIELD


def doublings(inputs: int, rows: int) -> int:
    """How often one cell may be halved, along one input or another."""
    most = min(
        FIELD.most_cells[inputs],
        max(
            FIELD.cells_per_row * rows,
            min(FIELD.cheap_cells_per_row * rows, FIELD.cheap_cells),
            FIELD.fewest_cells,
        ),
    )
    return floor(log2(most))


def shared_out(times: int, widths: Sequence[float] | Array, lengths: Array) -> list[int]:
    """Cells along every input: one at a time is halved, where lengths are shortest in cells.

    As long as there are enough for all inputs that need them about as much.

    Parameters
    ----------
    times : int
        How often, in all.
    widths : sequence of float
        Of the domain, along every input.
    lengths : ndarray
        In the same units, NaN where one is not known: then it is taken to be middling. All
        infinite where none is.

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


def smooth_cells(rows: int, smooths: int) -> int:
    """Cells of every smooth."""
    cells = int(np.clip(2 ** floor(log2(max(rows / 2, 1))), *FIELD.smooth_cells))
    while cells * smooths > FIELD.most_smooth_columns:
        cells //= 2
    return cells
