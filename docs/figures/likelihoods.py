"""Pictures of `docs/likelihoods.md`, from data that the project does not carry.

    ASVGP_DATA=folder python docs/figures/likelihoods.py

The folder holds ``coal_disasters.npz`` (``year``; Jarrett 1979), ``earthquakes_m55.npz`` (``lon``,
``lat``; USGS), ``bike_sharing.npz`` (UCI 275) and ``banana.npz``.
"""

import os
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from asvgp import (
    Constant,
    CoxProcess,
    GPClassifier,
    GPRegressor,
    Matern32,
    NegativeBinomial,
    Periodic,
)

OUT = Path(__file__).parent.parent / "images"
BLUE, RED = "#0072B2", "#D55E00"
JAPAN = ((125.0, 155.0), (28.0, 50.0))


def load(name):
    folder = os.environ.get("ASVGP_DATA")
    if not folder or not (Path(folder) / name).is_file():
        sys.exit(f"{name} is missing: set ASVGP_DATA to the folder that holds it.")
    return np.load(Path(folder) / name)


def events():
    """Coal-mine disasters by the year, and earthquakes around Japan on a map."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    year = load("coal_disasters.npz")["year"]
    begin = time.process_time()
    cox = CoxProcess(domain=(1851.0, 1963.0)).fit(year)
    grid = np.linspace(1851.0, 1963.0, 400)
    low, middle, high = cox.intensity_quantiles(grid, (0.025, 0.5, 0.975)).T
    print(f"coal: {len(year)} events, {time.process_time() - begin:.1f} s of CPU time")
    print(cox.regressor_.kernel_, cox.regressor_.elbo_)
    for span in ((1851.0, 1890.0), (1890.0, 1963.0)):
        seen = np.sum((year >= span[0]) & (year < span[1]))
        print(f"  {span}: {cox.expected_count(*span):.1f} expected, {seen} seen")
    left.fill_between(grid, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 % band")
    left.plot(grid, middle, color=BLUE, label="median")
    left.plot(year, np.full(len(year), -0.1), "|", color="black", ms=8, label="disasters")
    left.set(xlabel="year", ylabel="disasters per year", title="British coal-mine disasters")
    left.legend(frameon=False)

    data = load("earthquakes_m55.npz")
    place = np.column_stack([data["lon"], data["lat"]])
    inside = np.all([(place[:, i] > a) & (place[:, i] < b) for i, (a, b) in enumerate(JAPAN)], 0)
    place = place[inside]
    begin = time.process_time()
    cox = CoxProcess(domain=JAPAN).fit(place)
    lon, lat = (np.linspace(a, b, 160) for a, b in JAPAN)
    grid = np.column_stack([each.ravel() for each in np.meshgrid(lon, lat)])
    rate = cox.intensity(grid).reshape(160, 160)
    print(f"earthquakes: {len(place)} events, {time.process_time() - begin:.1f} s of CPU time")
    print(cox.regressor_.kernel_, cox.regressor_.num_basis_)
    drawn = right.pcolormesh(lon, lat, rate, norm="log", cmap="viridis", rasterized=True)
    right.plot(*place.T, ".", color="white", ms=1.5, alpha=0.7)
    right.set(
        xlabel="longitude (°)",
        ylabel="latitude (°)",
        title=f"{len(place):,} earthquakes of magnitude 5.5 and more",
        aspect=1.0 / np.cos(np.deg2rad(39.0)),
    )
    figure.colorbar(drawn, ax=right, label="events per square degree")
    figure.savefig(OUT / "events.png", dpi=100)


def counts_and_classes():
    """Bicycles hired by the hour with a forecast, and two classes with their probability."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=(1.6, 1.0)
    )
    data = load("bike_sharing.npz")
    hour, hired = data["hour"].astype(float), data["count"].astype(float)
    first, split, end = 24.0 * 400, 24.0 * 470, 24.0 * 477
    train, test = (hour >= first) & (hour < split), (hour >= split) & (hour < end)
    kernel = Periodic(168.0, 0.02) + Matern32(48.0) + Constant()
    begin = time.process_time()
    gp = GPRegressor(kernel, likelihood=NegativeBinomial()).fit(hour[train], hired[train])
    low, middle, high = gp.predict_quantiles(hour[test], (0.025, 0.5, 0.975), include_noise=True).T
    print(f"bicycles: {train.sum()} hours, {time.process_time() - begin:.1f} s of CPU time")
    print(
        gp.kernel_, gp.likelihood_, f"{np.mean((low <= hired[test]) & (hired[test] <= high)):.1%}"
    )
    days = (hour - split) / 24.0
    left.plot(days[train][-168:], hired[train][-168:], ".", color="black", ms=3, label="seen")
    left.plot(days[test], hired[test], ".", color=RED, ms=4, label="seen later")
    left.fill_between(days[test], low, high, color=BLUE, alpha=0.25, lw=0, label="95 % interval")
    left.plot(days[test], middle, color=BLUE, label="median")
    left.set(xlabel="days", ylabel="bicycles hired per hour", title="Counts: a week's forecast")
    left.legend(frameon=False, ncols=2, loc="upper left")

    data = load("banana.npz")
    X, label = data["x"].astype(float), data["y"]
    begin = time.process_time()
    classifier = GPClassifier().fit(X, label)
    sides = [np.linspace(low, high, 160) for low, high in zip(X.min(0), X.max(0), strict=True)]
    grid = np.column_stack([each.ravel() for each in np.meshgrid(*sides)])
    chance = classifier.predict_proba(grid)[:, 1].reshape(160, 160)
    print(f"banana: {len(X)} rows, {time.process_time() - begin:.1f} s of CPU time")
    drawn = right.pcolormesh(*sides, chance, vmin=0.0, vmax=1.0, cmap="cividis", rasterized=True)
    right.contour(*sides, chance, [0.5], colors="white", linewidths=1.5)
    for value, mark, colour in (
        (classifier.classes_[0], "o", "black"),
        (classifier.classes_[1], "^", RED),
    ):
        some = X[label == value][:150]
        right.plot(*some.T, mark, color=colour, ms=3, mew=0, label=f"class {value}")
    right.set(
        xlabel="first input", ylabel="second input", title="Classes: probability of the second"
    )
    right.legend(frameon=True, fontsize="small", loc="upper right")
    figure.colorbar(drawn, ax=right, label="probability")
    figure.savefig(OUT / "counts_and_classes.png", dpi=100)


if __name__ == "__main__":
    events()
    counts_and_classes()
