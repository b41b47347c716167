"""The structure of a model over several inputs, ready for elimination.

Everything here depends on the plan and on the kernel's components, but neither on values of
hyperparameters nor on data, so that engines with other statistics share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import JointMatern, Kernel
from asvgp.linalg.multifrontal import Tree
from asvgp.linalg.multifrontal.cpu import Workspace
from asvgp.model.devices import Cpu, Device, DeviceArray
from asvgp.model.elements import Leaves, add_rows, permute
from asvgp.model.joint import JointTables
from asvgp.model.memory import Need, plan_need
from asvgp.model.packed import PackedBlocks
from asvgp.model.plan import Plan
from asvgp.policies import MEMORY
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics

LeafBlocks = PackedBlocks | DeviceArray  # (leaves, s, s), of which slices are taken


class GridTables:
    """Symbolic elimination and tables of the leaves, made when they are first needed."""

    def __init__(
        self, kernel: Kernel, plan: Plan, device: Device | Callable[[], Device] | None = None
    ):
        self.kernel, self.plan = kernel, plan
        self._device = device or Cpu
        self.inputs = len(plan.inputs)
        self.axes = plan.axes(kernel)
        self.main = sum(plan.counts(kernel))
        self.size = self.main + plan.columns
        self.panels = Workspace()  # memory of factors, which goes with these tables

    @cached_property
    def device(self) -> Device:
        """The device on which the work is done."""
        return self._device() if callable(self._device) else self._device

    @cached_property
    def tree(self) -> Tree:
        """The symbolic elimination."""
        return self.plan.tree(self.kernel)

    @cached_property
    def main_tree(self) -> Tree:
        """The symbolic elimination of the main block alone."""
        if not self.plan.columns:
            return self.tree
        return self.plan.tree(self.kernel, columns=False)

    @cached_property
    def leaves(self) -> Leaves:
        """Tables of the leaves of the tree."""
        return Leaves(self.tree, self.axes, self.device.move)

    @cached_property
    def joint(self) -> list[dict[int, JointTables]]:
        """Tables of the joint factors of every term, by the number of the factor."""
        out = []
        for term, axes in zip(self.plan.terms, self.axes, strict=True):
            along: dict[Any, Any] = dict(zip(self.plan.inputs, axes, strict=True))
            found = {}
            for number, factor in enumerate(self.kernel.components[term].factors):
                if isinstance(factor, JointMatern):
                    own = [along[column] for column in factor.dim or ()]
                    found[number] = JointTables(own, self.device)
            out.append(found)
        return out

    def clear(self) -> None:
        """Let go of memory that is kept for the next factors."""
        self.panels.clear()
        for tables in (each for found in self.joint for each in found.values()):
            tables.panels.clear()

    @cached_property
    def need(self) -> Need:
        """Memory and disk that the model takes."""
        return plan_need(self.plan, self.kernel, self.device)

    @cached_property
    def on_disk(self) -> bool:
        """True if factors of P are on disk: they do not fit in memory, and all else does."""
        return self.need.spills(self.device.limit or MEMORY.share * self.device.memory)

    def gram(self, moments: DeviceArray, statistics: Statistics) -> LeafBlocks:
        """Return G of every leaf, (leaves, s, s), from interleaved moments."""
        leaves, plan, device = self.leaves, self.plan, self.device
        count, columns = len(self.tree.leaves), plan.columns
        cross = None
        if columns:
            cross = device.move(interleave(statistics.cross, self.inputs))
        powers = [p + 1 for p in plan.powers]

        def fill(start: int, stop: int, out: DeviceArray) -> None:
            leaves.gram(moments, start, stop, out)
            if cross is not None:
                self._add_cross(leaves.cut(cross, start, stop, powers), start, stop, out)
                if start == 0:
                    out[0, -columns:, -columns:] += device.move(statistics.column_gram)

        if isinstance(device, Cpu):
            return PackedBlocks(count, leaves.block, self._step, fill)
        out = device.zeros((count, leaves.block, leaves.block))
        for start in range(0, count, self._step):
            stop = min(start + self._step, count)
            fill(start, stop, out[start:stop])
        return out

    @property
    def _step(self) -> int:
        """Leaves to work on at a time."""
        return max(1, self.device.chunk // self.leaves.block**2)

    def _add_cross(self, local: DeviceArray, start: int, stop: int, out: DeviceArray) -> None:
        """Add the products of functions with the global columns."""
        leaves, columns = self.leaves, self.plan.columns
        for i, term in enumerate(leaves.values):
            value = leaves.apply(term, local, start, stop)  # (leaves, columns, n_1, ..., n_D)
            value = value.reshape(len(value), columns, -1)
            a, b = leaves.offsets[i], leaves.offsets[i + 1]
            out[:, leaves.block - columns :, a:b] += value
            out[:, a:b, leaves.block - columns :] += permute(value, [0, 2, 1])

    @cached_property
    def _places(self) -> DeviceArray:
        """Numbers of the functions alive on each leaf; ``size`` where there is none."""
        index = self.tree.leaf_index
        return self.device.move(np.where(index < 0, self.size, index))

    def multiply(self, blocks: LeafBlocks, values: Array) -> Array:
        """Multiply the sum of the leaves' blocks, (leaves, s, s), by values, (size, n)."""
        device, places = self.device, self._places
        padded = device.move(np.append(values, np.zeros((1, values.shape[1])), axis=0))
        if isinstance(device, Cpu):
            local = np.empty((*places.shape, values.shape[1]))
            for start in range(0, len(places), self._step):
                part = slice(start, start + self._step)
                local[part] = blocks[part] @ padded[places[part]]
            # Several times as fast as adding rows
            columns = local.reshape(-1, values.shape[1]).T
            sums = [np.bincount(places.ravel(), each, self.size + 1) for each in columns]
            return np.stack(sums, axis=1)[:-1]
        local = (blocks @ padded[places]).reshape(-1, values.shape[1])
        total = device.zeros((self.size + 1, values.shape[1]))
        add_rows(total, places.reshape(-1), local)
        return device.back(total)[:-1]

    def right(self, statistics: Statistics) -> Array:
        """Return ``Phi' W y``, (size, outputs)."""
        outputs = len(statistics.squares)
        out = np.zeros((self.size, outputs))
        first = 0
        if self.inputs:
            targets = interleave(statistics.targets, self.inputs, leading=1)
            for axes in self.axes:
                value = along(targets, [axis.spline_matrix for axis in axes])
                last = first + value[0].size
                out[first:last] = value.reshape(outputs, -1).T
                first = last
        out[first:] = statistics.column_targets.T
        return out

    def split(self, coefficients: Array) -> tuple[list[Array], Array]:
        """Split coefficients (size, ...) into one tensor per term, and those of the columns."""
        terms, first = [], 0
        for axes in self.axes if self.inputs else ():
            shape = tuple(axis.count for axis in axes)
            last = first + prod(shape)
            terms.append(coefficients[first:last].reshape(*shape, *coefficients.shape[1:]))
            first = last
        return terms, coefficients[first:]

    def by_cell(self, tensor: Array, factor: int = 1, leading: int = 0) -> Array:
        """Return an interleaved tensor as (..., cells, powers, ...); ``factor`` is 2 for squares.

        The axes of the inputs follow ``leading`` others.
        """
        cells = [grid.cells for grid in self.plan.grids]
        sizes = [factor * p + 1 for p in self.plan.powers]
        before, after = tensor.shape[:leading], tensor.shape[leading + self.inputs :]
        pairs = [n for pair in zip(cells, sizes, strict=True) for n in pair]
        split = tensor.reshape(*before, *pairs, *after)
        end = leading + len(pairs)
        order = [*range(leading, end, 2), *range(leading + 1, end, 2)]
        split = split.transpose(*range(leading), *order, *range(end, split.ndim))
        return np.ascontiguousarray(split).reshape(*before, prod(cells), prod(sizes), *after)

    def polynomials(self, terms: Sequence[Array], numbers: Sequence[int]) -> Array:
        """Return the sum of terms as a polynomial per cell, (r, cells, powers).

        ``terms`` are tensors of coefficients, (n_1, ..., n_D, r), of the terms ``numbers`` of the
        main block.
        """
        total = np.zeros(())
        for number, tensor in zip(numbers, terms, strict=True):
            matrices = [axis.spline_matrix.T for axis in self.axes[number]]
            total = total + along(np.moveaxis(tensor, -1, 0), matrices)
        return self.by_cell(total, leading=1)


def interleave(sums: Array, inputs: int, leading: int = 0) -> Array:
    """Turn (..., cells_1, ..., cells_D, powers_1, ..., powers_D, ...) into interleaved axes."""
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
