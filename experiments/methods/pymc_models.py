# pyright: reportMissingImports=false
"""PyMC: the basis of its Hilbert space approximation (HSGP), hyperparameters by MAP.

As its "HSGP reference and first steps" (docs of PyMC): a box a fifth wider than the data, a
Matern-3/2 with a length for each input, ``find_MAP``. The weights of the basis are integrated out
in closed form, so the data are read once and predictions have a standard deviation.

Settings: "m" (functions along each input, a list), "c" (how much wider the box is, default 1.2).
"""

import child
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.hsgp_approx import calc_eigenvalues, calc_eigenvectors
from scipy.linalg import cho_factor, cho_solve, solve_triangular

PORTION = 20_000


def fit(x, y, settings):
    middle, half = (x.max(0) + x.min(0)) / 2, np.ptp(x, axis=0) / 2
    model = {"middle": middle, "half": half, "m": settings["m"], "c": settings.get("c", 1.2)}
    number = int(np.prod(settings["m"]))
    gram, moment = np.zeros((number, number)), np.zeros(number)
    for rows in np.array_split(np.arange(len(y)), 1 + len(y) // PORTION):
        phi = basis(model, x[rows])
        gram += phi.T @ phi
        moment += phi.T @ y[rows]
    omega = np.sqrt(eigenvalues(model))
    with pm.Model():
        lengths = pm.InverseGamma("lengths", 2.0, 0.3, shape=x.shape[1], initval=[0.2] * x.shape[1])
        sigma = pm.HalfNormal("sigma", 2.0, initval=1.0)
        noise = pm.HalfNormal("noise", 1.0, initval=0.3)
        root = sigma * pt.sqrt(spectrum(omega, lengths))
        lower = pt.linalg.cholesky(pt.eye(number) + root[:, None] * root * gram / noise**2)
        weights = pt.linalg.solve_triangular(lower, root * moment / noise**2, lower=True)
        evidence = 0.5 * pt.sum(weights**2) - pt.sum(pt.log(pt.diag(lower)))
        pm.Potential("evidence", evidence - 0.5 * float(y @ y) / noise**2 - len(y) * pt.log(noise))
        best = pm.find_MAP(progressbar=False)
    noise = float(best["noise"])
    root = best["sigma"] * np.sqrt(spectrum(omega, best["lengths"]).eval())
    inner = cho_factor(np.eye(number) + root[:, None] * root * gram / noise**2, lower=True)
    weights = cho_solve(inner, root * moment / noise**2)
    info = {"lengths": best["lengths"], "noise": noise**2, "functions": number}
    return model | {"root": root, "inner": inner, "weights": weights, "noise": noise, "info": info}


def spectrum(omega, lengths):
    return pm.gp.cov.Matern32(omega.shape[1], ls=lengths).power_spectral_density(omega)


def eigenvalues(model):
    return calc_eigenvalues(model["c"] * np.ones(len(model["m"])), model["m"])


def basis(model, x):
    scaled = (x - model["middle"]) / model["half"]
    box = model["c"] * np.ones(len(model["m"]))
    return np.asarray(calc_eigenvectors(scaled, box, eigenvalues(model), model["m"]).eval())


def predict(model, x):
    phi = basis(model, x) * model["root"]
    spread = solve_triangular(model["inner"][0], phi.T, lower=True)
    return phi @ model["weights"], np.sqrt(np.sum(spread**2, axis=0) + model["noise"] ** 2)


if __name__ == "__main__":
    child.main(fit, predict, versions=["pymc"])
