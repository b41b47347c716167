"""Results files: rows, and the record of what made them.

An experiment that runs keeps its rows in ``NAME.part.json``, written anew after every row; at
its end that becomes ``NAME.json``. So a run that is stopped or fails loses no row, and leaves the
results of the one before as they were.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.environments import ROOT

FOLDER = ROOT / "experiments" / "results"
FIGURES = ROOT / "docs" / "images" / "experiments"
AUTHORS_CODE = "https://github.com/HJakeCunningham/ASVGP"  # of the paper
Row = dict[str, Any]
LONG = 80  # characters of a reason, beyond which it is shown whole once only
_shown: set[str] = set()  # reasons, on the terminal


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
        Versions, hardware, load of the machine and seconds in all; whether it is "finished".
    """

    name: str
    title: str
    full: bool = False
    rows: list[Row] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    _begun: float | None = field(default=None, init=False, repr=False, compare=False)

    def begin(self) -> None:
        """Note the machine and the time; from now on every row is kept on disk."""
        self.part.unlink(missing_ok=True)  # of a run before
        self.record |= record() | {"load_average": {"start": load()}, "finished": False}
        self._begun = time.perf_counter()

    def add(self, row: Row) -> Row:
        """Keep a row, and show it."""
        self.rows.append({k: v for k, v in row.items() if not isinstance(v, np.ndarray)})
        print("  " + describe(_once(row)), flush=True)
        if self._begun is not None:
            self._note_end(self._begun)
            self._write(self.part)
        return row

    def where(self, **wanted: Any) -> list[Row]:
        """Rows with these values (looked up in "settings" too)."""
        return [r for r in self.rows if all(_value(r, k) == v for k, v in wanted.items())]

    def save(self) -> Path:
        """Write the file, whole or not at all; the experiment is finished."""
        if self._begun is not None:
            self._note_end(self._begun)
            self._begun = None
        self.record = record() | self.record | {"finished": True}
        self._write(self.path)
        self.part.unlink(missing_ok=True)
        return self.path

    @property
    def path(self) -> Path:
        """Where the results of a finished run are."""
        return FOLDER / ("full" if self.full else "") / f"{self.name}.json"

    @property
    def part(self) -> Path:
        """Where the rows are before the end, and where they stay if it does not come."""
        return self.path.with_suffix(".part.json")

    @property
    def finished(self) -> bool:
        """Whether these are all the rows there should be."""
        return self.record.get("finished", True)

    def _note_end(self, begun: float) -> None:
        self.record["load_average"]["end"] = load()
        self.record["total_seconds"] = round(time.perf_counter() - begun, 1)

    def _write(self, path: Path) -> None:
        known = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        text = json.dumps(known, indent=1, default=_plain) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)


def read(name: str, full: bool = False) -> Results | None:
    """Results of an earlier run that was finished, if there are any."""
    path = Results(name, "", full).path
    return Results(**json.loads(path.read_text())) if path.exists() else None


def unfinished(name: str, full: bool = False) -> Results | None:
    """Rows of a run that was stopped, or is under way, if there are any."""
    path = Results(name, "", full).part
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
        "clock": os.environ.get("ASVGP_CLOCK"),  # "cpu": seconds of all cores; else on the clock
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),  # None: as many as cores
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
    }


def load() -> list[float] | None:
    """Processes that want to run, over the last 1, 5 and 15 minutes; None where not known."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def describe(row: Row) -> str:
    """One line about a row, for the terminal."""
    head = f"{row.get('method', ''):<26} {row.get('dataset', '')}"
    if "reason" in row:
        return f"{head}: / {row['reason']}"
    shown = [f"{k} {_number(v)}" for k, v in row.items() if isinstance(v, float | int)]
    return f"{head}: " + ", ".join(shown)


def _once(row: Row) -> Row:
    """The row, its reason in short where it is long and was shown before."""
    reason = row.get("reason", "")
    if len(reason) <= LONG:
        return row
    if reason not in _shown:
        _shown.add(reason)
        return row
    return row | {"reason": f"{reason[:LONG].rsplit(' ', 1)[0]} … (as above)"}


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
