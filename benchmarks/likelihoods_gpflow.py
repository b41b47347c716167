"""Bounds of likelihoods that are not Gaussian, beside those of GPflow's VGP.

    python benchmarks/likelihoods_gpflow.py --gpflow-python ENV/bin/python

200 rows, one input, a fixed kernel: VGP optimises a full Gaussian over f at the rows, ours is
limited to splines, so that its bound can only be lower. Printed are both bounds, the difference,
and the largest difference of the mean of f in posterior standard deviations. The probit link of
GPflow has a floor of 1e-3 under its probabilities, which ours has not.
"""

import argparse
import json
import subprocess
import tempfile
import time

import numpy as np

from asvgp import Bernoulli, Constant, Gamma, GPRegressor, Matern52, Poisson, StudentT

GPFLOW = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import gpflow, numpy as np, tensorflow as tf
gpflow.config.set_default_float(np.float64)
data = np.load(sys.argv[1])
x, out = data["x"][:, None], {}
likelihoods = {
    "logit": gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid),
    "probit": gpflow.likelihoods.Bernoulli(),
    "poisson": gpflow.likelihoods.Poisson(),
    "student": gpflow.likelihoods.StudentT(scale=0.3, df=3.0),
    "gamma": gpflow.likelihoods.Gamma(shape=2.0),
}
for name, likelihood in likelihoods.items():
    kernel = gpflow.kernels.Matern52(variance=1.2, lengthscales=1.5)
    kernel += gpflow.kernels.Constant(variance=4.0)
    # the scale of its Gamma distribution is exp(f), ours has that mean
    shift = -np.log(2.0) if name == "gamma" else 0.0
    mean = gpflow.functions.Constant(shift)
    model = gpflow.models.VGP((x, data[name][:, None]), kernel, likelihood, mean_function=mean)
    for part in (model.kernel, model.likelihood, model.mean_function):
        gpflow.set_trainable(part, False)
    begin = time.process_time()
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options=options
    )
    f, v = model.predict_f(x)
    out[name] = {
        "bound": float(model.elbo()), "seconds": time.process_time() - begin,
        "mean": (f.numpy()[:, 0] - shift).tolist(), "std": np.sqrt(v.numpy()[:, 0]).tolist(),
    }
print(json.dumps(out))
"""

FAMILIES = {
    "logit": Bernoulli(),
    "probit": Bernoulli("probit"),
    "poisson": Poisson(),
    "student": StudentT(3.0, 0.3),
    "gamma": Gamma(2.0),
}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpflow-python", required=True, help="interpreter with GPflow")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 10.0, 200))
    f = 1.0 + np.sin(x)
    rows = {name: family.sample(f, rng) for name, family in FAMILIES.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.npz"
        np.savez(path, x=x, **rows)
        command = [options.gpflow_python, "-c", GPFLOW, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise SystemExit(done.stderr)
    theirs = json.loads(done.stdout.splitlines()[-1])
    kernel = Matern52(1.5, 1.2) + Constant(variance=4.0)
    for name, family in FAMILIES.items():
        begin = time.process_time()
        gp = GPRegressor(kernel, num_basis=2000, likelihood=family, optimizer=None)
        gp.fit(x, rows[name])
        seconds, other = time.process_time() - begin, theirs[name]
        off = np.abs(gp.predict(x, type="link") - other["mean"]) / np.array(other["std"])
        print(
            f"{name:8} ours {gp.elbo_:.6f} ({seconds:.2f} CPU s)  GPflow {other['bound']:.6f} "
            f"({other['seconds']:.1f} CPU s)  difference {gp.elbo_ - other['bound']:+.1e} nats, "
            f"means {off.max():.1e} standard deviations"
        )


if __name__ == "__main__":
    main()
