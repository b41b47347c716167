"""Peers beside us, in words and tables: where we lose, then everything as ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log

from experiments.harness import results
from experiments.harness.results import Results, Row
from experiments.peers.contest import DEFAULT

LITTLE = 250.0  # MiB, that alone are a sentence and no row
NEARLY = 0.01  # less by one in a hundred is no loss; of NLPD, less by so much


def total(row: Row) -> float:
    """Seconds to train and to predict."""
    return row["fit_seconds"] + row["predict_seconds"]


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
        f"{text}{_worst(*lost[0])} Peers are better than this library with its defaults, on the "
        f"same rows, in {len(lost)} of {pairs} pairs, in at least one respect: worst first, by "
        "NLPD, then MSE, CRPS, time and memory. A cell has the peer's value, then ours; empty "
        "cells are not lost. Better means by more than one in a hundred (NLPD: by more than "
        f"{NEARLY}). Times in seconds, memory in MiB.\n"
    ]
    if lines:
        parts.append(results.table(["data set", "N", "peer", *MEASURES], lines))
    if small:
        parts.append(
            f"In memory alone, and by less than {LITTLE:g} MiB, we lose to "
            + "; ".join(
                f"{row['method']} on {row['dataset']}, {row['n']:,} rows "
                f"({_lost('memory', row, ours)} MiB)"
                for row, ours in small
            )
            + ".\n"
        )
    return "\n".join(parts)


def sizes(found: Results) -> list[list[Row]]:
    """Rows with a result (ours always), grouped by data set and number of rows, in order."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in found.rows:
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
        "Relative to our defaults on the same rows: above 1, or above 0 for the NLPD, we are "
        "better.\n\n" + results.table(["data set", "N", "method", *head], lines)
    )


def values(found: Results) -> str:
    """All scores, times and memory, with the "/" of methods that have none; in Markdown."""
    lines = []
    for row in found.rows:
        place = [*_place(row), row["method"]]
        if "reason" in row:
            lines.append([*place, *["/"] * 7])
            continue
        scores = [_three(row[key]) for key in ("mse", "nlpd", "crps")]
        coverage = "/" if row["coverage"] is None else f"{row['coverage']:.1%}"
        times = [results.seconds(row[key]) for key in ("fit_seconds", "predict_seconds")]
        lines.append([*place, *scores, coverage, *times, f"{row['memory_mib']:,.0f}"])
    head = "MSE", "NLPD", "CRPS", "inside 95 %", "fit, s", "predict, s", "memory, MiB"
    return results.table(["data set", "N", "method", *head], lines)


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


def _lost(name: str, row: Row, ours: Row) -> str:
    """The peer's value and ours where the peer's is better, else nothing."""
    value, difference = MEASURES[name]
    a, b = value(row), value(ours)
    if a is None or b is None or a >= (b - NEARLY if difference else b * (1.0 - NEARLY)):
        return ""
    return f"{_three(a)} / {_three(b)}"


def _sizes_of_losses(row: Row, ours: Row) -> list[float]:
    """How much is lost, in the order that counts: of NLPD, MSE, CRPS, time, memory.

    Differences of NLPD, logarithms of ratios of the others; zero where nothing is lost.
    """
    if "reason" in ours:
        return [inf]
    sizes = []
    for name in ("NLPD", *(name for name in MEASURES if name != "NLPD")):
        value, difference = MEASURES[name]
        a, b = value(row), value(ours)
        if a is None or b is None or not _lost(name, row, ours):
            sizes.append(0.0)
        else:
            sizes.append(b - a if difference else log(b / a) if a > 0.0 else inf)
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
    for name, (value, difference) in MEASURES.items():
        a, b = value(row), value(ours)
        if a is None or b is None or not _lost(name, row, ours):
            continue
        by = f" ({b - a:.2g} more)" if difference else f" ({b / a:.2g} times)" if a > 0.0 else ""
        words.append(f"{name} {_three(a)}, ours {_three(b)}{by}")
    return f"Our worst loss is to {row['method']} {where}: {'; '.join(words)}."


def _relative(name: str, row: Row, ours: Row) -> str:
    value, difference = MEASURES[name]
    a, b = value(row), value(ours)
    if a is None or b is None:
        return "/"
    return f"{a - b:+.3f}" if difference else _three(a / b)


def _three(value: float | None) -> str:
    """Three digits, without powers of ten up to a million."""
    if value is None:
        return "/"
    return f"{value:,.0f}" if 100.0 <= abs(value) < 1e6 else f"{value:.3g}"
