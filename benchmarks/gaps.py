"""Gap filling on real fields: one separable Matern, sums of two and three, and GPBoost.

    ASVGP_DATA=FOLDER python benchmarks/gaps.py [--fields ssh srtm] [--quick] [--json PATH]
    python benchmarks/gaps.py --gpboost-python PATH/TO/ENV/bin/python

Holes shaped like clouds are cut into a field of 300 x 500 cells, 30 % of them, and filled
with every model's defaults, trained under ``objective="evidence"``. The table: root mean
square error, CRPS, share of the held-out values inside 95 % intervals (noise included), and
seconds to train and to predict. GPBoost (Vecchia's approximation, a Matern with a length an
input) gets a corner of the field and as many of its rows as it trains on in a minute or so;
our models are fitted to the same rows again for that comparison. It has its own environment:

    python -m venv ENV && ENV/bin/python -m pip install gpboost

ASVGP_DATA names a folder with ``ssh_global_20190223.npz`` and ``srtm3_vancouver.npz``; where
a file is missing, a rough field is generated instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.stats import norm

from asvgp import Constant, GPRegressor, Matern12, Matern32, Matern52

ROWS, COLUMNS = 300, 500
CORNER = 100, 130  # what GPBoost gets

GPBOOST = """
import sys, time
import numpy as np, gpboost
data = np.load(sys.argv[1])
begin = time.perf_counter()
model = gpboost.GPModel(gp_coords=data["X"], cov_function="matern_ard", cov_fct_shape=1.5,
                        gp_approx="vecchia", num_neighbors=20, likelihood="gaussian")
model.fit(y=data["y"], X=np.ones((len(data["y"]), 1)))
trained = time.perf_counter()
out = model.predict(gp_coords_pred=data["T"], X_pred=np.ones((len(data["T"]), 1)),
                    predict_var=True, predict_response=True)
np.savez(sys.argv[2], mean=out["mu"], std=np.sqrt(out["var"]),
         seconds=[trained - begin, time.perf_counter() - trained])
"""


def field(name: str) -> tuple[np.ndarray, str]:
    """Values (rows, columns), NaN where missing, and where they are from."""
    folder = Path(os.environ.get("ASVGP_DATA", "."))
    if name == "ssh" and (path := folder / "ssh_global_20190223.npz").exists():
        raw = np.load(path)["adt_1e4m"].astype(float)
        raw[raw == -32768] = np.nan
        return 1e-4 * raw[100 : 100 + ROWS, 600 : 600 + COLUMNS], path.name
    if name == "srtm" and (path := folder / "srtm3_vancouver.npz").exists():
        raw = np.load(path)["elev_m"].astype(float)
        raw[raw == -32768] = np.nan
        return raw[::2, ::2][:ROWS, 1200 - COLUMNS : 1200], path.name
    rng, total = np.random.default_rng(3), 0.0
    for scale in (2, 6, 20, 60):
        part = gaussian_filter(rng.standard_normal((ROWS, COLUMNS)), scale, mode="wrap")
        total = total + scale**0.7 * part / part.std()
    return total + 0.05 * rng.standard_normal((ROWS, COLUMNS)), "generated"


def holes(shape: tuple[int, int], share: float = 0.3) -> np.ndarray:
    """True where clouds are."""
    clouds = gaussian_filter(np.random.default_rng(0).standard_normal(shape), 8)
    return clouds > np.quantile(clouds, 1.0 - share)


def kernels() -> dict:
    """The contestants, none told more than an order of magnitude."""
    long = Matern52(30.0, dim=0) * Matern52(30.0, dim=1)
    short = Matern32(6.0, dim=0) * Matern32(6.0, dim=1)
    rough = Matern12(6.0, dim=0) * Matern12(6.0, dim=1)
    return {
        "one Matern": Matern32(dim=0) * Matern32(dim=1) + Constant(),
        "two terms": long + short + Constant(),
        "three terms": long + short + rough + Constant(),
    }


def scores(y, mean, std) -> dict:
    """Errors of a prediction with its uncertainty."""
    z = (y - mean) / std
    crps = std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "crps": float(crps.mean()),
        "coverage": float(np.mean(np.abs(z) < 1.96)),
    }


def ours(kernel, X, y, T, truth) -> dict:
    """Train, predict and score."""
    begin = time.perf_counter()
    gp = GPRegressor(kernel, objective="evidence").fit(X, y)
    middle = time.perf_counter()
    mean, std = gp.predict(T, return_std=True, include_noise=True)
    seconds = {"fit": middle - begin, "predict": time.perf_counter() - middle}
    facts = {
        "kernel": repr(gp.kernel_),
        "noise": gp.noise_variance_,
        "evidence": gp.optimization_.objective,
    }
    return scores(truth, mean, std) | seconds | facts


def gpboost(python: str, X, y, T, truth) -> dict:
    """The same by GPBoost."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(given, X=X, y=y, T=T)
        subprocess.run([python, "-c", GPBOOST, given, got], check=True, stdout=subprocess.DEVNULL)
        out = np.load(got)
        fit, predict = out["seconds"]
        return scores(truth, out["mean"], out["std"]) | {
            "fit": float(fit),
            "predict": float(predict),
        }


