"""From a source to statistics: where the data begin and end, then the pass over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from asvgp.data.columns import Table, match
from asvgp.data.inputs import Seen, read_targets, read_weights
from asvgp.sources.source import Chunk, Source, Stream
from asvgp.structures.choose import structure_of

Advance = Callable[[int], None]


class Reader:
    """Turns blocks of rows into statistics on a grid that is known: all a worker must be told.

    Parameters
    ----------
    estimator : GPRegressor
        For its settings only.
    data : Seen
        Whose statistics say on what grid, and how to read what.
    """

    def __init__(self, estimator, data: Seen):
        self.estimator: Any = clone(estimator)
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(estimator):
                setattr(self.estimator, name, getattr(estimator, name))
        self.data = data

    def statistics(self, blocks: Iterable[Chunk], progress: Advance | None = None, start: int = 0):
        """Statistics of blocks of rows; ``start`` counts the first one in messages."""
        structure, stats = self.data.structure, self.data.stats
        sums = structure.accumulator(stats)
        for block in blocks:
            with counted_from(start):
                points = structure.read(self.estimator, block.X, width=block.width)
                y = read_targets(block.y, points.count)
                if (1 if y.ndim == 1 else y.shape[1]) != len(stats.squares):
                    raise ValueError(f"y has shape {y.shape}, unlike the first rows'.")
                weights = read_weights(block.sample_weight, block.noise_variance, points.count)
                if structure.prepare(self.estimator, points, y, stats) is not stats:
                    raise ValueError(
                        f"Inputs lie outside the range {structure.domain(stats)} that the source "
                        "was found to have: it has changed, or its statistics are wrong. Give the "
                        "domain."
                    )
                sums.add(points, y, weights, progress)
                if not np.all(np.isfinite(sums.squares)):
                    raise ValueError(infinite_targets(y))
            start += points.count
        return sums.statistics()


@contextmanager
def counted_from(start: int):
    """Errors about a block say where it begins: they count rows from there."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if start == 0:
            raise
        raise type(error)(f"From row {start} of the data on, counted as 0: {error}") from error


def infinite_targets(y) -> str:
    """What to say where the sum of squares is infinite."""
    rows = np.asarray(y, dtype=float).reshape(len(y), -1)
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(np.isinf(rows**2).any(axis=1))
    return (
        "Input y contains infinity or a value too large for dtype('float64') to be squared. First "
        f"rows: {', '.join(map(str, bad[:5]))}."
    )


def absorb(estimator, source: Source, stream: Stream, progress) -> tuple[Seen, Any]:
    """The statistics of a source, for a model without data so far; and some of its targets.

    One pass where all rows fit in a block, or the domain is given or known; otherwise two.
    """
    before = source.fingerprint()
    head, counted, extent = stream.head, None, None
    if head.y is None:
        raise ValueError(
            "GPRegressor requires y to be passed, but the target y is None: name its column."
        )
    if not stream.whole:
        extent = source.ranges() if head.width is None else None
        if extent is None and not _domain_given(estimator):
            if not source.again:
                raise ValueError(
                    f"The domain is not known, and after the first {head.rows:,} rows these data, "
                    "an iterator, cannot be read again to find it. Give domain=(a, b), or a "
                    "function that returns a new iterator; or call partial_fit, by which the "
                    "domain grows as data come."
                )
            layout = match(estimator.kernel, Table(head.X))
            along = layout.input if layout.single else None  # only one input has intervals
            advance = progress.passing(source.rows, "range of the data")
            extent, counted = source.survey(advance, along)
    untrained = estimator.optimizer is None
    seen = head.X if extent is None else extent
    structure = structure_of(estimator.kernel, seen, untrained, estimator.domain)
    structure.degrees(estimator)
    reach = None if extent is None else structure.read(estimator, extent, reset=True)
    points = structure.read(estimator, head.X, reset=extent is None, width=head.width)
    y = read_targets(head.y, points.count)
    known_noise = head.noise_variance is not None
    stats = structure.prepare(estimator, points, y, None, known_noise, reach, stream.whole)
    single = y.ndim == 1
    data = Seen(stats, structure, known_noise, single, targets=target_names(source))
    sample = y if stream.whole else _spread(y)
    del points, head, y
    new = stream.statistics(Reader(estimator, data), progress.passing(source.rows or counted))
    check_unchanged(source, before, counted, new)
    return data._replace(stats=new), sample


def _spread(y):
    """Two values of y that differ; None where the first block holds no such, or none at all."""
    ends = np.array([np.fmin.reduce(y, axis=None), np.fmax.reduce(y, axis=None)])
    return ends if ends[0] < ends[1] else None


def is_known(estimator, source: Source, stream: Stream) -> bool:
    """Whether the domain is known before the pass, or can be found."""
    return stream.whole or source.again or _domain_given(estimator)


def target_names(source: Source) -> tuple[str, ...] | None:
    """Names of the targets, none for arrays; None where inputs have no names."""
    return None if source.inputs is None else tuple(map(str, source.roles.targets))


def check_unchanged(source: Source, before, counted: int | None, stats) -> None:
    """An error where the data are no longer those that were read first."""
    if source.fingerprint() != before:
        raise ValueError("The data have changed while they were read: fit again when they rest.")
    rows = stats.count + stats.missing
    if counted is not None and rows != counted:
        raise ValueError(
            f"The data have changed between two passes: {counted:,} rows in the first, {rows:,} in "
            "the second. A function given as source must bring the same rows each time."
        )


def _domain_given(estimator) -> bool:
    domain = estimator.domain
    return domain is not None and not any(part is None for part in domain)
