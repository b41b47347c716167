"""The comparison of forecasts in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from experiments.harness import results
from experiments.harness.results import Results, Row

DEFAULT, WRITTEN = "asvgp, defaults", "asvgp, written kernel"
NAIVE = "seasonal naive"
NEARLY = 0.01  # better by less than one in a hundred is as good
SCORES = {"mase": "MASE", "crps": "CRPS"}


def page(found: Results, designs: Sequence[str]) -> str:
    """Everything: where we lose first, then all in one table, then series by series."""
    names = list(dict.fromkeys(row["dataset"] for row in found.rows))
    parts = [losses(found), summary(found, designs)]
    parts += [section(found, name, designs) for name in names]
    return "\n".join(parts)


def losses(found: Results) -> str:
    """Where another package forecasts better than our defaults, in Markdown."""
    lines, pairs = [], 0
    for ours, peers in _pairs(found):
        for row in peers:
            pairs += 1
            cells = [_lost(ours, row, key) for key in SCORES]
            if any(cells):
                lines.append([row["dataset"], row["design"], row["method"], *cells])
    text = "### Where we lose\n\n"
    if not pairs:
        return text + "Nothing has been run beside us yet: `make peers`.\n"
    if not lines:
        return text + f"In none of {pairs} pairs is another forecast better than our defaults.\n"
    return (
        f"{text}In {len(lines)} of {pairs} pairs another forecast is better than our defaults by "
        "more than one in a hundred. A cell has its value, then ours; empty cells are not lost.\n\n"
        + results.table(["series", "held out", "method", *SCORES.values()], lines)
    )


def summary(found: Results, designs: Sequence[str]) -> str:
    """Geometric means over the series, and mean coverage: one line for each method."""
    answered = [row for row in found.rows if "reason" not in row]
    lines = []
    for method in dict.fromkeys(row["method"] for row in answered):
        cells: list[str] = []
        for design in designs:
            rows = [r for r in answered if (r["method"], r["design"]) == (method, design)]
            if not rows:
                cells += ["/"] * 5
                continue
            cells += [_geometric([row[key] for row in rows]) for key in SCORES]
            inside = [sum(row[f"inside_{p}"] for row in rows) / len(rows) for p in (80, 95)]
            cells += [" / ".join(f"{100 * share:.0f}" for share in inside)]
            cells += [results.seconds(sum(map(_seconds, rows)) / len(rows)), str(len(rows))]
        lines.append([method, *cells])
    head = ["method"]
    for design in designs:
        head += [f"{design}: MASE", "CRPS", "inside 80 / 95 %", "s", "series"]
    return (
        "### All series\n\nGeometric means of MASE and CRPS over the series, means of the rest; "
        f"seconds of a fit and its forecast.{_again(found)}\n\n" + results.table(head, lines)
    )


def _again(found: Results) -> str:
    """Say which rows are of the last run, where only some methods have been run again."""
    if not (again := found.record.get("again")):
        return ""
    return (
        f" The rows of {', '.join(again)} are from a later run (`python -m experiments "
        f"{found.name} --methods {' '.join(again)}`) than all others, on the same kind of machine, "
        "which other programs used as well in both runs."
    )


def section(found: Results, name: str, designs: Sequence[str]) -> str:
    """A series: what it is, its picture, and its table."""
    known = found.record.get("series", {}).get(name)
    rows = [row for row in found.rows if row["dataset"] == name]
    if known is None:
        return f"### {name.capitalize()}\n\n" + "".join(f"{row['reason']}\n" for row in rows)
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        cells: list[str] = []
        for design in designs:
            (row,) = (r for r in rows if (r["method"], r["design"]) == (method, design))
            cells += _cells(row)
        lines.append([method, *cells])
    head = ["method"]
    for design in designs:
        n = next(row["n"] for row in rows if row["design"] == design)
        head += [f"{design} (N = {n:,}): MASE", "CRPS", "inside 80 / 95 %", "s"]
    title = name if name[:2].isupper() else name.capitalize()
    note = known["note"][0].upper() + known["note"][1:]
    text = (
        f"### {title}\n\n{note}: {known['values']:,} values, "
        f"{known['missing']:,} steps without one. The written kernel is `{known['kernel']}`.\n\n"
        f"![Forecasts of {name} from the last origin](images/experiments/{picture(name)})\n\n"
        + results.table(head, lines)
    )
    said = [f"{r['method']}, {r['design']}: {r['reason']}" for r in rows if "reason" in r]
    return text + ("\n" + "".join(f"- {line}\n" for line in said) if said else "")


def picture(name: str) -> str:
    """The file of a series' picture."""
    return f"forecast_{name.lower().replace(' ', '_').replace('.', '')}.png"


def _pairs(found: Results) -> list[tuple[Row, list[Row]]]:
    """Our default's rows, each with those of the others on the same series and origins."""
    rows = [row for row in found.rows if "reason" not in row]
    return [
        (
            ours,
            [
                row
                for row in rows
                if not row["method"].startswith("asvgp")
                and (row["dataset"], row["design"]) == (ours["dataset"], ours["design"])
            ],
        )
        for ours in rows
        if ours["method"] == DEFAULT
    ]


def _lost(ours: Row, row: Row, key: str) -> str:
    """The other's value and ours, where the other's is better."""
    if row[key] >= (1.0 - NEARLY) * ours[key]:
        return ""
    return f"{row[key]:.2f} / {ours[key]:.2f}"


def _cells(row: Row) -> list[str]:
    if "reason" in row:
        return ["/"] * 4
    inside = " / ".join(f"{100 * row[f'inside_{p}']:.0f}" for p in (80, 95))
    return [f"{row['mase']:.2f}", f"{row['crps']:.2f}", inside, results.seconds(_seconds(row))]


def _seconds(row: Row) -> float:
    return row["fit_seconds"] + row["predict_seconds"]


def _geometric(values: Sequence[float]) -> str:
    return f"{exp(sum(map(log, values)) / len(values)):.2f}"
