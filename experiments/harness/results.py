"""Results files: rows, and the record of what made them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.process import ROOT

FOLDER = ROOT / "experiments" / "results"
FIGURES = ROOT / "docs" / "images" / "experiments"
# Keys of a row that differ from run to run; everything else must not.
TIMES = "seconds", "memory", "rate"
Row = dict[str, Any]


@dataclass
class Results:
    """What an experiment found.

    Attributes
    ----------
    name : str
        Of the experiment; the file is ``experiments/results/NAME.json``.
    title : str
    rows : list of dict
    full : bool
        Whether the sizes are the full ones.
    record : dict
        Versions, hardware, seeds.
    """

    name: str
    title: str
    full: bool = False
    rows: list[Row] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)

    def add(self, row: Row) -> Row:
        """Keep a row, and show it."""
        self.rows.append({k: v for k, v in row.items() if not isinstance(v, np.ndarray)})
        print("  " + describe(row), flush=True)
        return row

    def where(self, **wanted: Any) -> list[Row]:
        """Rows with these values (looked up in "settings" too)."""
        return [r for r in self.rows if all(_value(r, k) == v for k, v in wanted.items())]

    def save(self) -> Path:
        """Write the file, whole or not at all."""
        self.record = self.record | record()
        path = FOLDER / ("full" if self.full else "") / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(vars(self), indent=1, default=_plain) + "\n")
        part.replace(path)
        return path


def read(name: str, full: bool = False) -> Results | None:
    """Results of an earlier run, if there are any."""
    path = FOLDER / ("full" if full else "") / f"{name}.json"
    return Results(**json.loads(path.read_text())) if path.exists() else None


def record() -> dict[str, Any]:
    """Versions and hardware."""
    names = "asvgp", "numpy", "scipy", "numba", "scikit-learn", "torch"
    return {
        "python": platform.python_version(),
        "versions": {name: _installed(name) for name in names},
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
    }


def describe(row: Row) -> str:
    """One line about a row, for the terminal."""
    head = f"{row.get('method', ''):<26} {row.get('dataset', '')}"
    if "reason" in row:
        return f"{head}: / {row['reason']}"
    shown = [f"{k} {_number(v)}" for k, v in row.items() if isinstance(v, float | int)]
    return f"{head}: " + ", ".join(shown)


def compare(old: Results, new: Results, tolerance: float = 1e-6) -> list[str]:
    """What differs between two runs, times and memory aside; empty if nothing does."""
    if len(old.rows) != len(new.rows):
        return [f"{len(old.rows)} rows before, {len(new.rows)} now"]
    out = []
    for number, (a, b) in enumerate(zip(old.rows, new.rows, strict=True)):
        for key in sorted(set(a) | set(b)):
            if any(word in key for word in TIMES) or key in ("info", "versions", "warnings"):
                continue
            if not _same(a.get(key), b.get(key), tolerance):
                out.append(f"row {number} ({describe(b)}): {key} {a.get(key)} -> {b.get(key)}")
    return out


def summarise(rows: Iterable[Row], key: str, digits: int = 3) -> str:
    """Mean and standard deviation over splits, or "/" where no row has a result."""
    values = [r[key] for r in rows if r.get(key) is not None]
    if not values:
        return "/"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def reasons(rows: Iterable[Row]) -> list[str]:
    """Why rows have no result: "METHOD, DATA SET: reason", each once."""
    found = [
        f"{r.get('method')}, {r.get('dataset')} (N = {r.get('n'):,}): {r['reason']}"
        for r in rows
        if "reason" in r
    ]
    return list(dict.fromkeys(found))


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; the first column is of words, the others of numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    body = [[str(cell) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(head), rule, *body]) + "\n"


def seconds(value: float | None) -> str:
    """A time to two digits."""
    if value is None:
        return "/"
    return f"{value:.0f}" if value >= 10.0 else f"{value:.2g}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _value(row: Row, key: str) -> Any:
    return row[key] if key in row else row.get("settings", {}).get(key)


def _same(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= tolerance * max(abs(a), abs(b), 1.0)
    return a == b


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a results file")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
