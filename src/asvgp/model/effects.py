"""Fixed effects beside the chain: eliminated last, they cost a few right-hand sides more.

The model is y = Phi w + Z beta + noise with w ~ N(0, K^-1) and beta ~ N(0, T^-1). With
alpha = P^-1 Phi'Wy / noise as ever, a = P^-1 Phi'WZ / noise, and r = Z - Phi a, what the
splines leave of the columns of Z, the posterior of beta has precision S and mean beta:

    S = T + a'Ka + r'Wr / noise,        S beta = a'K alpha + r'W (y - Phi alpha) / noise,

and w given beta has the mean alpha - a beta. Both are sums of squares, or nearly so, rather
than the differences they equal: splines can imitate an intercept to many digits, and
nothing cancels here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Constant, Effect, Kernel
from asvgp.model.elimination import Elimination
from asvgp.model.prior import ChainPrior
from asvgp.policies import DATA
from asvgp.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Centring:
    """What was taken off y and the columns of Z, for which the intercept makes up.

    Coefficients of the columns as given are ``to_given @ beta + offset``, if beta are those
    of the centred columns and of y less its centre. Their prior, N(0, T^-1), is of the
    coefficients as given.

    Attributes
    ----------
    centres : ndarray of shape (effects,)
        Of the columns; zero for the intercept.
    centre : ndarray of shape (outputs,)
        Of y.
    intercept : int, optional
        Which effect is the intercept; without one all centres are zero.
    """

    centres: Array
    centre: Array
    intercept: int | None

    @cached_property
    def to_given(self) -> Array:
        """J: coefficients of the columns as given are J times those of the centred ones."""
        matrix = np.eye(len(self.centres))
        if self.intercept is not None:
            matrix[self.intercept] -= self.centres
        return matrix

    @cached_property
    def offset(self) -> Array:
        """What the intercept as given has besides, (effects, outputs): the centre of y."""
        out = np.zeros((len(self.centres), len(self.centre)))
        if self.intercept is not None:
            out[self.intercept] = self.centre
        return out

    def prior(self, precision: Array) -> tuple[Array, Array, Array]:
        """Of beta: ``J'TJ``, ``J'T offset``, and ``offset'T offset`` of every output."""
        weighted = precision[:, None] * self.offset
        matrix = self.to_given.T @ (precision[:, None] * self.to_given)
        return matrix, self.to_given.T @ weighted, np.sum(self.offset * weighted, axis=0)

    def energy(self, precision: Array, beta: Array) -> float:
        """``beta' T beta`` of the coefficients as given, summed over outputs."""
        given = self.to_given @ beta + self.offset
        return float(np.sum(precision[:, None] * given**2))


