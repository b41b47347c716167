"""The posterior over two inputs, as images that a page carries."""

from __future__ import annotations

from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.plot.maps import _aspect
from asvgp.plot.view import Input, View
from asvgp.report.curves import axis
from asvgp.report.pack import quantised

PIXELS = 200_000  # of every image of the first figure
FEWER = 20_000  # of those of components


def field_map(view: View, across: Input, up: Input, held, pixels: int, component=None):
    """Mean and standard deviation over two inputs, and the means of cells where there are."""
    columns, rows = _shape(across, up, pixels)
    places = [
        side.lower + (np.arange(n) + 0.5) * ((side.upper - side.lower) / n)
        for side, n in ((across, columns), (up, rows))
    ]
    a, b = np.meshgrid(*places)
    wide = {column: np.full(a.size, value) for column, value in held.items()}
    mean, std = view.predict({**wide, across.column: a.ravel(), up.column: b.ravel()}, component)
    mean, std = mean.reshape(a.shape), std.reshape(a.shape)
    limits = float(mean.min()), float(mean.max())
    seen = _cell_means(view, across, up, pixels) if component is None and not held else None
    if component is not None:  # about zero
        most = float(np.abs(mean).max()) or 1.0
        limits = -most, most
    elif seen is not None:
        low, high = np.nanquantile(seen, [0.01, 0.99])
        limits = min(limits[0], float(low)), max(limits[1], float(high))
    layers = [
        _layer("mean", mean, "viridis", limits),
        _layer("standard deviation", std, "magma", (0.0, float(std.max()))),
    ]
    if seen is not None:
        layers.append(_layer("average of the data", seen, "viridis", limits) | {"smooth": False})
    return {
        "kind": "map",
        "axes": [{**axis(side), "lower": side.lower, "upper": side.upper} for side in (across, up)],
        "layers": layers,
    }


def proportion(across: Input, up: Input) -> float:
    """Width over height of a map."""
    ratio = _aspect(across, up)
    if ratio == "auto":
        return 1.25
    scale = 1.0 if ratio == "equal" else float(ratio)
    shape = (across.upper - across.lower) / (scale * (up.upper - up.lower))
    return float(np.clip(shape, 0.6, 2.5))


def _shape(across: Input, up: Input, pixels: int) -> tuple[int, int]:
    """Columns and rows of an image: four a cell where there is room."""
    cells = [4 * round((side.upper - side.lower) / side.spacing) for side in (across, up)]
    thin = min(1.0, (pixels / (cells[0] * cells[1])) ** 0.5)
    wanted = [max(2, int(n * thin)) for n in cells]
    return min(wanted[0], pixels // 2), min(wanted[1], pixels // 2)


def _layer(name: str, values: Array, palette: str, limits) -> dict[str, Any]:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return {
        "name": name,
        "columns": values.shape[1],
        "rows": values.shape[0],
        "low": low,
        "high": high,
        "limits": list(limits),
        "palette": palette,
        "smooth": True,
        "values": quantised(values, low, high),
    }


def _cell_means(view: View, across: Input, up: Input, pixels: int) -> Array | None:
    """Averages of y in the cells, of models of two inputs that are one block."""
    stats, plan = view.posterior.stats, view.posterior.plan
    if len(plan.inputs) != 2 or plan.smooths or {across.column, up.column} != set(plan.inputs):
        return None
    thin = min(1.0, (pixels / stats.cell_weights.size) ** 0.5)
    weight, total = stats.cell_weights, stats.targets[view.output][..., 0, 0]
    for side, grid in enumerate(plan.grids):
        count = max(1, int(thin * grid.cells))
        starts = -(-np.arange(count) * grid.cells // count)
        weight, total = (np.add.reduceat(part, starts, side) for part in (weight, total))
    for side in range(2):
        own = _nearest(weight.sum(axis=1 - side) > 0.0)
        weight, total = (np.take(part, own, side) for part in (weight, total))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(weight > 0.0, total / weight + stats.centre[view.output], np.nan)
    return mean.T if plan.inputs[0] == across.column else mean


def _nearest(occupied: Array) -> Array:
    """For every line of cells the one to show there: itself, or of gridded data the nearest.

    Where cells are finer than the grid of the data, lines of cells between its own hold nothing.
    Gaps longer than twice the usual distance are gaps in the data, and stay.
    """
    lines, held = np.arange(len(occupied)), np.flatnonzero(occupied)
    if len(held) < 2:
        return lines
    after = np.clip(np.searchsorted(held, lines), 1, len(held) - 1)
    nearest = np.where(lines - held[after - 1] <= held[after] - lines, held[after - 1], held[after])
    usual = float(np.median(np.diff(held)))
    return np.where(np.abs(nearest - lines) <= usual, nearest, lines)
