"""Fixed effects of one input: eliminated last, they cost a few right-hand sides more.

The model is y = Phi w + Z beta + noise with w ~ N(0, K^-1) and beta ~ N(0, T^-1). With
alpha = P^-1 Phi'Wy / noise, a = P^-1 Phi'WZ / noise, and r = Z - Phi a, the part of the columns of
Z that the splines leave, the posterior of beta has precision S and mean beta:

    S = T + a'Ka + r'Wr / noise,        S beta = a'K alpha + r'W (y - Phi alpha) / noise,

and w given beta has the mean alpha - a beta. Both are sums of squares, or nearly so, rather
than the differences they equal: splines can imitate an intercept to many digits, and
nothing cancels here.

The errors of alpha and of a must not matter to first order: where a covariate varies by 1e5
standard deviations of the noise, what the splines explain of y is 1e10 nats per datum. They do not
in S and in beta, nor in what alpha explains, computed as 2 alpha'b - alpha'P alpha rather than as
alpha'b. And y is replaced by what a regression on Z alone leaves of it, which changes beta only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asvgp.basis import Array, by_power
from asvgp.kernels import Constant, Effect, Kernel
from asvgp.model.effects import Centring, mean_square, prior_precisions, ridge, without_centres
from asvgp.model.elimination import Elimination
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Design:
    """The columns Z of a kernel's fixed effects.

    A column is a polynomial on every cell (intercept, slope along the input of the splines), or
    a covariate, which is known by its sums with the data only.
    """

    stats: Statistics
    taylor: Array  # the polynomials, (effects, cells, degree + 1); zero for covariates
    sums: Array  # weighted sums of the covariates times powers of s; zero for the polynomials
    products: Array  # of the covariates with each other, weighted, (effects, effects)
    with_y: Array  # and with y, (effects, outputs)
    precision: Array  # the diagonal of T, for columns as given
    centring: Centring  # numbers subtracted; with an intercept the model is the same

    @classmethod
    def of(cls, kernel: Kernel, stats: Statistics) -> Design | None:
        """Return the design of a kernel on these statistics, None where it has no effects."""
        if not kernel.effects:
            return None
        intercept, stats = kernel.intercept, without_centres(kernel, stats)
        grid, outputs = stats.grid, len(stats.squares)
        size = len(kernel.effects)
        centres = np.zeros(size)
        shape = (size, grid.cells, stats.degree + 1)
        taylor, sums = np.zeros(shape), np.zeros(shape)
        covariate = np.full(size, -1)
        for i, effect in enumerate(kernel.effects):
            power = input_power(kernel, effect)
            if power == 0:
                taylor[i, :, 0] = 1.0
            elif power == 1:
                centres[i] = 0.0 if intercept is None else 0.5 * (grid.lower + grid.upper)
                taylor[i, :, 0] = grid.knots[:-1] - centres[i]
                taylor[i, :, 1] = grid.spacing
            else:
                covariate[i] = covariate.max() + 1
                sums[i] = stats.columns[covariate[i]]
                centres[i] = stats.column_centre[covariate[i]]
        which = np.flatnonzero(covariate >= 0)
        products, with_y = np.zeros((size, size)), np.zeros((size, outputs))
        numbers = covariate[which]
        products[np.ix_(which, which)] = stats.column_gram[np.ix_(numbers, numbers)]
        with_y[which] = stats.column_targets[:, numbers].T
        centring = Centring(centres, stats.centre, intercept)
        bare = cls(stats, taylor, sums, products, with_y, np.ones(size), centring)
        return replace(bare, precision=bare._precisions(kernel))

    def _precisions(self, kernel: Kernel) -> Array:
        """Return the diagonal of T."""
        weight = max(self.stats.weight, 1e-300)
        means = self.targets[:, :, 0].sum(axis=1) / weight
        squares = np.diag(self.gram) / weight
        power = mean_square(self.stats)
        return prior_precisions(kernel, power, means, squares, self.centring.centres)

    @cached_property
    def targets(self) -> Array:
        """``Z'W`` times powers of s for every cell, (effects, cells, degree + 1)."""
        return self.sums + weighted(self.taylor, self.stats.pair, self.stats.moments)

    @cached_property
    def augmented(self) -> Statistics:
        """The statistics of `residual` with the columns as further right-hand sides."""
        targets = np.concatenate([self.residual.targets, self.targets])
        return replace(self.stats, targets=targets)

    @cached_property
    def gram(self) -> Array:
        """``Z'WZ``."""
        taylor = self.at_data(self.taylor)
        return self.inner(taylor, taylor, self.at_data(self.sums), self.products)

    @cached_property
    def occupied(self) -> Array | slice:
        """Cells with data; all of them where few are without. The others add to no product."""
        stats = self.stats
        there = np.flatnonzero((stats.moments[:, 0] != 0.0) | stats.targets.any(axis=(0, 2)))
        return there if 2 * len(there) < len(self.stats.moments) else slice(None)

    def at_data(self, values: Array) -> Array:
        """Return the values, (vectors, cells, .), on the occupied cells."""
        return values[:, self.occupied]

    def inner(self, first: Array, second: Array, sums: Array, products: Array) -> Array:
        """Return the weighted products of the columns with other vectors, all on occupied cells.

        ``first`` are polynomials in place of the columns' own. The other vectors have the
        polynomials ``second``, the ``sums`` of their other parts with powers of s, and the
        ``products`` of these with the covariates.
        """
        moments, own = self.stats.moments[self.occupied], self.at_data(self.sums)
        rest = _flat(weighted(first, self.stats.pair, moments) + own) @ _flat(second).T
        return products + _flat(first) @ _flat(sums).T + rest

    @cached_property
    def regression(self) -> tuple[Array, Array, Array]:
        """Regression of y on the columns alone.

        Coefficients of the centred columns, (effects, outputs), what they explain of the squares
        of y, and the squares that are left.
        """
        stats, outputs = self.stats, len(self.stats.squares)
        taylor, targets = self.at_data(self.taylor), self.at_data(stats.targets)
        nothing = np.zeros((outputs, *taylor.shape[1:]))
        with_y = self.inner(taylor, nothing, targets, self.with_y)
        return ridge(self.gram, with_y, stats.squares)

    @cached_property
    def residual(self) -> Statistics:
        """The statistics of y less the part that the columns alone explain, by regression."""
        beta, _, squares = self.regression
        targets = self.stats.targets - np.einsum("po,pcj->ocj", beta, self.targets)
        return replace(self.stats, targets=targets, squares=squares)

    @cached_property
    def with_residual(self) -> Array:
        """Products of the covariates with `residual`, as `with_y` are those with y."""
        nothing = np.zeros_like(self.at_data(self.taylor))
        columns = self.at_data(self.taylor), self.at_data(self.sums), self.products
        return self.with_y - self.inner(nothing, *columns) @ self.regression[0]


