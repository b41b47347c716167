"""One input at N = 2,049,280: this library beside the work it is measured against.

Every line is a ratio of two times from the same run, taken in turns so that a noisy
machine disturbs both, and reported as the *minimum* over the repeats. ``--quick`` runs a
small version as a smoke test, ``--json PATH`` keeps the numbers.

    python benchmarks/one_input.py [--quick] [--json PATH] [--only abcdefgh]
"""

import argparse
import itertools
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numba
import numpy as np

from asvgp import GPRegressor, Matern32
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, lower_bound
from asvgp.model.chain import ChainEngine
from asvgp.model.elimination import eliminate
from asvgp.model.prior import ChainPrior
from asvgp.runtime.parallel import each_share
from asvgp.statistics import Statistics

SPAN = 1000.0
DEGREE = Matern32().default_degree
NOISE = 0.3


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    n: int = 2_049_280
    small: int = 1_000
    large: int = 30_000
    nearly_exact: int = 1_000_000
    doublings: int = 10  # of ``small``
    predictions: int = 1_000_000
    memory_n: tuple[int, ...] = (1_000_000, 2_000_000, 4_000_000)
    memory_m: tuple[int, ...] = (30_000, 300_000, 1_000_000)
    copies: int = 13  # odd and not a multiple of three: each contestant meets them all
    repeats: int = 26
    slow_repeats: int = 5


QUICK = Sizes(
    n=200_000,
    nearly_exact=100_000,
    doublings=7,
    predictions=100_000,
    memory_n=(250_000, 500_000),
    memory_m=(30_000, 100_000),
    repeats=5,
    slow_repeats=2,
)


# --- reporting -------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One measurement. ``limit`` applies to ``ratio`` if there is one, else to ``value``."""

    part: str
    what: str
    value: float
    unit: str
    ratio: float | None = None
    limit: float | None = None

    @property
    def verdict(self):
        if self.limit is None:
            return ""
        judged = self.value if self.ratio is None else self.ratio
        return "ok" if judged <= self.limit else "MISSED"

    def __str__(self):
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}x"
        limit = "" if self.limit is None else f"limit {self.limit:.3g}"
        value = f"{self.value:.4g} {self.unit}"
        return f"({self.part}) {self.what:<74}{value:>14}{ratio:>8}{limit:>13}  {self.verdict}"


class Report:
    """Prints lines as they come and keeps them."""

    def __init__(self):
        self.lines = []

    def add(self, *args, **kwargs):
        self.lines.append(Line(*args, **kwargs))
        print(self.lines[-1], flush=True)

    def summary(self):
        judged = [line for line in self.lines if line.verdict]
        missed = [line for line in judged if line.verdict == "MISSED"]
        print(f"\n{len(judged) - len(missed)} of {len(judged)} limits kept.")
        for line in missed:
            print(line)

    def save(self, path):
        rows = [asdict(line) | {"verdict": line.verdict} for line in self.lines]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")


def race(repeats, **contestants):
    """Fastest of ``repeats`` runs of each, in turns, after one run to warm up."""
    best = dict.fromkeys(contestants, np.inf)
    for work in contestants.values():
        work()
    for _ in range(repeats):
        for name, work in contestants.items():
            begin = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


# --- data and peers --------------------------------------------------------------------


