"""Pictures of a comparison: accuracy against time, and growth of time with N."""

from __future__ import annotations

from statistics import stdev
from typing import TYPE_CHECKING

from experiments.harness import results
from experiments.harness.results import Results, Row
from experiments.peers.comparison import averaged
from experiments.peers.contest import DEFAULT, TUNED, total

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPAN = 0.1  # of its values, that an axis of scores shows at least
# One colour and one mark a method, in all pictures; marks tell them apart in black and white.
STYLES = {
    DEFAULT: ("#c1121f", "*"),
    TUNED: ("#e98a15", "*"),
    "asvgp, two terms": ("#7a4b00", "*"),
    "celerite2": ("#1f4e9c", "o"),
    "tinygp": ("#4aa3df", "s"),
    "GPflow SGPR": ("#2a7f3f", "^"),
    "GPflow SVGP": ("#8fc93a", "v"),
    "mgcv bam": ("#6a3d9a", "D"),
    "pyGAM": ("#b07cc6", "p"),
    "scikit-learn Nyström": ("#555555", "X"),
    "gamfit": ("#d45d9e", "h"),
    "GPyTorch KISS-GP": ("#008b8b", "P"),
    "GPBoost Vecchia": ("#7a8b00", "<"),
    "PyMC HSGP": ("#ff5d73", ">"),
    "libKriging": ("#000000", "d"),
}


def draw(found: Results) -> None:
    """Write NAME.png and NAME_growth.png, from the rows alone."""
    import matplotlib

    matplotlib.use("Agg")
    rows = [row for row in averaged(found) if "reason" not in row]
    results.FIGURES.mkdir(parents=True, exist_ok=True)
    for suffix, panel in (("", _accuracy), ("_growth", _growth)):
        names = list(dict.fromkeys(row["dataset"] for row in rows))
        if suffix:
            names = [n for n in names if len({r["n"] for r in rows if r["dataset"] == n}) > 1]
        figure = _panels(rows, names, panel)
        figure.savefig(results.FIGURES / f"{found.name}{suffix}.png", dpi=150)


def _panels(rows: list[Row], names: list[str], panel) -> Figure:
    """One panel a data set, and one legend for all."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = max(1, min(3, len(names)))
    lines = max(1, -(-len(names) // columns))
    figure = Figure(figsize=(3.6 * columns + 2.2, 3.2 * lines + 0.3), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        panel(axis, [row for row in rows if row["dataset"] == name])
        shown = sorted({row["n"] for row in rows if row["dataset"] == name})
        axis.set_title(f"{name}, N = {' · '.join(f'{n:,}' for n in shown)}", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    there = {row["method"] for row in rows if row["dataset"] in names}
    handles = [
        Line2D([], [], color=colour, marker=mark, linewidth=1.0, label=method)
        for method, (colour, mark) in STYLES.items()
        if method in there
    ]
    if handles:
        figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _lines(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Each method's rows by size; ours last, so that they are on top."""
    methods = sorted(
        (m for m in STYLES if any(r["method"] == m for r in rows)),
        key=lambda m: m.startswith("asvgp"),
    )
    by_size = sorted(rows, key=lambda row: row["n"])
    return [(m, [r for r in by_size if r["method"] == m]) for m in methods]


def _accuracy(axis: Axes, rows: list[Row]) -> None:
    """CRPS against seconds; a method's sizes are joined, the largest is the largest mark.

    Bars are standard deviations between splits.
    """
    sizes = sorted({row["n"] for row in rows})
    for method, line in _lines([row for row in rows if row["crps"] is not None]):
        colour, mark = STYLES[method]
        axis.plot([total(r) for r in line], [r["crps"] for r in line], color=colour, linewidth=0.8)
        for row in line:
            area = (30.0 if mark == "*" else 14.0) * (1 + sizes.index(row["n"])) + 12.0
            axis.scatter(total(row), row["crps"], s=area, color=colour, marker=mark, zorder=3)
            splits = [each["crps"] for each in row.get("splits", {}).values()]
            if len(splits) > 1:
                axis.errorbar(total(row), row["crps"], stdev(splits), color=colour, linewidth=0.8)
    logarithmic(axis, "x")
    _no_narrower(axis)
    axis.set_xlabel("seconds to train and predict (larger marks: more rows)", fontsize=8)
    axis.set_ylabel("CRPS", fontsize=8)


def _no_narrower(axis: Axes) -> None:
    """An axis of y that spans a tenth of its values at least: what is equal should look so."""
    low, high = axis.get_ylim()
    middle = 0.5 * (low + high)
    half = max(0.5 * (high - low), 0.5 * SPAN * abs(middle))
    axis.set_ylim(middle - half, middle + half)


def _growth(axis: Axes, rows: list[Row]) -> None:
    """Seconds against N."""
    for method, line in _lines(rows):
        colour, mark = STYLES[method]
        axis.plot([r["n"] for r in line], [total(r) for r in line], color=colour, marker=mark)
    logarithmic(axis, "x")
    logarithmic(axis, "y")
    axis.set_xlabel("observations", fontsize=8)
    axis.set_ylabel("seconds to train and predict", fontsize=8)


def logarithmic(axis: Axes, which: str) -> None:
    """A logarithmic axis with few labels, as plain numbers, that never overprint."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axis.set_xscale if which == "x" else axis.set_yscale)("log")
    ticks = axis.xaxis if which == "x" else axis.yaxis
    low, high = ticks.get_data_interval()
    narrow = high < 30.0 * low
    ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ticks.set_minor_formatter(NullFormatter())