def input_power(kernel: Kernel, effect: Effect) -> int | None:
    """Return the power of the splines' input that a column is; None for a covariate."""
    if isinstance(effect, Constant):
        return 0
    inputs = {getattr(component, "dim", None) for component in kernel.components}
    return 1 if getattr(effect, "dim", None) in inputs else None


@dataclass(frozen=True, eq=False)
class Estimate:
    """The posterior of the effects' coefficients."""

    beta: Array  # mean for centred columns, (effects, outputs); the intercept of y as given
    root: Array  # root @ root.T is the covariance of beta, the same for every output
    design: Design
    coefficients: Array  # mean of w given that of beta, and ``a``, (outputs + effects, cells, .)
    explained: Array  # reduction of the misfit by splines and effects, (outputs,)
    log_det: float  # log|S| - log|T|
    freedom: float  # tr(S^-1 r'Wr) / noise: the effects' share of the degrees of freedom
    shrunk: float  # beta' T beta, summed over outputs

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.beta.shape[1]

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients."""
        return self.root @ self.root.T

    @property
    def given(self) -> tuple[Array, Array]:
        """Coefficients of the columns as given, and their covariance."""
        matrix = self.design.centring.to_given
        return matrix @ self.beta, matrix @ self.covariance @ matrix.T

    def left(self, means: Array, design: Array) -> Array:
        """Return ``r`` of linear functionals, (n, effects), from their values of ``a`` and Z."""
        return design - means[self.outputs :].T

    def mean(self, means: Array, design: Array) -> Array:
        """Return posterior means of functionals, (outputs, n), of splines and effects together."""
        return means[: self.outputs] + (design @ self.beta).T

    def variance(self, left: Array) -> Array:
        """Return what the uncertainty of beta adds to the variances of functionals."""
        return np.sum((left @ self.root) ** 2, axis=1)


def estimate(design: Design, chain: Elimination, noise: float) -> Estimate:
    """Eliminate the effects last, after ``chain``, the elimination of ``design.augmented``."""
    prior = chain.prior
    coef = chain.means(keep=True)[1]
    outputs = len(design.with_y.T)
    powers = design.taylor.shape[2]
    taylor = by_power(design.at_data(coef), prior.power, powers)
    # v'Ku of all pairs of coefficient vectors, from products of rows of a root
    rows = _flat(coef @ prior.element_root.T)
    start = coef[:, 0, : prior.num_states] @ prior.boundary_root.T
    energy = rows @ rows.T + start @ start.T
    residual = design.at_data(design.taylor) - taylor[outputs:]
    sums, targets = design.at_data(design.sums), design.at_data(design.residual.targets)
    rest = design.inner(residual, residual, sums, design.products) / noise
    first, explained, _ = design.regression
    misfit = design.inner(residual, -taylor[:outputs], targets, design.with_residual)
    matrix, pull, constant = design.centring.prior(design.precision, first)
    precision = matrix + energy[outputs:, outputs:] + rest
    right = energy[outputs:, :outputs] + misfit / noise - pull
    scale = np.diag(precision) ** -0.5
    factor = np.linalg.cholesky(precision * np.outer(scale, scale))
    root = scale[:, None] * np.linalg.inv(factor).T
    half = root.T @ right
    beta = root @ half
    alpha, moments = taylor[:outputs], design.stats.moments[design.occupied]
    both = 2.0 * targets - weighted(alpha, design.stats.pair, moments)
    explained = (explained + np.sum(alpha * both, axis=(1, 2))) / noise
    explained += np.sum(half**2, axis=0) - np.diag(energy)[:outputs] - constant
    coef[:outputs] -= np.einsum("po,pci->oci", beta, coef[outputs:])
    beta = beta + first
    return Estimate(
        beta + design.centring.offset,
        root,
        design,
        coef,
        explained,
        float(-2.0 * np.log(np.diag(root)).sum() - np.log(design.precision).sum()),
        float(np.sum(root * (rest @ root))),
        design.centring.energy(design.precision, beta),
    )


def weighted(taylor: Array, pair: Array, moments: Array) -> Array:
    """Return weighted sums of polynomials times powers of s, from the moments of every cell.

    ``pair`` are the columns of the moments that products of two powers are in.
    """
    out = np.zeros_like(taylor)
    for i, columns in enumerate(pair):
        if taylor[:, :, i].any():
            out += taylor[:, :, i, None] * moments[:, columns]
    return out


def _flat(array: Array) -> Array:
    """Return vectors as the rows of a matrix."""
    return array.reshape(len(array), -1)
