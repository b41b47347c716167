"""Peers beside us, in words and tables: where we lose, then everything as ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log
from statistics import mean, stdev
from typing import Any

from experiments.harness import results
from experiments.harness.results import Results, Row
from experiments.peers.contest import DEFAULT, total

SCORES = "mse", "nlpd", "crps", "coverage", "fit_seconds", "predict_seconds", "memory_mib"
LITTLE = 250.0  # MiB, that alone are a sentence and no row
NEARLY = 0.01  # less by one in a hundred is no loss; of NLPD, less by so much


def memory(row: Row) -> float:
    """MiB beyond the data; one at least, as less cannot be told from nothing."""
    return max(row["memory_mib"], 1.0)


# What is compared: its name, its value in a row, and whether differences count, not ratios.
MEASURES: dict[str, tuple[Callable[[Row], float | None], bool]] = {
    "MSE": (lambda row: row["mse"], False),
    "NLPD": (lambda row: row["nlpd"], True),
    "CRPS": (lambda row: row["crps"], False),
    "time": (total, False),
    "memory": (memory, False),
}


def losses(found: Sequence[Results]) -> str:
    """Where a peer is better than our defaults, in Markdown; this comes first on the page."""
    lost: list[tuple[Row, Row]] = []
    pairs = 0
    for rows in (r for known in found for r in sizes(known)):
        ours = next((r for r in rows if r["method"] == DEFAULT), None)
        for row in rows:
            if ours is None or row["method"].startswith("asvgp"):
                continue
            pairs += 1
            if "reason" in ours or any(_lost(name, row, ours) for name in MEASURES):
                lost.append((row, ours))
    text = "## Where we lose\n\n"
    if not pairs:
        return text + "No peer has been run beside us yet: `make peers`, `make experiments`.\n"
    if not lost:
        return text + f"In none of {pairs} pairs is a peer better than our defaults.\n"
    lost.sort(key=lambda pair: [-loss for loss in _sizes_of_losses(*pair)])
    small = [pair for pair in lost if _little(*pair)]
    lines = [_line(*pair) for pair in lost if pair not in small]
    parts = [
        f"{text}{_worst(*lost[0])}\n\nA pair is a peer and our defaults on the same rows. In "
        f"{len(lost)} of {pairs} pairs the peer is better in at least one respect. The table lists "
        "these pairs, the worst loss first (by NLPD, then MSE, CRPS, time and memory). Each cell "
        "has the peer's value, then ours, as means over the splits that both have; an empty cell "
        "is not a loss. *Better* means better on every one of these splits, and on average by more "
        f"than one per cent (NLPD: by more than {NEARLY}). Times are in seconds, memory in MiB.\n"
    ]
    if lines:
        parts.append(results.table(["data set", "N", "peer", *MEASURES], lines))
    if small:
        parts.append(
            f"In these pairs only memory is worse, and by less than {LITTLE:g} MiB: "
            + "; ".join(
                f"{row['method']} on {row['dataset']}, {row['n']:,} rows "
                f"({_lost('memory', row, ours)} MiB)"
                for row, ours in small
            )
            + ".\n"
        )
    return "\n".join(parts)


def averaged(found: Results) -> list[Row]:
    """One row for each method, data set and number of rows: means over its splits, in order.

    "splits" holds the rows themselves by their seeds. What is no measure is that of the first.
    """
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in found.rows:
        groups.setdefault((row["method"], row["dataset"], row["n"]), []).append(row)
    return [_mean(rows) for rows in groups.values()]


def _mean(rows: list[Row]) -> Row:
    """Means over rows that have a result; a row without one if none has."""
    known = [row for row in rows if "reason" not in row]
    if not known:
        return rows[0]
    out: dict[str, Any] = known[0] | {"splits": {row.get("seed", 0): row for row in known}}
    for key in SCORES:
        values = [row[key] for row in known]
        out[key] = None if None in values else mean(values)
    return out


def on_both(name: str, row: Row, ours: Row) -> list[tuple[float, float]]:
    """A measure of the peer and ours on every split that both have."""
    value, _ = MEASURES[name]
    theirs, own = row.get("splits", {0: row}), ours.get("splits", {0: ours})
    pairs = [(value(theirs[seed]), value(own[seed])) for seed in theirs if seed in own]
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def winner(name: str, row: Row, ours: Row) -> int:
    """Who is better by a measure: 1 ours, -1 the peer, 0 alike or not the same on every split."""
    pairs, difference = on_both(name, row, ours), MEASURES[name][1]
    if not pairs:
        return 0
    a, b = (mean(values) for values in zip(*pairs, strict=True))
    margin = NEARLY if difference else NEARLY * max(a, b)
    if a < b - margin and all(one < other for one, other in pairs):
        return -1
    if b < a - margin and all(other < one for one, other in pairs):
        return 1
    return 0


def sizes(found: Results) -> list[list[Row]]:
    """Means of rows with a result (ours always), by data set and number of rows, in order."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in averaged(found):
        if "reason" not in row or row["method"] == DEFAULT:
            groups.setdefault((row["dataset"], row["n"]), []).append(row)
    return list(groups.values())


