"""Gap filling on real fields: the default, explicit sums of joint Materns, products, and GPBoost.

    ASVGP_DATA=FOLDER python benchmarks/gaps.py [--fields ssh srtm era5] [--rows 9000] [--json PATH]
    python benchmarks/gaps.py --gpboost-python PATH/TO/ENV/bin/python --models default GPBoost

Clouds are cut into a corner of a field, 30 % of it, and filled. The corner is as large as the
number of rows to train on says; ``--rows 105000`` is 300 x 500 cells of the maps. ``era5`` is
temperature over latitude, longitude and time. The table: root mean square error, CRPS, share of
the held-out values inside 95 % intervals (noise included), number of basis functions, and seconds
to train and to predict (wall, then CPU). GPBoost (Vecchia's approximation, a Matern-3/2 with a
length an input and a constant) has its own environment:

    python -m venv ENV && ENV/bin/python -m pip install gpboost

ASVGP_DATA names a folder with ``ssh_global_20190223.npz``, ``srtm3_vancouver.npz`` and
``era5_t2m_uk_201903.npz``; where a file is missing, a rough field is generated instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.stats import norm

from asvgp import Constant, GPRegressor, Matern, Matern32, Matern52

SHARE = 0.3  # of the cells are hidden
FIELDS = ("ssh", "srtm", "era5")
FILES = {
    "ssh": ("ssh_global_20190223.npz", "adt_1e4m"),
    "srtm": ("srtm3_vancouver.npz", "elev_m"),
    "era5": ("era5_t2m_uk_201903.npz", "t2m_centi_c"),
}
MODELS = ("default", "one joint", "two joint", "product", "two products", "GPBoost")

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


def field(name: str, rows: int) -> tuple[np.ndarray, str]:
    """Return values on a lattice, NaN where missing, of a size for so many rows to train on."""
    file, key = FILES[name]
    path = Path(os.environ.get("ASVGP_DATA", ".")) / file
    cells = rows / (1.0 - SHARE)
    if name == "era5":
        shape = (int(cells / (17 * 25)), 17, 25)
    else:
        height = min(300, round((cells * 0.6) ** 0.5))
        shape = (height, round(cells / height))
    if not path.exists():
        return generated(shape), "generated"
    raw = np.load(path)[key].astype(float)
    raw[raw == -32768] = np.nan
    if name == "ssh":
        raw = 1e-4 * raw[100:400, 600:1100]
    elif name == "srtm":
        raw = raw[::2, ::2][:300, 700:1200]
    else:
        raw = 0.01 * raw[::3, ::2, ::2]
    corner = (slice(0, shape[0]), *(slice(-size, None) for size in shape[1:]))
    return raw[corner], path.name


def generated(shape: tuple[int, ...]) -> np.ndarray:
    """Return a field of several scales."""
    rng, total = np.random.default_rng(3), np.zeros(shape)
    for scale in (2, 6, 20):
        part = gaussian_filter(rng.standard_normal(shape), scale, mode="wrap")
        total += scale**0.7 * part / part.std()
    return total + 0.05 * rng.standard_normal(shape)


def holes(shape: tuple[int, ...]) -> np.ndarray:
    """Return True where clouds are: about 20 cells across, 4 along time."""
    width = 8 if len(shape) == 2 else (2, 4, 4)
    clouds = gaussian_filter(np.random.default_rng(0).standard_normal(shape), width)
    return clouds > np.quantile(clouds, 1.0 - SHARE)


def kernels(inputs: int) -> dict:
    """Return the contestants, none told more than an order of magnitude."""
    if inputs == 3:
        joint = [Matern(1, length, dim=(1, 2)) * Matern32(8.0, dim=0) for length in (10.0, 3.0)]
        long, short = (
            Matern52(2 * x, dim=0) * Matern52(x, dim=1) * Matern52(x, dim=2) for x in (10.0, 3.0)
        )
    else:
        joint = [Matern(1, length, dim=(0, 1)) for length in (60.0, 6.0)]
        long = Matern52(30.0, dim=0) * Matern52(30.0, dim=1)
        short = Matern32(6.0, dim=0) * Matern32(6.0, dim=1)
    return {
        "default": None,
        "one joint": joint[0] + Constant(),
        "two joint": joint[0] + joint[1] + Constant(),
        "product": Matern32() + Constant(),
        "two products": long + short + Constant(),
    }


def scores(y, mean, std) -> dict:
    """Return errors of a prediction with its uncertainty."""
    z = (y - mean) / std
    crps = std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "crps": float(crps.mean()),
        "coverage": float(np.mean(np.abs(z) < 1.96)),
    }


def ours(kernel, X, y, T, truth) -> dict:
    """Train, predict and score."""
    begin, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(kernel, objective="auto" if kernel is None else "evidence").fit(X, y)
    middle = time.perf_counter()
    mean, std = gp.predict(T, return_std=True, include_noise=True)
    facts = {
        "fit": middle - begin,
        "predict": time.perf_counter() - middle,
        "cpu": time.process_time() - cpu,
        "functions": gp.posterior_.engine.size,
        "kernel": repr(gp.kernel_),
        "noise": gp.noise_variance_,
        "evidence": gp.optimization_.objective,
    }
    return scores(truth, mean, std) | facts


def gpboost(python: str, X, y, T, truth) -> dict:
    """Do the same by GPBoost."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(given, X=X, y=y, T=T)
        subprocess.run([python, "-c", GPBOOST, given, got], check=True, stdout=subprocess.DEVNULL)
        out = np.load(got)
        fit, predict = map(float, out["seconds"])
        return scores(truth, out["mean"], out["std"]) | {"fit": fit, "predict": predict}


