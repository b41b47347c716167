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

from asvgp.sources.arrays import DictSource, array_source
from asvgp.sources.arrow import ArrowDataset
from asvgp.sources.convert import arrow
from asvgp.sources.paths import check_distinct, unreadable
from asvgp.sources.roles import Roles, about_header, check_distinct_names
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


_OF_ARCHIVES = BadZipFile, zlib.error, RuntimeError  # the last of encrypted members


def open_source(data, roles: Roles) -> Source | None:
    """Return a source for a path, a folder, a pattern, or a list of paths; None for other data."""
    items = data if isinstance(data, list | tuple) else [data]
    if not items or not all(isinstance(path, str | os.PathLike) for path in items):
        return None
    folder = Path(items[0]) if items is not data and os.path.isdir(items[0]) else None
    paths = [path for item in items for path in find(item)]
    check_distinct(paths)
    kinds = {format_of(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError(
            f"Files of several kinds at once: {', '.join(sorted(kinds))}. Choose one kind, for "
            f"example by a pattern such as '*{Path(paths[0]).suffix}'."
        )
    (kind,) = kinds
    if kind in ("npy", "npz"):
        return _numpy(paths, kind, roles)
    return _dataset(paths, folder, kind, roles)


def find(path) -> list[str]:
    """Return the files that a path stands for, in order; those of a folder by their endings."""
    text = os.fspath(path)
    if os.path.isdir(text):
        files = sorted(
            str(file)
            for file in Path(text).rglob("*")
            if file.is_file()
            and not any(part.startswith((".", "_")) for part in file.relative_to(text).parts)
            and _ending(file.name) is not None
        )
        if not files:
            raise FileNotFoundError(
                f"The folder {text} holds no file to read: {', '.join(FORMATS)}."
            )
        return files
    if os.path.exists(text):
        return [text]
    matches = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if not matches:
        raise FileNotFoundError(
            f"There is no file {text!r} (in {os.getcwd()}). A text is the name of a file; times "
            "and columns go in lists or arrays."
        )
    return [file for match in matches for file in find(match)]


def _ending(name: str) -> str | None:
    """Return the ending of a file's name that is known, None where none is."""
    return next((ending for ending in FORMATS if name.lower().endswith(ending)), None)


def format_of(path: str) -> str:
    """Return the kind of a file by its ending."""
    ending = _ending(os.path.basename(path))
    if ending is None:
        raise ValueError(f"{path}: unknown file ending; known are {', '.join(FORMATS)}.")
    return FORMATS[ending]


def _numpy(paths: Sequence[str], kind: str, roles: Roles) -> Source:
    """Return a source for an array or an archive of arrays."""
    if len(paths) > 1:
        raise ValueError(f"There are {len(paths)} NumPy files: give one at a time, or use Parquet.")
    try:
        if kind == "npy":
            return array_source(np.load(paths[0], mmap_mode="r"), roles, paths)
        with open(paths[0], "rb") as file, np.load(file) as arrays:
            return DictSource(dict(arrays), roles, paths)
    except (ValueError, OSError, EOFError, NotImplementedError, *_OF_ARCHIVES) as error:
        raise unreadable(paths, error, kind) from None


def _dataset(paths: Sequence[str], folder: Path | None, kind: str, roles: Roles) -> Source:
    """Return a source for files that pyarrow reads."""
    pa = arrow()
    import pyarrow.csv as tables
    import pyarrow.dataset as ds

    options: dict[str, Any] = {"format": kind}
    is_text = kind in ("csv", "tsv")
    if is_text:
        for path in paths:
            _check_text(path)
        options["format"] = ds.CsvFileFormat(
            parse_options=tables.ParseOptions(delimiter="\t" if kind == "tsv" else ","),
            convert_options=tables.ConvertOptions(strings_can_be_null=True),
        )
    if folder is not None:
        options |= {"partitioning": "hive", "partition_base_dir": str(folder)}

    def dataset(change=None):
        """Return the files with one type per column, which holds what any of them has."""
        files = ds.dataset(list(paths), **options)
        schemas = [files.schema, *(file.physical_schema for file in files.get_fragments())]
        if is_text:  # text among numbers is noticed when it is read, with its line
            texts = {f.name for each in schemas for f in each if pa.types.is_string(f.type)}
            schemas = [pa.schema([_text(f) if f.name in texts else f for f in s]) for s in schemas]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        schema = schema if change is None else pa.schema([change(field) for field in schema])
        return ds.dataset(list(paths), schema=schema, **options)

    try:
        if is_text:
            for path in paths:
                _check_header(path, options["format"].parse_options)
            return CsvFiles(dataset(_wider), roles, lambda: dataset(_text), kind)
        return Files(dataset(), roles)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if is_text:
            _check_lines(paths, kind)
        raise unreadable(paths, error, kind) from None


def _check_header(path: str, parse_options) -> None:
    """Check that the names of columns differ, and are text."""
    import pyarrow.csv as tables

    with tables.open_csv(path, parse_options=parse_options) as reader:
        try:
            names = reader.schema.names
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}: column names are not UTF-8. Save the file as UTF-8."
            ) from None
    check_distinct_names(names, f"{path}: ")


