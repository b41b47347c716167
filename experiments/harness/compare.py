"""Two runs of an experiment side by side: whether they have the same numbers, times aside."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from experiments.harness.results import Results, Row

# Words in a key whose value differs from run to run; everything else must not.
TIMES = {"seconds", "memory"}
# Which software ran and what it said is not a number of the experiment.
WORDS = {"versions", "warnings"}
TOLERANCE = 1e-6  # relative: sums in another order stay far below it, other results do not
NOTHING = 1e-12  # below this, a number is the rounding of numbers near one


@dataclass(frozen=True)
class Difference:
    """A value that is not what it was.

    Attributes
    ----------
    row : str
        Which row: its place in the file (from 0), and what it is.
    key : str
        Which value of it, "mse"; inside other values, "info.noise" or "lengths[2]"; or "the row".
    old, new : object
    size : float
        Relative to the larger; infinite where they are not both numbers.
    """

    row: str
    key: str
    old: Any
    new: Any
    size: float

    def __str__(self) -> str:
        size = f", relative {self.size:.1e}" if math.isfinite(self.size) else ""
        return f"{self.row}: {self.key} {self.old} -> {self.new}{size}"


def compare(old: Results, new: Results) -> list[Difference]:
    """Every value that differs at all, the largest difference first; times and memory aside.

    Rows are matched by method, data set, N, seed and settings, and by their order among those
    that share them.
    """
    before, now = _named(old.rows), _named(new.rows)
    out: list[Difference] = []
    for name in before | now:
        place = f"row {now.get(name, before.get(name, (0,)))[0]}, {name[0]}"
        if name not in now:
            out.append(Difference(place, "the row", "there", "absent", math.inf))
        elif name not in before:
            out.append(Difference(place, "the row", "absent", "there", math.inf))
        else:
            found = _differences("", before[name][1], now[name][1])
            out += [Difference(place, key, a, b, size) for key, a, b, size in found]
    return sorted(out, key=lambda each: -each.size)


def _named(rows: list[Row]) -> dict[tuple[str, int], tuple[int, Row]]:
    """Rows and their places, by what they are and which of those they are."""
    out: dict[tuple[str, int], tuple[int, Row]] = {}
    for place, row in enumerate(rows):
        parts = [str(row[key]) for key in ("method", "dataset") if key in row]
        parts += [f"{key} = {row[key]}" for key in ("n", "seed") if key in row]
        if row.get("settings"):
            parts.append(json.dumps(row["settings"], sort_keys=True))
        name, number = ", ".join(parts), 0
        while (name, number) in out:
            number += 1
        out[name, number] = place, row
    return out


def _differences(key: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any, float]]:
    """What differs inside two values, and by how much."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in a | b:
            if TIMES.isdisjoint(name.split("_")) and name not in WORDS:
                inner = f"{key}.{name}" if key else name
                yield from _differences(inner, a.get(name), b.get(name))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _differences(f"{key}[{i}]", one, other)
    elif _number(a) and _number(b):
        if (size := _size(a, b)) > 0.0:
            yield key, a, b, size
    elif a != b:
        yield key, a, b, math.inf


def _size(a: float, b: float) -> float:
    """How far apart two numbers are, relative to the larger."""
    if a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= NOTHING:
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool)
