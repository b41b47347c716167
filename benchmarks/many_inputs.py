"""Several inputs: the paper's spatial problem, growth of the engine, an additive model.

    ASVGP_DATA=FOLDER python benchmarks/many_inputs.py [--quick] [--json PATH] [--plot PATH]
    python benchmarks/many_inputs.py --only sga

(s) Two million observations of a real field (``srtm3_vancouver.npz``, all cells that are
    known, shuffled; generated heights where the file is missing), 100 x 100 functions,
    Matern-3/2 x Matern-3/2: the pass, training, and means and deviations on a grid of
    540 x 360, beside the paper's 41, 68 and 36 s (with a GPU, and on another field).
(g) Growth: one bound with its gradient against the number of functions n, for two and three
    inputs, in seconds and in the bytes of the factor, with fitted exponents; nested
    dissection promises n**1.5 and n log n in two inputs, n**2 and n**(4/3) in three.
(a) An additive model: 8 inputs, 200 functions each, millions of rows.

How near the elimination is to the machine's matrix product, and to CHOLMOD:
``benchmarks/multifrontal.py``, which ``--engine`` runs at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from asvgp import Constant, GPRegressor, Matern32
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound
from asvgp.model.grid import GridEngine
from asvgp.model.plan import Plan
from asvgp.statistics import Statistics

PAPER = {"pass": 41.0, "training": 68.0, "prediction": 36.0}
SIDES = {2: (50, 100, 200, 400, 700), 3: (8, 12, 18, 27, 36)}
QUICK = {2: (30, 60, 120), 3: (6, 9, 13)}
PROMISED = {2: (1.5, 1.0), 3: (2.0, 4.0 / 3.0)}


def heights(rows: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Longitude and latitude, heights, and where they are from; in random order."""
    path = Path(os.environ.get("ASVGP_DATA", ".")) / "srtm3_vancouver.npz"
    rng = np.random.default_rng(0)
    if path.exists():
        data = np.load(path)
        table, lat, lon = data["elev_m"], data["lat"], data["lon"]
        row, column = np.nonzero(table != -32768)
        keep = rng.permutation(len(row))[:rows]
        row, column = row[keep], column[keep]
        return (
            np.stack([lon[column], lat[row]], axis=1),
            table[row, column].astype(float),
            path.name,
        )
    rough = sum(s * gaussian_filter(rng.standard_normal((1200, 2400)), s) for s in (4, 20, 80))
    X = rng.uniform(0.0, 1.0, (rows, 2))
    y = rough[(1200 * X[:, 1]).astype(int), (2400 * X[:, 0]).astype(int)]
    return X, 1000.0 * y, "generated"


def spatial(quick: bool) -> dict:
    """The paper's problem, stage by stage."""
    X, y, source = heights(200_000 if quick else 2_000_000)
    kernel = Matern32(dim=0) * Matern32(dim=1) + Constant()
    GPRegressor(kernel, num_basis=100).fit(X[:5000], y[:5000])  # loads compiled code
    begin = time.perf_counter()
    gp = GPRegressor(kernel, num_basis=100).fit(X, y)
    total = time.perf_counter() - begin
    lower, upper = X.min(axis=0), X.max(axis=0)
    mesh = np.meshgrid(
        *(np.linspace(a, b, n) for a, b, n in zip(lower, upper, (540, 360), strict=True))
    )
    places = np.stack([m.ravel() for m in mesh], axis=1)
    begin = time.perf_counter()
    mean, std = gp.predict(places, return_std=True)
    prediction = time.perf_counter() - begin
    inside = y - gp.predict(X)
    stages = {
        "pass": gp.timings_["pass"],
        "training": gp.timings_["training"] + gp.timings_["posterior"],
        "prediction": prediction,
    }
    print(f"spatial: {len(y):,} heights ({source}), 100 x 100 functions")
    for name, seconds in stages.items():
        print(
            f"  {name:<12} {seconds:8.2f} s   paper {PAPER[name]:5.0f} s   "
            f"{PAPER[name] / seconds:7.0f} x"
        )
    print(
        f"  whole fit {total:.2f} s; {gp.optimization_.evaluations} bounds with gradients; "
        f"{gp.kernel_}; noise {gp.noise_variance_:.4g}; "
        f"residual {inside.std():.4g} of {y.std():.4g}"
    )
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    return stages | {"fit": total, "rows": len(y), "source": source}


