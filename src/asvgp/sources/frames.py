"""Data frames: pandas with its index, polars also lazily, and all others that narwhals knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from asvgp.sources import arrow as arrow_tables
from asvgp.sources.answers import collected
from asvgp.sources.roles import Roles
from asvgp.sources.source import Source
from asvgp.sources.table import TableSource

ROWS = 1 << 18


def library(data) -> str:
    """The package that made an object."""
    return type(data).__module__.partition(".")[0]


def open_source(data, roles: Roles) -> Source | None:
    """A source for frames and tables."""
    if library(data) == "narwhals" and hasattr(data, "to_native"):
        return open_source(data.to_native(), roles)
    if library(data) == "pandas" and hasattr(data, "iloc") and hasattr(data, "columns"):
        return PandasSource(data, roles)
    if library(data) == "polars" and hasattr(data, "get_columns"):
        return PolarsSource(data, roles)
    if library(data) == "polars" and hasattr(data, "collect_schema"):
        return LazySource(data, roles)
    found = arrow_tables.open_source(data, roles)
    if found is None and hasattr(data, "columns"):
        return _by_narwhals(data, roles)
    return found


def _by_narwhals(data, roles: Roles) -> Source | None:
    try:
        import narwhals.stable.v2 as nw
    except ImportError:
        raise ImportError(
            f"Reading a {type(data).__name__} needs narwhals: pip install 'asvgp[data]'."
        ) from None
    frame = nw.from_native(data, pass_through=True, eager_only=True)
    if frame is data:
        return None
    return NarwhalsSource(frame, roles)


def frame_columns(item) -> Mapping[str, Any]:
    """Columns of a frame or a table by name."""
    source = open_source(item, Roles())
    if not isinstance(source, TableSource):
        raise TypeError(f"A chunk must be a frame, a dictionary or (X, y), not {type(item)}.")
    names = source.names()
    parts = list(source.batches(names)) if len({*names}) == len(names) else []
    if len(parts) == 1:
        return parts[0]
    return _whole(source)


def _whole(source: TableSource) -> Mapping[str, Any]:
    """All columns at once."""
    names = list(source.names())
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"There are {names.count(name)} columns {name!r}: rename all but one.")
    if isinstance(source, PandasSource | PolarsSource):
        return {name: source.column(name) for name in names}
    if isinstance(source, arrow_tables.ArrowTable):
        return arrow_tables.by_name(source.table, names)
    import pyarrow as pa

    parts = list(source.batches(names))
    if not parts:
        return {name: np.empty(0) for name in names}
    return {name: pa.chunked_array([part[name] for part in parts]) for name in names}


class PandasSource(TableSource):
    """A pandas frame; levels of its index are columns to those who name them."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame, self.rows = frame, len(frame)

    def names(self) -> Sequence[str]:
        """All columns."""
        return [str(name) for name in self.frame.columns]

    def hidden(self) -> Sequence[str]:
        """Names of levels of the index."""
        own = self.names()
        return [str(n) for n in self.frame.index.names if n is not None and str(n) not in own]

    def column(self, name: str):
        """One column."""
        names = self.names()
        if name in names:
            return self.frame.iloc[:, names.index(name)]
        index = self.frame.index
        level = [str(n) for n in index.names].index(name)
        return index.get_level_values(level).to_series()

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows."""
        columns = {name: self.column(name) for name in names}
        for begin in range(0, len(self.frame), ROWS):
            yield {name: column.iloc[begin : begin + ROWS] for name, column in columns.items()}

    def answer(self, predict):
        """A frame with the same index."""
        import pandas as pd

        found = collected(predict, self.chunks(inputs_only=True))
        return pd.DataFrame(found, index=self.frame.index)


class PolarsSource(TableSource):
    """A polars frame."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame, self.rows = frame, frame.height

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.frame.columns

    def column(self, name: str):
        """One column."""
        return self.frame.get_column(name)

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows."""
        for begin in range(0, self.frame.height, ROWS):
            yield {name: self.frame.get_column(name).slice(begin, ROWS) for name in names}

    def answer(self, predict):
        """A polars frame."""
        import polars as pl

        return pl.DataFrame(collected(predict, self.chunks(inputs_only=True)))


class LazySource(TableSource):
    """A polars query, run batch by batch; twice where the domain must be found first."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame = frame

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.frame.collect_schema().names()

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows in order."""
        chosen = self.frame.select(list(names))
        if hasattr(chosen, "collect_batches"):
            parts = chosen.collect_batches(chunk_size=ROWS, maintain_order=True)
        else:  # older versions have no other way
            parts = [chosen.collect()]
        for part in parts:
            yield {name: part.get_column(name) for name in names}

    def answer(self, predict):
        """A query, which predicts when it is collected."""
        import polars as pl

        inputs = self.inputs

        def answered(part):
            own = PolarsSource(part, Roles(inputs=inputs)).prepared(None)
            return own.answer(predict)

        empty = answered(pl.DataFrame(schema=self.frame.select(list(inputs)).collect_schema()))
        return self.frame.select(list(inputs)).map_batches(
            answered, schema=empty.schema, streamable=True
        )


class NarwhalsSource(TableSource):
    """A frame of another library."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame, self.rows = frame, len(frame)

    def names(self) -> Sequence[str]:
        """All columns."""
        return self.frame.columns

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows."""
        for begin in range(0, len(self.frame), ROWS):
            part = self.frame[begin : begin + ROWS]
            yield {name: part.get_column(name).to_arrow() for name in names}

    def answer(self, predict):
        """A frame of the same library."""
        import narwhals.stable.v2 as nw

        found = collected(predict, self.chunks(inputs_only=True))
        return nw.from_dict(found, backend=self.frame.implementation).to_native()
