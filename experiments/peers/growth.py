"""Growth with M: accuracy and time of ours and of SVGP, from the rows of Table 2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness import results
from experiments.harness.results import Results, Row
from experiments.peers.contest import DEFAULT
from experiments.peers.pictures import logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "growth_with_m.png"
# The method in Table 2, its colour and its mark.
STYLES = {
    "AS-VGP": ("#e98a15", "o"),
    DEFAULT: ("#c1121f", "*"),
    "SVGP": ("#8fc93a", "v"),
}
Point = tuple[int, float, float]  # M, NLPD, seconds to train


def points(found: Results, dataset: str, method: str) -> list[Point]:
    """A method's M in order, with the medians over its splits."""
    groups: dict[int, list[Row]] = {}
    for row in found.where(dataset=dataset, method=method):
        if "reason" not in row:
            groups.setdefault(size(row), []).append(row)
    return [
        (m, _median(rows, "nlpd"), _median(rows, "fit_seconds"))
        for m, rows in sorted(groups.items())
    ]


def size(row: Row) -> int:
    """M: as asked for, else as the method chose it."""
    asked = row["settings"]
    return asked.get("num_basis") or asked.get("num_inducing") or row["info"]["num_basis"]


def datasets(found: Results) -> list[str]:
    """Those with at least two M of ours."""
    names = dict.fromkeys(row["dataset"] for row in found.rows if "dataset" in row)
    return [name for name in names if len(points(found, name, "AS-VGP")) > 1]


def section(found: Results) -> str:
    """What the page says, from the rows alone; nothing where there are no rows."""
    names = datasets(found)
    if not names:
        return ""
    words = []
    for name in names:
        (m, nlpd, took), (more, lower, longer) = (points(found, name, "AS-VGP")[i] for i in (0, -1))
        words.append(
            f"On {name}, from M = {m:,} to {more:,}, {more / m:,.0f} times as many, our NLPD goes "
            f"from {nlpd:.2f} to {lower:.2f} and the time to train from {results.seconds(took)} s "
            f"to {results.seconds(longer)} s."
        )
        words += [
            f"SVGP with {m:,} inducing points: NLPD {nlpd:.2f} in {results.seconds(took)} s."
            for m, nlpd, took in points(found, name, "SVGP")
        ]
    return (
        "## Growth with M\n\nThe rows of [Table 2](paper.md): the same Matérn-3/2 with more and "
        "more functions. The star is the M that our defaults choose.\n\n"
        f"![Accuracy and time against M](images/experiments/{FILE})\n\n" + " ".join(words) + "\n"
    )


def draw(found: Results, folder: Path) -> None:
    """NLPD and seconds against M, a column a data set: the picture of the `section`."""
    from matplotlib.figure import Figure

    names = datasets(found)
    if not names:
        return
    figure = Figure(figsize=(4.4 * len(names), 5.6), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False, sharex="col")
    for name, (above, below) in zip(names, axes.T, strict=True):
        for method, (colour, mark) in STYLES.items():
            line = points(found, name, method)
            look = {"color": colour, "marker": mark, "ms": 12 if mark == "*" else 5}
            above.plot([p[0] for p in line], [p[1] for p in line], label=method, **look)
            below.plot([p[0] for p in line], [p[2] for p in line], **look)
        n = max(row["n"] for row in found.where(dataset=name))
        above.set_title(f"{name}, N = {n:,}", fontsize=9)
        _axes(above, below)
    axes[0, 0].legend(frameon=False, fontsize=8)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / FILE, dpi=150)


def _median(rows: list[Row], key: str) -> float:
    return float(np.median([row[key] for row in rows]))


def _axes(above: Axes, below: Axes) -> None:
    logarithmic(below, "x")
    logarithmic(below, "y")
    above.set_ylabel("NLPD", fontsize=8)
    below.set_ylabel("seconds to train", fontsize=8)
    below.set_xlabel("M", fontsize=8)
    for axis in (above, below):
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
