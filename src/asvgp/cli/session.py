"""What all commands share: how they talk, and the options that say so."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from asvgp.cli.sizes import in_words, smaller


class Session:
    """One run of a command: answers to standard output, everything else to standard error.

    Attributes
    ----------
    json : bool
        Whether answers are for machines.
    progress : "auto", True or False
        As `GPRegressor` has it.
    quiet : bool
        Whether notes are left out.
    debug : bool
        Whether errors show where they came from.
    """

    def __init__(self) -> None:
        self.json, self.quiet, self.debug = False, False, False
        self.progress: Any = "auto"

    def answer(self, facts: Mapping[str, Any], text: str) -> None:
        """What was asked for: as text, or as JSON."""
        click.echo(as_json(facts) if self.json else text)

    def note(self, text: str) -> None:
        """Something worth knowing."""
        if not self.quiet:
            click.echo(text, err=True)

    @contextmanager
    def plain_warnings(self) -> Iterator[None]:
        """Warnings of the library as lines, each once; those of others are for programmers."""
        said: set[str] = set()

        def show(message, category, *_, **__) -> None:
            text = for_the_shell(" ".join(str(message).split()))
            if text not in said:
                said.add(text)
                click.echo(f"warning: {text}", err=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    def load(self, path):
        """A model, which shows progress as this session does."""
        from asvgp.saving.persistence import load

        gp = load(path)
        gp.progress = self.progress
        return gp

    def save(self, gp, path) -> None:
        """Save a model; how this session showed progress is no part of it."""
        gp.progress = "auto"
        gp.save(path)
        gp.progress = self.progress
        size = os.path.getsize(path)
        self.note(f"Wrote {path} ({in_words(size)}).{smaller(gp, size)}")


pass_session = click.make_pass_decorator(Session, ensure=True)


def _setting(name: str) -> Callable:
    def keep(context: click.Context, _parameter, value) -> None:
        session = context.ensure_object(Session)
        if name == "progress":
            session.progress = "auto" if value is None else value
            session.quiet = value is False
        elif value:
            setattr(session, name, value)

    return keep


_OPTIONS = (
    click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_setting("json"),
        help="Answer in JSON on standard output.",
    ),
    click.option(
        "--progress/--quiet",
        default=None,
        expose_value=False,
        callback=_setting("progress"),
        help="Progress of what takes more than two seconds, also where standard error is no "
        "terminal; or neither that nor notes.",
    ),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_setting("debug"),
        help="Show where an error came from.",
    ),
)


def common(function: Callable) -> Callable:
    """Give a command the session and the options about it."""
    function = pass_session(function)
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def as_json(facts: Any) -> str:
    """JSON text: times as ISO 8601 has them, durations in seconds, null for what is no number.

    Examples
    --------
    >>> import numpy as np
    >>> print(as_json({"rows": np.int64(3), "error": float("nan")}))
    {
      "rows": 3,
      "error": null
    }
    """
    return json.dumps(_plain(facts), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist") and getattr(value, "dtype", None) is not None:
        if value.dtype.kind in "mM":
            return _plain(value.astype(str).tolist())
        value = value.tolist()
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def in_one_line(error: BaseException) -> str:
    """An error in a sentence."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError) and not str(error):
        return "there is not enough memory; give a smaller num_basis, or a memory limit"
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return for_the_shell(" ".join(str(text).split())) or type(error).__name__


# What the library calls its arguments, as the options are called.
_OPTIONS_OF = (
    (r"domain=\((None|\(a, b\))(, (None|\(a, b\)))+\)", "--domain a,b once for each input"),
    (r"\bdomain=\(([^(),]+), ([^(),]+)\)", r"--domain \1,\2"),
    (r"\bnum_basis=(\d+)", r"--num-basis \1"),
    (r"optimizer=None and a noise_variance", "--fixed and --noise"),
    (r"\+ Constant\(\)", "+ constant"),
    (r"\boutput=0 to (\d+)", r"--output-number 0 to \1"),
    (r"^output must be a whole number", "--output-number must be a whole number"),
    (
        r"Fit the second with partial_fit on the first instead",
        "Add the data of the second to the first with asvgp update, or fit both with the same "
        "--domain",
    ),
)


def for_the_shell(text: str) -> str:
    """A message of the library, with options in place of arguments.

    Examples
    --------
    >>> for_the_shell("There is no range. Give one with domain=(a, b).")
    'There is no range. Give one with --domain a,b.'
    """
    for argument, option in _OPTIONS_OF:
        text = re.sub(argument, option, text)
    return text


def drop_output() -> None:
    """Let nothing more be written to a pipe that was closed, not at the end either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
