"""The collapsed bound over several inputs, its gradient, and the upper bound.

The formulas are those of `asvgp.model.bound`. K is block-diagonal over terms, and of
each a product over inputs times 1 / variance, so that everything about K alone is done input
by input; P^-1 is needed on the leaves only, and there only against the factors of K.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, prod
from threading import Lock

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.model.assembly import Assembly, Factor, pair_sums
from asvgp.model.axis import Axis
from asvgp.model.bound import Bound
from asvgp.model.elements import add_rows


@dataclass(frozen=True, eq=False)
class Solution:
    """P factored, and the mean of the coefficients, (size, outputs)."""

    factor: Factor
    mean: Array
    log_det: float
    explained: Array

    @classmethod
    def of(cls, assembly: Assembly, kernel: Kernel, noise: float) -> Solution:
        """Factor and solve."""
        factor = assembly.factor(kernel, noise)
        right = assembly.pulled(noise)
        mean = assembly.solve(factor, right)
        explained = np.sum(right * mean, axis=0) - assembly.constant
        return cls(factor, mean, factor.log_det, explained)


def last_solution(assembly: Assembly, kernel: Kernel, noise: float) -> Solution:
    """`Solution.of`, the last one remembered: training ends where the posterior begins."""
    state, known = (kernel, noise), vars(assembly).pop("_last", None)
    if known is None or known[0] != state:
        known = None  # its memory is wanted for the next
        known = state, Solution.of(assembly, kernel, noise)
    vars(assembly)["_last"] = known
    return known[1]


class Priors:
    """Everything about K at some hyperparameters: determinant, missed variance, derivatives."""

    def __init__(self, assembly: Assembly, kernel: Kernel):
        plan = assembly.plan
        self.assembly, self.kernel = assembly, kernel
        self.axes = plan.axes(kernel)
        self.smooths = plan.smooth_axes(kernel)
        self.variances = [kernel.components[t].variance for t in plan.terms]
        self.smooth_variances = [kernel.components[t].variance for t in plan.smooths]
        self.sizes = [prod(axis.count for axis in axes) for axes in self.axes]

    @property
    def log_det(self) -> float:
        """``log|K|``, the effects' included."""
        total = float(np.log(self.assembly.precision).sum())
        for axes, size, variance in zip(self.axes, self.sizes, self.variances, strict=True):
            total += sum(size / axis.count * axis.log_det for axis in axes) - size * log(variance)
        for axis, variance in zip(self.smooths, self.smooth_variances, strict=True):
            total += axis.log_det - axis.count * log(variance)
        return total

    def missed(self, derivatives: bool = True) -> tuple[list[float], list[list[Array]]]:
        """Prior variance that the splines miss at the data, of every term, and its derivatives.

        Terms of the main block first, then the smooths. The derivatives are with respect to
        the hyperparameters of each factor but the variance.
        """
        weight = self.assembly.stats.weight
        values, slopes = [], []
        for axes, variance in zip(self.axes, self.variances, strict=True):
            trace, d_trace = self._trace(axes, derivatives)
            values.append(variance * max(weight - trace, 0.0))
            slopes.append([-variance * d for d in d_trace])
        first = 0
        for axis, variance in zip(self.smooths, self.smooth_variances, strict=True):
            last = first + axis.count
            gram = self.assembly.stats.column_gram[first:last, first:last]
            trace, d_trace = axis.banded_trace(gram)
            values.append(variance * max(weight - trace, 0.0))
            slopes.append([-variance * d_trace])
            first = last
        return values, slopes

    def _trace(self, axes: list[Axis], derivatives: bool) -> tuple[float, list[Array]]:
        """``tr(K^-1 G)`` of a term of variance one: moments against products of polynomials."""
        moments, engine = self.assembly.moments, self.assembly.engine
        polynomials = [engine.move(axis.variance_polynomials) for axis in axes]
        d_trace, trace = [], 0.0
        for d, axis in enumerate(axes):
            own = moments
            for e in reversed(range(len(axes))):
                if e != d:
                    own = engine.contract(own, polynomials[e], e)
            trace, slope = axis.trace(engine.back(own))
            d_trace.append(slope)
            if not derivatives:
                break
        return trace, d_trace


