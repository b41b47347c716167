"""Which structure a kernel over the columns of X has: a line, or a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from asvgp.data.columns import Layout, Table, match
from asvgp.data.inputs import column_name, refuse_text
from asvgp.kernels import Kernel, check_units
from asvgp.structures.field import Field
from asvgp.structures.line import Line
from asvgp.times import TimeAxis, is_time


def structure_of(kernel: Kernel, X, untrained: bool = False, domain=None) -> Any:
    """The structure, a `Line` or a `Field`, with what X says of its inputs' units.

    Times are counted from the beginning of the domain where that is given, so that models of
    different data on one domain agree; else from the first.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> type(structure_of(Matern32(), np.zeros((5, 1)))).__name__
    'Line'
    >>> type(structure_of(Matern32(), np.zeros((5, 2)))).__name__
    'Field'
    """
    table = Table(X)
    layout = match(kernel, table)
    axes = []
    for number in layout.used:
        column = table.column(number)
        refuse_text(column, column_name(table, number) if table.width > 1 else "X")
        name = column_name(table, number) if table.names else "X"
        axis = TimeAxis.from_values(column, name=name) if is_time(column) else None
        axes.append(axis and _from_domain(axis, domain, layout, number))
    times = {number for number, axis in zip(layout.used, axes, strict=True) if axis is not None}
    check_units(layout.kernel, times, untrained)
    return Line(layout, axes[0]) if layout.single else Field(layout, tuple(axes))


def _from_domain(axis: TimeAxis, domain, layout: Layout, number: int) -> TimeAxis:
    """The axis, counted from the domain's beginning where there is one to be read."""
    if layout.single:
        pair = domain
    else:
        pairs = domain if isinstance(domain, Sequence) else ()
        pair = dict(zip(layout.over, pairs, strict=False)).get(number)
    try:
        return axis if pair is None else replace(axis, origin=TimeAxis.from_values(pair).origin)
    except (TypeError, ValueError):  # what is wrong with it is said where it is used
        return axis
