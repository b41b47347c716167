"""Series with seasons: our whole fit, by default, beside celerite2's from the same start.

    ASVGP_DATA=FOLDER python benchmarks/series.py [--only abcd] [--json PATH]

(a) 50,000 points of a sine with noise, an oscillator; (b) four years of Beijing's temperature by
the hour, `Matern32` and oscillators of a day and a year; (c) traffic by the hour, `Matern32` and
patterns of a day and a week, for which celerite2 gets oscillators, the nearest it has; (d) the
first 700 hours of the same with four components. celerite2 is trained by L-BFGS with finite
differences, as its tutorial has it. Both begin from the kernel's values, in one process and on the
same cores; what is compiled or loaded at first use is apart ("first use"): ours is a whole fit
before the one that is timed, since short series do without much of what long ones load. A year has
8,766 hours.

Our bound is a lower bound on the log likelihood; in (d) it has the prior of the constant in it,
some seven nats, while celerite2's mean is one more parameter. `ASVGP_DATA` names the folder with
``beijing_prsa.npz`` and ``metro_traffic.npz``.
"""

import argparse
import json
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from asvgp import SHO, Constant, GPRegressor, Matern32, Periodic

WORST = 1e25


@dataclass(frozen=True)
class Case:
    """Data, our kernel and the peer's, as kernels of ours without their effects."""

    part: str
    what: str
    x: np.ndarray
    y: np.ndarray
    ours: object
    theirs: object
    mean: bool = False  # whether the peer trains a mean

    @property
    def exact(self):
        """Whether the kernels are the same, so that likelihoods can be compared at our values."""
        return self.ours is self.theirs


def arrays(file, *names):
    """Columns of a file in the user's folder, or None with a word about it."""
    path = Path(os.environ.get("ASVGP_DATA", "."), f"{file}.npz")
    if not path.is_file():
        print(f"{path.name} is missing: set ASVGP_DATA to the folder that holds it")
        return None
    with np.load(path) as found:
        return [found[name].astype(float) for name in names]


def sine():
    rng = np.random.default_rng(0)
    step = np.arange(50_000)
    y = np.sin(step / 144 * 6.283) + 0.3 * rng.normal(size=len(step))
    kernel = SHO(1440.0, quality=10.0, variance=float(np.var(y)))
    return Case("a", "a sine with noise, SHO", 10.0 * step, y, kernel, kernel)


def temperature():
    found = arrays("beijing_prsa", "hour", "temp_c")
    if found is None:
        return None
    x, y = (column[:35_064] for column in found)
    y = y - y.mean()
    v = float(np.var(y)) / 3.0
    kernel = Matern32(24.0, v) + SHO(24.0, quality=10.0, variance=v)
    kernel = kernel + SHO(8766.0, quality=10.0, variance=v)
    return Case("b", "temperature, Matern32 + SHO(day) + SHO(year)", x, y, kernel, kernel)


def traffic():
    """Hours of traffic, each once: 7,629 rows repeat the count of the hour before them."""
    found = arrays("metro_traffic", "hour", "traffic_volume")
    if found is None:
        return None
    x, first = np.unique(found[0], return_index=True)
    return x, found[1][first]


def patterns():
    if (found := traffic()) is None:
        return None
    x, y = found
    y = y - y.mean()
    v = float(np.var(y)) / 3.0
    trend = Matern32(24.0, v)
    ours = trend + Periodic(24.0, variance=v) + Periodic(168.0, variance=v)
    theirs = trend
    for period in (24.0, 12.0, 168.0):
        theirs = theirs + SHO(period, quality=10.0, variance=v)
    return Case("c", "traffic, Matern32 + patterns of a day and a week", x, y, ours, theirs)


def short():
    if (found := traffic()) is None:
        return None
    x, y = (column[:700] for column in found)
    v = float(np.var(y)) / 4.0
    kernel = Matern32(24.0, v)
    for period in (24.0, 12.0, 168.0):
        kernel = kernel + SHO(period, quality=10.0, variance=v)
    what = "700 hours of traffic, Matern32 + three SHO + Constant"
    return Case("d", what, x, y, kernel + Constant(), kernel, mean=True)


CASES = {"a": sine, "b": temperature, "c": patterns, "d": short}


# --- celerite2 -------------------------------------------------------------------------


def process(values, kinds, x, mean=0.0):
    """celerite2's process; values are logarithms, those of the noise variance first."""
    import celerite2
    from celerite2 import terms

    at, total = 1, None
    for kind in kinds:
        if kind == "Matern32":
            length, variance = np.exp(values[at : at + 2])
            term = terms.Matern32Term(sigma=variance**0.5, rho=length)
            at += 2
        else:
            period, quality, variance = np.exp(values[at : at + 3])
            term = terms.SHOTerm(sigma=variance**0.5, rho=period, Q=quality)
            at += 3
        total = term if total is None else total + term
    gp = celerite2.GaussianProcess(total, mean=mean)
    gp.compute(x, diag=np.full(len(x), np.exp(values[0])), check_sorted=False)
    return gp


