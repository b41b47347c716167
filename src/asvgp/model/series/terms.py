"""One component of a series at given hyperparameters: its functions and its K.

A component is a *trend* (functions along the line: B-splines, or those of an oscillator), a
*season* (cyclic splines, which are global columns), or a *drift*, the product of both.
"""

from __future__ import annotations

from math import lcm, log

import numpy as np

from asvgp.basis import Array, Grid, pair_columns
from asvgp.kernels import Component, Kernel, Periodic
from asvgp.linalg.cells import elements as loops
from asvgp.linalg.multifrontal import Space
from asvgp.model.axis import Axis
from asvgp.model.circle import CircleAxis, parts_of_cells
from asvgp.model.grid_prior import TermForms
from asvgp.model.moments import CellMoments
from asvgp.model.series.plan import Part, SeriesPlan
from asvgp.model.series.wave import WaveAxis
from asvgp.runtime.lazy import cached_property


class SplineAxis(Axis):
    """B-splines along the line, with the same interface as `WaveAxis`."""

    def __init__(self, process: Component, grid: Grid, degree: int, level: int):
        super().__init__(process, grid, degree, level, degree)

    @property
    def parts(self) -> Array:
        """The functions in powers of s of each finest cell, (2**level, degree + 1, degree + 1)."""
        return parts_of_cells(self.degree, 2**self.level)

    @property
    def inner(self) -> np.ndarray:
        """True for functions that are alive on one cell: none of them."""
        return np.zeros(self.count, dtype=bool)

    @property
    def element(self) -> Array:
        """K of the functions of a cell, without what the first state adds."""
        return self.blocks[0]

    @property
    def boundary(self) -> Array:
        """What the prior of the first state adds to the element of the first cell."""
        return self.blocks[1]

    def trace(self, moments: CellMoments) -> tuple[float, Array]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return ``tr(K^-1 G)`` of moments on the finest cells, and its derivatives."""
        sums = moments.cumulative(self.level, 2 * self.degree + 1)
        trace, d_trace = self.prior.trace(pair_columns(self.degree)[0], sums)
        return trace, d_trace[:-1]


Line = SplineAxis | WaveAxis


def _spaces(axis: Line) -> tuple[Space, ...]:
    """Return the functions along a line as the elimination sees them."""
    if isinstance(axis, WaveAxis):
        knots = (Space((1,), (axis.level,)),) * axis.states
        return knots + (Space((0,), (axis.level,)),) * axis.bubbles
    return (Space((axis.degree,), (axis.level,)),)


def _variances(axis: Line) -> Array:
    return axis.variance_polynomials.reshape(axis.fine.cells, -1)


class Trend:
    """A component along the line. ``K`` is that of its axis over the variance."""

    columns = 0

    def __init__(self, axis: Line, variance: float):
        self.axis, self.variance, self.size = axis, variance, axis.count

    @property
    def inner(self) -> np.ndarray:
        """True for functions that are alive on one cell of their own, (size,)."""
        return self.axis.inner

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Its functions as the elimination sees them."""
        return _spaces(self.axis)

    @property
    def table(self) -> Array:
        """Polynomials of the functions alive on finest cells, (patterns, alive, powers)."""
        return self.axis.parts

    def numbers(self, cells: np.ndarray) -> np.ndarray:
        """Return the numbers of the functions alive on finest cells, (cells, alive)."""
        return self.axis.numbers[cells >> self.axis.level]

    @property
    def element_numbers(self) -> np.ndarray:
        """Numbers of the functions of each cell of its own."""
        return self.axis.numbers

    @property
    def level(self) -> int:
        """Cells of its own are ``2**level`` finest ones wide."""
        return self.axis.level

    @property
    def elements(self) -> tuple[Array, Array]:
        """K on each cell of its own, and what is added on the first."""
        return self.axis.element / self.variance, self.axis.boundary / self.variance

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        return self.axis.log_det - self.size * log(self.variance)

    def forms(self, total: Array, start: Array, mean: tuple[Array, Array], outputs: int):
        """Return the forms of K with P^-1 and the mean, both summed over cells and at the start."""
        axis, scale = self.axis, 1.0 / self.variance
        mean_total, mean_start = mean
        trace = scale * axis.form(total, start)
        energy = scale * axis.form(mean_total, mean_start)
        form = axis.d_form(outputs * total + mean_total, outputs * start + mean_start)
        slopes = 0.5 * (outputs * axis.d_log_det - scale * form)
        last = 0.5 * (outputs * (trace - self.size) + energy)
        return TermForms(trace, energy, np.append(slopes, last))

    def missed(self, moments: CellMoments, weight: float) -> tuple[float, Array]:
        """Return the prior variance that the functions miss at the data, and its derivatives."""
        trace, d_trace = self.axis.trace(moments)
        missed = self.variance * max(weight - trace, 0.0)
        return missed, np.append(-self.variance * d_trace, missed)

    def captured(self, cells: np.ndarray) -> Array:
        """Return ``phi' K^-1 phi`` on finest cells in powers of s."""
        return self.variance * _variances(self.axis)[cells]


