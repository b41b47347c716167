"""Chunks of any length regrouped into blocks of one: the same sums from every source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from asvgp.columns import Columns
from asvgp.inputs import read_widths
from asvgp.io.source import Chunk, Source, Stream, len_of
from asvgp.one_pass import block_rows
from asvgp.times import TimeAxis, Zoned, is_time


def in_blocks(chunks: Iterable[Chunk], rows: int | None = None) -> Iterator[Chunk]:
    """The same rows in blocks of a length that follows from their columns, the last shorter.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [Chunk(np.arange(3.0), np.ones(3)), Chunk(np.arange(4.0), np.ones(4))]
    >>> [block.rows for block in in_blocks(parts, rows=5)]
    [5, 2]
    """
    waiting: list[Chunk] = []
    held = 0
    for chunk in chunks:
        if not chunk.rows:
            continue
        _check_lengths(chunk)
        if rows is None:
            rows = block_rows(_width(chunk.X) + (1 if chunk.y is None else _width(chunk.y)))
        begin = 0
        while begin < chunk.rows:
            part = chunk[begin : begin + rows - held]
            waiting.append(part)
            held += part.rows
            begin += part.rows
            if held == rows:
                yield joined(waiting)
                waiting, held = [], 0
    if held:
        yield joined(waiting)


def _width(values) -> int:
    shape = values.shape
    return shape[1] if len(shape) > 1 else 1


def _check_lengths(chunk: Chunk) -> None:
    for name, part in zip(chunk._fields, chunk, strict=True):
        if len_of(part) not in (0, chunk.rows):
            raise ValueError(f"A chunk has {chunk.rows} rows of X but {len_of(part)} of {name}.")


def joined(chunks: list[Chunk]) -> Chunk:
    """Several chunks as one."""
    if not chunks:
        raise ValueError("There are no data: 0 rows.")
    if len(chunks) == 1:
        return chunks[0]
    out: list[Any] = []
    for name, parts in zip(Chunk._fields, zip(*chunks, strict=True), strict=True):
        if isinstance(parts[0], Columns):
            if any(part.columns != parts[0].columns for part in parts):
                raise ValueError("Columns differ from chunk to chunk.")
            out.append(Columns.joined(list(parts)))
        elif len_of(parts[0]):
            if len({np.shape(part)[1:] for part in parts}) > 1:
                raise ValueError(
                    f"Chunks differ in the number of columns of {name}: "
                    f"{sorted({_width(np.asarray(part)) for part in parts})}."
                )
            out.append(np.concatenate(parts))
        else:
            out.append(parts[0])
    return Chunk(*out)


class BlockStream(Stream):
    """A source read block by block, in this process."""

    def __init__(self, source: Source):
        blocks = in_blocks(source.chunks())
        first = next(blocks, None)
        if first is None:
            raise ValueError("There are no data: 0 rows.")
        second = next(blocks, None)
        self.head, self.whole = first, second is None
        self.rest = blocks if second is None else chain([second], blocks)

    def blocks(self) -> Iterator[Chunk]:
        """All rows; the stream holds on to none of them."""
        head, self.head = self.head, self.head[:0]
        yield head
        del head
        yield from self.rest

    def statistics(self, reader, progress=None):
        """Statistics of all rows."""
        return reader.statistics(self.blocks(), progress)


def outermost(
    source: Source, progress: Callable[[int], None] | None = None
) -> tuple[Columns | np.ndarray, int]:
    """Smallest and largest of every input, in two rows, by a pass over them; number of rows.

    Where y is averaged over intervals, the largest is the end of one.
    """
    ends, rows = None, 0
    for chunk in source.chunks(inputs_only=True):
        if not chunk.rows:
            continue
        new = extremes(chunk.X, chunk.width)
        ends = new if ends is None else extremes(joined([Chunk(ends), Chunk(new)]).X)
        rows += chunk.rows
        if progress is not None:
            progress(chunk.rows)
    if ends is None:
        raise ValueError("There are no data: 0 rows.")
    return ends, rows


def extremes(X: Columns | np.ndarray, width=None) -> Columns | np.ndarray:
    """Smallest and largest of every column, in two rows; what is missing is passed over.

    Examples
    --------
    >>> import numpy as np
    >>> extremes(np.array([2.0, np.nan, 7.0, 3.0])).tolist()
    [2.0, 7.0]
    >>> extremes(np.array([2.0, 3.0]), width=0.5).tolist()
    [2.0, 3.5]
    """
    if isinstance(X, Columns):
        return Columns(X.columns, [_two(array, width) for array in X.arrays])
    if X.ndim == 1:
        return _two(X, width)
    return np.stack([_two(column, width) for column in X.T], axis=1)


def _two(column, width):
    """Smallest and largest of a column; where there are widths it is the only one."""
    if isinstance(column, Zoned):
        return Zoned(_two(column.times, width), column.tz)
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
