"""Which column of X is what: the splines' input, or a covariate with a linear effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from asvgp.kernels import Component, Constant, Effect, Kernel, Linear, Sum


class Table:
    """X as columns, whatever brought it; nothing is copied.

    Examples
    --------
    >>> table = Table(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> table.width, table.names, table.column(1).tolist()
    (2, None, [2.0, 4.0])
    """

    def __init__(self, X):
        self.frame = hasattr(X, "columns")
        if sparse.issparse(X) or (not self.frame and getattr(X, "ndim", 1) > 1):
            # What scikit-learn would refuse, it refuses in its own words.
            check_array(X, dtype=None, ensure_all_finite=False)  # pyright: ignore[reportArgumentType]
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if getattr(X, "ndim", 1) == 0:
            raise ValueError(f"X must be rows, of shape (n,) or (n, columns), got {X!r}: say [x].")
        self.values: Any = X
        shape = getattr(X, "shape", (0,))
        self.width = int(shape[1]) if len(shape) > 1 else 1
        self.names = [str(name) for name in self.values.columns] if self.frame else None

    def column(self, number: int):
        """One column, in the type it came in."""
        if self.frame:
            frame = self.values
            return frame.iloc[:, number] if hasattr(frame, "iloc") else frame.to_series(number)
        return self.values if getattr(self.values, "ndim", 1) == 1 else self.values[:, number]


@dataclass(frozen=True)
class Layout:
    """The parts of a kernel matched to the columns of X.

    Attributes
    ----------
    kernel : Kernel
        With columns as numbers.
    given : Kernel
        With columns as the user named them.
    input : int
        Column of the splines' input.
    linear : tuple of int
        Columns of the linear effects that are not of that input, in the kernel's order.
    """

    kernel: Kernel
    given: Kernel
    input: int
    linear: tuple[int, ...]

    def relabelled(self, kernel: Kernel) -> Kernel:
        """A kernel with columns as the user named them."""
        pairs = zip(kernel.components, self.given.components, strict=True)
        parts = tuple(part.replace(dim=_dim(own)) for part, own in pairs)
        if isinstance(kernel, Sum):
            return Sum(parts, self.given.effects)
        return parts[0]


def match(kernel: Kernel, table: Table) -> Layout:
    """Find the columns that the parts of a kernel speak of.

    Examples
    --------
    >>> from asvgp import Linear, Matern32
    >>> match(Matern32(dim=1) + Linear(0), Table(np.zeros((5, 2)))).linear
    (0,)
    """
    inputs = {_find(part, table) for part in kernel.components if _dim(part) is not None}
    unsaid = [part for part in kernel.components if _dim(part) is None]
    if unsaid and not inputs and table.width > 1:
        raise ValueError(
            f"X has {table.width} columns, and {unsaid[0]!r} does not say which of them is its "
            f"input. Say for example dim={table.names[0] if table.names else 0!r}, and give the "
            "others linear effects, + Linear(...); splines over several inputs are coming."
        )
    if len(inputs) > 1:
        raise ValueError(
            f"The kernels are over {len(inputs)} different columns of X ({_named(inputs, table)}). "
            "This version has splines over one input; the others can have linear effects, "
            "+ Linear(...)."
        )
    (own,) = inputs or {0}
    numbers = []
    for effect in kernel.effects:
        constant = isinstance(effect, Constant)
        number = None if constant else own if _dim(effect) is None else _find(effect, table)
        if number in numbers:
            raise ValueError(f"{effect!r} is in the kernel twice: {kernel!r}.")
        numbers.append(number)
    linear = tuple(number for number in numbers if number is not None and number != own)
    unused = set(range(table.width)) - {own, *linear}
    if unused:
        first = min(unused)
        name = table.names[first] if table.names else first
        raise ValueError(
            f"{len(unused)} of {table.width} columns of X have neither a kernel nor an effect: "
            f"{_named(unused, table)}. Add one, for example + Linear({name!r}), or drop them."
        )
    label = own if table.width > 1 else None  # no need to speak of the only one
    parts = tuple(part.replace(dim=label) for part in kernel.components)
    if not isinstance(kernel, Sum):
        return Layout(parts[0], kernel, own, linear)
    effects = tuple(
        replace(effect, dim=label if number == own else number)
        if isinstance(effect, Linear)
        else effect
        for effect, number in zip(kernel.effects, numbers, strict=True)
    )
    return Layout(Sum(parts, effects), kernel, own, linear)


def _dim(part: Component | Effect) -> int | str | None:
    return getattr(part, "dim", None)


def _find(part: Component | Effect, table: Table) -> int:
    """The column a part names."""
    dim = _dim(part)
    if isinstance(dim, str):
        if table.names is None:
            raise ValueError(f"{part!r} names a column, but X has no column names: say its number.")
        if table.names.count(dim) != 1:
            times = table.names.count(dim)
            raise ValueError(
                f"{part!r}: X has {times or 'no'} column{'s' * (times > 1)} {dim!r}; its columns "
                f"are {', '.join(map(repr, table.names))}."
            )
        return table.names.index(dim)
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
        raise TypeError(f"{part!r}: dim must be the number or the name of a column of X.")
    if not -table.width <= dim < table.width:
        raise ValueError(f"{part!r}: X has {table.width} column{'s' * (table.width > 1)}.")
    return int(dim) % table.width


def _named(numbers, table: Table) -> str:
    return ", ".join(repr(table.names[i]) if table.names else str(i) for i in sorted(numbers))
