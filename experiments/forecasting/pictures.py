"""Pictures of forecasts: the end of a series, its forecast with bands, and what came."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.forecasting.words import DEFAULT, NAIVE, picture
from experiments.harness import results
from experiments.harness.results import Results, Row

OURS, TRUTH, HISTORY = "#c1121f", "#000000", "#777777"
# Other point forecasts, thin: one colour and one dash each.
LINES = {
    "asvgp, written kernel": ("#e98a15", "-"),
    NAIVE: ("#888888", ":"),
    "celerite2": ("#1f4e9c", "--"),
    "AutoETS": ("#8fc93a", "--"),
    "AutoARIMA": ("#2a7f3f", "-."),
    "MSTL": ("#6a3d9a", "-"),
    "Prophet": ("#4aa3df", "-"),
}


def draw(found: Results) -> None:
    """Write one picture for each series with a forecast of ours, from the results alone."""
    results.FIGURES.mkdir(parents=True, exist_ok=True)
    for name, known in found.record.get("series", {}).items():
        rows = [r for r in found.rows if r["dataset"] == name and "forecast" in r]
        if any(row["method"] == DEFAULT for row in rows):
            _series(name, known, rows).savefig(results.FIGURES / picture(name), dpi=130)


def _series(name: str, known: dict[str, Any], rows: list[Row]):
    """Ours with its bands above, everybody's point forecasts below."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    past, later = (_dates(known, f"{part}_x") for part in ("known", "later"))
    for axis in (above, below):
        axis.plot(past, _numbers(known["known_y"]), color=HISTORY, linewidth=1.0)
        axis.plot(later, _numbers(known["later_y"]), color=TRUTH, linewidth=1.4, label="what came")
        axis.axvline(past[-1], color=HISTORY, linewidth=0.8, linestyle=":")
        axis.set_ylabel(known["unit"])
        axis.grid(alpha=0.25)
        axis.margins(x=0.01)
    ours = next(row for row in rows if row["method"] == DEFAULT)
    made = {key: _numbers(text) for key, text in ours["forecast"].items()}
    for level, alpha in ((95, 0.15), (80, 0.25)):
        low, high = made[f"low_{level}"], made[f"high_{level}"]
        label = f"{level} % band"
        above.fill_between(later, low, high, color=OURS, alpha=alpha, linewidth=0, label=label)
    for axis in (above, below):
        axis.plot(later, made["mean"], color=OURS, linewidth=1.6, label=DEFAULT)
    for method, (colour, dash) in LINES.items():
        for row in (row for row in rows if row["method"] == method):
            mean = _numbers(row["forecast"]["mean"])
            below.plot(later, mean, dash, color=colour, linewidth=1.1, label=method)
    above.set_title(f"{name}: the last origin, with our bands (above) and everybody's means")
    for axis in (above, below):
        axis.legend(
            fontsize=8, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False
        )
    locator = AutoDateLocator(maxticks=9)
    below.xaxis.set_major_locator(locator)
    below.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def _dates(known: dict[str, Any], key: str) -> np.ndarray:
    seconds = np.rint(_numbers(known[key]) * known["step"]).astype("timedelta64[s]")
    return np.datetime64(known["start"], "s") + seconds


def _numbers(text: str) -> np.ndarray:
    return np.array(text.split(), dtype=float)
