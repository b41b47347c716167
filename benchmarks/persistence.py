"""Saving and loading: time and size, beside numpy.save and numpy.load of as many bytes.

    python benchmarks/persistence.py [--quick] [--folder FOLDER]
    python benchmarks/persistence.py --sizes

Models of one input with 10^3 to 10^6 basis functions, and a field of 300 x 300. "first
prediction" is that of a loaded model at a thousand places, with standard deviations. Both
contestants write to the same folder, bring their bytes to the disk, and read back from the
system's cache.

``--sizes`` prints the sizes of files of models with ``num_basis="auto"`` and given hyperparameters,
beside those of their data, and the seconds to the first standard deviations of a loaded model.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import asvgp
from asvgp import SHO, Constant, GPRegressor, Matern32, Periodic

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


def models():
    """Yield models by name, as users have them, with the size of their data."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 1000.0, 50_000))
    settings = {"noise_variance": 0.01, "optimizer": None}

    def made(name, kernel, X, y):
        gp = GPRegressor(kernel, **settings).fit(X, y)
        return name, gp, 8 * (np.size(X) + np.size(y)), X[:100]

    yield made("50,000 points, SHO", SHO(20.0), x, np.sin(x))
    hours = np.arange(5_000.0)
    y = np.sin(hours / 24.0) + 0.1 * rng.standard_normal(5_000)
    seasons = Matern32(100.0) + Periodic(24.0) + Periodic(168.0) + Constant()
    yield made("1,500 hours, seasons", seasons, hours[:1500], y[:1500])
    yield made("5,000 points, Matern32", Matern32(50.0), hours, y)
    outputs = np.column_stack([y, -y, y**2])
    yield made("the same with three outputs", Matern32(50.0), hours, outputs)
    for inputs, length in ((2, 0.3), (3, 0.5)):
        X = rng.uniform(0.0, 1.0, (5_000, inputs))
        kernel = Matern32(length, dim=0)
        for column in range(1, inputs):
            kernel = kernel * Matern32(length, dim=column)
        yield made(f"5,000 points, {inputs} inputs", kernel, X, np.sin(6.0 * X).sum(axis=1))
    X = rng.uniform(0.0, 1.0, (5_000, 6))
    terms = [Matern32(0.3, dim=column) for column in range(6)]
    yield made("additive over six inputs", sum(terms[1:], terms[0]), X, np.sin(6.0 * X).sum(axis=1))


def sizes(folder):
    """Print the sizes of model files."""
    print("model | functions | data, kB | file, kB | full=True, kB | first std, s | full, s")
    for name, gp, data, places in models():
        row = [name, str(gp.num_basis_), f"{data / 1e3:,.0f}"]
        taken = []
        for full in (False, True):
            path = folder / "model.asvgp"
            gp.save(path, full=full)
            row.append(f"{path.stat().st_size / 1e3:,.0f}")
            loaded = asvgp.load(path)
            taken.append(seconds(lambda m=loaded, at=places: m.predict(at, return_std=True))[0])
        print(" | ".join([*row, *(f"{each:.2f}" for each in taken)]), flush=True)


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
    parser.add_argument("--sizes", action="store_true", help="sizes of files only")
    parser.add_argument("--folder", help="where to write; by default the temporary folder")
    options = parser.parse_args()
    if options.sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            sizes(Path(folder))
        return
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