class Season:
    """A periodic component, whose functions are global columns."""

    spaces: tuple[Space, ...] = ()

    def __init__(self, circle: CircleAxis, variance: float):
        self.circle, self.variance, self.size = circle, variance, circle.count
        self.columns = circle.count
        self.inner = np.zeros(self.size, dtype=bool)  # True for functions of one cell

    @property
    def table(self) -> Array:
        """Polynomials of the functions alive on finest cells, (patterns, alive, powers)."""
        return self.circle.parts

    def numbers(self, cells: np.ndarray) -> np.ndarray:
        """Return the numbers of the functions alive on finest cells, (cells, alive)."""
        return self.circle.numbers[(cells // self.circle.width) % self.circle.count]

    @property
    def matrix(self) -> Array:
        """K, (columns, columns)."""
        return self.circle.matrix / self.variance

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        return self.circle.log_det - self.size * log(self.variance)

    def forms(self, inverse: Array, mean: Array, outputs: int) -> TermForms:
        """Return the forms of K with P^-1 of its columns and with the mean, (columns, outputs)."""
        circle, scale = self.circle, 1.0 / self.variance
        outer = mean @ mean.T
        trace = scale * float(np.sum(circle.matrix * inverse))
        energy = scale * float(np.sum(circle.matrix * outer))
        form = np.sum(circle.d_matrix * (outputs * inverse + outer), axis=(1, 2))
        slopes = 0.5 * (outputs * circle.d_log_det - scale * form)
        last = 0.5 * (outputs * (trace - self.size) + energy)
        return TermForms(trace, energy, np.append(slopes, last))

    def missed(self, moments: CellMoments, weight: float) -> tuple[float, Array]:
        """Return the prior variance that the functions miss at the data, and its derivatives."""
        trace, d_trace = self.circle.trace(moments)
        missed = self.variance * max(weight - trace, 0.0)
        return missed, np.append(-self.variance * d_trace, missed)

    def captured(self, cells: np.ndarray) -> Array:
        """Return ``phi' K^-1 phi`` on finest cells in powers of s."""
        return self.variance * self.circle.variance_polynomials[cells % self.circle.width]


class Drift:
    """A season that changes slowly: products of functions along the line and around the circle.

    Function (i, a) of the product has the number ``a * axis.count + i``.
    """

    columns = 0

    def __init__(self, axis: Line, circle: CircleAxis, variance: float, phase_first: bool):
        self.axis, self.circle, self.variance = axis, circle, variance
        self.phase_first = phase_first  # among the hyperparameters
        self.size = axis.count * circle.count

    @property
    def inner(self) -> np.ndarray:
        """True for functions that are alive on one cell along the line, (size,)."""
        return np.tile(self.axis.inner, self.circle.count)

    @property
    def level(self) -> int:
        """Cells of its own are ``2**level`` finest ones wide."""
        return self.axis.level

    @property
    def alive(self) -> int:
        """Number of functions that some part of a cell of its own couples, all phases of them."""
        return self.axis.numbers.shape[1] * self.circle.count

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Its functions as the elimination sees them: the line's, once for each phase."""
        return _spaces(self.axis) * self.circle.count

    @cached_property
    def table(self) -> Array:
        """Polynomials of the functions alive on finest cells, (patterns, alive, powers)."""
        along, around = self.axis.parts, self.circle.parts
        # They repeat, unless that would take more cells than there are.
        there = len(self.axis.numbers) << self.axis.level
        cells = np.arange(min(lcm(len(along), len(around)), there))
        return convolve(
            along[cells % len(along)][:, None, :, :], around[cells % len(around)][:, :, None, :]
        ).reshape(len(cells), -1, along.shape[2] + around.shape[2] - 1)

    def numbers(self, cells: np.ndarray) -> np.ndarray:
        """Return the numbers of the functions alive on finest cells, (cells, alive)."""
        along = self.axis.numbers[cells >> self.axis.level]
        around = self.circle.numbers[(cells // self.circle.width) % self.circle.count]
        pairs = around[:, :, None] * self.axis.count + along[:, None, :]
        return pairs.reshape(len(cells), -1)

    @property
    def element_numbers(self) -> np.ndarray:
        """Numbers of the functions of each cell of its own, all phases of each function."""
        phases = np.arange(self.circle.count) * self.axis.count
        numbers = self.axis.numbers[:, :, None] + phases
        return numbers.reshape(len(numbers), -1)

    @property
    def elements(self) -> tuple[Array, Array]:
        """K on each cell of its own, and what is added on the first."""
        around = self.circle.matrix / self.variance
        return np.kron(self.axis.element, around), np.kron(self.axis.boundary, around)

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        along = self.circle.count * self.axis.log_det
        return along + self.axis.count * self.circle.log_det - self.size * log(self.variance)

    def _split(self, table: Array) -> Array:
        size = self.axis.element.shape[0]
        return table.reshape(size, self.circle.count, size, self.circle.count)

    def forms(self, total: Array, start: Array, mean: tuple[Array, Array], outputs: int):
        """Return the forms of K with P^-1 and the mean, both summed over cells and at the start."""
        axis, circle, scale = self.axis, self.circle, 1.0 / self.variance
        inverse, means = (total, start), mean
        along, around = [], []
        for cells, first in (inverse, means):
            cells, first = self._split(cells), self._split(first)
            along.append([np.einsum("iajb,ab->ij", t, circle.matrix) for t in (cells, first)])
            around.append(
                np.einsum("iajb,ij->ab", cells, axis.element)
                + np.einsum("iajb,ij->ab", first, axis.boundary)
            )
        trace, energy = (scale * axis.form(*pair) for pair in along)
        both = [outputs * a + b for a, b in zip(*along, strict=True)]
        slopes = 0.5 * (outputs * circle.count * axis.d_log_det - scale * axis.d_form(*both))
        form = np.sum(circle.d_matrix * (outputs * around[0] + around[1]), axis=(1, 2))
        phase = 0.5 * (outputs * axis.count * circle.d_log_det - scale * form)
        last = 0.5 * (outputs * (trace - self.size) + energy)
        return TermForms(trace, energy, self._gradient(slopes, phase, last))

    def _gradient(self, slopes: Array, phase: Array, last: float) -> Array:
        pair = (phase, slopes) if self.phase_first else (slopes, phase)
        return np.concatenate([*pair, [last]])

    def missed(self, moments: CellMoments, weight: float) -> tuple[float, Array]:
        """Return the prior variance that the functions miss at the data, and its derivatives."""
        axis, circle = self.axis, self.circle
        finest = moments.finest
        around = CellMoments(contract(finest, circle.variance_polynomials))
        trace, slopes = axis.trace(around)
        _, phase = circle.trace(CellMoments(contract(finest, _variances(axis))))
        missed = self.variance * max(weight - trace, 0.0)
        return missed, self._gradient(-self.variance * slopes, -self.variance * phase, missed)

    def captured(self, cells: np.ndarray) -> Array:
        """Return ``phi' K^-1 phi`` on finest cells in powers of s."""
        around = self.circle.variance_polynomials[cells % self.circle.width]
        return self.variance * convolve(_variances(self.axis)[cells], around)


Term = Trend | Season | Drift


def convolve(left: Array, right: Array) -> Array:
    """Return products of polynomials, whose powers run along the last axis."""
    shape = np.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    out = np.zeros((*shape, left.shape[-1] + right.shape[-1] - 1))
    for i in range(left.shape[-1]):
        out[..., i : i + right.shape[-1]] += left[..., i, None] * right
    return out


def contract(moments: Array, polynomials: Array) -> Array:
    """Return moments weighted with a polynomial per cell, as far as the powers reach.

    Where there are fewer polynomials than cells, they repeat.
    """
    out = np.empty((len(moments), moments.shape[1] - polynomials.shape[1] + 1))
    loops.contract_powers(moments, np.ascontiguousarray(polynomials), out)
    return out


def terms_of(kernel: Kernel, plan: SeriesPlan) -> list[Term]:
    """Return the components of a kernel with the functions of a plan."""
    pairs = zip(kernel.components, plan.parts, strict=True)
    return [_term(component, part, plan.grid) for component, part in pairs]


def _term(component, part: Part, grid: Grid) -> Term:
    circle = axis = None
    phase_first = False
    for number, factor in enumerate(component.factors):
        if isinstance(factor, Periodic):
            assert part.around is not None
            phase_first = number == 0
            circle = CircleAxis(
                factor, grid, part.around.degree, part.around.count, part.around.width
            )
        else:
            assert part.along is not None
            kind = WaveAxis if part.along.wave else SplineAxis
            axis = kind(factor, grid, part.along.degree, part.along.level)
    if axis is None:
        assert circle is not None
        return Season(circle, component.variance)
    if circle is None:
        return Trend(axis, component.variance)
    return Drift(axis, circle, component.variance, phase_first)
