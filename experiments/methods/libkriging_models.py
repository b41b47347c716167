# pyright: reportMissingImports=false
"""libKriging: exact kriging with a nugget, a Matern-3/2 with a length for each input.

As its documentation (libkriging.readthedocs.io, "Kriging"): constant trend, BFGS on the log
likelihood, an estimated nugget. It takes memory in N² and time in N³.
"""

import child
import numpy as np
import pylibkriging


def fit(x, y, settings):
    model = pylibkriging.Kriging(y, x, "matern3_2", noise="nugget")
    return {"model": model, "info": {"nugget": float(np.ravel(model.nugget())[0])}}


def predict(model, x):
    mean, std = model["model"].predict(x, True, False, False)[:2]
    return mean, std


if __name__ == "__main__":
    child.main(fit, predict, versions=["pylibkriging"])
