# pyright: reportMissingImports=false
"""pyGAM: a penalised spline for each input, summed, their penalty by grid search.

As its tour (pygam.readthedocs.io, "Regression"): ``LinearGAM(s(0, n_splines=...)).gridsearch``,
prediction intervals by ``prediction_intervals``.

Settings: "splines" (default 200).
"""

import child
import numpy as np
from pygam import LinearGAM, s
from scipy.stats import norm


def fit(x, y, settings):
    number = min(settings.get("splines", 200), len(y) // 2)
    terms = s(0, n_splines=number)
    for i in range(1, x.shape[1]):
        terms += s(i, n_splines=number)
    gam = LinearGAM(terms)
    gam.gridsearch(x, y, lam=np.logspace(-5, 3, 9), progress=False)
    return {"gam": gam, "info": {"splines": number, "penalty": float(gam.lam[0][0])}}


def predict(model, x):
    mean = model["gam"].predict(x)
    upper = model["gam"].prediction_intervals(x, quantiles=[0.975])[:, 0]
    return mean, (upper - mean) / norm.ppf(0.975)


if __name__ == "__main__":
    child.main(fit, predict, versions=["pygam"])
