"""How fast a field varies along every input, known before its cells are laid out.

A point is predicted from its neighbours by a Matérn-3/2 field, and the lengths are those that
predict a few hundred points best: Vecchia's likelihood, which needs no grid. Which neighbours
are near is a matter of the lengths, too, so both are found in turns. Lengths are good to a
factor of two, as cells are.

Rows are chosen by a hash of their values, not by their order: permuted data have the same grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial import KDTree

from asvgp.basis import Array
from asvgp.field.stats import FieldStatistics
from asvgp.linalg.conditionals import conditionals

ROWS = 1 << 20  # to choose boxes from
BOXES, BOX = 4, 4096  # of how many rows, where there are more than in all of them together
CENTRES = 384  # points that are predicted
NEIGHBOURS = 12
FEWEST = 48  # rows from which anything is learnt
CLEARLY = 0.02  # nats per datum by which neighbours must help
SHORTEST, LONGEST = -14.0, 2.0  # lengths in units of the range, as powers of two
LEAST, MOST = -16.0, 4.0  # noise in units of the signal, the same
ROUNDS = 6  # of neighbours and lengths in turns
_GAIN = 1e-4


def lengths(columns: Sequence[Array], y: Array) -> Array:
    """Correlation lengths along every input, in its units; infinite where nothing is learnt.

    Parameters
    ----------
    columns : sequence of D arrays of length n
    y : array of shape (n,) or (n, outputs)
        Rows with NaN are left out.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> fast, slow = rng.uniform(0, 10, 3000), rng.uniform(0, 10, 3000)
    >>> along = lengths([fast, slow], np.sin(8 * fast) * np.sin(slow))
    >>> bool(along[0] < along[1] / 4)
    True
    """
    nothing = np.full(len(columns), np.inf)
    boxes = _boxes(columns, np.asarray(y).reshape(len(y), -1))
    ranges = np.array([float(np.max(x)) - float(np.min(x)) for x in columns])
    few = sum(len(values) for _, values in boxes) < FEWEST
    if few or boxes[0][1].shape[1] == 0 or not ranges.all():
        return nothing
    boxes = [(places / ranges, values) for places, values in boxes]
    gaps = np.array([_gap(boxes, d) for d in range(len(columns))])
    shortest = np.maximum(SHORTEST, np.log2(0.5 * gaps))

    lower, upper = np.append(shortest, LEAST), np.full(len(columns) + 1, LONGEST)
    upper[-1] = MOST
    best, found = -np.inf, None
    for start in _starts(len(columns)):
        score, state = _climb(boxes, np.clip(start, lower, upper), lower, upper)
        if score > best:
            best, found = score, state
    if found is None or best < CLEARLY:
        return nothing
    return np.exp2(found[:-1]) * ranges


def cell_lengths(stats: FieldStatistics) -> Array:
    """The same from statistics: of cells, their mean values at their mean places."""
    D = len(stats.grids)
    cells = np.nonzero(stats.cell_weights)
    weight = stats.cell_weights[cells]
    columns = []
    for d, (grid, number) in enumerate(zip(stats.grids, cells, strict=True)):
        first = stats.moments[(*cells, *(int(e == d) for e in range(D)))]
        columns.append(grid.lower + (number + first / weight) * grid.spacing)
    sums = stats.targets[(slice(None), *cells, *([0] * D))]
    return lengths(columns, (sums / weight).T)


def _starts(D: int) -> list[Array]:
    """Lengths alike, and one input at a time much shorter; the last number is the noise."""
    alike = np.append(np.full(D, -3.0), -3.0)
    starts = [alike]
    for d in range(D):
        one = alike + 1.0
        one[d], one[-1] = -7.0, -3.0
        starts.append(one)
    return starts


def _climb(boxes, state: Array, lower: Array, upper: Array) -> tuple[float, Array]:
    """Neighbours and the best lengths for them, in turns, as long as predictions improve."""
    best, kept = -np.inf, state
    for _ in range(ROUNDS):
        score = _score_of(*_neighbourhoods(boxes, np.exp2(state[:-1])))
        value = score(state)
        if value <= best + _GAIN:
            break
        best, kept = value, state
        state = _ascend(score, state, value, lower, upper)
        if np.array_equal(state, kept):
            break
    return best, kept


def _ascend(score: Callable, state: Array, value: float, lower: Array, upper: Array) -> Array:
    """One number doubled or halved at a time, until none of that helps."""
    moved = True
    while moved:
        moved = False
        for i in range(len(state)):
            for step in (1.0, -1.0):
                while True:
                    trial = state.copy()
                    trial[i] = np.clip(trial[i] + step, lower[i], upper[i])
                    if trial[i] == state[i] or (new := score(trial)) <= value + _GAIN:
                        break
                    state, value, moved = trial, new, True
    return state


def _score_of(places: Array, values: Array) -> Callable[[Array], float]:
    """Log-density of points given their neighbours, beside no neighbours: nats per datum.

    The variance is the best for the rest. It is a mean over the outputs.
    """
    alone = np.log(np.mean(values[:, 0] ** 2, axis=0) + 1e-300).mean()

    def score(state: Array) -> float:
        logs, squares = conditionals(places, values, np.exp2(state[:-1]), float(2.0 ** state[-1]))
        return 0.5 * float(alone - logs - np.log(squares + 1e-300).mean())

    return score


def _neighbourhoods(boxes, along: Array) -> tuple[Array, Array]:
    """Points to predict, and behind each its neighbours as these lengths see it."""
    share, places, values = CENTRES // len(boxes), [], []
    for own, y in boxes:
        points = own / along
        count = min(NEIGHBOURS + 1, len(points))
        _, near = KDTree(points).query(points[:share], k=count)
        # Of points at one place, any may come out first: the point itself is the one to predict.
        near = np.asarray(near)
        this = np.arange(len(near))[:, None]
        late = near[:, 1:]
        near = np.concatenate([this, np.where(late == this, near[:, :1], late)], axis=1)
        places.append(own[near])
        values.append(y[near])
    return np.concatenate(places), np.concatenate(values)


def _boxes(columns: Sequence[Array], y: Array) -> list[tuple[Array, Array]]:
    """All rows, or of many those in a few boxes: places (rows, D) and scaled values."""
    marks = _marks(columns, y)
    rows = np.flatnonzero(~np.isnan(y).any(axis=1))
    if len(rows) > ROWS:
        rows = rows[marks[rows] < np.uint64(2**64 - 1) // len(rows) * ROWS]
    rows = rows[np.argsort(marks[rows])]
    places = np.stack([np.asarray(x)[rows].astype(float) for x in columns], axis=1)
    values = y[rows].astype(float)
    if len(rows):
        values -= values.mean(axis=0)
        scales = values.std(axis=0)
        values = values[:, scales > 0.0] / scales[scales > 0.0]
    if len(rows) <= BOXES * BOX:
        return [(places, values)]
    ranges = np.ptp(places, axis=0)
    boxes = []
    for centre in places[:BOXES]:
        distance = np.max(np.abs(places - centre) / ranges, axis=1)
        near = np.flatnonzero(distance <= np.partition(distance, BOX)[BOX])[:BOX]
        boxes.append((places[near], values[near]))
    return boxes


def _marks(columns: Sequence[Array], y: Array) -> Array:
    """A pseudo-random number for every row, from its values alone."""
    marks = np.zeros(len(y), dtype=np.uint64)
    for x in (*columns, *y.T):
        marks ^= np.ascontiguousarray(x, dtype=float).view(np.uint64)
        marks *= np.uint64(0x9E3779B97F4A7C15)
        marks ^= marks >> np.uint64(29)
    return marks


def _gap(boxes, d: int) -> float:
    """Typical distance between the different places along an input."""
    gaps: Array = np.concatenate([np.diff(np.unique(places[:, d])) for places, _ in boxes])
    return float(np.median(gaps)) if len(gaps) else 1.0
