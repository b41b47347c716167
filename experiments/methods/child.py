"""The other end of `experiments.harness.process`: read a job, time a method, write the answers.

Only NumPy and the standard library: it is imported in every peer's environment. A method is
a script that ends with

    child.main(fit, predict)

where ``fit(x, y, settings)`` returns a model and ``predict(model, x)`` the mean and the
standard deviation of new observations (noise included; None where the method has none). In
place of the standard deviation there may be quantiles, a row for each x and a column for each of
`QUANTILES`. A model that is a dict may have "info", a dict of numbers and words for the results
file, and "memory_mib" where the work is done in a process of its own.

A job has one split or several. Each has an answer of its own, written as soon as it is known.
"""

import json
import os
import sys
import time
import traceback
import warnings

import numpy as np

LEVELS = [round(0.025 + 0.05 * i, 3) for i in range(20)]  # the middles of twenty equal parts
QUANTILES = sorted([*LEVELS, 0.1, 0.9])  # and the ends of the 80 % band
HELPERS = []  # processes that a method has do its work, and whose seconds of CPU count as well
WARM_ROWS = 400  # of the first split, that a warm-up gets


def peak_mib(status="/proc/self/status"):
    """Most memory this process has had since `forget_peak`.

    Not ``getrusage``: its peak comes along from the process that started this one.
    """
    with open(status) as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024.0


def forget_peak():
    """Let the peak begin anew from what is held now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def clock():
    """Seconds on the clock; with ``ASVGP_CLOCK=cpu`` those of all cores, children included.

    On a machine that others use as well, seconds of CPU say more.
    """
    if os.environ.get("ASVGP_CLOCK") == "cpu":
        return sum(os.times()[:4]) + sum(map(seconds_of, HELPERS))
    return time.perf_counter()


def seconds_of(process):
    """CPU seconds of a process that still runs, whose number this is."""
    with open(f"/proc/{process}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main(fit, predict, versions=()):
    """Do the job named on the command line: ``script.py job.npz FOLDER_OF_ANSWERS``."""
    source, target = sys.argv[1:3]
    with np.load(source, allow_pickle=False) as job:
        settings = json.loads(str(job["settings"]))
        parts = [[job[f"{name}{i}"] for name in ("x", "y", "new")] for i in range(job["parts"])]
        warm = bool(job["warm"])
    more = {}
    if warm:  # compile, load what is loaded late
        x, y, new = parts[0]
        begin = time.perf_counter()
        _answer(fit, predict, x[-WARM_ROWS:], y[-WARM_ROWS:], new, settings)
        more["warm_seconds"] = time.perf_counter() - begin
    failed = False
    for i, (x, y, new) in enumerate(parts):
        mean, spread, report = _answer(fit, predict, x, y, new, settings)
        failed |= "reason" in report
        report |= more | {"versions": {name: _version(name) for name in versions}}
        # Whole or not at all: the process may be stopped at any time.
        half = os.path.join(target, "half.npz")
        np.savez(half, mean=mean, spread=spread, report=json.dumps(report))
        os.replace(half, os.path.join(target, f"{i}.npz"))
    if failed:
        raise SystemExit(1)


def _answer(fit, predict, x, y, new, settings):
    """Train and predict: the mean, the standard deviation or quantiles, and the report."""
    forget_peak()
    before = peak_mib()
    try:
        with warnings.catch_warnings(record=True) as said:
            begin = clock()
            model = fit(x, y, settings)
            trained = clock()
            mean, spread = predict(model, new)
            done = clock()
    except Exception as error:
        traceback.print_exc()
        return np.empty(0), np.empty(0), {"reason": f"{type(error).__name__}: {error}"[:300]}
    spread = np.empty(0) if spread is None else np.asarray(spread, dtype=float)
    if spread.shape[1:] != (len(QUANTILES),):
        spread = spread.reshape(-1)
    known = model if isinstance(model, dict) else {}
    report = {
        "fit_seconds": trained - begin,
        "predict_seconds": done - trained,
        "memory_mib": known.get("memory_mib", peak_mib() - before),
        "info": _plain(known.get("info", {})),
        "warnings": list(dict.fromkeys(str(each.message)[:200] for each in said))[:3],
    }
    return np.asarray(mean, dtype=float).reshape(-1), spread, report


def _version(name):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _plain(info):
    """The same with NumPy's numbers and arrays as Python's."""
    return {k: v.tolist() if hasattr(v, "tolist") else v for k, v in info.items()}
