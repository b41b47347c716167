"""Draws from the posterior: callable spline paths, and values at points.

The factored posterior of the spline coefficients is a generative Markov chain
(`asvgp.linalg`): a draw is one walk along the cells, O(M) whatever the number of points it
will be asked for, and the result is a spline, `scipy.interpolate.BSpline`.

A spline path has the covariance ``phi' P^-1 phi``. What the basis cannot represent,
``k - phi' K^-1 phi``, is not in it: little, where the knots are close for the kernel's
roughness and the spline's degree; `asvgp.posterior.samples.sample` draws from the whole posterior.
"""

from __future__ import annotations

from math import comb, factorial

import numpy as np
from scipy.interpolate import BSpline

from asvgp.basis import Array, Grid
from asvgp.kernels.dynamics import Dynamics
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.posterior import LinePoints, check_component, eigen_root
from asvgp.posterior.samples import generator, sample_count


def draw_paths(
    posterior: ChainPosterior, n_samples: int = 1, random_state=None, component: int | None = None
) -> list[BSpline]:
    """Draw posterior sample paths over the domain, as splines.

    Parameters
    ----------
    posterior : ChainPosterior
    n_samples : int
    random_state : int, Generator, RandomState or None
    component : int, optional
        The paths of this component, counted from zero, instead of the sum's. The same
        ``random_state`` draws the same joint sample: the components' paths add up.

    Returns
    -------
    list of BSpline
        One per sample, with methods ``derivative``, ``antiderivative`` and ``integrate``. With
        several outputs a path is vector-valued, ``path(x)`` of shape (n, outputs); outputs
        are independent draws. Outside the domain a path is NaN: the process is no polynomial
        there (see `continued`).

    Notes
    -----
    A sum's components may have different degrees. The sum is then a spline of the largest
    degree whose knots are repeated, as often as the smoothness of the roughest component
    asks, so that it is exact too.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern52
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 1, 50)
    >>> stats = Statistics.from_data(x, np.sin(6 * x), Grid(0.0, 1.0, 20), degree=3)
    >>> posterior = ChainPosterior(Matern52(0.5), 1e-4, stats, degree=3)
    >>> paths = draw_paths(posterior, n_samples=5, random_state=0)
    >>> len(paths), paths[0].k
    (5, 3)
    >>> bool(np.abs(paths[0](x) - np.sin(6 * x)).max() < 0.05)
    True
    >>> paths[0].derivative()(x).shape
    (50,)
    """
    check_component(posterior, component)
    return _splines(posterior, *_drawn(posterior, n_samples, generator(random_state)), component)


def mean_spline(
    posterior: ChainPosterior, output: int = 0, component: int | None = None
) -> BSpline:
    """Return the posterior mean of one output over the domain, as a spline.

    Parameters
    ----------
    posterior : ChainPosterior
    output : int
    component : int, optional
        Return that of this component alone, counted from zero, instead of the sum's.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 1, 50)
    >>> stats = Statistics.from_data(x, x**2, Grid(0.0, 1.0, 20), degree=2)
    >>> posterior = ChainPosterior(Matern32(0.5), 1e-4, stats, degree=2)
    >>> spline = mean_spline(posterior)
    >>> bool(np.allclose(spline(x), posterior.predict(x)[0][0], atol=1e-12))
    True
    >>> round(float(spline.integrate(0.0, 1.0)), 2)
    0.33
    """
    check_component(posterior, component)
    beta = np.empty((0, 1)) if posterior.effects is None else posterior.effects.beta[:, [output]]
    return _splines(posterior, posterior.coefficients[None, [output]], beta[None], component)[0]


def _drawn(posterior: ChainPosterior, n_samples: int, rng) -> tuple[Array, Array]:
    """Draw Taylor coefficients, (samples, outputs, cells, n + S), and effects.

    The latter are (samples, effects, outputs).
    """
    model, effects = posterior.model, posterior.effects
    outputs, samples = len(posterior.stats.squares), sample_count(n_samples)
    sizes = model.num_states, posterior.grid.cells * len(model.degrees)
    normals = [rng.standard_normal((samples * outputs, size)) for size in sizes]
    coef = posterior.factored.draw(np.hstack(normals))
    coef = coef.reshape(samples, outputs, *coef.shape[1:])
    coef += posterior.coefficients[:outputs]
    if effects is None:
        return coef, np.empty((samples, 0, outputs))
    off = effects.root @ rng.standard_normal((samples, len(effects.root), outputs))
    coef -= np.einsum("apo,pci->aoci", off, posterior.coefficients[outputs:])
    return coef, effects.beta + off


