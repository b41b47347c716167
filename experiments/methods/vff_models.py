"""Variational Fourier features, by the baseline written for this comparison.

Settings: "features" for each input (an odd number: a constant, cosines and sines; one less if
it is even), or "num_frequencies"; and any other parameter of `experiments.baselines.VFF`.
Inputs are brought to [0, 1].
"""

import child
import numpy as np
import scaled

from experiments.baselines import VFF


def fit(x, y, settings):
    settings = dict(settings)
    if "features" in settings:
        settings["num_frequencies"] = (settings.pop("features") - 1) // 2
    fitted = scaled.fit(VFF(**settings), x, y, x.min(axis=0), np.ptp(x, axis=0))
    vff = fitted["model"]
    lengths = fitted["scale"] * vff.hyperparameters["lengthscale"]
    fitted["info"] |= {"num_features": vff.num_features, "lengthscale": lengths}
    return fitted


predict = scaled.predict

if __name__ == "__main__":
    child.main(fit, predict, versions=["torch"])
