"""Likelihoods that are not Gaussian on real data: the figures of docs/likelihoods.md.

    ASVGP_DATA=FOLDER python benchmarks/likelihoods_real.py [bike] [flights] [banana] [land] [power]

Of every set a fifth of the rows is hidden, of the banana set 1,300 of 5,300. Beside it are
GPBoost, where it is installed, and scikit-learn's classifier on 1,000 rows. The table: mean
log density of the hidden rows, in nats, an error in the units of y, what 95 % intervals hold, how
often the rows were summed or read, and seconds of CPU time.

ASVGP_DATA names a folder with ``bike_sharing.npz``, ``us_flights.npz``, ``banana.npz``,
``land_aegean.npz`` and ``household_power_2007h1.npz``; experiments/README.md says where they
come from.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.metrics import roc_auc_score

from asvgp import (
    Bernoulli,
    Constant,
    GPClassifier,
    GPRegressor,
    Matern32,
    NegativeBinomial,
    Periodic,
    Poisson,
    StudentT,
)


def load(name: str):
    """Return the arrays of a file in the folder that ASVGP_DATA names."""
    folder = os.environ.get("ASVGP_DATA")
    if folder is None or not (path := Path(folder, f"{name}.npz")).exists():
        raise SystemExit(f"{name}.npz is missing: set ASVGP_DATA to a folder that holds it.")
    with np.load(path) as found:
        return {key: found[key] for key in found}


def fitted(gp: GPRegressor, X, y) -> tuple[GPRegressor, float]:
    """Return a model that was fitted, and the seconds of CPU time that it took."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp.fit(X, y)
        gp.predict(np.asarray(X)[:1])
    return gp, time.process_time() - begin


def line(name: str, **figures) -> None:
    """Print one row of the table."""
    print(f"{name:<34}" + "  ".join(f"{key} {value}" for key, value in figures.items()), flush=True)


def steps(gp: GPRegressor) -> str:
    """Return how often the sites of a likelihood were computed."""
    return str(getattr(gp.optimization_, "steps", "-"))


def bike(rng: np.random.Generator) -> None:
    """Fit counts of bicycles hired in every hour of two years."""
    data = load("bike_sharing")
    x, y = data["hour"].astype(float), data["count"].astype(float)
    hidden = rng.random(len(x)) < 0.2
    kernel = Matern32(5.0) + Matern32(2000.0) + Periodic(168.0) + Constant()
    for name, options in {
        "Gaussian": {},
        "Gaussian, log y": {"transform": "log"},
        "Poisson": {"likelihood": Poisson()},
        "NegativeBinomial": {"likelihood": NegativeBinomial()},
    }.items():
        gp, seconds = fitted(GPRegressor(kernel, **options), x[~hidden], y[~hidden])
        if name == "Poisson":
            kernel = gp.kernel_  # where the next begins
        low, high = gp.predict_quantiles(x[hidden], (0.025, 0.975), include_noise=True).T
        line(
            f"bike, {name}",
            density=f"{gp.log_predictive_density(x[hidden], y[hidden]).mean():.3f}",
            mae=f"{np.abs(gp.predict(x[hidden]) - y[hidden]).mean():.1f}",
            covered=f"{np.mean((y[hidden] >= low) & (y[hidden] <= high)):.3f}",
            steps=steps(gp),
            cpu=f"{seconds:.1f}",
            bound=f"{gp.elbo_:.0f}",
            likelihood=f"{gp.likelihood_!r}",
        )


