"""Noise that varies along the inputs: `Heteroscedastic` beside one noise variance for all rows.

    ASVGP_DATA=folder python benchmarks/varying_noise.py [--peer]

A fifth of the rows is hidden at random. Printed are the mean log density of these, the share of
them inside bands of 95 % among the quietest and the liveliest third of rows (by the predicted
noise), and CPU seconds. With ``--peer``, 800 rows of each series are also given to a dense Gaussian
process whose log-variance is smoothed by a second one, by turns (Kersting and others, 2007), with
scikit-learn.

The data are ``household_power_2007h1.npz``, ``air_quality.npz``, ``beijing_prsa.npz`` and
``snelson1d.npz``; experiments/README.md says where they come from.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm

from asvgp import Constant, GPRegressor, Heteroscedastic, Matern32

FOLDER = Path(os.environ.get("ASVGP_DATA", "."))


def series() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return inputs and targets by name, in days and in units of the data."""
    power = np.load(FOLDER / "household_power_2007h1.npz")
    days = power["minute"] / 1440.0
    first = days < days[0] + 28.0
    air, beijing = np.load(FOLDER / "air_quality.npz"), np.load(FOLDER / "beijing_prsa.npz")
    nox = np.where(air["nox_gt"] < 0.0, np.nan, air["nox_gt"])
    snelson = np.load(FOLDER / "snelson1d.npz")
    found = {
        "household power, kW, 28 days by the minute": (
            days[first],
            power["global_active_power_kw"][first],
        ),
        "nitrogen oxides, ppb, by the hour": (air["hour"] / 24.0, nox),
        "fine dust, ug/m3, by the hour": (beijing["hour"] / 24.0, beijing["pm25"]),
        "snelson": (snelson["train_x"], snelson["train_y"]),
    }
    out = {}
    for name, (x, y) in found.items():
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        known = np.isfinite(y)
        out[name] = x[known], y[known]
    return out


def judged(name: str, seconds: float, density, low, high, y, noise, more: str = "") -> None:
    """Print one line of the table."""
    inside, order = (low < y) & (y < high), np.argsort(noise)
    quiet, lively = (
        np.mean(inside[part]) for part in (order[: len(y) // 3], order[-len(y) // 3 :])
    )
    print(
        f"  {name:<16} log density {np.mean(density):8.3f}  inside 95 %: {np.mean(inside):.3f}, "
        f"quiet {quiet:.3f}, lively {lively:.3f}  CPU {seconds:6.2f} s  {more}"
    )


def ours(x, y, new, held, likelihood=None, noise=None):
    """Fit, print a line, and return the predicted noise of the hidden rows."""
    begin = time.process_time()
    gp = GPRegressor(Matern32() + Constant(), likelihood=likelihood).fit(x, y)
    seconds = time.process_time() - begin
    more = ""
    if likelihood is not None:
        noise = gp.predict_noise(new)
        low, _, high = gp.summary().noise
        report = gp.optimization_
        more = f"noise {low:.3g} to {high:.3g}, {report.steps} steps, {report.reads} reads"
    low, high = gp.predict_quantiles(new, (0.025, 0.975), include_noise=True).T
    density = gp.log_predictive_density(new, held)
    name = "one variance" if likelihood is None else "varying noise"
    judged(name, seconds, density, low, high, held, noise, more)
    return noise


def peer(x, y, new, held) -> None:
    """Fit a dense process, its log squared residuals by another, and the first again, by turns."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    begin = time.process_time()
    middle, scale, span = y.mean(), y.std(), np.ptp(x)
    z, X, new = (y - middle) / scale, x[:, None] / span, new[:, None] / span
    variance, g_new = np.full(len(z), 0.1), None
    for _ in range(4):
        kernel = ConstantKernel(1.0) * Matern(0.1, (1e-4, 1e2), nu=1.5)
        f = GaussianProcessRegressor(kernel, alpha=variance, n_restarts_optimizer=0).fit(X, z)
        m, s = f.predict(X, return_std=True)
        logs = np.log((z - m) ** 2 + s**2)
        of_g = ConstantKernel(1.0) * Matern(0.3, (1e-3, 1e2), nu=1.5) + WhiteKernel(4.9)
        g = GaussianProcessRegressor(of_g, normalize_y=True).fit(X, logs + 1.27)
        variance, g_new = np.exp(g.predict(X)), np.exp(g.predict(new))
    m, s = f.predict(new, return_std=True)
    std = np.sqrt(s**2 + g_new)
    seconds = time.process_time() - begin
    mean, std = middle + scale * m, scale * std
    density = norm.logpdf(held, mean, std)
    judged("dense, by turns", seconds, density, mean - 1.96 * std, mean + 1.96 * std, held, g_new)


def main() -> None:
    """Run all series."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="store_true", help="compare 800 rows with a dense model")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 300)
    GPRegressor(Matern32() + Constant(), likelihood=Heteroscedastic()).fit(x, np.sin(x) + 0.1 * x)
    for name, (x, y) in series().items():
        hidden = rng.random(len(x)) < 0.2
        parts = x[~hidden], y[~hidden], x[hidden], y[hidden]
        print(f"{name}: {len(parts[0]):,} rows, {len(parts[2]):,} hidden", flush=True)
        noise = ours(*parts, Heteroscedastic())
        ours(*parts, noise=noise)
        if given.peer:
            some = slice(0, 1000)
            few = x[some], y[some]
            hidden = rng.random(len(few[0])) < 0.2
            parts = few[0][~hidden], few[1][~hidden], few[0][hidden], few[1][hidden]
            print(f"  the first {len(parts[0])} rows:")
            noise = ours(*parts, Heteroscedastic())
            ours(*parts, noise=noise)
            peer(*parts)


if __name__ == "__main__":
    main()
