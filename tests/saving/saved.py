"""Models of every kind, fitted once, for the tests of saving and loading."""

from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import (
    LBFGS,
    SHO,
    Constant,
    GPRegressor,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Matern72,
    ModelFileError,
)
from asvgp.posterior.leave_one_out import LeaveOneOut
from asvgp.saving import model_file

N = 400


def numbers(columns: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (N, columns))
    wave = np.sin(X[:, 0]) * np.cos(X[:, min(1, columns - 1)] / 3.0) + 0.3 * X[:, -1]
    return X, 2.0 + wave + 0.1 * rng.standard_normal(N)


def times(zone: str | None = "Europe/Berlin"):
    rng = np.random.default_rng(1)
    hours = np.sort(rng.uniform(0.0, 240.0, N))
    index = pd.Timestamp("2024-03-25") + pd.to_timedelta(hours, unit="h")
    index = index.tz_localize(zone, nonexistent="shift_forward") if zone else index
    return index, np.sin(2 * np.pi * hours / 24) + 0.1 * rng.standard_normal(N)


def line():
    X, y = numbers(1)
    return GPRegressor(Matern32()).fit(X[:, 0], y), X[:, 0], y, {}


def sums():
    X, y = numbers(1)
    kernel = Matern52(3.0, bounds={"lengthscale": (0.5, 50.0)}) + SHO(6.0, fixed="period")
    kernel = kernel + Constant(variance=9.0) + Linear()
    return GPRegressor(kernel, num_basis=40, degree=4).fit(X, y), X, y, {}


def covariates():
    X, y = numbers(3)
    frame = pd.DataFrame(X, columns=["when", "warm", "wet"])
    noise = {"noise_variance": np.linspace(0.005, 0.02, N)}
    kernel = Matern32(dim="when") + Linear("warm") + Constant() + Linear("wet")
    gp = GPRegressor(kernel, num_basis=30).fit(frame, y, **noise)
    return gp, frame, y, noise


def zones():
    X, y = times()
    domain = (datetime(2024, 3, 20, tzinfo=ZoneInfo("Europe/Berlin")), pd.Timestamp(X[-1]))
    kernel = Matern32("2 days", bounds={"lengthscale": ("1 hour", "60 days")}) + SHO("1 day", 5.0)
    gp = GPRegressor(kernel, num_basis=60, domain=domain, optimizer=LBFGS(50, restarts=1))
    return gp.fit(X, y), X, y, {}


def averages():
    X, y = numbers(1)
    x = np.floor(10.0 * X[:, 0]) / 10.0
    kwargs = {"width": np.where(np.arange(N) % 2, 0.1, 0.0), "sample_weight": 1.0 + X[:, 0]}
    gp = GPRegressor(Matern32(), num_basis=102, domain=(0.0, 10.0), degree=2).fit(x, y, **kwargs)
    return gp, x, y, kwargs


def outputs():
    X, y = numbers(1)
    Y = np.stack([y, y**2], axis=1)
    gp = GPRegressor(Matern12() + Constant(), num_basis=30).fit(X, Y)
    return gp, X, Y, {}


def noiseless():
    """Where the square-root path is taken."""
    x = np.linspace(0.0, 10.0, 300)
    gp = GPRegressor(Matern72(3.0), num_basis=40, noise_variance=1e-16, optimizer=None)
    assert gp.fit(x, np.sin(x)).posterior_.chain.path == "square-root"
    return gp, x, np.sin(x), {}


def separable():
    X, y = numbers(2)
    return GPRegressor(Matern32() + Constant()).fit(X, y), X, y, {}


def mixed():
    X, y = numbers(4)
    frame = pd.DataFrame(X, columns=["lon", "lat", "height", "sun"])
    kernel = Matern32(dim="lon") * Matern52(2.0, dim="lat", fixed="lengthscale")
    kernel = kernel + Matern32(dim="height") + Constant() + Linear("sun")
    gp = GPRegressor(kernel, num_basis=(12, 11, 10)).fit(frame, y)
    return gp, frame, y, {}


def additive():
    X, y = numbers(3)
    kernel = Matern32(dim=0) + Matern52(dim=1) + Linear(2)
    Y = np.stack([y, -y], axis=1)
    return GPRegressor(kernel, num_basis=20).fit(X, Y), X, Y, {}


def scales():
    """Two terms on knots of their own, one of them of time."""
    X, y = numbers(2)
    frame = pd.DataFrame({"t": pd.Timestamp("2024-01-01") + pd.to_timedelta(X[:, 0], "h")})
    frame["x"] = X[:, 1]
    slow = Matern32("8 hours", dim="t") * Matern32(9.0, dim="x")
    fast = Matern12("1 hour", 0.1, dim="t") * Matern12(0.7, dim="x")
    gp = GPRegressor(slow + fast, noise_variance=0.05, optimizer=None, objective="evidence")
    return gp.fit(frame, y), frame, y, {}


LINES = [line, sums, covariates, zones, averages, outputs, noiseless]
FIELDS = [separable, mixed, additive, scales]


@cache
def fitted(case):
    return case()


def again(gp, path, full=True):
    """Saved and loaded: a full file, unless told, which keeps all bits."""
    gp.save(path, full=full)
    return asvgp.load(path)


def beyond(X):
    """Places inside the domain and outside, like X."""
    if isinstance(X, pd.DataFrame):
        later = X[:20].apply(lambda column: column + (X[column.name].max() - X[column.name].min()))
        return pd.concat([X[:40], later])
    if isinstance(X, pd.DatetimeIndex):
        return X[:40].append(X[:20] + pd.Timedelta(days=20))
    return np.concatenate([X[:40], X[:20] + 11.0, X[:5] - 30.0])


def same(a, b) -> bool:
    """Bit for bit, whatever it is made of."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, LeaveOneOut):
        return same(list(vars(a).values()), list(vars(b).values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (a != a and b != b)


def rewrite(path, change_model=None, change_arrays=None):
    """The same file with other content and right checksums."""
    model, arrays = model_file.read(path)
    if change_model:
        change_model(model)
    if change_arrays:
        change_arrays(arrays)
    model_file.write(path, model, arrays)


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as info:
        asvgp.load(path)
    assert str(path) in str(info.value)
    assert isinstance(info.value, ValueError)


def nested(model, *keys):
    for key in keys[:-1]:
        model = model[key]
    return model, keys[-1]
