"""K over several inputs, one object per component.

A component of the main block is a product times 1 / variance of *units*: processes over one input,
or joint kernels over several. Everything about its K alone is done unit by unit. A smooth has one
input, and its functions are global columns. What the rest of the model asks of either is in the
methods below: a component whose K is of another kind needs a class with the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log, prod
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from asvgp.basis import Array
from asvgp.kernels import Component, JointMatern, Kernel, Product
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.axis import Axis
from asvgp.model.devices import Device, DeviceArray
from asvgp.model.elements import permute
from asvgp.model.grid_tables import GridTables
from asvgp.model.joint import JointPrior, apply_along
from asvgp.model.joint_axis import JointAxis
from asvgp.model.plan import Plan
from asvgp.model.pole_factor import PoleForms
from asvgp.model.poles import Poles
from asvgp.policies import FIELD
from asvgp.runtime.lazy import cached_property

Window = tuple[Array, Array]  # a form summed over the cells of a spline, and at its first cell


class TermForms(NamedTuple):
    """Forms of one component with P^-1 and with the mean."""

    trace: float  # tr(P^-1 K)
    energy: float  # alpha' K alpha, summed over outputs
    gradient: Array  # of the fit, with respect to the logarithms of the component's parameters
    defect: float = 0.0  # of the trace, where it is known otherwise than by summing P^-1 against K


class ComponentPrior:
    """K of a component: a Kronecker product of K along the axes, over its variance.

    The factors are its *units*, each over one input or jointly over several, in the order of the
    kernel's parameters; ``places`` are their inputs.
    """

    def __init__(
        self,
        axes: list[Axis],
        variance: float,
        units: Sequence[Axis | JointPrior] | None = None,
        places: Sequence[tuple[int, ...]] | None = None,
    ):
        self.axes, self.variance = axes, variance
        self.units = list(axes) if units is None else list(units)
        self.places = [(d,) for d in range(len(axes))] if places is None else list(places)
        self.size = prod(axis.count for axis in axes)

    @property
    def joint(self) -> bool:
        """True if some unit is joint over several inputs."""
        return any(isinstance(unit, JointPrior) for unit in self.units)

    @cached_property
    def coefficients(self) -> Array:
        """Factors of products of tables of K at variance one, with an axis per input."""
        return self._coefficients(range(len(self.units)))

    def _coefficients(self, numbers: Iterable[int]) -> Array:
        """Return the coefficients of some units; there is one along the inputs of others."""
        out = np.ones((1,) * len(self.axes))
        for number in numbers:
            unit, places = self.units[number], self.places[number]
            if isinstance(unit, JointPrior):
                shape = [1] * len(self.axes)
                for d, size in zip(places, unit.coefficients.shape, strict=True):
                    shape[d] = size
                out = out * unit.coefficients.transpose(np.argsort(places)).reshape(shape)
        return out

    @property
    def log_det(self) -> float:
        """``log|K|``."""
        along = sum(self.size / unit.count * unit.log_det for unit in self.units)
        return along - self.size * log(self.variance)

    @property
    def defect(self) -> float:
        """About the error of ``log|K|`` of joint units, which are eliminated as P is."""
        joint = (unit for unit in self.units if isinstance(unit, JointPrior))
        return sum(self.size / unit.count * unit.defect for unit in joint)

    def apply(self, mean: Array) -> tuple[Array, Array]:
        """Return K times coefficients (n_1, ..., n_D, outputs), and ``mean' K mean`` by output.

        By square roots along inputs, so that K makes of smooth functions what it should. K of a
        joint unit has no square roots: its tables are applied, which loses digits as K does.
        """
        rooted = self._rooted(mean)
        applied = self._by_joint(rooted)
        energy = np.sum(rooted * applied, axis=tuple(range(rooted.ndim - 1))) / self.variance
        for unit, (d, *_) in zip(self.units, self.places, strict=True):
            if not isinstance(unit, JointPrior):
                applied = apply_along(unit.root.T, applied, d)
        return applied / self.variance, energy

    def _rooted(self, mean: Array, but: int | None = None) -> Array:
        """Multiply coefficients by square roots of K of units that have them, but for one."""
        for number, (unit, (d, *_)) in enumerate(zip(self.units, self.places, strict=True)):
            if number != but and not isinstance(unit, JointPrior):
                mean = apply_along(unit.root, mean, d)
        return mean

    def _by_joint(self, values: Array, but: int | None = None) -> Array:
        """Multiply values by K of the joint units, but for one."""
        for number, (unit, places) in enumerate(zip(self.units, self.places, strict=True)):
            if number != but and isinstance(unit, JointPrior):
                values = unit.apply(values, places)
        return values

    @property
    def poles(self) -> Poles | None:
        """What splines leave out at the poles of the Earth, if that is something."""
        found = (unit.poles for unit in self.units if isinstance(unit, JointPrior))
        return next((poles for poles in found if poles is not None), None)

    @property
    def _beside(self) -> list[int]:
        """The inputs that the kernel on the sphere is not over."""
        pairs = zip(self.units, self.places, strict=True)
        return [d for unit, (d, *_) in pairs if not isinstance(unit, JointPrior)]

    def pole_columns(self, values: Array) -> Array:
        """Return functions of the sphere's inputs, (n, columns), times those of all others.

        These are scaled so that their coefficients are independent, of variance one each.
        """
        beside = self._beside
        (places,) = (p for p in self.places if len(p) > 1)
        tensor = values.reshape(*(self.axes[d].count for d in places), -1)
        order = [*places, len(self.axes)]
        for place, d in enumerate(beside):
            tensor = np.multiply.outer(tensor, self.axes[d].inverse_root)
            order += [d, len(self.axes) + 1 + place]
        return self.variance**0.5 * tensor.transpose(np.argsort(order)).reshape(self.size, -1)

    def _d_beside(self, unit: Axis, d: int, more: PoleForms, outputs: int) -> Array:
        """Return what poles add to derivatives of forms by parameters of another input."""
        beside = self._beside
        values = np.append(outputs**0.5 * more.spread, more.mean, axis=1)
        tensor = values.reshape(-1, *(self.axes[e].count for e in beside), values.shape[1])
        own = np.moveaxis(tensor, 1 + beside.index(d), 0).reshape(unit.count, -1)
        own = unit.inverse_root @ own
        return self.variance * unit.energies(own, own)[1]

    def forms(
        self,
        mean: Array,
        inverse: Sequence[Window | None],
        tables: Array,
        outputs: int,
        freedom: float,
        more: PoleForms | None = None,
    ) -> TermForms:
        """Return the forms of K with P^-1 and with the mean.

        ``mean`` is (n_1, ..., n_D, outputs). ``inverse`` is P^-1 against K of all inputs but one,
        for that one each; ``tables`` is P^-1 against products of the tables of joint units.
        ``freedom`` is the trace of P^-1 G over the noise, which leaves the number of functions
        less that for the trace of P^-1 K: a sum of P^-1 against K has fewer digits, and so have
        sums against derivatives of K. What is wrong with the former is wrong with the part of the
        latter that is proportional to it. Of a term with ``more`` at the poles, mean and P^-1 are
        those of the splines alone; ``freedom`` is of all.
        """
        scale, trace = 1.0 / self.variance, self.size - freedom
        energy = defect = 0.0
        slopes = []
        for number, (unit, places) in enumerate(zip(self.units, self.places, strict=True)):
            count = self.size / unit.count
            rooted = self._rooted(mean, number)
            applied = self._by_joint(rooted, number)
            if isinstance(unit, JointPrior):
                of_inverse = self._of_unit(tables, number)
                of_mean = unit.table_forms(rooted, applied, places)
                own, d_own = unit.form(of_inverse), unit.combined(of_inverse)
                along, d_along = unit.form(of_mean), unit.combined(of_mean)
                if more is not None:
                    d_own = d_own + self.variance * more.d_trace
                    d_along = d_along + self.variance * more.d_energy
            else:
                (d,) = places
                window = inverse[d]
                assert window is not None
                own, d_own = unit.form(*window), np.empty(0)
                if unit.process is not None:
                    d_own = unit.d_form(*window)
                left = right = np.moveaxis(rooted, d, 0).reshape(unit.count, -1)
                if applied is not rooted:
                    right = np.moveaxis(applied, d, 0).reshape(unit.count, -1)
                along, d_along = unit.energies(left, right)
                if more is not None and unit.process is not None:
                    d_along = d_along + self._d_beside(unit, d, more, outputs)
                    count += len(more.mean) / unit.count
            if more is not None:
                own = own - self.variance * more.freedom
                along = along + self.variance * more.energy
            wrong = own - trace * self.variance
            if number == 0:
                energy, defect = scale * along, scale * wrong
            if unit.process is not None:
                form = outputs * (d_own - wrong * unit.growth) + d_along
                slopes.append(0.5 * (outputs * count * unit.d_log_det - scale * form))
        slopes.append(np.array([0.5 * (outputs * (trace - self.size) + energy)]))
        return TermForms(trace, energy, np.concatenate(slopes), defect)

    def _of_unit(self, tables: Array, number: int) -> Array:
        """Return forms of the tables of one joint unit, those of others being combined."""
        others = self._coefficients(n for n in range(len(self.units)) if n != number)
        places = self.places[number]
        rest = tuple(d for d in range(len(self.axes)) if d not in places)
        return (tables * others).sum(axis=rest).transpose(np.argsort(np.argsort(places)))


class TermPrior(ComponentPrior):
    """K of a component of the main block, with one axis per input of the block."""

    def missed(
        self, moments: DeviceArray, device: Device, weight: float, derivatives: bool = True
    ) -> tuple[float, Array]:
        """Return the prior variance that the splines miss at the data, and its derivatives.

        ``moments`` are interleaved; ``weight`` is the sum of the weights.
        """
        # tr(K^-1 G) of variance one is a sum of moments times products of polynomials.
        if derivatives:  # of a joint unit: before its inverse is found without them
            traces = [self._trace(moments, device, number, True) for number in self._joint_first]
        else:
            traces = [self._trace(moments, device, self._joint_first[0], False)]
        missed = self.variance * max(weight - traces[0][0], 0.0)
        if not derivatives:
            return missed, np.empty(0)
        by_unit = dict(zip(self._joint_first, traces, strict=True))
        slopes = [-self.variance * by_unit[number][1] for number in range(len(self.units))]
        return missed, np.concatenate([*slopes, [missed]])

    def about_missed(self, marginals: Sequence[Array], weight: float) -> Array:
        """Return derivatives of about the missed variance, from the units one by one.

        Joint ones miss as much as on equal cells everywhere; ``marginals`` are the moments along
        every input.
        """
        kept, slopes = [], []
        for unit, places in zip(self.units, self.places, strict=True):
            if isinstance(unit, JointPrior):
                missed, slope = unit.share_on_equal_cells()
                kept.append(1.0 - missed)
                slopes.append(-slope)
            else:
                trace, slope = unit.trace(marginals[places[0]])
                kept.append(trace / weight)
                slopes.append(slope / weight)
        whole, scale = prod(kept), self.variance * weight
        parts = [-scale * whole / own * slope for own, slope in zip(kept, slopes, strict=True)]
        return np.concatenate([*parts, [scale * max(1.0 - whole, 0.0)]])

    @property
    def _joint_first(self) -> list[int]:
        return sorted(
            range(len(self.units)), key=lambda n: not isinstance(self.units[n], JointPrior)
        )

    def _trace(
        self, moments: DeviceArray, device: Device, number: int, derivatives: bool
    ) -> tuple[float, Array]:
        """Return ``tr(K^-1 G)`` at variance one, and its derivatives by a unit's parameters."""
        along, left = moments, list(range(len(self.axes)))
        for other, (unit, places) in enumerate(zip(self.units, self.places, strict=True)):
            if other == number:
                continue
            rest = [d for d in left if d not in places]
            order = [left.index(d) for d in (*rest, *places)]
            polynomial = device.move(np.ascontiguousarray(unit.variance_polynomials).ravel())
            moved = permute(along, order)
            along = moved.reshape(*moved.shape[: len(rest)], -1) @ polynomial
            left = rest
        unit, places = self.units[number], self.places[number]
        if not isinstance(unit, JointPrior):
            return unit.trace(device.back(along))
        order = [left.index(d) for d in places]
        return unit.trace(along if order == sorted(order) else permute(along, order), derivatives)


