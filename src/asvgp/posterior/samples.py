"""Joint draws of f at points, from the whole posterior."""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.policies import MEMORY
from asvgp.posterior.posterior import Places, Posterior


def sample(
    posterior: Posterior[Places], points: Places, n_samples: int = 1, random_state=None
) -> Array:
    """Draw f jointly at points, inside the domain or beyond it, by factoring their covariance.

    Parameters
    ----------
    posterior : Posterior
    points : LinePoints, GridPoints, or array of shape (n,) for one input
        At most 2000, in any order.
    n_samples : int
    random_state : int, Generator, RandomState or None

    Returns
    -------
    ndarray of shape (outputs, n, n_samples)
        Outputs are independent draws.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.posterior.chain import ChainPosterior
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 1, 50)
    >>> stats = Statistics.from_data(x, np.sin(6 * x), Grid(0.0, 1.0, 20), degree=2)
    >>> posterior = ChainPosterior(Matern32(0.5), 1e-4, stats, degree=2)
    >>> draws = sample(posterior, [0.5, 2.0], n_samples=1000, random_state=0)
    >>> draws.shape
    (1, 2, 1000)
    >>> draws.std(axis=2).round(1).tolist()
    [[0.0, 1.0]]
    """
    mean, _ = posterior.predict(points, variance=False)
    n, samples, rng = mean.shape[1], sample_count(n_samples), generator(random_state)
    if n > MEMORY.most_joint_draws:
        raise ValueError(
            f"An exact joint sample at {n} points would factor a {n} x {n} matrix; the limit is "
            f"{MEMORY.most_joint_draws} points. Evaluate sample_paths(...) at them."
        )
    root = posterior.covariance_root(posterior.covariance(points))
    return mean[:, :, None] + root @ rng.standard_normal((len(mean), n, samples))


def generator(random_state):
    """Return a source of standard normals; scikit-learn's RandomState is welcome as well."""
    if isinstance(random_state, np.random.RandomState):
        return random_state
    return np.random.default_rng(random_state)


def sample_count(n_samples) -> int:
    """Return a number of samples, checked."""
    if not isinstance(n_samples, int | np.integer) or n_samples < 1:
        raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}.")
    return int(n_samples)
