"""Draws from the posterior of a field, as callable paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.paths import Path, draw_coefficients
from asvgp.posterior.posterior import GridPoints, check_component
from asvgp.posterior.samples import generator


class FieldPath(Path):
    """A draw of the spline field over its domain; call it with X like that of the fit.

    What the splines cannot represent of the process is not in it. Outside the domain of the
    main block it is NaN.

    Parameters
    ----------
    posterior : GridPosterior
    read : callable
        Turns X into points.
    coefficients : ndarray of shape (size, outputs)
    component : int, optional
        The only component in the path; effects are then left out.
    """

    def __init__(
        self,
        posterior: GridPosterior,
        read: Callable[[Any], GridPoints],
        coefficients: Array,
        component: int | None = None,
    ):
        super().__init__(read, component)
        self._posterior, self._coefficients = posterior, coefficients
        plan = posterior.plan
        acting = bool(plan.inputs) and (component is None or component in plan.terms)
        self._tables = posterior.tables(coefficients, component) if acting else np.empty(0)

    def _values(self, points: GridPoints) -> Array:
        return self._posterior.path_values(
            self._coefficients, self._tables, points, self._component
        )


def draw_paths(
    posterior: GridPosterior,
    read: Callable[[Any], GridPoints],
    n_samples: int = 1,
    random_state=None,
    component: int | None = None,
) -> list[FieldPath]:
    """Draw paths of the sum, or of one component.

    The same ``random_state`` draws the same joint sample: the components' paths, and the
    effects', add up.
    """
    check_component(posterior, component)
    factored, rng = posterior.factored, generator(random_state)
    drawn = draw_coefficients(posterior.mean, factored, n_samples, rng, factored.normals)
    return [FieldPath(posterior, read, drawn[:, i], component) for i in range(drawn.shape[1])]
