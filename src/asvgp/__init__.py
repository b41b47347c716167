"""Gaussian processes on millions of observations, by actually sparse B-splines.

Examples
--------
>>> import numpy as np
>>> from asvgp import GPRegressor, Matern32
>>> x = np.linspace(0.0, 10.0, 1000)
>>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(1000)
>>> gp = GPRegressor(Matern32()).fit(x, y)
>>> bool(abs(gp.predict([5.0])[0] - np.sin(5.0)) < 0.1)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asvgp import plot
    from asvgp.estimators.classifier import GPClassifier
    from asvgp.estimators.cox import CoxProcess
    from asvgp.estimators.persistence import load
    from asvgp.estimators.regressor import GPRegressor
    from asvgp.kernels import (
        SHO,
        Constant,
        Linear,
        Matern,
        Matern12,
        Matern32,
        Matern52,
        Matern72,
        Periodic,
    )
    from asvgp.likelihoods import (
        Bernoulli,
        Beta,
        Binomial,
        Exponential,
        Gamma,
        Gaussian,
        Heteroscedastic,
        NegativeBinomial,
        Ordinal,
        Poisson,
        StudentT,
        Weibull,
        ZeroInflatedPoisson,
    )
    from asvgp.saving.model_file import ModelFileError
    from asvgp.sources.source import scan
    from asvgp.training.optimise import LBFGS

__version__ = "0.1.0"
__all__ = [
    "LBFGS",
    "SHO",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Constant",
    "CoxProcess",
    "Exponential",
    "GPClassifier",
    "GPRegressor",
    "Gamma",
    "Gaussian",
    "Heteroscedastic",
    "Linear",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Matern72",
    "ModelFileError",
    "NegativeBinomial",
    "Ordinal",
    "Periodic",
    "Poisson",
    "StudentT",
    "Weibull",
    "ZeroInflatedPoisson",
    "load",
    "plot",
    "scan",
]

# Names are imported on first use, so that `import asvgp` costs nothing.
_HOMES = {
    "Constant": "asvgp.kernels",
    "CoxProcess": "asvgp.estimators.cox",
    "GPClassifier": "asvgp.estimators.classifier",
    "GPRegressor": "asvgp.estimators.regressor",
    "LBFGS": "asvgp.training.optimise",
    "Linear": "asvgp.kernels",
    "SHO": "asvgp.kernels",
    "Matern": "asvgp.kernels",
    "Matern12": "asvgp.kernels",
    "Matern32": "asvgp.kernels",
    "Matern52": "asvgp.kernels",
    "Matern72": "asvgp.kernels",
    "ModelFileError": "asvgp.saving.model_file",
    "Periodic": "asvgp.kernels",
    **dict.fromkeys(
        (
            "Bernoulli",
            "Beta",
            "Binomial",
            "Exponential",
            "Gamma",
            "Gaussian",
            "Heteroscedastic",
            "NegativeBinomial",
            "Ordinal",
            "Poisson",
            "StudentT",
            "Weibull",
            "ZeroInflatedPoisson",
        ),
        "asvgp.likelihoods",
    ),
    "load": "asvgp.estimators.persistence",
    "scan": "asvgp.sources.source",
}


def __getattr__(name: str):
    if name == "plot":
        return import_module("asvgp.plot")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'asvgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
