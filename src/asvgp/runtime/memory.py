"""Amounts of memory: as users write them, in words, and what this machine has."""

from __future__ import annotations

import os
from contextlib import suppress
from math import log2
from pathlib import Path

_UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def as_bytes(limit) -> float | None:
    """Convert a memory limit to bytes: a number, a string with a unit, or None.

    Examples
    --------
    >>> as_bytes("8 GiB") == 8 * 2**30, as_bytes(1e9), as_bytes(None)
    (True, 1000000000.0, None)
    """
    if limit is None:
        return None
    error = (
        f"memory_limit must be None, a number of bytes, or a string such as '8 GiB', got {limit!r}."
    )
    number, unit = limit, "B"
    if isinstance(limit, str):
        digits = limit.strip().rstrip("KMGTkmgtiIBb").strip()
        unit = limit.strip()[len(digits) :].strip().upper() or "B"
        number = digits
    if isinstance(limit, bool) or unit not in _UNITS:
        raise ValueError(error)
    try:
        value = float(number) * _UNITS[unit]
    except (TypeError, ValueError):
        raise ValueError(error) from None
    if not value > 0.0:
        raise ValueError(error)
    return value


def in_words(amount: float) -> str:
    """Write a number of bytes with a unit.

    Examples
    --------
    >>> in_words(3 * 2**30), in_words(5000.0), in_words(812)
    ('3.0 GiB', '4.9 KiB', '812 bytes')
    """
    power = min(int(log2(max(amount, 1.0)) // 10), 4)
    if power == 0:
        return f"{amount:.0f} bytes"
    return f"{amount / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def physical_memory() -> float:
    """Return the bytes of memory that this process may use, infinity if unknown.

    This is the memory of the machine, or the limit of a container or job (control groups).
    """
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        machine = float("inf")
    return min(machine, group_limit())


def group_limit(root: Path = Path("/")) -> float:
    """Return the memory limit of this process's control groups (versions 1 and 2), or infinity."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        groups = []
    limit, base = float("inf"), root / "sys/fs/cgroup"
    for line in ["0::/", "0:memory:/", *groups]:  # a container may not see its group's own path
        kinds, _, place = line.partition(":")[2].partition(":")
        if kinds and "memory" not in kinds.split(","):
            continue
        top, name = (base / "memory", "limit_in_bytes") if kinds else (base, "max")
        own = top / place.strip("/")
        for folder in (own, *own.parents):  # every group is within the limits of those above
            with suppress(OSError, ValueError):  # none here, or "max"
                limit = min(limit, float((folder / f"memory.{name}").read_text()))
            if folder == top:
                break
    return limit
