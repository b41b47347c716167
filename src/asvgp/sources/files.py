"""Files and folders of them: Parquet, CSV, Feather, NumPy."""

from __future__ import annotations

import csv
import glob
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from asvgp.sources.arrays import ArraySource, DictSource
from asvgp.sources.arrow import ArrowDataset
from asvgp.sources.convert import arrow
from asvgp.sources.roles import Roles, about_header
from asvgp.sources.source import Chunk, Source
from asvgp.sources.table import chunk_of

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.zst": "csv",
    ".csv.bz2": "csv",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
    ".npy": "npy",
    ".npz": "npz",
}


def open_source(data, roles: Roles) -> Source | None:
    """A source for a path, a folder, a pattern, or a list of paths."""
    if isinstance(data, str | os.PathLike):
        folder = Path(data) if Path(data).is_dir() else None
        paths = find(data)
    elif (
        isinstance(data, list | tuple)
        and data
        and all(isinstance(path, str | os.PathLike) for path in data)
    ):
        folder, paths = None, [path for item in data for path in find(item)]
    else:
        return None
    check_distinct(paths)
    kinds = {format_of(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError(
            f"Files of several kinds at once: {', '.join(sorted(kinds))}. Say which, for example "
            f"with a pattern such as '*{Path(paths[0]).suffix}'."
        )
    (kind,) = kinds
    if kind in ("npy", "npz"):
        return _numpy(paths, kind, roles)
    return _dataset(paths, folder, kind, roles)


def find(path) -> list[str]:
    """The files that a path stands for, in order; those of a folder by their endings."""
    text = os.fspath(path)
    if os.path.isdir(text):
        found = sorted(
            str(file)
            for file in Path(text).rglob("*")
            if file.is_file()
            and not any(part.startswith((".", "_")) for part in file.relative_to(text).parts)
            and _suffix(file.name) is not None
        )
        if not found:
            raise FileNotFoundError(
                f"The folder {text} holds no file to read: {', '.join(FORMATS)}."
            )
        return found
    if os.path.exists(text):
        return [text]
    found = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if not found:
        raise FileNotFoundError(f"There is no file {text!r} (in {os.getcwd()}).")
    return [file for entry in found for file in (find(entry) if os.path.isdir(entry) else [entry])]


def _suffix(name: str) -> str | None:
    lowered = name.lower()
    endings = [ending for ending in FORMATS if lowered.endswith(ending)]
    return max(endings, key=len) if endings else None


def format_of(path: str) -> str:
    """What kind of file a path names, by its ending."""
    ending = _suffix(os.path.basename(path))
    if ending is None:
        raise ValueError(
            f"{path}: the ending says no kind of file; known are {', '.join(FORMATS)}."
        )
    return FORMATS[ending]


def identity(path) -> object:
    """What all paths to one file share; links lead to the same."""
    try:
        state = os.stat(path)
    except OSError:  # elsewhere, or not there
        return os.fspath(path)
    return state.st_dev, state.st_ino


def check_distinct(paths: Sequence[str]) -> None:
    """An error where a file is there twice: what is in it would count twice."""
    seen: dict[object, str] = {}
    for path in paths:
        own = identity(path)
        if own in seen:
            other = "" if seen[own] == path else f", the other time as {seen[own]}"
            raise ValueError(
                f"{path} is given twice{other}: what is in it would count twice. Leave one out."
            )
        seen[own] = path


def stamps(paths: Sequence[str]) -> tuple:
    """Size and time of writing of files; None of those that are elsewhere."""
    found = []
    for path in paths:
        try:
            state = os.stat(path)
            found.append((path, state.st_size, state.st_mtime_ns))
        except OSError:
            found.append((path, None, None))
    return tuple(found)


def _numpy(paths: Sequence[str], kind: str, roles: Roles) -> Source:
    if len(paths) > 1:
        raise ValueError(f"{len(paths)} NumPy files: give them one by one, or use Parquet.")
    try:
        if kind == "npy":
            return ArraySource(np.load(paths[0], mmap_mode="r"), roles, paths)
        with open(paths[0], "rb") as file, np.load(file) as arrays:
            return DictSource(dict(arrays), roles, paths)
    except (ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise ValueError(f"{paths[0]} cannot be read as {kind}: {error}") from None


def _dataset(paths: Sequence[str], folder: Path | None, kind: str, roles: Roles) -> Source:
    pa = arrow()
    import pyarrow.csv as tables
    import pyarrow.dataset as ds

    options: dict[str, Any] = {"format": kind}
    if kind in ("csv", "tsv"):
        for path in paths:
            _check_text(path)
        options["format"] = ds.CsvFileFormat(
            parse_options=tables.ParseOptions(delimiter="\t" if kind == "tsv" else ","),
            convert_options=tables.ConvertOptions(strings_can_be_null=True),
        )
    if folder is not None:
        options |= {"partitioning": "hive", "partition_base_dir": str(folder)}

    def dataset(change=None):
        """The files with one type a column, which holds what any of them has."""
        found = ds.dataset(list(paths), **options)
        own = [found.schema, *(each.physical_schema for each in found.get_fragments())]
        if kind in ("csv", "tsv"):  # text among numbers is found when it is read, with its line
            texts = {f.name for each in own for f in each if pa.types.is_string(f.type)}
            own = [pa.schema([_text(f) if f.name in texts else f for f in each]) for each in own]
        schema = pa.unify_schemas(own, promote_options="permissive")
        schema = schema if change is None else pa.schema([change(field) for field in schema])
        return ds.dataset(list(paths), schema=schema, **options)

    try:
        if kind in ("csv", "tsv"):
            for path in paths:
                _check_header(path, options["format"].parse_options)
            return CsvFiles(dataset(_wider), roles, lambda: dataset(_text), kind)
        return Files(dataset(), roles)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        found = _ragged(paths, kind) if kind in ("csv", "tsv") else None
        if found is not None:
            raise ValueError(found) from None
        raise ValueError(f"{_shown(paths)} cannot be read as {kind}: {_first(error)}") from None


def _check_header(path: str, parse_options) -> None:
    """Names must differ, and be text."""
    import pyarrow.csv as tables

    with tables.open_csv(path, parse_options=parse_options) as reader:
        try:
            names = reader.schema.names
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}: column names are not UTF-8. Save the file as that."
            ) from None
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"{path}: there are {names.count(name)} columns {name!r}: rename all but one."
            )


