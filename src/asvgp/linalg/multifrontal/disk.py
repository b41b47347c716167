"""Factors that do not fit in memory: arrays in a temporary file, which the system pages.

The phases go through the panels front by front, depth first, and touch each once or twice a
phase. So the pages of a mapped file come and go in order, and what is worked on stays in memory.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.multifrontal.cpu import Workspace

_IN_MEMORY = ("tmpfs", "ramfs")
_BLOCK = 1 << 24  # bytes written at once where the system cannot reserve them


class DiskSpace(Workspace):
    """A workspace on disk. The files have no name: they go with the last array on them."""

    def take(self, size: int, owner: Any) -> Array:
        """Return an array of that many doubles; those of other sizes are let go."""
        with self._lock:
            taken = self._taken
            self._taken = [each for each in taken if each[1].size == size or each[0]() is not None]
        return super().take(size, owner)

    def _fresh(self, size: int) -> Array:
        return mapped(size)


def mapped(size: int) -> Array:
    """Return doubles in a temporary file.

    All its room is taken now: a disk that fills up later would end the process without a word.

    Examples
    --------
    >>> values = mapped(3)
    >>> values[:] = 1.0, 2.0, 3.0
    >>> float(values.sum())
    6.0
    """
    if not size:
        return np.empty(0)
    with tempfile.TemporaryFile() as file:
        try:
            _reserve(file.fileno(), 8 * size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            folder, gib = tempfile.gettempdir(), 2.0**30
            raise OSError(
                error.errno,
                f"A factor of {8 * size / gib:.3g} GiB does not fit on disk: the temporary folder "
                f"{folder} has {free_disk() / gib:.3g} GiB free. Free some, set TMPDIR to a folder "
                "with more, raise memory_limit, or take fewer basis functions",
            ) from None
        return np.frombuffer(mmap.mmap(file.fileno(), 8 * size), dtype=np.float64)


def _reserve(file: int, size: int) -> None:
    """Give a file its length and its room on disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    zeros = bytes(min(size, _BLOCK))
    while size > 0:
        size -= os.write(file, zeros[:size])


def free_disk(mounts: Path = Path("/proc/self/mountinfo")) -> float:
    """Return the bytes free in the temporary folder; none if it is missing or in memory."""
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:  # none that can be written to
        return 0.0
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}" if hasattr(os, "major") else ""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        where, _, kind = line.partition(" - ")
        if where.split()[2:3] == [number] and kind.startswith(_IN_MEMORY):
            return 0.0
    return float(shutil.disk_usage(folder).free)