def ratios(found: Results) -> str:
    """Everything relative to our defaults on the same rows: a table, in Markdown."""
    lines = []
    for rows in sizes(found):
        ours = next((r for r in rows if r["method"] == DEFAULT and "reason" not in r), None)
        for row in rows:
            if ours is None or row is ours:
                continue
            cells = [_relative(name, row, ours) for name in MEASURES]
            lines.append([*_place(row), row["method"], *cells])
    head = [n if n != "NLPD" else "NLPD, difference" for n in MEASURES]
    return (
        "Relative to our defaults on the same rows, as means over the splits that both have: above "
        "1, or above 0 for the NLPD, we are better.\n\n"
        + results.table(["data set", "N", "method", *head], lines)
    )


def values(found: Results) -> str:
    """All scores, times and memory, with the "/" of methods that have none; in Markdown."""
    lines = []
    for row in averaged(found):
        place = [*_place(row), row["method"]]
        if "reason" in row:
            lines.append([*place, *["/"] * 8])
            continue
        place.append(str(len(row["splits"])))
        scores = [_spread(row, key) for key in ("mse", "nlpd", "crps")]
        coverage = "/" if row["coverage"] is None else f"{row['coverage']:.1%}"
        times = [results.seconds(row[key]) for key in ("fit_seconds", "predict_seconds")]
        lines.append([*place, *scores, coverage, *times, f"{row['memory_mib']:,.0f}"])
    head = "MSE", "NLPD", "CRPS", "inside 95 %", "fit, s", "predict, s", "memory, MiB"
    return (
        "The table has means over the splits, and their standard deviations between splits (±). A "
        "method with one split was run on the first one, which may be easier or harder than the "
        "others. The table of ratios further below compares only splits that both methods have.\n\n"
        + results.table(["data set", "N", "method", "splits", *head], lines)
    )


def page(found: Results) -> str:
    """What both comparisons show: pictures, values, ratios, reasons."""
    name, why = found.name, reasons(found)
    parts = [
        f"![Accuracy against time](images/experiments/{name}.png)\n",
        f"![Time against N](images/experiments/{name}_growth.png)\n",
        values(found),
        ratios(found),
    ]
    if first := found.record.get("first_use_seconds"):
        parts.append(
            "Our compiled code is kept on disk after its first use on a machine; in this run a "
            "first fit, of 450 rows, took "
            + ", ".join(f"{s:.0f} s with {d} input{'s'[: d != '1']}" for d, s in first.items())
            + ". The other rows do not have it.\n"
        )
    if why:
        parts.append('Why "/":\n\n' + "".join(f"- {reason}\n" for reason in why))
    return "\n".join(parts)


def kept(found: Results) -> str:
    """Which rows are of an earlier run, where only some methods have been run again."""
    if not (again := found.record.get("again")):
        return ""
    clock = "CPU seconds of one thread" if found.record.get("clock") == "cpu" else "seconds"
    words = " ".join(f'"{name}"' for name in again)
    rest = found.record.get("kept", [])  # where that run did not come to its end
    more = f", and those of {' and '.join(rest)}," if rest else ""
    return (
        f"The rows of {', '.join(again)} are from the last run (`python -m experiments "
        f"{found.name} --methods {words}`). Their times are {clock}, measured on a machine that "
        f"other programs used as well. The rows of all other methods{more or ','} and rows that "
        "took more than a minute are from earlier runs. Most of those times are seconds on the "
        "clock, on an idle "
        "machine with two cores.\n\n"
    )


