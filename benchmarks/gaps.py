"""Gap filling on real fields: the default, explicit sums of joint Materns, products, and GPBoost.

    ASVGP_DATA=FOLDER python benchmarks/gaps.py [--fields ssh srtm era5] [--rows 9000] [--json PATH]
    python benchmarks/gaps.py --gpboost-python PATH/TO/ENV/bin/python --models default GPBoost

Clouds are cut into a corner of a field, 30 % of it, and filled. The corner is as large as the
number of rows to train on says; ``--rows 105000`` is 300 x 500 cells of the maps. ``era5`` is
temperature over latitude, longitude and time. ``--seeds 0 1 2`` draws other clouds, too, and ends
with means over them. The table: root mean square error, CRPS, mean negative log density (NLPD),
share of the held-out values inside 95 % intervals (noise included), number of basis functions,
seconds to train and to predict, seconds of CPU for both, and the most memory that its process has
had, each model in a process of its own. GPBoost (Vecchia's approximation, a Matern-3/2 with a
length an input and a constant) has its own environment:

    python -m venv ENV && ENV/bin/python -m pip install gpboost

``--device cuda`` trains our models on a GPU.

ASVGP_DATA names a folder with ``ssh_global_20190223.npz``, ``srtm3_vancouver.npz`` and
``era5_t2m_uk_201903.npz``; where a file is missing, a rough field is generated instead.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
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
import resource, sys, time
import numpy as np, gpboost
data = np.load(sys.argv[1])
begin, cpu = time.perf_counter(), time.process_time()
model = gpboost.GPModel(gp_coords=data["X"], cov_function="matern_ard", cov_fct_shape=1.5,
                        gp_approx="vecchia", num_neighbors=20, likelihood="gaussian")
model.fit(y=data["y"], X=np.ones((len(data["y"]), 1)))
trained = time.perf_counter()
out = model.predict(gp_coords_pred=data["T"], X_pred=np.ones((len(data["T"]), 1)),
                    predict_var=True, predict_response=True)
np.savez(sys.argv[2], mean=out["mu"], std=np.sqrt(out["var"]), fit=trained - begin,
         predict=time.perf_counter() - trained, cpu=time.process_time() - cpu,
         memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
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


def holes(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return True where clouds are: about 20 cells across, 4 along time."""
    width = 8 if len(shape) == 2 else (2, 4, 4)
    clouds = gaussian_filter(np.random.default_rng(seed).standard_normal(shape), width)
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
        "nlpd": float(np.mean(0.5 * z**2 + np.log(std)) + 0.5 * np.log(2.0 * np.pi)),
        "coverage": float(np.mean(np.abs(z) < 1.96)),
    }


def ours(name: str, device: str, given: Path, got: Path) -> None:
    """Train and predict, in a process of its own: see `measured`."""
    data = np.load(given)
    kernel = kernels(data["X"].shape[1])[name]
    # Compiled code is loaded before the clock starts.
    some = np.random.default_rng(0).permutation(len(data["y"]))[:60]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GPRegressor(device=device).fit(data["X"][some], data["y"][some])
        begin, cpu = time.perf_counter(), time.process_time()
        objective = "auto" if kernel is None else "evidence"
        gp = GPRegressor(kernel, objective=objective, device=device)
        gp.fit(data["X"], data["y"])
    middle = time.perf_counter()
    mean, std = gp.predict(data["T"], return_std=True, include_noise=True)
    np.savez(
        got,
        mean=mean,
        std=std,
        fit=middle - begin,
        predict=time.perf_counter() - middle,
        cpu=time.process_time() - cpu,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        functions=gp.posterior_.engine.size,
        kernel=repr(gp.kernel_),
        noise=gp.noise_variance_,
        evidence=gp.optimization_.objective,
        choice=gp.summary().kernel_choice or "",
    )


