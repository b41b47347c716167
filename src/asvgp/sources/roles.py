"""Which column of a table is what: inputs, target, weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from asvgp.kernels import Kernel, Linear
from asvgp.times import as_duration


@dataclass(frozen=True)
class Roles:
    """Names of columns by what they are for, as the user gave them.

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

    @property
    def targets(self) -> tuple:
        """Names of all targets."""
        return () if self.target is None else as_names(self.target)

    def with_(self, **given) -> Roles:
        """The same with what is given and not None."""
        given = {name: value for name, value in given.items() if value is not None}
        for name, value in given.items():
            own = getattr(self, name)
            if own is not None and own != value:
                raise ValueError(f"{name} is given twice: {own!r} in scan, {value!r} in fit.")
        return replace(self, **given)

    def columns(self, inputs_only: bool = False) -> tuple:
        """All columns that must be read, each once, in the order of the roles."""
        beside = () if inputs_only else (*self.targets, self.weight, self.noise_variance)
        width = self.width if is_column(self.width) else None
        found = [*(self.inputs or ()), *beside, width]
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def resolved(
        self, names: Sequence, kernel: Kernel | None = None, hidden: Sequence = ()
    ) -> Roles:
        """The same with inputs chosen and all names looked up among those there are.

        Those that are ``hidden`` must be asked for by name.
        """
        visible, names = names, [*names, *hidden]
        for name in {*names}:
            if list(names).count(name) > 1 and self._asks_for(name, kernel):
                raise ValueError(
                    f"There are {list(names).count(name)} columns {name!r}: rename all but one."
                )
        inputs = self.inputs
        if inputs is None:
            taken = {*self.targets, self.weight, self.noise_variance, self.width}
            wanted = named_by(kernel)
            rest = [n for n in (visible if wanted is None else names) if n not in taken]
            inputs = rest if wanted is None else [n for n in rest if n in wanted]
            missing = [] if wanted is None else [name for name in wanted if name not in names]
            for name in missing:
                raise ValueError(f"The kernel is over {name!r}. " + _no_column(name, names))
            if wanted and (both := [n for n in wanted if n in self.targets]):
                raise ValueError(
                    f"{both[0]!r} is the target and, by the kernel, an input: a target cannot "
                    "explain itself."
                )
        inputs = as_names(inputs)
        found = replace(self, inputs=inputs)
        for name in found.columns():
            if name not in names:
                raise ValueError(_no_column(name, names))
        if not inputs:
            raise ValueError(
                f"No column is left to be an input: there are {_listed(visible)}, and the target "
                f"is {self.target!r}."
                + (f" Name the index, {hidden[0]!r}, in inputs." if hidden else "")
            )
        if len({*inputs}) < len(inputs):
            raise ValueError(f"An input is named twice: {_listed(inputs)}.")
        if both := [name for name in inputs if name in self.targets]:
            raise ValueError(
                f"{both[0]!r} is the target and an input: a target cannot explain itself. Leave it "
                "out of inputs."
            )
        return found

    def _asks_for(self, name, kernel: Kernel | None) -> bool:
        wanted = named_by(kernel)
        if self.inputs is None and wanted is None:
            return True
        inputs = as_names(self.inputs) if self.inputs is not None else wanted or ()
        return name in (*inputs, *self.targets, self.weight, self.noise_variance, self.width)


def as_names(given) -> tuple:
    """One name or several, as a tuple."""
    return (given,) if isinstance(given, str | int) else tuple(given)


def is_column(width) -> bool:
    """Whether a width is the name or number of a column, not a duration."""
    if isinstance(width, str):
        try:
            return as_duration(width) is None
        except ValueError:
            return True
    return False


def named_by(kernel: Kernel | None) -> list[str] | None:
    """The columns that a kernel names; None where a part of it is over all there are."""
    if kernel is None:
        return None
    dims = [factor.dim for part in kernel.components for factor in part.factors]
    slopes = [e.dim for e in kernel.effects if isinstance(e, Linear) and e.dim is not None]
    if not all(isinstance(dim, str) for dim in dims):
        return None
    return list(dict.fromkeys([*dims, *(dim for dim in slopes if isinstance(dim, str))]))


def closest(name, names: Sequence, cutoff: float = 0.6) -> str:
    """A question after the name that may be meant, case aside; empty where there is none.

    Examples
    --------
    >>> closest("Power", ["time", "power"])
    " Did you mean 'power'?"
    """
    plain = {str(n).lower(): str(n) for n in reversed(names)}
    found = get_close_matches(str(name).lower(), plain, n=1, cutoff=cutoff)
    return f" Did you mean {plain[found[0]]!r}?" if found else ""


def _no_column(name, names: Sequence) -> str:
    hint = about_header(names) or closest(name, names)
    return f"There is no column {name!r}; there are {_listed(names)}.{hint}"


def about_header(names: Sequence) -> str:
    """What to do about a first line that names no columns, or all of them in one.

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
    """Whether text spells a number or a time."""
    for read in (float, datetime.fromisoformat):
        with suppress(ValueError):
            read(text.strip())
            return True
    return False


def _listed(names: Sequence) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "none"
