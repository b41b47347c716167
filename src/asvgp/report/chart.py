"""The chart of a model of one input that a page can zoom into: its numbers and its elements.

A page holds the posterior at a limited number of points: as many as a smooth curve needs, and of
a model with more knots than that the least and the greatest of each of many columns, so that no
peak is lost. uPlot (MIT licence, part of the page) draws them.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.likelihoods.gaussian import band_factor
from asvgp.plot.inputs import Input
from asvgp.plot.reduce import outline, reduce_columns
from asvgp.plot.view import View, view_of
from asvgp.report.sums import CellMeans
from asvgp.report.text import Html, counted, joined, tag

OUTPUTS = 6  # charts or maps of a page at most
_COLUMNS = 1 << 14  # of all curves of a page together; two points each
_PER_CELL = 4  # columns between two knots that make a curve look smooth
_DOTS = 20_000  # observations of a page up to which it holds each of them


class Observations(NamedTuple):
    """Observations of all outputs."""

    columns: dict[int, Array]  # of X, by number
    y: Array  # (n, outputs)
    names: list[str]  # of the outputs


def charts(view: View, data: Observations | None, cells: CellMeans | None) -> Html:
    """Return one chart for each output of a model of one input."""
    (place,) = view.inputs.values()
    count = min(view.outputs, OUTPUTS)
    held = view.typical((place.column,))
    panels = []
    for output in range(count):
        shown = view_of(view.gp, output)
        points, what = None, "observations"
        if data is not None:
            points = data.columns[place.column], shown.moved(data.columns, data.y[:, output], held)
        elif cells is not None:
            columns = dict(zip(view.layout.linear, cells.covariates.T, strict=True))
            means = view.transform.inverse(cells.mean[output])
            points, what = (cells.x, shown.moved(columns, means, held)), "cell means"
        target = shown.target_label() if data is None else data.names[output]
        panels.append(_chart(shown, place, held, target, points, what, count))
    notes = []
    if held:
        notes.append(f"Drawn at {view.in_words(held)}; observations are moved there.")
    if view.outputs > count:
        notes.append(f"These are the first {count} of {view.outputs} outputs.")
    return joined([*panels, *(tag("p", note, class_="soft") for note in notes)])


def _chart(
    view: View,
    place: Input,
    held: Mapping[int, float],
    target: str,
    points: tuple[Array, Array] | None,
    what: str,
    count: int,
) -> Html:
    """Return the elements of one chart, with its numbers as JSON."""
    of = "" if view.mean_name == "f" else f" of the {view.mean_name}"
    key = f"Blue: posterior mean and 95 % band{of}."
    symmetric = view.transform.identity and view.family is None
    content: dict[str, Any] = {
        "label": place.label,
        "target": target,
        "zone": str(place.zone or "Etc/UTC") if place.axis is not None else None,
        # The page widens bands by the noise as if they were symmetric.
        "noise": view.noise if symmetric and not view.known_noise else None,
        "seen": None,
        **_curve(view, place, held, count),
    }
    if points is not None:
        content["seen"], number = _observed(place, *points, count)
        name = counted(number, what.removesuffix("s"))
        if len(content["seen"]["y"]) > 1:
            name = f"the range of {name} in each of {_COLUMNS // count:,} columns"
        key += f" Grey: {name}."
    buttons = [
        tag("button", text, type="button", data_key=pressed, aria_label=spoken)
        for text, pressed, spoken in (
            ("+", "+", "Zoom in"),
            ("−", "-", "Zoom out"),
            ("All", "0", "Show all"),
        )
    ]
    noisy = Html("")
    if content["noise"] is not None:
        box = Html('<input type="checkbox" class="noisy"> ')
        noisy = tag("label", box, "band of new observations")
    spoken = f"{target}: posterior mean and 95 % band. Arrow keys move, + and - zoom, 0 shows all."
    return tag(
        "figure",
        tag("div", *buttons, noisy, class_="tools"),
        tag("div", class_="plot", tabindex=0, role="img", aria_label=spoken),
        tag("output"),
        tag("figcaption", key),
        as_script(content),
        class_="chart small" if count > 2 else "chart",
    )


def _curve(view: View, place: Input, held: Mapping[int, float], count: int) -> dict[str, Any]:
    """Return the mean and the 95 % band at a limited number of points."""

    def evaluate(x: Array) -> tuple[Array, Array]:
        return view.predict({**held, place.column: x})

    cells = round((place.upper - place.lower) / place.spacing)
    columns = min(_COLUMNS // count, max(_PER_CELL * cells, 256))
    ends, knots = (place.lower, place.upper), (place.lower, place.spacing)
    found = outline(evaluate, *ends, columns, band_factor(0.95), *knots, view.transform)
    band = np.searchsorted(found.at, found.x, side="right") - 1
    return {
        "x": _doubles(_shown(place, found.x)),
        "mean": _singles(found.mean),
        "low": _singles(found.low[band]),
        "high": _singles(found.high[band]),
    }


def _observed(place: Input, x: Array, y: Array, count: int) -> tuple[dict[str, Any], int]:
    """Return observations, or where there are many the range of each column, and their number."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = np.isfinite(y) & (x >= place.lower) & (x <= place.upper)
    x, y = x[known], y[known]
    if len(y) <= _DOTS // count:
        order = np.argsort(x, kind="stable")
        return {"x": _doubles(_shown(place, x[order])), "y": [_singles(y[order])]}, len(y)
    found = reduce_columns(x, y, place.lower, place.upper, _COLUMNS // count)
    ranges = [_singles(np.append(part, part[-1])) for part in (found.low, found.high)]
    return {"x": _doubles(_shown(place, found.edges)), "y": ranges}, len(y)


def _shown(place: Input, x: Array) -> Array:
    """Return numbers as uPlot takes them: times in seconds since 1970."""
    if place.axis is None:
        return x
    return x + float(place.axis.origin.astype("M8[ns]").astype(np.int64)) * 1e-9


def _doubles(values: Array) -> str:
    return b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")


def _singles(values: Array) -> dict[str, Any]:
    """Return numbers in single precision, above an offset so that they keep their digits."""
    known = values[np.isfinite(values)]
    offset = 0.5 * (float(known.min()) + float(known.max())) if len(known) else 0.0
    numbers = np.ascontiguousarray(values - offset, dtype="<f4")
    return {"offset": offset, "base64": b64encode(numbers.tobytes()).decode("ascii")}


def as_script(content: Any) -> Html:
    """Return JSON as an element that nothing in it can end."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Html(f'<script type="application/json">{text}</script>')