def field_bound(
    assembly: Assembly,
    kernel: Kernel,
    noise: float,
    objective: str = "elbo",
    forms: Forms | None = None,
) -> Bound:
    """The bound and its gradient with respect to log-hyperparameters and log-noise.

    ``forms`` are those at these hyperparameters, where they are known.
    """
    if forms is None:
        solution = last_solution(assembly, kernel, noise)
        forms = Forms(assembly, Priors(assembly, kernel), solution)
    priors, solution = forms.priors, forms.solution
    stats, outputs = assembly.stats, assembly.outputs
    missed, d_missed = priors.missed()
    total_missed = float(sum(missed))
    squares, explained = stats.squares.sum() / noise, solution.explained.sum()
    misfit = max(squares - explained, 0.0)
    gained = max(solution.log_det - priors.log_det, 0.0)
    constant = stats.log_weights - stats.count * log(2.0 * pi * noise)
    fit = 0.5 * (outputs * (constant - gained) - misfit)
    elbo = fit - 0.5 * outputs * total_missed / noise

    size = assembly.size
    gradient, slope_missed = np.zeros((2, len(kernel.parameters) + 1))
    inverse_of_k, roughness = forms.effects_trace, forms.effects_energy
    places = _places(kernel)
    plan = assembly.plan
    for number, term in enumerate((*plan.terms, *plan.smooths)):
        trace, energy, pieces = forms.term(number)
        inverse_of_k += trace
        roughness += energy
        own = gradient[places[term]]
        count = forms.sizes[number]
        own[-1] = 0.5 * (outputs * (trace - count) + energy)
        slope_missed[places[term]][-1] = missed[number]
        first = 0
        for d, (axis, share, form) in enumerate(pieces):
            if axis.process is None:
                continue
            d_log_det = share * axis.prior.d_log_det[:-1]
            slope = 0.5 * (outputs * d_log_det - form)
            own[first : first + len(slope)] = slope
            slope_missed[places[term]][first : first + len(slope)] = d_missed[number][d]
            first += len(slope)
    gradient[-1] = 0.5 * (
        -outputs * stats.count + outputs * (size - inverse_of_k) + squares - explained - roughness
    )
    if objective == "elbo":
        gradient -= 0.5 * outputs * slope_missed / noise
        gradient[-1] += 0.5 * outputs * total_missed / noise
    return Bound(float(elbo), float(fit), total_missed, gradient, slope_missed)


class Forms:
    """Traces and quadratic forms of K and its derivatives, with P^-1 and with the mean."""

    def __init__(self, assembly: Assembly, priors: Priors, solution: Solution):
        self.assembly, self.priors, self.solution = assembly, priors, solution
        self.sizes = [*priors.sizes, *(axis.count for axis in priors.smooths)]
        columns = assembly.plan.columns
        self.column_inverse = np.zeros((columns, columns))
        self.terms, self.column_means = assembly.split(solution.mean)
        if assembly.inputs:
            leaves = assembly.leaves
            tables = leaves.stiffness(priors.axes)
            self.tables = tables
            engine = assembly.engine
            sums = [
                [engine.zeros((len(table), table.shape[1] ** 2)) for table in term]
                for term in tables
            ]

            lock = Lock()  # leaves come from several threads

            def consume(start: int, stop: int, blocks: Array) -> None:
                parts = leaves.contract(blocks, tables, start, stop)
                with lock:
                    for own, part in zip(sums, parts, strict=True):
                        for d in range(leaves.inputs):
                            add_rows(own[d], leaves.intervals[d][start:stop], part[d])
                if start == 0 and columns:
                    self.column_inverse += engine.back(blocks[0, -columns:, -columns:])

            solution.factor.selected_inverse(consume)
            self.sums = [[engine.back(own) for own in term] for term in sums]
        else:
            self.column_inverse = solution.factor.inverse()  # pyright: ignore[reportAttributeAccessIssue]
        effects = assembly.plan.effects
        self.effects_trace = self.effects_energy = 0.0
        if effects:
            inverse = self.column_inverse[-effects:, -effects:]
            self.effects_trace = float(np.sum(assembly.effects_prior * inverse))
            self.effects_energy = assembly.centring.energy(
                assembly.precision, self.column_means[-effects:]
            )

    def term(self, number: int):
        """``tr(P^-1 K)``, ``alpha'K alpha``, and along each input axis, share and derivatives."""
        main = len(self.priors.axes)
        return self._main(number) if number < main else self._smooth(number - main)

    def _main(self, number: int):
        priors, outputs = self.priors, self.assembly.outputs
        axes, scale = priors.axes[number], 1.0 / priors.variances[number]
        mean = self.terms[number]  # (n_1, ..., n_D, outputs)
        pieces, trace, energy = [], 0.0, 0.0
        for d, axis in enumerate(axes):
            total, start = self._inverse_sums(number, d)
            applied = np.moveaxis(mean, d, 0)
            for e, other in enumerate(axes):
                if e != d:
                    applied = _apply(other, applied, e + (e < d))
            own = np.moveaxis(mean, d, 0).reshape(axis.count, -1)
            mean_total, mean_start = pair_sums(own, applied.reshape(axis.count, -1), axis)
            if d == 0:
                element, boundary = axis.blocks
                trace = scale * float(np.sum(element * total) + np.sum(boundary * start))
                energy = scale * float(np.sum(element * mean_total) + np.sum(boundary * mean_start))
            form = np.empty(0)
            if axis.process is not None:
                both = outputs * total + mean_total, outputs * start + mean_start
                form = scale * axis.d_form(*both)
            pieces.append((axis, priors.sizes[number] / axis.count, form))
        return trace, energy, pieces

    def _inverse_sums(self, number: int, d: int) -> tuple[Array, Array]:
        """``sums`` of the inverse over the cells of a spline, and at the first of them."""
        leaves, axis = self.assembly.leaves, self.priors.axes[number][d]
        n, size = leaves.shapes[number][d], axis.degree + 1
        tables = self.sums[number][d].reshape(-1, n, n)
        start = tables[0, :size, :size]
        if axis.process is None:
            return np.zeros((1, 1)), start
        interval, place = leaves.spline_cells(d, number)
        total = np.empty((size, size))
        for i in range(size):
            for j in range(size):
                total[i, j] = tables[interval, place + i, place + j].sum()
        return total, start

    def _smooth(self, number: int):
        priors, outputs = self.priors, self.assembly.outputs
        axis, scale = priors.smooths[number], 1.0 / priors.smooth_variances[number]
        first = sum(other.count for other in priors.smooths[:number])
        own = slice(first, first + axis.count)
        total, start = _windows(self.column_inverse[own, own], axis)
        mean = self.column_means[own]
        mean_total, mean_start = pair_sums(mean, mean, axis)
        element, boundary = axis.blocks
        trace = scale * float(np.sum(element * total) + np.sum(boundary * start))
        energy = scale * float(np.sum(element * mean_total) + np.sum(boundary * mean_start))
        form = scale * axis.d_form(outputs * total + mean_total, outputs * start + mean_start)
        return trace, energy, [(axis, 1.0, form)]


