"""Splines of degree p + 1 and of the default p + 2: whole fits of real data by either.

    ASVGP_DATA=FOLDER python benchmarks/degrees.py

A Matern-3/2 with a constant, ``num_basis="auto"``, a tenth of the rows held out: the number of
functions, the bound, RMSE and mean negative log density of the held-out rows, and seconds of CPU
time. Data whose file the folder does not hold are left out.
"""

import os
import time
from pathlib import Path

import numpy as np

from asvgp import Constant, GPRegressor, Matern32

SERIES = {
    "air quality": ("air_quality.npz", "hour", "no2_gt"),
    "metro traffic": ("metro_traffic.npz", "hour", "traffic_volume"),
    "household power": ("household_power_2007h1.npz", "minute", "global_active_power_kw"),
}


def main():
    folder = Path(os.environ.get("ASVGP_DATA", "."))
    print("data | rows | degree | functions | bound | RMSE | NLPD | CPU s")
    for name, (file, input_name, target) in SERIES.items():
        if not (folder / file).is_file():
            continue
        data = np.load(folder / file)
        x, y = data[input_name].astype(float), data[target].astype(float)
        there = np.isfinite(y)
        x, y = x[there], (y[there] - y[there].mean()) / y[there].std()
        held = np.random.default_rng(0).random(len(x)) < 0.1
        for degree in (2, 3):
            begin = time.process_time()
            gp = GPRegressor(Matern32() + Constant(), degree=degree).fit(x[~held], y[~held])
            seconds = time.process_time() - begin
            mean = gp.predict(x[held])
            density = gp.log_predictive_density(x[held], y[held])
            print(
                f"{name} | {np.sum(~held):,} | {degree} | {gp.num_basis_:,} | {gp.elbo_:,.1f} | "
                f"{np.sqrt(np.mean((mean - y[held]) ** 2)):.4f} | {-np.mean(density):.4f} | "
                f"{seconds:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
