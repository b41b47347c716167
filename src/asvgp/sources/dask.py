"""Dask: sums are made where the data are, and only sums travel.

A partition becomes statistics on the worker that holds it, and these are added in a tree: the
client receives no more than one of them. Dask computes the partitions of a lost worker again,
because everything here is a function of the graph. It works on any scheduler.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from asvgp.data.columns import Columns
from asvgp.policies import DATA
from asvgp.sources.arrays import ArraySource
from asvgp.sources.blocks import extremes, in_blocks, joined
from asvgp.sources.convert import as_numbers, library
from asvgp.sources.frames import PandasSource
from asvgp.sources.roles import BESIDE, Roles, listed
from asvgp.sources.source import Chunk, Source, Stream
from asvgp.sources.table import chunk_of
from asvgp.statistics.accumulator import block_rows

FAN_IN = 8  # statistics that are added at once
FAN_IN_BYTES = 1 << 29  # and that they may take together
LARGE = 1 << 22  # bytes of a model that is too large to be a part of a graph
FIRST_ROWS = 1 << 12  # rows that the choice of a grid needs at least
FIRST_PARTS = 16  # partitions to take them from
COMPANIONS = ("y", "sample_weight", "noise_variance", *BESIDE)
NO_ROWS = "There are no data: 0 rows."


def open_source(data, roles: Roles) -> Source | None:
    """Return a source for Dask frames and arrays, None for other data."""
    return dask_source(data, roles) if library(data) == "dask" else None


def dask_source(X, roles: Roles, y=None, weight=None, noise_variance=None, **beside) -> Source:
    """Return the source of a Dask frame or array; y and weights may come beside it."""
    # Names of columns and numbers for all rows are roles, whatever has rows a companion.
    given = {name: value for name, value in beside.items() if np.ndim(value) == 0}
    rows = [None if name in given else beside.get(name) for name in BESIDE]
    companions = (y, weight, noise_variance, *rows)
    roles = roles.with_(**given)
    return (DaskFrame if is_frame(X) else DaskArray)(X, roles, companions)


def is_frame(data) -> bool:
    """Return True for a frame of Dask, False for an array; other objects are an error."""
    kind = type(data)  # whose attributes are real, unlike those of a delayed object
    if hasattr(kind, "map_partitions") and hasattr(kind, "to_delayed") and data.ndim == 2:
        return True
    if not hasattr(kind, "map_blocks"):
        raise TypeError(
            f"There is no way to read rows from Dask's {kind.__name__}: give a data frame, an "
            "array, or an xarray object of Dask arrays."
        )
    return False


# ---------------------------------------------------------------- work on the workers


@contextmanager
def naming_partition(number: int):
    """Say in errors in which partition they occurred."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Partition {number}: {error}") from error


def computed(*values) -> tuple:
    """Compute delayed values on the workers; the client receives nothing else."""
    from dask.base import compute

    try:
        return compute(*values)
    except KeyError as error:  # a partition lacks a column that Dask selects
        raise ValueError(
            f"A partition differs from the Dask frame: {error}. All need the same columns."
        ) from error


class Part(NamedTuple):
    """One partition: the function that makes its chunk, and its delayed arguments.

    A chunk is never the result of a task. It would be as long as the data, and Dask, which does
    not know its size, would send it from worker to worker.
    """

    make: Callable[..., Chunk]
    arguments: tuple

    def task(self, work: Callable, *options):
        """Return delayed work on the chunk: one task that makes it and does not keep it."""
        from dask.delayed import delayed

        return delayed(_run, pure=False)(work, options, self.make, self.arguments)


def _run(work: Callable, options: Sequence, make: Callable[..., Chunk], arguments: Sequence):
    return work(make(*arguments), *options)


def worked(chunk: Chunk, work: Callable, number: int):
    """Return what work on the blocks of one partition gives; None where it has no rows."""
    if not chunk.rows:
        return None
    blocks = in_blocks([chunk]) if isinstance(chunk.X, Columns | np.ndarray) else [chunk]
    with naming_partition(number):
        return work(blocks)


def statistics_of(chunk: Chunk, reader, number: int):
    """Return the statistics of one partition; None where it has no rows."""
    return worked(chunk, reader.statistics, number)


def ends_of(chunk: Chunk, along: int | None):
    """Return the outermost inputs of a partition and its number of rows."""
    return (extremes(chunk.X, chunk.width, along), chunk.rows) if chunk.rows else None


