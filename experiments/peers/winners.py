"""Who wins where: counts over all data sets, and two tasks in seconds, from the results alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from experiments.harness import results
from experiments.harness.results import Results, Row
from experiments.peers.comparison import MEASURES, NEARLY, memory, on_both, sizes, winner
from experiments.peers.contest import DEFAULT, total
from experiments.peers.pictures import STYLES

# Of each task: its data set and number of rows.
TASKS = {"a series, 90,000 rows": ("household", 90_000), "a map, 9,000 rows": ("sea level", 9_000)}
# What the README says of a package, and its name in the results.
PACKAGES = {
    "**asvgp**": DEFAULT,
    "celerite2": "celerite2",
    "GPflow (SVGP)": "GPflow SVGP",
    "GPyTorch (KISS-GP)": "GPyTorch KISS-GP",
    "mgcv (`bam`)": "mgcv bam",
    "R-INLA": "",
    "GPBoost (Vecchia)": "GPBoost Vecchia",
}
# Names on the page of evidence: our defaults and the peers, without our models chosen by hand.
NAMES = {
    DEFAULT: "**asvgp**",
    **{name: name for name in STYLES if not name.startswith("asvgp")},
}
SPACE = "\N{NO-BREAK SPACE}"  # between a number and its unit
BEGIN, END = "<!-- times: begin -->\n", "<!-- times: end -->"


def times(found: Sequence[Results]) -> str:
    """Seconds to fit and predict 2,000 rows, and the NLPD, for the two tasks: a table."""
    rows = {
        (row["method"], row["dataset"], row["n"]): row
        for known in found
        for group in sizes(known)
        for row in group
        if "reason" not in row
    }
    lines = []
    for package, method in PACKAGES.items():
        cells = []
        for place in TASKS.values():
            row, ours = rows.get((method, *place)), rows.get((DEFAULT, *place))
            cells.append("not run" if row is None else _cell(row, ours))
        lines.append([package, *cells])
    head = ["", *(f"{task}: seconds (ratio), NLPD" for task in TASKS)]
    return results.table(head, lines)


def _cell(row: Row, ours: Row | None) -> str:
    ratio = "" if ours is None or row is ours else f" ({total(row) / total(ours):.2g} ×)"
    return f"{results.seconds(total(row))} s{ratio}, {row['nlpd']:.2f}"


def summary(found: Sequence[Results]) -> str:
    """For every peer: in how many data sets our defaults are better, alike or worse; a table."""
    pairs: dict[str, list[tuple[Row, Row]]] = {}
    for group in (rows for known in found for rows in sizes(known)):
        ours = next((r for r in group if r["method"] == DEFAULT and "reason" not in r), None)
        for row in group:
            if ours is not None and not row["method"].startswith("asvgp"):
                pairs.setdefault(row["method"], []).append((row, ours))
    measures = "NLPD", "time", "memory"
    lines = []
    for method, rows in sorted(pairs.items()):
        cells = [_counts(name, rows) for name in measures]
        lines.append([method, str(len(rows)), *cells])
    return results.table(["peer", "data sets", *measures], lines)


def best(found: Sequence[Results]) -> str:
    """For every data set and size: who has the best NLPD, the least time, the least memory."""
    lines = []
    for rows in (rows for known in found for rows in sizes(known)):
        shown = [row for row in rows if "reason" not in row and row["method"] in NAMES]
        if len(shown) < 2:
            continue
        ours = next((row for row in shown if row["method"] == DEFAULT), None)
        behind = {row["method"]: _beyond(row, ours) for row in shown}
        known = sorted((value, name) for name, value in behind.items() if value is not None)
        near = [name for value, name in known if value <= known[0][0] + NEARLY]
        quickest, smallest = min(shown, key=total), min(shown, key=memory)
        lines.append(
            [
                f"{shown[0]['dataset']}, {shown[0]['n']:,}",
                ", ".join(NAMES[name] for name in near),
                f"{NAMES[quickest['method']]}, {results.seconds(total(quickest))}{SPACE}s",
                f"{NAMES[smallest['method']]}, {memory(smallest):,.0f}{SPACE}MiB",
            ]
        )
    head = ["data set, rows", "best NLPD", "least time", "least memory"]
    return results.table(head, lines)


def _beyond(row: Row, ours: Row | None) -> float | None:
    """The NLPD of a method less ours, on the splits that both have: some are easier than others."""
    if ours is None:
        return row["nlpd"]
    pairs = on_both("NLPD", row, ours)
    return mean(a - b for a, b in pairs) if pairs else None


def _counts(name: str, rows: Sequence[tuple[Row, Row]]) -> str:
    """How often we are better, alike and worse, and the median of theirs relative to ours."""
    known = [(row, ours, pairs) for row, ours in rows if (pairs := on_both(name, row, ours))]
    if not known:
        return "–"
    differs = MEASURES[name][1]
    gains = []
    for _, _, pairs in known:
        a, b = (mean(values) for values in zip(*pairs, strict=True))
        gains.append(a - b if differs else a / b)
    who = [winner(name, row, ours) for row, ours, _ in known]
    middle = median(gains)
    size = f"{middle:+.2f}" if differs else f"{middle:.2g} ×"
    return f"{who.count(1)} / {who.count(0)} / {who.count(-1)}, {size}"


def in_readme(readme: str, found: Sequence[Results]) -> str:
    """The README with its table of times anew."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{times(found).strip()}\n\n{END}{after}"


