"""The paper's other methods, small and tested: Fourier features and spherical harmonics.

Both are inter-domain sparse Gaussian processes: features ``u`` with a known ``Kuu`` and
``Kuf``, the same collapsed bound (`collapsed`), the same surface: ``fit(X, y)``,
``predict(X)`` giving mean and variance of f, ``noise_variance``, ``bound``,
``hyperparameters``, ``iterations``, ``converged``. Inputs and outputs are standardised by
the caller.
"""

from experiments.baselines.vff import VFF
from experiments.baselines.vish import VISH

__all__ = ["VFF", "VISH"]
