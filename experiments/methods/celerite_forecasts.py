# pyright: reportMissingImports=false, reportCallIssue=false
"""celerite2: a Matern-3/2 and oscillators with the seasons and half the shortest, by L-BFGS-B.

As its tutorial "First steps" (celerite2.readthedocs.io): sums of terms, ``scipy.optimize.minimize``
of the negative log likelihood over logarithms, with the mean as one more parameter.

Settings: "seasons" (in steps).
"""

import celerite2
import child
import numpy as np
from celerite2 import terms
from celerite2.driver import LinAlgError
from scipy.optimize import minimize

WORST = 1e25


def fit(x, y, settings):
    x, scale, level = x[:, 0], float(np.std(y)), float(np.mean(y))
    seasons = [*settings["seasons"], settings["seasons"][0] / 2.0]

    def process(p):
        sigma, rho, noise = np.exp(p[:3])
        term = terms.Matern32Term(sigma=scale * sigma, rho=rho)
        for one in p[3:-1].reshape(-1, 3):
            sigma, rho, quality = np.exp(one)
            term = term + terms.SHOTerm(sigma=scale * sigma, rho=rho, Q=quality)
        gp = celerite2.GaussianProcess(term, mean=level + scale * p[-1])
        gp.compute(x, diag=np.full(len(x), (scale * noise) ** 2))
        return gp

    def loss(p):
        try:
            found = -process(p).log_likelihood(y)
        except LinAlgError:
            return WORST
        return found if np.isfinite(found) else WORST

    first = [np.log([0.5, seasons[0], 0.2])]
    first += [np.log([0.5, season, 100.0]) for season in seasons]
    start = np.concatenate([*first, [0.0]])
    near = np.full(len(start), 7.0)
    near[4:-1:3] = 0.2  # a period stays near its season
    bounds = list(zip(start - near, start + near, strict=True))
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    info = {"evaluations": found.nfev, "log_likelihood": -found.fun, "found": found.x}
    noise = (scale * np.exp(found.x[2])) ** 2
    return {"gp": process(found.x), "y": y, "noise": noise, "info": info}


def predict(model, x):
    mean, variance = model["gp"].predict(model["y"], t=x[:, 0], return_var=True)
    return mean, np.sqrt(np.maximum(variance, 0.0) + model["noise"])


if __name__ == "__main__":
    child.main(fit, predict, versions=["celerite2"])
