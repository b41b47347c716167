"""asvgp, as a user would call it.

Settings: "kernel" (text, as on the command line; the library's default without), and any
parameter of `GPRegressor`.
"""

import child

from asvgp import GPRegressor
from asvgp.kernels.text import parse_kernel


def fit(x, y, settings):
    settings = dict(settings)
    if "kernel" in settings:
        settings["kernel"] = parse_kernel(settings["kernel"])
    gp = GPRegressor(**settings).fit(x, y)
    info = {
        "num_basis": gp.num_basis_,
        "bound": float(gp.elbo_),
        "noise": float(gp.noise_variance_),
    }
    return {"gp": gp, "info": info}


def predict(model, x):
    mean, std = model["gp"].predict(x, return_std=True, include_noise=True)
    return mean, std


if __name__ == "__main__":
    child.main(fit, predict, versions=["asvgp"])
