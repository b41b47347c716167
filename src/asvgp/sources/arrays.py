"""Arrays, in memory or memory-mapped, and iterables of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from asvgp.data.columns import Columns, Gridded, Table
from asvgp.likelihoods.family import BadRows
from asvgp.sources.blocks import joined
from asvgp.sources.convert import as_inputs, as_numbers
from asvgp.sources.frames import columns_of
from asvgp.sources.paths import stamps
from asvgp.sources.roles import Roles
from asvgp.sources.source import Chunk, Reader, Source, Stream, len_of
from asvgp.sources.table import TableSource, chunk_of

ROWS = 1 << 18  # read from an array at once


def open_source(data, roles: Roles) -> Source | None:
    """Return a source for arrays, dictionaries of them, iterables and functions."""
    if isinstance(data, np.ndarray):
        return array_source(data, roles)
    if isinstance(data, Mapping):
        return DictSource(data, roles)
    return ChunkSource(data, roles) if callable(data) or isinstance(data, Iterable) else None


def array_source(data: np.ndarray, roles: Roles, paths: Sequence[str] = ()) -> Source:
    """Return a source for an array, whose columns have names or numbers."""
    return (DictSource if data.dtype.names else ArraySource)(data, roles, paths)


class RowsSource(Source, Stream):
    """Arguments of `GPRegressor.fit` that are arrays: one block, which is never copied.

    Rows of weight zero are left out; messages still number all rows.

    Examples
    --------
    >>> import numpy as np
    >>> stream = RowsSource(Chunk(np.arange(3.0), np.ones(3))).open()
    >>> stream.whole, stream.head.rows
    (True, 3)
    """

    whole = True

    def __init__(self, block: Chunk):
        self.total, self.present = len_of(block.X), block.present
        self.head = block if self.present is None else block.at(self.present)
        self.roles, self.gridded = Roles(), isinstance(block.X, Gridded)

    def numbered(self, error: BadRows) -> BadRows:
        """Return an error that numbers all rows that were given."""
        return error if self.present is None else error.among(self.present, self.total)

    def prepared(self, kernel, inputs=None) -> Source:
        """Return the source as it is: its columns were chosen by the user."""
        return self

    def stream(self) -> Stream:
        """Return itself."""
        return self

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield the only block."""
        yield self.head

    def blocks(self) -> Iterator[Chunk]:
        """Yield the only block."""
        return self.chunks()

    def statistics(self, reader: Reader, progress=None):
        """Return the statistics of all rows."""
        return reader.statistics((self.head,), progress)


class DictSource(TableSource):
    """Columns by name, in a dictionary or a structured array."""

    def __init__(self, data, roles: Roles, paths: Sequence[str] = ()):
        super().__init__(roles)
        self.data, self.paths = data, tuple(paths)
        lengths = {len(data[name]) for name in self.names()}
        if len(lengths) > 1:
            raise ValueError(f"Columns have different lengths: {sorted(lengths)}.")
        self.rows = lengths.pop() if lengths else 0

    def names(self) -> list[str]:
        """Return the names of all columns."""
        return list(self.data.dtype.names if hasattr(self.data, "dtype") else self.data)

    def batches(self, names) -> Iterator[Mapping[str, Any]]:
        """Yield all rows."""
        for begin in range(0, self.rows or 0, ROWS):
            yield {name: self.data[name][begin : begin + ROWS] for name in names}

    def fingerprint(self) -> object:
        """Return the number of rows, and when files were written."""
        return self.rows, stamps(self.paths)


