"""Longitudes and latitudes of kernels on the sphere: which arc or circle data cover, and checks.

Longitudes are the same a turn apart. Data that leave half a turn free are on an arc, however they
are given, also across the date line; others go round, and so do their splines. A user's domain of
a whole turn goes round in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Layout
from asvgp.data.inputs import check_pair
from asvgp.degrees import TURN, Latitudes, Longitudes
from asvgp.policies import FIELD
from asvgp.runtime.checks import in_rows

Ends = tuple[float, float]


def grid_for(layout: Layout, place: int, ends: Ends, cells: int) -> Grid:
    """Return a grid of the column at a place of ``layout.used``."""
    column, cyclic = layout.used[place], layout.periods[place] is not None
    return grid_kind(layout, column)(*ends, cells, cyclic)


def grid_kind(layout: Layout, column: int) -> type[Grid]:
    """Return the class of a column's grid."""
    if any(column == lon for lon, _ in layout.degrees):
        return Longitudes
    return Latitudes if any(column == lat for _, lat in layout.degrees) else Grid


def arc(x: Any, lower: float, upper: float) -> Ends | None:
    """Return the ends of the shortest arc that holds longitudes; None where they go round.

    Examples
    --------
    >>> arc([170.0, -175.0, 178.0], -175.0, 178.0)
    (170.0, 185.0)
    >>> arc(np.arange(0.0, 360.0, 20.0), 0.0, 340.0) is None
    True
    """
    if upper - lower <= FIELD.widest_arc:
        return lower, upper
    places = np.unique(np.mod(np.asarray(x, dtype=float), TURN))
    gaps = np.diff(places, append=places[0] + TURN)
    widest = int(np.argmax(gaps))
    if gaps[widest] < TURN - FIELD.widest_arc:
        return None
    start = places[(widest + 1) % len(places)]
    start -= TURN * round((start - 0.5 * (lower + upper)) / TURN)
    return float(start), float(start + TURN - gaps[widest])


def with_circles(layout: Layout, points: Any, whole: bool, pairs: Sequence[Any]) -> Layout:
    """Return a layout that knows which longitudes the data go round.

    Where points are not the ``whole`` of the data, only their range is known; ``pairs`` are the
    user's domains.
    """
    around = []
    for column in dict.fromkeys(lon for lon, _ in layout.degrees):
        place, pair = layout.used.index(column), pairs[layout.over.index(column)]
        lower, upper = points.ranges[place]
        if pair is not None:
            a, b = check_pair(pair, None, "the longitude")
            if b - a > TURN * (1.0 + 1e-12):
                raise ValueError(
                    f"The domain of longitudes, ({a:g}, {b:g}), is longer than a turn, {TURN:g}."
                )
            found = b - a > TURN * (1.0 - 1e-12)
        elif whole:
            found = arc(points.main[place], lower, upper) is None
        else:
            found = upper - lower > FIELD.widest_arc
        around += [column] if found else []
    return replace(layout, around=tuple(around))


def longitude_ends(layout: Layout, place: int, x: Any, ends: Ends, pair: Any, name: str) -> Ends:
    """Return the interval of the splines along longitude."""
    lower, upper = ends
    if layout.used[place] in layout.around:
        start = pair[0] if pair is not None else 0.0 if lower >= 0.0 else -0.5 * TURN
        return float(start), float(start) + TURN
    if pair is None:
        return arc(x, lower, upper) or (lower, upper)
    a, b = check_pair(pair, None, name)
    outside = ~Longitudes(a, b, 1).holds(x)
    if outside.any():
        raise ValueError(
            f"{name}: domain=({a:g}, {b:g}) leaves out {in_rows(outside)}. Widen the domain, up to "
            f"a whole turn, ({a:g}, {a + TURN:g}), or drop those rows."
        )
    return a, b


def check_latitudes(layout: Layout, columns: dict[int, Array], names: dict[int, str]) -> None:
    """Check that latitudes are between the poles."""
    for lon, lat in layout.degrees:
        wrong = ~(np.abs(columns[lat]) <= 90.0)
        if wrong.any():
            value = np.asarray(columns[lat])[wrong][0]
            raise ValueError(
                f"{names[lat]} holds latitudes beyond 90 degrees in {in_rows(wrong)}, the first "
                f"{value:g}. Of coordinates='degrees', dim names the longitude first, then the "
                f"latitude: are {names[lon]} and {names[lat]} swapped?"
            )


def check_poles(x: Any, ends: Ends, name: str) -> None:
    """Check that data, or a domain, stay away from the poles."""
    most = FIELD.last_latitude
    if -most <= ends[0] and ends[1] <= most:
        return
    x = np.asarray(x)
    wrong = np.abs(x) > most
    where = in_rows(wrong) if wrong.any() else f"the domain ({ends[0]:g}, {ends[1]:g})"
    raise ValueError(
        f"{name} holds latitudes beyond {most:g} degrees in {where}: splines along longitude and "
        "latitude end before the poles. Leave these places out, or project the surroundings of the "
        "pole to a plane and take a kernel without coordinates."
    )


def moved(points: Any, grids: Sequence[Grid]) -> Any:
    """Return points with longitudes as the grids count them."""
    main, ranges = list(points.main), list(points.ranges)
    for place, grid in enumerate(grids[: len(main)]):
        if isinstance(grid, Longitudes):
            main[place] = grid.around(main[place])
            ranges[place] = float(np.min(main[place])), float(np.max(main[place]))
    return replace(points, main=main, ranges=ranges)


def check_arc(ends: Ends, name: str) -> None:
    """Check that longitudes of data that came later leave the arc of the first open."""
    if ends[1] - ends[0] > FIELD.widest_arc:
        raise ValueError(
            f"{name}: with these rows the longitudes go from {ends[0]:g} to {ends[1]:g}, more than "
            f"{FIELD.widest_arc:g} degrees, but the first data did not go round the Earth. Say "
            "before the first data that they do: a domain of the longitude of (-180, 180)."
        )
