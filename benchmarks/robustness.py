"""Random small fields: does training ever fail, and does it find the best optimum?

    python benchmarks/robustness.py [--problems 200] [--starts 10] [--first 0] [--auto]
                                    [--jobs 1]

Every problem has its own points (a lattice with gaps, clusters, lines, a few rows, or points
anywhere), its own truth, smooth or rough, noise, and a kernel of one to three terms, which is not
that of the truth. It is fitted with default settings, on a given number of functions or, with
``--auto``, on as many as training wants. An exception counts against it, and so does an objective
more than 0.01 nats per datum below the best of ``--starts`` climbs from random hyperparameters on
the same functions. At least 95 % have to be within that, and none may raise an exception.
"""

from __future__ import annotations

import argparse
import os
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from asvgp import Constant, GPRegressor, Matern12, Matern32, Matern52
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.training.climb import climb
from asvgp.training.nearby import field_limits
from asvgp.training.objective import Objective
from asvgp.training.optimise import LBFGS, Report
from asvgp.training.problem import Problem, State

TOLERATED = 0.01  # nats per datum
KERNELS = Matern12, Matern32, Matern52


def points(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return the kind of a problem and its points, (n, 2)."""
    kind = str(rng.choice(["lattice", "clusters", "lines", "few", "anywhere"]))
    if kind == "lattice":
        side = int(rng.integers(8, 16))
        X = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, side)] * 2), -1).reshape(-1, 2)
        corner = rng.uniform(0.0, 0.7, 2)
        X = X[np.any((corner > X) | (corner + 0.3 < X), axis=1)]
        return kind, X[rng.random(len(X)) < 0.9]
    if kind == "clusters":
        centres = rng.uniform(0.0, 1.0, (int(rng.integers(3, 8)), 2))
        X = centres[rng.integers(len(centres), size=150)] + 0.03 * rng.standard_normal((150, 2))
        return kind, X
    if kind == "lines":
        lines = rng.uniform(0.0, 1.0, int(rng.integers(3, 7)))
        return kind, np.stack([rng.choice(lines, 150), rng.uniform(0.0, 1.0, 150)], axis=1)
    count = int(rng.integers(5, 25)) if kind == "few" else int(rng.integers(80, 250))
    return kind, rng.uniform(0.0, 1.0, (count, 2))


def target(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Return values of a truth drawn at random, smooth or rough, with noise."""
    if rng.random() < 0.3:
        a, b = rng.uniform(1.0, 12.0, 2)
        y = np.sin(a * X[:, 0] + b * X[:, 1]) + rng.uniform(0.0, 3.0) * X[:, 0]
    else:
        y = np.zeros(len(X))
        for _ in range(int(rng.integers(1, 3))):
            first, second = rng.choice(3, 2)
            lengths = np.exp(rng.uniform(np.log(0.03), np.log(3.0), 2))
            kernel = KERNELS[first](lengths[0], dim=0) * KERNELS[second](lengths[1], dim=1)
            values, vectors = np.linalg.eigh(kernel(X, X))
            roots = vectors * np.sqrt(np.maximum(values, 0.0))
            y = y + roots @ rng.standard_normal(len(X))
    noise = np.exp(rng.uniform(np.log(1e-3), np.log(1.0)))
    scale = np.exp(rng.uniform(-5.0, 5.0))
    return scale * (y + noise * rng.standard_normal(len(X)))


def model(rng: np.random.Generator) -> Kernel:
    """Return a kernel of one to three terms."""
    kernel = None
    for _ in range(int(rng.integers(1, 4))):
        first, second = rng.choice(3, 2)
        part = KERNELS[first](dim=0) * KERNELS[second](dim=1)
        kind = rng.random()
        if kernel is not None and kind < 0.3:
            part = KERNELS[first](dim=int(rng.integers(2)))
        kernel = part if kernel is None else kernel + part
    assert kernel is not None
    return kernel + Constant() if rng.random() < 0.5 else kernel


def best_of_random(gp: GPRegressor, rng: np.random.Generator, starts: int) -> float:
    """Return the best objective of climbs from random hyperparameters, on the fit's functions."""
    engine = gp.posterior_.engine  # pyright: ignore[reportAttributeAccessIssue]
    kernel, stats = gp.kernel_, engine.statistics
    problem = Problem(kernel, Gaussian(gp.noise_variance_), 0, "elbo", LBFGS())
    objective = Objective(problem, [engine], field_limits(problem, engine.plan, stats, 0.0))
    power = float(stats.squares.sum()) / stats.count
    states = []
    for _ in range(starts):
        values = {}
        for name in kernel.parameters:
            low, high = (-3.5, 1.0) if "lengthscale" in name else (-4.0, 0.7)
            unit = 1.0 if "lengthscale" in name else power
            values[name] = unit * np.exp(rng.uniform(low, high))
        noise = power * np.exp(rng.uniform(-8.0, -0.7))
        states.append(State(kernel.replace_free(values), Gaussian(noise)))
    climb(objective, states, LBFGS(), len(states), Report())
    return objective.best[0]


def tried(seed: int, starts: int, auto: bool) -> tuple[str, float, float | None]:
    """Return what to print of a problem, the CPU seconds of its fit, and how far it is below.

    The last is in nats per datum, NaN where nothing was compared, and None after an exception.
    """
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    kind, X = points(rng)
    y, kernel = target(rng, X), model(rng)
    num_basis = "auto" if auto else int(rng.integers(10, 24))
    label = f"{seed:4d} {kind:8s} {len(y):3d} rows, {num_basis!s:4s} functions, {kernel!r}"
    begin = time.process_time()
    try:
        gp = GPRegressor(kernel, num_basis=num_basis).fit(X, y)
        gp.predict(X[:3], return_std=True)
    except Exception:
        return f"{label}: an exception\n{traceback.format_exc(limit=-3)}", 0.0, None
    seconds = time.process_time() - begin
    if not starts:
        return "", seconds, float("nan")
    below = (best_of_random(gp, rng, starts) - gp.elbo_) / len(y)
    if below <= TOLERATED:
        return "", seconds, below
    return f"{label}: {below:.3f} nats per datum below; {gp.kernel_!r}", seconds, below


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.problems)
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"  # of the processes
    failed, below, seconds = 0, [], 0.0
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        asked = [pool.submit(tried, seed, options.starts, options.auto) for seed in seeds]
        for number, each in enumerate(asked, start=1):
            said, spent, short = each.result()
            seconds += spent
            if said:
                print(said)
            if short is None:
                failed += 1
            elif options.starts:
                below.append(short)
            good = sum(each <= TOLERATED for each in below)
            print(f"{number:4d} done, {good} of {len(below)} good", flush=True)
    good = sum(each <= TOLERATED for each in below)
    print(f"{options.problems} problems, {failed} exceptions, {seconds:.0f} CPU seconds of fits")
    if below:
        verdict = "ok" if good >= 0.95 * len(below) and not failed else "MISSED"
        print(f"within {TOLERATED} nats per datum of the best: {good} of {len(below)}  {verdict}")


if __name__ == "__main__":
    main()
