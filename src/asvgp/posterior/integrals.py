"""Integrals and averages of f over intervals and boxes.

Whatever is linear in f is Gaussian beside it, with covariance

    prior of the functionals - (their K^-1) + (their P^-1).

How a posterior finds these for averages is its own affair (`Posterior.averages`).
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.posterior.posterior import Places, Posterior


def integrate(
    posterior: Posterior[Places],
    lower: Places,
    upper: Places,
    average: bool = False,
    variance: bool = True,
    covariance: bool = False,
    component: int | None = None,
) -> tuple[Array, Array]:
    """Compute definite integrals of f, or its averages, over intervals or boxes.

    They may overlap, come in any order and reach beyond the domain. As with
    `scipy.integrate.quad`, an integral from right to left is negative.

    Parameters
    ----------
    posterior : Posterior
    lower, upper : LinePoints, GridPoints, or arrays of shape (m,) for one input
        Ends of the intervals, or opposite corners of the boxes.
    average : bool
        Divide by the volume; the average over a volume of zero is that over its extent.
    variance : bool
        Without it the second array is empty.
    covariance : bool
        Return the covariance matrix instead of the variances, at a cost of O(m**3).
    component : int, optional
        Integrate this component alone, counted from zero, instead of the sum.

    Returns
    -------
    mean : ndarray of shape (outputs, m)
    variance : ndarray of shape (m,) or (m, m)
        Shared by all outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern52
    >>> from asvgp.basis import Grid
    >>> from asvgp.posterior.chain import ChainPosterior
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 3, 200)
    >>> stats = Statistics.from_data(x, np.cos(x), Grid(0.0, 3.0, 50), degree=3)
    >>> posterior = ChainPosterior(Matern52(1.0), 1e-6, stats, degree=3)
    >>> mean, variance = integrate(posterior, [0.0, 1.0], [np.pi / 2, 0.0])
    >>> mean.round(4)
    array([[ 1.    , -0.8415]])
    >>> bool(np.all(variance < 1e-4))
    True
    """
    mean, spread = posterior.averages(lower, upper, variance, covariance, component)
    if average:
        return mean, spread
    volumes = posterior.volumes(lower, upper)
    if spread.size:
        spread = spread * (np.outer(volumes, volumes) if covariance else volumes**2)
    return mean * volumes, spread
