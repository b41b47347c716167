"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from asvgp.saving.leftovers import held, remove_leftovers, temporary_name

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(
    path, what: str = "file", size: Callable[[], int] | None = None
) -> Iterator[BinaryIO]:
    """Open a new file beside ``path``, which takes its place when all is written to the disk.

    Whatever goes wrong before, the file that was there stays and nothing else is left. Where the
    process is killed, the new file is left, and deleted when the path is next written. ``what``
    and ``size``, which counts its bytes at most, are for the message where there is no room.
    Pipes and devices such as ``/dev/null`` are no files to replace: they are written to, once
    all is there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "note.txt"
    ...     with replacing(place) as stream:
    ...         _ = stream.write(b"whole")
    ...     place.read_text(), len(list(Path(folder).iterdir()))
    ('whole', 1)
    """
    if _is_channel(path, what):
        with tempfile.TemporaryFile() as whole:
            yield whole
            whole.seek(0)
            with open(path, "wb") as channel:
                shutil.copyfileobj(whole, channel)
        return
    path = Path(os.path.realpath(path))
    beside, lock = temporary_name(path), None
    try:
        with open(beside, "xb") as stream:
            lock = held(stream)
            remove_leftovers(path, beside.stat().st_mtime)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            beside.chmod(path.stat().st_mode & 0o777)
        os.replace(beside, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.errno in _FULL:
            message = _full(path, what, size, error.errno == errno.EFBIG)
            raise OSError(error.errno, message, str(path)) from error
        if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
            message = f"The {what} was not written: there is no folder {path.parent}. Make it first"
            raise FileNotFoundError(errno.ENOENT, message, str(path)) from None
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _is_channel(path, what: str) -> bool:
    """Return True for pipes and devices, False for files; raise an error for all else."""
    try:
        mode = os.stat(path).st_mode  # of what links lead to
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(
            errno.EISDIR, f"A {what} is written to a file, not a folder", str(path)
        )
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return True
    if stat.S_ISREG(mode):
        return False
    raise OSError(
        errno.EINVAL, f"A {what} is written to a file, not to a disk or a socket", str(path)
    )


def _full(path: Path, what: str, size: Callable[[], int] | None, limited: bool) -> str:
    """Return the message for a full disk, or for files that are limited in size."""
    from asvgp.runtime.memory import in_words  # needed in trouble only

    needed = "does not fit" if size is None else f"needs up to {in_words(size())}"
    kept = "; the file that was there before is as it was" if path.exists() else ""
    if limited:
        limit = _file_limit()
        most = "be so large" if limit is None else f"be larger than {in_words(limit)}"
        return (
            f"The {what} {needed}, and files may not {most} here{kept}. Raise the limit (ulimit "
            "-f) or write to a file system that takes larger files"
        )
    free = "too little is left"
    with suppress(OSError):
        free = f"{in_words(shutil.disk_usage(path.parent).free)} are left in {path.parent}"
    return f"The {what} {needed}, and {free}{kept}. Free space and try again"


def _file_limit() -> int | None:
    """Return the bytes that a file of this process may have; None without a limit."""
    try:
        import resource
    except ImportError:  # as on Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _sync_folder(folder: Path) -> None:
    """Write the new name to the disk too, where the system can do that."""
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
