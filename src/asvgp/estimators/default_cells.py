"""The finest cells of the default model of a field, and the objective that it is trained on.

The lower bound pays for the variance that splines miss in units of the noise; the evidence of the
spline field takes it for noise. So the bound is trained on where few splines make it tight, else
the evidence, on cells that miss less than neighbouring data differ by. There are never more
functions than rows have use for, nor than a bound has time for: how long it takes depends on the
shape of the grid, and a field that is long along one input takes little (`work`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.model.room import cells_beyond
from asvgp.policies import FIELD, SAMPLE
from asvgp.training.correlation import correlation
from asvgp.training.sample_evidence import Sample, SampleEvidence, Trained


def cells_for(
    best: Trained, sample: Sample, rows: int, objective: str = "auto"
) -> tuple[str, Array, float]:
    """Return the objective, widths of cells along every input, and the noise to add for them.

    Widths are in ranges of the inputs, noise in variances of y. An objective other than "auto" is
    kept.
    """
    inputs, few = len(sample.units), _useful(rows)
    most = min(few, SAMPLE.elbo_functions[inputs])
    tight = [_widths_of_bound(best, sample, loss) for loss in SAMPLE.elbo_losses]
    fitting = [widths for widths in tight if functions(best, sample, widths) <= most]
    if objective == "auto":
        objective = "elbo" if fitting else "evidence"
    widest = np.full(inputs, SAMPLE.widest_width)
    if objective == "elbo":
        widths = [*fitting, tight[-1]][0]
    else:
        widths, widest = _widths_of_evidence(best, sample, rows), _widest_of_evidence(sample)
    while _excess(best, sample, widths, rows) > 1.0:
        if np.all(widths.min(axis=0) >= widest):
            break
        widths = _wider(best, sample, widths, rows, widest)
    cells = np.minimum(widths.min(axis=0), widest)
    return objective, cells, _missed(best, sample, cells) if objective == "evidence" else 0.0


def _excess(best: Trained, sample: Sample, widths: Array, rows: int) -> float:
    """Return functions, or the work of a bound, in units of what may be had: the larger one.

    The prior of a kernel over all inputs jointly is factorised as well.
    """
    share, inputs = functions(best, sample, widths) / _useful(rows), widths.shape[1]
    most = SAMPLE.least_work + SAMPLE.work_per_row[inputs] * rows
    most = min(most, SAMPLE.most_work[inputs])
    sides = _sides(best, sample, widths)
    total = work(sides)
    for term, own in zip(best.model.terms, sides, strict=True):
        if len(term[0].columns) == inputs:
            total += work([own])
    return max(share, total / most)


def _wider(best: Trained, sample: Sample, widths: Array, rows: int, widest: Array) -> Array:
    """Return widths that are wider along the input where that costs least for what it saves.

    None becomes wider where the finest are as wide as ``widest`` along it.
    """
    now, missed = _excess(best, sample, widths, rows), _missed(best, sample, widths.min(axis=0))
    found, least = 1.1 * widths, np.inf
    for column in range(widths.shape[1]):
        other = widths.copy()
        other[:, column] *= 1.1
        saved = np.log(now / _excess(best, sample, other, rows))
        cost = _missed(best, sample, other.min(axis=0)) - missed
        if saved > 0.0 and widths[:, column].min() < widest[column] and cost / saved < least:
            found, least = other, cost / saved
    return found


def affordable(best: Trained, sample: Sample, rows: int) -> bool:
    """Return True if cells that suit the evidence take no more than may be had."""
    widths = _widths_of_evidence(best, sample, rows)
    return _excess(best, sample, widths, rows) <= 1.5  # somewhat wider cells lose little


class OnCells(NamedTuple):
    """What a model lacks on the cells that it can have."""

    missed: float  # about the variance that its splines miss, in variances of y
    lost: float  # evidence that it loses on the sample if that is noise


def on_cells(best: Trained, sample: Sample, rows: int, objective: str = "auto") -> OnCells:
    """Return what a model misses and loses on the cells that so many rows may have."""
    chosen, cells, _ = cells_for(best, sample, rows, objective)
    missed = _missed_of_terms(best, sample, cells)
    if chosen == "elbo":
        return OnCells(sum(missed), 0.0)
    theta, place = best.theta.copy(), -1
    for size, own in zip(best.model.sizes, missed, strict=True):
        place += size
        theta[place] = np.log(max(np.exp(theta[place]) - own, SAMPLE.variances[0]))
    theta[-1] = np.log(np.exp(theta[-1]) + sum(missed))
    evidence = SampleEvidence(best.model, sample.judged, sample.units)
    before, after = (evidence(each, slopes=False)[0] for each in (best.theta, theta))
    return OnCells(sum(missed), before - after)


class Side(NamedTuple):
    """Splines of a term along one input."""

    cells: float
    degree: float  # 0 where the term is constant: one function is alive everywhere

    def crossing(self, share: float) -> tuple[float, float]:
        """Return how many are alive on a share of the input, and how many on it alone."""
        if not self.degree:
            return 1.0, float(share == 1.0)
        if share == 1.0:
            return self.cells + self.degree, self.cells + self.degree
        ends = 1.0 if share == 0.5 else 2.0  # that are not ends of the data
        alone = self.cells * share + (1.0 - ends) * self.degree
        return max(alone, 0.0) + ends * self.degree, max(alone, 0.0)


def _sides(best: Trained, sample: Sample, widths: Array) -> list[list[Side]]:
    """Return the splines of every term if terms have cells of these widths.

    Those of joint kernels go on beyond the data.
    """
    found, finest = [], np.minimum(widths.min(axis=0), SAMPLE.widest_width)
    for (factors, _), own in zip(_by_term(best, sample), widths, strict=True):
        sides = [Side(1.0, 0.0)] * len(finest)
        for column, nu, length, joint in factors:
            joined = max(min(own[column], 0.5) / finest[column], 1.0)  # two cells at the least
            width = finest[column] * 2.0 ** int(np.log2(joined))
            grown = FIELD.joint_growing * length / sqrt(2.0 * nu)
            beyond = cells_beyond(grown / width, nu) if joint else 0
            sides[column] = Side(1.0 / width + 2.0 * beyond, nu + 1.5 + 0.5 * joint)
        found.append(sides)
    return found


def functions(best: Trained, sample: Sample, widths: Array) -> float:
    """Return about how many functions there are if terms have cells of these widths."""
    sides = _sides(best, sample, widths)
    return sum(prod(side.crossing(1.0)[0] for side in term) for term in sides)


def work(terms: Sequence[Sequence[Side]]) -> float:
    """Return about how many operations a bound with its gradient takes, from sides of every term.

    The grid is halved where that cuts fewest functions, as the factorisation does it, until boxes
    are small. Functions that a cut eliminates are coupled to all that cross the sides of their box.

    Examples
    --------
    >>> long, short = Side(cells=400.0, degree=2.0), Side(cells=20.0, degree=2.0)
    >>> work([[long, short]]) < 0.8 * work([[Side(90.0, 2.0), Side(90.0, 2.0)]])
    True
    """
    share, boxes, total = [1.0] * len(terms[0]), 1.0, 0.0
    while True:
        both = [[side.crossing(s) for side, s in zip(term, share, strict=True)] for term in terms]
        alone = sum(prod(inside for _, inside in term) for term in both)
        across = sum(prod(alive for alive, _ in term) for term in both) - alone
        cuts = [
            sum(
                max(term[d].degree, 1.0) * prod(x for e, (_, x) in enumerate(own) if e != d)
                for term, own in zip(terms, both, strict=True)
            )
            for d in range(len(share))
        ]
        leaf = alone <= SAMPLE.leaf_functions
        cut = alone if leaf else min(cuts)
        total += boxes * (cut**3 + 3.0 * cut**2 * across + 3.0 * cut * across**2)
        if leaf:
            return total
        share[int(np.argmin(cuts))] /= 2.0
        boxes *= 2.0


def _useful(rows: int) -> float:
    """Return how many functions so many rows have use for."""
    return SAMPLE.fewest_functions + SAMPLE.functions_per_row * rows


def _widths_of_bound(best: Trained, sample: Sample, loss: float) -> Array:
    """Return widths of cells, (terms, inputs), on which the lower bound loses so much."""
    noise = float(np.exp(best.theta[-1]))
    return _widths(best, sample, 2.0 * noise * loss / len(best.model.terms))


def _widths_of_evidence(best: Trained, sample: Sample, rows: int) -> Array:
    """Return widths of cells that suit the evidence: they miss less than neighbours differ by.

    There are no more of them than data can tell apart.
    """
    apart = np.exp(best.theta[-1])
    for factors, variance in _by_term(best, sample):
        alike = [
            correlation(nu, 2.0 * nu * np.array([np.min(sample.gaps[c] / length) ** 2]))[0][0]
            for c, nu, length, _ in factors
        ]
        apart += variance * (1.0 - min(alike))
    widths = np.maximum(
        _widths(best, sample, FIELD.tolerated_scatter * float(apart)),
        sample.gaps / (SAMPLE.places_share * FIELD.cells_per_place),
    )
    cells = widths.min(axis=0)
    many = np.prod(1.0 / cells) / (SAMPLE.places_share * FIELD.cells_per_datum * rows)
    widths = np.maximum(widths, cells * max(many, 1.0) ** (1.0 / len(cells)))
    # Longer terms are still taken to join cells.
    finest = widths <= widths.min(axis=0)
    return np.where(finest, np.minimum(widths, _widest_of_evidence(sample)), widths)


def _widest_of_evidence(sample: Sample) -> Array:
    """Return the widest of the finest cells along every input under the evidence.

    A part of the rows tells long lengths badly: cells suit shorter ones, but are no finer than the
    places.
    """
    if sample.judged is sample.learnt:  # all rows
        return np.full(len(sample.gaps), SAMPLE.widest_width)
    return np.clip(sample.gaps, SAMPLE.widest_of_evidence, SAMPLE.widest_width)


def _widths(best: Trained, sample: Sample, allowed: float) -> Array:
    """Return widths of cells, (terms, inputs), that miss no more variance of a term than allowed.

    Splines on cells of width h miss about ``(h / lengthscale)**(2 nu)`` of it. A term is as wide as
    the data along inputs that it is not over.
    """
    widths = np.ones((len(best.model.terms), len(sample.units)))
    for own, (factors, variance) in zip(widths, _by_term(best, sample), strict=True):
        for column, nu, length, _ in factors:
            share = (allowed / (SAMPLE.missed * variance)) ** (0.5 / nu)
            own[column] = min(1.0, min(share, SAMPLE.widest_cell) * length)
    return widths


def _missed(best: Trained, sample: Sample, cells: Array) -> float:
    """Return about the variance that splines on cells of these widths miss of all terms."""
    return sum(_missed_of_terms(best, sample, cells))


def _missed_of_terms(best: Trained, sample: Sample, cells: Array) -> list[float]:
    """Return about the variance that splines on cells of these widths miss of every term."""
    missed = []
    for factors, variance in _by_term(best, sample):
        parts = [SAMPLE.missed * (cells[c] / length) ** (2.0 * nu) for c, nu, length, _ in factors]
        missed.append(variance * min(sum(parts), 1.0))
    return missed


def _by_term(
    best: Trained, sample: Sample
) -> Iterator[tuple[list[tuple[int, float, float, bool]], float]]:
    """Yield the inputs of every term, and its variance.

    Each input comes with the smoothness and the length along it, and whether the kernel is joint.
    """
    place, values = 0, np.exp(best.theta)
    for term in best.model.terms:
        factors = []
        for factor in term:
            own = values[place : place + factor.lengths] * factor.unit(sample.units)
            lengths = np.broadcast_to(own, len(factor.columns)) / sample.units[[*factor.columns]]
            joint = len(factor.columns) > 1
            factors += [
                (c, factor.nu, float(x), joint)
                for c, x in zip(factor.columns, lengths, strict=True)
            ]
            place += factor.lengths
        yield factors, float(values[place])
        place += 1
