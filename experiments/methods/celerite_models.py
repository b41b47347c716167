# pyright: reportMissingImports=false
"""celerite2: its Matern-3/2 term, hyperparameters by L-BFGS-B.

As its tutorial "First steps" (celerite2.readthedocs.io): ``scipy.optimize.minimize`` of the
negative log likelihood over logarithms, here from three lengthscales (`starts`). Variances of
new points are asked for in portions: they take memory in proportion to the points and the data.
"""

import celerite2
import child
import numpy as np
import starts
from celerite2 import terms
from celerite2.driver import LinAlgError

PORTION = 200
WORST = 1e25


def fit(x, y, settings):
    x = x[:, 0]
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]

    def process(p):
        sigma, rho, noise = np.exp(p)
        gp = celerite2.GaussianProcess(terms.Matern32Term(sigma=sigma, rho=rho), mean=0.0)
        gp.compute(x, diag=np.full(len(x), noise**2))
        return gp

    def loss(p):
        try:
            return -process(p).log_likelihood(y)
        except LinAlgError:  # hardly any noise, and rows at the same place
            return WORST

    found, info = starts.minimised(loss, x, y)
    return {"gp": process(found), "y": y, "noise": info["noise"], "info": info}


def predict(model, x):
    order = np.argsort(x[:, 0], kind="stable")
    mean, variance = np.empty(len(x)), np.empty(len(x))
    for rows in np.array_split(order, 1 + len(x) // PORTION):
        mean[rows], variance[rows] = model["gp"].predict(model["y"], t=x[rows, 0], return_var=True)
    return mean, np.sqrt(variance + model["noise"])


if __name__ == "__main__":
    child.main(fit, predict, versions=["celerite2"])
