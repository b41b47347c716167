"""Pictures of `docs/series.md`, from data that the project does not carry.

    ASVGP_DATA=folder python docs/figures/series.py

The folder holds ``mauna_loa_co2_weekly.npz`` (``day`` since 1958-03-29, ``co2_ppm``; Keeling
and Whorf, Scripps) and ``household_power_2007h1.npz`` (``minute`` since 2006-12-16 17:24,
``global_active_power_kw``; Hebrail and Berard, UCI).
"""

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, plot

OUT = Path(__file__).parent.parent / "images"


def load(name):
    folder = os.environ.get("ASVGP_DATA")
    if not folder or not (Path(folder) / name).is_file():
        sys.exit(f"{name} is missing: set ASVGP_DATA to the folder that holds it.")
    return np.load(Path(folder) / name)


def mauna_loa():
    """Fitted to 1958-1989, forecast to 1995, beside what was measured then."""
    data = load("mauna_loa_co2_weekly.npz")
    t = np.datetime64("1958-03-29") + data["day"].astype("timedelta64[D]")
    co2 = data["co2_ppm"].astype(float)
    split, end = np.datetime64("1990-01-01"), np.datetime64("1995-01-01")
    train, test = t < split, (t >= split) & (t < end)
    kernel = (
        Matern32("10 years")
        + SHO("365.25 days", quality=100.0, fixed="period")
        + SHO("182.625 days", quality=100.0, fixed="period")
        + Constant()
        + Linear()
    )
    gp = GPRegressor(kernel, num_basis=2000).fit(t[train], co2[train])
    mean, std = gp.predict(t[test], return_std=True, include_noise=True)
    inside = np.mean(np.abs(co2[test] - mean) < 1.96 * std)
    error = np.sqrt(np.mean((co2[test] - mean) ** 2))
    print(f"Mauna Loa: {inside:.1%} of {test.sum()} later weeks inside the 95 % band")
    print(f"root mean square error {error:.2f} ppm")
    print(gp.summary())
    figure, axes = plt.subplots(3, 1, figsize=(10, 9), layout="constrained")
    for ax, start in ((axes[0], t[0]), (axes[1], np.datetime64("1987-01-01"))):
        plot.series(gp, t[train], co2[train], interval=(start, end), include_noise=True, ax=ax)
        later = {"ms": 4, "mew": 0, "color": "#D55E00", "label": "measured later"}
        ax.plot(t[test], co2[test], ".", zorder=4, **later)
        ax.set(ylabel="CO₂ (ppm)", xlabel="")
        ax.legend(loc="upper left", frameon=False, fontsize="small", markerscale=1.5)
    axes[0].set_title(f"Forecast from 1990: {inside:.0%} of the later weeks inside the 95 % band")
    grid = np.arange(np.datetime64("1984-01-01"), split, np.timedelta64(7, "D"))
    _, parts = gp.predict(grid, components=True)
    axes[2].plot(grid, parts[1].mean + parts[2].mean, color="#009E73")
    axes[2].set(ylabel="seasonal components (ppm)", xlim=(grid[0], split))
    figure.savefig(OUT / "mauna_loa.png", dpi=100)


def household_power():
    """Half a year of minutes: the daily and weekly components beside the rest."""
    data = load("household_power_2007h1.npz")
    t = np.datetime64("2006-12-16T17:24") + data["minute"].astype("timedelta64[m]")
    power = data["global_active_power_kw"].astype(float)
    kernel = (
        Matern32("10 days", fixed="lengthscale")
        + SHO("1 day", quality=20.0, fixed=("period", "quality"))
        + SHO("7 days", quality=20.0, fixed=("period", "quality"))
        + Matern12("30 minutes")
    )
    gp = GPRegressor(kernel, num_basis=20_000).fit(t, power - power.mean())
    print(gp.summary())
    start = np.datetime64("2007-02-05T00:00")
    month = start, start + np.timedelta64(28, "D")
    figure, axes = plt.subplots(5, 1, figsize=(10, 10), sharex=True, layout="constrained")
    plot.series(gp, t, power - power.mean(), interval=month, ax=axes[0])
    axes[0].set_ylim(top=12.0)
    axes[0].legend(loc="upper right", ncols=4, frameon=False, fontsize="small")
    axes[0].set_title("all components, less the mean", loc="left", fontsize="medium")
    plot.components(gp, interval=month, ax=axes[1:])
    for ax in axes:
        ax.set_ylabel("kW")
        ax.label_outer()
    figure.savefig(OUT / "household_power.png", dpi=100)


if __name__ == "__main__":
    mauna_loa()
    household_power()