def series(n, seed=0):
    """A series with structure on scales from the whole span down to a thousandth of it."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(size=n)
    x = np.cumsum(gaps)
    x *= SPAN / x[-1]
    y = NOISE * rng.standard_normal(n)
    for period in np.geomspace(SPAN, 1e-3 * SPAN, 10):
        y += (period / SPAN) ** 0.25 * np.sin(2 * np.pi * (x / period + rng.uniform()))
    return x, y


def shuffled(x, y, seed=1):
    order = np.random.default_rng(seed).permutation(len(x))
    return x[order], y[order]


@numba.njit(nogil=True, fastmath=True)
def _sum_both(x, y):
    total_x, total_y = 0.0, 0.0
    for n in range(len(x)):
        total_x += x[n]
        total_y += y[n]
    return total_x + total_y


def read_in_parallel(x, y):
    """Read x and y once, split over threads as the pass does."""
    return sum(each_share(len(x), lambda start, stop: _sum_both(x[start:stop], y[start:stop])))


def celerite_likelihood(x, y, kernel, noise):
    """One exact log-likelihood by celerite2, x sorted."""
    import celerite2

    frequency = np.sqrt(3.0) / kernel.lengthscale
    term = celerite2.terms.Matern32Term(
        sigma=kernel.variance**0.5, rho=kernel.lengthscale, eps=1e-4 * frequency
    )
    gp = celerite2.GaussianProcess(term)
    gp.compute(x, diag=np.full(len(x), noise), check_sorted=False)
    return gp.log_likelihood(y)


def grid_of(x, num_basis):
    return Grid(float(x.min()), float(x.max()), num_basis - DEGREE)


def bound_of(kernel, noise, stats) -> Bound:
    """The bound and its gradient, with nothing known beforehand."""
    engine = ChainEngine(kernel, stats, DEGREE)
    return lower_bound(engine.factor(kernel, Gaussian(noise)))


def fit(x, y, num_basis):
    return GPRegressor(Matern32(), num_basis=num_basis, progress=False).fit(x, y)


# --- the parts -------------------------------------------------------------------------


def part_a(report, sizes, x, y):
    """The pass against reading x and y once, from memory: every run takes another copy."""
    threads = len(each_share(len(x), lambda start, stop: None))
    for name, (a, b) in {"sorted": (x, y), "shuffled": shuffled(x, y)}.items():
        # Together the copies are larger than any cache; data that people have are not in it.
        copies = [(a.copy(), b.copy()) for _ in range(sizes.copies)]
        for m in (sizes.small, sizes.large):
            grid = grid_of(x, m)
            turn = itertools.cycle(copies)
            times = race(
                sizes.repeats,
                single=lambda turn=turn: _sum_both(*next(turn)),
                threads=lambda turn=turn: read_in_parallel(*next(turn)),
                work=lambda turn=turn, grid=grid: Statistics.from_data(*next(turn), grid, DEGREE),
                cached=lambda a=a, b=b: _sum_both(a, b),
            )
            for key, reading, limit in (
                ("single", "reading", 4.0),
                ("threads", f"reading on {threads} threads", None),
                ("cached", "reading what is in the cache", None),
            ):
                report.add(
                    "a",
                    f"pass, M={m}, {name} / {reading} ({1e3 * times[key]:.2f} ms)",
                    1e3 * times["work"],
                    "ms",
                    times["work"] / times[key],
                    limit,
                )


def part_b(report, sizes, x, y):
    """A whole fit against one likelihood of celerite2."""
    kernel = Matern32(1.0, 1.0)
    for m, limit in ((sizes.small, 0.25), (sizes.large, 1.0)):
        times = race(
            sizes.slow_repeats,
            fit=lambda m=m: fit(x, y, m),
            celerite=lambda: celerite_likelihood(x, y, kernel, NOISE**2),
        )
        report.add(
            "b",
            f"whole fit, M={m} / one celerite2 likelihood ({times['celerite']:.3f} s)",
            times["fit"],
            "s",
            times["fit"] / times["celerite"],
            limit,
        )


def part_c(report, sizes, x, y):
    """A bound and gradient: linear in M, independent of N."""
    kernel, noise = Matern32(1.0, 1.0), NOISE**2
    levels = [
        Statistics.from_data(
            x, y, Grid(float(x[0]), float(x[-1]), sizes.small << sizes.doublings), DEGREE
        )
    ]
    for _ in range(sizes.doublings):
        levels.append(levels[-1].coarsen())
    cells, seconds = [], []
    for stats in reversed(levels):
        best = race(sizes.slow_repeats, bound=lambda s=stats: bound_of(kernel, noise, s))["bound"]
        path = eliminate(ChainPrior(kernel, stats.grid, DEGREE), stats, noise).path
        cells.append(stats.grid.cells)
        seconds.append(best)
        report.add(
            "c",
            f"bound and gradient, M={stats.grid.cells + DEGREE} ({path}), per basis function",
            1e9 * best / cells[-1],
            "ns",
        )
    exponent = np.polyfit(np.log(cells), np.log(seconds), 1)[0]
    report.add("c", "exponent of the time in M, over all of them", exponent, "", limit=1.1)
    tail = np.log2(seconds[-1] / seconds[-3]) / 2
    report.add("c", "exponent over the last two doublings", tail, "", limit=1.2)

    parts = {
        f"n{share}": Statistics.from_data(x[::share], y[::share], grid_of(x, sizes.large), DEGREE)
        for share in (4, 2, 1)
    }
    times = race(
        sizes.repeats,
        **{name: lambda s=stats: bound_of(kernel, noise, s) for name, stats in parts.items()},
    )
    for name, stats in parts.items():
        report.add(
            "c",
            f"bound and gradient, M={sizes.large}, N={stats.count} / at N={parts['n4'].count}",
            1e3 * times[name],
            "ms",
            times[name] / times["n4"],
            1.2,
        )


def part_d(report, sizes, x, y):
    """A million predictions with standard deviation against one pass."""
    anywhere = np.random.default_rng(2).uniform(x[0], x[-1], sizes.predictions)
    in_order = np.sort(anywhere)
    for m in (sizes.small, sizes.large):
        gp, grid = fit(x, y, m), grid_of(x, m)
        begin = time.perf_counter()
        gp.predict(in_order, return_std=True)
        first = time.perf_counter() - begin
        times = race(
            sizes.repeats,
            sorted=lambda gp=gp: gp.predict(in_order, return_std=True),
            shuffled=lambda gp=gp: gp.predict(anywhere, return_std=True),
            work=lambda grid=grid: Statistics.from_data(x, y, grid, DEGREE),
        )
        for name, value, limit in (
            ("sorted", times["sorted"], 5.0),
            ("shuffled", times["shuffled"], 5.0),
            ("the first call", first, None),
        ):
            report.add(
                "d",
                f"{sizes.predictions} predictions, M={m}, {name} / one pass "
                f"({1e3 * times['work']:.2f} ms)",
                1e3 * value,
                "ms",
                value / times["work"],
                limit,
            )


def peak_memory(n, m, dtype):
    """Bytes that a fit needs at its peak beyond the data, in this process (Linux)."""
    warm_x, warm_y = (part.astype(dtype) for part in series(100_000))
    fit(warm_x, warm_y, 100)
    x, y = (part.astype(dtype) for part in series(n))
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back
    before = _memory("VmRSS")
    fit(x, y, m)
    return _memory("VmHWM") - before


def _memory(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def part_e(report, sizes):
    """Peak memory beyond the data: so many bytes a basis function, whatever N is."""
    grown = {
        n: float(_in_fresh_process(f"print(one_input.peak_memory({n}, {sizes.large}, 'f8'))"))
        for n in sizes.memory_n
    }
    first = grown[sizes.memory_n[0]]
    for n, peak in grown.items():
        report.add(
            "e",
            f"peak beyond the data, N={n}, M={sizes.large} / at N={sizes.memory_n[0]}",
            peak / 2**20,
            "MiB",
            peak / first,
            1.25,
        )
    n = sizes.memory_n[-1]
    single = float(_in_fresh_process(f"print(one_input.peak_memory({n}, {sizes.large}, 'f4'))"))
    report.add(
        "e",
        f"peak, float32 input, N={n}: extra over float64 input / a float64 x",
        single / 2**20,
        "MiB",
        (single - grown[n]) / (8 * n),
        0.5,
    )
    n = sizes.memory_n[0]
    for m in sizes.memory_m:
        peak = float(_in_fresh_process(f"print(one_input.peak_memory({n}, {m}, 'f8'))"))
        report.add(
            "e",
            f"peak beyond the data, N={n}, M={m} ({peak / 2**20:.0f} MiB), per basis function",
            peak / m,
            "bytes",
        )


def part_f(report, sizes, x, y):
    """M about N / 2, where the approximation is all but exact."""
    m = sizes.nearly_exact
    begin = time.perf_counter()
    gp = fit(x, y, m)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    evidence = celerite_likelihood(x, y, gp.kernel_, gp.noise_variance_)
    one = time.perf_counter() - begin
    report.add("f", f"whole fit, M={m} / one celerite2 likelihood", seconds, "s", seconds / one)
    print(f"    {gp.kernel_!r}, noise variance {gp.noise_variance_:.4g}; {gp.optimization_}")
    print(
        f"    elbo {gp.elbo_:.4f} <= exact evidence {evidence:.4f} <= "
        f"upper bound {gp.evidence_upper_bound_:.4f}"
    )
    # The evidence itself is rounded: sums of N terms, two algorithms.
    rounding = 1e-9 * abs(evidence)
    report.add("f", "elbo - evidence, nats", gp.elbo_ - evidence, "", limit=rounding)
    above = evidence - gp.evidence_upper_bound_
    report.add("f", "evidence - upper bound, nats", above, "", limit=rounding)
    gap = (evidence - gp.elbo_) / len(x)
    report.add("f", "gap between elbo and evidence, nats per datum", gap, "", limit=1e-3)


IMPORT = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
FIRST_FIT = """
import time, numpy as np
rng = np.random.default_rng(0)
x = rng.uniform(0.0, 100.0, {n})
y = np.sin(x) + 0.1 * rng.standard_normal({n})
from asvgp import GPRegressor, Matern32
t = time.perf_counter()
GPRegressor(Matern32(), num_basis={m}).fit(x, y)
print(time.perf_counter() - t)
"""


def part_g(report, sizes):
    """Imports and first fits in fresh processes, the numba cache warm: medians of three."""
    base = _median_of_three(IMPORT.format("import sklearn.base"))
    report.add("g", "import sklearn.base (for comparison)", base, "s")
    for statement in ("import asvgp", "from asvgp import GPRegressor"):
        value = _median_of_three(IMPORT.format(statement))
        # Only the first is ours to keep: the second has to import scikit-learn.
        report.add("g", statement, value, "s", limit=1.0 if statement == "import asvgp" else None)
    report.add("g", "from asvgp import GPRegressor / import sklearn.base", value, "s", value / base)
    for n, m in ((1_000, 100), (sizes.n, sizes.large)):
        value = _median_of_three(FIRST_FIT.format(n=n, m=m))
        report.add("g", f"first fit after the import, N={n}, M={m}", value, "s", limit=2.0)


def _median_of_three(code):
    _in_fresh_process(code)  # fills the numba cache
    return float(np.median([float(_in_fresh_process(code)) for _ in range(3)]))


def _in_fresh_process(code):
    """Last line that ``code`` prints in a new interpreter; `one_input` can be imported."""
    if "one_input." in code:
        code = "import one_input; " + code
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a measurement in a fresh process failed:\n{done.stderr}")
    return done.stdout.splitlines()[-1]


def part_h(report, sizes, x, y):
    """Both elimination paths against LAPACK's banded Cholesky of the same size."""
    from scipy.linalg.lapack import dpbtrf, dpbtrs

    m = sizes.large
    stats = Statistics.from_data(x, y, grid_of(x, m), DEGREE)
    model = ChainPrior(Matern32(1.0, 1.0), stats.grid, DEGREE)
    band = np.zeros((DEGREE + 1, m), order="F")
    band[0], band[1:] = 4.0, 0.5
    right = np.ones(m)
    factor = dpbtrf(band, lower=1)[0]
    times = race(
        sizes.repeats,
        pbtrf=lambda: dpbtrf(band, lower=1),
        pbtrs=lambda: dpbtrs(factor, right, lower=1),
        plain=lambda: eliminate(model, stats, NOISE**2, path="plain"),
        root=lambda: eliminate(model, stats, NOISE**2, path="square-root"),
    )
    both = times["pbtrf"] + times["pbtrs"]
    for name, label in (("plain", "plain path"), ("root", "square-root path")):
        for peer, value in (("pbtrf", times["pbtrf"]), ("pbtrf + pbtrs", both)):
            report.add(
                "h",
                f"{label}, factor and solve, M={m} / {peer} ({1e3 * value:.2f} ms)",
                1e3 * times[name],
                "ms",
                times[name] / value,
            )
    report.add(
        "h",
        "square-root path / plain path",
        1e3 * times["root"],
        "ms",
        times["root"] / times["plain"],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    parser.add_argument("--json", metavar="PATH", help="write the numbers there")
    parser.add_argument("--only", default="abcdefgh", help="parts to run, e.g. abd")
    parser.add_argument("--n", type=int, help="number of data (default 2,049,280)")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    if options.n:
        sizes = replace(sizes, n=options.n)

    x, y = series(sizes.n)
    report = Report()
    print(f"N = {sizes.n}; times are minima over repeats, taken in turns.")
    if options.quick:
        print("A smoke test: the limits are meant for the full size.")
    if "b" in options.only or "f" in options.only:
        _require_celerite()
    for part, work in PARTS.items():
        if part in options.only:
            print(f"\n{work.__doc__}")
            arguments = () if part in "eg" else (x, y)
            work(report, sizes, *arguments)
    report.summary()
    if options.json:
        report.save(options.json)


PARTS = {
    "a": part_a,
    "b": part_b,
    "c": part_c,
    "d": part_d,
    "e": part_e,
    "f": part_f,
    "g": part_g,
    "h": part_h,
}


def _require_celerite():
    try:
        import celerite2  # noqa: F401
    except ImportError:
        sys.exit("Parts b and f need celerite2: pip install celerite2 (or --only acdegh).")


if __name__ == "__main__":
    main()
