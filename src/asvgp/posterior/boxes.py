"""Averages of a field over boxes: products of averages along the inputs.

Along one input the average of every B-spline over an interval is known, beyond the domain by
the Markov tails (`asvgp.posterior.tails`), around a circle any number of times; over a box a
term's functional is the product of such rows. Unlike a point's, a box's functional acts on many
functions, so its variance takes a solve with P.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.model.axis import Axis
from asvgp.model.closed import ClosedAxis
from asvgp.model.grid import GridEngine
from asvgp.model.grid_prior import GridPrior
from asvgp.model.joint import JointPrior
from asvgp.model.joint_axis import JointAxis
from asvgp.model.memory import joint_step
from asvgp.model.series.terms import Season
from asvgp.posterior.around import around_averages
from asvgp.posterior.averages import Chain, Pieces
from asvgp.posterior.posterior import GridPoints
from asvgp.posterior.series_averages import SecondIntegral
from asvgp.posterior.tails import Splines, in_splines
from asvgp.runtime.lazy import cached_property

_NODES = {2: 48, 3: 24}  # along every input, for variances of averages under a joint kernel
_NODES_BETWEEN = 5  # the same for covariances between boxes


class IntervalAverages:
    """Averages of one process, or of a constant, over intervals, whose ends come in any order."""

    def __init__(self, axis: Axis, start: Array, stop: Array):
        self.axis, self.low, self.high = axis, np.minimum(start, stop), np.maximum(start, stop)
        self.weights = np.ones((len(start), 1))  # on the axis' functions
        self.splines: Splines | None = None
        if axis.process is not None:
            ends = axis.fine.lower, axis.fine.upper
            self.splines = Splines(axis.process, axis.grid, axis.degree, ends)
            self.stretches = self.splines.averages(self.low, self.high)
            self.weights = in_splines(self.stretches, axis.degree, axis.count)

    @cached_property
    def _chain(self) -> Chain:
        """The splines' prior along this input."""
        return Chain.of_prior(self.axis.prior, self.axis.covariances)

    def variances(self) -> tuple[Array, Array]:
        """Return prior variances (m,), and what the splines have of them."""
        if self.splines is None:
            return np.ones(len(self.low)), np.ones(len(self.low))
        prior = self.splines.dynamics.average_variance(self.high - self.low)
        return prior, self._chain.variances(self.stretches)

    def covariances(self) -> tuple[Array, Array]:
        """Return prior covariances (m, m), and what the splines have of them."""
        if self.splines is None or not len(self.low):
            shape = len(self.low), len(self.low)
            return np.ones(shape), np.ones(shape)
        pieces = Pieces(self.low, self.high, self.splines.lower, self.splines.upper)
        captured = np.zeros((len(pieces.length), len(pieces.length)))
        stretches = self.splines.averages(pieces.start, pieces.stop)
        self._chain.add_covariance(stretches, 1.0, captured)
        return pieces.joined(pieces.prior(self.splines.dynamics)), pieces.joined(captured)


class CircleAverages:
    """The same of a periodic process, over intervals that may go around its circle many times."""

    def __init__(self, axis: ClosedAxis, start: Array, stop: Array):
        self.axis, self.low, self.high = axis, np.minimum(start, stop), np.maximum(start, stop)
        self.weights = around_averages(axis.circle, self.low, self.high)

    @cached_property
    def _integral(self) -> SecondIntegral:
        """The prior's covariances."""
        return SecondIntegral(Season(self.axis.circle, 1.0), 0.0)

    def variances(self) -> tuple[Array, Array]:
        """Return prior variances (m,), and what the splines have of them."""
        solved = self.axis.solve(self.weights.T)
        captured = np.einsum("mi,im->m", self.weights, solved)
        return self._integral.variances(self.high - self.low), captured

    def covariances(self) -> tuple[Array, Array]:
        """Return prior covariances (m, m), and what the splines have of them."""
        captured = self.weights @ self.axis.solve(self.weights.T)
        return self._integral.covariances(self.low, self.high), captured


class JointAverages:
    """Averages of a joint kernel's splines along one of its inputs."""

    def __init__(self, axis: JointAxis, start: Array, stop: Array):
        self.low, self.high = np.minimum(start, stop), np.maximum(start, stop)
        self.weights = axis.averages(self.low, self.high)


class JointBoxes:
    """Averages of a joint kernel over boxes: what the prior has of them, and the splines."""

    def __init__(self, unit: JointPrior, along: Sequence[Any]):
        self.unit, self.process = unit, unit.process
        self.low, self.high = (
            np.stack([getattr(each, side) for each in along], axis=1) for side in ("low", "high")
        )
        weights = np.ones((len(self.low), 1))
        for each in along:
            shape = len(weights), weights.shape[1] * each.weights.shape[1]
            weights = (weights[:, :, None] * each.weights[:, None, :]).reshape(shape)
        self.weights = weights

    def variances(self) -> tuple[Array, Array]:
        """Return prior variances (m,), and what the splines have of them."""
        captured = np.einsum("mi,im->m", self.weights, self.unit.solve(self.weights.T))
        return self._prior(), captured

    def _prior(self) -> Array:
        """Return prior variances, from the density of the distance between two points of a box."""
        D = self.low.shape[1]
        nodes, weights = np.polynomial.legendre.leggauss(_NODES[D])
        t = 0.25 * (nodes + 1.0) ** 2  # denser where points are near each other
        weights = weights * 0.5 * (nodes + 1.0) * 2.0 * (1.0 - t)
        sides = [t, np.concatenate([t, -t])] if D == 2 else [t] * D  # which a rotation parts
        halves = [weights, np.concatenate([weights, weights]) / 2.0] if D == 2 else [weights] * D
        lag = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, D)
        weight = np.ones(1)
        for each in halves:
            weight = np.kron(weight, each)
        widths = self.high - self.low
        return np.array([weight @ self.process.covariance(lag * width) for width in widths])

    def covariances(self) -> tuple[Array, Array]:
        """Return prior covariances (m, m), and what the splines have of them.

        Those of the prior between different boxes are means over a few points of each.
        """
        captured = self.weights @ self.unit.solve(self.weights.T)
        D, m = self.low.shape[1], len(self.low)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES_BETWEEN)
        grid = np.stack(np.meshgrid(*[0.5 * (nodes + 1.0)] * D, indexing="ij"), axis=-1)
        grid, weight = grid.reshape(-1, D), np.ones(1)
        for _ in range(D):
            weight = np.kron(weight, 0.5 * weights)
        points = self.low[:, None] + (self.high - self.low)[:, None] * grid
        prior = np.empty((m, m))
        for i in range(m):
            lag = points[i][:, None, None] - points[None, i:]
            values = np.einsum("a,b,ajb->j", weight, weight, self.process.covariance(lag))
            prior[i, i:] = prior[i:, i] = values
        np.fill_diagonal(prior, self._prior())
        return prior, captured


