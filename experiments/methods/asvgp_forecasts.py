"""asvgp's forecasts of a series, as a user would ask for them.

Settings: "start" (date of step zero), "step" (seconds), "kernel" (text, as on the command line;
without it the library chooses).
"""

import child
import numpy as np
from dates import dates

from asvgp import GPRegressor
from asvgp.kernels.text import parse_kernel


def fit(x, y, settings):
    text = settings.get("kernel")
    calendar = settings["start"], settings["step"]
    gp = GPRegressor(None if text is None else parse_kernel(text)).fit(dates(x, *calendar), y)
    info = {
        "num_basis": gp.num_basis_,
        "bound": float(gp.elbo_),
        "noise": float(gp.noise_variance_),
        "kernel": repr(gp.kernel_),
    }
    return {"gp": gp, "calendar": calendar, "info": info}


def predict(model, x):
    bands = [round(1.0 - 2.0 * p, 3) for p in child.QUANTILES if p < 0.5]
    table = model["gp"].forecast(X=dates(x, *model["calendar"]), level=bands)
    lower = [table[f"lower_{100 * band:g}"] for band in bands]
    upper = [table[f"upper_{100 * band:g}"] for band in reversed(bands)]
    return table["mean"], np.column_stack([*lower, *upper])


if __name__ == "__main__":
    child.main(fit, predict, versions=["asvgp"])
