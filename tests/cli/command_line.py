"""What tests of the command line share: a way to call it, and files for it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from click.testing import CliRunner

from asvgp import GPRegressor
from asvgp.cli.app import app

ROLES = ("--target", "power", "--input", "time")  # of the columns of `power`


def call(*arguments, code: int = 0):
    """Run a command in this process; the result, after its exit code was checked."""
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words, prog_name="asvgp")
    shown = f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    assert result.exit_code == code, shown
    assert "Traceback" not in result.stderr
    return result


def refused(folder: Path, *arguments, code: int = 1) -> str:
    """What is said where a command must fail: one line, and nothing new or changed beside it."""
    before = contents(folder)
    result = call(*arguments, code=code)
    assert result.stdout == ""
    assert contents(folder) == before
    if code == 1:
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1, result.stderr
        assert "unexpected" not in result.stderr, result.stderr
    return result.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def power(rows: int = 1000, seed: int = 0) -> pa.Table:
    """A wave with a period of a day, every half an hour."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows) / 2.0
    y = np.sin(2 * np.pi * hours / 24.0) + 0.1 * rng.standard_normal(rows)
    times = np.datetime64("2024-01-01", "us") + (hours * 3.6e9).astype("m8[us]")
    site = ["north", "south"] * (rows // 2)
    return pa.table({"time": times, "hours": hours, "power": y, "site": site})


def column(table: pa.Table, name: str) -> np.ndarray:
    """Return a column as an array."""
    return table.column(name).to_numpy()


def direct(**settings) -> GPRegressor:
    """Return the model that the commands should find, fitted in Python."""
    data = power()
    return GPRegressor(**settings).fit(column(data, "time"), column(data, "power"))


def field(rows: int = 1500) -> pa.Table:
    """Heights at random places."""
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(0.0, 1.0, (2, rows))
    height = np.sin(5 * lon) + lat + 0.1 * rng.standard_normal(rows)
    return pa.table({"lon": lon, "lat": lat, "height": height})


def write(table: pa.Table, path: Path) -> Path:
    """A table as CSV, Feather or Parquet."""
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".feather":
        with pa.ipc.new_file(path, table.schema) as out:
            out.write_table(table)
    else:
        pa.parquet.write_table(table, path)
    return path