def _check_text(path: str) -> None:
    """What pyarrow would say of these is less clear."""
    if os.path.getsize(path) == 0:
        raise ValueError(f"{path} is empty: there is not even a line of column names.")
    with open(path, "rb") as file:
        begin = file.read(4)
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError(f"{path} is UTF-16: save it as UTF-8.")


def _ragged(paths: Sequence[str], kind: str) -> str | None:
    """The first row that has not as many columns as the head of its file; None where all have."""
    for row, (path, number, head, line) in enumerate(_lines(paths, kind)):
        if len(line) != len(head):
            return (
                f"{path}: row {row} (line {number} of the file) has {len(line)} columns where the "
                f"first line names {len(head)}: {','.join(line)!r:.80}.{about_header(head)}"
            )
    return None


def _lines(paths: Sequence[str], kind: str) -> Iterator[tuple[str, int, list[str], list[str]]]:
    """All rows of text files: path, line, the names of the columns, the values.

    Ends where they cannot be read: of that the reader of tables says more.
    """
    pa = arrow()
    try:
        for path in paths:
            opened = pa.input_stream(path)  # which sees through gzip and the like
            with io.TextIOWrapper(opened, encoding="utf-8", errors="replace", newline="") as file:
                lines = csv.reader(file, delimiter="\t" if kind == "tsv" else ",")
                head = next(lines, [])
                for line in filter(None, lines):
                    yield path, lines.line_num, head, line
    except (csv.Error, OSError, pa.ArrowException):
        return


def _shown(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."


class Files(ArrowDataset):
    """Parquet or Feather files, with one type for a column of all of them."""

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows in order."""
        pa = arrow()
        try:
            yield from super().batches(names)
        except (pa.ArrowException, OSError) as error:
            paths = self.dataset.files
            raise ValueError(f"{_shown(paths)} cannot be read: {_first(error)}") from error


class CsvFiles(Files):
    """CSV files, whose types are those of their first lines, made wide enough for the rest."""

    def __init__(self, dataset, roles: Roles, as_text: Callable[[], Any], kind: str = "csv"):
        super().__init__(dataset, roles)
        self.as_text, self.kind = as_text, kind

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """All rows; of one that cannot be read, errors say the line of the file."""
        try:
            yield from super().chunks(inputs_only)
        except (TypeError, ValueError) as error:
            found = re.search(r"\brow (\d+)(?= is )", str(error))
            if found is None or type(error) not in (TypeError, ValueError):
                raise
            where = self.line_of(int(found[1]))
            text = str(error)
            raise type(error)(f"{text[: found.end()]}{where}{text[found.end() :]}") from None

    def line_of(self, row: int) -> str:
        """Where a row is, in words for parentheses after it; empty where it is not found."""
        paths = self.dataset.files
        for path, number, *_ in islice(_lines(paths, self.kind), row, row + 1):
            return f" (line {number} of {'the file' if len(paths) == 1 else path})"
        return ""

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows in order."""
        try:
            yield from super().batches(names)
        except ValueError as error:
            found = _ragged(self.dataset.files, self.kind) if "columns" in str(error) else None
            if found is not None:
                raise ValueError(found) from None
            self._explain(names)  # which raises a clearer error where it can
            raise

    def _explain(self, names: Sequence[str]) -> None:
        """Find the row that is not of its column's type: read as text, it says so."""
        start, inputs_only = 0, not {*self.roles.targets} <= {*names}
        for batch in Files(self.as_text(), self.roles).batches(names):
            start += chunk_of(batch, self.roles, start, inputs_only).rows


def _text(field):
    return field.with_type(arrow().string())


def _wider(field):
    """A type that holds what may follow: fractions, times of day, text."""
    pa = arrow()
    if pa.types.is_integer(field.type):
        return field.with_type(pa.float64())
    if pa.types.is_null(field.type):
        return field.with_type(pa.string())
    if pa.types.is_date(field.type) or field.type == pa.timestamp("s"):
        return field.with_type(pa.timestamp("us"))
    return field
