"""Temperature in space and time, of `docs/fields.md`, from data that the project does not carry.

    ASVGP_DATA=folder python docs/figures/space_time.py

The folder holds ``era5_t2m_uk_201903.npz``: hourly air temperature over the British Isles in March
2019, ``hour``, ``lat``, ``lon`` and ``t2m_centi_c`` (ERA5, sample data of xarray).
"""

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from asvgp import GPRegressor

OUT = Path(__file__).parent.parent / "images"
STATIONS, HOURS = 60, 72  # that are learnt from


def main():
    path = Path(os.environ.get("ASVGP_DATA", ".")) / "era5_t2m_uk_201903.npz"
    if not path.is_file():
        sys.exit(f"{path.name} is missing: set ASVGP_DATA to the folder that holds it.")
    data = np.load(path)
    truth = data["t2m_centi_c"][:HOURS] * 0.01
    lat, lon = data["lat"].astype(float), data["lon"].astype(float)
    time = pd.Timestamp("2019-03-01") + pd.to_timedelta(np.arange(HOURS), "h")

    rng = np.random.default_rng(0)
    station = np.argmin(np.abs(lat - 52.5)) * len(lon) + np.argmin(np.abs(lon + 1.5))  # inland
    others = np.setdiff1d(np.arange(truth[0].size), [station])
    places = np.append(rng.choice(others, STATIONS, replace=False), station)
    rows, columns = np.unravel_index(places, truth[0].shape)
    *known, hidden = range(STATIONS + 1)

    def frame(number):
        return pd.DataFrame({"lon": lon[columns[number]], "lat": lat[rows[number]], "time": time})

    X = pd.concat([frame(number) for number in known], ignore_index=True)
    y = np.concatenate([truth[:, rows[number], columns[number]] for number in known])
    gp = GPRegressor().fit(X, y)
    print(gp.summary().kernel_choice)
    mean, std = gp.predict(frame(hidden), return_std=True, include_noise=True)
    error = truth[:, rows[hidden], columns[hidden]] - mean
    print(f"hidden station: RMSE {np.sqrt(np.mean(error**2)):.2f} °C")

    figure, axes = plt.subplot_mosaic(
        [["a", "b", "c"], ["d", "d", "d"]],
        figsize=(10, 7),
        height_ratios=(3, 2),
        layout="constrained",
    )
    grid = pd.DataFrame([(x, n) for n in lat for x in lon], columns=["lon", "lat"])
    colours = Normalize(truth.min(), truth.max())
    scale = {"norm": colours, "cmap": "viridis"}
    for name, hour in zip("abc", (6, 14, 38), strict=True):
        ax = axes[name]
        field = gp.predict(grid.assign(time=time[hour])).reshape(truth[0].shape)
        ax.pcolormesh(lon, lat, field, rasterized=True, **scale)
        ax.plot(lon[columns[known]], lat[rows[known]], ".", color="white", ms=4)
        ax.plot(lon[columns[hidden]], lat[rows[hidden]], "*", color="#D55E00", ms=11)
        ax.set_aspect(1.0 / np.cos(np.radians(lat.mean())))
        ax.set_title(f"{time[hour]:%-d March, %H:%M}", loc="left", fontsize="medium")
        ax.set(xlabel="longitude (°)", ylabel="latitude (°)" if name == "a" else "")
    figure.colorbar(
        ScalarMappable(colours, scale["cmap"]),
        ax=[axes[name] for name in "abc"],
        label="°C",
        shrink=0.85,
    )
    ax = axes["d"]
    band = {"alpha": 0.4, "lw": 0, "color": "#56B4E9", "label": "95 % band"}
    ax.fill_between(time, mean - 1.96 * std, mean + 1.96 * std, **band)
    ax.plot(time, mean, color="#0072B2", label="prediction")
    ax.plot(time, truth[:, rows[hidden], columns[hidden]], ".", color="#D55E00", label="measured")
    ax.set_title("the hidden station (star)", loc="left", fontsize="medium")
    ax.set(ylabel="°C")
    ax.legend(frameon=False, ncols=3)
    figure.savefig(OUT / "space_time.png", dpi=80)


if __name__ == "__main__":
    main()