def line(name: str, row: dict) -> str:
    """A row of the table."""
    return (
        f"  {name:<24} {row['rmse']:10.4g} {row['crps']:10.4g} {row['coverage']:9.1%}"
        f" {row['fit']:8.1f} s {row['predict']:7.1f} s"
    )


def table(values: np.ndarray, python: str | None) -> dict:
    """All contestants on one field, or a corner of it."""
    hidden = holes(values.shape)
    places = np.stack(np.indices(values.shape), axis=-1).reshape(-1, 2).astype(float)
    known = np.isfinite(values).ravel()
    train, test = known & ~hidden.ravel(), known & hidden.ravel()
    y = values.ravel()
    data = places[train], y[train], places[test], y[test]
    print(
        f"  {train.sum():,} values to train on, {test.sum():,} hidden; their deviation is "
        f"{np.std(y[test]):.4g}"
    )
    print(f"  {'model':<24} {'RMSE':>10} {'CRPS':>10} {'inside':>9} {'fit':>10} {'predict':>9}")
    rows = {}
    for name, kernel in kernels().items():
        rows[name] = ours(kernel, *data)
        print(line(name, rows[name]), flush=True)
    if python:
        rows["GPBoost, Vecchia"] = gpboost(python, *data)
        print(line("GPBoost, Vecchia", rows["GPBoost, Vecchia"]), flush=True)
    best = min(rows["two terms"]["rmse"], rows["three terms"]["rmse"])
    print(f"  a sum's RMSE is {best / rows['one Matern']['rmse']:.2f} of one Matern's")
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fields", nargs="+", default=["ssh", "srtm"], choices=["ssh", "srtm"])
    parser.add_argument("--gpboost-python", help="Python of an environment that has gpboost")
    parser.add_argument("--quick", action="store_true", help="corners of the fields only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Compiled code is loaded before the first clock starts.
    rng = np.random.default_rng(0)
    warm = rng.uniform(size=(500, 2))
    GPRegressor(Matern32(dim=0) * Matern32(dim=1) + Constant()).fit(warm, warm[:, 0])
    results = {}
    for name in options.fields:
        values, source = field(name)
        if not options.quick:
            print(f"{name} ({source}), {values.shape[0]} x {values.shape[1]}")
            results[name] = table(values, None)
        if options.quick or options.gpboost_python:
            corner = values[: CORNER[0], -CORNER[1] :]
            print(f"{name} ({source}), a corner of {CORNER[0]} x {CORNER[1]}")
            results[f"{name}, corner"] = table(corner, options.gpboost_python)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
