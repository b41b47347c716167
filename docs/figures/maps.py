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
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter

from asvgp import Constant, GPRegressor, Matern32, plot

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
    axes = (lat.astype(float), lon.astype(float))
    # What is large and slow, and what is small and rough, each on knots of its own.
    kernel = Matern32(15.0, dim=0) * Matern32(15.0, dim=1) + Matern32(2.0, dim=0) * Matern32(
        2.0, dim=1
    )
    gp = GPRegressor(kernel + Constant(), num_basis=(200, 300), objective="evidence").fit(
        axes, seen
    )
    mean, std = gp.predict(axes, return_std=True)
    land = np.isnan(truth)
    hidden = np.isnan(seen) & ~land
    inside = np.mean(
        np.abs(mean - truth)[hidden] < 1.96 * np.hypot(std, gp.noise_variance_**0.5)[hidden]
    )
    print(gp.summary())
    print(f"{inside:.1%} of {hidden.sum():,} hidden cells inside the 95 % band")
    panels = plot.map(gp, axes, seen, over=(1, 0))
    for ax in panels:
        ax.pcolormesh(lon, lat, np.where(land, 1.0, np.nan), cmap=ListedColormap(["0.85"]))
        ax.set(xlabel="longitude (°)", ylabel="latitude (°)")
        ax.child_axes[0].set_ylabel("m")
    panels[0].set_title("sea-surface height as seen, 30 % hidden", loc="left", fontsize="medium")
    panels[0].figure.savefig(OUT / "maps.png", dpi=80)


if __name__ == "__main__":
    main()
