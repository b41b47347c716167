"""Who wins where: counts over all data sets, and two tasks in seconds, from the results alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from experiments.harness import results
from experiments.harness.results import Results, Row
from experiments.peers.comparison import MEASURES, on_both, sizes, winner
from experiments.peers.contest import DEFAULT, total

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
    return _PAGE.format(summary=summary(found).strip(), times=times(found).strip())


_PAGE = """# Who wins where

What this library is good at, what others are better at, and where the numbers are.

## In one paragraph

On **one input**, accuracy is that of the exact Gaussian process (celerite2, tinygp), because the
basis is fine enough to be exact for practical purposes. With ten thousand rows celerite2 is faster;
with a hundred thousand it fits faster, and this library predicts faster and is ahead in all.
**mgcv** is faster and smaller almost everywhere, with a basis of some hundred functions,
and less accurate where the data have more detail than that. On **maps**, GPBoost's Vecchia
approximation predicts single cells with close neighbours better, in less memory; large gaps are
filled better by this library's own choice of a model (see
[gaps](fields.md#speed-and-memory)). **Memory** is where this library loses most often: it spends it
on basis functions.

## Against each peer

All data sets of [the comparison](benchmarks.md) on which both have a result. Each cell has three
counts, of data sets on which our defaults are *better / alike / worse*, and the median over the
data sets of the peer's value relative to ours: a difference of the NLPD (in nats per row; positive
means that ours is better), a ratio of time and of memory (above 1 means that ours is better).
Alike means within one in a hundred, for the NLPD within 0.01.

{summary}

## Two tasks

A series (electric power of one household, every minute) and a map (sea-surface height), a tenth of
the rows held out at random; seconds to fit and to predict 2,000 rows on two cores, times relative
to ours, and the negative log predictive density (lower is better).

{times}

Both tables are generated from `experiments/results`; `make experiment-one_input` and
`make experiment-several_inputs` measure them again. R-INLA, and methods beyond their time limit,
were not run.

## Where to read on

- [Comparison with other packages](benchmarks.md): every score, time and memory, the losses first.
- [Forecasts of real series](forecasting.md): rolling origins, beside Prophet, statsforecast and
  others.
- [Gaps in maps](fields.md#speed-and-memory), beside GPBoost.
- [Counts, classes and outliers](likelihoods.md) on real data.
- [The paper's experiments](paper.md), one command each, and [an erratum](erratum.md).

Speed and memory of this library by itself are in `benchmarks/`, one script per question; each
prints what it measured, the ratio to a yardstick, and the limit it has to keep.
"""
