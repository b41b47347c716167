"""Kernels as Markov processes."""

from asvgp.kernels.base import Kernel, MarkovForm
from asvgp.kernels.matern import Matern, Matern12, Matern32, Matern52, Matern72
from asvgp.kernels.sho import SHO

__all__ = [
    "SHO",
    "Kernel",
    "MarkovForm",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Matern72",
]
