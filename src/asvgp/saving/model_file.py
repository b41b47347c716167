"""One file for a model: named arrays and a JSON text in a zip archive, nothing executable.

Every array is a member ``NAME.npy``, as in NumPy's npz, so that `numpy.load` shows what is
inside. The member ``model.json`` says what the file is (``format``, ``version`` and the
``library`` that wrote it), lists the arrays with type, shape and checksum, and holds all that
is no array under ``model``. The archive's comment holds the checksum of that text.

A file is believed only as far as it agrees with itself: sizes are compared with the list
before memory is taken for them, and the contents with their checksums. Nor may it take much more
memory than it is large, unless a limit says so.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from math import prod
from typing import Any, BinaryIO

import numpy as np

from asvgp import __version__
from asvgp.basis import Array
from asvgp.policies import SAVING
from asvgp.runtime.memory import in_words, physical_memory
from asvgp.saving.atomic import replacing

FORMAT, VERSION = "asvgp model", 3
TEXT = "model.json"

_DTYPE = re.compile(r"[<|][fiub][1248]|<[mM]8\[\d{0,9}\w{1,7}\]")
_CHUNK = 1 << 20
_SAMPLES, _SAMPLE = 16, 1 << 14  # pieces, and bytes of each, by which compression is judged
_WORTH = 0.75  # share of its size that an array must shrink to for compression to pay
_ENTRY = 512  # bytes around an array: its header, two of the archive, and a line of the list
_EXPANSION = 1100  # more than deflate can do


class ModelFileError(ValueError):
    """A file is no model, is damaged, or is newer than this library."""


# ---------------------------------------------------------------- writing


def write(path, model: Any, arrays: Mapping[str, Array]) -> None:
    """Write a model, whole or not at all: whatever fails, the file that was there stays.

    The model consists of values that JSON can hold.
    """
    with replacing(path, "model", lambda: _room(model, arrays)) as stream:
        _write(stream, model, arrays)


def _room(model: Any, arrays: Mapping[str, Array]) -> int:
    """Return the bytes that a file takes at most: arrays, their headers and entries, the text."""
    entries = sum(_ENTRY + 3 * len(name.encode()) for name in arrays)
    text = len(json.dumps(model, allow_nan=False, separators=(",", ":")))
    return sum(array.nbytes for array in arrays.values()) + entries + text + 2 * _ENTRY


def _write(stream: BinaryIO, model: Any, arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(stream, "w", compresslevel=1) as archive:
        listed = {}
        for name, array in arrays.items():
            dtype = array.dtype.newbyteorder("<")
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            flat = np.ascontiguousarray(array.T if fortran else array, dtype=dtype).reshape(-1)
            raw = flat.view(np.uint8).data
            archive.compression = zipfile.ZIP_DEFLATED if _shrinks(raw) else zipfile.ZIP_STORED
            member = f"{name}.npy"
            # Members opened by name carry no time of writing: the same model, the same bytes.
            with archive.open(member, "w", force_zip64=True) as out:
                out.write(_npy_header(dtype.str, fortran, array.shape))
                out.write(raw)
            listed[name] = {
                "dtype": dtype.str,
                "shape": list(array.shape),
                "fortran": fortran,
                "crc": archive.getinfo(member).CRC,
            }
        content = {
            "format": FORMAT,
            "version": VERSION,
            "library": __version__,
            "arrays": listed,
            "model": model,
        }
        text = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        archive.compression = zipfile.ZIP_STORED
        with archive.open(TEXT, "w", force_zip64=True) as out:
            out.write(text)
        archive.comment = _signature(text)


def _shrinks(raw: memoryview) -> bool:
    """Return True if an array is worth compressing, judged by pieces from all over it.

    Digits of measurements do not compress; cells without data, and what repeats, do.
    """
    step = max(_SAMPLE, len(raw) // _SAMPLES)
    pieces = b"".join(raw[begin : begin + _SAMPLE] for begin in range(0, len(raw), step))
    return len(zlib.compress(pieces, 1)) <= _WORTH * len(pieces)


def _signature(text: bytes) -> bytes:
    return f"{FORMAT} sha256:{hashlib.sha256(text).hexdigest()}".encode()


def _npy_header(dtype: str, fortran: bool, shape: tuple[int, ...]) -> bytes:
    """Return the header of an npy file, version 1.0: the same bytes by any version of NumPy."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")


# ---------------------------------------------------------------- reading


def read(path, limit: float | None = None) -> tuple[Any, dict[str, Array]]:
    """Read the model and the arrays of a file, all checked against their checksums.

    The arrays may take ``limit`` bytes; without one, as many as a model of this size may need.

    Raises
    ------
    ModelFileError
        With what is wrong, in words.
    """
    with open(path, "rb") as stream, damage(path):
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(4)
        if start != b"PK\x03\x04":
            what = f"begins with {start!r}" if start else "is empty"
            raise ModelFileError(
                f"{path} is no model file: those are zip archives, and this one {what}. Models "
                "are written by GPRegressor.save."
            )
        stream.seek(0)
        try:
            archive = zipfile.ZipFile(stream)
        except zipfile.BadZipFile as error:
            raise ModelFileError(
                f"{path} is cut off or damaged: the directory at its end cannot be read ({error}; "
                f"{size:,} bytes). Fetch or save it again."
            ) from error
        with archive:
            members = {info.filename: info for info in archive.infolist()}
            content = _content(path, archive, members, size)
            _check_room(path, members, size, limit)
            return content["model"], _arrays(path, archive, members, content["arrays"])


