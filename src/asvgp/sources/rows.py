"""Arrays in memory as a source of one block, which is never copied."""

from __future__ import annotations

from collections.abc import Iterator

from asvgp.data.columns import Gridded
from asvgp.sources.roles import Roles
from asvgp.sources.source import Chunk, Reader, Source, Stream


class RowsSource(Source, Stream):
    """Arguments of `GPRegressor.fit` that are arrays: they need no opening to be read.

    Examples
    --------
    >>> import numpy as np
    >>> stream = RowsSource(Chunk(np.arange(3.0), np.ones(3))).open()
    >>> stream.whole, stream.head.rows
    (True, 3)
    """

    whole = True

    def __init__(self, block: Chunk):
        self.head, self.roles = block, Roles()
        self.gridded = isinstance(block.X, Gridded)

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
