"""asvgp, as a user would call it.

Settings: "kernel" (text, as on the command line; None for the library's own choice; without it
matern32, which all recorded results of "asvgp, defaults" over one input were made with), and any
parameter of `GPRegressor`.
"""

import child

from asvgp import GPRegressor
from asvgp.kernels.text import parse_kernel


def fit(x, y, settings):
    settings = dict(settings)
    text = settings.pop("kernel", "matern32")
    kernel = None if text is None else parse_kernel(text)
    gp = GPRegressor(kernel, **settings).fit(x, y)
    info = {
        "num_basis": gp.num_basis_,
        "bound": float(gp.elbo_),
        "noise": float(gp.noise_variance_),
        "kernel": str(gp.kernel_),
    }
    return {"gp": gp, "info": info}


def predict(model, x):
    mean, std = model["gp"].predict(x, return_std=True, include_noise=True)
    return mean, std


if __name__ == "__main__":
    child.main(fit, predict, versions=["asvgp"])
