"""Arrow: tables, record batches, datasets, readers, and whatever streams like them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asvgp.sources.answers import as_batches, as_table
from asvgp.sources.convert import arrow
from asvgp.sources.roles import Roles
from asvgp.sources.source import Source
from asvgp.sources.table import TableSource

ROWS = 1 << 18  # of a batch


def open_source(data, roles: Roles) -> Source | None:
    """A source for what pyarrow has, and for anything with the Arrow stream interface."""
    if type(data).__module__.partition(".")[0] == "pyarrow":
        pa = arrow()
        import pyarrow.dataset as ds

        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            return ArrowTable(data, roles)
        if isinstance(data, ds.Dataset):
            return ArrowDataset(data, roles)
        if isinstance(data, pa.RecordBatchReader):
            return ArrowReader(data, roles)
    if hasattr(data, "__arrow_c_stream__"):
        arrow()
        return ArrowStream(data, roles)
    return None


def by_name(batch, names: Sequence[str]) -> Mapping[str, Any]:
    """Some columns of a batch or table."""
    return {name: batch.column(name) for name in names}


class ArrowTable(TableSource):
    """A table in memory."""

    def __init__(self, table, roles: Roles):
        super().__init__(roles)
        self.table, self.rows = table, table.num_rows

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.table.schema.names

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows, of which nothing is copied."""
        chosen = self.table.select([self.names().index(name) for name in names])
        for batch in chosen.to_batches(max_chunksize=ROWS):
            yield by_name(batch, names)

    def answer(self, predict):
        """A table."""
        return as_table(predict, self.chunks(inputs_only=True))


class ArrowReader(TableSource):
    """A reader of record batches, which can be read once."""

    again = False

    def __init__(self, reader, roles: Roles):
        super().__init__(roles)
        self.reader = reader

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.reader.schema.names

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows."""
        for batch in self.reader:
            yield by_name(batch, names)

    def answer(self, predict):
        """A reader of record batches."""
        return as_batches(predict, self.chunks(inputs_only=True))


class ArrowStream(ArrowReader):
    """Something that gives a new Arrow stream whenever it is asked."""

    again = True

    def __init__(self, data, roles: Roles):
        reader = arrow().RecordBatchReader.from_stream(data)
        super().__init__(reader, roles)
        self.data, self.schema = data, reader.schema
        reader.close()

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.schema.names

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows."""
        for batch in arrow().RecordBatchReader.from_stream(self.data):
            yield by_name(batch, names)


class ArrowDataset(TableSource):
    """Files, read in the order of their names, while batches read before are worked on."""

    ahead = True

    def __init__(self, dataset, roles: Roles):
        super().__init__(roles)
        self.dataset = dataset
        self.rows = self._count()

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.dataset.schema.names

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows in order."""
        self._check_files(names)
        for batch in self.dataset.to_batches(**self._scan(names)):
            if batch.num_rows:
                yield by_name(batch, names)

    def _scan(self, names: Sequence[str]) -> dict[str, Any]:
        import pyarrow.dataset as ds

        options: dict[str, Any] = {"columns": list(names), "batch_size": ROWS}
        # Whole row groups read ahead would be much more than is in work.
        options |= {"batch_readahead": 8, "fragment_readahead": 1}
        if self._is_parquet:
            options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False)
        return options

    @property
    def _is_parquet(self) -> bool:
        return getattr(getattr(self.dataset, "format", None), "default_extname", "") == "parquet"

    def _check_files(self, names: Sequence[str]) -> None:
        """Every file must have the columns: Arrow would take them for missing values."""
        if not hasattr(self.dataset, "files"):
            return
        for fragment in self.dataset.get_fragments():
            own = fragment.physical_schema.names
            absent = [n for n in names if n not in own and n not in _partition(fragment)]
            if absent:
                raise ValueError(f"{fragment.path} has no column {absent[0]!r}, unlike others.")

    def _count(self) -> int | None:
        """Number of rows, from what Parquet files say of themselves."""
        if not self._is_parquet:
            return None
        return sum(fragment.metadata.num_rows for fragment in self.dataset.get_fragments())

    def ranges(self):
        """From the statistics of Parquet files."""
        if not self._is_parquet:
            return None
        from asvgp.sources.parquet import ranges

        return ranges(self.dataset, self.inputs)

    def fingerprint(self) -> object:
        """Sizes of the files and when they were written."""
        from asvgp.sources.files import stamps

        return stamps(getattr(self.dataset, "files", []))

    def answer(self, predict):
        """A reader of record batches."""
        return as_batches(predict, self.chunks(inputs_only=True))


def _partition(fragment) -> set[str]:
    """Columns that a file's folder gives, as year=2024 does."""
    import pyarrow.dataset as ds

    return set(ds.get_partition_keys(fragment.partition_expression))