def growth(quick: bool, plot: Path | None) -> dict:
    """Seconds and bytes of one bound with its gradient, against n."""
    rng, results = np.random.default_rng(0), {}
    for inputs, sides in (QUICK if quick else SIDES).items():
        rows = []
        print(f"growth: {inputs} inputs, Matern-3/2 each")
        for side in sides:
            cells = side - 2
            grids = tuple(Grid(0.0, 1.0, cells) for _ in range(inputs))
            degrees = (2,) * inputs
            n = min(4 * side**inputs, 500_000)
            X, y = rng.uniform(size=(n, inputs)), rng.standard_normal(n)
            stats = Statistics.from_data(X, y, grids, degrees)
            scale = 6.0 / cells
            kernel = Matern32(scale, dim=0)
            for d in range(1, inputs):
                kernel = kernel * Matern32(scale, dim=d)
            plan = Plan(tuple(range(inputs)), grids, degrees, (0,), (degrees,), ((0,) * inputs,))
            engine, likelihood = GridEngine(kernel, plan, stats), Gaussian(0.3)
            lower_bound(engine.factor(kernel, likelihood))  # sums on leaves, once
            times = []
            for _ in range(3 if side**inputs < 200_000 else 2):
                begin = time.perf_counter()
                lower_bound(engine.factor(kernel, likelihood))
                times.append(time.perf_counter() - begin)
            size = engine.factor(kernel, likelihood).solution.factor.nbytes
            rows.append((engine.size, min(times), size))
            print(
                f"  n = {engine.size:>9,}  {min(times):9.4f} s  factor {size / 1e6:10.1f} MB",
                flush=True,
            )
            del engine, stats
        table = np.log(np.array(rows, dtype=float))[-3:]  # small ones are all overhead
        exponents = [float(np.polyfit(table[:, 0], table[:, i], 1)[0]) for i in (1, 2)]
        promised = PROMISED[inputs]
        print(
            f"  time ~ n**{exponents[0]:.2f} (theory {promised[0]:.2f}), "
            f"memory ~ n**{exponents[1]:.2f} (theory {promised[1]:.2f}), from the last three"
        )
        results[str(inputs)] = {"rows": rows, "exponents": exponents}
    if plot:
        draw(results, plot)
    return results


def draw(results: dict, path: Path) -> None:
    """Time and memory against n."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for inputs, own in results.items():
        n, seconds, size = np.array(own["rows"]).T
        exponents = own["exponents"]
        panels[0].loglog(n, seconds, "o-", label=f"{inputs} inputs, n^{exponents[0]:.2f}")
        panels[1].loglog(n, size / 1e9, "o-", label=f"{inputs} inputs, n^{exponents[1]:.2f}")
    for panel, title in zip(panels, ("bound and gradient, s", "factor, GB"), strict=True):
        panel.set(xlabel="functions", title=title)
        panel.legend()
    figure.savefig(path, dpi=150)


def additive(quick: bool) -> dict:
    """Eight inputs, two hundred functions each."""
    rng, n = np.random.default_rng(0), 300_000 if quick else 6_000_000
    X = rng.uniform(size=(n, 8))
    truth = sum(np.sin((d + 2) * X[:, d]) / (d + 1) for d in range(8))
    y = truth + 0.5 * rng.standard_normal(n)
    kernel = Constant()
    for d in range(8):
        kernel = Matern32(0.3, dim=d) + kernel
    begin = time.perf_counter()
    gp = GPRegressor(kernel, num_basis=200).fit(X, y)
    total = time.perf_counter() - begin
    begin = time.perf_counter()
    mean, std = gp.predict(X[:100_000], return_std=True)
    prediction = time.perf_counter() - begin
    error = float(np.sqrt(np.mean((mean - truth[:100_000]) ** 2)))
    seconds = {name: float(value) for name, value in gp.timings_.items()}
    print(f"additive: {n:,} rows, 8 inputs x 200 functions")
    print("  " + ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))
    print(
        f"  whole fit {total:.2f} s, {gp.optimization_.evaluations} bounds; means and deviations "
        f"of 100,000 rows {prediction:.2f} s; error of f {error:.4f}, deviation {std.mean():.4f}"
    )
    return seconds | {"fit": total, "prediction": prediction, "error": error}


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="sga", help="letters of the parts")
    parser.add_argument("--quick", action="store_true", help="small versions, a smoke test")
    parser.add_argument("--engine", action="store_true", help="run multifrontal.py, too")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="draw the growth there (needs matplotlib)")
    options = parser.parse_args()
    results = {}
    if "s" in options.only:
        results["spatial"] = spatial(options.quick)
    if "g" in options.only:
        results["growth"] = growth(options.quick, options.plot)
    if "a" in options.only:
        results["additive"] = additive(options.quick)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    if options.engine:
        script = Path(__file__).with_name("multifrontal.py")
        sys.argv = [str(script), *(["--only", "100x100x2"] if options.quick else [])]
        runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
