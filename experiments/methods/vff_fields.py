"""Variational Fourier features over several inputs: a sum of Matérns, or their product.

Settings: any parameter of `experiments.baselines.VFF`. Inputs are brought to [0, 1] here.
"""

import child

from experiments.baselines import VFF


def fit(x, y, settings):
    low = x.min(axis=0)
    width = x.max(axis=0) - low
    model = VFF(**settings).fit((x - low) / width, y)
    info = {
        "num_features": model.num_features,
        "bound": float(model.bound),
        "noise": float(model.noise_variance),
        "iterations": model.iterations,
        "converged": model.converged,
    }
    return {"model": model, "low": low, "width": width, "info": info}


def predict(fitted, x):
    model = fitted["model"]
    mean, variance = model.predict((x - fitted["low"]) / fitted["width"])
    return mean, (variance + model.noise_variance) ** 0.5


if __name__ == "__main__":
    child.main(fit, predict, versions=["torch"])