def reasons(found: Results) -> list[str]:
    """Why rows have no result, with what the method took on fewer rows where that is known."""
    said = []
    for row in (r for r in found.rows if "reason" in r):
        (text,) = results.reasons([row])
        if "smaller_seconds" in row:
            took, n, power = row["smaller_seconds"], row["smaller_n"], row["power"]
            there = (
                f" of {row['smaller_dataset']}" if row["smaller_dataset"] != row["dataset"] else ""
            )
            growth = "N" if power == 1.0 else f"N to the power {power:g}"
            text += (
                f". It took {results.seconds(took)} s on {n:,} rows{there}; in proportion to "
                f"{growth} that is {results.seconds(took * (row['n'] / n) ** power)} s here"
            )
        said.append(text)
    return list(dict.fromkeys(said))


def _place(row: Row) -> list[str]:
    return [row["dataset"], f"{row['n']:,}"]


def _spread(row: Row, key: str) -> str:
    """The mean of a score, and its standard deviation between splits where there are several."""
    values = [each[key] for each in row["splits"].values()]
    if None in values or len(values) == 1:
        return _three(row[key])
    return f"{_three(row[key])} ± {stdev(values):.1g}"


def _both(name: str, row: Row, ours: Row) -> tuple[float, float] | None:
    """Means of a measure, the peer's and ours, over the splits that both have."""
    pairs = on_both(name, row, ours)
    return (mean(a for a, _ in pairs), mean(b for _, b in pairs)) if pairs else None


def _lost(name: str, row: Row, ours: Row) -> str:
    """The peer's value and ours where the peer's is better, else nothing."""
    if winner(name, row, ours) >= 0 or (both := _both(name, row, ours)) is None:
        return ""
    return f"{_three(both[0])} / {_three(both[1])}"


def _sizes_of_losses(row: Row, ours: Row) -> list[float]:
    """How much is lost, in the order that counts: of NLPD, MSE, CRPS, time, memory.

    Differences of NLPD, logarithms of ratios of the others; zero where nothing is lost.
    """
    if "reason" in ours:
        return [inf]
    sizes = []
    for name in ("NLPD", *(name for name in MEASURES if name != "NLPD")):
        if winner(name, row, ours) >= 0 or (both := _both(name, row, ours)) is None:
            sizes.append(0.0)
        else:
            a, b = both
            sizes.append(b - a if MEASURES[name][1] else log(b / a) if a > 0.0 else inf)
    return sizes


def _little(row: Row, ours: Row) -> bool:
    """Whether all that is lost is a little memory."""
    if "reason" in ours or any(_sizes_of_losses(row, ours)[:-1]):
        return False
    return memory(ours) - memory(row) < LITTLE


def _line(row: Row, ours: Row) -> list[str]:
    place = [*_place(row), row["method"]]
    if "reason" in ours:
        return [*place, "ours has no result", *[""] * (len(MEASURES) - 1)]
    return [*place, *(_lost(name, row, ours) for name in MEASURES)]


def _worst(row: Row, ours: Row) -> str:
    """The first of the losses, in a sentence."""
    where = f"on {row['dataset']}, {row['n']:,} rows"
    if "reason" in ours:
        return f"Our worst loss is {where}: {row['method']} has a result there, ours has none."
    words = []
    for name, (_, difference) in MEASURES.items():
        if not _lost(name, row, ours) or (both := _both(name, row, ours)) is None:
            continue
        a, b = both
        by = f" ({b - a:.2g} more)" if difference else f" ({b / a:.2g} times)" if a > 0.0 else ""
        words.append(f"{name} {_three(a)}, ours {_three(b)}{by}")
    return f"Our worst loss is to {row['method']} {where}: {'; '.join(words)}."


def _relative(name: str, row: Row, ours: Row) -> str:
    if (both := _both(name, row, ours)) is None:
        return "/"
    a, b = both
    return f"{a - b:+.3f}" if MEASURES[name][1] else _three(a / b)


def _three(value: float | None) -> str:
    """Three digits, without powers of ten up to a million."""
    if value is None:
        return "/"
    return f"{value:,.0f}" if 100.0 <= abs(value) < 1e6 else f"{value:.3g}"
