"""The curvature of an objective, known from elsewhere to begin with, and then from climbs."""

from __future__ import annotations

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.training.optimise import updated


class Curvature:
    """About minus the second derivatives of an objective by all log-hyperparameters.

    They are taken to be the same everywhere near the end of training. A climb on the cells of one
    stage hands on to the next what it has learnt.
    """

    def __init__(self, matrix: Array):
        self.matrix = matrix

    def at(self, kernel: Kernel, noise: float) -> Array:
        """Return the curvature, which depends on no state."""
        return self.matrix

    def learn(self, step: Array, change: Array) -> None:
        """Take note of how much a step has lessened the gradient."""
        self.matrix = updated(self.matrix, step, change)