def flights(rng: np.random.Generator, rows: int) -> None:
    """Fit delays of more than 15 minutes, by eight inputs."""
    data = load("us_flights")
    names = (
        *("month", "day_of_month", "day_of_week", "plane_age_yr"),
        *("air_time_min", "distance_mi", "dep_time_min", "arr_time_min"),
    )
    X = np.column_stack([data[name].astype(float) for name in names])
    y = (data["arr_delay_min"] > 15).astype(float)
    chosen = rng.permutation(len(y))[: rows + rows // 4]
    X, y = X[chosen], y[chosen]
    shown, new = slice(0, rows), slice(rows, None)
    scales = [3.0, 10.0, 3.0, 10.0, 60.0, 500.0, 180.0, 180.0]
    kernel = Constant()
    for column, scale in enumerate(scales):
        kernel = Matern32(scale, dim=column) + kernel
    gp, seconds = fitted(
        GPRegressor(kernel, num_basis=30, likelihood=Bernoulli()), X[shown], y[shown]
    )
    share = y[shown].mean()
    chance = np.clip(gp.predict(X[new]), 1e-12, 1.0 - 1e-12)
    base = y[new].mean() * np.log(share) + (1.0 - y[new].mean()) * np.log(1.0 - share)
    line(
        f"flights, Bernoulli, {rows:,} rows",
        density=f"{gp.log_predictive_density(X[new], y[new]).mean():.4f}",
        without=f"{base:.4f}",
        auc=f"{roc_auc_score(y[new], chance):.3f}",
        brier=f"{np.mean((chance - y[new]) ** 2):.4f}",
        steps=steps(gp),
        cpu=f"{seconds:.1f}",
    )


def banana(rng: np.random.Generator) -> None:
    """Fit two classes in the plane with defaults, beside others."""
    data = load("banana")
    order = rng.permutation(len(data["y"]))
    X, y = data["x"][order].astype(float), data["y"][order]
    shown, new = slice(0, 4000), slice(4000, None)

    def told(name: str, chance, seconds: float, **more) -> None:
        chance = np.clip(chance, 1e-12, 1.0 - 1e-12)
        density = np.where(y[new] == 1, np.log(chance), np.log1p(-chance)).mean()
        wrong = np.mean((chance > 0.5) != (y[new] == 1))
        figures = {"density": f"{density:.4f}", "wrong": f"{wrong:.4f}", "cpu": f"{seconds:.1f}"}
        line(f"banana, {name}", **figures, **more)

    for link in ("logit", "probit"):
        begin = time.process_time()
        gp = GPClassifier(link=link).fit(X[shown], y[shown])
        seconds, model = time.process_time() - begin, gp.regressor_
        told(link, gp.predict_proba(X[new])[:, 1], seconds, bound=f"{model.elbo_:.1f}")
    begin = time.process_time()
    few = slice(0, 1000)
    peer = GaussianProcessClassifier(ConstantKernel() * Matern(nu=1.5)).fit(X[few], y[few])
    told("scikit-learn, 1,000 rows", peer.predict_proba(X[new])[:, 1], time.process_time() - begin)
    try:
        import gpboost
    except ImportError:
        return
    begin, options = time.process_time(), {"cov_function": "matern", "cov_fct_shape": 1.5}
    other = gpboost.GPModel(
        gp_coords=X[shown], likelihood="bernoulli_logit", gp_approx="vecchia", **options
    )
    other.fit(y=y[shown].astype(float))
    found = other.predict(gp_coords_pred=X[new], predict_response=True, predict_var=False)
    told("GPBoost", found["mu"], time.process_time() - begin)


def land(rng: np.random.Generator, basis: int) -> None:
    """Fit land and sea on a map of the Aegean."""
    data = load("land_aegean")
    lat, lon = np.meshgrid(data["lat"], data["lon"], indexing="ij")
    X, y = np.column_stack([lon.ravel(), lat.ravel()]), data["land"].ravel().astype(float)
    hidden = rng.random(len(y)) < 0.2
    kernel = Matern32(1.0, dim=0) * Matern32(1.0, dim=1) + Constant()
    gp, seconds = fitted(
        GPRegressor(kernel, num_basis=basis, likelihood=Bernoulli()), X[~hidden], y[~hidden]
    )
    chance = np.clip(gp.predict(X[hidden]), 1e-12, 1.0 - 1e-12)
    line(
        f"land, Bernoulli, {basis} x {basis}",
        density=f"{gp.log_predictive_density(X[hidden], y[hidden]).mean():.4f}",
        wrong=f"{np.mean((chance > 0.5) != (y[hidden] > 0.5)):.4f}",
        brier=f"{np.mean((chance - y[hidden]) ** 2):.4f}",
        steps=steps(gp),
        cpu=f"{seconds:.1f}",
    )


def power(rng: np.random.Generator, days: int) -> None:
    """Fit household power with gross outliers in a tenth of the rows."""
    data = load("household_power_2007h1")
    keep = data["minute"] < 1440 * days
    x = data["minute"][keep].astype(float)
    clean = data["global_active_power_kw"][keep].astype(float)
    hidden = rng.random(len(x)) < 0.2
    wrong = ~hidden & (rng.random(len(x)) < 0.1)
    y = clean + wrong * rng.choice([-1.0, 1.0], len(x)) * rng.uniform(5.0, 20.0, len(x))
    options = {"num_basis": 12 * days}  # a knot every two hours
    kernel = Matern32(300.0) + Constant()
    known, _ = fitted(GPRegressor(kernel, **options), x[~hidden], clean[~hidden])
    truth = known.predict(x)
    for name, given, likelihood in (
        ("Gaussian, no outliers", clean, None),
        ("Gaussian", y, None),
        ("StudentT", y, StudentT()),
        ("StudentT, no outliers", clean, StudentT()),
    ):
        gp, seconds = fitted(
            GPRegressor(kernel, likelihood=likelihood, **options), x[~hidden], given[~hidden]
        )
        mean = gp.predict(x)
        line(
            f"power, {name}",
            latent=f"{np.sqrt(np.mean((mean - truth) ** 2)):.4f}",
            rmse=f"{np.sqrt(np.mean((mean[hidden] - clean[hidden]) ** 2)):.4f}",
            mae=f"{np.abs(mean[hidden] - clean[hidden]).mean():.4f}",
            density=f"{gp.log_predictive_density(x[hidden], clean[hidden]).mean():.3f}",
            steps=steps(gp),
            cpu=f"{seconds:.1f}",
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=["bike", "flights", "banana", "land", "power"])
    parser.add_argument("--flights", type=int, default=100_000, help="rows to train on")
    parser.add_argument("--basis", type=int, default=100, help="splines along each side of the map")
    parser.add_argument("--days", type=int, default=60, help="days of household power")
    given = parser.parse_args()
    for name in given.sets:
        rng = np.random.default_rng(0)
        if name == "bike":
            bike(rng)
        elif name == "flights":
            flights(rng, given.flights)
        elif name == "banana":
            banana(rng)
        elif name == "land":
            land(rng, given.basis)
        elif name == "power":
            power(rng, given.days)
        else:
            raise SystemExit(f"There is no set {name!r}: bike, flights, banana, land, power.")


if __name__ == "__main__":
    main()
