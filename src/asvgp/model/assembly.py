"""Statistics on the leaves of a plan: G once and for all, P for any hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import block_diag

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.linalg.multifrontal import Tree
from asvgp.linalg.multifrontal.dense import DenseFactor
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.axis import Axis
from asvgp.model.conditioning import not_positive_definite
from asvgp.model.devices import Batched, Cpu
from asvgp.model.effects import Centring, mean_square, prior_precisions
from asvgp.model.elements import Leaves, permute
from asvgp.model.memory import Need, plan_need
from asvgp.model.plan import Plan
from asvgp.policies import MEMORY
from asvgp.statistics.several_inputs import FieldStatistics


class Factor(Protocol):
    """A factored P."""

    log_det: float

    def solve(self, right: Any) -> Any:
        """``P^-1 right``."""

    def sample(self, normals: Any) -> Any:
        """Draws with covariance ``P^-1``, from standard normals."""

    def selected_inverse(self, consume: Any) -> None:
        """Pass ``P^-1`` on the functions of each leaf to ``consume(start, stop, blocks)``."""


class Assembly:
    """What the data contribute to P and to the right-hand side, for one plan.

    Parameters
    ----------
    kernel : Kernel
        Any hyperparameters.
    plan : Plan
    stats : FieldStatistics
        On the plan's grids.
    engine : Cpu or Batched, or a function that returns one, optional
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        stats: FieldStatistics,
        engine: Cpu | Batched | Callable[[], Cpu | Batched] | None = None,
    ):
        self.kernel, self.plan, self.stats = kernel, plan, stats
        self._engine = engine or Cpu
        self.inputs = len(plan.inputs)
        self.centring = Centring(stats.column_centre, stats.centre, kernel.intercept)
        self.effects_prior, self.effects_pull, self.constant = self.centring.prior(self.precision)
        self.outputs = len(stats.squares)
        self.axes = plan.axes(kernel)
        self.main = sum(plan.counts(kernel))
        self.size = self.main + plan.columns

    # What only a factorisation needs waits for one.

    @cached_property
    def engine(self) -> Cpu | Batched:
        """Where the work is done."""
        return self._engine() if callable(self._engine) else self._engine

    @cached_property
    def tree(self) -> Tree:
        """The symbolic phase."""
        return self.plan.tree(self.kernel)

    @cached_property
    def leaves(self) -> Leaves:
        """Tables of its leaves."""
        return Leaves(self.tree, self.axes, self.engine.move)

    @cached_property
    def need(self) -> Need:
        """Memory and disk that it takes."""
        return plan_need(self.plan, self.kernel, self.engine)

    @cached_property
    def on_disk(self) -> bool:
        """Whether factors of P are: they do not fit in memory, and all else does."""
        return self.need.spills(self.engine.limit or MEMORY.share * self.engine.memory)

    @property
    def leaf_count(self) -> int:
        """Number of leaves."""
        return len(self.tree.leaves)

    @cached_property
    def precision(self) -> Array:
        """Prior precisions of the effects' coefficients."""
        return _precisions(self.kernel, self.plan, self.stats)

    @cached_property
    def moments(self) -> Any:
        """Interleaved."""
        return self.engine.move(interleave(self.stats.moments, self.inputs))

    @cached_property
    def gram(self) -> Any:
        """G of every leaf, (leaves, s, s)."""
        leaves, plan, stats = self.leaves, self.plan, self.stats
        out = self.engine.zeros((self.leaf_count, leaves.block, leaves.block))
        step = max(1, self.engine.chunk // leaves.block**2)
        cross = None
        if plan.columns:
            cross = self.engine.move(interleave(stats.cross, self.inputs))
        powers = [p + 1 for p in plan.powers]
        tables = [[leaves.values(d, i) for d in range(self.inputs)] for i in range(len(plan.terms))]
        for start in range(0, self.leaf_count, step):
            stop = min(start + step, self.leaf_count)
            part = out[start:stop]
            leaves.gram(self.moments, start, stop, part)
            if cross is not None:
                self._add_cross(leaves.cut(cross, start, stop, powers), tables, start, stop, part)
        if plan.columns:
            out[0, -plan.columns :, -plan.columns :] += self.engine.move(stats.column_gram)
        return out

    def _add_cross(self, local: Any, tables, start: int, stop: int, out: Any) -> None:
        """Products of functions with the global columns."""
        leaves = self.leaves
        for i, term in enumerate(tables):
            value = local
            for d, table in enumerate(term):  # contracts the first axis, appends at the end
                rows = table[leaves.intervals[d][start:stop]]
                flat = value.reshape(*value.shape[:2], -1)
                value = (permute(flat, [0, 2, 1]) @ rows).reshape(
                    len(value), *value.shape[2:], rows.shape[2]
                )
            # (leaves, columns, n_1, ..., n_D)
            value = value.reshape(len(value), self.plan.columns, -1)
            a, b = leaves.offsets[i], leaves.offsets[i + 1]
            out[:, leaves.block - self.plan.columns :, a:b] += value
            out[:, a:b, leaves.block - self.plan.columns :] += permute(value, [0, 2, 1])

    @cached_property
    def right(self) -> Array:
        """``Phi' W y``, (size, outputs)."""
        out = np.zeros((self.size, self.outputs))
        first = 0
        if self.inputs:
            targets = interleave(self.stats.targets, self.inputs, leading=1)
            for axes in self.axes:
                value = along(targets, [axis.spline_matrix for axis in axes])
                last = first + value[0].size
                out[first:last] = value.reshape(self.outputs, -1).T
                first = last
        out[first:] = self.stats.column_targets.T
        return out

    def pulled(self, noise: float) -> Array:
        """The right-hand side ``Phi' W y / noise``, and the pull of centred effects' priors."""
        out = self.right / noise
        out[self.size - self.plan.effects :] -= self.effects_pull
        return out

    def column_stiffness(self, kernel: Kernel) -> Array:
        """K of the global columns, (columns, columns)."""
        blocks = [
            axis.matrix.toarray() / kernel.components[term].variance
            for axis, term in zip(self.plan.smooth_axes(kernel), self.plan.smooths, strict=True)
        ]
        if not self.plan.columns:
            return np.empty((0, 0))
        return np.asarray(block_diag(*blocks, self.effects_prior))

    def factor(self, kernel: Kernel, noise: float) -> Factor:
        """P at these hyperparameters, factored."""
        columns = self.column_stiffness(kernel)
        if not self.inputs:
            try:
                return DenseFactor(self.stats.column_gram / noise + columns)
            except NotPositiveDefinite as error:
                raise not_positive_definite(self.plan, kernel, noise, error) from error
        columns = self.engine.move(columns)
        tables = self.leaves.stiffness(self.plan.axes(kernel))
        scales = [1.0 / kernel.components[term].variance for term in self.plan.terms]

        gram = self.gram  # before there are threads

        def elements(start: int, stop: int) -> Any:
            out = gram[start:stop] / noise
            self.leaves.add_stiffness(tables, scales, start, stop, out)
            if start == 0 and len(columns):
                out[0, -len(columns) :, -len(columns) :] += columns
            return out

        try:
            return self.engine.factor(self.tree, elements, self.on_disk)
        except NotPositiveDefinite as error:
            raise not_positive_definite(self.plan, kernel, noise, error) from error

    def solve(self, factor: Factor, right: Array) -> Array:
        """``P^-1`` times right-hand sides."""
        if not self.inputs:
            return factor.solve(right)
        return self.engine.back(factor.solve(self.engine.move(right)))

    def sample(self, factor: Factor, normals: Array) -> Array:
        """Draws of the coefficients."""
        if not self.inputs:
            return factor.sample(normals)
        return self.engine.back(factor.sample(self.engine.move(normals)))

    def split(self, coefficients: Array) -> tuple[list[Array], Array]:
        """Coefficients (size, ...) as a tensor for every term, and those of the columns."""
        terms, first = [], 0
        for axes in self.axes if self.inputs else ():
            shape = tuple(axis.count for axis in axes)
            last = first + int(np.prod(shape))
            terms.append(coefficients[first:last].reshape(*shape, *coefficients.shape[1:]))
            first = last
        return terms, coefficients[first:]


def interleave(sums: Array, inputs: int, leading: int = 0) -> Array:
    """From (..., cells_1, ..., cells_D, powers_1, ..., powers_D, ...) to interleaved axes."""
    order = list(range(leading))
    shape = list(sums.shape[:leading])
    for d in range(inputs):
        order += [leading + d, leading + inputs + d]
        shape.append(sums.shape[leading + d] * sums.shape[leading + inputs + d])
    order += range(leading + 2 * inputs, sums.ndim)
    shape += sums.shape[leading + 2 * inputs :]
    return np.ascontiguousarray(sums.transpose(order)).reshape(shape)


def along(tensor: Array, matrices) -> Array:
    """Apply a (sparse) matrix along each axis after the first, (outputs, n_1, ..., n_D)."""
    for matrix in matrices:
        moved = np.moveaxis(tensor, 1, 0)
        rest = moved.shape[1:]
        flat = matrix @ moved.reshape(moved.shape[0], -1)
        # (new, outputs, others...) -> (outputs, others..., new)
        tensor = np.moveaxis(flat.reshape(-1, *rest), 0, -1)
    return tensor


def pair_sums(left: Array, right: Array, axis: Axis) -> tuple[Array, Array]:
    """Sums over a spline's cells of products of neighbours along the last axis but one.

    ``left`` and ``right`` are (functions, rest). The first cell's alone comes second.
    """
    size, cells = axis.degree + 1, axis.grid.cells
    if axis.process is None:
        return np.zeros((1, 1)), np.array([[float(np.sum(left * right))]])
    total, start = np.empty((size, size)), np.empty((size, size))
    for i in range(size):
        for j in range(size):
            total[i, j] = np.vdot(left[i : i + cells], right[j : j + cells])
            start[i, j] = np.vdot(left[i], right[j])
    return total, start


def _precisions(kernel: Kernel, plan: Plan, stats: FieldStatistics) -> Array:
    """Of the effects' coefficients: of the priors given, or of priors too wide to matter."""
    count = plan.effects
    if not count:
        return np.empty(0)
    power = mean_square(stats)
    gram = stats.column_gram[-count:, -count:] / stats.weight
    means = np.zeros(count) if kernel.intercept is None else gram[kernel.intercept]
    return prior_precisions(kernel, power, means, np.diag(gram), stats.column_centre)
