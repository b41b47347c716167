"""Draws from the posterior of a field: callable paths, and values at points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asvgp.basis import Array
from asvgp.model.memory import require_joint
from asvgp.posterior.field import FieldPosterior
from asvgp.posterior.field_functionals import Points
from asvgp.posterior.paths import MAX_EXACT, _count, _generator

if TYPE_CHECKING:
    from asvgp.structures.field import Field


_MATRICES = 6.0  # of all pairs of points: the covariance, its root, and what LAPACK works in


def sample(
    posterior: FieldPosterior,
    points: Points,
    n_samples: int,
    random_state,
    limit: float | None = None,
) -> Array:
    """Joint draws of f at points, (outputs, n, samples), by factoring their covariance."""
    n = len(points)
    if n > MAX_EXACT:
        raise ValueError(
            f"An exact joint sample at {n} points would factor a {n} x {n} matrix; the limit is "
            f"{MAX_EXACT} points. Evaluate sample_paths(...) at them."
        )
    require_joint("A joint sample", n, posterior.assembly.size, limit, _MATRICES)
    rng = _generator(random_state)
    mean, _ = posterior.predict(points, variance=False)
    values, vectors = np.linalg.eigh(posterior.covariance(points))
    vectors *= np.sqrt(np.maximum(values, 0.0))
    return mean[:, :, None] + vectors @ rng.standard_normal((len(mean), n, _count(n_samples)))


class FieldPath:
    """A draw of the spline field over its domain; call it with X like that of the fit.

    What the splines cannot represent of the process is not in it.
    """

    def __init__(self, posterior: FieldPosterior, structure: Field, coefficients: Array):
        self._posterior, self._structure = posterior, structure
        self._coefficients = coefficients  # (size, outputs)
        self._tables = list(posterior._tables(coefficients)) if posterior.assembly.inputs else []

    @classmethod
    def draw(
        cls, posterior: FieldPosterior, structure: Field, n_samples: int, random_state
    ) -> list[FieldPath]:
        """Draw some."""
        rng, count = _generator(random_state), _count(n_samples)
        size, outputs = posterior.mean.shape
        normals = rng.standard_normal((size, count * outputs))
        off = posterior.factored.draw(normals)
        off = off.reshape(size, count, outputs)
        mean = posterior.mean
        return [cls(posterior, structure, mean + off[:, i]) for i in range(count)]

    def __call__(self, X) -> Array:
        """Values at X, (n,) or (n, outputs)."""
        points = self._structure.table_points(X)
        values = self._posterior.path_values(self._coefficients, self._tables, points)
        return values[0] if len(values) == 1 else values.T
