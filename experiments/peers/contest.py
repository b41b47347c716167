"""Every method on every data set and size: the rows that the comparisons are made of."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from experiments.harness import datasets, process, results
from experiments.harness.process import Method
from experiments.harness.results import Results, Row
from experiments.harness.splits import Split, split

DEFAULT, TUNED = "asvgp, defaults", "asvgp, tuned"
TESTS = 2000  # held-out rows that are predicted: some peers' variances cost N for each
LIMIT, FULL_LIMIT = 60.0, 3600.0  # seconds a row
BUSY = 10.0  # times as many on a machine that others use, where seconds of CPU are counted
SHORT = "to keep the run short; FULL=1 runs it"
SEEDS = 1, 2, 3  # of the splits; methods were tried out on that of seed 0
QUICK = 20.0  # seconds on the first split, beyond which a method is not run on the others


@dataclass(frozen=True)
class Entry:
    """A method, and how far it goes.

    Attributes
    ----------
    method : Method
    most : int or None
        Rows above which it is left out; None: no such number.
    why : str
        For what reason.
    always : bool
        Whether it is left out of a full run too, because of memory and not of time.
    power : float
        Of N, that its time grows in proportion to; for the page, where it is left out.
    limit : float
        Seconds that it may take for a row where this is more than what all may take.
    """

    method: Method
    most: int | None = None
    why: str = SHORT
    always: bool = False
    power: float = 1.0
    limit: float = 0.0

    def beyond(self, size: int, full: bool) -> str | None:
        """Why it is not run on so many rows, or None."""
        if self.most is None or size <= self.most or (full and not self.always):
            return None
        return f"left out above N = {self.most:,}: {self.why}"


@dataclass(frozen=True)
class Case:
    """A data set and the numbers of its rows to draw; None is all."""

    dataset: str
    sizes: Sequence[int | None]


def contest(
    found: Results, cases: Sequence[Case], entries: Callable[[str, int], Sequence[Entry]]
) -> None:
    """Add a row for each method, data set and size, on several splits where a method is quick.

    Parameters
    ----------
    found : Results
    cases : sequence of Case
    entries : callable
        From the data set's name and the number of training rows to the methods.
    """
    limit = FULL_LIMIT if found.full else LIMIT
    if found.record.get("clock") == "cpu":
        limit *= BUSY
    before = earlier(found)
    for case in cases:
        try:
            data = datasets.load(case.dataset)
        except datasets.Missing as error:
            for entry in entries(case.dataset, 0):
                row = {"method": entry.method.label, "dataset": case.dataset, "n": 0}
                found.add(row | {"reason": str(error)})
            continue
        first_use(found, data)
        for size in case.sizes:
            parts = [thinned(split(data, seed, rows=size)) for seed in SEEDS]
            for entry in entries(case.dataset, parts[0].size):
                for part in parts:
                    key = entry.method.label, case.dataset, part.size, part.seed
                    row = before.get(key)
                    if row is None and part is not parts[0] and kept(entry, found):
                        continue
                    if row is None:
                        row = one(entry, part, max(limit, entry.limit), found)
                    found.add(row)
                    if "reason" in row or total(row) > QUICK:
                        break


def kept(entry: Entry, found: Results) -> bool:
    """Whether a method is not among those that are to run again, where only some are."""
    again = found.record.get("again")
    return bool(again) and not any(name.lower() in entry.method.label.lower() for name in again)


def earlier(found: Results) -> dict[tuple[str, str, int, int | None], dict]:
    """Rows of the run before that are kept.

    All but those of methods that are to run again, and of these what took more than a minute.
    """
    again, old = found.record.get("again"), results.read(found.name, found.full)
    if not again or old is None:
        return {}
    found.record["first_use_seconds"] = old.record.get("first_use_seconds", {})
    return {
        (row["method"], row["dataset"], row["n"], row.get("seed")): row
        for row in old.rows
        if not any(name.lower() in row["method"].lower() for name in again)
        or ("reason" not in row and total(row) > LIMIT)
    }


def first_use(found: Results, data: datasets.Dataset) -> None:
    """Have our code for so many inputs compiled, which happens once a machine; note the time.

    It is kept on disk, so what the first row would pay says nothing about the others.
    """
    inputs, seconds = str(data.x.shape[1]), found.record.setdefault("first_use_seconds", {})
    part = split(data, 0, rows=500)
    if inputs not in seconds:
        with tempfile.TemporaryDirectory() as empty:
            cache = {"NUMBA_CACHE_DIR": empty}
            row = process.run(Method(DEFAULT, "asvgp_models.py"), part, 600.0, variables=cache)
        if "reason" not in row:
            seconds[inputs] = total(row)
    process.run(Method(DEFAULT, "asvgp_models.py"), part, 600.0)


def one(entry: Entry, part: Split, limit: float, found: Results) -> dict:
    """A method's row on a split, run or left out: then with what it took on fewer rows."""
    reason = entry.beyond(part.size, found.full)
    if reason is None:
        return process.run(entry.method, part, limit)
    row = {
        "method": entry.method.label,
        "dataset": part.dataset,
        "n": part.size,
        "seed": part.seed,
        "settings": entry.method.settings,
        "reason": reason,
    }
    return row | smaller(entry, part, found)


def smaller(entry: Entry, part: Split, found: Results) -> dict:
    """What the method took on the most rows in this run: of this data set, else of another.

    The time is apart from the reason, as it differs between runs.
    """
    rows = [
        row
        for row in found.rows
        if row["method"] == entry.method.label and row["n"] < part.size and "reason" not in row
    ]
    if not rows:
        return {}
    row = max(rows, key=lambda row: (row["dataset"] == part.dataset, row["n"]))
    return {
        "smaller_dataset": row["dataset"],
        "smaller_n": row["n"],
        "smaller_seconds": total(row),
        "power": entry.power,
    }


def total(row: Row) -> float:
    """Seconds to train and to predict."""
    return row["fit_seconds"] + row["predict_seconds"]


def thinned(part: Split) -> Split:
    """The same with at most `TESTS` rows held out, evenly taken."""
    step = -(-len(part.y_test) // TESTS)
    return replace(part, x_test=part.x_test[::step], y_test=part.y_test[::step])
