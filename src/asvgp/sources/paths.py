"""Paths of files: which are the same, and what changes when they are written."""

from __future__ import annotations

import os
from collections.abc import Sequence


def identity(path) -> object:
    """Return what all paths to one file share; links lead to the same."""
    try:
        state = os.stat(path)
    except OSError:  # on another machine, or missing
        return os.fspath(path)
    return state.st_dev, state.st_ino


def check_distinct(paths: Sequence[str]) -> None:
    """Check that no file is given twice: its data would count twice."""
    first: dict[object, str] = {}
    for path in paths:
        key = identity(path)
        if key in first:
            also = "" if first[key] == path else f", the other time as {first[key]}"
            raise ValueError(
                f"{path} is given twice{also}: its data would count twice. Leave one out."
            )
        first[key] = path


def stamps(paths: Sequence[str]) -> tuple:
    """Return size and time of writing of files; None for those that are not on this machine."""

    def stamp(path: str) -> tuple:
        try:
            state = os.stat(path)
        except OSError:
            return path, None, None
        return path, state.st_size, state.st_mtime_ns

    return tuple(map(stamp, paths))


def unreadable(paths: Sequence[str], error: Exception, kind: str = "") -> ValueError:
    """Return the error for files that a library could not read, with its first line."""
    shown = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    why = str(error).partition("\n")[0].rstrip(".")
    return ValueError(f"{shown} cannot be read{kind and f' as {kind}'}: {why}.")
