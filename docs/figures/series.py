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

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32

OUT = Path(__file__).parent.parent / "images"


def load(name):
    folder = os.environ.get("ASVGP_DATA")
    if not folder or not (Path(folder) / name).is_file():
        sys.exit(f"{name} is missing: set ASVGP_DATA to the folder that holds it.")
    return np.load(Path(folder) / name)


def band(ax, t, mean, std, **style):
    ax.fill_between(t, mean - 1.96 * std, mean + 1.96 * std, alpha=0.3, lw=0, **style)
    ax.plot(t, mean, lw=1.0, **style)


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
    grid = np.arange(np.datetime64("1958-03-29"), end, np.timedelta64(7, "D"))
    figure, axes = plt.subplots(3, 1, figsize=(10, 9), layout="constrained")
    mean, std = gp.predict(grid, return_std=True, include_noise=True)
    for ax, start in ((axes[0], grid[0]), (axes[1], np.datetime64("1987-01-01"))):
        seen = t >= start
        ax.plot(t[seen & train], co2[seen & train], ".", ms=2, color="0.5", label="fitted")
        ax.plot(t[seen & test], co2[seen & test], ".", ms=2, color="C3", label="measured later")
        show = grid >= start
        band(ax, grid[show], mean[show], std[show], color="C0")
        ax.axvline(split, color="0.3", lw=0.8, ls=":")
        ax.set(ylabel="CO₂ (ppm)", xlim=(start, end))
    axes[0].legend(loc="upper left", markerscale=4, frameon=False)
    axes[0].set_title(f"Forecast from 1990: {inside:.0%} of the later weeks inside the 95 % band")
    _, parts = gp.predict(grid, components=True)
    season = parts[1].mean + parts[2].mean
    show = (grid >= np.datetime64("1984-01-01")) & (grid < split)
    axes[2].plot(grid[show], season[show], color="C2")
    axes[2].set(ylabel="seasonal components (ppm)", xlim=(grid[show][0], split))
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
    grid = start + np.arange(0, 28 * 24 * 60, 20).astype("timedelta64[m]")
    mean, parts = gp.predict(grid, components=True)
    figure, axes = plt.subplots(4, 1, figsize=(10, 9), sharex=True, layout="constrained")
    seen = (t >= grid[0]) & (t <= grid[-1])
    axes[0].plot(t[seen], power[seen], lw=0.2, color="0.7")
    axes[0].plot(grid, mean + power.mean(), lw=0.6, color="C0")
    titles = ["all components", "slow level (Matérn-3/2)", "daily (SHO)", "weekly (SHO)"]
    for ax, part in zip(axes[1:], parts[:3], strict=True):
        band(ax, grid, part.mean, part.std, color="C0")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", fontsize=10)
        ax.set_ylabel("kW")
    figure.savefig(OUT / "household_power.png", dpi=100)


if __name__ == "__main__":
    mauna_loa()
    household_power()
