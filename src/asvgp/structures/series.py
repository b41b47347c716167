"""Series: models of one input with seasons, oscillators, or several components.

Every component has cells of its own. Fixed effects are global columns, as in models of several
inputs, from which the rest is taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.data.columns import Gridded, Table
from asvgp.data.settings import Settings
from asvgp.diagnostics.facts import Facts, series_facts
from asvgp.kernels import SHO, Constant, Linear, Periodic
from asvgp.model.series.levels import degree_of
from asvgp.policies import SERIES
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.exact_paths import draw_paths as draw_exact_paths
from asvgp.posterior.posterior import GridPoints
from asvgp.posterior.series import SeriesPosterior
from asvgp.posterior.series_paths import draw_paths
from asvgp.runtime.checks import non_negative_integer
from asvgp.statistics import Statistics
from asvgp.structures.field import Field
from asvgp.structures.structure import Ends, Points
from asvgp.training.finest_series import clear_of_knots, series_grid, wanted_cells
from asvgp.training.fit import Fit, fit
from asvgp.training.problem import Problem, State
from asvgp.training.schedule_series import SeriesSchedule


class Series(Field):
    """A model of one input whose components have cells of their own."""

    def read(self, table: Table, width: Any = None) -> Points:
        """Return the rows of X as points, of the kind that the model was fitted to."""
        if isinstance(table.values, Gridded):
            raise ValueError(
                f"X has {table.width} axes of a grid, but the model has one input with a process: "
                "give X as rows."
            )
        if width is not None:
            raise ValueError(
                f"Averages over intervals (width) are for a single Matérn so far, not for "
                f"{self.layout.given!r}."
            )
        return super().read(table)

    @property
    def effect_columns(self) -> tuple[int | None, ...]:
        """Columns of all effects; None for the intercept."""
        out = []
        for effect in self.layout.kernel.effects:
            dim = getattr(effect, "dim", None)
            out.append(
                None
                if isinstance(effect, Constant)
                else dim
                if isinstance(dim, int)
                else self.layout.input
            )
        return tuple(out)

    # ------------------------------------------------------------ statistics

    def new_grids(
        self, settings: Settings, points: Points, y: Array, ends: Sequence[Ends], whole: bool
    ) -> tuple[list[Grid], list[int]]:
        """Return the grid of the input, and the highest power of its statistics."""
        factors = [factor for part in self.layout.kernel.components for factor in part.factors]
        periods = [factor.period for factor in factors if isinstance(factor, Periodic)]
        waves = [
            float(factor.period)
            for factor in factors
            if isinstance(factor, SHO) and not factor.unset
        ]
        ((lower, upper),) = ends
        wanted = settings.num_basis
        if isinstance(wanted, tuple):
            (wanted,) = wanted
        automatic = wanted is None
        if wanted is None:
            wanted = wanted_cells(points.main[0], lower, upper, whole)
        grid = series_grid(periods, waves, lower, upper, wanted, automatic)
        x = points.main[0]
        # more inputs need splines, which miss least of the prior variance at their knots
        if whole and settings.domain is None and len(x) <= SERIES.regular_inputs:
            grid = clear_of_knots(grid, x)
        return [grid], [highest_power(self.layout.kernel)]

    def extended(self, settings: Settings, points: Points, stats: Statistics) -> Statistics:
        """Return statistics on a grid that holds further points, too."""
        ((lower, upper),) = self.ends(settings, points, first=False)
        if settings.domain is not None:
            return stats
        grid = stats.grid
        whole = floor((upper - grid.lower) / grid.spacing + 1e-9)
        # an input at the upper end gets a cell of its own, as in a new grid
        return stats.extend(lower, max(upper, grid.lower + (whole + 0.5) * grid.spacing))

    def pairs(self, settings: Settings) -> tuple:
        """Return the domain that the user gave, or None."""
        return (settings.domain,)

    def domain(self, stats: Statistics) -> tuple:
        """Return the interval of the splines."""
        return self.domains(stats)[0]

    def num_basis(self, posterior: SeriesPosterior | ExactPosterior) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the number of basis functions of all components together.

        Where the field at the inputs took their place, it is the number of distinct inputs.
        """
        return posterior.engine.size - len(posterior.kernel.effects)

    # ------------------------------------------------------------ training

    def schedule(self, settings: Settings, problem: Problem, stats: Statistics) -> Any:
        """Return the schedule of training on statistics."""
        return SeriesSchedule(problem, stats, settings.automatic)

    def fit(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, settings: Settings, problem: Problem, stats: Statistics, warm: State | None
    ) -> Fit[SeriesPosterior | ExactPosterior]:
        """Train on statistics."""
        schedule = self.schedule(settings, problem, stats)
        return fit(schedule, trained=settings.trained, warm=warm)

    # ------------------------------------------------------------ questions to the posterior

    def orders(self, posterior: Any, order: Any) -> Any:
        """Return the order of a derivative, checked to exist."""
        order = non_negative_integer(order or 0, "derivative")
        for part in posterior.kernel.components:
            for factor in part.factors:
                if order > factor.order:
                    raise ValueError(
                        f"The derivative of order {order} of f does not exist: {factor!r} has "
                        f"{factor.order}. Take a smoother kernel."
                    )
        return order

    def places(self, points: Points, orders: Any = None) -> GridPoints:
        """Return points as matrices; of the effects, their derivatives where there are orders."""
        places = super().places(points)
        if not orders:
            return places
        slopes = np.zeros_like(places.effects)
        for number, effect in enumerate(self.layout.kernel.effects):
            if isinstance(effect, Linear) and self.effect_columns[number] == self.layout.input:
                slopes[:, number] = float(orders == 1)
        return GridPoints(places.main, places.smooths, slopes)

    def corners(self, a: Any, b: Any) -> tuple[GridPoints, GridPoints, bool]:
        """Return the ends of intervals as places, and True if there is only one interval."""
        axis, ends = self.axis, []
        for end in (a, b):
            values = axis.to_seconds(np.atleast_1d(end)) if axis else np.asarray(end, float)
            ends.append(np.atleast_1d(values))
        lower, upper = np.broadcast_arrays(*ends)
        single = np.ndim(a) == 0 and np.ndim(b) == 0
        return self._at_corner([lower]), self._at_corner([upper]), single

    def paths(
        self, posterior: Any, n_samples: int, random_state: Any, component: int | None
    ) -> Sequence[Any]:
        """Return sample paths, callable."""
        arguments = self.table_points, n_samples, random_state, component
        if isinstance(posterior, ExactPosterior):
            return draw_exact_paths(posterior, *arguments)
        return draw_paths(posterior, *arguments)

    def facts(self, posterior: Any, objective: str, stats: Statistics | None = None) -> Facts:
        """Return what a summary asks; ``stats`` are those on the finest cells."""
        return series_facts(posterior, objective)


def highest_power(kernel) -> int:
    """Return the highest power of s that the functions of a kernel have on a finest cell."""
    return max(sum(map(degree_of, part.factors)) for part in kernel.components)
