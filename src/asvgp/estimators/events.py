"""Events as they are given, and what was observed: times or places, windows and exposure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Columns, Table
from asvgp.policies import EVENTS
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.statistics.nodes import Nodes
from asvgp.statistics.windows import Box, inside, window_nodes
from asvgp.structures.structure import Structure
from asvgp.times import TimeAxis, Zoned, is_time


@dataclass(frozen=True, eq=False)
class Seen:
    """Events as numbers, and what was observed."""

    names: Sequence[str] | None  # of the columns
    axes: tuple[TimeAxis | None, ...]
    columns: list[Array]
    domain: Box
    boxes: list[Box]
    exposure: Callable[[Any], Any] | None
    # Number of the column of latitudes, where areas are those on a sphere, in square degrees of arc
    latitude: int | None = None

    @classmethod
    def read(cls, table: Table, domain, windows, exposure, latitude: int | None = None) -> Seen:
        """Read events, the domain and the windows, and check them."""
        if len(table) == 0:
            raise ValueError("There are no events: 0 rows. A process is fitted to one at least.")
        if not 1 <= table.width <= 3:
            raise ValueError(f"Events have one to three inputs, and X has {table.width} columns.")
        if exposure is not None and not callable(exposure):
            raise TypeError(
                "exposure must be a function of places that returns one number per row, such as "
                f"lambda X: np.full(len(X), 2.0), got {exposure!r:.60}."
            )
        inputs = range(table.width)
        axes = tuple(
            TimeAxis.from_values(table.column(i)) if is_time(table.column(i)) else None
            for i in inputs
        )
        names = [table.column_name(i) for i in inputs]
        columns = [_numbers(table.column(i), axes[i], names[i]) for i in inputs]
        boxes = [as_box(window, axes, "windows") for window in as_windows(windows)]
        if domain is not None:
            whole = as_box(domain, axes, "domain")
        elif boxes:
            whole = tuple(
                (min(box[d][0] for box in boxes), max(box[d][1] for box in boxes)) for d in inputs
            )
        else:
            whole = tuple(_widened(x, name) for x, name in zip(columns, names, strict=True))
        check_boxes(boxes, whole)
        boxes = boxes or [whole]
        out = np.flatnonzero(~inside(boxes, columns))
        if len(out):
            shown = cls(table.names, axes, [x[out[:3]] for x in columns], whole, boxes, exposure)
            raise ValueError(
                f"{len(out)} of {len(table)} events are outside of what was observed (domain and "
                f"windows), the first in rows {out[:3].tolist()}: "
                f"{shown.rows(shown.columns).tolist()}."
            )
        return cls(table.names, axes, columns, whole, boxes, exposure, latitude)

    def without_events(self) -> Seen:
        """Return what was observed alone."""
        return replace(self, columns=[np.empty(0) for _ in self.columns])

    def on(self, axes: tuple[TimeAxis | None, ...]) -> Seen:
        """Return the same with times counted from other origins."""

        def moved(x: Any, d: int) -> Array:
            old, new = self.axes[d], axes[d]
            if old is None or new is None:
                return np.asarray(x, dtype=float)
            return np.asarray(x) + float((old.origin - new.origin) / np.timedelta64(1, "s"))

        def box(ends: Box) -> Box:
            return tuple(tuple(moved(pair, d).tolist()) for d, pair in enumerate(ends))

        columns = [moved(x, d) for d, x in enumerate(self.columns)]
        boxes = [box(each) for each in self.boxes]
        return replace(self, axes=axes, columns=columns, domain=box(self.domain), boxes=boxes)

    def in_units(self, box: Box) -> tuple:
        """Return the ends of a box as events are given."""
        pairs = zip(self.axes, box, strict=True)
        return tuple(ends if axis is None else axis.span(*ends) for axis, ends in pairs)

    def rows(self, columns: Sequence[Array]) -> Any:
        """Return places as events are given: (n,), or (n, inputs)."""
        given = [
            x if axis is None else axis.to_times(x)
            for axis, x in zip(self.axes, columns, strict=True)
        ]
        if len(given) == 1:
            return given[0]
        kind = float if not any(self.axes) else object
        return np.stack([column.astype(kind) for column in given], axis=1)

    def corners(self, given: Any) -> Array:
        """Return corners of boxes as numbers, (m, inputs)."""
        columns = np.atleast_2d(np.asarray(given)).T
        pairs = zip(columns, self.axes, strict=True)
        return np.stack([_numbers(column, axis, "a, b") for column, axis in pairs], axis=1)

    def check_inside(self, low: Array, high: Array) -> None:
        """Raise an error where boxes are not inside the domain."""
        ends = np.array(self.domain)
        if np.any(low < ends[:, 0]) or np.any(high > ends[:, 1]):
            raise ValueError(f"Boxes must be inside the domain, {self.in_units(self.domain)}.")

    def areas(self, columns: Sequence[Array]) -> Array:
        """Return the area at places of what is a unit of the inputs."""
        if self.latitude is None:
            return np.ones(len(columns[0]))
        return np.cos(np.deg2rad(columns[self.latitude]))

    def measured(self, columns: Sequence[Array]) -> Array:
        """Return the measure at places by which events are counted: exposure times area."""
        return self.exposed(columns) * self.areas(columns)

    def exposed(self, columns: Sequence[Array]) -> Array:
        """Return the exposure at places."""
        if self.exposure is None:
            return np.ones(len(columns[0]))
        out = np.asarray(self.exposure(self.rows(columns)), dtype=float)
        if out.shape not in ((), (len(columns[0]),)):
            raise ValueError(
                f"exposure must return one number per row, of shape ({len(columns[0])},); it "
                f"returned {out.shape}."
            )
        out = np.broadcast_to(out, (len(columns[0]),))
        if np.any(bad := ~((out >= 0.0) & (out < np.inf))):
            place = self.rows([x[bad][:1] for x in columns]).tolist()[0]
            raise ValueError(f"exposure must be from zero on, and is {out[bad][0]:g} at {place}.")
        return out

    def bins(self) -> tuple[Any, Array, Array]:
        """Return the centres of bins, and numbers of events and exposures there."""
        number = np.clip(
            EVENTS.bins_per_event * len(self.columns[0]), EVENTS.least_bins, EVENTS.most_bins
        )
        along = round(float(number) ** (1.0 / len(self.columns)))
        grids = [Grid(*ends, along) for ends in self.domain]
        nodes = window_nodes(grids, self.boxes, [1] * len(grids))
        cells = along ** len(grids)
        sizes = np.bincount(nodes.cells, nodes.masses * self.measured(nodes.inputs), cells)
        counts, _ = np.histogramdd(
            np.stack(self.columns, axis=1), [along] * len(grids), list(self.domain)
        )
        there = sizes > 0.0
        centres = np.meshgrid(
            *[grid.lower + (np.arange(along) + 0.5) * grid.spacing for grid in grids],
            indexing="ij",
        )
        rows = self.given([x.ravel()[there] for x in centres])
        return rows, counts.ravel()[there], sizes[there]

    def given(self, columns: Sequence[Array]) -> Any:
        """Return places as rows that a regressor takes, with the names of columns."""
        columns = [self._column(d, x) for d, x in enumerate(columns)]
        if self.names is not None:
            return Columns(self.names, columns)
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _column(self, d: int, x: Array) -> Any:
        axis = self.axes[d]
        if axis is None:
            return x
        times = axis.to_times(x)
        return times if axis.tz is None else Zoned(times, axis.tz)

    def sums(self, structure: Structure[Any], like: Statistics) -> tuple[Statistics, Nodes]:
        """Return the sums of events, with the measure of what was observed, and nodes of it."""
        number = [degree + EVENTS.further_nodes for degree in like.degrees]
        nodes = window_nodes(like.grids, self.boxes, number)
        masses = nodes.masses * self.measured(nodes.inputs)
        there = masses > 0.0
        if not there.any():
            raise ValueError("Nothing was observed: exposure is zero in all of the domain.")
        nodes = Nodes(tuple(x[there] for x in nodes.inputs), masses[there], nodes.cells[there])
        exposure = self.exposed(self.columns)
        if np.any(unseen := exposure == 0.0):
            rows = np.flatnonzero(unseen)[:3].tolist()
            raise ValueError(f"exposure is zero where there are events, the first in rows {rows}.")
        measure = self._summed(structure, like, nodes.inputs, nodes.masses, 0.0)
        events = self._summed(structure, like, self.columns, None, 1.0)
        sums = replace(
            measure,
            targets=events.targets,
            column_targets=events.column_targets,
            squares=events.squares,
            count=events.count,
            constants=np.array([np.log(self.measured(self.columns)).sum(), len(exposure)]),
        )
        return sums, nodes

    @staticmethod
    def _summed(
        structure: Structure[Any],
        like: Statistics,
        columns: Sequence[Array],
        weights: Array | None,
        y: float,
    ) -> Statistics:
        """Return the sums of one y at all places."""
        pairs = zip(columns, like.grids, strict=True)
        inside = [np.clip(x, grid.lower, grid.upper) for x, grid in pairs]
        points = structure.points_at(dict(zip(structure.layout.used, inside, strict=True)))
        sums = Accumulator(replace(like.emptied(), centre=np.zeros(1)))
        points.add_to(sums, np.full(points.count, y), weights)
        return sums.statistics()


def alone(ends: tuple) -> tuple:
    """Return the only interval, or a box of several."""
    return ends[0] if len(ends) == 1 else ends


def _numbers(column: Any, axis: TimeAxis | None, name: str) -> Array:
    """Return a column of events as finite numbers."""
    if axis is not None:
        return axis.to_seconds(column, name=name)
    try:
        x = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers or times, got {column!r:.60}.") from None
    if np.any(bad := ~np.isfinite(x)):
        raise ValueError(
            f"Input {name} contains NaN or infinity, the first in rows "
            f"{np.flatnonzero(bad)[:3].tolist()}."
        )
    return x


def _widened(x: Array, name: str) -> tuple[float, float]:
    """Return the range of events, and beyond it what uniform ones lack on average."""
    low, high = float(x.min()), float(x.max())
    if not high > low:
        raise ValueError(f"All events have the same {name}, {low:g}: give the domain.")
    more = (high - low) / (len(x) - 1)
    return low - more, high + more


def as_windows(given: Any) -> list:
    """Return windows as a list of boxes."""
    if given is None:
        return []
    if not hasattr(given, "__len__"):
        raise TypeError(f"windows must be a sequence of intervals or boxes, got {given!r}.")
    if len(given) == 0:
        raise ValueError("windows is empty: nothing was observed.")
    return list(given)


def as_box(given: Any, axes: Sequence[TimeAxis | None], name: str) -> Box:
    """Return a box as numbers: an interval for every input."""
    pairs = [given] if len(axes) == 1 else list(given)
    if len(pairs) != len(axes) or not all(hasattr(p, "__len__") and len(p) == 2 for p in pairs):
        one = "(a, b)" if len(axes) == 1 else f"{len(axes)} pairs (a, b)"
        raise ValueError(f"{name} must hold {one}, got {given!r}.")
    out = []
    for pair, axis in zip(pairs, axes, strict=True):
        low, high = (
            map(float, pair) if axis is None else axis.to_seconds(list(pair), name=name).tolist()
        )
        if not -np.inf < low < high < np.inf:
            raise ValueError(f"{name} must have a < b, both finite, got {pair!r}.")
        out.append((low, high))
    return tuple(out)


def check_boxes(boxes: Sequence[Box], domain: Box) -> None:
    """Check that windows are in the domain and do not overlap."""
    for i, box in enumerate(boxes):
        pairs = list(zip(box, domain, strict=True))
        if any(low < a or high > b for (low, high), (a, b) in pairs):
            raise ValueError(f"Window {i} reaches beyond the domain.")
        for j, other in enumerate(boxes[:i]):
            shared = zip(box, other, strict=True)
            if all(min(b, d) > max(a, c) for (a, b), (c, d) in shared):
                raise ValueError(f"Windows {j} and {i} overlap.")