def join_ends(parts: Sequence):
    """Return the outermost inputs of several partitions and their number of rows."""
    ends = extremes(joined([Chunk(ends) for ends, _ in parts]).X)
    return ends, sum(rows for _, rows in parts)


def first_rows(chunk: Chunk, rows: int | None = None) -> Chunk:
    """Return the first rows of a partition, by default all."""
    return chunk if rows is None or chunk.rows <= rows else chunk.part(slice(rows))


def tree(parts: Sequence, join: Callable, fan_in: int = FAN_IN):
    """Join delayed values, a few at a time, until one is left; None stands for no rows."""
    from dask.delayed import delayed

    parts, joins = list(parts), delayed(_join, pure=False)
    while len(parts) > 1:
        parts = [joins(join, parts[i : i + fan_in]) for i in range(0, len(parts), fan_in)]
    return parts[0]


def _join(join: Callable, parts: Sequence):
    some = [part for part in parts if part is not None]
    return join(some) if some else None


def delayed_once(work):
    """Return a predictor, or other work, that a graph holds once, by its key.

    Clusters warn of large graphs, so all workers of one receive a large model beforehand. They
    keep it as long as the answer exists, and the loss of a worker loses nothing.
    """
    from dask.base import get_scheduler
    from dask.delayed import delayed

    client: Any = getattr(get_scheduler(), "__self__", None)  # None without a cluster
    if work.nbytes <= LARGE or not hasattr(client, "scatter"):
        return delayed(work, traverse=False, pure=False)
    return delayed(client.scatter(work, broadcast=True, hash=False))