def _splines(
    posterior: ChainPosterior, coefs: Array, betas: Array, component: int | None
) -> list[BSpline]:
    """Turn Taylor coefficients (samples, outputs, cells, n + S) into splines, one per sample.

    End knots are repeated. ``betas`` are the effects, (samples, effects, outputs), those of the
    splines' own input having a part in the sum.
    """
    model, grid = posterior.model, posterior.grid
    parts = range(len(model.priors)) if component is None else [component]
    degrees = [model.degrees[number] for number in parts]
    k = max(degrees)
    knots, cell, polar = _polar_forms(grid, k, 1 + k - min(degrees))
    effects = posterior.effect_values(grid.knots[:-1])
    slopes = posterior.effect_values(grid.knots[:-1], power=1) * grid.spacing
    splines = []
    for coef, beta in zip(coefs, betas, strict=True):
        taylor = np.zeros((*coef.shape[:2], k + 1))
        for number, degree in zip(parts, degrees, strict=True):
            taylor[..., : degree + 1] += coef[..., model.where[number]]
        if component is None:
            taylor[..., 0] += (effects @ beta).T
            taylor[..., 1] += (slopes @ beta).T
        values = np.einsum("oji,ji->oj", taylor[:, cell], polar)
        values = values[0] if len(values) == 1 else values.T
        splines.append(BSpline(knots, values, k, extrapolate=False))
    return splines


def _polar_forms(grid: Grid, k: int, repeats: int) -> tuple[Array, np.ndarray, Array]:
    """Return knots and how their B-splines' coefficients follow from a piecewise polynomial.

    Inner knots are repeated ``repeats`` times. A coefficient is the polar form of the
    polynomial on any cell under its B-spline at the k knots inside: of ``s**i``, the i-th
    elementary symmetric polynomial of those over ``binomial(k, i)``. Returned are the cells and
    these factors, (count,) and (count, k + 1).
    """
    inner = np.repeat(np.arange(1, grid.cells), repeats)
    number = np.concatenate([np.zeros(k + 1, dtype=int), inner, np.full(k + 1, grid.cells)])
    count = len(number) - k - 1
    cell = (number[:count] + number[k + 1 :] - 1) // 2  # amid the support
    symmetric = np.zeros((count, k + 1))
    symmetric[:, 0] = 1.0
    for j in range(1, k + 1):
        place = (number[j : j + count] - cell)[:, None]
        symmetric[:, 1:] += place * symmetric[:, :-1]
    polar = symmetric / np.array([comb(k, i) for i in range(k + 1)])
    return grid.knots[number], cell, polar


def continued(posterior: ChainPosterior, points, n_samples: int = 1, random_state=None) -> Array:
    """Draw spline paths at points, (outputs, n, samples), at O(M + n) per draw.

    Beyond the ends they walk on from the states there, by the kernel's own dynamics. Unlike
    `asvgp.posterior.samples.sample` they lack what the splines cannot represent.
    """
    points, rng = LinePoints.of(points), generator(random_state)
    x = np.asarray(points.x, dtype=float)
    grid, model = posterior.grid, posterior.model
    coef, beta = _drawn(posterior, n_samples, rng)
    samples, outputs = coef.shape[:2]
    out = np.empty((outputs, len(x), samples))
    inside = (x >= grid.lower) & (x <= grid.upper)
    cells, weights = posterior.rows(x[inside])
    for a in range(samples):
        out[:, inside, a] = np.einsum("oni,ni->on", coef[a][:, cells], weights)
    for right in (False, True):
        rows = np.flatnonzero(x > grid.upper if right else x < grid.lower)
        if not len(rows):
            continue
        lag = x[rows] - grid.upper if right else grid.lower - x[rows]
        rank = np.argsort(lag, kind="stable")
        steps = np.diff(lag[rank], prepend=0.0)
        total = np.zeros((len(rows), samples, outputs))
        for number, prior in enumerate(model.priors):
            dynamics = Dynamics(prior.kernel)
            size, where = dynamics.size, model.where[number]
            end = coef[:, :, -1 if right else 0, where]
            end = end @ prior.shift[:size].T if right else end[:, :, :size]
            ratio = dynamics.unit / grid.spacing * (1.0 if right else -1.0)
            state = end * np.array([factorial(i) * ratio**i for i in range(size)])
            for row, step in zip(rank, dynamics.matrices(steps), strict=True):
                root = eigen_root(dynamics.stationary - step @ dynamics.stationary @ step.T)
                state = state @ step.T + rng.standard_normal(state.shape) @ root.T
                total[row] += state[:, :, 0]
        out[:, rows] = total.transpose(2, 0, 1)
    return out + np.einsum("np,apo->ona", posterior.effect_values(x, points.covariates), beta)
