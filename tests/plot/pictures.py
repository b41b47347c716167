"""Models and helpers of the tests of pictures."""

from functools import cache

import numpy as np
import pandas as pd

from asvgp import Constant, GPRegressor, Linear, Matern32, Matern52


def noisy(x, seed=0):
    return np.sin(x) + 0.1 * np.random.default_rng(seed).standard_normal(len(x))


@cache
def line_model():
    x = np.linspace(0.0, 20.0, 600)
    y = noisy(x)
    return GPRegressor(Matern32(), num_basis=60).fit(x, y), x, y


@cache
def field_model():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.uniform(0.0, 1.0, (1500, 2)), columns=["lat", "lon"])
    y = pd.Series(np.sin(5 * X.lat) + X.lon + 0.1 * rng.standard_normal(1500), name="rain (mm)")
    gp = GPRegressor(Matern32(0.5), num_basis=10, optimizer=None, noise_variance=0.01)
    return gp.fit(X, y), X, y


@cache
def mixed_model():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(0.0, 1.0, (1500, 4)), columns=["lon", "lat", "height", "slope"])
    y = np.sin(5 * X.lon) * X.lat + X.height**2 + 0.5 * X.slope + 0.1 * rng.standard_normal(1500)
    product = Matern32(0.5, dim="lon") * Matern32(0.5, dim="lat")
    kernel = product + Matern52(0.5, dim="height") + Linear("slope") + Constant()
    gp = GPRegressor(kernel, num_basis=10, optimizer=None, noise_variance=0.01)
    return gp.fit(X, y), X, y


def named(ax, label):
    """The artist with a label."""
    (found,) = [a for a in (*ax.lines, *ax.collections, *ax.patches) if a.get_label() == label]
    return found
