"""Output, warnings and options that all commands share."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from asvgp.runtime.interrupts import plain_interrupts
from asvgp.runtime.memory import in_words


class Session:
    """One run of a command: answers to standard output, everything else to standard error."""

    def __init__(self) -> None:
        self.json = False  # True if answers are JSON
        self.quiet = False  # True if notes are left out
        self.debug = False  # True if errors show a traceback
        self.progress: Any = "auto"  # as in `GPRegressor`

    def answer(self, facts: Mapping[str, Any], text: str) -> None:
        """Print the answer of a command as text or as JSON."""
        click.echo(as_json(facts) if self.json else text)

    def wrote(self, facts: Mapping[str, Any], text: str) -> None:
        """Say what was written: the facts as JSON where that is wanted, or a note."""
        if self.json:
            click.echo(as_json(facts))
        else:
            self.note(text)

    def note(self, text: str) -> None:
        """Print a note, unless the session is quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    @contextmanager
    def plain_warnings(self) -> Iterator[None]:
        """Print warnings of the library as lines, each once, and no others."""
        said: set[str] = set()

        def show(message, category, *_, **__) -> None:
            text = with_options(" ".join(str(message).split()))
            if text not in said:
                said.add(text)
                click.echo(f"warning: {text}", err=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    def load(self, path, reading: bool = False):
        """Return a model that shows progress as this session does.

        Where it is for ``reading`` only, the one process of a classifier of two classes, or of
        events, stands for these.
        """
        from asvgp.estimators.classifier import GPClassifier
        from asvgp.estimators.persistence import load
        from asvgp.estimators.regressor import GPRegressor

        gp = load(path)
        if not isinstance(gp, GPRegressor):
            several = isinstance(gp, GPClassifier) and len(gp.regressors_) > 1
            if several or not reading:
                raise ValueError(
                    f"{path} holds a {type(gp).__name__}, which this command cannot take: use it "
                    f"in Python, by asvgp.load({str(path)!r})."
                )
            what = "intensities"
            if isinstance(gp, GPClassifier):
                what = f"probabilities of {gp.classes_[1].item()!r}"
            self.note(f"{path} holds a {type(gp).__name__}: predictions are {what}.")
            gp = gp.regressor_
        gp.progress = self.progress
        return gp

    def save(self, gp, path, full: bool = False) -> None:
        """Save a model without this session's setting of progress."""
        gp.progress = "auto"
        gp.save(path, full=full)
        gp.progress = self.progress
        size = os.path.getsize(path)
        self.note(f"Wrote {path} ({in_words(size)}).{smaller(gp, size, full)}")


LARGE = 5_000_000  # bytes of a model file that is worth advice


def smaller(gp, size: int, full: bool) -> str:
    """Return advice that makes the file of a model on an automatic grid small, or no text."""
    if size <= LARGE or gp.num_basis != "auto":
        return ""
    kept, count = gp.stats_, gp.num_basis_
    if full:
        return " Without --full it holds what predictions need, and can be much smaller."
    if isinstance(count, tuple):
        return ""
    levels = [level for level in gp.resolution_ if size * level.num_basis <= LARGE * count]
    if not levels:
        return ""
    last, best = levels[-1], gp.resolution_[-1]
    loss = (best.elbo - last.elbo) / (kept.count * len(kept.squares))
    about = in_words(round(size * last.num_basis / count))
    return (
        f" The automatic grid has {count:,} basis functions: --num-basis {last.num_basis} would "
        f"make the file about {about}, for {loss:.2g} nats per observation."
    )


def _store(context: click.Context, parameter: click.Parameter, value) -> None:
    """Keep the value of an option in the session."""
    session = context.ensure_object(Session)
    if parameter.name == "progress":
        session.progress = "auto" if value is None else value
        session.quiet = value is False
    elif value:
        setattr(session, str(parameter.name), value)


_STORED: dict[str, Any] = {"expose_value": False, "callback": _store}
_OPTIONS = (
    click.option("--json", is_flag=True, help="Answer in JSON on standard output.", **_STORED),
    click.option(
        "--progress/--quiet",
        default=None,
        help="Progress of what takes more than two seconds, also if standard error is not "
        "a terminal; or neither progress nor notes.",
        **_STORED,
    ),
    click.option("--debug", is_flag=True, help="Show where an error came from.", **_STORED),
)


def common(function: Callable) -> Callable:
    """Give a command the session and the options about it."""
    function = click.make_pass_decorator(Session, ensure=True)(function)
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def examples(*lines: str) -> str:
    """Return examples for the end of a command's help."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def as_json(facts: Any) -> str:
    """Return JSON text: times in ISO 8601, durations in seconds, null for what is not finite.

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
    """Return an error in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError) and not str(error):
        return "there is not enough memory; give a smaller num_basis, or a memory limit"
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return with_options(" ".join(str(text).split())) or type(error).__name__


# Arguments and methods that messages of the library name, and what they are on the command line.
_ON_THE_COMMAND_LINE = {
    "num_basis": "--num-basis N",
    "domain": "--domain A,B for each input",
    "optimizer": "--fixed",
    "noise_variance": "--noise",
    "memory_limit": "--memory-limit",
    "max_time": "--max-time",
    "output": "--output-number N",
    "Constant()": "constant in --kernel",
    "partial_fit": "asvgp update",
    "in place of steps and until": "DATA with the rows to forecast",
}


def with_options(text: str) -> str:
    """Return a message of the library, with the options that stand for arguments it names.

    Examples
    --------
    >>> with_options("num_basis must be at least 4, got 2.")
    'num_basis must be at least 4, got 2. (On the command line: --num-basis N.)'
    """
    named = [
        option
        for name, option in _ON_THE_COMMAND_LINE.items()
        if f"{name}=" in text
        or text.startswith(f"{name} ")
        or (name in text and not name.isalpha())
    ]
    return f"{text} (On the command line: {', '.join(named)}.)" if named else text


@contextmanager
def sparing(output: str) -> Iterator[None]:
    """Say after Ctrl-C that the output was not touched."""
    try:
        with plain_interrupts():
            yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"nothing was written; {output} is as it was") from None


def drop_output() -> None:
    """Discard further output to a pipe that was closed, also at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
