"""The engine for D = 0, 2, 3, 4 inputs in the main block: elimination by nested dissection.

Terms of the main block couple on the cells of a grid. All else, smooths over inputs of their own
and fixed effects, are global columns, which are eliminated last. Without a main block, P is one
dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import block_diag

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.linalg.multifrontal.bordered import root_of
from asvgp.linalg.multifrontal.dense import DenseFactor
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.breakdown import all_axes, no_digits
from asvgp.model.coefficients import CoefficientFactored, Solution
from asvgp.model.devices import Cpu, Device, DeviceArray, Factor, log_det_error, probes
from asvgp.model.effects import Centring, column_precisions, without_centres
from asvgp.model.engine import Forms, NoiseModel, Remembered
from asvgp.model.grid_inverse import CellInverse, InverseSums, cell_inverse, inverse_sums
from asvgp.model.grid_prior import GridPrior, TermForms, TermPrior
from asvgp.model.grid_roots import root_factor
from asvgp.model.grid_tables import GridTables, LeafBlocks, interleave
from asvgp.model.levels import marginal_moments, rounding_error
from asvgp.model.plan import Plan
from asvgp.model.pole_factor import PoleFactor, PoleForms
from asvgp.policies import FIELD
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics

_REFINEMENTS = 3  # of the mean, at most
_AT_A_TIME = 32  # columns that G is multiplied by
_SETTLED = 1e-12  # share of what is explained that a refinement adds where it is the last


class GridEngine:
    """The model of several inputs for given statistics.

    Components and effects of the ``kernel`` matter; its hyperparameters do not. The statistics
    are on the plan's grids. ``tables`` are those of the plan, where they are at hand.
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        statistics: Statistics,
        device: Device | Callable[[], Device] | None = None,
        tables: GridTables | None = None,
    ):
        statistics = without_centres(kernel, statistics)
        self.kernel, self.plan, self.statistics = kernel, plan, statistics
        self.tables = tables or GridTables(kernel, plan, device)
        self.inputs, self.size = self.tables.inputs, self.tables.size
        self.outputs = len(statistics.squares)
        self.centring = Centring(statistics.column_centre, statistics.centre, kernel.intercept)
        self.precision = column_precisions(kernel, statistics)
        self.effects_prior, self._effects_pull, self._constant = self.centring.prior(self.precision)
        self._last: Remembered[Solution] = Remembered()
        self._prior: GridPrior | None = None

    @property
    def device(self) -> Device:
        """The device on which the work is done."""
        return self.tables.device

    @cached_property
    def moments(self) -> DeviceArray:
        """The moments, interleaved, on the device."""
        return self.device.move(interleave(self.statistics.moments, self.inputs))

    @cached_property
    def gram(self) -> LeafBlocks:
        """G of every leaf, (leaves, s, s)."""
        return self.tables.gram(self.moments, self.statistics)

    @cached_property
    def gram_roots(self) -> Array:
        """Square roots of G of every leaf, but for the global columns."""
        own = self.tables.leaves.block - self.plan.columns
        return root_of(self.gram[:][:, :own, :own])

    @cached_property
    def right(self) -> Array:
        """``Phi' W y``, (size, outputs)."""
        return self.tables.right(self.statistics)

    def with_statistics(self, statistics: Statistics) -> GridEngine:
        """Return an engine for other sums on the same grids, sharing all tables with this one."""
        other = GridEngine(self.kernel, self.plan, statistics, tables=self.tables)
        other._prior = self._prior
        return other

    def prior(self, kernel: Kernel) -> GridPrior:
        """Return K at the given hyperparameters; the last one is kept."""
        if self._prior is None or self._prior.kernel is not kernel:
            self._prior = GridPrior(self.plan, kernel, self.tables)
        return self._prior

    def factor(self, kernel: Kernel, likelihood: NoiseModel, remember: bool = True) -> GridFactored:
        """Factor P and solve for the mean."""
        prior = self.prior(kernel)
        solution = self._last.get(
            kernel, likelihood, lambda: self._solution(prior, likelihood.noise), remember
        )
        return GridFactored(self, prior, likelihood, solution)

    def release(self) -> None:
        """Let go of the last factorisations of P and K, and of G; `factor` makes them again."""
        self._last, self._prior = Remembered(), None
        self.__dict__.pop("gram", None)
        self.tables.clear()

    def _solution(self, prior: GridPrior, noise: float) -> Solution:
        """Factor P by elimination, or where that loses too many digits, by square roots."""
        failure: NotPositiveDefinite | float = 0.0
        best: Solution | None = None
        for number, path in enumerate((self._factor, partial(root_factor, self))):
            try:
                factor = path(prior, noise)
                solution = self._solved(prior, noise, factor, measured=number > 0)
            except NotPositiveDefinite as error:
                failure = error
            else:
                if best is None or not best.defect <= solution.defect:
                    best = solution
                if best.defect <= FIELD.accepted_defect * self.fewest:
                    return best
                if not isinstance(failure, NotPositiveDefinite):  # it names the term
                    failure = best.defect
            if not isinstance(self.device, Cpu) or any(term.joint for term in prior.terms):
                break  # square roots are for the CPU, and joint kernels have none
        if best is not None and best.defect <= FIELD.refused_defect * self.fewest:
            return best
        raise no_digits(self.plan, prior.kernel, noise, failure)

    @property
    def fewest(self) -> int:
        """The number of functions or of data, whichever are fewer."""
        return max(min(self.size, self.statistics.count), 1)

    def _solved(
        self, prior: GridPrior, noise: float, factor: Factor, measured: bool = False
    ) -> Solution:
        """Return the mean by a factor of P, refined and ``measured`` where digits may be lost."""
        right = self.scaled_right(noise)
        if prior.at_poles is not None:
            right = np.append(right, self.pulled(prior.at_poles[0], noise), axis=1)
        mean = self.solve(factor, right)
        explained = np.sum(right * mean, axis=0)
        signal = self.statistics.weight * prior.kernel.prior_variance / noise
        error = rounding_error(all_axes(self.plan, prior.kernel), signal)
        # What is explained loses more where it is much: measured by about the square root.
        error *= (1.0 + np.abs(explained[: self.outputs]).max() / self.fewest) ** 0.5
        solution = Solution(factor, mean, explained)
        if measured or error > FIELD.measured_from * self.fewest:
            solution = self._refined(prior, noise, factor, right, mean)
        return self._with_poles(prior, right, solution)

    def scaled_right(self, noise: float) -> Array:
        """Return the right-hand side of the mean, (size, outputs)."""
        right = self.right / noise
        right[self.size - self.plan.effects :] -= self._effects_pull
        return right

    def pulled(self, values: Array, noise: float) -> Array:
        """Return G over the noise times coefficients, (size, n)."""
        if not self.inputs:
            return self.statistics.column_gram @ values / noise
        parts = np.array_split(values, max(1, -(-values.shape[1] // _AT_A_TIME)), axis=1)
        return np.hstack([self.tables.multiply(self.gram, part) for part in parts]) / noise

    def _with_poles(self, prior: GridPrior, right: Array, solution: Solution) -> Solution:
        """Return the solution with what splines leave out at poles, where that is something.

        The columns of the right-hand side and of the mean that follow the outputs are for it.
        """
        factor, own, poles = solution.factor, slice(self.outputs), slice(self.outputs, None)
        mean, explained = solution.mean[:, own], solution.explained[own] - self._constant
        if prior.at_poles is not None:
            A, index = prior.at_poles[0], self.tables.tree.leaf_index
            solved = solution.mean[:, poles]
            factor = PoleFactor(factor, A, right[:, poles], solved, index, self.device)
            b = factor.at_poles(right[:, own])
            explained = explained + np.sum((factor.Y.T @ right[:, own]) * b, axis=0)
            mean = mean + factor.Y @ b
        return replace(solution, factor=factor, mean=mean, explained=explained)

    def _refined(
        self, prior: GridPrior, noise: float, factor: Factor, right: Array, mean: Array
    ) -> Solution:
        """Return the mean without the errors of a factor, and how wrong the factor is."""
        draws, count = self.draw(factor, probes(self.size)), right.shape[1]
        explained = np.empty(count)
        applied, form = self.multiply(prior, noise, np.append(mean, draws, axis=1))
        defect = log_det_error(form[count:], self.size) + prior.defect
        applied, form = applied[:, :count], form[:count]
        for turn in range(_REFINEMENTS):
            # The mean is refined by residuals that know K by its square roots, and what it
            # explains is read off a maximum: both lose half of the digits that P loses.
            if turn:
                applied, form = self.multiply(prior, noise, mean)
            residual = right - applied
            step = self.solve(factor, residual)
            gained = np.sum(residual * step, axis=0)
            explained = 2.0 * np.sum(right * mean, axis=0) - form + gained
            mean = mean + step
            if np.all(np.abs(gained) <= _SETTLED * np.abs(explained)):
                break
        return Solution(factor, mean, explained, defect)

    def multiply(self, prior: GridPrior, noise: float, mean: Array) -> tuple[Array, Array]:
        """Return P times coefficients, (size, outputs), and ``mean' P mean`` by output."""
        applied = self.pulled(mean, noise)
        form = np.sum(mean * applied, axis=0)
        terms, columns = self.tables.split(mean)
        out, of_columns = self.tables.split(applied)  # views
        for part, own, target in zip(prior.terms, terms, out, strict=True):
            product, energy = part.apply(own)
            target += product
            form += energy
        for part, where in zip(prior.smooths, prior.columns, strict=True):
            product, energy = part.apply(columns[where])
            of_columns[where] += product
            form += energy
        effects = len(columns) - self.plan.effects
        product = self.effects_prior @ columns[effects:]
        of_columns[effects:] += product
        form += np.sum(columns[effects:] * product, axis=0)
        return applied, form

    def _factor(self, prior: GridPrior, noise: float) -> Factor:
        columns = self.column_stiffness(prior)
        if not self.inputs:
            return DenseFactor(self.statistics.column_gram / noise + columns)
        columns, tables = self.device.move(columns), self.tables
        leaves = tables.leaves
        stiffness = leaves.stiffness(prior.axes)
        scales = [self.device.move(term.coefficients / term.variance) for term in prior.terms]
        gram = self.gram  # before there are threads

        def elements(start: int, stop: int) -> DeviceArray:
            out = gram[start:stop] / noise
            leaves.add_stiffness(stiffness, scales, start, stop, out)
            if start == 0 and len(columns):
                out[0, -len(columns) :, -len(columns) :] += columns
            return out

        return self.device.factor(tables.tree, elements, tables.on_disk, tables.panels)

    def column_stiffness(self, prior: GridPrior) -> Array:
        """Return K of the global columns, (columns, columns)."""
        if not self.plan.columns:
            return np.empty((0, 0))
        blocks = [smooth.matrix for smooth in prior.smooths]
        return np.asarray(block_diag(*blocks, self.effects_prior))

    def solve(self, factor: Factor, right: Array) -> Array:
        """Return ``P^-1`` times right-hand sides, (size, n)."""
        if not self.inputs:
            return factor.solve(right)
        return self.device.back(factor.solve(self.device.move(right)))

    def draw(self, factor: Factor, normals: Array) -> Array:
        """Return draws with covariance ``P^-1`` from standard normals, (size, n)."""
        if not self.inputs:
            return factor.sample(normals)
        return self.device.back(factor.sample(self.device.move(normals)))

    def missed(self, prior: GridPrior, derivatives: bool = True) -> tuple[Array, Array]:
        """Return the prior variance that the splines miss at the data, and its derivatives.

        One number per component, and the derivatives of their sum; zeros where no ``derivatives``
        are wanted, which saves time.
        """
        weight = self.statistics.weight
        return self._missed(
            prior, lambda term: term.missed(self.moments, self.device, weight, derivatives)
        )

    def slopes_of_missed(self, prior: GridPrior) -> Array:
        """Return the derivatives of `missed`, those of joint terms as on equal cells everywhere.

        Their own would take longer than all else.
        """
        weight = self.statistics.weight

        def of_term(term: TermPrior) -> tuple[float, Array]:
            if term.joint:
                slopes = term.about_missed(self._marginals, weight)
                return float(slopes[-1]), slopes
            return term.missed(self.moments, self.device, weight)

        return self._missed(prior, of_term)[1]

    def _missed(
        self, prior: GridPrior, of_term: Callable[[TermPrior], tuple[float, Array]]
    ) -> tuple[Array, Array]:
        """Return what terms and smooths miss, and the derivatives that are known."""
        stats = self.statistics
        values = np.zeros(len(self.kernel.components))
        gradient = np.zeros(len(self.kernel.parameters))
        found = [
            (number, of_term(t)) for number, t in zip(self.plan.terms, prior.terms, strict=True)
        ]
        smooths = zip(self.plan.smooths, prior.smooths, prior.columns, strict=True)
        for number, part, where in smooths:
            found.append((number, part.missed(stats.column_gram[where, where], stats.weight)))
        for number, (value, slopes) in found:
            values[number] = value
            if len(slopes):
                gradient[self.kernel.places_of(number)] = slopes
        return values, gradient

    @cached_property
    def _marginals(self) -> list[Array]:
        return marginal_moments(self.statistics)


class GridFactored(CoefficientFactored["GridEngine", GridPrior]):
    """P of several inputs, factored."""

    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return the variance that the splines miss at the data per component, and derivatives."""
        return self.engine.missed(self.prior, derivatives)

    def slopes_of_missed(self) -> Array:
        """Return the derivatives of the missed variance, about them for joint terms."""
        return self.engine.slopes_of_missed(self.prior)

    def _forms_by_component(self) -> dict[int, TermForms]:
        engine, prior, sums = self.engine, self.prior, self._inverse_sums
        plan, outputs, first = engine.plan, engine.outputs, len(prior.terms)
        of_splines, at_poles = self._poles()
        terms, columns = engine.tables.split(of_splines)
        freedoms, out = sums.data / self.noise, {}
        main = zip(
            *(plan.terms, prior.terms, terms, sums.terms, sums.tables, freedoms[:first], at_poles),
            strict=True,
        )
        for number, part, mean, inverse, tables, freedom, more in main:
            out[number] = part.forms(mean, inverse, tables, outputs, float(freedom), more)
        for number, part, where in zip(plan.smooths, prior.smooths, prior.columns, strict=True):
            inverse = [part.windows(sums.columns[where, where])]
            freedom = float(freedoms[first:][where].sum())
            out[number] = part.forms(columns[where], inverse, np.empty(0), outputs, freedom)
        return out

    def _poles(self) -> tuple[Array, Sequence[PoleForms | None]]:
        """Return the mean of the splines alone, and what every term has at the poles."""
        engine, factor, found = self.engine, self.solution.factor, self.prior.at_poles
        if found is None or not isinstance(factor, PoleFactor):
            return self.mean, [None] * len(self.prior.terms)
        A, d_A, places = found
        right = engine.scaled_right(self.noise)
        b = factor.at_poles(right)
        left = right - engine.pulled(self.mean, self.noise)
        forms = factor.forms(b, left, self._pulled_to_poles, d_A, places)
        return self.mean - A @ b, forms

    @cached_property
    def _pulled_to_poles(self) -> Array:
        """G over the noise times Y of the factor."""
        factor = self.solution.factor
        assert isinstance(factor, PoleFactor)
        return self.engine.pulled(factor.Y, self.noise)

    @property
    def _columns_inverse(self) -> Array:
        """P^-1 of the global columns, the effects' last."""
        return self._inverse_sums.columns

    @cached_property
    def _inverse_sums(self) -> InverseSums:
        factor = self.solution.factor
        if isinstance(factor, DenseFactor):
            inverse = factor.inverse()
            data = np.sum(inverse * self.engine.statistics.column_gram, axis=1)
            return InverseSums([], [], inverse, data)
        tables, gram = self.engine.tables, self.engine.gram
        if not isinstance(factor, PoleFactor):
            return inverse_sums(tables, self.prior, gram, factor.selected_inverse)
        sums = inverse_sums(tables, self.prior, gram, factor.of_splines)
        terms, columns = tables.split(self.noise * factor.freedoms(self._pulled_to_poles))
        more = np.append([each.sum() for each in terms], columns)
        return sums._replace(data=sums.data + more)

    def forms(self) -> Forms:
        """Return what the gradient of the bound needs, and how wrong that may be."""
        worst = max((abs(part.defect) for part in self._component_forms.values()), default=0.0)
        return super().forms()._replace(defect=worst / self.engine.fewest)

    def divergence(self) -> float:
        """Return the Kullback-Leibler divergence of the coefficients' posterior from their prior.

        The degrees of freedom are read off `cell_inverse`, which variances take anyway.
        """
        engine, stats = self.engine, self.engine.statistics
        if not engine.inputs or isinstance(self.solution.factor, PoleFactor):
            return super().divergence()
        squares, cross, columns = self.cell_inverse
        freedom = np.vdot(squares, stats.moments)
        if len(columns):
            freedom += 2.0 * np.vdot(cross, stats.cross) + np.vdot(columns, stats.column_gram)
        terms, below = engine.tables.split(self.mean)
        energy = sum(
            float(part.apply(own)[1].sum())
            for part, own in zip(self.prior.terms, terms, strict=True)
        )
        for part, where in zip(self.prior.smooths, self.prior.columns, strict=True):
            energy += float(part.apply(below[where])[1].sum())
        if effects := engine.plan.effects:
            energy += engine.centring.energy(engine.precision, self.mean[-effects:])
        return 0.5 * (self.gained + energy - float(freedom) / self.noise)

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component."""
        plan, prior = self.engine.plan, self.prior
        parts = dict(zip((*plan.terms, *plan.smooths), (*prior.terms, *prior.smooths), strict=True))
        forms = self._component_forms
        return np.array([parts[n].size - forms[n].trace for n in range(len(parts))])

    @cached_property
    def cell_inverse(self) -> CellInverse:
        """P^-1 as polynomials per cell of the main block, and of the global columns."""
        factor = self.solution.factor
        if isinstance(factor, DenseFactor):
            columns = np.ascontiguousarray(factor.inverse())
            return CellInverse(np.empty((0, 0)), np.empty((0, 0, len(columns))), columns)
        return cell_inverse(self.engine.tables, factor)

    def solve(self, rows: Array) -> Array:
        """Return ``P^-1`` times right-hand sides, (size, n)."""
        return self.engine.solve(self.solution.factor, rows)

    @property
    def normals(self) -> int:
        """The number of standard normals that a draw takes."""
        factor = self.solution.factor
        return factor.normals if isinstance(factor, PoleFactor) else self.engine.size

    def draw(self, normals: Array) -> Array:
        """Return draws of the coefficients, made from standard normals, (normals, n)."""
        return self.engine.draw(self.solution.factor, normals)
