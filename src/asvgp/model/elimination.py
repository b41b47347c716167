"""The posterior's chain: P = K + G / noise, factored by the path that is accurate.

Plain elimination is fast; its relative error is at most about ``eps`` times the information of
the data on the state at a knot, in units of the prior's. The process forgets data farther away
than a lengthscale, so that this is

    information = variance * (largest weight in a cell) * max(1, lengthscale in cells) / noise.

Up to `LINE.certain_information` the plain path is good to nine digits whatever the data. Beyond
it, it usually still is, and it can be checked: with exact arithmetic tr(P^-1 K) + tr(P^-1 G) /
noise is the number of basis functions, and what is missing is, to first order, the error of
log|P| (`Elimination.defect`). In the same way a = P^-1 b / noise is good where a' P a is what it
explains, a' b / noise (`Elimination.explained_error`). Where either error is more than `LINE`
accepts, or beyond `LINE.hopeless_information`, the square-root path is taken, whose accuracy does
not depend on it, at ten times the cost.

Its roots of the data leave out what is rounding beside the rest of a cell, such as distances of
points nearer than 1e-6 cells, and with it a part of b that y may make large. What the mean explains
is therefore computed from the sums themselves, as 2 a' b / noise - a' P a (`Elimination.reached`):
the exact mean has the most of it, so that errors of a count by their squares, and no bound becomes
too high; and of two means it tells the better one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.chain import elimination, square_root
from asvgp.model.prior import ChainPrior, inverse_and_log_det
from asvgp.policies import LINE
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Elimination:
    """The factored posterior of the spline coefficients.

    ``start_root @ start_root.T`` is the covariance of the first state; ``explained`` is
    ``b' P^-1 b / noise**2`` per output. Letters as in `asvgp.linalg`.
    """

    prior: ChainPrior
    stats: Statistics
    path: str
    gain: Array
    rho: Array
    offset: Array
    start_mean: Array
    start_root: Array
    log_det: float
    explained: Array

    def means(self, keep: bool = False) -> tuple[Array, Array]:
        """Return the sum of ``v v'`` over cells and outputs, and the means v themselves.

        The latter are (outputs, cells, n + S), and there only with ``keep``.
        """
        prior = self.prior
        outputs, cells, _ = self.offset.shape
        size = len(prior.power)
        total = np.zeros((size, size))
        coef = np.empty((outputs, cells if keep else 1, size))
        for o in range(outputs):
            start = self.start_mean[o].copy()
            elimination.means(prior.markers, self.gain, self.offset[o], start, total, coef[o])
        return total, coef

    def marginals(self, keep: bool = False) -> tuple[float, Array, Array]:
        """Return ``tr(P^-1 G)``, the sum of the cell covariances, and with ``keep`` all of them."""
        prior = self.prior
        size = len(prior.power)
        total = np.zeros((size, size))
        cov = np.empty((len(self.rho) if keep else 1, size, size))
        if self.path == "plain":
            sweep, spread, start = elimination.marginals, self.rho, self.start_covariance
        else:
            sweep, spread = square_root.marginals, self.rho**-0.5
            start = np.array(self.start_root, order="C")
        sums = prior.pair(self.stats), self.gain, spread, self.stats.moments
        trace = sweep(prior.markers, *sums, start, total, cov)
        return trace, total, cov

    @property
    def start_covariance(self) -> Array:
        """Covariance of the state at the first knot."""
        return self.start_root @ self.start_root.T

    @cached_property
    def sums(self) -> tuple[float, Array]:
        """``tr(P^-1 G)`` and the sum of the cell covariances."""
        trace, total, _ = self.marginals()
        return trace, total

    def defect(self, noise: float) -> float:
        """Return ``|tr(P^-1 (K + G / noise)) - M| / M``, zero in exact arithmetic."""
        trace, total = self.sums
        size = self.prior.size
        return abs(self.prior.form(total, self.start_covariance) + trace / noise - size) / size

    def explained_error(self, noise: float) -> Array:
        """Return what `explained` differs from the means' own form by, for the outputs of y.

        It is the error of ``explained``, to first order, and zero in exact arithmetic.
        """
        prior, stats = self.prior, self.stats
        coef, pair = np.empty(self.offset.shape[1:2] + prior.power.shape), prior.pair(stats)
        errors = np.empty(len(stats.squares))
        for o in range(len(errors)):  # others are columns of effects, which need it less
            total, start = np.zeros((len(prior.power),) * 2), self.start_mean[o].copy()
            elimination.means(prior.markers, self.gain, self.offset[o], start, total, coef)
            form = prior.form(total, np.outer(self.start_mean[o], self.start_mean[o]))
            form += elimination.data_form(pair, stats.moments, coef) / noise
            errors[o] = abs(self.explained[o] - form)
        return errors

    def accepted_error(self) -> Array:
        """Return what `explained_error` may be, in nats."""
        explained = self.explained[: len(self.stats.squares)]
        return LINE.accepted_error * self.stats.observations + LINE.rounding * explained

    def reached(self, noise: float) -> Array:
        """Return ``2 a' b / noise - a' P a`` of the means a, for the outputs of y.

        With exact sums it is never more than ``b' P^-1 b / noise**2``.
        """
        prior, stats = self.prior, self.stats
        coef, pair = np.empty(self.offset.shape[1:2] + prior.power.shape), prior.pair(stats)
        out = np.empty(len(stats.squares))
        for o, start in enumerate(self.start_mean[: len(out)].copy()):
            total, first = np.zeros((len(prior.power),) * 2), prior.boundary_root @ start
            elimination.means(prior.markers, self.gain, self.offset[o], start, total, coef)
            energy = np.sum((coef @ prior.element_root.T) ** 2) + first @ first
            data = 2.0 * np.sum(stats.targets[o][:, prior.power] * coef)
            data -= elimination.data_form(pair, stats.moments, coef)
            out[o] = data / noise - energy
        return out

    def accurate(self, noise: float) -> bool:
        """Return True if both errors are no more than what is accepted."""
        if not self.defect(noise) <= LINE.accepted_defect:
            return False
        return bool(np.all(self.explained_error(noise) <= self.accepted_error()))


def information(prior: ChainPrior, stats: Statistics, noise: float) -> float:
    """Return the information of the data on a state, in units of the prior's."""
    reach = max(1.0, prior.kernel.memory / prior.grid.spacing)
    return prior.kernel.prior_variance * stats.densest * reach / noise