def start_of(kernel, noise):
    """Kinds of the components, and the logarithms of the noise variance and all parameters."""
    kinds, values = [], [noise]
    for one in kernel.components:
        kinds.append(type(one).__name__)
        values += [getattr(one, name) for name in one.parameters]
    return kinds, np.log(values)


def likelihood(values, kinds, x, y, mean=0.0):
    from celerite2.driver import LinAlgError

    try:
        found = process(values, kinds, x, mean).log_likelihood(y)
    except LinAlgError:
        return -WORST
    return found if np.isfinite(found) else -WORST


def celerite(case):
    """Whole training by celerite2: log likelihood, values, evaluations and seconds."""
    y, scale = case.y, float(np.std(case.y))
    kinds, start = start_of(case.theirs, 0.1 * scale**2)
    if case.mean:
        start = np.append(start, 0.0)

    def loss(p):
        if not case.mean:
            return -likelihood(p, kinds, case.x, y)
        return -likelihood(p[:-1], kinds, case.x, y, float(np.mean(y)) + scale * p[-1])

    begin = time.perf_counter()
    loss(start)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    bounds = list(zip(start - 12.0, start + 12.0, strict=True))
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    return {
        "seconds": time.perf_counter() - begin,
        "first_use": first,
        "likelihood": -float(found.fun),
        "evaluations": int(found.nfev),
        "values": np.exp(found.x).round(6).tolist(),
    }


# --- ours ------------------------------------------------------------------------------


def asvgp(case):
    """Our whole training, by default, for the second time."""
    begin = time.perf_counter()
    GPRegressor(case.ours).fit(case.x, case.y)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    gp = GPRegressor(case.ours).fit(case.x, case.y)
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "first_use": first,
        "bound": float(gp.elbo_),
        "upper": float(gp.evidence_upper_bound_),
        "unknowns": int(gp.num_basis_),
        "coupled": int(coupled(gp)),
        "kernel": repr(gp.kernel_),
        "noise": float(gp.noise_variance_),
    }, gp


def coupled(gp):
    """Number of unknowns but for those inside one cell, and those in gaps of the data."""
    engine = gp.posterior_.engine
    splines = hasattr(engine, "tables")
    return engine.tables.coupled(engine.statistics) if splines else gp.num_basis_


def measure(case, peer):
    """Both in turn; what there is to say about them."""
    n = len(case.y)
    ours, gp = asvgp(case)
    row = {"part": case.part, "what": case.what, "rows": n, "asvgp": ours}
    print(f"({case.part}) {case.what}, {n:,} rows")
    print(
        f"    asvgp       {ours['seconds']:8.2f} s, first use {ours['first_use']:.2f} s; ", end=""
    )
    print(f"bound {ours['bound']:,.1f}; {ours['unknowns']:,} unknowns, ", end="")
    print(f"{ours['unknowns'] / n:.3f} a row, {ours['coupled'] / n:.3f} coupled by data")
    print(f"                {ours['kernel']}, noise variance {ours['noise']:.4g}", flush=True)
    if not peer:
        return row
    theirs = row["celerite2"] = celerite(case)
    ratio = row["ratio"] = ours["seconds"] / theirs["seconds"]
    behind = row["behind"] = (theirs["likelihood"] - ours["bound"]) / n
    print(
        f"    celerite2   {theirs['seconds']:8.2f} s, first use {theirs['first_use']:.2f} s; ",
        end="",
    )
    print(f"log likelihood {theirs['likelihood']:,.1f}; {theirs['evaluations']:,} evaluations")
    print(f"                {start_of(case.theirs, 1.0)[0]}: noise, then each: {theirs['values']}")
    if case.exact:
        kinds, values = start_of(gp.kernel_, gp.noise_variance_)
        row["at_ours"] = float(likelihood(values, kinds, case.x, case.y))
        print(f"                at our values {row['at_ours']:,.1f}")
    print(f"    ours / theirs {ratio:.3g}x in time, {behind:+.4f} nats a row behind", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="abcd", help="some of the parts, as letters")
    parser.add_argument("--json", type=Path, help="keep the numbers here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        import celerite2  # noqa: F401

        peer = True
    except ImportError:
        peer = False
        print("celerite2 is not installed (python -m pip install celerite2): ours alone")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "")
    rows = [measure(case, peer) for part in options.only if (case := CASES[part]()) is not None]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
