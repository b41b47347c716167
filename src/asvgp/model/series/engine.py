"""The engine for series: trends, oscillators, seasons and drifting seasons along one input.

Functions of the line couple where they share a cell and are eliminated by dissection of the line;
those of seasons and the fixed effects are global columns, which come last.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from scipy.linalg import block_diag

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.linalg.cells import elements as loops
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.model.coefficients import CoefficientFactored, Solution
from asvgp.model.devices import Cpu, Factor
from asvgp.model.effects import Centring, column_precisions, without_centres
from asvgp.model.engine import NoiseModel, Remembered
from asvgp.model.grid_prior import TermForms
from asvgp.model.moments import CellMoments
from asvgp.model.series.plan import SeriesPlan
from asvgp.model.series.tables import SeriesTables
from asvgp.model.series.terms import Season, Term, terms_of
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics


class SeriesPrior:
    """K at given hyperparameters: one term per component."""

    def __init__(self, kernel: Kernel, plan: SeriesPlan):
        self.kernel, self.plan = kernel, plan
        self.terms: list[Term] = terms_of(kernel, plan)

    @property
    def log_det(self) -> float:
        """``log|K|`` of all components; effects are not included."""
        return sum(term.log_det for term in self.terms)


class SeriesEngine:
    """The model of a series for given statistics, which are on the plan's finest cells."""

    def __init__(
        self,
        kernel: Kernel,
        plan: SeriesPlan,
        statistics: Statistics,
        tables: SeriesTables | None = None,
        moments: CellMoments | None = None,
    ):
        self._given, statistics = statistics, without_centres(kernel, statistics)
        self.kernel, self.plan, self.statistics = kernel, plan, statistics
        self.tables = tables or SeriesTables(kernel, plan)
        self.moments = moments or CellMoments(statistics.moments)
        self.size, self.outputs = self.tables.size, len(statistics.squares)
        self.device = Cpu()
        self.centring = Centring(statistics.column_centre, statistics.centre, kernel.intercept)
        self.precision = column_precisions(kernel, statistics)
        self.effects_prior, self._effects_pull, self._constant = self.centring.prior(self.precision)
        self._last: Remembered[Solution] = Remembered()
        self._prior: SeriesPrior | None = None

    @cached_property
    def gram(self) -> Array:
        """G of every leaf."""
        return self.tables.gram(self.statistics)

    @cached_property
    def right(self) -> Array:
        """``Phi' W y``, (size, outputs)."""
        return self.tables.right(self.statistics)

    def release(self) -> None:
        """Let go of G and of the last factorisation of P, the largest parts; both can be remade."""
        self._last = Remembered()
        vars(self).pop("gram", None)

    @property
    def flops(self) -> float:
        """Operations of one bound with its gradient."""
        return self.tables.flops

    def with_statistics(self, statistics: Statistics) -> SeriesEngine:
        """Return an engine for sums on the same cells, sharing all tables with this one.

        If they are the same sums, it shares G as well.
        """
        engine = SeriesEngine(self.kernel, self.plan, statistics, self.tables)
        if "gram" in vars(self) and any(
            statistics is own for own in (self._given, self.statistics)
        ):
            vars(engine)["gram"] = self.gram
        return engine

    def on_widest_cells(self) -> SeriesEngine:
        """Return an engine with the same functions on the widest cells that none of them cuts.

        Statistics on these are exact and have fewer numbers, and so has all that is made of them.
        """
        times = self.plan.spare_levels
        if not times:
            return self
        statistics = self.statistics.coarsen(2**times)
        return SeriesEngine(self.kernel, self.plan.coarsened(times), statistics)

    def prior(self, kernel: Kernel) -> SeriesPrior:
        """Return K at the given hyperparameters; the last one is kept."""
        if self._prior is None or self._prior.kernel is not kernel:
            self._prior = SeriesPrior(kernel, self.plan)
        return self._prior

    def factor(
        self, kernel: Kernel, likelihood: NoiseModel, remember: bool = True
    ) -> SeriesFactored:
        """Factor P and solve for the mean."""
        prior = self.prior(kernel)
        solution = self._last.get(
            kernel, likelihood, lambda: self._solution(prior, likelihood.noise), remember
        )
        return SeriesFactored(self, prior, likelihood, solution)

    def _solution(self, prior: SeriesPrior, noise: float) -> Solution:
        try:
            factor = self._factor(prior, noise)
        except NotPositiveDefinite as error:
            raise np.linalg.LinAlgError(
                f"P of {prior.kernel!r} with noise variance {noise:.3g} cannot be factored on "
                f"{self.plan.grid.cells} cells."
            ) from error
        right = self.right / noise
        if self.plan.effects:
            right[-self.plan.effects :] -= self._effects_pull
        mean = factor.solve(right)
        return Solution(factor, mean, np.sum(right * mean, axis=0) - self._constant)

    def _factor(self, prior: SeriesPrior, noise: float) -> Factor:
        tables, gram = self.tables, self.gram
        columns = np.zeros((0, 0))
        if tables.columns:
            seasons = [term.matrix for term in prior.terms if isinstance(term, Season)]
            columns = np.asarray(block_diag(*seasons, self.effects_prior))
        parts = [
            (cells, *term.elements)
            for term, cells in zip(prior.terms, tables.cells, strict=True)
            if cells is not None and not isinstance(term, Season)
        ]

        def elements(start: int, stop: int) -> Array:
            out = gram[start:stop] / noise
            for cells, element, first in parts:
                loops.add_elements(start, stop, cells.begins, cells.places, element, out)
                if start == 0:
                    places = cells.places[0]
                    out[0, places[:, None], places] += first
            if start == 0 and len(columns):
                out[0, -len(columns) :, -len(columns) :] += columns
            return out

        return self.device.factor(tables.tree, elements, False)


