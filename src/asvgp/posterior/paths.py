"""What callable paths of fields and series have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from asvgp.basis import Array
from asvgp.model.engine import Factored
from asvgp.posterior.posterior import GridPoints
from asvgp.posterior.samples import sample_count


class Path(ABC):
    """A draw of f; call it with X like that of the fit.

    Parameters
    ----------
    read : callable
        Turns X into points.
    component : int, optional
        The only component in the path; effects are then left out.
    """

    def __init__(self, read: Callable[[Any], GridPoints], component: int | None = None):
        self._read, self._component = read, component

    @abstractmethod
    def _values(self, points: GridPoints) -> Array:
        """Return values at points, (outputs, n)."""

    def __call__(self, X) -> Array:
        """Return values at X, (n,) or (n, outputs)."""
        values = self._values(self._read(X))
        return values[0] if len(values) == 1 else values.T


def draw_coefficients(
    mean: Array, factored: Factored, n_samples: int, rng, normals: int | None = None
) -> Array:
    """Draw coefficients about their mean, (size, samples, outputs).

    A draw takes as many standard normals as there are coefficients, or ``normals``.
    """
    count = sample_count(n_samples)
    size, outputs = mean.shape
    off = factored.draw(rng.standard_normal((normals or size, count * outputs)))
    return mean[:, None] + off.reshape(size, count, outputs)