def freedoms(forms: Forms) -> tuple[float, list[float]]:
    """Effective degrees of freedom, of all and of every term: functions less ``tr(P^-1 K)``."""
    plan = forms.assembly.plan
    terms = [
        forms.sizes[number] - forms.term(number)[0]
        for number in range(len(plan.terms) + len(plan.smooths))
    ]
    return sum(terms) + plan.effects - forms.effects_trace, terms


def field_upper_bound(
    assembly: Assembly, kernel: Kernel, noise: float, log_det: float | None = None
) -> float:
    """An upper bound on the log evidence, from one more factorisation.

    ``log_det`` is that of P, where it is known.
    """
    priors, stats = Priors(assembly, kernel), assembly.stats
    missed = float(sum(priors.missed(derivatives=False)[0]))
    if log_det is None:
        log_det = assembly.factor(kernel, noise).log_det
    wide = noise + missed
    misfit = stats.squares.sum() / wide - Solution.of(assembly, kernel, wide).explained.sum()
    constant = stats.log_weights - stats.count * log(2.0 * pi * noise)
    gained = max(log_det - priors.log_det, 0.0)
    return float(0.5 * (assembly.outputs * (constant - gained) - max(misfit, 0.0)))


def _windows(matrix: Array, axis: Axis) -> tuple[Array, Array]:
    """Sum of a dense matrix's blocks over the cells of a spline, and the first block."""
    size, cells = axis.degree + 1, axis.grid.cells
    total = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            total[i, j] = np.diagonal(matrix[i : i + cells, j : j + cells]).sum()
    return total, matrix[:size, :size]


def _apply(axis: Axis, tensor: Array, where: int) -> Array:
    """K of an axis along one axis of a tensor."""
    moved = np.moveaxis(tensor, where, 0)
    out = axis.matrix @ moved.reshape(axis.count, -1)
    return np.moveaxis(out.reshape(moved.shape), 0, where)


def _places(kernel: Kernel) -> list[slice]:
    """Where each term's hyperparameters are among all."""
    out, first = [], 0
    for component in kernel.components:
        last = first + len(component.parameters)
        out.append(slice(first, last))
        first = last
    return out