class DaskStream(Stream):
    """Partitions, read where they are; ``head`` holds their first rows, or all if ``whole``."""

    def __init__(self, parts: Sequence[Part], head: Chunk, whole: bool):
        self.parts, self.head, self.whole = parts, head, whole

    def statistics(self, reader, progress=None):
        """Return the statistics of all partitions, added on the workers."""
        from dask.delayed import delayed

        size = reader.nbytes
        fan_in = int(min(max(FAN_IN_BYTES // max(size, 1), 2), FAN_IN))
        once = delayed(reader, traverse=False, pure=False)  # the graph holds it by its key
        sums = [part.task(statistics_of, once, i) for i, part in enumerate(self.parts)]
        (total,) = computed(tree(sums, partial(reduce, add), fan_in))
        if total is None:
            raise ValueError(NO_ROWS)
        if progress is not None:
            progress(total.count + total.missing)
        return total

    def mapped(self, work, join):
        """Return what work gives, on the blocks of every partition, joined on the workers."""
        once = delayed_once(work)
        found = [part.task(worked, once, i) for i, part in enumerate(self.parts)]
        return computed(tree(found, partial(reduce, join)))[0]

    def blocks(self) -> Iterator[Chunk]:
        """Yield all rows, a partition at a time."""
        for part in self.parts:
            (chunk,) = computed(part.task(first_rows))
            if chunk.rows:
                yield chunk


def first_look(parts: Sequence[Part], rows: int | None, limit: int) -> tuple[Chunk, bool]:
    """Bring at most ``limit`` rows to the client; return them, and True if they are all."""
    if rows is not None and rows >= limit and len(parts) > 1:
        # Their number is known; rows from everywhere tell the rest better than the first.
        spread = parts[:: -(-len(parts) // FIRST_PARTS)]
        new = computed(*(part.task(first_rows, FIRST_ROWS // len(spread)) for part in spread))
        if chunks := [chunk for chunk in new if chunk.rows]:
            return joined(chunks), False
    chunks, held, start, step = [], 0, 0, 1
    while start < len(parts) and held < limit:
        tasks = [part.task(first_rows, limit - held) for part in parts[start : start + step]]
        chunks += [chunk for chunk in computed(*tasks) if chunk.rows]
        held = sum(chunk.rows for chunk in chunks)
        start, step = start + step, 2 * step
    if not chunks:
        raise ValueError(NO_ROWS)
    return joined(chunks), start >= len(parts) and held < limit


class DaskSource(Source):
    """Base of sources that are partitions: X, and y and weights beside it, partitioned alike.

    Without y beside X, columns of X are chosen for it.
    """

    make: Callable[..., Chunk]
    spread = True

    def __init__(self, X, roles: Roles, companions: tuple):
        self.X, self.roles, self.companions = X, roles, companions

    @abstractmethod
    def pieces(self, inputs_only: bool) -> list:
        """Return the delayed partitions of X."""

    def parts(self, inputs_only: bool = False) -> list[Part]:
        """Return all partitions."""
        pieces = self.pieces(inputs_only)
        chunks = getattr(self.X, "chunks", ((),))[0]
        others = [
            [None] * len(pieces)
            if value is None or inputs_only
            else _pieces(value, name, pieces, chunks)
            for name, value in zip(COMPANIONS, self.companions, strict=True)
        ]
        return [
            Part(self.make, (X, self.roles, inputs_only, number, *companions))
            for number, (X, *companions) in enumerate(zip(pieces, *others, strict=True))
        ]

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows, a partition at a time."""
        for part in self.parts(inputs_only):
            yield computed(part.task(first_rows))[0]

    def stream(self) -> Stream:
        """Return a new reading, on the workers."""
        parts = self.parts()
        # Beyond that many rows, and one more, an automatic grid does not depend on their number.
        limit = DATA.many_rows + 2 if self.roles.width is None else block_rows(2)
        return DaskStream(parts, *first_look(parts, self.rows, limit))

    def mapped(self, work, join):
        """Read all partitions once more, where they are."""
        return DaskStream(self.parts(), Chunk(()), False).mapped(work, join)

    def survey(self, progress=None, along: int | None = 0):
        """Return the outermost inputs and the number of rows, by a tree of partitions."""
        ends = [part.task(ends_of, along) for part in self.parts(inputs_only=True)]
        (joint,) = computed(tree(ends, join_ends))
        if joint is None:
            raise ValueError(NO_ROWS)
        if progress is not None:
            progress(joint[1])
        return joint


# ---------------------------------------------------------------- frames


class DaskFrame(DaskSource):
    """A Dask data frame; its index is a column where it is named."""

    def __init__(self, X, roles: Roles, companions: tuple):
        super().__init__(X, roles, companions)
        self.make, self.table = chunk_of_frame, PandasSource(X._meta, roles)
        if companions[0] is not None and roles.inputs is None:
            beside = roles.beside.values()
            names = [name for name in self.table.names() if name not in beside]
            self.roles = replace(roles, inputs=tuple(names))

    def prepared(self, kernel, inputs=None) -> Source:
        """Return the source with its columns chosen."""
        return self.with_roles(self.table.with_roles(self.roles).prepared(kernel, inputs).roles)

    def _chosen(self, names: Sequence[str]):
        """Return the frame with these columns alone, so that others are not even read."""
        return self.X[[name for name in self.X.columns if str(name) in names]]

    def pieces(self, inputs_only: bool) -> list:
        """Return the delayed partitions of the columns that are used."""
        return self._chosen(self.roles.columns(inputs_only)).to_delayed()

    def answer(self, predict):
        """Return a Dask data frame with the same index."""
        inputs, once = self.roles.inputs, delayed_once(predict)
        meta = _predict_frame(self.X._meta, inputs, predict)
        return self._chosen(inputs).map_partitions(_predict_frame, inputs, once, meta=meta)


def chunk_of_frame(frame, roles: Roles, inputs_only: bool, number: int, *companions) -> Chunk:
    """Return a partition as a chunk."""
    if not len(frame):
        return Chunk(np.empty(0))
    source, names = PandasSource(frame, Roles()), roles.columns(inputs_only)
    there = [*source.names(), *source.hidden()]
    for name in {*names} - {*there}:
        raise ValueError(
            f"Partition {number} has no column {name!r}, unlike others: it has {listed(there)}."
        )
    with naming_partition(number):
        return with_targets(chunk_of(source.columns(names), roles, 0, inputs_only), *companions)


def with_targets(chunk: Chunk, y, weight, noise_variance, *beside) -> Chunk:
    """Return a chunk with y and weights that came beside its inputs."""
    given = dict(zip(COMPANIONS, (y, weight, noise_variance, *beside), strict=True))
    for name, part in given.items():
        if part is not None and len(part) != chunk.rows:
            raise ValueError(f"{chunk.rows} rows of X, but {len(part)} of {name}.")

    def numbers(part, name: str):
        return None if part is None else as_numbers(part, name)

    further = {name: numbers(given[name], name) for name in BESIDE if given[name] is not None}
    if y is None:
        return chunk._replace(**further)
    values = np.asarray(y) if np.ndim(y) > 1 else numbers(y, "y")
    weights = numbers(weight, "sample_weight")
    noise = numbers(noise_variance, "noise_variance")
    chunk = chunk._replace(y=values, sample_weight=weights, noise_variance=noise)
    return chunk._replace(**further)


def _predict_frame(frame, inputs: Sequence[str], predict):
    """Return predictions of a partition."""
    import pandas as pd

    if not len(frame):
        return pd.DataFrame(predict(None), index=frame.index)
    return PandasSource(frame, Roles(inputs=inputs)).prepared(None).answer(predict)


# ---------------------------------------------------------------- arrays


class DaskArray(DaskSource):
    """A Dask array with columns by number."""

    def __init__(self, X, roles: Roles, companions: tuple):
        if X.ndim not in (1, 2):
            raise ValueError(f"An array of data must have rows and columns, not {X.shape}.")
        super().__init__(X.rechunk({1: -1}) if X.ndim == 2 else X, roles, companions)  # whole rows
        self.make, self.rows = chunk_of_rows, None if np.isnan(X.shape[0]) else int(X.shape[0])

    def prepared(self, kernel, inputs=None) -> DaskArray:
        """Return the source with its columns chosen."""
        new = copy(self)
        if self.roles.target is not None or self.roles.inputs is not None:
            width = self.X.shape[1] if self.X.ndim == 2 else 1
            new.roles = self.roles.resolved(range(int(width)))
        return new

    @property
    def inputs(self) -> None:
        """None: columns have no names."""
        return None

    def pieces(self, inputs_only: bool) -> list:
        """Return the delayed blocks."""
        return list(np.ravel(self.X.to_delayed()))

    def answer(self, predict):
        """Return Dask arrays by name."""
        import dask.array as da

        names = list(predict(None))
        answers = da.blockwise(
            _predict_rows,
            ("asvgp", "row"),
            self.X,
            ("row", "column")[: self.X.ndim],
            predict=delayed_once(predict),
            count=len(names),
            new_axes={"asvgp": len(names)},
            dtype=float,
            concatenate=True,
            meta=np.empty((0, 0)),
        )
        return {name: answers[i] for i, name in enumerate(names)}


def _pieces(value, name: str, pieces: Sequence, chunks: Sequence[int]) -> list:
    """Return delayed partitions of y or weights, as many and as long as those of X."""
    if not hasattr(value, "map_partitions"):  # an array, of Dask or not
        import dask.array as da

        known = len(chunks) > 0 and not np.isnan(chunks).any()
        if not hasattr(value, "dask"):
            if not known:
                raise TypeError(
                    f"{name} must be a Dask array: the lengths of the partitions of X are unknown."
                )
            value = da.from_array(np.asarray(value))
        if known and not np.isnan(value.shape[0]):
            if value.shape[0] != sum(chunks):
                raise ValueError(
                    f"X and {name} have inconsistent numbers of samples: {sum(chunks)} and "
                    f"{value.shape[0]}."
                )
            value = value.rechunk({0: chunks})
        value = value.rechunk({1: -1}) if value.ndim == 2 else value
    parts = list(np.ravel(value.to_delayed()))
    if len(parts) != len(pieces):
        raise ValueError(f"X has {len(pieces)} partitions, but {name} has {len(parts)}.")
    return parts


def chunk_of_rows(X, roles: Roles, inputs_only: bool, number: int, *companions) -> Chunk:
    """Return blocks of arrays as a chunk."""
    if not len(X):
        return Chunk(np.empty(0))
    X = np.asarray(X)
    with naming_partition(number):
        if roles.inputs is not None:
            return joined(list(ArraySource(X, roles).chunks(inputs_only)))
        chunk = Chunk(X, width=roles.width)
        return with_targets(chunk if inputs_only else chunk._replace(**roles.beside), *companions)


def _predict_rows(X, predict, count: int) -> np.ndarray:
    """Return predictions of a block, of shape (columns, rows)."""
    return np.stack(list(predict(X).values())) if len(X) else np.empty((count, 0))


# ---------------------------------------------------------------- xarray


def grid_stream(source) -> DaskStream:
    """Return the pass over a grid of Dask arrays, a box of chunks at a time."""
    rows = int(np.clip(source.rows // 64, DATA.many_rows, block_rows(2)))
    chunk = source.blueprint.chunk

    def part(box) -> Part:
        parts, shape = source.arrays(box, inputs_only=False)
        arrays = {name: variable.data for name, variable in parts.items()}
        return Part(chunk, (arrays, shape, False))

    boxes = source.boxes(rows)
    whole = len(boxes) == 1
    small = FIRST_ROWS if source.roles.width is None and not whole else rows
    (head,) = computed(part(source.boxes(small)[0]).task(first_rows))
    return DaskStream([part(box) for box in boxes], head, whole)
