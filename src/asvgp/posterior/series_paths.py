"""Draws from the posterior of a series: callable paths, and walks beyond the ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.kernels.dynamics import Dynamics
from asvgp.model.series.terms import Season, Term, Trend
from asvgp.posterior.paths import Path, draw_coefficients
from asvgp.posterior.posterior import GridPoints, check_component, eigen_root
from asvgp.posterior.samples import generator
from asvgp.posterior.series import SeriesPosterior
from asvgp.posterior.series_rows import CircleRows
from asvgp.posterior.target import Target


class SeriesPath(Path):
    """A draw of the functions over the domain; call it with X like that of the fit.

    What the functions cannot represent of the process is not in it. Outside the domain it is
    NaN: see `continued`.

    Parameters
    ----------
    posterior : SeriesPosterior
    read : callable
        Turns X into points.
    coefficients : ndarray of shape (size, outputs)
    component : int, optional
        The only component in the path; effects are then left out.
    """

    def __init__(
        self,
        posterior: SeriesPosterior,
        read: Callable[[Any], GridPoints],
        coefficients: Array,
        component: int | None = None,
    ):
        super().__init__(read, component)
        self._posterior = posterior
        self._tables = posterior.tables.polynomials(coefficients, component)
        self._effects = coefficients[len(coefficients) - posterior.plan.effects :]

    def _values(self, points: GridPoints) -> Array:
        posterior = self._posterior
        values = posterior.path_values(self._tables, points)
        if self._component is None and posterior.plan.effects:
            values += ((points.effects - posterior.engine.centring.centres) @ self._effects).T
        return values


def draw_paths(
    posterior: SeriesPosterior,
    read: Callable[[Any], GridPoints],
    n_samples: int = 1,
    random_state=None,
    component: int | None = None,
) -> list[SeriesPath]:
    """Draw paths of the sum, or of one component.

    The same ``random_state`` draws the same joint sample: the components' paths, and the
    effects', add up.
    """
    check_component(posterior, component)
    drawn = draw_coefficients(
        posterior.mean, posterior.factored, n_samples, generator(random_state)
    )
    return [
        SeriesPath(posterior, read, np.ascontiguousarray(drawn[:, i]), component)
        for i in range(drawn.shape[1])
    ]


def continued(
    posterior: SeriesPosterior,
    points: GridPoints,
    n_samples: int = 1,
    random_state=None,
    component: int | None = None,
) -> Array:
    """Draw paths at points, (outputs, n, samples), at O(M + n) per draw.

    Beyond the ends they walk on from the states there, by the kernels' own dynamics. Unlike
    `asvgp.posterior.samples.sample` they lack what the functions cannot represent.
    """
    check_component(posterior, component)
    rng, target = generator(random_state), Target(component)
    drawn = draw_coefficients(posterior.mean, posterior.factored, n_samples, rng)
    size, samples, outputs = drawn.shape
    flat = drawn.reshape(size, -1)
    # the expected continuation beyond the ends, to which the walk adds
    values = posterior.rows(points, target).matrix @ flat
    x, grid = points.main[:, 0], posterior.plan.grid
    for right in (False, True):
        rows = np.flatnonzero(x > grid.upper if right else x < grid.lower)
        if not len(rows):
            continue
        lag = x[rows] - grid.upper if right else grid.lower - x[rows]
        rank = np.argsort(lag, kind="stable")
        for number, term in enumerate(posterior.prior.terms):
            if component in (None, number) and not isinstance(term, Season):
                walk = _walk(term, lag[rank], x[rows[rank]], flat.shape[1], rng)
                values[rows[rank]] += walk
    return values.reshape(len(x), samples, outputs).transpose(2, 0, 1)


def _walk(term: Term, lag: Array, x: Array, draws: int, rng) -> Array:
    """Draw what a component does beyond an end that its state there does not tell, (n, draws)."""
    assert not isinstance(term, Season)
    assert term.axis.process is not None
    dynamics = Dynamics(term.axis.process)
    count = 1 if isinstance(term, Trend) else term.circle.count
    around = np.ones((len(x), 1)), np.zeros((len(x), 1), dtype=np.int64)
    root = np.ones((1, 1))
    if not isinstance(term, Trend):  # one walk per function around the circle
        circle = CircleRows(term.circle, x, 0)
        around, root = (circle.weights[0], circle.numbers), eigen_root(term.circle.inverse)
    out, state = np.empty((len(x), draws)), np.zeros((dynamics.size, count, draws))
    steps = dynamics.matrices(np.diff(lag, prepend=0.0))
    for row, step in enumerate(steps):
        noise = eigen_root(dynamics.stationary - step @ dynamics.stationary @ step.T)
        normals = rng.standard_normal(state.shape)
        state = np.einsum("ij,jad->iad", step, state)
        state += np.einsum("ij,ab,jbd->iad", noise, root, normals, optimize=True)
        weights, numbers = around[0][row], around[1][row]
        out[row] = weights @ state[0, numbers]
    return np.sqrt(term.variance) * out
