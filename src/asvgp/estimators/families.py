"""Fits with likelihoods that are not Gaussian: which reading of the data, and training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from asvgp.data.settings import Settings
from asvgp.estimators.again import RowsAgain
from asvgp.estimators.quality import judged, quality
from asvgp.likelihoods import Family, Likelihood
from asvgp.policies import SITES
from asvgp.runtime.interrupts import Deadline
from asvgp.runtime.progress import Progress
from asvgp.sites.readings import NodeReading, Reading, number_of_rows
from asvgp.sites.train import SiteReport, family_of, fit_sites
from asvgp.statistics import Statistics
from asvgp.structures.fit_data import FitData
from asvgp.structures.line import Line
from asvgp.structures.observed import Observed
from asvgp.structures.series import Series
from asvgp.structures.structure import Structure
from asvgp.training.fit import Fit
from asvgp.training.optimise import LBFGS
from asvgp.training.problem import Problem, State, Watch


def fit_family(
    settings: Settings,
    data: FitData,
    again: RowsAgain | None,
    warm: State | None,
    progress: Progress,
    deadline: Deadline | None = None,
    first: Observed | None = None,
) -> Fit[Any]:
    """Fit a model with a likelihood that is not Gaussian.

    The rows are read ``again`` at every step, unless sums are enough. The ``first`` of them are
    those that the likelihood is judged by.
    """
    family, structure, stats = data.family, data.structure, data.stats
    assert family is not None
    if again is not None:
        again.progress = progress
        family, reading = again.family, again.reading(stats.count, number_of_rows(stats))
    else:
        stats = workable(structure, stats)
        reading: Reading = NodeReading(structure, stats)
    if warm is not None:
        family = family_of(warm)
    watch = progress.training
    fitted = fit_reading(settings, structure, family, stats, reading, warm, watch, deadline)
    if again is not None and isinstance(fitted.report, SiteReport):
        fitted.report.reads = again.reads
    if first is None or len(first.y) == 0:
        return fitted
    freedom = fitted.posterior.factored.forms().freedom / reading.count
    found = quality(cast(Family, fitted.likelihood), structure, fitted.posterior, first, freedom)
    return replace(fitted, report=judged(fitted.report, found))


def fit_reading(
    settings: Settings,
    structure: Structure[Any],
    family: Family,
    stats: Statistics,
    reading: Reading,
    warm: State | None = None,
    watch: Watch | None = None,
    deadline: Deadline | None = None,
) -> Fit[Any]:
    """Fit a model to a reading of data, on cells no finer than those of ``stats``."""
    problem = Problem(
        structure.layout.kernel,
        cast(Likelihood, family),
        structure.degrees(settings, stats),
        "elbo",
        settings.optimizer or LBFGS(),
        watch,
        deadline=deadline,
    )
    return fit_sites(structure, settings, problem, stats, reading, warm)


def workable(structure: Any, stats: Statistics) -> Statistics:
    """Return the statistics on cells that are not more than training can use.

    Nodes on a cell are as many as a quadrature needs, so that more cells than that cost time only.
    """
    if not isinstance(structure, Line) or isinstance(structure, Series):
        return stats
    while stats.grid.cells > SITES.most_cells and stats.grid.cells % 2 == 0:
        stats = stats.coarsen()
    return stats
