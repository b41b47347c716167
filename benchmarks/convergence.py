"""Fields with ever more functions: does the bound rise to the evidence of the exact process?

    python benchmarks/convergence.py [--functions 15 20 30 40 63 90] [--degree DEGREE]

600 points, noise variance 0.01 and known hyperparameters: a product of two Matérns, a sum of two
products, and Matérns over both inputs jointly. A row has the bound's distance from the evidence, in
nats, by the number of functions along each input. It has to fall from left to right and to end
within 0.1 nats, but for the roughest kernel (nu = 1), of which splines miss a variance that falls
with the square of their width only.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise

import numpy as np

from asvgp import GPRegressor, Matern, Matern32, Matern52

NOISE, LIMIT = 0.01, 0.1
ROUNDING = 0.02  # nats by which a bound may be below that of fewer functions
KERNELS = {
    "product": Matern32(0.5, dim=0) * Matern52(0.7, dim=1),
    "sum of products": Matern32(0.5, dim=0) * Matern52(0.7, dim=1)
    + Matern52(0.3, 0.3, dim=0) * Matern52(0.3, dim=1),
    "joint, nu = 2": Matern(2, 0.5, dim=(0, 1)),
    "joint, nu = 2, turned": Matern(2, (0.4, 0.8), dim=(0, 1), rotation=0.5),
    "joint, nu = 3": Matern(3, 0.5, dim=(0, 1)),
    "joint, nu = 1": Matern(1, 0.5, dim=(0, 1)),
}


def problem(kernel, count: int = 600) -> tuple[np.ndarray, np.ndarray, float]:
    """Return points, values drawn from the process, and their evidence."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (count, 2))
    root = np.linalg.cholesky(kernel(X, X) + NOISE * np.eye(count))
    y = root @ rng.standard_normal(count)
    white = np.linalg.solve(root, y)
    logs = np.log(np.diag(root)).sum() + 0.5 * count * np.log(2.0 * np.pi)
    return X, y, float(-0.5 * white @ white - logs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--functions", type=int, nargs="+", default=[15, 20, 30, 40, 63, 90])
    parser.add_argument("--degree", type=int)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'nats below the evidence':<28}" + "".join(f"{m:>9}" for m in options.functions))
    for name, kernel in KERNELS.items():
        X, y, evidence = problem(kernel)
        print(f"{name + f' ({evidence:.1f})':<28}", end="", flush=True)
        below, begin = [], time.process_time()
        for count in options.functions:
            gp = GPRegressor(
                kernel,
                num_basis=count,
                degree=options.degree,
                noise_variance=NOISE,
                optimizer=None,
                progress=False,
            ).fit(X, y)
            below.append(evidence - gp.elbo_)
            print(f"{below[-1]:9.3f}", end="", flush=True)
        falling = all(b <= a + ROUNDING for a, b in pairwise(below))
        valid = min(below) > -ROUNDING
        met = falling and valid and (below[-1] <= LIMIT or "nu = 1" in name)
        print(f"   {'ok' if met else 'MISSED'}  {time.process_time() - begin:.1f} CPU s")


if __name__ == "__main__":
    main()
