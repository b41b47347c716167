"""Which structure a kernel over the columns of X has: a line, or a field."""

from __future__ import annotations

from typing import Any

from asvgp.columns import Table, match
from asvgp.field.structure import Field
from asvgp.inputs import column_name, refuse_text
from asvgp.kernels import Kernel, check_units
from asvgp.line import Line
from asvgp.times import TimeAxis, is_time


def structure_of(kernel: Kernel, X, untrained: bool = False) -> Any:
    """The structure, a `Line` or a `Field`, with what X says of its inputs' units.

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
        axes.append(TimeAxis.from_values(column) if is_time(column) else None)
    times = {number for number, axis in zip(layout.used, axes, strict=True) if axis is not None}
    check_units(layout.kernel, times, untrained)
    return Line(layout, axes[0]) if layout.single else Field(layout, tuple(axes))
