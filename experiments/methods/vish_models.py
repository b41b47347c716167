"""Spherical harmonics (VISH).

Settings: any parameter of `experiments.baselines.VISH`. Inputs are centred and scaled here, as
the kernel asks for.
"""

import child

from experiments.baselines import VISH


def fit(x, y, settings):
    centre, scale = x.mean(axis=0), x.std(axis=0)
    model = VISH(**settings).fit((x - centre) / scale, y)
    info = {
        "bound": float(model.bound),
        "noise": float(model.noise_variance),
        "iterations": model.iterations,
        "converged": model.converged,
    }
    return {"model": model, "centre": centre, "scale": scale, "info": info}


def predict(fitted, x):
    model = fitted["model"]
    mean, variance = model.predict((x - fitted["centre"]) / fitted["scale"])
    return mean, (variance + model.noise_variance) ** 0.5


if __name__ == "__main__":
    child.main(fit, predict, versions=["torch"])
