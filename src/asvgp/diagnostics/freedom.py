"""Effective degrees of freedom of a model of one input."""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.model.effects import Design, by_power
from asvgp.posterior.chain import ChainPosterior


def effective_degrees_of_freedom(posterior: ChainPosterior) -> float:
    """Return ``tr(P^-1 G) / noise``, the trace of the matrix that takes y to fitted values.

    It is per output, and between zero and the number of basis functions.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32
    >>> x = np.linspace(0, 6, 200)
    >>> gp = GPRegressor(Matern32(3.0), num_basis=50, noise_variance=0.01, optimizer=None)
    >>> round(effective_degrees_of_freedom(gp.fit(x, np.sin(x)).posterior_), 1)
    15.5
    """
    effects = 0.0 if posterior.effects is None else posterior.effects.freedom
    return posterior.chain.sums[0] / posterior.noise + effects


def component_degrees_of_freedom(posterior: ChainPosterior) -> Array:
    """Return the part of every component; with that of the effects they add up to the whole.

    ``tr(P^-1 G S_i) / noise`` with ``S_i`` selecting the coefficients of component i: the
    trace of the matrix that takes y to the component's fitted values.
    """
    model, stats, effects = posterior.model, posterior.stats, posterior.effects
    if len(model.where) == 1 and effects is None:
        return np.array([effective_degrees_of_freedom(posterior)])
    cov = posterior.chain.marginals(keep=True)[2]
    parts, pair = [], model.pair(stats)
    for where in model.where:
        total = 0.0
        for i in where:
            for j, column in enumerate(pair[i]):
                total += float(cov[:, i, j] @ stats.moments[:, column])
        parts.append(total)
    design = Design.of(posterior.kernel, stats)
    if effects is not None and design is not None:
        columns, powers = posterior.coefficients[effects.outputs :], stats.degree + 1
        left = design.taylor - by_power(columns, model.power, powers)
        for number, where in enumerate(model.where):
            own = by_power(columns[:, :, where], model.power[where], powers)
            nothing = np.zeros_like(own), np.zeros_like(design.products)
            parts[number] -= float(np.sum(effects.covariance * design.inner(left, own, *nothing)))
    return np.array(parts) / posterior.noise
