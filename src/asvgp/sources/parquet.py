"""Where the columns of Parquet files begin and end, by the statistics in their footers."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from asvgp.data.columns import Columns
from asvgp.sources.convert import arrow
from asvgp.times import Zoned

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def ranges(dataset, names: Sequence[str]) -> Columns | None:
    """Smallest and largest of every column in two rows; None where a file does not say."""
    schema = dataset.schema
    found: dict[str, list] = {name: [] for name in names}
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
                found[name] += pair
    if not all(found.values()):
        return None
    arrays = []
    for name, values in found.items():
        array = np.array(values)
        array = np.array([array.min(), array.max()])
        zone = getattr(schema.field(name).type, "tz", None)
        arrays.append(array if zone is None else Zoned(array, zone))
    return Columns(names, arrays)


def _pair(column, kind) -> list | None:
    """Smallest and largest of a column in a row group, exactly; None where they are not told."""
    told = column.statistics
    if told is None or not told.has_min_max:
        return None
    types = arrow().types
    if types.is_timestamp(kind):
        logical = json.loads(told.logical_type.to_json())
        unit = _UNITS.get(logical.get("timeUnit", ""))
        if unit is None or told.physical_type != "INT64":
            return None
        return list(np.array([told.min_raw, told.max_raw], dtype=np.int64).view(f"M8[{unit}]"))
    if types.is_date32(kind):
        return [np.datetime64(value, "s") for value in (told.min, told.max)]
    if types.is_floating(kind) or types.is_integer(kind):
        pair = [told.min, told.max]  # as bytes where they are of half precision
        numbers = all(isinstance(end, int | float) for end in pair)
        return pair if numbers and all(np.isfinite(pair)) else None
    return None
