"""Choose the structure of a model: a line where all processes are over one input, or a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asvgp.data.columns import Layout, Table, match
from asvgp.data.inputs import refuse_text
from asvgp.kernels import Kernel, check_units
from asvgp.structures.field import Field
from asvgp.structures.line import Line
from asvgp.structures.structure import Structure
from asvgp.times import TimeAxis, is_time


def structure_of(kernel: Kernel, table: Table, trained: bool = True, domain=None) -> Structure[Any]:
    """Return the structure of a kernel over the columns of X, with the units of its inputs.

    Times are counted from the beginning of the domain where that is given, so that models of
    different data on one domain agree; else from the first.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> type(structure_of(Matern32(), Table(np.zeros((5, 1))))).__name__
    'Line'
    >>> type(structure_of(Matern32(), Table(np.zeros((5, 2))))).__name__
    'Field'
    """
    layout = match(kernel, table)
    kind = class_of(layout)
    pairs = _pairs(domain, layout, kind is Line)
    axes = []
    for number in layout.used:
        column, axis = table.column(number), None
        if is_time(column):
            axis = TimeAxis.from_values(column, name=table.column_name(number))
            axis = _counted_from(axis, pairs.get(number))
        elif not isinstance(column, np.ndarray) or column.dtype.kind in "OU":
            refuse_text(column, table.column_name(number))
        axes.append(axis)
    times = {number for number, axis in zip(layout.used, axes, strict=True) if axis is not None}
    check_units(layout.kernel, times, not trained)
    return kind(layout, tuple(axes))


def class_of(layout: Layout) -> type[Line] | type[Field]:
    """Return the class of the structure that a layout has."""
    return Line if layout.single else Field


def _pairs(domain, layout: Layout, single: bool) -> dict:
    """Return the domains that the user gave, by column."""
    if single:
        return {layout.input: domain}
    return dict(zip(layout.over, domain if isinstance(domain, Sequence) else (), strict=False))


def _counted_from(axis: TimeAxis, pair) -> TimeAxis:
    """Return the axis counted from the beginning of a domain, where there is one to be read."""
    try:
        return axis if pair is None else replace(axis, origin=TimeAxis.from_values(pair).origin)
    except (TypeError, ValueError):  # what is wrong with it is said where it is used
        return axis
