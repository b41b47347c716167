"""``num_basis="auto"`` beside the best of many fixed numbers: nats per datum, and time.

    ASVGP_DATA=folder python benchmarks/resolution.py

Generated data always; the real sets (Snelson, Mauna Loa, household power, Beijing weather)
where ``ASVGP_DATA`` names the folder that holds their ``.npz`` files.
"""

import os
import time
import warnings
from pathlib import Path

import numpy as np

from asvgp import GPRegressor, Matern32

FIXED = [300, 1_000, 4_000, 16_000, 64_000, 256_000]
LIMIT = 0.01  # nats per datum


def generated():
    """A smooth function and white noise, 100,000 points each."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 100_000)
    noise = rng.standard_normal(100_000)
    yield "smooth function", x, np.sin(9 * x) + 0.1 * noise
    yield "white noise", x, noise


def real():
    """What the folder holds."""
    folder = Path(os.environ.get("ASVGP_DATA", "."))
    columns = {
        "snelson1d": ("train_x", "train_y"),
        "mauna_loa_co2_weekly": ("day", "co2_ppm"),
        "household_power_2007h1": ("minute", "global_active_power_kw"),
        "beijing_prsa": ("hour", "pres_hpa"),
    }
    for name, (x, y) in columns.items():
        path = folder / f"{name}.npz"
        if not path.is_file():
            print(f"{name:<26}missing: set ASVGP_DATA to the folder that holds {path.name}")
            continue
        data = np.load(path)
        target = np.asarray(data[y], float).ravel()
        yield name, np.asarray(data[x], float).ravel(), target - np.nanmean(target)


def fit(x, y, num_basis):
    begin = time.perf_counter()
    gp = GPRegressor(Matern32(), num_basis=num_basis, progress=False).fit(x, y)
    return gp, time.perf_counter() - begin


def main():
    warnings.simplefilter("ignore")
    fit(np.arange(100.0), np.sin(np.arange(100.0)), "auto")  # compile
    print(f"{'data':<26}{'auto':>8}{'s':>7}{'best':>8}{'behind, nats/datum':>20}{'same M, s':>11}")
    for name, x, y in [*generated(), *real()]:
        gp, seconds = fit(x, y, "auto")
        fixed = {m: fit(x, y, m)[0] for m in FIXED}
        best = max(fixed, key=lambda m: fixed[m].elbo_)
        behind = (fixed[best].elbo_ - gp.elbo_) / gp.stats_.count
        _, same = fit(x, y, gp.num_basis_)
        verdict = "ok" if behind < LIMIT and seconds < 3.0 * same + 0.3 else "MISSED"
        print(
            f"{name:<26}{gp.num_basis_:>8}{seconds:>7.2f}{best:>8}{behind:>20.4f}{same:>11.2f}"
            f"  x{seconds / same:.1f}  {verdict}"
        )


if __name__ == "__main__":
    main()
