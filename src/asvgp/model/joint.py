"""K of a joint kernel over its inputs: a sum of Kronecker products, factorised on its own.

K is the sum over powers of the frequency of a coefficient, which the hyperparameters decide, times
the Kronecker product of one table per input, which they do not. It has neither a determinant nor
an inverse input by input: both come from a multifrontal elimination of K alone, on the cells of
its splines, those beyond the data included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from threading import Lock

import numpy as np
from scipy import sparse

from asvgp.basis import Array, Grid, rescaling
from asvgp.kernels import EarthMatern, JointMatern
from asvgp.linalg.cells.polynomial import bilinear
from asvgp.linalg.multifrontal import Tree
from asvgp.linalg.multifrontal.cpu import Workspace
from asvgp.model.devices import Device, DeviceArray, TreeFactor, log_det_error, probes
from asvgp.model.elements import Leaves, outer
from asvgp.model.joint_axis import JointAxis, own_tree
from asvgp.model.joint_share import missed_shares
from asvgp.model.poles import poles_of
from asvgp.policies import FIELD
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.parallel import one_blas_thread

Consumer = Callable[[int, int, DeviceArray], None]  # of the blocks of some leaves

_REFINEMENTS = 2  # of solutions, where K is stiff
_AT_A_TIME = 32  # right-hand sides


class JointTables:
    """What does not depend on hyperparameters: the elimination of K, and tables of its leaves."""

    def __init__(self, axes: Sequence[JointAxis], device: Device):
        self.axes, self.device = list(axes), device
        self.own = [axis.alone() for axis in axes]
        self.size = prod(axis.count for axis in axes)
        self._moments: DeviceArray = None  # the last ones, and G of them
        self._gram: tuple[DeviceArray, DeviceArray] | None = None
        self.panels = Workspace()  # memory of factors, which goes with these tables

    @cached_property
    def tree(self) -> Tree:
        """The symbolic elimination."""
        return own_tree(self.own)

    @cached_property
    def leaves(self) -> Leaves:
        """Tables of the leaves."""
        return Leaves(self.tree, [list(self.own)], self.device.move)

    @cached_property
    def stiffness(self) -> list[DeviceArray]:
        """Tables of K along the inputs."""
        return self.leaves.stiffness([list(self.own)])[0]

    @cached_property
    def matrices(self) -> list[list[DeviceArray]]:
        """The same tables as sparse matrices, by input and power."""
        return [[self.device.sparse(matrix) for matrix in axis.matrices] for axis in self.axes]

    def elements(self, coefficients: DeviceArray, start: int, stop: int) -> DeviceArray:
        """Return K of some leaves, (leaves, s, s)."""
        block = self.leaves.block
        out = self.device.zeros((stop - start, block, block))
        self.leaves.add_stiffness([self.stiffness], [coefficients], start, stop, out)
        return out

    @cached_property
    def widenings(self) -> list[sparse.csr_array | None]:
        """From squares on the splines' cells to the finest ones, along every input.

        None where they are the same.
        """
        return [_widening(axis) for axis in self.axes]

    def on_own_cells(self, moments: DeviceArray) -> DeviceArray:
        """Return interleaved moments of the finest cells on the splines' cells."""
        if not any(matrix is not None for matrix in self.widenings):
            return moments
        tensor = self.device.back(moments)
        for d, matrix in enumerate(self.widenings):
            tensor = tensor if matrix is None else apply_along(matrix.T, tensor, d)
        return self.device.move(np.ascontiguousarray(tensor))

    def gram(self, moments: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return moments on the splines' cells and G of the leaves; the last are kept."""
        if self._gram is None or self._moments is not moments:
            own = self.on_own_cells(moments)
            count, block = len(self.tree.leaves), self.leaves.block
            out = self.device.zeros((count, block, block))
            step = max(1, self.device.chunk // block**2)
            for start in range(0, count, step):
                stop = min(start + step, count)
                self.leaves.gram(own, start, stop, out[start:stop])
            self._moments, self._gram = moments, (own, out)
        return self._gram


class JointPrior:
    """K of a joint kernel of variance one, with the interface of an axis where there is one."""

    def __init__(self, process: JointMatern, tables: JointTables, columns: int = 0):
        self.process, self.tables = process, tables
        self.axes, self.count = tables.axes, tables.size
        spacings = [axis.grid.spacing for axis in tables.axes]
        self.coefficients, self.d_coefficients = process.stencil(spacings)
        # What splines leave out at the poles of the Earth, in at most so many columns
        on_earth = isinstance(process, EarthMatern)
        self.poles = poles_of(process, tables.axes, columns) if on_earth else None

    @cached_property
    def factor(self) -> TreeFactor:
        """K, factored."""
        tables, coefficients = self.tables, self.tables.device.move(self.coefficients)
        _ = tables.stiffness  # before there are threads
        return tables.device.factor(
            tables.tree,
            lambda start, stop: tables.elements(coefficients, start, stop),
            False,
            tables.panels,
        )

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        return self.factor.log_det

    @cached_property
    def defect(self) -> float:
        """About the error of ``log|K|``."""
        device = self.tables.device
        draws = device.back(self.factor.sample(device.move(probes(self.count))))
        draws = draws.reshape(*(axis.count for axis in self.axes), -1)
        inputs = tuple(range(len(self.axes)))
        forms = np.sum(draws * self.apply(draws, inputs), axis=inputs)
        return log_det_error(forms, self.count)

    @cached_property
    def _inverse(self) -> DeviceArray:
        """K^-1 between the functions of every leaf, (leaves, s, s)."""
        block, device = self.tables.leaves.block, self.tables.device
        out = device.zeros((len(self.tables.tree.leaves), block, block))

        def consume(start: int, stop: int, blocks: DeviceArray) -> None:
            out[start:stop] = blocks

        self.factor.selected_inverse(consume)
        return out

    def _visit(self, consume: Consumer) -> None:
        """Pass K^-1 to ``consume`` in chunks: what is at hand, or by a selected inversion.

        All of it takes more memory than anything else that training keeps of K.
        """
        if "_inverse" in self.__dict__:
            self._in_chunks(self._inverse, consume)
        else:
            self.factor.selected_inverse(consume)

    def _in_chunks(self, blocks: DeviceArray, consume: Consumer) -> None:
        """Pass blocks on all leaves to ``consume``."""
        count, step = len(blocks), max(1, self.tables.device.chunk // self.tables.leaves.block**2)
        for start in range(0, count, step):
            stop = min(start + step, count)
            consume(start, stop, blocks[start:stop])

    def _forms(self, visit: Callable[[Consumer], None]) -> Array:
        """Return blocks on all leaves times products of tables, summed."""
        tables, lock = self.tables, Lock()
        leaves, stiffness = tables.leaves, tables.stiffness
        total = tables.device.zeros(self.coefficients.shape)

        def consume(start: int, stop: int, blocks: DeviceArray) -> None:
            part = leaves.tables_form(blocks, stiffness, 0, start, stop)
            with lock:
                total[:] += part

        visit(consume)
        return tables.device.back(total)

    @cached_property
    def d_log_det(self) -> Array:
        """Derivatives of ``log|K|``."""
        return self.combined(self._forms(self._visit))

    def form(self, forms: Array) -> float:
        """Return the sum of forms of the tables that is K's."""
        return float(np.sum(self.coefficients * forms))

    def combined(self, forms: Array) -> Array:
        """Return the derivatives of `form`."""
        axes = tuple(range(1, self.d_coefficients.ndim))
        return np.sum(self.d_coefficients * forms, axis=axes)

    @cached_property
    def growth(self) -> Array:
        """Powers of the parameters, as in `combined`, that the stiffest part of K grows with.

        That part is its highest derivatives, each as stiff as it is on a single function.
        """
        largest = np.indices(self.coefficients.shape).sum(axis=0) == len(self.coefficients) - 1
        stiff = np.where(largest, 1.0, 0.0)
        for d, axis in enumerate(self.axes):
            alone = np.array([matrix.diagonal().max() for matrix in axis.matrices])
            stiff = stiff * alone.reshape([-1 if e == d else 1 for e in range(stiff.ndim)])
        return self.combined(stiff) / self.form(stiff)

    @cached_property
    def _squares(self) -> DeviceArray:
        """``phi' K^-1 phi`` on the splines' cells of the data, interleaved powers."""
        out = self._selected_squares
        if self.missed_at_most is None:
            return out
        constant = np.zeros(tuple(out.shape))
        powers = (slice(None, None, 2 * axis.degree + 1) for axis in self.tables.own)
        constant[tuple(powers)] = 1.0 - self.missed_at_most
        return self.tables.device.move(constant)

    @cached_property
    def _selected_squares(self) -> DeviceArray:
        """The same by a selected inverse, good to the digits that it has."""
        leaves, device, own = self.tables.leaves, self.tables.device, self.tables.own
        powers = [2 * axis.degree + 1 for axis in own]
        cells = zip(own, powers, strict=True)
        out = device.zeros(tuple(axis.grid.cells * size for axis, size in cells))

        def consume(start: int, stop: int, blocks: DeviceArray) -> None:
            part = leaves.polynomials(blocks, start, stop, (0, 0))
            leaves.paste(part, start, stop, powers, out)

        self._visit(consume)
        return out + device.move(self.poles.squares()) if self.poles else out

    @cached_property
    def variance_polynomials(self) -> Array:
        """``phi' K^-1 phi`` on the finest cells of the data, interleaved powers, one axis each."""
        out = self.tables.device.back(self._squares)
        for d, matrix in enumerate(self.tables.widenings):
            out = out if matrix is None else apply_along(matrix, out, d)
        return out

    def missed_shares(self) -> tuple[float, float]:
        """Return the shares of the variance that are missed at the edges of the data, and amid."""
        cells = [axis.fine.cells for axis in self.axes]
        sizes = [2 * axis.powers + 1 for axis in self.axes]
        pairs = [n for pair in zip(cells, sizes, strict=True) for n in pair]
        tensor = self.variance_polynomials.reshape(pairs)

        def mean(edge: int | None = None, upper: bool = False) -> float:
            """Return the mean over the middles of cells, of all or of those at an edge."""
            value = tensor
            for d in reversed(range(len(cells))):
                powers = (1.0 if d == edge and upper else 0.0 if d == edge else 0.5) ** np.arange(
                    sizes[d]
                )
                value = np.moveaxis(value, 2 * d + 1, -1) @ powers
                if d == edge:
                    value = value.take([-1 if upper else 0], axis=2 * d)
            return float(value.mean())

        edges = [mean(d, upper) for d in range(len(cells)) for upper in (False, True)]
        return 1.0 - min(edges), 1.0 - mean()

    def share_on_equal_cells(self) -> tuple[float, Array]:
        """Return the share of the variance that is missed amid the data, and its derivatives."""
        process, spacings = self.process, tuple(axis.grid.spacing for axis in self.axes)
        if isinstance(process, EarthMatern):  # as at the equator, where cells are widest
            process = JointMatern(nu=process.nu, lengthscale=process.lengthscale, dim=process.dim)
        return missed_shares(process, spacings, tuple(axis.degree for axis in self.axes))

    def trace(self, moments: DeviceArray, derivatives: bool = True) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` of interleaved moments over the inputs, and its derivatives."""
        tables = self.tables
        if not derivatives:
            own = tables.on_own_cells(moments)
            return float((self._squares * own).sum()), np.empty(0)
        with one_blas_thread:  # more would wait for each other on small matrices
            return self._trace(*tables.gram(moments))

    def _trace(self, own: DeviceArray, gram: DeviceArray) -> tuple[float, Array]:
        """Return the trace and its derivatives from moments on own cells, and G."""
        device = self.tables.device
        inverse, between = self.factor.selected_sandwich(gram)
        self.__dict__.setdefault("_inverse", inverse)  # found on the way
        value, slopes = (
            float((self._squares * own).sum()),
            -self.combined(self._forms(partial(self._in_chunks, between))),
        )
        if self.missed_at_most is not None:  # whatever is missed is next to nothing
            slopes = np.zeros_like(slopes)
        if self.poles:
            slopes = slopes + float((device.move(self.poles.squares(derivative=True)) * own).sum())
        return value, slopes

    # ------------------------------------------------------------ with coefficients

    def _products(
        self, tensor: DeviceArray, axes: Sequence[int], powers: tuple[int, ...] = ()
    ) -> Iterator[tuple[tuple[int, ...], DeviceArray]]:
        """Yield what `products` does, on the device."""
        done = len(powers)
        if done == len(axes):
            yield powers, tensor
            return
        for power, matrix in enumerate(self.tables.matrices[done]):
            if self.coefficients[(*powers, power)].any():
                applied = apply_along(matrix, tensor, axes[done])
                yield from self._products(applied, axes, (*powers, power))

    def products(self, tensor: Array, axes: Sequence[int]) -> Iterator[tuple[tuple, Array]]:
        """Yield every power that K has, and the tables' product applied to axes of a tensor."""
        device = self.tables.device
        for powers, value in self._products(device.move(tensor), axes):
            yield powers, device.back(value)

    def table_forms(self, left: Array, right: Array, axes: Sequence[int]) -> Array:
        """Return ``left' (product of tables) right`` of all tables along axes of tensors."""
        move, out = self.tables.device.move, np.zeros_like(self.coefficients)
        left = move(left)
        for powers, value in self._products(move(right), axes):
            out[powers] = float((left * value).sum())
        return out

    def apply(self, tensor: Array, axes: Sequence[int]) -> Array:
        """Multiply axes of a tensor by K."""
        device, out = self.tables.device, None
        for powers, value in self._products(device.move(tensor), axes):
            value = float(self.coefficients[powers]) * value
            out = value if out is None else out + value
        return device.back(out)

    def solve(self, right: Array) -> Array:
        """Return ``K^-1`` times right-hand sides, (count, n), refined where K is stiff."""
        solved = self._refined(right, _REFINEMENTS if self.stiff else 0)
        return solved + self.poles.solve(right) if self.poles else solved

    def _refined(self, right: Array, times: int) -> Array:
        """Return ``K^-1`` times right-hand sides, refined some times."""
        solved = self._solved(right)
        for _ in range(times):
            solved = solved + self._solved(right - self._applied(solved))
        return solved

    def _solved(self, right: Array) -> Array:
        """Return ``K^-1`` times right-hand sides by the factor alone."""
        device = self.tables.device
        return device.back(self.factor.solve(device.move(np.ascontiguousarray(right))))

    # ------------------------------------------------------------ where rounding decides

    @cached_property
    def stiff(self) -> bool:
        """True if the factor may have lost digits that the missed variance would take.

        The highest derivatives are stiffer than values by about the ratio of their coefficients.
        On the Earth, where these are of other tables, cells are hardly ever so small.
        """
        if isinstance(self.process, EarthMatern):
            return False
        ratio = float(np.abs(self.coefficients).max() / self.coefficients.flat[0])
        return ratio * float(np.finfo(float).eps) > FIELD.joint_stiff

    def _applied(self, values: Array) -> Array:
        """Multiply values, (count, n), by K, whose functions are differentiated first."""
        shape = *(axis.count for axis in self.axes), values.shape[1]
        out = np.zeros(shape)
        for powers, value in self._differentiated(values.reshape(shape)):
            out += self.coefficients[powers] * value
        return out.reshape(values.shape)

    def _differentiated(
        self, tensor: Array, powers: tuple[int, ...] = ()
    ) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Yield what `products` does, by derivatives in place of tables."""
        done = len(powers)
        if done == len(self.axes):
            yield powers, tensor
            return
        derivatives, turned = self.axes[done].derivatives, self.process.rotation is not None
        for number in range(self.coefficients.shape[done]):
            if not self.coefficients[(*powers, number)].any():
                continue
            power = number if turned else 2 * number
            high, low = derivatives[(power + 1) // 2], derivatives[power // 2]
            value = apply_along(high.T, apply_along(low, tensor, done), done)
            if power % 2:
                value = 0.5 * (value - apply_along(low.T, apply_along(high, tensor, done), done))
            yield from self._differentiated(value, (*powers, number))

    def _captured_by_solutions(self, rows: Sequence[tuple[np.ndarray, Array]]) -> Array:
        """Return `captured` of rows by a solution each: never too much, and too little by squares.

        That is, by squares of the errors of refined solutions u: ``2 phi' u - u' K u`` is largest
        where u is the solution.
        """
        parts = [
            (axis.numbers[first], weights)
            for axis, (first, weights) in zip(self.axes, rows, strict=True)
        ]
        index, weights = outer(parts, [axis.count for axis in self.axes])
        out = np.empty(len(index))
        for start in range(0, len(out), _AT_A_TIME):
            chunk = slice(start, start + _AT_A_TIME)
            right = np.zeros((self.count, len(index[chunk])))
            right[index[chunk], np.arange(right.shape[1])[:, None]] = weights[chunk]
            solved = self._refined(right, 1)  # the rest is done by squares
            out[chunk] = np.sum(solved * (2.0 * right - self._applied(solved)), axis=0)
        return np.maximum(out, 0.0)

    @cached_property
    def missed_at_most(self) -> float | None:
        """The largest share of the variance that is missed at some points of the domain.

        None, but where K is so stiff that the selected inverse does not tell what is missed: there
        it is next to nothing anywhere in the domain.
        """
        if not self.stiff:
            return None
        x = points_of_domain([axis.grid for axis in self.axes], FIELD.measuring_points)
        missed = 1.0 - self._captured_by_solutions(
            [axis.rows(x[:, d]) for d, axis in enumerate(self.axes)]
        )
        selected = self._evaluated(self.tables.device.back(self._selected_squares), x)
        most, error = float(missed.max()), float(np.abs(1.0 - selected - missed).max())
        return float(np.clip(most, 0.0, 1.0)) if error > FIELD.known_share * most else None

    def _evaluated(self, squares: Array, x: Array) -> Array:
        """Return polynomials on the splines' cells, interleaved powers, at points, (n,)."""
        degrees = [2 * axis.degree for axis in self.tables.own]
        cells, s = zip(*(a.grid.locate(x[:, d]) for d, a in enumerate(self.axes)), strict=True)
        parts = [
            (cell[:, None] * (p + 1) + np.arange(p + 1), place[:, None] ** np.arange(p + 1))
            for cell, place, p in zip(cells, s, degrees, strict=True)
        ]
        index, weights = outer(parts, squares.shape)
        return np.sum(squares.ravel()[index] * weights, axis=1)

    def captured(
        self, rows: Sequence[tuple[np.ndarray, Array]], amid: np.ndarray | None = None
    ) -> Array:
        """Return ``phi' K^-1 phi`` of products of rows, (n,).

        Along every input a row is a cell of the splines, and weights on the functions there.
        Where rounding decides, a row takes a solution; none if it is a value ``amid`` the domain.
        """
        if self.missed_at_most is not None:
            out = np.full(len(rows[0][0]), 1.0 - self.missed_at_most)
            rest = np.full(len(out), True) if amid is None else ~amid
            out[rest] = self._captured_by_solutions([(a[rest], w[rest]) for a, w in rows])
            return out
        tree, shapes = self.tables.tree, self.tables.leaves.shapes[0]
        parts, intervals = [], []
        for d, (first, factors) in enumerate(rows):
            interval = np.searchsorted(tree.leaf_intervals[d], first, "right") - 1
            place = (first - tree.leaf_ranges[0][d].first[interval])[:, None]
            parts.append((place + np.arange(factors.shape[1]), factors))
            intervals.append(interval)
        index, weights = map(np.ascontiguousarray, outer(parts, shapes))
        out, leaf = np.empty(len(index)), tree.leaf_numbers[tuple(intervals)]
        bilinear(self._host_inverse, leaf, index, weights, index, weights, out)
        return out + self.poles.captured(rows) if self.poles else out

    @cached_property
    def _host_inverse(self) -> Array:
        return np.ascontiguousarray(self.tables.device.back(self._inverse))


def points_of_domain(grids: Sequence[Grid], count: int) -> Array:
    """Return the corners of a domain and so many points inside it, the same ones every time."""
    inputs = len(grids)
    corners = np.indices((2,) * inputs).reshape(inputs, -1).T
    inner = np.random.default_rng(0).uniform(size=(count, inputs))
    low, high = (np.array(ends) for ends in zip(*((g.lower, g.upper) for g in grids), strict=True))
    return low + (high - low) * np.concatenate([corners, inner])


def apply_along(matrix: DeviceArray, tensor: DeviceArray, axis: int) -> DeviceArray:
    """Multiply one axis of a tensor by a sparse matrix, both of one device."""
    moved = tensor.swapaxes(axis, 0)
    out = matrix @ moved.reshape(moved.shape[0], -1)
    return out.reshape(-1, *moved.shape[1:]).swapaxes(0, axis)


def _widening(axis: JointAxis) -> sparse.csr_array | None:
    """Return the map from squares on the splines' cells to the finest ones, along an input."""
    small, large = 2 * axis.degree + 1, 2 * axis.powers + 1
    if axis.level == 0 and small == large:
        return None
    width, cells = 2**axis.level, np.arange(axis.fine.cells)
    maps = np.stack([rescaling(2 * axis.degree, i, width).T for i in range(width)])
    rows = cells[:, None, None] * large + np.arange(small)[:, None]
    columns = (cells >> axis.level)[:, None, None] * small + np.arange(small)
    values = maps[cells % width]
    where = tuple(np.broadcast_to(each, values.shape).ravel() for each in (rows, columns))
    shape = axis.fine.cells * large, axis.grid.cells * small
    return sparse.coo_array((values.ravel(), where), shape=shape).tocsr()
