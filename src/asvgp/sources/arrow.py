"""Arrow: tables, datasets, readers, and everything with the Arrow stream interface."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from asvgp.data.columns import Columns
from asvgp.sources.answers import as_batches, collected
from asvgp.sources.convert import arrow, library
from asvgp.sources.paths import stamps
from asvgp.sources.roles import Roles
from asvgp.sources.source import Source
from asvgp.sources.table import TableSource
from asvgp.times import Zoned

ROWS = 1 << 18  # of a batch
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def open_source(data, roles: Roles) -> Source | None:
    """Return a source for what has the Arrow stream interface, and for Arrow's datasets."""
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowSource(data, roles)
    if library(data) == "pyarrow" and hasattr(data, "get_fragments"):
        return ArrowDataset(data, roles)
    return None


class ArrowSource(TableSource):
    """Anything that gives an Arrow stream: tables of many libraries, readers of batches."""

    def __init__(self, data, roles: Roles):
        super().__init__(roles)
        pa = arrow()
        self.data, self.again = data, not isinstance(data, pa.RecordBatchReader)
        self.in_memory = isinstance(data, pa.Table | pa.RecordBatch)
        self.rows = data.num_rows if self.in_memory else None
        if self.in_memory or not self.again:
            self.schema = data.schema
        else:
            with pa.RecordBatchReader.from_stream(data) as reader:
                self.schema = reader.schema

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        return self.schema.names

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows; nothing is copied."""
        for batch in arrow().RecordBatchReader.from_stream(self.data):
            for begin in range(0, batch.num_rows, ROWS):
                yield {name: batch.column(name)[begin : begin + ROWS] for name in names}

    def answer(self, predict):
        """Return a table for a table, a reader of record batches for other data."""
        chunks = self.chunks(inputs_only=True)
        if self.in_memory:
            return arrow().table(collected(predict, chunks))
        return as_batches(predict, chunks)


class ArrowDataset(TableSource):
    """Files, read in the order of their names by a thread that reads ahead."""

    ahead = True

    def __init__(self, dataset, roles: Roles):
        super().__init__(roles)
        self.dataset = dataset
        if self._is_parquet:  # only these files tell
            self.rows = sum(part.metadata.num_rows for part in dataset.get_fragments())

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        return self.dataset.schema.names

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows in order."""
        import pyarrow.dataset as ds

        self._check_files(names)
        # Whole row groups read ahead would be much more than is in work.
        options: dict[str, Any] = {"batch_readahead": 8, "fragment_readahead": 1}
        if self._is_parquet:
            options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False)
        for batch in self.dataset.to_batches(columns=list(names), batch_size=ROWS, **options):
            if batch.num_rows:
                yield {name: batch.column(name) for name in names}

    @property
    def _is_parquet(self) -> bool:
        return getattr(getattr(self.dataset, "format", None), "default_extname", "") == "parquet"

    def _check_files(self, names: Sequence[str]) -> None:
        """Check that every file has the columns: Arrow would take them for missing values."""
        import pyarrow.dataset as ds

        for fragment in self.dataset.get_fragments() if hasattr(self.dataset, "files") else ():
            folders = ds.get_partition_keys(fragment.partition_expression)  # as in year=2024
            there = {*fragment.physical_schema.names, *folders}
            absent = [name for name in names if name not in there]
            if absent:
                raise ValueError(f"{fragment.path} has no column {absent[0]!r}, unlike others.")

    def ranges(self):
        """Return the ends of the inputs, from the statistics of Parquet files."""
        if not self._is_parquet:
            return None
        return parquet_ranges(self.dataset, self.roles.inputs)

    def fingerprint(self) -> object:
        """Return the sizes of the files and when they were written."""
        return stamps(getattr(self.dataset, "files", []))

    def answer(self, predict):
        """Return a reader of record batches."""
        return as_batches(predict, self.chunks(inputs_only=True))


def parquet_ranges(dataset, names: Sequence[str]) -> Columns | None:
    """Return smallest and largest of every column, in two rows, from the footers of files.

    None where a file lacks them.
    """
    schema = dataset.schema
    ends: dict[str, list] = {name: [] for name in names}
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        if not all(name in places for name in names):
            return None
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            if not row_group.num_rows:
                continue
            for name in names:
                pair = _pair(row_group.column(places[name]), schema.field(name).type)
                if pair is None:
                    return None
                ends[name] += pair
    if not all(ends.values()):
        return None
    arrays = []
    for name, values in ends.items():
        array = np.array(values)
        array = np.array([array.min(), array.max()])
        zone = getattr(schema.field(name).type, "tz", None)
        arrays.append(array if zone is None else Zoned(array, zone))
    return Columns(names, arrays)


def _pair(column, kind) -> list | None:
    """Return smallest and largest of a column in a row group, exactly; None where unknown."""
    footer = column.statistics
    if footer is None or not footer.has_min_max:
        return None
    types = arrow().types
    if types.is_timestamp(kind):
        logical = json.loads(footer.logical_type.to_json())
        unit = _UNITS.get(logical.get("timeUnit", ""))
        if unit is None or footer.physical_type != "INT64":
            return None
        return list(np.array([footer.min_raw, footer.max_raw], dtype=np.int64).view(f"M8[{unit}]"))
    if types.is_date32(kind):
        return [np.datetime64(value, "s") for value in (footer.min, footer.max)]
    if types.is_floating(kind) or types.is_integer(kind):
        pair = [footer.min, footer.max]  # as bytes where they are of half precision
        numbers = all(isinstance(end, int | float) for end in pair)
        return pair if numbers and all(np.isfinite(pair)) else None
    return None
