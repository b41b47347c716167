"""Files written whole or not at all, and tables written into them row by row."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from asvgp.saving.atomic import replacing
from asvgp.sources.convert import arrow


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """Open a file that is written whole or not at all; for ``-``, standard output."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(path) as stream:
        yield stream


class TableWriter:
    """Writer of rows in portions, as Parquet, CSV or Feather.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> with TableWriter(stream, "out.csv") as table:
    ...     table.write({"x": [1, 2], "mean": [0.5, 0.25]})
    >>> stream.getvalue().decode().splitlines()
    ['"x","mean"', '1,0.5', '2,0.25']
    """

    def __init__(self, stream: BinaryIO, path: str):
        self.stream: Any = stream
        self.path = path.lower()
        self.writer: Any = None
        self.rows, self.columns = 0, ()

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write more rows, with the same columns every time."""
        pa = arrow()
        table = pa.table({name: _column(values) for name, values in columns.items()})
        if self.writer is None:
            self.columns = tuple(table.schema.names)
            self.writer = self._open(table.schema)
        self.writer.write_table(table)
        self.rows += table.num_rows

    def _open(self, schema):
        pa = arrow()
        if self.path.endswith((".parquet", ".pq")):
            from pyarrow.parquet import ParquetWriter

            return ParquetWriter(self.stream, schema)
        if self.path.endswith((".feather", ".arrow")):
            return pa.ipc.new_file(self.stream, schema)
        from pyarrow import csv

        if self.path.endswith(".gz"):
            self.stream = gzip.GzipFile(fileobj=self.stream, mode="wb", mtime=0)
        options = csv.WriteOptions(delimiter="\t" if self.path.endswith(".tsv") else ",")
        return csv.CSVWriter(self.stream, schema, write_options=options)

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind, *_) -> None:
        if self.writer is not None and (kind is None or not issubclass(kind, BrokenPipeError)):
            self.writer.close()
            if self.path.endswith(".gz"):
                self.stream.close()


def _column(values: Any):
    """Return a column as a plain Arrow array: CSV cannot hold dictionaries."""
    pa = arrow()
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        values = pa.array(values)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values
