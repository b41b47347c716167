"""Data sets that can be read from their public source, as the files `datasets` expects.

Downloads are kept in the folder named by ``ASVGP_CACHE`` (default ``~/.cache/asvgp``). Only
numbers are read from them; nothing in them is ever executed.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

UCI = "https://archive.ics.uci.edu/static/public/"


class Failed(Exception):
    """A download that did not come, or is not what it should be; the text says which and why."""


def download(file: str) -> Path | None:
    """Path of the file, fetched and converted if it is not there yet; None if it has no address."""
    if file not in _SOURCES:
        return None
    cache = Path(os.environ.get("ASVGP_CACHE") or Path.home() / ".cache" / "asvgp")
    path = cache / f"{file}.npz"
    if path.exists():
        return path
    address, convert = _SOURCES[file]
    whole = os.environ.get("ASVGP_SOURCE", UCI) + address
    try:
        with urllib.request.urlopen(whole, timeout=60) as answer:
            archive = zipfile.ZipFile(io.BytesIO(answer.read()))
        values = convert(archive)
        cache.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **values)
        part.replace(path)  # whole or not at all
    except (OSError, HTTPException, ValueError, KeyError, zipfile.BadZipFile) as error:
        said = f"{type(error).__name__}: {error}"
        raise Failed(f"downloading {whole} failed ({said[:200]})") from error
    return path


def _rows(archive: zipfile.ZipFile, name: str, delimiter: str) -> Iterator[dict[str, str]]:
    with archive.open(name) as raw:
        stream = gzip.GzipFile(fileobj=raw) if name.endswith(".gz") else raw
        yield from csv.DictReader(io.TextIOWrapper(stream, "utf-8-sig"), delimiter=delimiter)


def _air_quality(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    begin = datetime(2004, 3, 10, 18)
    hours, values = [], []
    for row in _rows(archive, "AirQualityUCI.csv", ";"):
        if row["Date"]:
            when = datetime.strptime(f"{row['Date']} {row['Time']}", "%d/%m/%Y %H.%M.%S")
            hours.append((when - begin).total_seconds() / 3600.0)
            values.append(float(row["C6H6(GT)"].replace(",", ".")))
    return {"hour": np.array(hours), "c6h6_gt": np.array(values)}


def _traffic(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    begin = datetime(2012, 10, 2, 9)
    hours, values = [], []
    for row in _rows(archive, "Metro_Interstate_Traffic_Volume.csv.gz", ","):
        when = datetime.strptime(row["date_time"], "%Y-%m-%d %H:%M:%S")
        hours.append((when - begin).total_seconds() / 3600.0)
        values.append(float(row["traffic_volume"]))
    return {"hour": np.array(hours), "traffic_volume": np.array(values)}


def _pressure(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    (name,) = (n for n in archive.namelist() if n.endswith(".csv"))
    values = [float(row["PRES"]) for row in _rows(archive, name, ",")]
    return {"hour": np.arange(len(values), dtype=float), "pres_hpa": np.array(values)}


def _household(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    begin = datetime(2006, 12, 16, 17, 24)
    minutes, values = [], []
    for row in _rows(archive, "household_power_consumption.txt", ";"):
        if row["Global_active_power"] not in ("?", "", None):
            when = datetime.strptime(f"{row['Date']} {row['Time']}", "%d/%m/%Y %H:%M:%S")
            minutes.append((when - begin).total_seconds() / 60.0)
            values.append(float(row["Global_active_power"]))
    return {"minute": np.array(minutes), "global_active_power_kw": np.array(values)}


_Convert = Callable[[zipfile.ZipFile], dict[str, Any]]
_SOURCES: dict[str, tuple[str, _Convert]] = {
    "air_quality": ("360/air+quality.zip", _air_quality),
    "metro_traffic": ("492/metro+interstate+traffic+volume.zip", _traffic),
    "beijing_prsa": ("381/beijing+pm2+5+data.zip", _pressure),
    "household_power_2007h1": (
        "235/individual+household+electric+power+consumption.zip",
        _household,
    ),
}