@contextmanager
def damage(path, what: str = "is damaged"):
    """Turn whatever a damaged file makes go wrong into one kind of error."""
    try:
        yield
    except ModelFileError:
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # the disk's fault, not the file's
            raise
        raise ModelFileError(f"{path} {what}: {error}. Fetch or save it again.") from error
    except MemoryError as error:
        raise ModelFileError(f"{path} holds more than fits in memory: {error}.") from error
    except (Exception, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise ModelFileError(f"{path} {what}: {reason}. Fetch or save it again.") from error


def _content(path, archive: zipfile.ZipFile, members: Mapping, size: int) -> dict[str, Any]:
    """Read the text, checked to be of this format and version, and unaltered."""
    info = members.get(TEXT)
    if info is None:
        raise ModelFileError(f"{path} is no model file: {_foreign(list(members))}.")
    if len(members) != len(archive.infolist()):
        raise ModelFileError(f"{path} is damaged: a name is in it twice.")
    if info.compress_type != zipfile.ZIP_STORED or not info.file_size == info.compress_size <= size:
        raise ModelFileError(f"{path} is damaged: the size of {TEXT} is wrong.")
    if sum(other.compress_size for other in members.values()) > size:
        raise ModelFileError(f"{path} is damaged: its members are larger than the file.")
    text = archive.read(info)
    content = json.loads(text, parse_constant=_no_constant)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(f"{path} is no model file: its {TEXT} is that of another program.")
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"{path} is damaged: its version is {version!r}.")
    if version > VERSION:
        raise ModelFileError(
            f"{path} was written by asvgp {content.get('library')} in format {version}; this is "
            f"asvgp {__version__}, which reads formats up to {VERSION}. Upgrade: pip install -U "
            "asvgp."
        )
    if archive.comment != _signature(text):
        raise ModelFileError(
            f"{path} was cut off or altered after it was written: the checksum of its {TEXT} does "
            "not match. Fetch or save it again."
        )
    return content


def _check_room(path, members: Mapping, size: int, limit: float | None) -> None:
    """Check that all members together are no larger than may be, before any is read."""
    total, known = sum(info.file_size for info in members.values()), physical_memory()
    most = limit or max(SAVING.believed, SAVING.most_expansion * size)
    if total <= min(most, known):
        return
    if total > known:
        raise ModelFileError(
            f"{path} holds arrays of {in_words(total)}, and this machine has {in_words(known)}."
        )
    raise ModelFileError(
        f"{path} has {in_words(size)} and would take {in_words(total)} of memory, more than "
        f"{in_words(most)}. If you trust it, load it with memory_limit='{(total >> 20) + 1} MiB'."
    )


def _no_constant(name: str):
    raise ValueError(f"{name} is no JSON")


def _foreign(names: list[str]) -> str:
    """Say what a zip archive without a model seems to be."""
    if names and all(name.endswith(".npy") for name in names):
        return f"a file of NumPy arrays (npz: {', '.join(names[:3])})"
    if "[Content_Types].xml" in names:
        return "an office document"
    some = f" ({', '.join(names[:3])}, ...)" if names else ""
    return f"a zip archive of other things{some}, without {TEXT}"


def _arrays(path, archive: zipfile.ZipFile, members: Mapping, listed: Any) -> dict[str, Array]:
    names = {f"{name}.npy" for name in listed}
    missing, extra = sorted(names - set(members)), sorted(set(members) - names - {TEXT})
    if missing:
        raise ModelFileError(f"{path} is damaged: it lacks {', '.join(missing)}.")
    if extra:
        raise ModelFileError(f"{path} was altered: {', '.join(extra)} does not belong in it.")
    arrays = {}
    for name, entry in listed.items():
        try:
            arrays[name] = _array(archive, members[f"{name}.npy"], **entry)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError) as error:
            raise ModelFileError(
                f"{path} is damaged: {name}.npy is not what was saved ({error}). Fetch or save it "
                "again."
            ) from error
    return arrays


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, dtype, shape, fortran, crc) -> Array:
    """Read one array; nothing that the archive says is believed before it is checked."""
    if not (isinstance(dtype, str) and _DTYPE.fullmatch(dtype)):
        raise ValueError(f"arrays of type {dtype!r} do not belong in a model")
    if not all(isinstance(n, int) and n >= 0 for n in shape) or not isinstance(fortran, bool):
        raise ValueError(f"{shape!r} is no shape")
    kind = np.dtype(dtype)
    header = _npy_header(kind.str, fortran, tuple(shape))
    size = prod(shape) * kind.itemsize
    if info.file_size != len(header) + size:
        raise ValueError(f"{info.file_size:,} bytes where shape {tuple(shape)} needs {size:,}")
    if info.file_size > _EXPANSION * (info.compress_size + 1):
        raise ValueError(f"{info.compress_size:,} bytes cannot hold {info.file_size:,}")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"compression {info.compress_type} is not used in models")
    if crc != info.CRC:
        raise ValueError("its checksum is not the one that was listed")
    with archive.open(info) as member:
        if member.read(len(header)) != header:
            raise ValueError(f"its header is not of {dtype} in shape {tuple(shape)}")
        raw, done = np.empty(size, dtype=np.uint8), 0
        while part := member.read(_CHUNK):  # to the end, where the checksum is compared
            raw[done : done + len(part)] = np.frombuffer(part, dtype=np.uint8)
            done += len(part)
    if done != size:
        raise ValueError(f"{done:,} bytes where there should be {size:,}")
    values = raw.view(kind).astype(kind.newbyteorder("="), copy=False)
    return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)
