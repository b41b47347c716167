"""Kernels as Markov processes."""

from asvgp.kernels.algebra import Sum, check_units, in_time
from asvgp.kernels.base import Component, Kernel, MarkovForm
from asvgp.kernels.effects import Constant, Effect, Linear
from asvgp.kernels.matern import Matern, Matern12, Matern32, Matern52, Matern72
from asvgp.kernels.product import Product
from asvgp.kernels.sho import SHO

__all__ = [
    "SHO",
    "Component",
    "Constant",
    "Effect",
    "Kernel",
    "Linear",
    "MarkovForm",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Matern72",
    "Product",
    "Sum",
    "check_units",
    "in_time",
]