def measured(name: str, python: str | None, device: str, X, y, T, truth) -> dict:
    """Return scores and costs of a model that a process of its own trains."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(given, X=X, y=y, T=T)
        program = [sys.executable, __file__, "--one", name, device]
        if name == "GPBoost":
            assert python is not None
            program = [python, "-c", GPBOOST]
        subprocess.run([*program, given, got], check=True, stdout=subprocess.DEVNULL)
        out = {key: value[()] for key, value in np.load(got).items()}
    row = scores(truth, out.pop("mean"), out.pop("std"))
    return row | {key: value.item() for key, value in out.items()}


def line(name: str, row: dict) -> str:
    """Return a row of the table."""
    functions = f"{row['functions']:,.0f}" if "functions" in row else ""
    return (
        f"  {name:<13} {row['rmse']:9.4g} {row['crps']:9.4g} {row['nlpd']:9.4g}"
        f" {row['coverage']:7.1%} {functions:>9} {row['fit']:7.1f} s {row['predict']:6.1f} s"
        f" {row['cpu']:7.1f} s {row['memory']:6.0f} MB"
    )


HEADING = (
    f"  {'model':<13} {'RMSE':>9} {'CRPS':>9} {'NLPD':>9} {'inside':>7} {'functions':>9} "
    f"{'fit':>9} {'predict':>8} {'CPU':>9} {'memory':>9}"
)


def table(
    values: np.ndarray, models: list[str], python: str | None, device: str, seed: int
) -> dict:
    """Return the scores of all contestants on one field."""
    hidden = holes(values.shape, seed)
    inputs = values.ndim
    places = np.stack(np.indices(values.shape), axis=-1).reshape(-1, inputs).astype(float)
    known = np.isfinite(values).ravel()
    train, test = known & ~hidden.ravel(), known & hidden.ravel()
    y = values.ravel()
    data = places[train], y[train], places[test], y[test]
    print(
        f"  {train.sum():,} values to train on, {test.sum():,} hidden (seed {seed}); their "
        f"deviation is {np.std(y[test]):.4g}"
    )
    print(HEADING)
    rows = {}
    for name in models:
        rows[name] = measured(name, python, device, *data)
        print(line(name, rows[name]), flush=True)
        if name == "default":
            print(f"    {rows[name]['kernel']}")
    compared(rows)
    return rows


def compared(rows: dict) -> None:
    """Print how far the default is from the best."""
    if "default" not in rows or len(rows) < 2:
        return
    for score in ("rmse", "crps"):
        best = min(row[score] for row in rows.values())
        print(f"  the default's {score} is {rows['default'][score] / best:.3f} of the best")


def means(tables: list[dict]) -> dict:
    """Return the mean of every figure over several draws of the clouds; squares of the RMSE."""
    rows = {}
    for name in tables[0]:
        every = [rows[name] for rows in tables]
        figures = [key for key, value in every[0].items() if not isinstance(value, str)]
        rows[name] = {key: float(np.mean([row[key] for row in every])) for key in figures}
        rows[name]["rmse"] = float(np.sqrt(np.mean([row["rmse"] ** 2 for row in every])))
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fields", nargs="+", default=FIELDS, choices=FIELDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--rows", type=int, default=9000, help="to train on, at most 105000")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the clouds")
    parser.add_argument("--gpboost-python", help="Python of an environment that has gpboost")
    parser.add_argument("--device", default="cpu", help="for our models")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, device, given, got = options.one
        ours(name, device, Path(given), Path(got))
        return
    models = list(options.models)
    if "GPBoost" in models and options.gpboost_python is None:
        print("GPBoost is left out: name its Python by --gpboost-python")
        models.remove("GPBoost")
    results = {}
    for name in options.fields:
        values, source = field(name, options.rows)
        print(f"{name} ({source}), {' x '.join(map(str, values.shape))}")
        results[name] = {}
        for seed in options.seeds:
            python, device = options.gpboost_python, options.device
            results[name][seed] = table(values, models, python, device, seed)
            if options.json:
                options.json.write_text(json.dumps(results, indent=2))
        if len(options.seeds) > 1:
            print(f"  means over {len(options.seeds)} draws")
            print(HEADING)
            rows = means(list(results[name].values()))
            for model, row in rows.items():
                print(line(model, row))
            compared(rows)


if __name__ == "__main__":
    main()
