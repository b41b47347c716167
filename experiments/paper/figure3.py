"""Figure 3: time of the pass over the data and of a bound, against M and against N."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from asvgp import Matern32
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.chain import ChainEngine
from asvgp.statistics import Statistics
from experiments.harness import results
from experiments.harness.results import Results
from experiments.harness.scores import Array

TITLE = "Figure 3: growth with M and N"

DEGREE, SPAN, NOISE = 2, 1000.0, 0.3
# The paper's whole fits at N = 2,049,279 (its Table 2): M and seconds
PAPER = {1000: 5.51, 5000: 14.4, 10_000: 24.5, 20_000: 46.3, 30_000: 75.0}
REPEATS, ENOUGH = 7, 0.5  # times at least, and seconds


def series(n: int) -> tuple[Array, Array]:
    """A long series, in order, with structure on all scales from the span to a thousandth."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.exponential(size=n))
    x *= SPAN / x[-1]
    y = NOISE * rng.standard_normal(n)
    for period in np.geomspace(SPAN, 1e-3 * SPAN, 10):
        y += (period / SPAN) ** 0.25 * np.sin(2 * np.pi * (x / period + rng.uniform()))
    return x, y


def run(found: Results) -> None:
    """Least of several times each, after one to warm up."""
    n = 2_049_280 if found.full else 1_000_000
    doublings = 11 if found.full else 9
    x, y = series(n)
    for m in [1000 << i for i in range(doublings)]:
        measure(found, "M", x, y, m)
    for size in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000):
        measure(found, "N", *series(size), 32_000)


def measure(found: Results, against: str, x: Array, y: Array, num_basis: int) -> None:
    """Two rows: the pass, and one bound with its gradient."""
    grid = Grid(float(x[0]), float(x[-1]), num_basis - DEGREE)
    kernel = Matern32(lengthscale=0.05 * SPAN**0.5)
    stats = Statistics.from_data(x, y, grid, DEGREE)
    row = {"against": against, "n": len(x), "m": num_basis}
    passed = least(lambda: Statistics.from_data(x, y, grid, DEGREE))
    found.add({"method": "pass"} | row | {"seconds": passed})

    def bound() -> Bound:
        engine = ChainEngine(kernel, stats, DEGREE)
        return lower_bound(engine.factor(kernel, Gaussian(NOISE**2)))

    value, bounded = bound().elbo, least(bound)
    found.add({"method": "bound and gradient"} | row | {"seconds": bounded, "bound": value})


def least(work: Callable[[], object]) -> float:
    """The shortest of some runs: what disturbs them only ever adds time."""
    times: list[float] = []
    while len(times) < REPEATS or sum(times) < ENOUGH:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Slope of the logarithms by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def curve(found: Results, method: str, against: str) -> tuple[list[float], list[float]]:
    """Sizes and times of one line of the picture."""
    rows = found.where(method=method, against=against)
    return [r[against.lower()] for r in rows], [r["seconds"] for r in rows]


def table(found: Results) -> str:
    """Exponents, then the times."""
    lines = []
    for method in ("pass", "bound and gradient"):
        for against in ("M", "N"):
            sizes, seconds = curve(found, method, against)
            if len(sizes) < 2:
                continue
            late = exponent(sizes[-3:], seconds[-3:])
            fitted = exponent(sizes, seconds)
            ends = f"{sizes[0]:,} … {sizes[-1]:,}"
            times = f"{1e3 * seconds[0]:.2g} … {1e3 * seconds[-1]:.3g}"
            lines.append([method, against, ends, times, f"{fitted:.2f}", f"{late:.2f}"])
    head = ["work", "against", "from … to", "ms", "exponent", "of the last three"]
    whole = exponent(list(PAPER), list(PAPER.values()))
    n = next((r["n"] for r in found.where(against="M")), 0)
    m = next((r["m"] for r in found.where(against="N")), 0)
    return "\n".join(
        [
            results.table(head, lines),
            "![Times against M and N](images/experiments/figure3.png)\n",
            f"Against M at N = {n:,}; against N at M = {m:,}. In operations a bound is "
            "linear in M and independent of N, and the pass (which reads the data once, and sums "
            "them in every cell) linear in N and independent of M. The exponents measured differ "
            "where fixed costs count, at the small end, and where the sums leave the caches, at "
            "the large end. The paper's figure has no numbers to compare with; "
            f"its whole fits of Table 2 grow as M to the power {whole:.2f}, from 5.5 s at "
            "M = 1,000 to 75 s at 30,000, with a GPU.\n",
        ]
    )


def figure(found: Results) -> None:
    """Two log-log panels with slopes."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9.0, 3.6), layout="constrained")
    words = {"M": "M, functions", "N": "N, observations"}
    for axis, against in zip(picture.subplots(1, 2, sharey=True), words, strict=True):
        for method, style in (("pass", "C0o-"), ("bound and gradient", "C3s-")):
            sizes, seconds = curve(found, method, against)
            if len(sizes) > 1:
                power = f"\\propto {against}^{{{exponent(sizes, seconds):.2f}}}"
                label = f"{method} (${power}$ on average)"
                axis.loglog(sizes, [1e3 * s for s in seconds], style, ms=4, label=label)
        axis.set(xlabel=words[against], ylabel="milliseconds" if against == "M" else "")
        fixed = "N" if against == "M" else "M"
        at = max((r[fixed.lower()] for r in found.where(against=against)), default=0)
        axis.set_title(f"at {fixed} = {at:,}", fontsize="medium")
        axis.grid(which="both", alpha=0.25)
        axis.legend(frameon=False, fontsize="small")
    picture.savefig(results.FIGURES / "figure3.png", dpi=120)