class SmoothPrior(ComponentPrior):
    """K of a component over an input of its own, whose functions are global columns."""

    @property
    def axis(self) -> Axis:
        """The splines along the input."""
        return self.axes[0]

    @property
    def matrix(self) -> Array:
        """K as a dense matrix."""
        return self.axis.matrix.toarray() / self.variance

    def missed(self, gram: Array, weight: float) -> tuple[float, Array]:
        """Return the variance that the splines miss, from G of the smooth, and derivatives."""
        trace, d_trace = self.axis.banded_trace(gram)
        missed = self.variance * max(weight - trace, 0.0)
        return missed, np.append(-self.variance * d_trace, missed)

    def windows(self, matrix: Array) -> Window:
        """Return the sum of a dense matrix's blocks over the cells, and the first block."""
        size, cells = self.axis.degree + 1, self.axis.grid.cells
        matrix = self.axis.unfolded(self.axis.unfolded(matrix).T)
        total = np.empty((size, size))
        for i in range(size):
            for j in range(size):
                total[i, j] = np.diagonal(matrix[i : i + cells, j : j + cells]).sum()
        return total, matrix[:size, :size]


class GridPrior:
    """K at some hyperparameters: the terms of the main block, and the smooths."""

    def __init__(self, plan: Plan, kernel: Kernel, tables: GridTables):
        self.plan, self.kernel = plan, kernel
        components = kernel.components
        self.terms = [
            _term(axes, components[term], plan.inputs, tables, number)
            for number, (axes, term) in enumerate(zip(plan.axes(kernel), plan.terms, strict=True))
        ]
        self.smooths = [
            SmoothPrior([axis], components[number].variance)
            for axis, number in zip(plan.smooth_axes(kernel), plan.smooths, strict=True)
        ]

    @property
    def log_det(self) -> float:
        """``log|K|`` of all components; effects are not included."""
        return sum(part.log_det for part in (*self.terms, *self.smooths))

    @cached_property
    def at_poles(self) -> tuple[Array, Array, list[slice]] | None:
        """A of all terms and its derivative, and the columns of every term; None without poles.

        Derivatives are by the logarithm of the term's lengthscale.
        """
        blocks = [[np.zeros((term.size, 0))] * 2 for term in self.terms]
        for number, term in enumerate(self.terms):
            if term.poles is not None:
                blocks[number] = [term.pole_columns(own) for own in term.poles.coefficients]
        edges = np.cumsum([0, *(own.shape[1] for own, _ in blocks)]).tolist()
        if not edges[-1]:
            return None
        below = np.zeros((self.plan.columns, 0))
        A, d_A = (np.asarray(block_diag(*each, below)) for each in zip(*blocks, strict=True))
        return A, d_A, [slice(*ends) for ends in pairwise(edges)]

    @property
    def defect(self) -> float:
        """About the error of `log_det`; a K that cannot be eliminated is its term's failure."""
        first, total = 0, 0.0
        for term in self.terms:
            try:
                total += term.defect
            except NotPositiveDefinite as error:
                raise NotPositiveDefinite(error.level, error.box, error.pivots, first) from error
            first += term.size
        return total

    @property
    def axes(self) -> list[list[Axis]]:
        """Axes of the terms of the main block."""
        return [term.axes for term in self.terms]

    @property
    def columns(self) -> list[slice]:
        """Places of each smooth among the global columns."""
        edges = np.cumsum([0, *(smooth.size for smooth in self.smooths)]).tolist()
        return [slice(*pair) for pair in pairwise(edges)]


