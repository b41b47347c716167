"""asvgp from rows onto a regular grid, its stages timed apart.

Settings: "grid", the number of rows at the end of those to predict that are the grid; else as
`asvgp_models`. A small fit of the same kind comes first, so that no stage waits for compiled
code to be loaded.
"""

import time

import asvgp_models
import child
import numpy as np


def warm(settings):
    """Load the compiled code."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(2000, 2))
    y = np.sin(5.0 * x[:, 0]) + 0.1 * rng.standard_normal(2000)
    small = settings | ({"num_basis": 20} if "num_basis" in settings else {})
    asvgp_models.predict(asvgp_models.fit(x, y, small), x[:100])


def fit(x, y, settings):
    settings = dict(settings)
    grid = settings.pop("grid")
    warm(settings)
    begin = time.perf_counter()
    model = asvgp_models.fit(x, y, settings) | {"grid": grid}
    whole = time.perf_counter() - begin
    seen = float(model["gp"].timings_["pass"])
    model["info"] |= {"pass_seconds": seen, "training_seconds": whole - seen}
    return model


def predict(model, x):
    cut = len(x) - model["grid"]
    rows = asvgp_models.predict(model, x[:cut])
    begin = time.perf_counter()
    grid = asvgp_models.predict(model, x[cut:])
    model["info"]["grid_seconds"] = time.perf_counter() - begin
    return [np.concatenate(pair) for pair in zip(rows, grid, strict=True)]


if __name__ == "__main__":
    child.main(fit, predict, versions=["asvgp"])
