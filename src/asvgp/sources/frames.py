"""Data frames: pandas and those built like it, and polars, whose queries are run lazily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from asvgp.sources import arrow as arrow_tables
from asvgp.sources.answers import collected
from asvgp.sources.convert import library
from asvgp.sources.roles import Roles, check_distinct_names
from asvgp.sources.source import Source
from asvgp.sources.table import TableSource

ROWS = 1 << 18


def open_source(data, roles: Roles) -> Source | None:
    """Return a source for frames and tables, None for other data."""
    if library(data) == "narwhals" and hasattr(data, "to_native"):
        data = data.to_native()
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return PandasSource(data, roles)
    if library(data) == "polars" and hasattr(data, "collect_schema"):
        return PolarsSource(data, roles)
    return arrow_tables.open_source(data, roles)


def columns_of(item) -> Mapping[str, Any]:
    """Return the columns of a frame, a dictionary, a structured array or a table by name."""
    if isinstance(item, Mapping):
        return item
    if isinstance(item, np.ndarray) and item.dtype.names:
        return {name: item[name] for name in item.dtype.names}
    source = open_source(item, Roles())
    if not isinstance(source, TableSource):
        raise TypeError(f"A chunk must be a frame, a dictionary or (X, y), not {type(item)}.")
    names = source.names()
    check_distinct_names(names)
    if isinstance(source, PandasSource):
        return source.columns(names)
    parts = list(source.batches(names))
    if not parts:
        return {name: np.empty(0) for name in names}
    if len(parts) == 1:
        return parts[0]
    import pyarrow as pa

    return {name: pa.chunked_array([part[name] for part in parts]) for name in names}


class PandasSource(TableSource):
    """A pandas frame; levels of its index are columns where they are named."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame, self.rows = frame, len(frame)

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        return [str(name) for name in self.frame.columns]

    def hidden(self) -> Sequence[str]:
        """Return the names of the levels of the index."""
        columns = {*self.names()}
        levels = [str(name) for name in self.frame.index.names if name is not None]
        return [name for name in levels if name not in columns]

    def columns(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Return columns, or levels of the index, by name."""
        frame = self.frame
        places = {name: place for place, name in enumerate(self.names())}
        levels = [str(name) for name in frame.index.names]

        def column(name: str):
            if name in places:
                return frame.iloc[:, places[name]]
            return frame.index.get_level_values(levels.index(name)).to_series()

        return {name: column(name) for name in names}

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows."""
        columns = self.columns(names)
        for begin in range(0, len(self.frame), ROWS):
            yield {name: column.iloc[begin : begin + ROWS] for name, column in columns.items()}

    def answer(self, predict):
        """Return a frame of the same library with the same index."""
        import pandas as pd

        kind = type(self.frame) if library(self.frame) in ("modin", "cudf") else pd.DataFrame
        return kind(collected(predict, self.chunks(inputs_only=True)), index=self.frame.index)


class PolarsSource(TableSource):
    """A polars frame, or a query: run in batches, twice where the domain is not known."""

    def __init__(self, frame, roles: Roles):
        super().__init__(roles)
        self.frame, self.lazy = frame, not hasattr(frame, "get_columns")
        self.rows = None if self.lazy else frame.height

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        return self.frame.collect_schema().names()

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows in order."""
        chosen = self.frame.select(list(names))
        if hasattr(chosen, "collect_batches"):
            parts = chosen.collect_batches(chunk_size=ROWS, maintain_order=True)
        else:  # queries of older versions run at once
            parts = (chosen.collect() if self.lazy else chosen).iter_slices(ROWS)
        for part in parts:
            yield {name: part.get_column(name).to_arrow() for name in names}

    def answer(self, predict):
        """Return a frame, or a query that predicts when it is collected."""
        import polars as pl

        if not self.lazy:
            return pl.DataFrame(collected(predict, self.chunks(inputs_only=True)))
        roles = Roles(inputs=self.roles.inputs)
        inputs = self.frame.select(list(roles.inputs))

        def answered(part):
            return PolarsSource(part, roles).prepared(None).answer(predict)

        schema = answered(pl.DataFrame(schema=inputs.collect_schema())).schema
        return inputs.map_batches(answered, schema=schema, streamable=True)
