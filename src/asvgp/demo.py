"""Demonstrate the main job on generated data: ``python -m asvgp.demo``.

Two million points of a multi-scale series with gaps: a slow drift, a daily wave and fast
bursts, sampled irregularly over a year. Fit, forecast past the end, check against points
that were held out, and draw the result at three zooms.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from asvgp import plot
from asvgp.basis import Array
from asvgp.estimators.regressor import GPRegressor
from asvgp.kernels import SHO, Matern32, Matern52
from asvgp.plot.style import pyplot

DAYS = 365.0
GAPS = [(61.0, 64.0), (200.2, 203.4), (203.9, 204.1), (290.0, 291.5)]
NOISE = 0.25
KERNEL = Matern32() + SHO(1.0, quality=100.0) + Matern52(30.0)  # bursts, a daily wave and a drift
LATER = np.linspace(DAYS, DAYS + 3.0, 500)  # of the forecast


def truth(t: Array) -> Array:
    """Return the noise-free series at times in days."""
    rng = np.random.default_rng(7)
    drift = sum(
        a * np.sin(2 * np.pi * t / p + s)
        for p, a, s in zip(
            [190.0, 73.0, 31.0], [1.2, 0.8, 0.5], rng.uniform(0, 6.28, 3), strict=True
        )
    )
    daily = (0.7 + 0.3 * np.sin(t / 9.0)) * np.sin(2 * np.pi * t)
    centres, widths = rng.uniform(0, DAYS, 700), rng.uniform(0.02, 0.08, 700)
    bursts = np.zeros_like(t)
    for centre, width, height in zip(centres, widths, rng.uniform(-1.5, 1.5, 700), strict=True):
        near = slice(*np.searchsorted(t, [centre - 6 * width, centre + 6 * width]))
        bursts[near] += height * np.exp(-(((t[near] - centre) / width) ** 2))
    return drift + daily + bursts


@dataclass
class Series:
    """Times, observations and a mask of the points held out of the fit."""

    t: Array
    y: Array
    held_out: Array


def generate(n: int, seed: int = 0) -> Series:
    """Return irregular, gappy, noisy samples of `truth`; one in twenty is held out."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, DAYS, int(1.085 * n) + 100))
    for start, end in GAPS:
        t = t[(t < start) | (t > end)]
    y = truth(t) + NOISE * rng.standard_normal(len(t))
    return Series(t, y, rng.random(len(t)) < 0.05)


def run(n: int = 2_000_000, picture: str | None = "demo.png", seed: int = 0) -> dict[str, float]:
    """Generate data, fit, check, print a table and draw; return the numbers of the table."""
    clock = [time.perf_counter()]

    def lap() -> float:
        clock.append(time.perf_counter())
        return clock[-1] - clock[-2]

    # A small fit first, so that the times below are not those of the compiler.
    print("Compiling (once per machine) ...", flush=True)
    few = np.sort(np.random.default_rng(0).uniform(0.0, 30.0, 2000))
    GPRegressor(KERNEL).fit(few, np.sin(few)).predict([0.5], return_std=True)
    compiled = lap()
    series = generate(n, seed)
    train = ~series.held_out
    t, y = series.t[train], series.y[train]
    numbers: dict[str, float] = {"compile (s)": compiled, "generate (s)": lap()}
    gp = GPRegressor(KERNEL).fit(t, y)
    numbers["fit (s)"] = lap()
    for stage, seconds in gp.timings_.items():
        numbers[f"  {stage} (s)"] = seconds
    lap()
    test_t, test_y = series.t[~train], series.y[~train]
    mean, std = gp.predict(test_t, return_std=True, include_noise=True)
    numbers["predict held out (s)"] = lap()
    error = test_y - mean
    forecast, spread = gp.predict(LATER, return_std=True)
    missed = truth(LATER) - forecast
    covered = {
        "held-out coverage of the 95 % band": np.abs(error) < 1.96 * std,
        "forecast coverage of the 95 % band": np.abs(missed) < 1.96 * spread,
    }
    numbers |= {
        "observations": float(len(t)),
        "held out": float(len(test_t)),
        "basis functions": float(np.prod(gp.num_basis_)),
        "ELBO per datum": gp.elbo_ / len(t),
        "upper bound per datum": gp.evidence_upper_bound_ / len(t),
        "noise standard deviation (truth 0.25)": float(np.sqrt(gp.noise_variance_)),
        "held-out RMSE": float(np.sqrt(np.mean(error**2))),
        "held-out NLPD": float(-np.mean(gp.log_predictive_density(test_t, test_y))),
        "forecast RMSE, three days": float(np.sqrt(np.mean(missed**2))),
    }
    for name, value in numbers.items():
        whole = value == int(value) and abs(value) >= 100
        print(f"{name:<40}{value:>14,.0f}" if whole else f"{name:<40}{value:>14.4f}")
    for name, inside in covered.items():
        numbers[name] = float(np.mean(inside))
        number = f"{'all ' * bool(np.all(inside))}{np.count_nonzero(inside):,}"
        print(f"{name:<40}{100.0 * numbers[name]:>12.1f} % ({number} of {len(inside):,} points)")
    print(f"{'kernel':<40}{gp.kernel_!r}\n{'training':<40}{gp.optimization_}")
    if picture:
        draw(gp, t, y, picture)
        print(f"Wrote {picture}.")
    return numbers


def draw(gp: GPRegressor, t: Array, y: Array, path: str) -> None:
    """Draw the series at three zooms: a year, the days about a gap, and the forecast."""
    plt = pyplot()
    plt.switch_backend("Agg")
    views = [
        ("The whole year", 0.0, DAYS + 12.0),
        ("Twelve days about two gaps", 196.0, 208.0),
        ("The end of the data, and the forecast", DAYS - 3.0, LATER[-1]),
    ]
    figure, axes = plt.subplots(3, 1, figsize=(10, 9), layout="constrained")
    for ax, (title, *interval) in zip(axes, views, strict=True):
        plot.series(gp, t, y, interval=interval, ax=ax)
        ax.set(xlabel="time (days)", ylabel="value (arbitrary units)")
        ax.set_title(title, loc="left")
        ax.get_legend().remove()
    axes[0].set_ylim(top=1.3 * axes[0].get_ylim()[1])
    axes[0].legend(loc="upper right", ncols=4, frameon=False)
    axes[-1].plot(LATER, truth(LATER), "k--", linewidth=1.0, label="truth, without noise")
    axes[-1].legend(*(part[-1:] for part in axes[-1].get_legend_handles_labels()), frameon=False)
    axes[-1].annotate(
        "end of the data", (DAYS, axes[-1].get_ylim()[0]), (4, 4), textcoords="offset points"
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run the command line of the demonstration."""
    parser = argparse.ArgumentParser(description="Fit, forecast and draw a long series.")
    parser.add_argument("--points", type=int, default=2_000_000, help="observations (2,000,000)")
    parser.add_argument("--picture", default="demo.png", help="where to draw (demo.png)")
    parser.add_argument("--no-picture", action="store_true", help="print the table only")
    options = parser.parse_args()
    run(options.points, None if options.no_picture else options.picture)


if __name__ == "__main__":
    main()
