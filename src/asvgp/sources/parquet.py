"""Read the ends of columns from the statistics in the footers of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from asvgp.data.columns import Columns
from asvgp.sources.convert import arrow
from asvgp.times import Zoned

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def ranges(dataset, names: Sequence[str]) -> Columns | None:
    """Return smallest and largest of every column in two rows; None where a file lacks them."""
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
