# pyright: reportMissingImports=false
"""tinygp: its quasiseparable Matern-3/2, compiled, hyperparameters by L-BFGS with gradients.

As its tutorial "Scalable Gaussian processes with quasiseparable kernels" (tinygp.readthedocs.io),
here from three lengthscales (`starts`). To condition on new points it would write out a matrix of
data times points; so they go among the data, with a noise so large that they say nothing, and
everything stays linear.
"""

import child
import jax
import jax.numpy as jnp
import numpy as np
import starts
from tinygp import GaussianProcess
from tinygp.kernels import quasisep

jax.config.update("jax_enable_x64", True)
NOTHING = 1e8


def fit(x, y, settings):
    order = np.argsort(x[:, 0], kind="stable")
    x, y = jnp.asarray(x[order, 0]), jnp.asarray(y[order])

    @jax.jit
    @jax.value_and_grad
    def loss(p):
        return -process(p, x, jnp.exp(2 * p[2])).log_probability(y)

    def both(p):
        value, slope = loss(p)
        return float(value), np.asarray(slope, dtype=float)

    found, info = starts.minimised(both, np.asarray(x), y, jac=True)
    return {"x": x, "y": y, "parameters": found, "info": info}


def process(p, x, diag):
    kernel = quasisep.Matern32(scale=jnp.exp(p[1]), sigma=jnp.exp(p[0]))
    return GaussianProcess(kernel, x, diag=diag)


def predict(model, x):
    everywhere = np.concatenate([model["x"], x[:, 0]])
    order = np.argsort(everywhere, kind="stable")
    noise = float(np.exp(2 * model["parameters"][2]))
    diag = np.where(order < len(model["x"]), noise, NOTHING)
    y = np.concatenate([model["y"], np.zeros(len(x))])[order]

    @jax.jit
    def condition(p):
        found = process(p, jnp.asarray(everywhere[order]), jnp.asarray(diag)).condition(y).gp
        return found.loc, found.variance

    there = np.empty_like(order)
    there[order] = np.arange(len(order))
    rows = there[len(model["x"]) :]
    mean, variance = (np.asarray(part)[rows] for part in condition(model["parameters"]))
    return mean, np.sqrt(variance + noise)


if __name__ == "__main__":
    child.main(fit, predict, versions=["tinygp", "jax"])
