"""Fit a hundred hard inputs by default: ``python -m tests.soak.hardest [--only WORD]``.

Sixteen ways to place one input and five of two inputs, each with several kinds of y. Every fit runs
in a child process of its own. The table has CPU seconds, functions, the memory that the fit added,
and the cost model's verdict: see `within`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time
import warnings

import numpy as np

from asvgp import GPRegressor

ROWS = 2000
PATIENCE = 300  # wall seconds until a fit is given up


def lines(rng) -> dict[str, np.ndarray]:
    """Return the ways to place one input, in no order."""
    n = ROWS
    step = np.arange(float(n))
    uniform = rng.uniform(0.0, 10.0, n)
    holes = np.delete(step, rng.choice(n, n // 3, replace=False))
    return {
        "two clusters": np.concatenate([1e-9 * uniform, 1.0 + 1e-9 * uniform]),
        "many clusters": rng.choice(rng.uniform(0.0, 1.0, 30), n) + 1e-7 * rng.standard_normal(n),
        "duplicates": rng.choice(rng.uniform(0.0, 1.0, 12), n),
        "a huge gap": np.concatenate([uniform, 1e7 + uniform]),
        "one outlier": np.append(uniform, 1e9),
        "offset 1e12": 1e12 + np.round(uniform, 1),
        "units 1e-30": 1e-30 * uniform,
        "geometric": 10.0 ** rng.uniform(-8.0, 2.0, n),
        "Cauchy": rng.standard_cauchy(n),
        "two scales": np.concatenate([uniform, 0.01 * uniform + 5.0]),
        "lattice with holes": holes,
        "jittered lattice": step + 1e-4 * rng.standard_normal(n),
        "twins": np.concatenate([step, step + 1e-12 * n]),
        "integers, few": rng.integers(0, 50, n).astype(float),
        "seven rows": rng.uniform(0.0, 1.0, 7),
        "two rows": np.array([0.0, 1.0]),
    }


def planes(rng) -> dict[str, np.ndarray]:
    """Return the ways to place two inputs."""
    n = 600
    X = rng.uniform(0.0, 1.0, (n, 2))
    lattice = np.stack(np.meshgrid(np.arange(25.0), np.arange(25.0)), -1).reshape(-1, 2)
    return {
        "plane, a diagonal": np.stack([X[:, 0], X[:, 0] + 1e-3 * X[:, 1]], 1),
        "plane, clusters": rng.choice(X[:15], n) + 1e-6 * rng.standard_normal((n, 2)),
        "plane, an outlier": np.vstack([X, [[1e6, 1e6]]]),
        "plane, unlike units": X * [1e-9, 1e9],
        "plane, holes": lattice[rng.uniform(size=len(lattice)) < 0.6],
    }


def targets(x, rng) -> dict[str, np.ndarray]:
    """Return kinds of y, by the order of the first input where it varies by place."""
    first = x if x.ndim == 1 else x.sum(axis=1)
    rank = np.argsort(np.argsort(first)) / max(1, len(first) - 1)
    noise = rng.standard_normal(len(first))
    return {
        "smooth": np.sin(9.0 * rank) + 0.1 * noise,
        "all but constant": 3.0 + 1e-7 * noise,
        "heavy tails": rng.standard_cauchy(len(first)),
        "fast wave": np.sin(2.0 * np.pi * 0.31 * len(first) * rank) + 0.01 * noise,
        "a step of 1e9": 1e9 * (rank > 0.5) + 0.0 * noise,
    }


def cases():
    """Yield names, X and y of the hundred."""
    rng = np.random.default_rng(0)
    for name, x in lines(rng).items():
        for kind, y in targets(x, rng).items():
            yield f"{name}: {kind}", x, y
    for name, X in planes(rng).items():
        for kind, y in list(targets(X, rng).items())[:4]:
            yield f"{name}: {kind}", X, y


def within(rows: int, inputs: int, seconds: float, functions: int, megabytes: float) -> bool:
    """Return whether a fit kept to the cost model of default fits.

    One input has at most half a million cells, or sixteen per row where these are more; two inputs
    ten thousand functions. A fit takes ten CPU seconds and a millisecond per row at most, and adds
    at most one GiB of memory.
    """
    most = max(2**19, 16 * rows) + 16 if inputs == 1 else 10_000
    return functions <= most and seconds <= 10.0 + 1e-3 * rows and megabytes <= 1024.0


def measured(x, y) -> dict:
    """Return how a fit went, from a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(PATIENCE)
        try:
            found = _fit(x, y)
        except Exception as error:  # the table says what it was
            found = {"error": f"{type(error).__name__}: {error}"}
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    return json.loads(content) if content else {"error": f"nothing after {PATIENCE} s"}


def _fit(x, y) -> dict:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor().fit(x, y)
        seconds = time.process_time() - begin
        mean, std = gp.predict(x[:50], return_std=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds,
        "functions": int(np.sum(gp.num_basis_)) if np.ndim(gp.num_basis_) == 0 else _product(gp),
        "megabytes": (peak - before) / 1024.0,
        "finite": bool(np.all(np.isfinite(mean)) and np.all(np.isfinite(std))),
    }


def _product(gp) -> int:
    return int(gp.posterior_.engine.size)


def main(arguments=None) -> int:
    """Fit all, print a table and return the number of fits that broke the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="inputs whose name has this word")
    given = parser.parse_args(arguments)
    warm = np.random.default_rng(1)
    with warnings.catch_warnings():  # compiled code is loaded once, before the children begin
        warnings.simplefilter("ignore")
        x = np.arange(300.0)
        GPRegressor().fit(x, np.sin(x / 4.0) + 0.1 * warm.standard_normal(300))
        GPRegressor().fit(np.sort(warm.uniform(size=300)), warm.standard_normal(300))
        GPRegressor().fit(warm.uniform(size=(80, 2)), warm.standard_normal(80))
    broken, tried, slowest, largest = 0, 0, 0.0, 0.0
    for name, x, y in cases():
        if given.only not in name:
            continue
        found, tried = measured(x, y), tried + 1
        if "error" in found:
            broken += 1
            print(f"{name:36} {len(y):6} FAILED {found['error'][:120]}", flush=True)
            continue
        cost = found["seconds"], found["functions"], found["megabytes"]
        good = within(len(y), x.ndim, *cost) and found["finite"]
        broken += not good
        slowest, largest = max(slowest, cost[0]), max(largest, cost[2])
        word = "within" if good else "BEYOND"
        shown = f"{cost[0]:8.2f} s {cost[1]:8} functions {cost[2]:6.0f} MiB"
        print(f"{name:36} {len(y):6} {shown} {word}", flush=True)
    print(f"{tried} inputs, {broken} beyond the model, at most {slowest:.1f} s, {largest:.0f} MiB")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
