"""Spherical harmonics (VISH).

Settings: any parameter of `experiments.baselines.VISH`. Inputs are centred and scaled here, as
the kernel asks for.
"""

import child
import scaled

from experiments.baselines import VISH


def fit(x, y, settings):
    return scaled.fit(VISH(**settings), x, y, x.mean(axis=0), x.std(axis=0))


predict = scaled.predict

if __name__ == "__main__":
    child.main(fit, predict, versions=["torch"])
