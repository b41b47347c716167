"""Values of options: kernels, numbers of basis functions, intervals, places, columns."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click


class KernelText(click.ParamType):
    """A kernel as text: ``matern32 + sho(period=1d)``."""

    name = "kernel"

    def convert(self, value, param, ctx):
        """Return the kernel."""
        from asvgp.kernels.text import parse_kernel

        if not isinstance(value, str):
            return value
        try:
            return parse_kernel(value)
        except (TypeError, ValueError) as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx, param, incomplete):
        """Return the names of kernels."""
        from click.shell_completion import CompletionItem

        from asvgp.kernels.text import PARTS

        return [CompletionItem(name) for name in PARTS if name.startswith(incomplete.lower())]


class NumBasis(click.ParamType):
    """``auto``, a number, or one for every input."""

    name = "auto|N|N,N"

    def convert(self, value, param, ctx):
        """Return the value that `GPRegressor` takes."""
        if not isinstance(value, str) or value == "auto":
            return value
        try:
            numbers = tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is neither 'auto' nor whole numbers such as 500 or 200,100.")
        return numbers[0] if len(numbers) == 1 else numbers


class Span(click.ParamType):
    """An interval of numbers or times: ``A,B``."""

    name = "A,B"

    def convert(self, value, param, ctx):
        """Return a pair."""
        if not isinstance(value, str):
            return value
        ends = value.split(",")
        try:
            lower, upper = (number_or_time(end) for end in ends)
        except ValueError:
            self.fail(
                f"{value!r} is not a pair of numbers or times: write 0,10 or 2024-01-01,2024-02-01."
            )
        return lower, upper


class NumberOrDuration(click.ParamType):
    """A number, or a duration such as ``36h``."""

    name = "number|duration"

    def convert(self, value, param, ctx):
        """Return a float or a duration."""
        if not isinstance(value, str):
            return value
        try:
            return number_or_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ColumnName(click.ParamType):
    """A column of the data."""

    name = "column"

    def shell_complete(self, ctx, param, incomplete):
        """Return the columns of the files named before."""
        from click.shell_completion import CompletionItem

        # An option that still lacks its value leaves the arguments before it unread.
        names = column_names([*(ctx.params.get("data") or ()), *ctx.args])
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class OutputFile(click.ParamType):
    """A file to write, with one of several endings, in a folder that exists."""

    name = "file"

    def __init__(self, *endings: str):
        self.endings = endings

    def convert(self, value, param, ctx):
        """Return the path as it was given."""
        path = Path(value)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r}.", param, ctx)
        if path.is_dir():
            self.fail(f"{value!r} is a folder; name a file.", param, ctx)
        if self.endings and not (value == "-" and "-" in self.endings):
            known = [ending for ending in self.endings if ending != "-"]
            if not path.name.lower().endswith(tuple(known)):
                self.fail(f"{value!r} must end in {', '.join(known)}.", param, ctx)
        return value

    def shell_complete(self, ctx, param, incomplete):
        """Let the shell complete files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def column_names(paths) -> list[str]:
    """Return the columns of those paths that are tables."""
    from asvgp.sources.source import scan

    found: dict[str, None] = {}
    for path in paths:
        with suppress(Exception):  # there is no one to tell
            found |= dict.fromkeys(scan(path).names())  # pyright: ignore[reportAttributeAccessIssue]
    return list(found)


def number_or_time(text: str) -> Any:
    """Return a float, a datetime64, or a datetime if there is an offset.

    Examples
    --------
    >>> number_or_time("2.5"), number_or_time("2024-01-31T12")
    (2.5, np.datetime64('2024-01-31T12','h'))
    """
    import numpy as np

    try:
        return float(text)
    except ValueError:
        pass
    try:
        aware = datetime.fromisoformat(text.strip())
    except ValueError:
        aware = None  # NumPy knows months and nanoseconds, too
    if aware is not None and aware.tzinfo is not None:
        return aware
    found = np.datetime64(text.strip())
    if np.isnat(found):
        raise ValueError(f"{text!r} is not a time.")
    return found


def number_or_duration(text: str) -> Any:
    """Return a float or a duration.

    Examples
    --------
    >>> number_or_duration("0.5"), number_or_duration("36h")
    (0.5, '1.5 days')
    """
    from asvgp.times import as_duration

    try:
        return float(text)
    except ValueError:
        return as_duration(text)
