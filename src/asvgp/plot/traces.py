"""Curves with bands and clouds of observations that follow the limits of their axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.data.transforms import IDENTITY, Transform
from asvgp.plot.inputs import Input
from asvgp.plot.reduce import outline, reduce_columns
from asvgp.plot.style import legend, legend_is_ours, palette, percent, pixels

_DOTS = 20  # observations a column up to which each is a dot of its own
_CENTRAL = 0.9  # of a column's observations, drawn darker than their range


class Curve:
    """A mean and its band, at two points per pixel; where it is finer, its range per pixel.

    Functions return mean and standard deviation at places, on the scale of a ``transform`` of what
    is drawn; the band reaches ``factor`` standard deviations to either side, and there is none
    with zero.
    """

    def __init__(
        self,
        ax,
        place: Input,
        evaluate: Callable[[Array], tuple[Array, Array]],
        factor: float,
        colour,
        label: str | None = None,
        band: str | None = None,
        transform: Transform = IDENTITY,
    ):
        self.transform = transform
        self.ax, self.place, self.evaluate, self.factor = ax, place, evaluate, factor
        self.colour, self.label, self.band_label = colour, label, band
        self.line: Any = None
        self.band: Any = None

    def draw(self, start: float, stop: float) -> None:
        """Draw, or redraw, between two places."""
        place, columns = self.place, pixels(self.ax)[0]
        knots = place.lower, place.spacing
        found = outline(self.evaluate, start, stop, columns, self.factor, *knots, self.transform)
        x, at = place.shown(found.x), place.shown(found.at)
        if self.line is None:
            style: dict[str, Any] = {"color": self.colour, "zorder": 3}
            if self.factor:
                self.band = self.ax.fill_between(
                    at, found.low, found.high, alpha=0.3, lw=0, label=self.band_label, **style
                )
            (self.line,) = self.ax.plot(x, found.mean, lw=1.0, label=self.label, **style)
            return
        self.line.set_data(x, found.mean)
        if self.band is not None:
            edge = np.concatenate([found.low, found.high[::-1]])
            self.band.set_verts([np.column_stack([np.concatenate([at, at[::-1]]), edge])])


class Cloud:
    """Observations: dots where they are few, their range and bulk per pixel where they are many.

    ``what`` says in the legend what they are.
    """

    def __init__(self, ax, place: Input, x: Array, y: Array, what: str = "observations"):
        self.ax, self.place, self.x, self.y, self.what = ax, place, x, y, what
        self.total = int(np.count_nonzero(~(np.isnan(x) | np.isnan(y))))
        self.dots: Any = None  # until something is drawn
        self.range: Any
        self.bulk: Any

    def draw(self, start: float, stop: float) -> None:
        """Draw, or redraw, between two places."""
        columns = pixels(self.ax)[0]
        found = reduce_columns(self.x, self.y, start, stop, columns, _CENTRAL)
        # By what is crowded where there is something, so that gaps do not make dots of the rest.
        few = found.counts.sum() <= _DOTS * max(np.count_nonzero(found.counts), columns // 4)
        some = np.zeros(0, dtype=int)
        if few:
            some = np.flatnonzero((self.x >= start) & (self.x <= stop) & ~np.isnan(self.y))
        edges = self.place.shown(found.edges)
        if self.dots is None:
            self.dots = self._begin(edges, found)
        self.dots.set_data(self.place.shown(self.x[some]), self.y[some])
        self.dots.set_markersize(float(np.clip(150.0 / max(len(some), 1) ** 0.5, 2.0, 6.0)))
        for patch, low, high in (
            (self.range, found.low, found.high),
            (self.bulk, found.lower, found.upper),
        ):
            patch.set_visible(not few)
            patch.set_data(high, edges, low)
        seen, counted = int(found.counts.sum()), f"{self.total:,} {self.what}"
        if seen < self.total:
            counted = f"{seen:,} of {counted}"
        self.dots.set_label(counted if few else "_")
        self.range.set_label("_" if few else f"{counted}: range per pixel")
        self.bulk.set_label("_" if few else f"central {percent(_CENTRAL)} of them")

    def _begin(self, edges: Array, found) -> Any:
        """Make the artists, so that they take part in the limits of y; return the dots."""
        colours = palette(self.ax)
        # The outline keeps a column whose observations are all alike from vanishing.
        style: dict[str, Any] = {"baseline": found.low, "fill": True, "lw": 0.5}
        self.range = self.ax.stairs(found.high, edges, color=colours.pale, zorder=1, **style)
        self.bulk = self.ax.stairs(found.high, edges, color=colours.middle, zorder=1.1, **style)
        for patch in (self.range, self.bulk):
            patch.sticky_edges.y.clear()
        style = {"mew": 0, "color": colours.strong, "zorder": 1.2}
        return self.ax.plot([], [], ".", rasterized=True, **style)[0]


def follow(ax, place: Input, start: float, stop: float, traces) -> None:
    """Draw traces over an interval, and again whenever the limits of the axes change."""
    for trace in traces:
        trace.draw(start, stop)
    place.dress(ax.xaxis)
    ax.set_xlim(*place.shown([start, stop]))
    drawn = [start, stop]

    def redraw(changed) -> None:
        low, high = sorted(float(end) for end in place.unshown(changed.get_xlim()))
        # Panels that share an axis set the same limits again, each in its turn.
        if np.allclose([low, high], drawn, rtol=0.0, atol=1e-6 * (drawn[1] - drawn[0])):
            return
        if np.isfinite(low) and np.isfinite(high) and low < high:
            drawn[:] = low, high
            for trace in traces:
                trace.draw(low, high)
            if legend_is_ours(changed):  # dots may have become ranges
                legend(changed)

    ax.callbacks.connect("xlim_changed", redraw)