def line(name: str, row: dict) -> str:
    """Return a row of the table."""
    functions = f"{row['functions']:,}" if "functions" in row else ""
    cpu = f"{row['cpu']:7.1f} s" if "cpu" in row else ""
    return (
        f"  {name:<13} {row['rmse']:9.4g} {row['crps']:9.4g} {row['coverage']:8.1%}"
        f" {functions:>9} {row['fit']:8.1f} s {row['predict']:7.1f} s {cpu}"
    )


def table(values: np.ndarray, models: list[str], python: str | None) -> dict:
    """Return the scores of all contestants on one field."""
    hidden = holes(values.shape)
    inputs = values.ndim
    places = np.stack(np.indices(values.shape), axis=-1).reshape(-1, inputs).astype(float)
    known = np.isfinite(values).ravel()
    train, test = known & ~hidden.ravel(), known & hidden.ravel()
    y = values.ravel()
    data = places[train], y[train], places[test], y[test]
    print(
        f"  {train.sum():,} values to train on, {test.sum():,} hidden; their deviation is "
        f"{np.std(y[test]):.4g}"
    )
    print(
        f"  {'model':<13} {'RMSE':>9} {'CRPS':>9} {'inside':>8} {'functions':>9} {'fit':>10} "
        f"{'predict':>9} {'CPU':>9}"
    )
    rows, known_kernels = {}, kernels(inputs)
    for name in models:
        if name in known_kernels:
            rows[name] = ours(known_kernels[name], *data)
        elif python is None:
            print("  GPBoost is left out: name its Python by --gpboost-python")
            continue
        else:
            rows[name] = gpboost(python, *data)
        print(line(name, rows[name]), flush=True)
        if name == "default":
            print(f"    {rows[name]['kernel']}")
    if "default" in rows and len(rows) > 1:
        for score in ("rmse", "crps"):
            best = min(row[score] for row in rows.values())
            print(f"  the default's {score} is {rows['default'][score] / best:.3f} of the best")
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fields", nargs="+", default=FIELDS, choices=FIELDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--rows", type=int, default=9000, help="to train on, at most 105000")
    parser.add_argument("--gpboost-python", help="Python of an environment that has gpboost")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Compiled code is loaded before the first clock starts.
    warm = np.random.default_rng(0).uniform(size=(60, 2))
    GPRegressor(Matern(1, dim=(0, 1)) + Constant(), num_basis=8).fit(warm, warm[:, 0])
    results = {}
    for name in options.fields:
        values, source = field(name, options.rows)
        print(f"{name} ({source}), {' x '.join(map(str, values.shape))}")
        results[name] = table(values, list(options.models), options.gpboost_python)
        if options.json:
            options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
