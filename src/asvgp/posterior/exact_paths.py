"""Draws from a posterior at few distinct inputs, as callable paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from asvgp.basis import Array
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.lag_integrals import lag_covariance
from asvgp.posterior.paths import Path
from asvgp.posterior.posterior import GridPoints, check_component
from asvgp.posterior.samples import generator, sample_count

_JITTER = 1e-9  # of a component's variance, to factor covariances that are all but singular


class ExactPath(Path):
    """A draw of f at the inputs, interpolated by the kernel; call it with X like that of the fit.

    Between the inputs it is the most likely function through the draw: what the values at the
    inputs leave open is not in it. Outside the domain it is NaN; `asvgp.posterior.samples.sample`
    draws jointly anywhere.

    Parameters
    ----------
    posterior : ExactPosterior
    read : callable
        Turns X into points.
    weights : ndarray of shape (components, inputs, outputs)
        By which covariances with f at the inputs are multiplied.
    effects : ndarray of shape (effects, outputs)
    component : int, optional
        The only component in the path; effects are then left out.
    """

    def __init__(
        self,
        posterior: ExactPosterior,
        read: Callable[[Any], GridPoints],
        weights: Array,
        effects: Array,
        component: int | None = None,
    ):
        super().__init__(read, component)
        self._posterior, self._weights, self._effects = posterior, weights, effects

    def _values(self, points: GridPoints) -> Array:
        return self._posterior.path_values(points, self._weights, self._effects, self._component)


def draw_paths(
    posterior: ExactPosterior,
    read: Callable[[Any], GridPoints],
    n_samples: int = 1,
    random_state=None,
    component: int | None = None,
) -> list[ExactPath]:
    """Draw paths of the sum, or of one component, that interpolate draws at the inputs.

    The same ``random_state`` draws the same joint sample: the components' paths, and the
    effects', add up.
    """
    check_component(posterior, component)
    rng, count, outputs = generator(random_state), sample_count(n_samples), posterior.outputs
    engine, solution = posterior.engine, posterior.factored.solution
    n, shape = len(engine.x), (-1, count, outputs)
    # the effects first, then f given these: a draw of the prior, moved to where the data want it
    beta = np.zeros((engine.effects, count * outputs))
    if engine.effects:
        normals = rng.standard_normal(beta.shape)
        beta = solve_triangular(solution.effects_root, normals, lower=True, trans=1)
    noise = np.sqrt(posterior.noise / engine.weight)
    missing, weights = noise[:, None] * rng.standard_normal((n, count * outputs)), []
    for part in posterior.kernel.components:
        matrix = engine.lags.matrix(lag_covariance([part], engine.lags.values))
        root = cholesky(matrix + _JITTER * part.variance * np.eye(n), lower=True)
        normals = rng.standard_normal((n, count * outputs))
        weights.append(solve_triangular(root, normals, lower=True, trans=1))
        missing += matrix @ weights[-1]
    moved = -solution.columns @ beta - posterior.factored.dense.solve(missing)
    moved = posterior.residual[:, None] + moved.reshape(shape)
    drawn = np.stack([each.reshape(shape) + moved for each in weights])
    effects = posterior.effects[:, None] + beta.reshape(shape)
    return [
        ExactPath(posterior, read, drawn[:, :, i], effects[:, i], component) for i in range(count)
    ]
