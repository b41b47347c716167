"""How well a likelihood that is not Gaussian suits the rows that were looked at.

The rows are those that a fit has in memory anyway: all of them where they came as arrays, the first
block of a source that is read in several.
"""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.data.response import Response
from asvgp.estimators.observations import FamilyObservations
from asvgp.likelihoods import (
    Bernoulli,
    Binomial,
    Exponential,
    Family,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    ZeroInflatedPoisson,
)
from asvgp.policies import VERDICT
from asvgp.structures.observed import Observed
from asvgp.structures.structure import Structure


class Quality(NamedTuple):
    """What a fit says of the rows that were looked at."""

    rows: int  # number of rows that were looked at
    explained: float  # share of their deviance
    scatter: float  # of y about its mean, as a multiple of what the likelihood says
    findings: tuple[str, ...]


def deviance_explained(family: Family, rows: Observed, mean: Array) -> float:
    """Return one less the deviance of means, relative to that of one mean, or rate, for all."""
    y, extra, weight = rows.y, rows.extra, rows.weight
    size = family.response(np.zeros(len(y)), extra)  # of counts, as exposures and trials are
    if rows.offset is not None and family.inverse_link == "exp":
        size = size * np.exp(rows.offset)
    share = np.ones(len(y)) if weight is None else weight
    null = np.full(len(y), share @ y / share.sum())
    if family.inverse_link != "identity":
        null = size * (share @ y / (share @ size))
    missed, whole = (share @ family.deviance(y, each, extra) for each in (mean, null))
    return float(1.0 - missed / whole) if whole > 0.0 else 0.0


def quality(
    family: Family, structure: Structure[Any], posterior: Any, rows: Observed, freedom: float
) -> Quality:
    """Judge a family by rows; ``freedom`` are the degrees of freedom that a row takes."""
    rows = _fewer(rows, VERDICT.rows_looked_at)
    mean, variance = structure.predict(posterior, rows.points)
    new = FamilyObservations(False, Response(family=family), rows.extra, rows.offset)
    fitted, _ = new.moments(mean, variance)
    seen = mean[0] if rows.offset is None else mean[0] + rows.offset
    centre = family.response(seen, rows.extra)
    spread = family.variance(seen, np.zeros(len(seen)), rows.extra)
    share = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.where(spread > 0.0, (rows.y - centre) ** 2 / spread, 0.0)
    # a row's own share of the fit, of which squares are smaller
    scatter = float(share @ squares) / float(share.sum()) / max(1.0 - freedom, 0.05)
    scatter = scatter if _scatters(family, rows) else nan
    found = [
        *_of_classes(family, rows, centre),
        *_of_scatter(family, rows, scatter, centre),
        *_of_parameters(family, rows),
        *_of_events(family, structure, rows),
    ]
    explained = deviance_explained(family, rows, fitted[0])
    return Quality(len(rows.y), explained, scatter, tuple(found))


def _scatters(family: Family, rows: Observed) -> bool:
    """Return True where the variance of y about its mean says something about a likelihood."""
    if "event" in family.takes and rows.extra is not None:
        return bool(np.all(rows.extra))  # of times that ended early, the mean is another
    if isinstance(family, Binomial):
        return rows.extra is not None and float(rows.extra.max()) > 1.0
    return not isinstance(family, Bernoulli | Ordinal)


def _fewer(rows: Observed, most: int) -> Observed:
    """Return every so-manieth row, so that there are not more than that."""
    step = -(-len(rows.y) // most)
    if step <= 1:
        return rows
    kept = np.arange(0, len(rows.y), step)
    extra, weight, offset = (None if part is None else part[kept] for part in rows[2:])
    return Observed(rows.points.rows(kept), rows.y[kept], extra, weight, offset)


def _of_scatter(family: Family, rows: Observed, scatter: float, mean: Array) -> list[str]:
    """Say where y scatters clearly more, or less, than a family without dispersion allows."""
    counts = isinstance(family, Poisson | ZeroInflatedPoisson)
    shares, times = isinstance(family, Binomial), isinstance(family, Exponential)
    if not (counts or shares or times) or np.isnan(scatter):
        return []
    if counts and not np.any(rows.y > 0.0):  # which say nothing of their scatter
        return []
    # Pearson's statistic of counts has a variance of 2 + 1 / mean a row.
    typical = float(np.mean(mean)) if counts else 1.0
    error = np.sqrt((2.0 + 1.0 / max(typical, 1e-3)) / len(rows.y)) if counts else 0.0
    error = np.sqrt(6.0 / len(rows.y)) if times else error
    clear = max(VERDICT.clear_scatter - 1.0, VERDICT.clear_errors * float(error))
    name = type(family).__name__
    if scatter > 1.0 + clear:
        remedy = (
            "try NegativeBinomial(), because bands of new observations are too narrow"
            if counts
            else "the trials of a row are not independent, and bands of new observations are too "
            "narrow"
            if shares
            else "try Gamma() or Weibull()"
        )
        return [f"the variance of y is {scatter:.2g} times what {name} expects: {remedy}"]
    if counts and scatter < 1.0 / (1.0 + clear):
        return [
            f"the variance of the counts is only {scatter:.2g} times what {name} expects: bands of "
            "new observations are too wide"
        ]
    return []


def _of_parameters(family: Family, rows: Observed) -> list[str]:
    """Say where a parameter has become so large, or small, that a simpler family does as well."""
    free = set(family.free)
    if isinstance(family, NegativeBinomial) and "dispersion" in free:
        size = max(float(np.mean(rows.y)), 1.0)
        if family.number("dispersion") > VERDICT.far_dispersion * size:
            return ["the counts are not overdispersed: Poisson() would do, and is faster"]
    elif isinstance(family, StudentT) and "df" in free:
        if family.number("df") > VERDICT.light_tails:
            return ["the noise has no heavy tails: Gaussian() would do, and is faster"]
    elif isinstance(family, ZeroInflatedPoisson) and "inflation" in free:
        least, _ = family.bounds["inflation"]
        if family.number("inflation") < 1.01 * least:
            return ["there are no excess zeros: Poisson() would do, and is faster"]
    return []


def _of_classes(family: Family, rows: Observed, chance: Array) -> list[str]:
    """Say where classes are one, or lie on either side of a line that the field can follow."""
    if not isinstance(family, Bernoulli):
        return []
    first = rows.y == 0.0
    if first.all() or not first.any():
        only = 0 if first.all() else 1
        return [
            f"all y are {only}: how close the predicted probabilities come to {only} depends only "
            "on the kernel"
        ]
    if np.all((chance > 0.5) != first):
        return [
            "the classes are separable: the model puts every row into its class, and only the "
            "kernel's variance keeps probabilities away from 0 and 1"
        ]
    return []


def _of_events(family: Family, structure: Structure[Any], rows: Observed) -> list[str]:
    """Say where counts have no events, or all of them at one place."""
    if family.inverse_link != "exp" or not family.whole:
        return []
    some = np.flatnonzero(rows.y > 0.0)
    if len(some) == 0:
        return ["all counts are zero: the rate is small, and how small depends only on the kernel"]
    columns = structure.columns_at(rows.points.rows(some))
    if len(rows.y) > len(some) and all(np.ptp(np.asarray(x)) == 0.0 for x in columns.values()):
        return [
            "all events are at one place: how fast the rate falls around it depends only on the "
            "kernel"
        ]
    return []


def judged(report: Any, found: Quality) -> Any:
    """Return the report of training with what was found."""
    return replace(
        report,
        looked_at=found.rows,
        explained=found.explained,
        scatter=found.scatter,
        findings=list(found.findings),
    )
