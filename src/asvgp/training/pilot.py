"""Estimates of how fast a field varies along every input, before its cells are laid out.

A point is predicted from its neighbours by a Matérn-3/2 field, and the lengths are those that
predict a few hundred points best: Vecchia's likelihood, which needs no grid. Which neighbours are
near depends on the lengths, so both are found in turns. Lengths are good to a factor of two, as
cells are.

On a lattice much finer than the lengths, nearest neighbours all lie along one input, so that
lengths along the others cannot be estimated: a random part of the rows is therefore tried first.

Rows are chosen by a hash of their values, not by their order: permuted data get the same grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial import KDTree

from asvgp.basis import Array
from asvgp.linalg.conditionals import conditionals
from asvgp.policies import PILOT
from asvgp.statistics import Statistics

Rows = tuple[Array, Array]  # places (rows, D) and values (rows, outputs)


def lengths(columns: Sequence[Array], y: Array, effects: Sequence[Array] = ()) -> Array:
    """Return correlation lengths along every input, in its units; infinite if nothing is learnt.

    Rows where y is NaN are left out. What the columns ``effects`` explain of y, by least squares,
    is subtracted first.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> fast, slow = rng.uniform(0, 10, 3000), rng.uniform(0, 10, 3000)
    >>> along = lengths([fast, slow], np.sin(8 * fast) * np.sin(slow))
    >>> bool(along[0] < along[1] / 4)
    True
    """
    y = np.asarray(y).reshape(len(y), -1)
    ranges = np.array([float(np.max(x)) - float(np.min(x)) for x in columns])
    nothing = np.full(len(columns), np.inf)
    if not ranges.all():
        return nothing
    places, values = _chosen(columns, y, effects)
    for share in PILOT.shares:
        rows = max(int(share * len(places)), min(len(places), PILOT.fewest_shared_rows))
        shares = _lengths(_boxes(places[:rows] / ranges, values[:rows]))
        if shares is not None:
            return shares * ranges
    return nothing


def _lengths(boxes: list[Rows]) -> Array | None:
    """Return lengths in units of the range; None if neighbours do not help to predict."""
    D = boxes[0][0].shape[1]
    if sum(len(values) for _, values in boxes) < PILOT.fewest_rows or boxes[0][1].shape[1] == 0:
        return None
    gaps = np.array([_gap(boxes, d) for d in range(D)])
    lower = np.append(np.maximum(PILOT.shortest, np.log2(0.5 * gaps)), PILOT.least_noise)
    upper = np.append(np.full(D, PILOT.longest), PILOT.most_noise)
    by_gaps = _rankings(boxes, gaps)
    best, lengths = PILOT.clear_gain, None
    for start in _starts(D):
        score, state = _climb(boxes, np.clip(start, lower, upper), lower, upper, by_gaps)
        if score > best:
            best, lengths = score, np.exp2(state[:-1])
    return lengths


def cell_lengths(stats: Statistics) -> Array:
    """Return correlation lengths from statistics: mean values of cells at their mean places."""
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
    """Return starts: lengths alike, and one input at a time much shorter; the noise is last."""
    one, other = PILOT.start_lengths
    short = [[one if e == d else other for e in range(D)] for d in range(D)]
    alike = [PILOT.start_length] * D
    return [np.array([*lengths, PILOT.start_noise]) for lengths in (alike, *short)]


def _climb(boxes, state: Array, lower: Array, upper: Array, by_gaps) -> tuple[float, Array]:
    """Find neighbours and the best lengths for them in turns, while predictions improve."""
    best, best_state = -np.inf, state
    for _ in range(PILOT.rounds):
        by_lengths = _rankings(boxes, np.exp2(state[:-1]))
        score = _score_of(*_neighbourhoods(boxes, by_lengths, by_gaps))
        value = score(state)
        if value <= best + PILOT.least_gain:
            break
        best, best_state = value, state
        state = _ascend(score, state, value, lower, upper)
        if np.array_equal(state, best_state):
            break
    return best, best_state


def _ascend(score: Callable, state: Array, value: float, lower: Array, upper: Array) -> Array:
    """Double or halve numbers, one or two at a time or all lengths, until none of that helps."""
    moved = True
    while moved:
        moved = False
        for move in _moves(len(state)):
            while True:
                trial = np.clip(state + move, lower, upper)
                new = -np.inf if np.array_equal(trial, state) else score(trial)
                if new <= value + PILOT.least_gain:
                    break
                state, value, moved = trial, new, True
    return state


def _moves(count: int) -> list[Array]:
    """Return steps in powers of two: the last number is the noise, the others are lengths."""
    each = np.eye(count)
    lengths = 1.0 - each[-1]
    pairs = [each[i] - each[j] for i in range(count - 1) for j in range(i)]
    return [sign * move for move in (lengths, *each, *pairs) for sign in (1.0, -1.0)]


def _score_of(places: Array, values: Array) -> Callable[[Array], float]:
    """Return the log-density of points given their neighbours, less that without neighbours.

    It is in nats per datum, a mean over the outputs, at the best variance.
    """
    alone = np.log(np.mean(values[:, 0] ** 2, axis=0) + 1e-300).mean()

    def score(state: Array) -> float:
        logs, squares = conditionals(places, values, np.exp2(state[:-1]), float(2.0 ** state[-1]))
        return 0.5 * float(alone - logs - np.log(squares + 1e-300).mean())

    return score


def _rankings(boxes, metric: Array) -> list[Array]:
    """Return for every box the neighbours of the points to predict, the nearest first."""
    share, out = PILOT.centres // len(boxes), []
    for places, _ in boxes:
        points = places / metric
        count = min(PILOT.neighbours + 1, len(places))
        out.append(np.asarray(KDTree(points).query(points[:share], k=count)[1]))
    return out


def _neighbourhoods(boxes, *rankings: list[Array]) -> tuple[Array, Array]:
    """Return points to predict, and behind each its neighbours, as many as each ranking has."""
    places, values = [], []
    for (x, y), *ranks in zip(boxes, *rankings, strict=True):
        near = np.array([_first(i, each) for i, each in enumerate(zip(*ranks, strict=True))])
        places.append(x[near])
        values.append(y[near])
    return np.concatenate(places), np.concatenate(values)


def _first(point: int, rankings: Sequence[Array]) -> list[int]:
    """Return a point and its first neighbours by several rankings in turn, as many as in one."""
    chosen = {point: None}
    for neighbours in zip(*rankings, strict=True):
        chosen |= dict.fromkeys(neighbours)
    return list(chosen)[: len(rankings[0])]


def _chosen(columns: Sequence[Array], y: Array, effects: Sequence[Array]) -> Rows:
    """Return places (rows, D) and scaled values, in an order that depends on the values alone."""
    limit = np.uint64(min(2**64 - 1, 2**64 * PILOT.rows // max(len(y), 1)))
    rows, marks = [], []
    for start in range(0, len(y), PILOT.rows):
        part = slice(start, start + PILOT.rows)
        hashes = _marks([x[part] for x in columns], y[part])
        usable = np.flatnonzero((hashes <= limit) & np.isfinite(y[part]).all(axis=1))
        rows.append(start + usable)
        marks.append(hashes[usable])
    chosen = np.concatenate(rows)[np.argsort(np.concatenate(marks))] if rows else np.arange(0)
    places = np.stack([np.asarray(x)[chosen].astype(float) for x in columns], axis=1)
    values = y[chosen].astype(float)
    values /= np.maximum(np.abs(values).max(axis=0, initial=0.0), 1e-300)
    design = [np.ones(len(chosen)), *(np.asarray(x)[chosen].astype(float) for x in effects)]
    design = np.stack(design, axis=1) / np.maximum(np.abs(design).max(axis=1, initial=0.0), 1e-300)
    values -= design @ np.linalg.lstsq(design, values, rcond=None)[0]
    scales = values.std(axis=0) if len(values) else np.zeros(values.shape[1])
    varies = scales > 1e-12
    return places, values[:, varies] / scales[varies]


def _boxes(places: Array, values: Array) -> list[Rows]:
    """Return all rows, or of many rows those in a few boxes."""
    if len(places) <= PILOT.boxes * PILOT.box_rows:
        return [(places, values)]
    boxes = []
    for centre in places[: PILOT.boxes]:
        distance = np.max(np.abs(places - centre), axis=1)
        farthest = np.partition(distance, PILOT.box_rows)[PILOT.box_rows]
        near = np.flatnonzero(distance <= farthest)[: PILOT.box_rows]
        boxes.append((places[near], values[near]))
    return boxes


def _marks(columns: Sequence[Array], y: Array) -> Array:
    """Return a pseudo-random number for every row, from its values alone."""
    marks = np.zeros(len(y), dtype=np.uint64)
    for x in (*columns, *y.T):
        marks ^= np.ascontiguousarray(x, dtype=float).view(np.uint64)
        marks *= np.uint64(0x9E3779B97F4A7C15)
        marks ^= marks >> np.uint64(29)
    return marks


def _gap(boxes, d: int) -> float:
    """Return the typical distance between the different places along an input."""
    gaps: Array = np.concatenate([np.diff(np.unique(places[:, d])) for places, _ in boxes])
    return float(np.median(gaps)) if len(gaps) else 1.0
