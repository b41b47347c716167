"""The posterior process: factored once, then a polynomial per cell.

On a cell the mean is a polynomial of degree k and the variance one of degree 2k, both kept
in a table with a row per cell, so that a prediction is two Horner schemes whatever N and M
were. Outside the domain the Markov property gives both exactly from the state at the
nearer end.
"""

from __future__ import annotations

from functools import cached_property
from math import factorial

import numba
import numpy as np

from asvgp.basis import Array
from asvgp.inference.elimination import Elimination, eliminate
from asvgp.inference.prior import Prior
from asvgp.kernels import Kernel
from asvgp.linalg.covariance import add_covariance
from asvgp.parallel import as_doubles, each_chunk, each_share
from asvgp.stats import Statistics


class Posterior:
    """Mean and covariance of f given the data, for fixed hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    noise : float
        Noise variance of an observation of weight one.
    stats : Statistics
    degree : int

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.stats import Statistics
    >>> x = np.linspace(0, 1, 50)
    >>> stats = Statistics.from_data(x, np.sin(6 * x), Grid(0.0, 1.0, 20), degree=2)
    >>> posterior = Posterior(Matern32(0.5), 1e-4, stats, degree=2)
    >>> mean, variance = posterior.predict(np.array([0.5, 100.0]))
    >>> mean.round(2).tolist()  # inside; and far outside, where the prior is back
    [[0.14, 0.0]]
    >>> variance.round(2).tolist()
    [0.0, 1.0]
    """

    def __init__(self, kernel: Kernel, noise: float, stats: Statistics, degree: int):
        self.kernel, self.noise, self.stats, self.degree = kernel, noise, stats, degree
        self.grid = stats.grid
        self.prior = Prior(kernel, stats.grid, degree)
        self.chain: Elimination = eliminate(self.prior, stats, noise)
        self.coefficients: Array = self.chain.means(keep=True)[1]

    def __repr__(self) -> str:
        return (
            f"Posterior({self.kernel!r}, noise={self.noise:.6g}, {self.stats.count} observations, "
            f"{self.grid.cells + self.degree} basis functions of degree {self.degree})"
        )

    @cached_property
    def _cell_covariances(self) -> tuple[Array, Array]:
        """Covariances of every cell's coefficients, under the prior and the posterior."""
        return self.prior.covariances(), self.chain.marginals(keep=True)[2]

    @cached_property
    def _reduction(self) -> tuple[Array, Array]:
        """Prior minus posterior variance: polynomials per cell, and both end cells whole."""
        k = self.degree
        before, after = self._cell_covariances
        polynomials = np.zeros((self.grid.cells, 2 * k + 1))
        for i in range(k + 1):
            for j in range(k + 1):
                polynomials[:, i + j] += before[:, i, j] - after[:, i, j]
        ends = before[[0, -1]] - after[[0, -1]]
        return polynomials, ends

    @property
    def _floor(self) -> float:
        """Smallest variance that rounding of the prior's lets us tell from zero."""
        return float(np.finfo(float).eps * self.kernel.prior_variance)

    def predict(self, x, variance: bool = True) -> tuple[Array, Array]:
        """Mean (outputs, n) and latent variance (n,) at finite inputs, in any order.

        Without ``variance`` the second array is empty.
        """
        x = np.asarray(x).ravel()
        k, grid = self.degree, self.grid
        polynomials, ends = self._reduction if variance else (np.empty((0, 2 * k + 1)), None)
        mean = np.empty((len(self.coefficients), len(x)))
        var = np.empty(len(x) if variance else 0)
        scale = grid.cells / (grid.upper - grid.lower)

        def share(start: int, stop: int) -> int:
            outside = 0
            for begin, end in each_chunk(start, stop):
                outside += _evaluate(
                    (0,) * k,
                    as_doubles(x[begin:end]),
                    grid.lower,
                    grid.upper,
                    scale,
                    self.coefficients,
                    polynomials,
                    self.kernel.prior_variance,
                    self._floor,
                    begin,
                    mean,
                    var,
                )
            return outside

        if sum(each_share(len(x), share)):
            rows = np.flatnonzero((x < grid.lower) | (x > grid.upper))
            cells, weights = self.functionals(x[rows])
            coef = self.coefficients[:, cells]
            mean[:, rows] = np.einsum("oti,ti->ot", coef, weights)
            if ends is not None:
                right = (x[rows] > grid.upper).astype(int)
                reduction = np.einsum("ti,tij,tj->t", weights, ends[right], weights)
                var[rows] = np.maximum(self.kernel.prior_variance - reduction, self._floor)
        return mean, var

    def functionals(self, x) -> tuple[np.ndarray, Array]:
        """Evaluation at x as weights on the coefficients of one cell, beyond the ends too."""
        x = np.asarray(x, dtype=float).ravel()
        k, grid, p = self.degree, self.grid, self.kernel.order
        cells, s = grid.locate(np.clip(x, grid.lower, grid.upper))
        weights = s[:, None] ** np.arange(k + 1)
        derivatives = np.array([factorial(i) / grid.spacing**i for i in range(p + 1)])
        right = x > grid.upper
        if right.any():
            transition = self.kernel.transition(x[right] - grid.upper) * derivatives
            weights[right] = transition @ self.prior.shift[: p + 1]
        left = x < grid.lower
        if left.any():
            mirrored = derivatives * (-1.0) ** np.arange(p + 1)
            weights[left] = 0.0
            weights[left, : p + 1] = self.kernel.transition(grid.lower - x[left]) * mirrored
        return cells, weights

    def covariance(self, x) -> Array:
        """Posterior covariance matrix of f at the given inputs."""
        x = np.asarray(x, dtype=float).ravel()
        order = np.argsort(x, kind="stable")
        cells, weights = self.functionals(x[order])
        out = self.kernel(x[order])
        before, after = self._cell_covariances
        prior, chain, marker = self.prior, self.chain, (0,) * self.degree
        add_covariance(
            marker, prior.shift, prior.first, prior.gain, before[cells], cells, weights, -1.0, out
        )
        add_covariance(marker, prior.shift, 0, chain.gain, after[cells], cells, weights, 1.0, out)
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, self._floor, out=diagonal)
        unsorted = np.empty_like(out)
        unsorted[np.ix_(order, order)] = out
        return unsorted


@numba.njit(cache=True, nogil=True)
def _evaluate(
    degree, x, lower, upper, scale, coef, polynomials, prior, floor, begin, mean, variance
):
    """Means and variances inside the domain, written from ``begin``; counts those outside."""
    k = len(degree)
    outputs = coef.shape[0]
    last = coef.shape[1] - 1
    both = variance.shape[0] > 0
    outside = 0
    for n in range(x.shape[0]):
        if x[n] < lower or x[n] > upper:
            outside += 1
            continue
        t = (x[n] - lower) * scale
        c = min(int(t), last)
        s = t - c
        for o in range(outputs):
            value = coef[o, c, k]
            for j in range(k - 1, -1, -1):
                value = value * s + coef[o, c, j]
            mean[o, begin + n] = value
        if both:
            value = polynomials[c, 2 * k]
            for j in range(2 * k - 1, -1, -1):
                value = value * s + polynomials[c, j]
            variance[begin + n] = max(prior - value, floor)
    return outside
