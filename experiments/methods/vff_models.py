"""Variational Fourier features, by the baseline written for this comparison.

Settings: "features" for each input (an odd number: a constant, cosines and sines; one less if
it is even), or "num_frequencies"; and any other parameter of `experiments.baselines.vff.VFF`.
Inputs are brought to [0, 1].
"""

import child
import numpy as np

from experiments.baselines.vff import VFF


def fit(x, y, settings):
    settings = dict(settings)
    if "features" in settings:
        settings["num_frequencies"] = (settings.pop("features") - 1) // 2
    shift, scale = x.min(0), np.ptp(x, axis=0)
    vff = VFF(**settings).fit((x - shift) / scale, y)
    info = {
        "num_features": vff.num_features,
        "bound": float(vff.bound),
        "noise": float(vff.noise_variance),
        "lengthscale": scale * vff.hyperparameters["lengthscale"],
        "steps": vff.iterations,
    }
    return {"vff": vff, "shift": shift, "scale": scale, "info": info}


def predict(model, x):
    mean, variance = model["vff"].predict((x - model["shift"]) / model["scale"])
    return mean, np.sqrt(variance + model["vff"].noise_variance)


if __name__ == "__main__":
    child.main(fit, predict, versions=["torch"])
