"""Fits with likelihoods that are not Gaussian: which reading of the data, and training."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any, TypeGuard, cast

import numpy as np

from asvgp.data.settings import Settings
from asvgp.estimators.again import RowsAgain
from asvgp.estimators.ingest import check_variation, is_constant
from asvgp.estimators.noise import fit_noise
from asvgp.estimators.quality import judged, quality
from asvgp.likelihoods import Family, Heteroscedastic, Likelihood
from asvgp.policies import NOISE, SITES
from asvgp.runtime.interrupts import Deadline
from asvgp.runtime.progress import Progress
from asvgp.sites.cells import workable
from asvgp.sites.excerpt import excerpt
from asvgp.sites.readings import NodeReading, Reading, RowReading, number_of_rows
from asvgp.sites.train import SiteReport, family_of, fit_sites
from asvgp.statistics import Statistics
from asvgp.structures.field import Field
from asvgp.structures.fit_data import FitData
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
    note = _of_weights(data.stats)
    fitted = _fitted(settings, data, again, warm, progress, deadline, first)
    fitted.report.notes[:0] = note
    return fitted


def _of_weights(stats: Statistics) -> list[str]:
    """Say where weights of rows leave little of them, and raise an error where nothing is left."""
    total = float(stats.constants[-1])
    told = (
        f"the weights of {stats.count} rows sum to {total:.3g}, and say how often rows are there: "
        f"together they count for {total:.3g} rows"
    )
    remedy = "multiply them so that their mean is one, or what it should be"
    if total < SITES.least_rows:
        raise ValueError(f"{told[0].upper()}{told[1:]}, too few to learn anything; {remedy}.")
    little = total < SITES.few_rows and total < SITES.small_weight * stats.count
    return [f"{told}, which tell little; {remedy}"] if little else []


def _fitted(
    settings: Settings,
    data: FitData,
    again: RowsAgain | None,
    warm: State | None,
    progress: Progress,
    deadline: Deadline | None,
    first: Observed | None,
) -> Fit[Any]:
    """Fit a model to rows that say something."""
    family, structure, stats = data.family, data.structure, data.stats
    assert family is not None
    sample, known, reads = None, None, list[None]()
    if again is not None:
        again.progress = progress
    if isinstance(family, Heteroscedastic):
        if again is None:
            raise ValueError(
                f"{family!r} needs the rows themselves to be trained: call fit with all of them."
            )
        return _with_noise(settings, data, again, progress.training, deadline, first)
    if again is not None:
        family, reading = again.family, again.reading(stats.count, number_of_rows(stats))
        most = max(SITES.sample_rows, stats.count // SITES.sample_share)
        # the grid of a series suits rows that are regular
        worth = settings.trained and warm is None and not isinstance(structure, Series)
        if worth and stats.count >= 2 * most:
            sample = again.sample(stats.count, most)
    else:
        stats = workable(settings, structure, stats)
        known, rule_error = _from_boxes(settings, data, stats, warm, progress.training, deadline)
        if rule_error > SITES.most_rule_error and _all_there(first, data):
            reading, reads = _counted(structure, first, number_of_rows(stats))
        else:
            reading: Reading = NodeReading(structure, stats)
    if warm is not None:
        family = family_of(warm)
    given = settings, structure, family
    beside = progress.training, deadline
    if sample is not None:
        few = workable(settings, structure, stats, sample.count)
        known = fit_reading(*given, few, sample, warm, *beside)
    if again is not None:
        stats = workable(settings, structure, stats, reading.count)
    fitted = fit_reading(*given, stats, reading, warm, *beside, known)
    if again is not None and isinstance(fitted.report, SiteReport):
        fitted.report.reads = again.reads
    if reads and isinstance(fitted.report, SiteReport):
        fitted.report.rule_error, fitted.report.reads = 0.0, 1 + len(reads)
    if isinstance(reading, NodeReading):
        fitted = _without_rule_error(fitted, reading, settings, data, first, beside)
    if first is None or len(first.y) == 0:
        return fitted
    return _judged(fitted, structure, first, reading.count)


def _without_rule_error(
    fitted: Fit[Any],
    reading: NodeReading,
    settings: Settings,
    data: FitData,
    rows: Observed | None,
    beside: tuple[Watch | None, Deadline | None],
) -> Fit[Any]:
    """Return a fit whose bound is not wrong by the sums that stand for the rows.

    Where it may be, sums on finer cells take their place, if there are such, or else the rows, if
    all of them are at hand; if not, a note says how far it may be off.
    """
    family, report = cast(Family, fitted.likelihood), cast(SiteReport, fitted.report)
    if not report.rule_error > SITES.most_rule_error:
        return fitted
    structure, stats, warm = data.structure, reading.stats, State(fitted.kernel, fitted.likelihood)
    given = settings, structure, family, stats
    used = reading.suited(fitted.posterior.engine.statistics.grids)
    if data.stats.grids != used.stats.grids:
        finer = NodeReading(structure, data.stats, per_cell=None)
        if finer.error(family, fitted.posterior) <= SITES.most_rule_error:
            known = fitted if report.interrupted else None  # which is not to be trained further
            return fit_reading(*given, finer, None if known else warm, *beside, known)
    if not _all_there(rows, data):
        if report.rule_error > SITES.noted_rule_error:
            report.notes.append(
                "sums per cell stand for the rows, and the bound may be wrong by up to "
                f"{report.rule_error:.2g} nats for it: take more basis functions, or fit arrays, "
                "whose rows can be read again"
            )
        return fitted
    by_rows, reads = _counted(structure, rows, reading.count)
    found = by_rows.found(family, fitted.posterior, fitted.posterior.engine.statistics)
    value = reading.found(family, fitted.posterior, fitted.posterior.engine.statistics).value
    report.rule_error = abs(found.value - value)
    report.reads += len(reads)
    if report.rule_error <= SITES.most_rule_error:
        return fitted
    known = fitted if settings.trained else None
    fitted = fit_reading(*given, by_rows, None if known else warm, *beside, known)
    again = cast(SiteReport, fitted.report)
    again.rule_error, again.reads = 0.0, report.reads + len(reads) - 1
    return fitted


def _all_there(rows: Observed | None, data: FitData) -> TypeGuard[Observed]:
    """Return True where all rows of the data are at hand."""
    return rows is not None and len(rows.y) == data.stats.count


def _from_boxes(
    settings: Settings,
    data: FitData,
    stats: Statistics,
    warm: State | None,
    watch: Watch | None,
    deadline: Deadline | None,
) -> tuple[Fit[Any] | None, float]:
    """Return a fit of a large field by boxes of it, and about the error of its bound by sums.

    None is returned where boxes are of no use.
    """
    structure, family = data.structure, data.family
    if settings.automatic or not settings.trained or warm or not isinstance(structure, Field):
        return None, nan
    part = excerpt(structure.layout.kernel, structure.plan(settings, stats), stats)
    if part is None:
        return None, nan
    assert family is not None
    reading = NodeReading(structure, part)
    given = settings, structure, family
    known = fit_reading(*given, part, reading, None, watch, deadline, None, SITES.box_rounds)
    error = cast(SiteReport, known.report).rule_error * number_of_rows(stats) / reading.count
    return replace(known, posterior=None), error


def _counted(
    structure: Structure[Any], rows: Observed, count: int
) -> tuple[RowReading, list[None]]:
    """Return a reading of rows, and a list that gets longer with every read."""
    reads: list[None] = []

    def blocks() -> tuple[Observed]:
        reads.append(None)
        return (rows,)

    return RowReading(structure, blocks, count), reads


def _judged(fitted: Fit[Any], structure: Structure[Any], rows: Observed, count: int) -> Fit[Any]:
    """Return a fit whose report says how the likelihood suits rows."""
    freedom = fitted.posterior.factored.forms().freedom / count
    found = quality(cast(Family, fitted.likelihood), structure, fitted.posterior, rows, freedom)
    return replace(fitted, report=judged(fitted.report, found))


def _with_noise(
    settings: Settings,
    data: FitData,
    again: RowsAgain,
    watch: Watch | None,
    deadline: Deadline | None,
    first: Observed | None,
) -> Fit[Any]:
    """Fit a model whose noise is a process of its own."""
    y = None if first is None else first.y
    if is_constant(data.stats, y):
        raise ValueError(
            f"y is constant (n_samples = {data.stats.count}): there is no noise whose variance "
            "could vary. Take likelihood=Gaussian() with optimizer=None and a noise_variance."
        )
    check_variation(settings, data.stats, y)
    fitted = fit_noise(settings, data, again, watch, deadline)
    if isinstance(fitted.report, SiteReport):
        fitted.report.reads = again.reads
    if first is None or len(first.y) == 0:
        return fitted
    levels = fitted.noise_process.moments(data.structure, first.points)
    known = first._replace(extra=levels)
    fitted = _judged(fitted, data.structure, known, number_of_rows(data.stats))
    std = np.exp(0.5 * levels[:, 0])
    report = replace(
        cast(SiteReport, fitted.report),
        noise=(float(std.min()), float(np.median(std)), float(std.max())),
    )
    if std.max() < NOISE.same * std.min():
        report.findings.append(
            "the noise is about the same everywhere: Gaussian() would do, and is faster"
        )
    return replace(fitted, report=report)


def fit_reading(
    settings: Settings,
    structure: Structure[Any],
    family: Family,
    stats: Statistics,
    reading: Reading,
    warm: State | None = None,
    watch: Watch | None = None,
    deadline: Deadline | None = None,
    known: Fit[Any] | None = None,
    most_rounds: int = SITES.most_rounds,
) -> Fit[Any]:
    """Fit a model to a reading of data, on cells no finer than those of ``stats``.

    A fit to a sample of them that is ``known`` is where training begins. It takes ``most_rounds``.
    """
    problem = Problem(
        structure.layout.kernel,
        cast(Likelihood, family),
        structure.degrees(settings, stats),
        "elbo",
        settings.optimizer or LBFGS(),
        watch,
        deadline=deadline,
    )
    try:
        return fit_sites(structure, settings, problem, stats, reading, warm, known, most_rounds)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"No Gaussian process suits {family!r} with {structure.layout.kernel!r}: {error} Give "
            "the kernel other scales to begin with, or the likelihood other numbers."
        ) from error
