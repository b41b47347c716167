"""The series that are forecast: values at regular steps, some missing, and their seasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.harness.datasets import arrays, uci
from experiments.harness.scores import Array
from experiments.harness.splits import Split

HOUR, WEEK = 3600, 7 * 86400


@dataclass(frozen=True)
class Series:
    """A series and what a person would know about it.

    Attributes
    ----------
    name : str
    x : (n,) array
        Steps since ``start``, whole numbers in order; those without a value are absent.
    y : (n,) array
    start : str
        Date and time of step zero.
    step : int
        Seconds.
    seasons : tuple of float
        In steps, the shortest first.
    unit : str
        Of y.
    note : str
        What it is, and what was done to it.
    kernel : str
        What a person would write for it.
    """

    name: str
    x: Array
    y: Array
    start: str
    step: int
    seasons: tuple[float, ...]
    unit: str
    note: str
    kernel: str

    @property
    def season(self) -> int:
        """The longest season as a whole number of steps: that of the seasonal naive forecast."""
        return round(self.seasons[-1])


@dataclass(frozen=True)
class Design:
    """How values are held out.

    Attributes
    ----------
    name : str
    history : int
        Steps before an origin that methods are given, at most.
    horizon : int
        Steps after it that they forecast.
    origins : int
        How many, evenly spaced; the last horizon ends where the series does.
    apart : int
        Steps between one origin and the next.
    """

    name: str
    history: int
    horizon: int
    origins: int = 1
    apart: int = 0


ROLLING, TENTH = "rolling origins", "last tenth"


def designs(series: Series) -> list[Design]:
    """Five origins in the last tenth of the series, and the last tenth of its last year or all."""
    hourly = series.step == HOUR
    steps = round(series.x[-1]) + 1
    horizon, history = (48, 1008) if hourly else (52, steps)
    apart = (steps // 10 - horizon) // 4
    apart -= apart % 2 == 0 and hourly  # an odd number of hours: other times of the day
    block = min(steps, 8760 if hourly else steps)
    return [
        Design(ROLLING, history, horizon, 5, apart),
        Design(TENTH, block - block // 10, block // 10),
    ]


def splits(series: Series, design: Design) -> list[Split]:
    """What is known at each origin, and what its forecast is compared with; x in steps."""
    out = []
    for number in range(design.origins):
        back = (design.origins - 1 - number) * design.apart
        origin = round(series.x[-1]) - design.horizon - back
        known = (series.x <= origin) & (series.x > origin - design.history)
        later = (series.x > origin) & (series.x <= origin + design.horizon)
        x, y = series.x[:, None], series.y
        out.append(Split(series.name, number, x[known], y[known], x[later], y[later]))
    return out


def means(place: Array, y: Array, fewest: int = 1) -> tuple[Array, Array]:
    """Means of the values at each place, in order; places with fewer values are absent."""
    there, which, count = np.unique(place, return_inverse=True, return_counts=True)
    enough = count >= fewest
    return there[enough].astype(float), (np.bincount(which, y) / count)[enough]


def load(name: str) -> Series:
    """The series of that name; `experiments.harness.datasets.Missing` if its file is not here."""
    return _LOADERS[name]()


WEEKLY = (24.0, 168.0)
DAY_AND_WEEK = "matern32(6 hours) + periodic(1 day) + periodic(1 week) + constant"
DAY_DRIFTS = "matern32(6 hours) + periodic(1 day) + periodic(1 day) * matern32(10 days) + constant"


def _traffic() -> Series:
    found = arrays("metro_traffic", uci(492))
    x, y = means(found["hour"], found["traffic_volume"].astype(float))
    note = (
        "vehicles an hour on an interstate highway, 2012 to 2018; hours listed more than once "
        "(always with the same count) are averaged, and there are gaps"
    )
    words = "traffic", x, y, "2012-10-02T09:00", HOUR, WEEKLY, "vehicles an hour"
    return Series(*words, note, DAY_AND_WEEK)


def _bikes() -> Series:
    found = arrays("bike_sharing", uci(275))
    x, y = found["hour"].astype(float), found["count"].astype(float)
    note = "bikes rented an hour in Washington, 2011 and 2012; hours without rentals are absent"
    words = "bike sharing", x, y, "2011-01-01T00:00", HOUR, WEEKLY, "bikes an hour"
    return Series(*words, note, DAY_AND_WEEK)


def _power() -> Series:
    found = arrays("household_power_2007h1", uci(235))
    hour = (found["minute"] + 24) // 60  # the first minute is 17:24
    x, y = means(hour, found["global_active_power_kw"].astype(float), fewest=30)
    note = (
        "electric power of one household, hourly means of the minutes (of thirty or more of them), "
        "December 2006 to June 2007"
    )
    words = "household power", x, y, "2006-12-16T17:00", HOUR, WEEKLY, "kW"
    return Series(*words, note, DAY_AND_WEEK)


def _beijing(name: str, key: str, unit: str, note: str, kernel: str) -> Series:
    found = arrays("beijing_prsa", uci(381))
    y = found[key].astype(float)
    there = np.isfinite(y)
    x = found["hour"].astype(float)[there]
    return Series(name, x, y[there], "2010-01-01T00:00", HOUR, (24.0,), unit, note, kernel)


def _temperature() -> Series:
    note = "air temperature in Beijing, hourly, 2010 to 2014"
    return _beijing("temperature", "temp_c", "°C", note, DAY_DRIFTS)


def _particles() -> Series:
    note = "fine particles (PM2.5) in the air of Beijing, hourly, 2010 to 2014; some hours missing"
    kernel = "matern12(1 day) + periodic(1 day) + constant"
    return _beijing("PM2.5", "pm25", "µg/m³", note, kernel)


def _carbon_dioxide() -> Series:
    source = "Keeling and Whorf, in statsmodels' datasets: https://www.statsmodels.org (co2)"
    found = arrays("mauna_loa_co2_weekly", source)
    x, y = found["day"] / 7.0, found["co2_ppm"].astype(float)
    note = "carbon dioxide at Mauna Loa, weekly, 1958 to 2001; some weeks missing"
    kernel = (
        "matern52(10 years) + matern32(100 days) + periodic(1 year) * matern32(40 years) "
        "+ linear + constant"
    )
    words = "carbon dioxide", x, y, "1958-03-29T00:00", WEEK, (365.25 / 7.0,), "ppm"
    return Series(*words, note, kernel)


_LOADERS: dict[str, Callable[[], Series]] = {
    "traffic": _traffic,
    "bike sharing": _bikes,
    "household power": _power,
    "temperature": _temperature,
    "PM2.5": _particles,
    "carbon dioxide": _carbon_dioxide,
}
NAMES = tuple(_LOADERS)
