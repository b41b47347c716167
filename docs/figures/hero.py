"""The first picture of the README: a forecast and a map, both by ``GPRegressor()``.

    ASVGP_DATA=folder python docs/figures/hero.py

The folder holds ``mauna_loa_co2_weekly.npz`` and ``ssh_global_20190223.npz``; `series.py` and
`maps.py` say what they are.
"""

import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter

from asvgp import GPRegressor, plot

OUT = Path(__file__).parent.parent / "images"
DATA = Path(os.environ.get("ASVGP_DATA", "."))


def carbon_dioxide(ax):
    """Weekly carbon dioxide: all but the last five years are learnt from."""
    data = np.load(DATA / "mauna_loa_co2_weekly.npz")
    t = np.datetime64("1958-03-29") + data["day"].astype("timedelta64[D]")
    co2 = data["co2_ppm"].astype(float)
    there = np.isfinite(co2)
    t, co2 = t[there], co2[there]
    split = t[-1] - np.timedelta64(5 * 1461 // 4, "D")
    train, test = t <= split, t > split
    gp = GPRegressor().fit(t[train], co2[train])
    start = split - np.timedelta64(6 * 365, "D")
    plot.series(gp, t[train], co2[train], interval=(start, t[-1]), include_noise=True, ax=ax)
    style = {"ms": 4, "mew": 0, "color": "#D55E00", "label": "measured later"}
    ax.plot(t[test], co2[test], ".", zorder=4, **style)
    ax.set(ylabel="CO₂ (ppm)", xlabel="")
    ax.set_title("Five years ahead: carbon dioxide at Mauna Loa", loc="left")
    ax.legend(loc="upper left", frameon=False, fontsize="small", markerscale=1.5)


def sea_surface(figure, places):
    """Sea-surface height with 30 % of the cells hidden: as seen, filled in, how uncertain."""
    data = np.load(DATA / "ssh_global_20190223.npz")
    height = data["adt_1e4m"].astype(float) * 1e-4
    height[data["adt_1e4m"] == data["adt_1e4m"].min()] = np.nan
    box = (slice(120, 320), slice(40, 400))  # the southern Indian Ocean
    lat, lon, truth = data["lat"][box[0]], data["lon"][box[1]], height[box]
    clouds = gaussian_filter(np.random.default_rng(0).standard_normal(truth.shape), 8)
    seen = np.where(clouds > np.quantile(clouds, 0.7), np.nan, truth)
    axes = {"lat": lat.astype(float), "lon": lon.astype(float)}
    mean, std = GPRegressor().fit(axes, seen).predict(axes, return_std=True)
    land = np.isnan(truth)
    low, high = np.nanquantile(truth, [0.002, 0.998])
    scale = {"vmin": low, "vmax": high, "cmap": "viridis"}
    panels = {
        "Sea-surface height, 30 % hidden": (seen, scale),
        "Filled in": (mean, scale),
        "Standard deviation": (std, {"vmin": 0.0, "cmap": "magma"}),
    }
    for ax, (title, (values, style)) in zip(places, panels.items(), strict=True):
        drawn = ax.pcolormesh(lon, lat, np.where(land, np.nan, values), rasterized=True, **style)
        ax.pcolormesh(lon, lat, np.where(land, 1.0, np.nan), cmap=ListedColormap(["0.7"]))
        ax.set_title(title, loc="left")
        ax.set(xlabel="longitude (°)", aspect=1.0 / np.cos(np.radians(lat.mean())))
        figure.colorbar(drawn, ax=ax, label="m", orientation="horizontal", shrink=0.8)
    places[0].set_ylabel("latitude (°)")


def main():
    figure = plt.figure(figsize=(10.5, 6.6), layout="constrained")
    rows = figure.add_gridspec(2, 3, height_ratios=(1.0, 1.0))
    carbon_dioxide(figure.add_subplot(rows[0, :]))
    sea_surface(figure, [figure.add_subplot(rows[1, i]) for i in range(3)])
    figure.savefig(OUT / "hero.png", dpi=110)


if __name__ == "__main__":
    main()