def page(found: Sequence[Results]) -> str:
    """The page of evidence: who wins where, and where to read on."""
    tables = {"best": best(found), "summary": summary(found), "times": times(found)}
    return _PAGE.format(**{name: text.strip() for name, text in tables.items()})


_PAGE = """# Who wins where

This page sums up what this library is good at, and what others do better.

## In short

- **One input.** On most data sets, this library is as accurate as the exact Gaussian process
  (celerite2, tinygp); the exceptions are below. With many rows, celerite2 and tinygp are slower.
  mgcv takes about as long and needs less memory, but with its few hundred basis functions it is
  less accurate where the data have more detail.
- **Maps, values with close neighbours.** GPBoost's Vecchia approximation is more accurate in most
  cases, and needs less memory. The other peers are less accurate.
- **Maps, large gaps.** This library is more accurate than GPBoost on average
  ([table](fields.md#filling-large-gaps)).
- **Memory.** This is where the library loses most often, because it uses many basis functions.

## Who is best on which data

The table lists, for every data set of [the comparison](benchmarks.md), who predicts best (lowest
negative log predictive density, NLPD), who is fastest, and who needs the least memory. All methods
within 0.01 nats per row of the best are listed. Methods are compared on the same random splits.
`asvgp` stands for its defaults.

{best}

## Against each peer

Each row of the next table is about the data sets on which both the peer and our defaults have a
result. The three counts are the numbers of data sets on which ours is *better / alike / worse*. The
number after them is the median over the data sets of the peer's value relative to ours: the
difference of the NLPD (positive means that ours is better), or the ratio of times or of memory
(above 1 means that ours is better). *Better* and *worse* mean by more than one per cent (NLPD: by
more than 0.01) on average over random splits, and on each of these splits.

{summary}

## Two tasks in seconds

The tasks are a series (electric power of one household, every minute) and a map (sea-surface
height). A tenth of the rows was held out at random. The table shows the seconds to fit and to
predict 2,000 rows, the same as a multiple of our time, and the NLPD (lower is better).

{times}

R-INLA was not run, and neither were methods that would have taken longer than their time limit.
Times of asvgp, celerite2, gamfit, GPBoost, mgcv and pyGAM are CPU seconds of one thread. Times of
the others are from an earlier run and are seconds on the clock of an idle machine with two cores.
The tables are generated from `experiments/results`. `make experiment-one_input` and
`make experiment-several_inputs` measure them again.

## Read more

- [Comparison with other packages](benchmarks.md): every score, time and memory, the losses first.
- [Forecasts of real series](forecasting.md), compared with Prophet, statsforecast and others.
- [Gaps in maps](fields.md#filling-large-gaps), compared with GPBoost.
- [Counts, classes and outliers](likelihoods.md) on real data.
- [The paper's experiments](paper.md), one command each, and [an erratum](erratum.md).

The folder `benchmarks/` measures the speed and memory of this library by itself. Each script there
prints what it measured, the ratio to a reference, and the limit that it must keep.
"""
