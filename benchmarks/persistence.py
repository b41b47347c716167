"""Saving and loading: time and size, beside numpy.save and numpy.load of as many bytes.

    python benchmarks/persistence.py [--quick] [--folder FOLDER]

Models of one input with 10^3 to 10^6 basis functions, and a field of 300 x 300. "first
prediction" is that of a loaded model at a thousand places, with standard deviations. Both
contestants write to the same folder, bring their bytes to the disk, and read back from the
system's cache.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import asvgp
from asvgp import GPRegressor, Matern32

REPEATS = 5


def line(size):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1000.0, 4 * size)
    y = np.sin(x) + 0.1 * rng.standard_normal(len(x))
    kernel = Matern32(lengthscale=max(2.0, 10_000.0 / size))
    gp = GPRegressor(kernel, num_basis=size, noise_variance=0.01, optimizer=None)
    return gp.fit(x, y), rng.uniform(-1.0, 1001.0, 1000)


def field(size):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 30.0, (4 * size**2, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    gp = GPRegressor(Matern32(2.0), num_basis=size, noise_variance=0.01, optimizer=None)
    return gp.fit(X, y), rng.uniform(0.0, 30.0, (1000, 2))


def seconds(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def plain_save(path, array):
    with open(path, "wb") as stream:
        np.save(stream, array)
        stream.flush()
        os.fsync(stream.fileno())


def measure(name, gp, places, folder):
    path, beside = folder / "model.asvgp", folder / "array.npy"
    first, _ = seconds(lambda: gp.save(path))  # computes what predictions read
    size = path.stat().st_size
    array = np.random.default_rng(1).standard_normal(size // 8)
    best = dict.fromkeys(("save", "plain save", "load", "plain load", "predict"), np.inf)
    for _ in range(REPEATS):
        taken, loaded = {}, None
        taken["save"], _ = seconds(lambda: gp.save(path))
        taken["plain save"], _ = seconds(lambda: plain_save(beside, array))
        taken["load"], loaded = seconds(lambda: asvgp.load(path))
        taken["plain load"], _ = seconds(lambda: np.load(beside))
        taken["predict"], found = seconds(lambda m=loaded: m.predict(places, return_std=True))
        best = {key: min(best[key], taken[key]) for key in best}
    same = all(np.array_equal(*p) for p in zip(found, gp.predict(places, True), strict=True))
    print(
        f"{name:>10} {size / 2**20:9.2f} {1e3 * first:11.1f} "
        f"{1e3 * best['save']:9.1f} {best['save'] / best['plain save']:6.1f} "
        f"{1e3 * best['load']:9.1f} {best['load'] / best['plain load']:6.1f} "
        f"{1e3 * best['predict']:11.1f}  {'the same bits' if same else 'OTHER BITS'}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small models only")
    parser.add_argument("--folder", help="where to write; by default the temporary folder")
    options = parser.parse_args()
    print(
        f"{'functions':>10} {'MiB':>9} {'first save':>11} {'save':>9} {'ratio':>6} {'load':>9} "
        f"{'ratio':>6} {'prediction':>11}  (milliseconds; ratios to NumPy)"
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for size in (10**3, 10**4) if options.quick else (10**3, 10**4, 10**5, 10**6):
            measure(f"{size:,}", *line(size), Path(folder))
        size = 40 if options.quick else 300
        measure(f"{size} x {size}", *field(size), Path(folder))


if __name__ == "__main__":
    main()
