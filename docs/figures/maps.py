"""Maps of `docs/fields.md` and the README, from data that the project does not carry.

    ASVGP_DATA=folder python docs/figures/maps.py

The folder holds ``ssh_global_20190223.npz``: absolute dynamic topography on a quarter degree,
``lat``, ``lon`` and ``adt_1e4m`` (E.U. Copernicus Marine Service Information).
"""

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter

from asvgp import GPRegressor

OUT = Path(__file__).parent.parent / "images"


def main():
    path = Path(os.environ.get("ASVGP_DATA", ".")) / "ssh_global_20190223.npz"
    if not path.is_file():
        sys.exit(f"{path.name} is missing: set ASVGP_DATA to the folder that holds it.")
    data = np.load(path)
    height = data["adt_1e4m"].astype(float) * 1e-4
    height[data["adt_1e4m"] == data["adt_1e4m"].min()] = np.nan
    box = (slice(120, 320), slice(40, 400))  # the southern Indian Ocean
    lat, lon, truth = data["lat"][box[0]], data["lon"][box[1]], height[box]
    rng = np.random.default_rng(0)
    clouds = gaussian_filter(rng.standard_normal(truth.shape), 8)
    seen = np.where(clouds > np.quantile(clouds, 0.7), np.nan, truth)
    axes = {"lat": lat.astype(float), "lon": lon.astype(float)}
    gp = GPRegressor().fit(axes, seen)  # the default: the model is chosen from the data
    mean, std = gp.predict(axes, return_std=True)
    land = np.isnan(truth)
    hidden = np.isnan(seen) & ~land
    error = mean - truth
    inside = np.mean(np.abs(error)[hidden] < 1.96 * np.hypot(std, gp.noise_variance_**0.5)[hidden])
    rmse = np.sqrt(np.mean(error[hidden] ** 2))
    print(gp.summary())
    print(f"{inside:.1%} of {hidden.sum():,} hidden cells inside the 95 % band, RMSE {rmse:.3f} m")
    low, high = np.nanquantile(truth, [0.002, 0.998])
    height_scale = {"vmin": low, "vmax": high, "cmap": "viridis"}
    panels = {
        "sea-surface height as seen, 30 % hidden": (seen, height_scale),
        "posterior mean": (mean, height_scale),
        "truth": (truth, height_scale),
        "error in the gaps": (np.where(hidden, error, np.nan), {"cmap": "RdBu_r"}),
        "standard deviation": (std, {"vmin": 0.0, "cmap": "magma"}),
        "95 % band misses the truth": (
            np.where(hidden & (np.abs(error) > 1.96 * std), 1.0, np.nan),
            {"cmap": ListedColormap(["#cc3311"])},
        ),
    }
    figure, places = plt.subplots(
        2, 3, figsize=(13, 5.2), layout="constrained", sharex=True, sharey=True
    )
    for ax, (title, (values, style)) in zip(places.flat, panels.items(), strict=True):
        if "error" in title:
            style |= {"vmin": -3.0 * rmse, "vmax": 3.0 * rmse}
        drawn = ax.pcolormesh(lon, lat, np.where(land, np.nan, values), rasterized=True, **style)
        ax.pcolormesh(lon, lat, np.where(land, 1.0, np.nan), cmap=ListedColormap(["0.7"]))
        ax.set_facecolor("white")
        ax.contour(lon, lat, hidden, levels=[0.5], colors="0.35", linewidths=0.5)
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set_aspect(1.0 / np.cos(np.radians(lat.mean())))
        if "misses" not in title:
            figure.colorbar(drawn, ax=ax, label="m", shrink=0.85)
    for ax in places[-1]:
        ax.set_xlabel("longitude (°)")
    for ax in places[:, 0]:
        ax.set_ylabel("latitude (°)")
    figure.savefig(OUT / "maps.png", dpi=80, bbox_inches="tight")


if __name__ == "__main__":
    main()
