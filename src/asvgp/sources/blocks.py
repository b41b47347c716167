"""Regroup chunks of any length into blocks of one length: every source gives the same sums."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np

from asvgp.data.columns import Columns, Gridded
from asvgp.data.inputs import read_widths
from asvgp.sources.source import Chunk, Source, Stream, len_of
from asvgp.statistics.accumulator import block_rows
from asvgp.times import TimeAxis, Zoned, is_time


def in_blocks(chunks: Iterable[Chunk], rows: int | None = None) -> Iterator[Chunk]:
    """Yield the rows in blocks of a length that depends on their columns; the last is shorter.

    The memory of a block is used again for the third after it.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [Chunk(np.arange(3.0), np.ones(3)), Chunk(np.arange(4.0), np.ones(4))]
    >>> [block.rows for block in in_blocks(parts, rows=5)]
    [5, 2]
    """
    block, buffers = None, deque([[], [], []])
    for chunk in chunks:
        if not chunk.rows:
            continue
        for name, part in zip(chunk._fields, chunk, strict=True):
            if len_of(part) not in (0, chunk.rows):
                raise ValueError(
                    f"A chunk has {chunk.rows} rows of X but {len_of(part)} of {name}."
                )
        if rows is None:
            rows = block_rows(_width(chunk.X) + (1 if chunk.y is None else _width(chunk.y)))
        begin = 0
        while begin < chunk.rows:
            block = _Block(rows, buffers.popleft()) if block is None else block
            begin += block.add(chunk.part(slice(begin, begin + rows - block.rows)))
            if block.rows == rows:
                buffers.append(block.parts)
                yield block.chunk()
                block = None
    if block is not None:
        yield block.chunk()


class _Block:
    """Memory for the rows of a block, filled chunk by chunk."""

    def __init__(self, length: int, buffers: list[Any] | None = None):
        self.length, self.rows = length, 0
        self.names: tuple[str, ...] | None = None
        self.parts: list[Any] = buffers or []

    def add(self, chunk: Chunk) -> int:
        """Copy all rows of a chunk, for which there is memory, and return their number."""
        named = isinstance(chunk.X, Columns)
        names = chunk.X.columns if named else None
        columns = list(chunk.X.arrays) if named else [chunk.X]
        new = [*columns, *tuple(chunk)[1:]]
        if not self.rows:
            self.names = names
            old = self.parts if len(self.parts) == len(new) else [None] * len(new)
            pairs = zip(new, old, strict=True)
            self.parts = [_buffer(part, self.length, buffer) for part, buffer in pairs]
        elif names != self.names or len(new) != len(self.parts):
            raise ValueError(f"Columns differ from chunk to chunk: {self.names} and then {names}.")
        rows = slice(self.rows, self.rows + chunk.rows)
        self.parts = [_put(old, part, rows) for old, part in zip(self.parts, new, strict=True)]
        self.rows = rows.stop
        return chunk.rows

    def chunk(self) -> Chunk:
        """Return the rows so far."""
        parts = [part[: self.rows] if len_of(part) else part for part in self.parts]
        count = 1 if self.names is None else len(self.names)
        columns, beside = parts[:count], parts[count:]
        return Chunk(columns[0] if self.names is None else Columns(self.names, columns), *beside)


def _buffer(part, length: int, old=None) -> Any:
    """Return memory for rows like these, the old if it fits; one value for all rows as it is."""
    if not len_of(part):
        return part
    if isinstance(part, Zoned):
        return Zoned(_buffer(part.times, length, getattr(old, "times", None)), part.tz)
    part = np.asarray(part)
    shape = (length, *part.shape[1:])
    if isinstance(old, np.ndarray) and old.shape == shape and old.dtype == part.dtype:
        return old
    return np.empty(shape, dtype=part.dtype)


def _put(old, new, rows: slice):
    """Copy new rows into old memory, and return it or a copy with a type for both."""
    if len_of(old) == 0 or len_of(new) == 0:
        if len_of(old) != len_of(new) or not (old is new or old == new):
            raise ValueError("Chunks differ in what they hold beside X: some have weights.")
        return old
    if isinstance(old, Zoned) or isinstance(new, Zoned):
        zones = [getattr(part, "tz", None) or "none" for part in (old, new)]
        if zones[0] != zones[1]:
            raise ValueError(
                f"Time zones differ within a column: {zones[0]}, then {zones[1]}. Bring it to one."
            )
        return Zoned(_put(old.times, new.times, rows), old.tz)
    new = np.asarray(new)
    if new.shape[1:] != old.shape[1:]:
        raise ValueError(
            f"Chunks differ in their number of columns: {_width(old)}, then {_width(new)}."
        )
    if (old.dtype.kind == "M") != (new.dtype.kind == "M"):
        raise TypeError("A column holds numbers in some chunks and times in others.")
    old = old.astype(np.result_type(old, new), copy=False)
    old[rows] = new
    return old


def _width(values) -> int:
    """Return the number of columns."""
    return values.shape[1] if len(values.shape) > 1 else 1


def joined(chunks: list[Chunk]) -> Chunk:
    """Join several chunks to one."""
    if not chunks:
        raise ValueError("There are no data: 0 rows.")
    if len(chunks) == 1:
        return chunks[0]
    chunks = [c._replace(X=c.X.expanded()) if isinstance(c.X, Gridded) else c for c in chunks]
    block = _Block(sum(chunk.rows for chunk in chunks))
    for chunk in chunks:
        block.add(chunk)
    return block.chunk()


def read_ahead(blocks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield the blocks; another thread reads the next one meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="asvgp-read") as thread:
        waiting = thread.submit(next, blocks, None)
        while (block := waiting.result()) is not None:
            waiting = thread.submit(next, blocks, None)
            yield block


def blocks_of(source: Source) -> Iterator[Chunk]:
    """Yield all rows of a source in blocks, read ahead where that is possible."""
    blocks = source.chunks() if source.gridded else in_blocks(source.chunks())
    return read_ahead(blocks) if source.ahead else blocks


class BlockStream(Stream):
    """A source read block by block, in this process."""

    def __init__(self, source: Source):
        blocks = blocks_of(source)
        first = next(blocks, None)
        if first is None:
            raise ValueError("There are no data: 0 rows.")
        self.head, self.rest, rows = first, blocks, source.rows
        if rows is None:  # only the next block tells whether there are more
            second = next(blocks, None)
            rows = first.rows + (0 if second is None else second.rows)
            self.rest = chain([] if second is None else [second], blocks)
        self.whole = rows <= first.rows

    def blocks(self) -> Iterator[Chunk]:
        """Yield all rows; the stream keeps none of them."""
        head, self.head = self.head, Chunk(())
        yield head
        del head
        yield from self.rest

    def statistics(self, reader, progress=None):
        """Return the statistics of all rows."""
        return reader.statistics(self.blocks(), progress)


def outermost(
    source: Source, progress: Callable[[int], None] | None = None, along: int | None = 0
) -> tuple[Columns | np.ndarray, int]:
    """Return smallest and largest of every input, in two rows, and the number of rows.

    It takes a pass over the inputs. Where y is averaged over intervals ``along`` an input, its
    largest is the end of one.
    """
    ends, rows = None, 0
    for chunk in source.chunks(inputs_only=True):
        if not chunk.rows:
            continue
        new = extremes(chunk.X, chunk.width, along)
        ends = new if ends is None else extremes(joined([Chunk(ends), Chunk(new)]).X)
        rows += chunk.rows
        if progress is not None:
            progress(chunk.rows)
    if ends is None:
        raise ValueError("There are no data: 0 rows.")
    return ends, rows


def extremes(X: Columns | np.ndarray, width=None, along: int | None = 0) -> Columns | np.ndarray:
    """Return smallest and largest of every column, in two rows, without missing values.

    Rows may be intervals of a ``width`` ``along`` the column of that number.

    Examples
    --------
    >>> import numpy as np
    >>> extremes(np.array([2.0, np.nan, 7.0, 3.0])).tolist()
    [2.0, 7.0]
    >>> extremes(np.array([2.0, 3.0]), width=0.5).tolist()
    [2.0, 3.5]
    """
    if not isinstance(X, Columns) and X.ndim == 1:
        return _ends(X, width)
    columns = X.arrays if isinstance(X, Columns) else X.T
    ends = [_ends(c, width if i == along else None) for i, c in enumerate(columns)]
    return Columns(X.columns, ends) if isinstance(X, Columns) else np.stack(ends, axis=1)


def _ends(column, width) -> Any:
    """Return smallest and largest of a column, or of intervals that begin there."""
    if isinstance(column, Zoned):
        return Zoned(_ends(column.times, width), column.tz)
    ends = [np.fmin.reduce(column), np.fmax.reduce(column)]
    if width is not None:
        axis = TimeAxis(np.datetime64(0, "ns")) if is_time(column) else None
        widths = read_widths(width, len(column), axis)
        if widths is not None and axis is not None:
            nano = np.rint(widths * 1e9).astype("timedelta64[ns]")
            ends[1] = np.fmax.reduce(column.astype("datetime64[ns]") + nano)
        elif widths is not None:
            ends[1] = np.fmax.reduce(column + widths)
    return np.array(ends)