def _term(
    axes: list[Axis],
    component: Component | Product,
    inputs: Sequence[int],
    tables: GridTables,
    number: int,
) -> TermPrior:
    """Return K of a component on axes along the inputs."""
    units: list[Axis | JointPrior] = []
    places: list[tuple[int, ...]] = []
    for i, factor in enumerate(component.factors):
        if isinstance(factor, JointMatern):
            places.append(tuple(inputs.index(column) for column in factor.dim or ()))
            columns = _most_columns(axes, places[-1])
            units.append(JointPrior(factor, tables.joint[number][i], columns))
        else:
            places.append((inputs.index(factor.dim),))
            units.append(axes[places[-1][0]])
    for d, axis in enumerate(axes):
        if axis.process is None:
            units.append(axis)
            places.append((d,))
    return TermPrior(axes, component.variance, units, places)


def _most_columns(axes: Sequence[Axis], places: Sequence[int]) -> int:
    """Return how many columns poles may have, for every function of the other inputs."""
    beside = [axis for d, axis in enumerate(axes) if d not in places]
    if any(isinstance(axis, JointAxis) for axis in beside):
        return 0
    size = prod(axis.count for axis in axes)
    most = min(FIELD.pole_columns, FIELD.pole_entries / size)
    return int(most / prod(axis.count for axis in beside))