def near_means(columns: Sequence[Array]) -> Array:
    """A number near the mean of each column, from some of its rows; zero if all are missing."""
    out = np.zeros(len(columns))
    for i, column in enumerate(columns):
        some = np.asarray(column[:: max(1, len(column) // DATA.mean_rows)], dtype=float)
        some = some[np.isfinite(some)]
        out[i] = some.mean() if len(some) else 0.0
    return out


def mean_square(stats: Statistics) -> float:
    """The largest mean square of an output, its centre not taken off."""
    weight = max(stats.weight, 1e-300)
    means = stats.sums / weight
    power = float(np.max(stats.squares / weight + 2.0 * stats.centre * means - stats.centre**2))
    return max(power, float(np.max(means**2))) or 1.0


@dataclass(frozen=True, eq=False)
class Design:
    """The columns Z of a kernel's fixed effects, as far as statistics know them.

    A column is a polynomial on every cell (intercept, slope in the splines' own input), or
    one that only its sums with the data tell of.

    Attributes
    ----------
    taylor : ndarray of shape (effects, cells, degree + 1)
        The polynomials, zero for the others.
    sums : ndarray of shape (effects, cells, degree + 1)
        Weighted sums of the other columns times powers of s, zero for the polynomials.
    products, with_y : ndarray of shape (effects, effects) and (effects, outputs)
        Weighted products of the other columns with each other and with y.
    precision : ndarray of shape (effects,)
        The diagonal of T, for columns as given.
    centring : Centring
        What is taken off y and each column here; with an intercept the model is the same.
    """

    stats: Statistics
    taylor: Array
    sums: Array
    products: Array
    with_y: Array
    precision: Array
    centring: Centring

    @classmethod
    def of(cls, kernel: Kernel, stats: Statistics) -> Design | None:
        """The design of a kernel on these statistics, None where it has no fixed effects."""
        if not kernel.effects:
            return None
        intercept = kernel.intercept
        if intercept is None:  # then nothing may be taken off
            stats = stats.recentred(0.0 * stats.centre, 0.0 * stats.column_centre)
        grid, outputs = stats.grid, len(stats.squares)
        size = len(kernel.effects)
        centres = np.zeros(size)
        shape = (size, grid.cells, stats.degree + 1)
        taylor, sums = np.zeros(shape), np.zeros(shape)
        other = np.full(size, -1)
        for i, effect in enumerate(kernel.effects):
            power = own_power(kernel, effect)
            if power == 0:
                taylor[i, :, 0] = 1.0
            elif power == 1:
                centres[i] = 0.0 if intercept is None else 0.5 * (grid.lower + grid.upper)
                taylor[i, :, 0] = grid.knots[:-1] - centres[i]
                taylor[i, :, 1] = grid.spacing
            else:
                other[i] = other.max() + 1
                sums[i] = stats.columns[other[i]]
                centres[i] = stats.column_centre[other[i]]
        known = np.flatnonzero(other >= 0)
        products, with_y = np.zeros((size, size)), np.zeros((size, outputs))
        rows = outputs + other[known]
        products[np.ix_(known, known)] = stats.products[rows][:, other[known]]
        with_y[known] = stats.products[:outputs][:, other[known]].T
        centring = Centring(centres, stats.centre, intercept)
        bare = cls(stats, taylor, sums, products, with_y, np.ones(size), centring)
        return replace(bare, precision=bare._precisions(kernel))

    def _precisions(self, kernel: Kernel) -> Array:
        """Of the priors given, or of priors too wide to matter."""
        weight = max(self.stats.weight, 1e-300)
        means = self.targets[:, :, 0].sum(axis=1) / weight
        squares = np.diag(self.gram) / weight
        power = mean_square(self.stats)
        return prior_precisions(kernel, power, means, squares, self.centring.centres)

    @cached_property
    def targets(self) -> Array:
        """``Z'W`` times powers of s, a row per cell, (effects, cells, degree + 1)."""
        return self.sums + weighted(self.taylor, self.stats)

    @cached_property
    def augmented(self) -> Statistics:
        """The statistics with the columns as further right-hand sides."""
        targets = np.concatenate([self.stats.targets, self.targets])
        return replace(self.stats, targets=targets)

    @cached_property
    def gram(self) -> Array:
        """``Z'WZ``."""
        return self.inner(self.taylor, self.taylor, self.sums, self.products)

    def inner(self, first: Array, second: Array, sums: Array, products: Array) -> Array:
        """Weighted products of columns, whose polynomials are ``first``, with other vectors.

        Of those, ``second`` are the polynomials, ``sums`` the sums of the rest with powers
        of s, and ``products`` those with the rest of the columns.
        """
        rest = _flat(weighted(first, self.stats) + self.sums) @ _flat(second).T
        return products + _flat(first) @ _flat(sums).T + rest

    @cached_property
    def residual(self) -> Statistics:
        """The statistics of y less what the columns alone explain of it, by ridge regression."""
        stats, outputs = self.stats, len(self.stats.squares)
        nothing = np.zeros((outputs, *self.taylor.shape[1:]))
        with_y = self.inner(self.taylor, nothing, stats.targets, self.with_y)
        beta, squares = ridge(self.gram, with_y, stats.squares)
        targets = stats.targets - np.einsum("po,pcj->ocj", beta, self.targets)
        return replace(stats, targets=targets, squares=squares)


def own_power(kernel: Kernel, effect: Effect) -> int | None:
    """The power of the splines' own input that a column is; None for other columns."""
    if isinstance(effect, Constant):
        return 0
    inputs = {getattr(component, "dim", None) for component in kernel.components}
    return 1 if getattr(effect, "dim", None) in inputs else None


def prior_precisions(
    kernel: Kernel, power: float, means: Array, squares: Array, centres: Array | float = 0.0
) -> Array:
    """Of the effects' coefficients: of the priors given, or of priors too wide to matter.

    From the mean square of y, and the means and mean squares of columns that ``centres``
    were taken off.
    """
    spreads = squares - means**2
    flat = spreads <= 1e-12 * squares
    scales = np.where(flat, np.where(squares > 0.0, squares, 1.0), spreads)
    # An intercept at the origin of columns that vary little far from it can be large.
    constant = np.arange(len(scales)) == kernel.intercept
    lever = 1.0 + np.sum(np.where(constant, 0.0, (means + centres) ** 2 / scales))
    widths = DATA.wide_prior * power * np.where(constant, lever, 1.0 / scales)
    given = [effect.variance for effect in kernel.effects]
    return np.array([1.0 / (w if v is None else v) for v, w in zip(given, widths, strict=True)])


def ridge(gram: Array, with_y: Array, squares: Array) -> tuple[Array, Array]:
    """Coefficients of y on columns alone, (effects, outputs), and the squares they leave."""
    diagonal = np.diag(gram)
    scale = np.where(diagonal > 0.0, np.maximum(diagonal, 1e-300) ** -0.5, 0.0)
    system = gram * np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    beta = scale[:, None] * np.linalg.solve(system, scale[:, None] * with_y)
    explained = np.sum(beta * (2.0 * with_y - gram @ beta), axis=0)
    return beta, np.maximum(squares - explained, 1e-15 * squares)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The posterior of the coefficients, for one elimination.

    Attributes
    ----------
    beta : ndarray of shape (effects, outputs)
        Of the centred columns; the intercept is that of y as given.
    root : ndarray of shape (effects, effects)
        ``root @ root.T`` is the covariance of beta, the same for every output.
    design : Design
    coefficients : ndarray of shape (outputs + effects, cells, n + S)
        The posterior mean of w given the mean of beta, and ``a``.
    explained : ndarray of shape (outputs,)
        What the effects take off the misfit, ``beta' S beta``.
    log_det : float
        ``log|S| - log|T|``.
    freedom : float
        ``tr(S^-1 r'Wr) / noise``: the effects' share of the degrees of freedom.
    shrunk : float
        ``beta' T beta``, summed over outputs.
    """

    beta: Array
    root: Array
    design: Design
    coefficients: Array
    explained: Array
    log_det: float
    freedom: float
    shrunk: float

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
        """``r`` of linear functionals, (n, effects), from their values of ``a`` and of Z."""
        return design - means[self.outputs :].T

    def mean(self, means: Array, design: Array) -> Array:
        """Posterior means of functionals, (outputs, n): of the splines, and of the effects."""
        return means[: self.outputs] + (design @ self.beta).T

    def variance(self, left: Array) -> Array:
        """What not knowing beta adds to the variances of functionals."""
        return np.sum((left @ self.root) ** 2, axis=1)


def estimate(design: Design, chain: Elimination, noise: float) -> Estimate:
    """Eliminate the effects last, after ``chain``, the elimination of ``design.augmented``."""
    prior = chain.prior
    coef = chain.means(keep=True)[1]
    outputs = len(design.with_y.T)
    powers = design.taylor.shape[2]
    taylor = by_power(coef, prior.power, powers)
    energy = _energy(prior, coef)
    residual = design.taylor - taylor[outputs:]
    rest = design.inner(residual, residual, design.sums, design.products) / noise
    misfit = design.inner(residual, -taylor[:outputs], design.stats.targets, design.with_y)
    matrix, pull, constant = design.centring.prior(design.precision)
    precision = matrix + energy[outputs:, outputs:] + rest
    right = energy[outputs:, :outputs] + misfit / noise - pull
    scale = np.diag(precision) ** -0.5
    factor = np.linalg.cholesky(precision * np.outer(scale, scale))
    root = scale[:, None] * np.linalg.inv(factor).T
    half = root.T @ right
    beta = root @ half
    coef[:outputs] -= np.einsum("po,pci->oci", beta, coef[outputs:])
    return Estimate(
        beta + design.centring.offset,
        root,
        design,
        coef,
        np.sum(half**2, axis=0) - constant,
        float(-2.0 * np.log(np.diag(root)).sum() - np.log(design.precision).sum()),
        float(np.sum(root * (rest @ root))),
        design.centring.energy(design.precision, beta),
    )


def _energy(prior: ChainPrior, coef: Array) -> Array:
    """Return ``v'Ku`` of all pairs of coefficient vectors, from products of rows of a root."""
    rows = _flat(coef @ prior.element_root.T)
    start = coef[:, 0, : prior.num_states] @ prior.boundary_root.T
    return rows @ rows.T + start @ start.T


def weighted(taylor: Array, stats: Statistics) -> Array:
    """Weighted sums of polynomials times powers of s, from the moments of every cell."""
    out = np.zeros_like(taylor)
    for i, columns in enumerate(stats.pair):
        if taylor[:, :, i].any():
            out += taylor[:, :, i, None] * stats.moments[:, columns]
    return out


def by_power(values: Array, powers: Array, size: int | None = None) -> Array:
    """Add up the last axis by the power of s that an entry multiplies."""
    out = np.zeros((*values.shape[:-1], size or int(powers.max()) + 1))
    for i, power in enumerate(powers):
        out[..., power] += values[..., i]
    return out


def _flat(array: Array) -> Array:
    """A row for every vector."""
    return array.reshape(len(array), -1)
