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

from asvgp import SHO, GPRegressor, Matern12, Matern32, Periodic, plot

OUT = Path(__file__).parent.parent / "images"


def load(name):
    folder = os.environ.get("ASVGP_DATA")
    if not folder or not (Path(folder) / name).is_file():
        sys.exit(f"{name} is missing: set ASVGP_DATA to the folder that holds it.")
    return np.load(Path(folder) / name)


def mauna_loa():
    """The default model of all but the last five years, and its forecast of these."""
    data = load("mauna_loa_co2_weekly.npz")
    t = np.datetime64("1958-03-29") + data["day"].astype("timedelta64[D]")
    co2 = data["co2_ppm"].astype(float)
    there = np.isfinite(co2)
    t, co2, end = t[there], co2[there], t[-1]
    split = end - np.timedelta64(5 * 1461 // 4, "D")
    train, test = t <= split, t > split
    gp = GPRegressor().fit(t[train], co2[train])
    mean, std = gp.predict(t[test], return_std=True, include_noise=True)
    inside = np.mean(np.abs(co2[test] - mean) < 1.96 * std)
    print(f"Mauna Loa: {inside:.1%} of {test.sum()} later weeks inside the 95 % band")
    print(f"mean error {np.mean(mean - co2[test]):+.2f} ppm")
    print(gp.summary())
    figure, axes = plt.subplots(3, 1, figsize=(10, 9), layout="constrained")
    for ax, start in ((axes[0], t[0]), (axes[1], split - np.timedelta64(3 * 365, "D"))):
        plot.series(gp, t[train], co2[train], interval=(start, end), include_noise=True, ax=ax)
        later = {"ms": 4, "mew": 0, "color": "#D55E00", "label": "measured later"}
        ax.plot(t[test], co2[test], ".", zorder=4, **later)
        ax.set(ylabel="CO₂ (ppm)", xlabel="")
        ax.legend(loc="upper left", frameon=False, fontsize="small", markerscale=1.5)
    axes[0].set_title(f"Five years' forecast: {inside:.0%} of the later weeks in the 95 % band")
    grid = np.arange(split - np.timedelta64(5 * 365, "D"), end, np.timedelta64(7, "D"))
    _, parts = gp.predict(grid, components=True)
    seasons = [
        part.mean
        for part, kernel in zip(parts, gp.kernel_.components, strict=False)
        if any(isinstance(factor, Periodic) for factor in kernel.factors)
    ]
    axes[2].plot(grid, np.sum(seasons, axis=0), color="#009E73")
    axes[2].axvline(split, color="black", linestyle=":", linewidth=1.0)
    axes[2].set(ylabel="seasonal components (ppm)", xlim=(grid[0], end))
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