def eliminate(
    prior: ChainPrior, stats: Statistics, noise: float, path: str | None = None
) -> Elimination:
    """Factor P and solve for the mean; ``path`` forces "plain" or "square-root"."""
    if path is not None:
        return (_plain if path == "plain" else _square_root)(prior, stats, noise)
    informed = information(prior, stats, noise)
    if informed <= LINE.certain_information:
        return _plain(prior, stats, noise)
    chain = None
    if informed <= LINE.hopeless_information:
        with suppress(np.linalg.LinAlgError), np.errstate(invalid="ignore"):
            chain = _plain(prior, stats, noise)
            if chain.accurate(noise):
                return chain
    roots = _square_root(prior, stats, noise)
    if chain is not None and chain.defect(noise) <= LINE.accepted_defect:
        own = slice(len(stats.squares))
        chain.explained[own] = chain.reached(noise)
        gained = np.sum(chain.explained[own] - roots.explained[own])
        if gained > np.sum(roots.accepted_error()):
            return chain
    return roots


def _outputs(prior: ChainPrior, stats: Statistics) -> tuple[Array, Array, Array]:
    """Return empty arrays for gain, rho and offset."""
    cells, s, outputs = prior.grid.cells, len(prior.degrees), len(stats.targets)
    gain = np.zeros((cells, s, prior.num_states + s - 1))
    return gain, np.empty((cells, s)), np.empty((outputs, cells, s))


def _plain(prior: ChainPrior, stats: Statistics, noise: float) -> Elimination:
    gain, rho, offset = _outputs(prior, stats)
    left, pair = np.zeros_like(prior.boundary), prior.pair(stats)
    sums = prior.element, stats.moments, 1.0 / noise
    elimination.factor(prior.markers, pair, *sums, gain, rho, left)
    covariance, log_det = inverse_and_log_det(prior.boundary + left)
    start_mean, explained = np.zeros((len(offset), prior.num_states)), np.empty(len(offset))
    for o, right in enumerate(np.zeros_like(start_mean)):
        sums = prior.power, stats.targets[o], 1.0 / noise
        part = elimination.solve(prior.markers, *sums, gain, rho, offset[o], right)
        start_mean[o] = covariance @ right
        explained[o] = part + right @ start_mean[o]
    determinant = log_det + float(np.log(rho).sum())
    root = np.linalg.cholesky(covariance)
    return Elimination(
        prior, stats, "plain", gain, rho, offset, start_mean, root, determinant, explained
    )


def _square_root(prior: ChainPrior, stats: Statistics, noise: float) -> Elimination:
    gain, rho, offset = _outputs(prior, stats)
    n, (size, outputs) = prior.num_states, (len(prior.power), len(offset))
    order = np.append(np.arange(size - 1, n - 1, -1), np.arange(n))
    roots, scores = stats.roots
    tables = prior.shift, prior.element_root
    shift, rows = (np.ascontiguousarray(table[:, order]) for table in tables)
    work = np.zeros((n + len(rows) + roots.shape[1], size + outputs))
    carried, explained = np.zeros((n, n + outputs)), np.zeros(outputs)
    data, filled = (roots, scores, noise**-0.5), (gain, rho, offset, carried, explained)
    square_root.factor(shift, prior.power[order], rows, *data, work, *filled)
    work = np.zeros((2 * n, n + len(offset)))
    work[:n] = carried
    work[n:, :n] = prior.boundary_root
    square_root.triangularise(work, 2 * n, n)
    factor, right = work[:n, :n], work[:n, n:]
    root = np.linalg.inv(factor)  # covariance = root root'
    determinant = float(2.0 * np.sum(np.log(np.abs(np.diag(factor)))) + np.sum(np.log(rho)))
    explained, mean = explained + np.sum(right**2, axis=0), (root @ right).T
    chain = Elimination(
        prior, stats, "square-root", gain, rho, offset, mean, root, determinant, explained
    )
    explained[: len(stats.squares)] = chain.reached(noise)
    return chain
