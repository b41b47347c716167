"""Dask: sums are made where the data are, and only sums travel.

A partition becomes statistics on the worker that holds it, and these are added in a tree: what
reaches the client is as large as one of them. A lost worker's partitions are computed again by
Dask, as everything here is a function of the graph. The same on any scheduler.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from asvgp.data.columns import Columns
from asvgp.policies import DATA
from asvgp.sources.blocks import extremes, in_blocks, joined
from asvgp.sources.convert import as_inputs, as_numbers
from asvgp.sources.frames import PandasSource
from asvgp.sources.roles import Roles, listed
from asvgp.sources.source import Chunk, Source, Stream
from asvgp.sources.table import TableSource, chunk_of
from asvgp.statistics.accumulator import block_rows

FAN_IN = 8  # statistics that are added at once
FAN_IN_BYTES = 1 << 29  # and that they may take together
LARGE = 1 << 22  # bytes of a model that is too large to be a part of a graph
CENTRE = 1 << 12  # rows that a first look needs at least
LOOKS = 16  # partitions to take them from


def open_source(data, roles: Roles) -> Source | None:
    """A source for Dask frames and arrays."""
    if type(data).__module__.partition(".")[0] != "dask":
        return None
    return DaskFrame(data, roles) if is_frame(data) else DaskPieces(data, roles)


def is_frame(data) -> bool:
    """Whether this is a frame of Dask, not an array; an error for what is neither."""
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
def told(number: int):
    """Errors say in which partition they were."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Partition {number}: {error}") from error


def computed(*values) -> tuple:
    """What delayed values come to; all that the client ever asks for."""
    from dask.base import compute

    try:
        return compute(*values)
    except KeyError as error:  # Dask's choice of columns, by the name of which there is none
        raise ValueError(
            f"A partition is not as the Dask frame says: {error}. All need the same columns."
        ) from error


class Part(NamedTuple):
    """One partition: how its chunk is made, of what is delayed.

    A chunk is never the result of a task. It would be as long as the data, and Dask, which does
    not know what it weighs, would send it from worker to worker.
    """

    make: Callable[..., Chunk]
    arguments: tuple

    def task(self, work: Callable, *given):
        """Work on the chunk, delayed: one task that makes it and forgets it."""
        from dask.delayed import delayed

        return delayed(_run, pure=False)(work, given, self.make, self.arguments)


def _run(work: Callable, given: Sequence, make: Callable[..., Chunk], arguments: Sequence):
    return work(make(*arguments), *given)


def itself(chunk: Chunk) -> Chunk:
    """The chunk."""
    return chunk


def statistics_of(chunk: Chunk, reader, number: int):
    """Statistics of one partition; None where it has no rows."""
    if not chunk.rows:
        return None
    blocks = in_blocks([chunk]) if isinstance(chunk.X, Columns | np.ndarray) else [chunk]
    with told(number):
        return reader.statistics(blocks)


def added(parts: Sequence):
    """The sum of statistics, those of no rows left out."""
    parts = [part for part in parts if part is not None]
    return reduce(add, parts) if parts else None


def ends_of(chunk: Chunk, along: int | None):
    """Outermost inputs of a partition and its number of rows."""
    return (extremes(chunk.X, chunk.width, along), chunk.rows) if chunk.rows else None


def outermost_of(parts: Sequence):
    """The outermost of several, and the rows of all."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return None
    ends = extremes(joined([Chunk(ends) for ends, _ in parts]).X)
    return ends, sum(rows for _, rows in parts)


def first_rows(chunk: Chunk, rows: int) -> Chunk:
    """The beginning of a partition."""
    return chunk[:rows] if chunk.rows > rows else chunk


def tree(parts: Sequence, join: Callable, fan_in: int = FAN_IN):
    """Delayed values joined a few at a time, until there is one."""
    from dask.delayed import delayed

    parts, joins = list(parts), delayed(join, pure=False)
    while len(parts) > 1:
        parts = [joins(parts[i : i + fan_in]) for i in range(0, len(parts), fan_in)]
    return parts[0]


def shared(predict):
    """What predicts, as a part of graphs: in them once, by its key, or on the workers already.

    A cluster takes no large graphs without complaint: a large model is given to its workers, to
    all of them, so that losing one loses nothing. It stays there as long as the answer is kept.
    """
    from dask.delayed import delayed

    client = _client() if predict.nbytes > LARGE else None
    if client is None:
        return delayed(predict, traverse=False, pure=False)
    return delayed(client.scatter(predict, broadcast=True, hash=False))


def _client():
    """The client of a cluster that Dask would compute on; None where there is none."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if hasattr(owner, "scatter") else None


