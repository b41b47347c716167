"""Agreement with exact Gaussian processes: GPflow's GPR and celerite2.

2,000 points, 2,000 basis functions, the same fixed hyperparameters everywhere: the largest
difference of mean and standard deviation, inside and outside the domain, in units of the
prior's standard deviation, and the exact log evidence between both bounds.

Each peer may live in an environment of its own; it is run in the interpreter given and
talks through temporary files. Rows come in pairs: the smallest spline degree k, which is
the default, and one more:

    python benchmarks/agreement.py --gpflow-python PATH/TO/python
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LIMIT = 1e-3  # of the prior's standard deviation


@dataclass(frozen=True)
class Case:
    """A kernel by name with its hyperparameters, and who is asked about it."""

    peer: str
    kernel: str
    hyperparameters: dict

    def __str__(self):
        values = ", ".join(f"{name}={value:g}" for name, value in self.hyperparameters.items())
        return f"{self.kernel}({values})"


CASES = [
    Case("gpflow", "Matern12", {"lengthscale": 2.0, "variance": 1.5}),
    Case("gpflow", "Matern32", {"lengthscale": 1.0, "variance": 1.5}),
    Case("gpflow", "Matern52", {"lengthscale": 1.0, "variance": 1.5}),
    Case("celerite2", "Matern32", {"lengthscale": 1.0, "variance": 1.5}),
    Case("celerite2", "SHO", {"period": 2.0, "quality": 3.0, "variance": 1.5}),
    Case("celerite2", "SHO", {"period": 5.0, "quality": 0.3, "variance": 1.5}),
]
NOISE = 0.1
UPPER = 10.0


def data(n, seed=0):
    """Points on [0, 10], both ends included."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, UPPER, n))
    x[[0, -1]] = 0.0, UPPER
    y = np.sin(3.0 * x) + 0.5 * np.cos(11.0 * x) + NOISE**0.5 * rng.standard_normal(n)
    return x, y


def places():
    """Where to predict: inside, at the ends, and on both sides of the domain."""
    outside = np.geomspace(1e-3, 20.0, 40)
    return np.concatenate([-outside[::-1], np.linspace(0.0, UPPER, 1001), UPPER + outside])


# --- the peers, each in its interpreter -----------------------------------------------


def gpflow_exact(case, x, y, at):
    """GPflow's exact regression."""
    import gpflow

    length, variance = case.hyperparameters["lengthscale"], case.hyperparameters["variance"]
    kernel = getattr(gpflow.kernels, case.kernel)(variance=variance, lengthscales=length)
    model = gpflow.models.GPR((x[:, None], y[:, None]), kernel, noise_variance=NOISE)
    mean, var = model.predict_f(at[:, None])
    return mean.numpy()[:, 0], var.numpy()[:, 0] ** 0.5, float(model.log_marginal_likelihood())


def celerite2_exact(case, x, y, at):
    """celerite2, whose Matern-3/2 is the limit of a small parameter."""
    from celerite2 import GaussianProcess, terms

    values = case.hyperparameters
    sigma = values["variance"] ** 0.5
    if case.kernel == "SHO":
        term = terms.SHOTerm(sigma=sigma, rho=values["period"], Q=values["quality"])
    else:
        term = terms.Matern32Term(sigma=sigma, rho=values["lengthscale"], eps=1e-4)
    gp = GaussianProcess(term)
    gp.compute(x, diag=np.full(len(x), NOISE))
    mean, var = gp.predict(y, at, return_var=True)
    return mean, var**0.5, float(gp.log_likelihood(y))


PEERS = {"gpflow": gpflow_exact, "celerite2": celerite2_exact}


def run_as_peer(index, source, target):
    """In the peer's interpreter: read the data, write what the exact process says."""
    case = CASES[index]
    given = np.load(source)
    mean, std, evidence = PEERS[case.peer](case, given["x"], given["y"], given["at"])
    np.savez(target, mean=mean, std=std, evidence=evidence)


def ask(index, python, x, y, at):
    """What the peer says, or a sentence on what is missing."""
    peer = CASES[index].peer
    check = subprocess.run([python, "-c", f"import {peer}"], capture_output=True, text=True)
    if check.returncode:
        reason = check.stderr.strip().splitlines()[-1]
        return f"{peer} is not there ({reason}): {python} -m pip install {peer}"
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "given.npz"), Path(folder, "exact.npz")
        np.savez(source, x=x, y=y, at=at)
        command = [python, __file__, "--peer", str(index), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{peer} failed: {done.stderr.strip().splitlines()[-1]}"
        with np.load(target) as exact:
            return {name: exact[name] for name in exact}


# --- this library ----------------------------------------------------------------------


def ours(case, num_basis, raised, x, y, at):
    """This library's model: spline degree the smallest possible, or ``raised`` above it."""
    import asvgp

    kernel = getattr(asvgp, case.kernel)(**case.hyperparameters)
    gp = asvgp.GPRegressor(
        kernel,
        num_basis=num_basis,
        noise_variance=NOISE,
        degree=kernel.order + 1 + raised,
        optimizer=None,
        progress=False,
    ).fit(x, y)
    return gp, *gp.predict(at, return_std=True)


def compare(case, exact, num_basis, raised, x, y, at):
    """One row of the table, and whether everything in it is within its limit."""
    gp, mean, std = ours(case, num_basis, raised, x, y, at)
    prior = case.hyperparameters["variance"] ** 0.5
    inside = (at >= 0.0) & (at <= UPPER)
    errors = [
        np.abs(difference[where]).max() / prior
        for difference in (mean - exact["mean"], std - exact["std"])
        for where in (inside, ~inside)
    ]
    elbo, evidence, upper = gp.elbo_, float(exact["evidence"]), gp.evidence_upper_bound_
    good = max(errors) <= LIMIT and elbo <= evidence <= upper
    cells = "".join(f"{error:>10.1e}" for error in errors)
    bounds = f"{elbo:>12.4f}{evidence:>12.4f}{upper:>12.4f}"
    head = f"{case.peer:<11}{case!s:<41}{gp.posterior_.model.degrees[0]:>2}"
    return f"{head}{cells}{bounds}  {'ok' if good else 'MISSED'}", good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpflow-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--celerite2-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--n", type=int, default=2000, help="number of points")
    parser.add_argument("--num-basis", type=int, default=2000)
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        index, source, target = options.peer
        run_as_peer(int(index), source, target)
        return

    pythons = {"gpflow": options.gpflow_python, "celerite2": options.celerite2_python}
    (x, y), at = data(options.n), places()
    print(f"N = {options.n}, M = {options.num_basis}; errors / prior standard deviation <= {LIMIT}")
    heads = ("mean in", "mean out", "std in", "std out")
    print(
        f"{'peer':<11}{'kernel':<41} k"
        + "".join(f"{head:>10}" for head in heads)
        + "".join(f"{head:>12}" for head in ("elbo", "evidence", "upper"))
    )
    all_good = True
    for index, case in enumerate(CASES):
        exact = ask(index, pythons[case.peer], x, y, at)
        if isinstance(exact, str):
            print(f"{case.peer:<11}{case!s:<44}{exact}", flush=True)
            all_good = False
            continue
        for raised in (0, 1):
            row, good = compare(case, exact, options.num_basis, raised, x, y, at)
            print(row, flush=True)
            all_good &= good
    sys.exit(0 if all_good else 1)


if __name__ == "__main__":
    main()
