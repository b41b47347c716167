"""Roles of the columns of a table: inputs, target, weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from numbers import Real
from typing import Any

from asvgp.kernels import Kernel, Linear
from asvgp.runtime.checks import closest
from asvgp.times import as_duration

BESIDE = ("exposure", "offset", "event", "trials")  # for likelihoods that are not Gaussian


@dataclass(frozen=True)
class Roles:
    """Names of columns by their use, as the user gave them.

    The `BESIDE` may also be numbers, which then are those of all rows.

    Examples
    --------
    >>> from asvgp import Matern32
    >>> names = ["time", "power", "site"]
    >>> Roles("power").resolved(names, Matern32(dim="time")).inputs
    ('time',)
    """

    target: Any = None
    inputs: Any = None
    weight: Any = None
    noise_variance: Any = None
    width: Any = None
    exposure: Any = None
    offset: Any = None
    event: Any = None
    trials: Any = None

    @property
    def beside(self) -> dict[str, Any]:
        """What is given of `BESIDE`, by its name."""
        given = {name: getattr(self, name) for name in BESIDE}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def targets(self) -> tuple:
        """Names of all targets."""
        return () if self.target is None else as_names(self.target)

    def with_(self, **given) -> Roles:
        """Return these roles with those that are given and not None."""
        given = {name: value for name, value in given.items() if value is not None}
        for name, value in given.items():
            before = getattr(self, name)
            if before is not None and before != value:
                raise ValueError(f"{name} is given twice: {before!r} in scan, {value!r} in fit.")
        return replace(self, **given)

    def columns(self, inputs_only: bool = False) -> tuple:
        """Return all columns that must be read, each once, in the order of the roles."""
        further = [value for value in self.beside.values() if isinstance(value, str)]
        beside = (*self.targets, self.weight, self.noise_variance, *further)
        beside = () if inputs_only else beside
        width = self.width if is_column(self.width) else None
        names = [*(self.inputs or ()), *beside, width]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def resolved(
        self, names: Sequence, kernel: Kernel | None = None, hidden: Sequence = ()
    ) -> Roles:
        """Return these roles with inputs chosen, and check that all their columns exist.

        Columns that are ``hidden`` are inputs only where they are named.
        """
        visible, names = names, [*names, *hidden]
        there, wanted = {*names}, named_by(kernel)
        width = self.width if isinstance(self.width, str | int) else None
        further = [name for name in self.beside.values() if isinstance(name, str | int)]
        others = {*self.targets, self.weight, self.noise_variance, width, *further}
        if self.inputs is not None:
            inputs = as_names(self.inputs)
        elif wanted is None:
            inputs = tuple(name for name in visible if name not in others)
        else:
            for name in wanted:
                if name not in there:
                    raise ValueError(f"The kernel is over {name!r}. " + _no_column(name, names))
            check_roles(wanted, self.targets, ", by the kernel,")
            inputs = tuple(name for name in names if name in wanted and name not in others)
        used = {*inputs, *others}
        check_distinct_names([name for name in names if name in used])
        roles = replace(self, inputs=inputs)
        numbered = further if isinstance(visible, range) else []
        for name in (*roles.columns(), *numbered):
            if name not in there:
                raise ValueError(_no_column(name, names))
        if not inputs:
            raise ValueError(
                f"No column is left to be an input: there are {listed(visible)}, and the target "
                f"is {self.target!r}."
                + (f" Name the index, {hidden[0]!r}, in inputs." if hidden else "")
            )
        check_roles(inputs, self.targets)
        return roles


def check_roles(inputs: Sequence, targets: Sequence, by: str = "") -> None:
    """Check that every input is named once, and is not a target; ``by`` says who named it."""
    if len({*inputs}) < len(inputs):
        raise ValueError(f"An input is named twice: {listed(inputs)}.")
    if both := [name for name in inputs if name in targets]:
        raise ValueError(
            f"{both[0]!r} is the target and{by} an input: a target cannot explain itself."
        )


def check_distinct_names(names: Sequence, where: str = "") -> None:
    """Check that no two columns share a name; ``where`` begins the message."""
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"{where}There are {count} columns {name!r}: rename all but one.")


def check_beside(name: str, value: Any) -> None:
    """Check that what belongs to the rows of a source is a column, or one number for all."""
    if value is None or isinstance(value, str) or _is_number(value):
        return
    raise TypeError(
        f"{name} must be the name of a column, or one number for all rows, where X is a source, "
        f"not {type(value).__name__}."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def as_names(given) -> tuple:
    """Return one name or several as a tuple."""
    return (given,) if isinstance(given, str | int) else tuple(given)


def is_column(width) -> bool:
    """Return True if a width is the name of a column, not a duration."""
    if isinstance(width, str):
        try:
            return as_duration(width) is None
        except ValueError:
            return True
    return False


def named_by(kernel: Kernel | None) -> list[str] | None:
    """Return the columns that a kernel names; None where a part of it is over all of them."""
    if kernel is None:
        return None
    dims = [factor.dim for part in kernel.components for factor in part.along]
    slopes = [e.dim for e in kernel.effects if isinstance(e, Linear) and e.dim is not None]
    if not all(isinstance(dim, str) for dim in dims):
        return None
    return list(dict.fromkeys([*dims, *(dim for dim in slopes if isinstance(dim, str))]))


def _no_column(name, names: Sequence) -> str:
    hint = about_header(names) or closest(name, names)
    return f"There is no column {name!r}; there are {listed(names)}.{hint}"


def about_header(names: Sequence) -> str:
    """Say what to do about a first line that names no columns, or all of them in one.

    Examples
    --------
    >>> about_header(["time", "power"])
    ''
    >>> about_header(["2024-01-01", "1.5"])
    " The first line seems to hold values: put a line with the columns' names above it."
    """
    marks = [mark for mark in ";|\t" if len(names) == 1 and mark in str(names[0])]
    if marks == ["\t"]:
        return " Values seem to be separated by tabs: give the file the ending .tsv."
    if marks:
        return (
            f" Values seem to be separated by {marks[0]!r}: write them with commas, and with "
            f"points in numbers, for example by pandas.read_csv(file, sep={marks[0]!r}, "
            "decimal=',').to_csv(new, index=False)."
        )
    numbered = [str(name) for name in names] == [str(place) for place in range(len(names))]
    if names and not numbered and all(_is_value(str(name)) for name in names):
        return " The first line seems to hold values: put a line with the columns' names above it."
    return ""


def _is_value(text: str) -> bool:
    """Return True if text spells a number or a time."""
    for read in (float, datetime.fromisoformat):
        with suppress(ValueError):
            read(text.strip())
            return True
    return False


def listed(names: Collection) -> str:
    """List names for a message, at most 20 of them."""
    shown = ", ".join(repr(name) for name in [*names][:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "none"