class DaskStream(Stream):
    """Partitions.

    Parameters
    ----------
    parts : sequence of Part
    head : Chunk
        The first rows.
    whole : bool
        Whether these are all.
    """

    def __init__(self, parts: Sequence[Part], head: Chunk, whole: bool):
        self.parts, self.head, self.whole = parts, head, whole

    def statistics(self, reader, progress=None):
        """Statistics of all partitions, added on the workers."""
        from dask.delayed import delayed

        size = reader.nbytes
        fan_in = int(min(max(FAN_IN_BYTES // max(size, 1), 2), FAN_IN))
        sent = delayed(reader, traverse=False, pure=False)  # once, by its key
        sums = [part.task(statistics_of, sent, i) for i, part in enumerate(self.parts)]
        (found,) = computed(tree(sums, added, fan_in))
        if found is None:
            raise ValueError("There are no data: 0 rows.")
        if progress is not None:
            progress(found.count + found.missing)
        return found

    def blocks(self) -> Iterator[Chunk]:
        """All rows, a partition at a time."""
        for part in self.parts:
            (chunk,) = computed(part.task(itself))
            if chunk.rows:
                yield chunk


def first_look(parts: Sequence[Part], rows: int | None, most: int) -> tuple[Chunk, bool]:
    """Rows to begin with, and whether they are all: ``most`` or fewer come to the client."""
    if rows is not None and rows >= most and len(parts) > 1:
        # Their number is known; what else is to be found out, rows from all over tell better.
        spread = parts[:: -(-len(parts) // LOOKS)]
        new = computed(*(part.task(first_rows, CENTRE // len(spread)) for part in spread))
        if found := [chunk for chunk in new if chunk.rows]:
            return joined(found), False
    found, held, start, step = [], 0, 0, 1
    while start < len(parts) and held < most:
        some = parts[start : start + step]
        new = computed(*(part.task(first_rows, most - held) for part in some))
        found += [chunk for chunk in new if chunk.rows]
        held += sum(chunk.rows for chunk in new)
        start, step = start + step, 2 * step
    if not found:
        raise ValueError("There are no data: 0 rows.")
    return joined(found), start >= len(parts) and held < most


def _look_rows(roles: Roles) -> int:
    """Rows from which on an automatic grid does not depend on them, and one more."""
    return DATA.many_rows + 2 if roles.width is None else block_rows(2)


class DaskSource(Source):
    """What is common to partitions of all kinds."""

    @abstractmethod
    def parts(self, inputs_only: bool = False) -> list[Part]:
        """All partitions."""

    def open(self) -> Stream:
        """Begin to read, on the workers."""
        parts = self.parts()
        return DaskStream(parts, *first_look(parts, self.rows, _look_rows(self.roles)))

    def survey(self, progress=None, along: int | None = 0):
        """Outermost inputs and the number of rows, by a tree of partitions."""
        ends = [part.task(ends_of, along) for part in self.parts(inputs_only=True)]
        (found,) = computed(tree(ends, outermost_of))
        if found is None:
            raise ValueError("There are no data: 0 rows.")
        if progress is not None:
            progress(found[1])
        return found


# ---------------------------------------------------------------- frames


class DaskFrame(DaskSource, TableSource):
    """A Dask data frame; its index is a column to those who name it."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame = frame

    def names(self) -> Sequence[str]:
        """All columns."""
        return [str(name) for name in self.frame.columns]

    def hidden(self) -> Sequence[str]:
        """Name of the index."""
        own, name = self.names(), self.frame.index.name
        return [str(name)] if name is not None and str(name) not in own else []

    def _chosen(self, names: Sequence[str]):
        """The frame with some columns, so that others are not even read."""
        own = list(self.frame.columns)
        return self.frame[[name for name in own if str(name) in names]]

    def parts(self, inputs_only: bool = False) -> list[Part]:
        """All partitions."""
        frames = self._chosen(self.roles.columns(inputs_only)).to_delayed()
        kept = self.roles, inputs_only
        return [Part(chunk_of_frame, (part, *kept, i)) for i, part in enumerate(frames)]

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows, a partition at a time."""
        for number, part in enumerate(self._chosen(names).to_delayed()):
            yield columns_of(computed(part)[0], names, number)

    def answer(self, predict):
        """A Dask data frame with the same index."""
        meta = _predicted(self.frame._meta, self.inputs, predict)
        return self._chosen(self.inputs).map_partitions(
            _predicted,
            self.inputs,
            shared(predict),
            meta=meta,
        )


def columns_of(frame, names: Sequence[str], number: int) -> Mapping[str, Any]:
    """Columns of a partition by name."""
    source = PandasSource(frame, Roles())
    there = [*source.names(), *source.hidden()]
    for name in {*names} - {*there}:
        raise ValueError(
            f"Partition {number} has no column {name!r}, unlike others: it has {listed(there)}."
        )
    return source.columns(names)


def chunk_of_frame(frame, roles: Roles, inputs_only: bool, number: int) -> Chunk:
    """A partition as a chunk."""
    if not len(frame):
        return Chunk(np.empty(0))
    table = columns_of(frame, roles.columns(inputs_only), number)
    with told(number):
        return chunk_of(table, roles, 0, inputs_only)


def _predicted(frame, inputs: Sequence[str], predict):
    """Predictions of a partition."""
    import pandas as pd

    if not len(frame):
        return pd.DataFrame(predict(None), index=frame.index)
    return PandasSource(frame, Roles(inputs=inputs)).prepared(None).answer(predict)


# ---------------------------------------------------------------- arrays


class DaskPieces(DaskSource):
    """X, y and weights as Dask arrays, frames or series, partitioned alike.

    Without ``y`` columns of X are chosen by number.
    """

    def __init__(self, X, roles: Roles, y=None, weight=None, noise_variance=None):
        self.X, self.roles = X, roles
        self.beside = (y, weight, noise_variance)
        self.columns: tuple[str, ...] | None = None
        if is_frame(X):
            self.columns = tuple(str(name) for name in X.columns)
        elif X.ndim not in (1, 2):
            raise ValueError(f"An array of data must have rows and columns, not {X.shape}.")
        self.rows = None
        if self.columns is None and not np.isnan(X.shape[0]):
            self.rows = int(X.shape[0])

    def prepared(self, kernel, inputs=None) -> DaskPieces:
        """The source with its columns chosen."""
        new = copy(self)
        if self.columns is not None:
            names = self.columns if inputs is None else tuple(inputs)
            new.roles = Roles(inputs=names, width=self.roles.width).resolved(self.columns)
        elif self.roles.target is not None or self.roles.inputs is not None:
            width = self.X.shape[1] if self.X.ndim == 2 else 1
            new.roles = self.roles.resolved(range(int(width)))
        return new

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """Names of the columns of a frame."""
        return self.columns

    def parts(self, inputs_only: bool = False) -> list[Part]:
        """All partitions."""
        chunks = None
        if self.columns is None:
            X = self.X.rechunk({1: -1}) if self.X.ndim == 2 else self.X
            chunks, pieces = X.chunks[0], list(X.to_delayed().ravel())
        else:
            pieces = list(self.X.to_delayed())
        names = ("y", "sample_weight", "noise_variance")
        others = [
            [None] * len(pieces)
            if value is None or inputs_only
            else _pieces(value, name, pieces, chunks)
            for name, value in zip(names, self.beside, strict=True)
        ]
        return [
            Part(chunk_of_pieces, (X, self.roles, inputs_only, number, *beside))
            for number, (X, *beside) in enumerate(zip(pieces, *others, strict=True))
        ]

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """All rows, a partition at a time."""
        for part in self.parts(inputs_only):
            yield computed(part.task(itself))[0]

    def answer(self, predict):
        """Dask arrays by name."""
        if self.columns is not None:
            return DaskFrame(self.X, Roles(inputs=self.inputs)).answer(predict)
        import dask.array as da

        names = list(predict(None))
        X = self.X.rechunk({1: -1}) if self.X.ndim == 2 else self.X
        found = da.blockwise(
            _predicted_rows,
            ("asvgp", "row"),
            X,
            ("row", "column")[: X.ndim],
            predict=shared(predict),
            count=len(names),
            new_axes={"asvgp": len(names)},
            dtype=float,
            concatenate=True,
            meta=np.empty((0, 0)),
        )
        return {name: found[i] for i, name in enumerate(names)}


def _pieces(value, name: str, pieces: Sequence, chunks: Any) -> list:
    """Delayed partitions of y or weights, as many and as long as those of X."""
    if hasattr(value, "to_delayed") and hasattr(value, "map_partitions"):
        found = list(value.to_delayed())
    else:
        import dask.array as da

        known = chunks is not None and not np.isnan(chunks).any()
        rows = sum(() if chunks is None else chunks)
        if not hasattr(value, "dask"):
            if not known:
                raise TypeError(f"{name} must be of Dask, as X is, whose partitions are unknown.")
            wanted: Any = (chunks, *np.shape(value)[1:])
            value = da.from_array(np.asarray(value), chunks=wanted)
        if known and not np.isnan(value.shape[0]):
            if value.shape[0] != rows:
                raise ValueError(
                    f"X and {name} have inconsistent numbers of samples: {rows} and "
                    f"{value.shape[0]}."
                )
            value = value.rechunk({0: chunks})
        value = value.rechunk({1: -1}) if value.ndim == 2 else value
        found = list(value.to_delayed().ravel())
    if len(found) != len(pieces):
        raise ValueError(f"X has {len(pieces)} partitions, but {name} has {len(found)}.")
    return found


def chunk_of_pieces(X, roles: Roles, inputs_only: bool, number: int, y, weight, noise) -> Chunk:
    """Blocks of arrays, or of frames, as a chunk."""
    if not len(X):
        return Chunk(np.empty(0))
    with told(number):
        for name, part in (("y", y), ("sample_weight", weight), ("noise_variance", noise)):
            if part is not None and len(part) != len(X):
                raise ValueError(f"{len(X)} rows of X, but {len(part)} of {name}.")
        if hasattr(X, "columns"):
            table = columns_of(X, roles.inputs, number)
            rows: Any = Columns(roles.inputs, [as_inputs(table[n], n) for n in roles.inputs])
        elif roles.inputs is not None:
            from asvgp.sources.arrays import ArraySource

            return joined(list(ArraySource(np.asarray(X), roles).chunks(inputs_only)))
        else:
            rows = np.asarray(X)
        values = None
        if y is not None:
            values = as_numbers(y, "y") if np.ndim(y) == 1 else np.asarray(y)
        weight = None if weight is None else as_numbers(weight, "sample_weight")
        noise = None if noise is None else as_numbers(noise, "noise_variance")
        return Chunk(rows, values, weight, noise, roles.width)


def _predicted_rows(X, predict, count: int) -> np.ndarray:
    """Predictions of a block, (columns, rows)."""
    return np.stack(list(predict(X).values())) if len(X) else np.empty((count, 0))


# ---------------------------------------------------------------- xarray


def grid_stream(source) -> Stream:
    """The pass over a grid of Dask arrays, a box of chunks at a time."""
    most = int(np.clip(source.rows // 64, DATA.many_rows, block_rows(2)))

    def part(box) -> Part:
        parts, shape = source.arrays(box, inputs_only=False)
        arrays = {name: variable.data for name, variable in parts.items()}
        return Part(chunk_of_box, (source.blueprint, arrays, shape))

    boxes = source.boxes(most)
    whole = len(boxes) == 1
    small = CENTRE if source.roles.width is None and not whole else most
    (head,) = computed(part(source.boxes(small)[0]).task(itself))
    return DaskStream([part(box) for box in boxes], head, whole)


def chunk_of_box(blueprint, arrays: Mapping[str, Any], shape: Sequence[int]) -> Chunk:
    """Blocks of variables as a chunk."""
    return blueprint.chunk(arrays, shape, inputs_only=False)
