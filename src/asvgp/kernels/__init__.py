"""Kernels as stationary Markov processes, and their algebra.

A kernel that is added to `PROCESSES`, or an effect to `EFFECTS`, is known to the command line
and to model files.
"""

from asvgp.kernels.algebra import Sum, check_units, in_time
from asvgp.kernels.base import Component, Kernel, MarkovForm
from asvgp.kernels.earth import AlongEarth, EarthMatern
from asvgp.kernels.effects import Constant, Effect, Linear
from asvgp.kernels.joint import AlongJoint, JointMatern
from asvgp.kernels.matern import Matern, Matern12, Matern32, Matern52, Matern72
from asvgp.kernels.periodic import CircleForm, Periodic
from asvgp.kernels.product import Product
from asvgp.kernels.seasons import period_in_words, season_names
from asvgp.kernels.sho import SHO

PROCESSES = (Matern12, Matern32, Matern52, Matern72, SHO, Periodic)
EFFECTS = (Constant, Linear)

__all__ = [
    "EFFECTS",
    "PROCESSES",
    "SHO",
    "AlongEarth",
    "AlongJoint",
    "CircleForm",
    "Component",
    "Constant",
    "EarthMatern",
    "Effect",
    "JointMatern",
    "Kernel",
    "Linear",
    "MarkovForm",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Matern72",
    "Periodic",
    "Product",
    "Sum",
    "check_units",
    "in_time",
    "period_in_words",
    "season_names",
]
