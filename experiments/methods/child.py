"""The other end of `experiments.harness.process`: read a job, time a method, write the answer.

Only NumPy and the standard library: it is imported in every peer's environment. A method is
a script that ends with

    child.main(fit, predict)

where ``fit(x, y, settings)`` returns a model and ``predict(model, x)`` the mean and the
standard deviation of new observations (noise included; None where the method has none). A
model that is a dict may have "info", a dict of numbers and words for the results file, and
"memory_mib" where the work is done in a process of its own.
"""

import json
import sys
import time
import traceback
import warnings

import numpy as np


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


def main(fit, predict, versions=()):
    """Do the job named on the command line: ``script.py job.npz answer.npz``."""
    source, target = sys.argv[1:3]
    with np.load(source, allow_pickle=False) as job:
        x, y, x_test = job["x"], job["y"], job["x_test"]
        settings = json.loads(str(job["settings"]))
    forget_peak()
    before = peak_mib()
    try:
        with warnings.catch_warnings(record=True) as said:
            begin = time.perf_counter()
            model = fit(x, y, settings)
            trained = time.perf_counter()
            mean, std = predict(model, x_test)
            done = time.perf_counter()
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
        np.savez(target, report=json.dumps({"reason": reason[:300]}))
        raise SystemExit(1) from None
    mean = np.asarray(mean, dtype=float).reshape(-1)
    std = np.empty(0) if std is None else np.asarray(std, dtype=float).reshape(-1)
    known = model if isinstance(model, dict) else {}
    report = {
        "fit_seconds": trained - begin,
        "predict_seconds": done - trained,
        "memory_mib": known.get("memory_mib", peak_mib() - before),
        "info": _plain(known.get("info", {})),
        "warnings": list(dict.fromkeys(str(each.message)[:200] for each in said))[:3],
        "versions": {name: _version(name) for name in versions},
    }
    np.savez(target, mean=mean, std=std, report=json.dumps(report))


def _version(name):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _plain(info):
    """The same with NumPy's numbers and arrays as Python's."""
    return {k: v.tolist() if hasattr(v, "tolist") else v for k, v in info.items()}
