# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportCallIssue=false
"""GPflow's sparse models: SGPR and SVGP.

As GPflow's "Large Data with SGPR and SVGP", "Stochastic Variational Inference for scalability
with SVGP" and "Natural gradients" advise (gpflow.github.io/GPflow, notebooks): SGPR by L-BFGS
over kernel, noise and inducing inputs; SVGP by minibatches, natural gradients (gamma 0.1) for
the inducing values and Adam (0.01) for the rest. Inputs are standardised; inducing inputs
begin at quantiles of one input and at k-means of several.

Settings: "model" ("sgpr" or "svgp"), "num_inducing", and optionally "kernel" ("matern12",
"matern32", "matern52", "rbf"), "additive" (a kernel for each input, summed), "iterations",
"batch", "train_inducing", "lengthscale" (the first, in standard deviations of the inputs;
without it `START`, the same rule for all experiments).
"""

import os

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}

import child
import gpflow
import numpy as np
import tensorflow as tf
from scipy.cluster.vq import kmeans2

KERNELS = {
    "matern12": gpflow.kernels.Matern12,
    "matern32": gpflow.kernels.Matern32,
    "matern52": gpflow.kernels.Matern52,
    "rbf": gpflow.kernels.SquaredExponential,
}
# A long series has to begin short: from longer ones training ends where all that is fast is noise.
START = {"one input": 0.02, "several": 0.5}


def fit(x, y, settings):
    tf.random.set_seed(0)
    tf.config.experimental.enable_op_determinism()
    shift, scale = x.mean(0), x.std(0)
    x, y = (x - shift) / scale, y[:, None]
    kernel = make_kernel(x.shape[1], settings)
    z = inducing_inputs(x, settings["num_inducing"])
    model, steps = (sgpr if settings["model"] == "sgpr" else svgp)(x, y, kernel, z, settings)
    info = {"num_inducing": len(z), "steps": steps, "noise": model.likelihood.variance.numpy()}
    return {"model": model, "shift": shift, "scale": scale, "info": info}


def predict(model, x):
    x = (x - model["shift"]) / model["scale"]
    parts = [model["model"].predict_y(part) for part in np.array_split(x, 1 + len(x) // 10_000)]
    mean, variance = (np.concatenate([p[i].numpy() for p in parts]) for i in (0, 1))
    return mean, np.sqrt(variance)


def make_kernel(dim, settings):
    kind = KERNELS[settings.get("kernel", "matern32")]
    start = settings.get("lengthscale", START["one input" if dim == 1 else "several"])
    if settings.get("additive"):
        parts = [kind(1.0 / dim, lengthscales=start, active_dims=[i]) for i in range(dim)]
        return gpflow.kernels.Sum(parts)
    return kind(1.0, lengthscales=np.full(dim, start))


def inducing_inputs(x, number):
    if x.shape[1] == 1:
        return np.unique(np.quantile(x, (np.arange(number) + 0.5) / number))[:, None]
    rng = np.random.default_rng(0)
    some = x[rng.choice(len(x), min(len(x), 20 * number), replace=False)]
    return kmeans2(some, number, minit="points", seed=0)[0]


def sgpr(x, y, kernel, z, settings):
    model = gpflow.models.SGPR((x, y), kernel, z, noise_variance=0.1)
    gpflow.set_trainable(model.inducing_variable, settings.get("train_inducing", True))
    found = gpflow.optimizers.Scipy().minimize(
        model.training_loss,
        model.trainable_variables,
        options={"maxiter": settings.get("iterations", 200)},
    )
    return model, int(found.nit)


def svgp(x, y, kernel, z, settings):
    batch, steps = min(settings.get("batch", 1024), len(x)), settings.get("iterations", 2000)
    likelihood = gpflow.likelihoods.Gaussian(0.1)
    model = gpflow.models.SVGP(kernel, likelihood, z, num_data=len(x))
    gpflow.set_trainable(model.inducing_variable, settings.get("train_inducing", True))
    gpflow.set_trainable(model.q_mu, False)  # the natural gradients', not Adam's
    gpflow.set_trainable(model.q_sqrt, False)
    natural = gpflow.optimizers.NaturalGradient(gamma=0.1)
    adam = tf.optimizers.Adam(0.01)
    data = tf.constant(x), tf.constant(y)

    @tf.function
    def step(rows):
        some = tf.gather(data[0], rows), tf.gather(data[1], rows)
        loss = model.training_loss_closure(some, compile=False)
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    rng = np.random.default_rng(0)
    for _ in range(steps):
        step(tf.constant(rng.integers(len(x), size=batch)))
    return model, steps


if __name__ == "__main__":
    child.main(fit, predict, versions=["gpflow", "tensorflow"])