def _check_text(path: str) -> None:
    """Refuse files for which the message of pyarrow would be less clear."""
    if os.path.getsize(path) == 0:
        raise ValueError(f"{path} is empty: there is not even a line of column names.")
    with open(path, "rb") as file:
        begin = file.read(4)
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError(f"{path} is UTF-16: save it as UTF-8.")


def _check_lines(paths: Sequence[str], kind: str) -> None:
    """Check that every row has as many columns as the first line of its file names."""
    for row, (path, number, head, line) in enumerate(_lines(paths, kind)):
        if len(line) != len(head):
            raise ValueError(
                f"{path}: row {row} (line {number} of the file) has {len(line)} columns where the "
                f"first line names {len(head)}: {','.join(line)!r:.80}.{about_header(head)}"
            ) from None


def _lines(paths: Sequence[str], kind: str) -> Iterator[tuple[str, int, list[str], list[str]]]:
    """Yield all rows of text files: path, line, the names of the columns, the values.

    Ends where they cannot be read: the message of pyarrow's reader says more about that.
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


class Files(ArrowDataset):
    """Parquet or Feather files, in which a column has one type."""

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows in order."""
        try:
            yield from super().batches(names)
        except (arrow().ArrowException, OSError) as error:
            raise unreadable(self.dataset.files, error) from error


class CsvFiles(Files):
    """CSV files, whose first lines give the types, made wide enough for the other lines."""

    def __init__(self, dataset, roles: Roles, as_text: Callable[[], Any], kind: str = "csv"):
        super().__init__(dataset, roles)
        self.as_text, self.kind = as_text, kind

    def chunks(self, inputs_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows; errors name the line of a row that cannot be read."""
        try:
            yield from super().chunks(inputs_only)
        except (TypeError, ValueError) as error:
            row = re.search(r"\brow (\d+)(?= is )", str(error))
            if row is None or type(error) not in (TypeError, ValueError):
                raise
            where, text = self.line_of(int(row[1])), str(error)
            raise type(error)(f"{text[: row.end()]}{where}{text[row.end() :]}") from None

    def line_of(self, row: int) -> str:
        """Return the line of a row in parentheses; empty where it does not exist."""
        paths = self.dataset.files
        for path, number, *_ in islice(_lines(paths, self.kind), row, row + 1):
            return f" (line {number} of {'the file' if len(paths) == 1 else path})"
        return ""

    def batches(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield all rows in order."""
        try:
            yield from super().batches(names)
        except ValueError as error:  # try to raise a clearer one
            if "columns" in str(error):
                _check_lines(self.dataset.files, self.kind)
            start, inputs_only = 0, not {*self.roles.targets} <= {*names}
            for batch in Files(self.as_text(), self.roles).batches(names):
                start += chunk_of(batch, self.roles, start, inputs_only).rows
            raise


def _text(field):
    """Return a field whose type is text."""
    return field.with_type(arrow().string())


def _wider(field):
    """Return a field with a type that holds what may follow: fractions, times of day, text."""
    pa = arrow()
    if pa.types.is_integer(field.type):
        return field.with_type(pa.float64())
    if pa.types.is_null(field.type):
        return field.with_type(pa.string())
    if pa.types.is_date(field.type) or field.type == pa.timestamp("s"):
        return field.with_type(pa.timestamp("us"))
    return field
