"""Values of options: kernels, numbers of basis functions, intervals, places, columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click


class Parsed(click.ParamType):
    """A value that a function reads from text; its error says what is wrong."""

    def __init__(self, name: str, read: Callable[[str], Any]):
        self.name, self.read = name, read

    def convert(self, value, param, ctx):
        """Return the value."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except (TypeError, ValueError) as error:
            self.fail(str(error), param, ctx)


def level(text: str) -> float:
    """Return the probability of a band, written as such or in per cent."""
    from asvgp.likelihoods.gaussian import probability

    return probability(text)


LEVEL = Parsed("probability", level)


class KernelText(Parsed):
    """A kernel as text: ``matern32 + sho(period=1d)``."""

    def shell_complete(self, ctx, param, incomplete):
        """Return the names of kernels."""
        from click.shell_completion import CompletionItem

        from asvgp.kernels.text import PARTS

        return [CompletionItem(name) for name in PARTS if name.startswith(incomplete.lower())]


def kernel(text: str) -> Any:
    """Return the kernel that a text stands for."""
    from asvgp.kernels.text import parse_kernel

    return parse_kernel(text)


def transform(text: str) -> Any:
    """Return the name or the power of a transform of y; None for ``none``."""
    from asvgp.data.transforms import parse_transform

    given: Any = None if text == "none" else text
    with suppress(ValueError):
        given = float(text)
    parse_transform(given)
    return given


class LikelihoodText(Parsed):
    """A likelihood as text: ``student-t(df=4)``."""

    def shell_complete(self, ctx, param, incomplete):
        """Return the names of likelihoods."""
        from click.shell_completion import CompletionItem

        from asvgp.likelihoods.names import FAMILIES

        names = ("gaussian", *FAMILIES)
        return [CompletionItem(name) for name in names if name.startswith(incomplete.lower())]


def likelihood(text: str) -> Any:
    """Return the likelihood that a text stands for; None for Gaussian noise.

    Examples
    --------
    >>> likelihood("student-t(df=3)")
    StudentT(df=3.0, scale="auto")
    >>> likelihood("heteroscedastic(kernel=matern52(2) + constant)")
    Heteroscedastic(kernel=Matern52(lengthscale=2.0, variance=1.0) + Constant())
    """
    from asvgp.likelihoods.names import family_named

    if of_noise := re.fullmatch(r"\s*(heteroscedastic)\s*\(\s*kernel\s*=(.*)\)\s*", text, re.I):
        return family_named(of_noise[1], kernel=kernel(of_noise[2].strip()))
    found = re.fullmatch(r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*", text)
    if found is None:
        raise ValueError(f"{text!r} is no likelihood: write poisson, or student-t(df=4).")
    name, inside = found[1], (found[2] or "").strip()
    pairs = [part.partition("=") for part in inside.split(",")] if inside else []
    for key, sign, _ in pairs:
        if not sign or not key.strip():
            raise ValueError(f"{text!r} is no likelihood: write its numbers as {name}(name=value).")
    if name.lower() == "gaussian" and not pairs:
        return None
    return family_named(name, **{key.strip(): _number_or_word(value) for key, _, value in pairs})


def _number_or_word(text: str) -> Any:
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text.strip()


def number_or_column(text: str) -> float | str:
    """Return a number, or else the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def num_basis(text: str) -> Any:
    """Return ``auto``, a number, or one for every input."""
    if text == "auto":
        return text
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"{text!r} is neither 'auto' nor whole numbers such as 500 or 200,100."
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def auto_or_number(text: str) -> Any:
    """Return ``auto`` or a positive number."""
    with suppress(ValueError):
        if text == "auto" or float(text) > 0.0:
            return text if text == "auto" else float(text)
    raise ValueError(f"{text!r} is neither 'auto' nor a positive number.")


def span(text: str) -> tuple[Any, Any]:
    """Return an interval of numbers or times, written ``A,B``."""
    try:
        lower, upper = (number_or_time(end) for end in text.split(","))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a pair of numbers or times: write 0,10 or 2024-01-01,2024-02-01."
        ) from None
    return lower, upper


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
    from asvgp.sources.table import TableSource

    found: dict[str, None] = {}
    for path in paths:
        with suppress(Exception):  # there is no one to tell
            source = scan(path)
            found |= dict.fromkeys(source.names() if isinstance(source, TableSource) else ())
    return list(found)


def number_or_time(text: str) -> Any:
    """Return a float, a datetime64, or a datetime if there is an offset.

    Examples
    --------
    >>> number_or_time("2.5"), number_or_time("2024-01-31T12")
    (2.5, np.datetime64('2024-01-31T12','h'))
    """
    import numpy as np

    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo is not None:
            return time
    found = np.datetime64(text.strip())  # which knows months and nanoseconds, too
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


KERNEL = KernelText("kernel", kernel)
LIKELIHOOD = LikelihoodText("likelihood", likelihood)
AUTO_OR_NUMBER = Parsed("auto|number", auto_or_number)
NUM_BASIS = Parsed("auto|N|N,N", num_basis)
SPAN = Parsed("A,B", span)
TRANSFORM = Parsed("none|auto|log|sqrt|POWER", transform)
NUMBER_OR_DURATION = Parsed("number|duration", number_or_duration)