class SeriesFactored(CoefficientFactored["SeriesEngine", SeriesPrior]):
    """P of a series, factored."""

    def missed(self, derivatives: bool = True) -> tuple[Array, Array]:
        """Return the variance that functions miss at the data per component, and derivatives."""
        return self._missed

    @cached_property
    def _missed(self) -> tuple[Array, Array]:
        moments, weight, values = self.engine.moments, self.engine.statistics.weight, []
        gradient = np.zeros(len(self.kernel.parameters))
        for number, term in enumerate(self.prior.terms):
            value, slope = term.missed(moments, weight)
            values.append(value)
            gradient[self.kernel.places_of(number)] = slope
        return np.array(values), gradient

    @cached_property
    def _inverse_sums(self) -> tuple[list[tuple[Array, Array]], Array]:
        """P^-1 summed over the cells of every component and on the first; and of the columns."""
        tables, columns = self.engine.tables, self.engine.tables.columns
        sums = []
        for cells in tables.cells:
            n = 0 if cells is None else cells.places.shape[1]
            sums.append((np.zeros((n, n)), np.zeros((n, n))))
        of_columns, lock = np.zeros((columns, columns)), Lock()

        def consume(start: int, stop: int, blocks: Array) -> None:
            for cells, (total, first) in zip(tables.cells, sums, strict=True):
                if cells is None:
                    continue
                part = np.zeros_like(total)
                loops.sum_elements(start, stop, cells.begins, cells.places, blocks, part)
                with lock:
                    total += part
                if start == 0:
                    places = cells.places[0]
                    first[:] = blocks[0][np.ix_(places, places)]
            if start == 0 and columns:
                of_columns[:] = blocks[0, -columns:, -columns:]

        self.solution.factor.selected_inverse(consume)
        return sums, of_columns

    @property
    def _columns_inverse(self) -> Array:
        """P^-1 of the global columns, the effects' last."""
        return self._inverse_sums[1]

    def _forms_by_component(self) -> dict[int, TermForms]:
        engine, tables = self.engine, self.engine.tables
        sums, columns = self._inverse_sums
        out = {}
        for number, term in enumerate(self.prior.terms):
            mean = self.mean[tables.where(number)]
            if isinstance(term, Season):
                first = tables.offsets[number] - tables.main
                where = slice(first, first + term.size)
                out[number] = term.forms(columns[where, where], mean, engine.outputs)
                continue
            windows = mean[term.element_numbers]  # (cells, n, outputs)
            flat = windows.transpose(1, 0, 2).reshape(windows.shape[1], -1)
            means = flat @ flat.T, windows[0] @ windows[0].T
            out[number] = term.forms(*sums[number], means, engine.outputs)
        return out

    def component_freedoms(self) -> Array:
        """Return the effective degrees of freedom of every component."""
        forms = self._component_forms
        return np.array([term.size - forms[n].trace for n, term in enumerate(self.prior.terms)])

    def solve(self, rows: Array) -> Array:
        """Return ``P^-1`` times right-hand sides, (size, n)."""
        return self.solution.factor.solve(rows)

    def draw(self, normals: Array) -> Array:
        """Return draws of the coefficients, made from standard normals, (size, n)."""
        return self.solution.factor.sample(normals)