def averages_along(
    axis: Axis, start: Array, stop: Array
) -> IntervalAverages | CircleAverages | JointAverages:
    """Return averages over intervals of an axis."""
    if isinstance(axis, JointAxis):
        return JointAverages(axis, start, stop)
    if isinstance(axis, ClosedAxis):
        return CircleAverages(axis, start, stop)
    return IntervalAverages(axis, start, stop)


class BoxAverages:
    """Averages of f, or of one component, over boxes between two corners.

    The corners come with the values that the effects have there.
    """

    def __init__(
        self,
        engine: GridEngine,
        prior: GridPrior,
        low: GridPoints,
        high: GridPoints,
        component: int | None = None,
    ):
        self.prior, self.size, self.count, plan = prior, engine.size, len(low), engine.plan
        self.main = {
            number: [
                averages_along(axis, low.main[:, d], high.main[:, d]) for d, axis in enumerate(axes)
            ]
            for number, axes in enumerate(prior.axes)
            if component in (None, plan.terms[number])
        }
        self.smooths = {
            j: averages_along(smooth.axis, low.smooths[:, j], high.smooths[:, j])
            for j, smooth in enumerate(prior.smooths)
            if component in (None, plan.smooths[j])
        }
        self.columns = np.zeros((self.count, plan.columns))
        for j, averages in self.smooths.items():
            self.columns[:, prior.columns[j]] = averages.weights
        if component is None and plan.effects:
            # Effects are linear: their average is that of two opposite corners.
            effects = 0.5 * (low.effects + high.effects) - engine.centring.centres
            self.columns[:, -plan.effects :] = effects

    def mean(self, terms: list[Array], columns: Array) -> Array:
        """Return the averages of splines with these coefficients, (outputs, m)."""
        out = self.columns @ columns
        for number, along_inputs in self.main.items():
            tensor = terms[number]
            step = max(1, (1 << 23) // max(1, tensor[0].size))
            for start in range(0, self.count, step):
                rows = slice(start, start + step)
                first, *others = (averages.weights[rows] for averages in along_inputs)
                part = np.tensordot(first, tensor, axes=1)
                for weights in others:
                    part = np.einsum("bn,bn...->b...", weights, part)
                out[rows] += part
        return out.T

    def quadratic(self, solve: Callable[[Array], Array], covariance: bool) -> Array:
        """Return ``phi' P^-1 phi`` of every box, or between all of them."""
        out = np.empty((self.count, self.count) if covariance else self.count)
        step = joint_step(self.count, self.size)
        for start in range(0, self.count, step):
            chunk = slice(start, min(start + step, self.count))
            rows = self._rows(chunk)
            solved = solve(np.ascontiguousarray(rows.T))
            if not covariance:
                out[chunk] = np.einsum("ni,in->n", rows, solved)
                continue
            for begin in range(0, self.count, step):
                other = slice(begin, min(begin + step, self.count))
                out[other, chunk] = (rows if other == chunk else self._rows(other)) @ solved
        return out

    def _rows(self, chunk: slice) -> Array:
        """Return the weights of some boxes on all functions, (boxes, size)."""
        blocks = []
        for number, term in enumerate(self.prior.terms):
            value = np.zeros((len(self.columns[chunk]), term.size))
            if number in self.main:
                first, *others = (averages.weights[chunk] for averages in self.main[number])
                value = first
                for weights in others:
                    value = (value[:, :, None] * weights[:, None, :]).reshape(len(value), -1)
            blocks.append(value)
        return np.hstack([*blocks, self.columns[chunk]])

    def missed(self, covariance: bool) -> tuple[Array, Array]:
        """Return the prior variance or covariance that the splines miss, and all of it."""
        shape = (self.count, self.count) if covariance else self.count
        missed, prior = np.zeros(shape), np.zeros(shape)
        terms: list[tuple[float, list]] = []
        for number, along_inputs in self.main.items():
            term, parts = self.prior.terms[number], []
            for unit, places in zip(term.units, term.places, strict=True):
                own = [along_inputs[d] for d in places]
                parts.append(JointBoxes(unit, own) if isinstance(unit, JointPrior) else own[0])
            terms.append((term.variance, parts))
        terms += [(self.prior.smooths[j].variance, [part]) for j, part in self.smooths.items()]
        for variance, along_inputs in terms:
            whole, captured = np.full(shape, variance), np.full(shape, variance)
            for averages in along_inputs:
                pair = averages.covariances() if covariance else averages.variances()
                whole, captured = whole * pair[0], captured * pair[1]
            missed += whole - captured
            prior += whole
        return missed, prior
