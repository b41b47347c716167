"""Temporary files of writers that were killed: how they are told from those of living ones."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from asvgp.policies import SAVING

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None

_TOKEN = 6  # bytes


def temporary_name(path: Path) -> Path:
    """Return a new name beside a path, by which its leftovers are known."""
    return path.with_name(f"{_beginning(path)}{secrets.token_hex(_TOKEN)}.tmp")


def _beginning(path: Path) -> str:
    return f".{path.name[:100]}."


def held(stream: BinaryIO) -> int | None:
    """Lock a temporary file for as long as the handle that is returned is open.

    The lock ends with the process, however that ends. None where there are no such locks.
    """
    if fcntl is None:
        return None
    handle = os.dup(stream.fileno())
    with suppress(OSError):  # of file systems that have none
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def remove_leftovers(path: Path, now: float) -> None:
    """Delete temporary files of a path that no process is writing any more.

    Those are files with a name of ours that nobody holds, and that were last written well before
    ``now``, by the clock of their file system. Whatever cannot be told is left alone.
    """
    if fcntl is None:
        return
    pattern = re.compile(re.escape(_beginning(path)) + rf"[0-9a-f]{{{2 * _TOKEN}}}\.tmp")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_left(entry.path, now)


def _remove_if_left(path: str, now: float) -> None:
    assert fcntl is not None
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where it is held
        facts = os.fstat(handle)
        if stat.S_ISREG(facts.st_mode) and now - facts.st_mtime > SAVING.left_after:
            os.unlink(path)
    finally:
        os.close(handle)