class ArraySource(Source):
    """A two-dimensional array with columns by number, or a vector of inputs."""

    def __init__(self, data: np.ndarray, roles: Roles, paths: Sequence[str] = ()):
        self.data, self.roles, self.rows = data, roles, len(data) if data.ndim else 0
        self.paths = tuple(paths)
        if data.ndim not in (1, 2):
            raise ValueError(f"An array of data must have rows and columns, not {data.shape}.")

    def prepared(self, kernel, inputs=None) -> Source:
        """Return the source with its columns chosen."""
        new = copy(self)
        width = self.data.shape[1] if self.data.ndim == 2 else 1
        new.roles = self.roles.resolved(range(width))
        return new

    @property
    def inputs(self) -> None:
        """None: columns have no names."""
        return None

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows."""
        table = self.data.reshape(len(self.data), -1)
        roles = self.roles
        targets = list(roles.targets)
        y = targets if isinstance(roles.target, list | tuple) else roles.target
        for begin in range(0, len(table), ROWS):
            part = table[begin : begin + ROWS]

            def pick(columns, part=part):
                return None if columns is None or columns == [] else part[:, columns]

            X, width = part[:, list(roles.inputs)], roles.width
            width = pick(width) if isinstance(width, int) else width
            if inputs_only:
                yield Chunk(X, width=width)
            else:
                beside = {
                    name: pick(value) if isinstance(value, int) else value
                    for name, value in roles.beside.items()
                }
                weight, noise = pick(roles.weight), pick(roles.noise_variance)
                yield Chunk(X, pick(y), weight, noise, width, **beside)

    def fingerprint(self) -> object:
        """Return the shape, and when files were written."""
        return self.data.shape, stamps(self.paths)


class ChunkSource(Source):
    """Chunks from the user's code: an iterable, or a function that returns one."""

    def __init__(self, data: Iterable | Callable[..., Any], roles: Roles):
        self.data, self.roles, self.kernel = data, roles, None
        self.again = callable(data) or not isinstance(data, Iterator)
        self.names: tuple[str, ...] | None = None

    def prepared(self, kernel, inputs=None) -> Source:
        """Return the source; its columns are chosen when the first chunk is read."""
        new = copy(self)
        new.kernel = kernel
        new.names = None if inputs is None else tuple(inputs)
        return new

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """Names of the inputs, once they are known."""
        return self.names

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows."""
        start = 0
        for item in self.data() if callable(self.data) else self.data:
            chunk = self._chunk(item, start, inputs_only)
            start += chunk.rows
            yield chunk

    def _chunk(self, item, start: int, inputs_only: bool) -> Chunk:
        if isinstance(item, Chunk):
            return item
        if isinstance(item, tuple | list):
            return self._from_tuple(item, start)
        if isinstance(item, np.ndarray) and not item.dtype.names:
            if self.roles.target is None:
                return Chunk(item)
            return joined([*ArraySource(item, self.roles).prepared(None).chunks(inputs_only)])
        table = columns_of(item)
        roles = self.roles if self.names is None else replace(self.roles, inputs=self.names)
        roles = roles.resolved(list(table), self.kernel)
        self.names = roles.inputs
        return chunk_of(table, roles, start, inputs_only)

    def _from_tuple(self, item, start: int) -> Chunk:
        if not 1 <= len(item) <= 3:
            raise ValueError(
                f"A chunk must be (X, y) or (X, y, weight); this one has {len(item)} parts."
            )
        X, y, weight = (*item, None, None)[:3]
        if hasattr(X, "columns"):
            table = columns_of(X)
            self.names = tuple(table) if self.names is None else self.names
            names = self.names
            for name in names:
                if name not in table:
                    raise ValueError(f"A chunk has no column {name!r}, which the first one had.")
            X = Columns(names, [as_inputs(table[name], name, start) for name in names])
        else:
            X = Table(X).values
            if getattr(X, "ndim", 1) == 1:
                X = as_inputs(X, "X", start)
                X = X if isinstance(X, np.ndarray) else Columns(("X",), (X,))
        if y is not None and np.ndim(y) == 1:
            y = as_numbers(y, "y", start)
        elif y is not None:
            y = np.asarray(y)
        if weight is not None and np.ndim(weight):
            weight = as_numbers(weight, "weight", start)
        for name, column in self.roles.beside.items():
            if isinstance(column, str):
                raise ValueError(
                    f"{name} is the column {column!r}, and a chunk (X, y) has none: let chunks be "
                    "frames or dictionaries of columns."
                )
        return Chunk(X, y, weight, None, self.roles.width, **self.roles.beside)
