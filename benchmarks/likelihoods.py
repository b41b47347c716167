"""Counts and classes beside our own Gaussian fit, GPBoost's Vecchia approximation and mgcv.

    python benchmarks/likelihoods.py [--quick] [--gpboost-python ENV/bin/python] [--mgcv]

One input, the same smooth function under Poisson, Bernoulli (logit) and Gaussian noise; all
hyperparameters are trained, by default settings, in one process. Printed are CPU seconds, the ratio
to the Gaussian fit of as many rows, the bound, the error of the latent function, the coverage of
its 95 % band, and the log density that a further value of y has on average.

The function is a sum of two sines, which has all derivatives, and how smooth the kernel is decides
about the error: so there are two kernels, each plus a constant. `Matern32` has one derivative, as
the cubic P-splines of mgcv have it (their penalty is that of an integrated random walk), and loses
to them; `Matern52` has two, and wins. The bound, which needs no function that is known, tells which
of them suits the data.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import bernoulli, poisson

from asvgp import Bernoulli, Constant, GPRegressor, Matern32, Matern52, Poisson

KERNELS = Matern32, Matern52

GPBOOST = """
import json, sys, time
import gpboost, numpy as np
data = np.load(sys.argv[1])
model = gpboost.GPModel(
    gp_coords=data["x"][:, None], cov_function="matern", cov_fct_shape=1.5,
    likelihood=sys.argv[2], gp_approx="vecchia", num_neighbors=15,
    matrix_inversion_method="cholesky",
)
begin = time.process_time()
model.fit(y=data["y"], X=np.ones((len(data["x"]), 1)))
seconds = time.process_time() - begin
new = data["new"]
found = model.predict(
    gp_coords_pred=new[:, None], X_pred=np.ones((len(new), 1)), predict_var=True,
    predict_response=False,
)
mean, var = found["mu"], found["var"]
print(json.dumps({"seconds": seconds, "mean": mean.tolist(), "std": np.sqrt(var).tolist()}))
"""

MGCV = """
suppressMessages(library(mgcv))
args <- commandArgs(trailingOnly = TRUE)
rows <- matrix(readBin(args[1], "double", n = 2 * as.integer(args[3])), ncol = 2)
new <- data.frame(x = readBin(args[2], "double", n = 5000))
data <- data.frame(x = rows[, 1], y = rows[, 2])
family <- if (args[4] == "poisson") poisson() else binomial()
begin <- proc.time()
model <- bam(y ~ s(x, bs = "ps", k = 200), data = data, family = family, discrete = TRUE)
spent <- proc.time() - begin
cat(spent[1] + spent[2], "\\n")
found <- predict(model, new, se.fit = TRUE, discrete = FALSE)
cat(found$fit, "\\n")
cat(found$se.fit, "\\n")
"""


def truth(x):
    return 0.7 + np.sin(x) + 0.5 * np.sin(0.13 * x)


def drawn(family, f, rng):
    if family is None:
        return f + rng.standard_normal(len(f))
    return family.sample(f, rng)


def fitted(kernel, family, x, y, repeats):
    """Return the model and the least CPU seconds of a whole fit."""
    best, gp = np.inf, None
    for _ in range(repeats):
        begin = time.process_time()
        gp = GPRegressor(kernel() + Constant(), likelihood=family).fit(x, y)
        best = min(best, time.process_time() - begin)
    return gp, best


class Test(NamedTuple):
    """Places that no model has seen, and the likelihood of y there."""

    x: np.ndarray
    family: Any

    def scores(self, mean, std):
        """Return the error of f, the coverage of its band, and the log density of a value of y."""
        error = mean - truth(self.x)
        inside = np.mean(np.abs(error) < 1.96 * std)
        return np.sqrt(np.mean(error**2)), inside, self._density(mean, std**2)

    def _density(self, mean, var):
        """Return the log density of y as it is on average, over all values that y can have."""
        if self.family is None:
            return np.nan
        rate = self.family.response(truth(self.x))
        y = poisson if self.family.name == "poisson" else bernoulli
        sums = np.zeros(len(rate))
        for value in range(int(y.isf(1e-12, rate.max())) + 1):
            given = np.full(len(rate), float(value))
            sums += y.pmf(value, rate) * self.family.log_predictive_density(given, mean, var)
        return sums.mean()


def told(scores):
    """Return scores in words."""
    error, inside, density = scores
    text = f"RMSE {error:.4f}  coverage {inside:.3f}"
    return text if np.isnan(density) else f"{text}  log density {density:.6f}"


def beside_gpboost(python, x, y, test, seconds, folder, limit):
    path = f"{folder}/rows.npz"
    np.savez(path, x=x, y=y, new=test.x)
    name = {"poisson": "poisson", "bernoulli": "bernoulli_logit"}[test.family.name]
    command = [python, "-c", GPBOOST, path, name]
    before = cpu_of_children()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        spent = cpu_of_children() - before
        verdict = "ok" if spent >= 100.0 * seconds else "not known"
        print(
            f"  GPBoost did not end in {limit:.0f} s; by then {spent:.0f} CPU s, "
            f"{spent / seconds:.0f} times ours (limit 100: {verdict})"
        )
        return
    if done.returncode:
        print("  GPBoost failed:", done.stderr.strip().splitlines()[-1])
        return
    found = json.loads(done.stdout.splitlines()[-1])
    mean, std = np.array(found["mean"]), np.array(found["std"])
    ratio = found["seconds"] / seconds
    verdict = "ok" if ratio >= 100.0 else "MISSED"
    print(
        f"  GPBoost {found['seconds']:.1f} s, {ratio:.0f} times ours (limit 100: {verdict})  "
        f"{told(test.scores(mean, std))}"
    )


def cpu_of_children():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def beside_mgcv(x, y, test, ours, limit, folder):
    """Print what mgcv does, beside seconds and scores of our kernels by their names."""
    np.concatenate([x, y]).tofile(f"{folder}/rows.bin")
    test.x.tofile(f"{folder}/new.bin")
    arguments = [f"{folder}/rows.bin", f"{folder}/new.bin", str(len(x)), test.family.name]
    command = ["Rscript", "-e", MGCV, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        print("  mgcv failed:", done.stderr.strip().splitlines()[-1])
        return
    (theirs,), mean, std = (np.array(line.split(), float) for line in done.stdout.splitlines())
    scores = test.scores(mean, std)
    print(f"  mgcv bam {theirs:.2f} s  {told(scores)}")
    for name, (seconds, (error, _, density)) in ours.items():
        ratio = theirs / seconds
        fast = "ok" if ratio >= limit else "MISSED"
        good = "ok" if error <= scores[0] and density >= scores[2] else "MISSED"
        print(
            f"    beside {name}: {ratio:.1f} times ours (limit {limit}: {fast}), RMSE "
            f"{error / scores[0]:.3f} of theirs, log density {density - scores[2]:+.6f} "
            f"(limits 1 and 0: {good})",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 rows only")
    parser.add_argument("--gpboost-python", help="interpreter of an environment with gpboost")
    parser.add_argument(
        "--gpboost-limit", type=float, default=300.0, help="seconds that GPBoost may take"
    )
    parser.add_argument("--mgcv", action="store_true", help="beside bam of R's mgcv, by Rscript")
    parser.add_argument("--rows", type=int, nargs="*", help="numbers of rows")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for rows of peers")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    new = rng.uniform(0.0, 100.0, 5000)
    sizes = [10_000] if options.quick else [10_000, 100_000, 1_000_000, 10_000_000]
    sizes = options.rows or sizes
    families = None, Poisson(), Bernoulli()
    for family in families:  # compile
        x = rng.uniform(0.0, 100.0, 2000)
        y = drawn(family, truth(x), rng)
        for kernel in KERNELS:
            fitted(kernel, family, x, y, 1)
    for rows in sizes:
        x = rng.uniform(0.0, 100.0, rows)
        base = {}
        for family in families:
            y = drawn(family, truth(x), rng)
            test = Test(new, family)
            kind = {} if family is None else {"type": "link"}
            label = "Gaussian" if family is None else repr(family)
            ours = {}
            for kernel in KERNELS:
                gp, seconds = fitted(kernel, family, x, y, 1 if rows > 1_000_000 else 3)
                scores = test.scores(*gp.predict(new, return_std=True, **kind))
                name = kernel.__name__
                ours[name] = seconds, scores
                text = f"N = {rows:,}  {label:22} {name}  {seconds:.3f} CPU s"
                if family is None:
                    base[name] = seconds
                else:
                    ratio = seconds / base[name]
                    verdict = "ok" if ratio <= 2.0 else "MISSED"
                    text += f", {ratio:.2f} of the Gaussian (limit 2: {verdict})"
                print(f"{text}  bound {gp.elbo_:.1f}  {told(scores)}", flush=True)
            if family is not None and options.mgcv and 100_000 <= rows <= 1_000_000:
                limit = 4 if rows == 100_000 else 20
                beside_mgcv(x, y, test, ours, limit, options.folder)
            if family is not None and options.gpboost_python and rows == 100_000:
                seconds = ours[KERNELS[0].__name__][0]  # the kernel that GPBoost has, too
                given = x, y, test, seconds, options.folder, options.gpboost_limit
                beside_gpboost(options.gpboost_python, *given)


if __name__ == "__main__":
    sys.exit(main())
