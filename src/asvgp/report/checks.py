"""Findings about a fit: one for each question, in words with numbers, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.diagnostics.calibration import Calibration, calibration
from asvgp.diagnostics.summary import Summary
from asvgp.plot.neighbours import Correlations, in_order
from asvgp.plot.view import View
from asvgp.policies import VERDICT
from asvgp.posterior.leave_one_out import LeaveOneOut
from asvgp.report.sums import CellMeans, Remainder, cell_means, remainder
from asvgp.report.text import at, counted, fixed, listed, share, shown

PROBLEM, LOOK, FINE, NONE = 3, 2, 1, 0
WORDS = {PROBLEM: "Problem", LOOK: "Look at this", FINE: "Fine", NONE: "Not checked"}
_LOST = 0.9  # of the prior standard deviation, beyond which a prediction is but the prior
_SLACK = 0.2  # of a correlation


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a fit.

    Attributes
    ----------
    level : int
        `PROBLEM`, `LOOK`, `FINE` or `NONE`.
    question : str
    answer : str
        With numbers.
    number : float or None
        The one that the level follows from; None where there is none.
    """

    level: int
    question: str
    answer: str
    number: float | None = None

    @property
    def word(self) -> str:
        """The level in words."""
        return WORDS[self.level]


class Neighbours(NamedTuple):
    """Correlation of the residuals of one output with those near them.

    Attributes
    ----------
    correlations : Correlations
    along : tuple or None
        Of several inputs, the one along which residuals next to each other are the most
        correlated, whatever the others are, and that correlation.
    """

    correlations: Correlations
    along: tuple[str, float] | None = None


class Evidence(NamedTuple):
    """Evidence to judge a fit by.

    Attributes
    ----------
    z : ndarray of shape (outputs, n)
        Standardised residuals: of observations, or of the means of cells; empty where neither
        can be had.
    what : str
        What they are of.
    left : LeaveOneOut or None
    neighbours : list of Neighbours
        Of every output.
    near : str
        What neighbours are.
    leverage : float
        Degrees of freedom that a residual takes on average.
    cells : CellMeans or None
    rest : Remainder
    """

    z: Array
    what: str
    left: LeaveOneOut | None
    neighbours: list[Neighbours]
    near: str
    leverage: float
    cells: CellMeans | None
    rest: Remainder


def gather(
    view: View, summary: Summary, left: LeaveOneOut | None, columns: Mapping[int, Array]
) -> Evidence:
    """Return residuals of the data if they are given, otherwise those from the statistics.

    Parameters
    ----------
    view : View
    summary : Summary
    left : LeaveOneOut or None
        Of the data, if they were given.
    columns : dict
        Their inputs: neighbours are so in these, whatever the order of the rows.
    """
    rest = remainder(view.posterior, summary.degrees_of_freedom)
    cells = cell_means(view.posterior) if view.is_line else None
    if left is not None:
        z = np.atleast_2d(left.z)
        found = [_near(view, own, columns) for own in z]
        each = summary.degrees_of_freedom / max(summary.observations, 1)
        return Evidence(z, "observations", left, found, view.neighbour, each, cells, rest)
    if cells is None:
        return Evidence(np.empty((0, 0)), "", None, [], "", 0.0, None, rest)
    found = [Neighbours(in_order(own[np.isfinite(own)])) for own in cells.z]
    each = summary.degrees_of_freedom / max(len(cells.x), 1)
    return Evidence(cells.z, "cell means", None, found, "lag (cells)", each, cells, rest)


def _near(view: View, z: Array, columns: Mapping[int, Array]) -> Neighbours:
    keep = np.isfinite(z)
    z = z[keep]
    if len(z) < 2:
        return Neighbours(Correlations(np.empty(0), 1))
    places = {c: np.asarray(x)[keep] for c, x in columns.items()}
    along = _along(view, z, places) if len(view.inputs) > 1 else None
    return Neighbours(view.correlations(z, places), along)


def _along(view: View, z: Array, places: Mapping[int, Array]) -> tuple[str, float]:
    """Return the single input along which neighbours are the most correlated.

    In many inputs the nearest neighbours are too far away to show this.
    """
    mixed = np.random.default_rng(0).permutation(len(z))  # rows of equal input in no order
    found = [
        (float(in_order(z[mixed][np.argsort(places[c][mixed], kind="stable")], 1).values[0]), c)
        for c in view.inputs
    ]
    most, column = max(found)
    return view.naming(column), most


def findings(view: View, summary: Summary, evidence: Evidence) -> list[Finding]:
    """Return the answers to all questions, the worst first, then in the order of importance."""
    found = [
        *_residuals(evidence),
        _basis(view, summary),
        _training(view, summary),
        _determined(summary),
        _resolved(view),
        _explained(evidence),
        _missing(summary),
        *_known(view),
    ]
    return sorted(found, key=lambda finding: -finding.level)


def headline(found: list[Finding]) -> str:
    """Return the findings in a sentence."""
    problems = sum(f.level == PROBLEM for f in found)
    looks = sum(f.level == LOOK for f in found)
    if not problems and not looks:
        unchecked = sum(f.level == NONE for f in found)
        rest = f" {counted(unchecked, 'question')} could not be checked." if unchecked else ""
        return f"Nothing to object to.{rest}"
    parts = [counted(problems, "problem")] if problems else []
    parts += [counted(looks, "thing") + " to look at"] if looks else []
    return f"{listed(parts)}."


# ---------------------------------------------------------------- residuals


def _residuals(evidence: Evidence) -> list[Finding]:
    """Judge the bands and the structure left over, for the worst output."""
    bands = "Are the bands as wide as they should be?"
    structure = "Is there structure left in the residuals?"
    why = (
        "Single observations are not in the model: give the data (X and y) to have each of them "
        "predicted without itself."
    )
    if evidence.left is not None:
        why = "There are too few residuals."
    rows = [row[np.isfinite(row)] for row in evidence.z]
    if not rows or min(len(row) for row in rows) < 2:
        return [Finding(NONE, bands, why), Finding(NONE, structure, why)]
    judged = [calibration(row) for row in rows]
    worst = max(range(len(rows)), key=lambda o: (_width_level(judged[o]), -o))
    where = f" Output {worst} is the worst of {len(rows)}." if len(rows) > 1 else ""
    cells = evidence.left is None
    basis = (
        f" Judged by the means of {len(rows[worst]):,} cells, each predicted without itself from "
        f"the statistics in the model. {why}"
        if cells
        else ""
    )
    return [
        Finding(
            _width_level(judged[worst]),
            bands,
            _of_bands(judged[worst], cells) + where + basis,
            judged[worst].coverage[0.95],
        ),
        _structure(evidence, structure),
    ]


def _width_level(found: Calibration) -> int:
    """Return the level for how far bands are from what they say, beyond chance."""
    n = found.count
    spread = 4.0 * (2.0 / n) ** 0.5
    off95 = abs(found.coverage[0.95] - 0.95)
    far = off95 > max(0.05, 4.0 * found.coverage_error[0.95])
    wide = abs(np.log(max(found.variance, 1e-300))) > max(np.log(1.5), spread)
    if far or wide or abs(found.mean) > max(0.5, 4.0 * n**-0.5):
        return PROBLEM
    notes = [note for note in found.notes if not note.startswith("neighbours")]
    return LOOK if notes else FINE


def _of_bands(found: Calibration, cells: bool) -> str:
    notes = [note for note in found.notes if not note.startswith("neighbours")]
    text = f"{notes[0][0].upper()}{notes[0][1:]}. " if notes else ""
    what = "cell means" if cells else "observations"
    return (
        f"{text}The 95 % band holds {100 * found.coverage[0.95]:.1f} % of {found.count:,} {what}, "
        f"the 50 % band {100 * found.coverage[0.5]:.1f} %; standardised residuals have variance "
        f"{fixed(found.variance)} (1 is right) and mean {fixed(found.mean)}."
    )


def _structure(evidence: Evidence, question: str) -> Finding:
    """Judge the structure left in the residuals of the worst output."""
    judged = [_of_neighbours(one, evidence, question) for one in evidence.neighbours]
    worst = max(range(len(judged)), key=lambda o: (judged[o].level, -o))
    where = f" Output {worst} is the worst of {len(judged)}." if len(judged) > 1 else ""
    return replace(judged[worst], answer=judged[worst].answer + where)


def _of_neighbours(near: Neighbours, evidence: Evidence, question: str) -> Finding:
    """Judge the correlation of neighbours, beyond what leaving out itself causes.

    Of a right model, left-out residuals at i and j have the correlation
    ``-c_ij / sqrt((1 - h_i) (1 - h_j))`` with ``c_ij`` the posterior covariance of f there over
    the noise variance, at most ``sqrt(h_i h_j)`` of the leverages: no less than ``-h / (1 - h)``.
    """
    (found, pairs), along = near
    if not len(found):
        return Finding(NONE, question, "There are too few residuals.")
    first, chance = float(found[0]), 2.0 * pairs**-0.5
    text = (
        f"The correlation of neighbouring residuals is {fixed(first)}; chance alone gives about "
        f"±{chance:.2g}."
    )
    if along is not None and along[1] > max(first, 0.05, 2.0 * chance):
        name, first = along
        text += f" Of those next to each other along {name} alone it is {fixed(first)}."
    level = FINE
    if first > max(0.2, 2.0 * chance):
        level = PROBLEM
        text += " The kernel or the basis does not resolve what the data hold."
    elif first > max(0.05, 2.0 * chance):
        level = LOOK
        text += " There is a little that kernel or basis does not resolve."
    elif first < -max(0.05, 2.0 * chance):
        h = min(evidence.leverage, 0.5)
        lowest = -h / (1.0 - h)
        text += (
            " Leaving out makes neighbours negatively correlated, since each is predicted with "
            f"the help of the other; a model with {shown(evidence.leverage, 2)} degrees of freedom "
        )
        text += f"{'per cell' if evidence.left is None else 'per observation'} has "
        text += f"up to about {fixed(lowest)} from that."
        # The leverages differ from place to place, and with them what leaving out does.
        if first < lowest - max(_SLACK, 2.0 * chance):
            level = LOOK
            text += (
                " This is more: errors of neighbours alternate, or the kernel is rougher than "
                "what the data hold."
            )
    return Finding(level, question, text, first)


def _explained(evidence: Evidence) -> Finding:
    """Judge how much of y the model accounts for, and whether the rest is noise."""
    explained, ratio = evidence.rest
    worst = int(np.nanargmin(explained)) if np.isfinite(explained).any() else 0
    part, left = float(explained[worst]), float(ratio[worst])
    of = f" of output {worst}" if len(explained) > 1 else ""
    text = (
        f"The posterior mean accounts for {share(part)} of the variance of y{of} at the data. What "
        f"is left has {fixed(left)} times the variance of the noise in the model (1 is right)."
    )
    level = FINE if 0.8 < left < 1.25 else LOOK
    if part < 0.02:
        level, text = LOOK, text + " That is next to nothing: is there a signal at all?"
    return Finding(level, "How much does the model explain?", text, part)


# ---------------------------------------------------------------- the model


def _basis(view: View, summary: Summary) -> Finding:
    basis, each = summary.basis, summary.observations * summary.outputs
    nearly = LOOK if basis.penalty < VERDICT.nearly_enough else PROBLEM
    level = FINE if basis.penalty < VERDICT.enough else nearly
    answer = {FINE: "Yes. ", LOOK: "Nearly. "}.get(level, basis.verdict[0].upper())
    if level == PROBLEM:
        answer += basis.verdict[1:] + ". "
    answer += (
        f"The splines miss {share(basis.missed_share)} of the prior variance at the data, which "
        f"costs {shown(basis.penalty, 2)} nats per observation (below {VERDICT.enough} is enough); "
        "twice "
        f"the resolution would regain {shown(basis.gain, 2)}."
    )
    gap = (summary.evidence_upper_bound - summary.elbo) / each
    if np.isfinite(gap):
        answer += (
            f" The log evidence of the exact process lies within {shown(gap, 2)} nats an "
            "observation above the bound, by an upper bound that is cautious."
        )
    tried = len(view.gp.resolution_)
    if tried > 1:
        answer += f" {tried} resolutions were tried."
    return Finding(level, "Is the basis large enough?", answer, float(basis.penalty))


def _training(view: View, summary: Summary) -> Finding:
    report = view.gp.optimization_
    question = "Did training end well?"
    if view.gp.optimizer is None:
        return Finding(
            FINE, question, "There was none: the hyperparameters are as they were given."
        )
    text = f"{report.message[0].upper()}{report.message[1:]}. It took {report.evaluations:,} "
    text += f"evaluations of the bound, {report.seconds:.2f} s."
    level = FINE if report.converged and not report.interrupted else PROBLEM
    if report.at_bounds:
        level = max(level, LOOK)
        text += f" At a bound: {listed(report.at_bounds)}; the data would have it beyond."
    if report.notes:
        level = max(level, LOOK)
        text += " " + " ".join(f"{note[0].upper()}{note[1:]}." for note in report.notes)
    return Finding(level, question, text, float(report.evaluations))


def _determined(summary: Summary) -> Finding:
    """Judge whether the data determine the hyperparameters."""
    question = "Do the data determine the hyperparameters?"
    rows = summary.hyperparameters
    named = [f"{row['component']} {row['name']}" for row in rows]
    lost = [n for n, row in zip(named, rows, strict=True) if row["note"] == "no maximum"]
    off = [n for n, row in zip(named, rows, strict=True) if row["note"] == "off maximum"]
    known = [(row["log_error"], n) for n, row in zip(named, rows, strict=True)]
    known = [pair for pair in known if np.isfinite(pair[0])]
    if lost:
        text = f"Not all: the objective has no maximum in {_some(lost)}."
        return Finding(LOOK, question, text)
    if off:
        text = f"Training ended more than half a standard error from the maximum in {_some(off)}."
        return Finding(LOOK, question, text)
    if not known:
        return Finding(FINE, question, "None were estimated.")
    most, name = max(known)
    factor = float(np.exp(1.96 * most))
    told = shown(factor, 3 if most > 0.01 else 5)
    text = f"The least certain is {name}, to within a factor of {told} (95 % interval)."
    return Finding(LOOK if most > 0.7 else FINE, question, text, factor)


def _some(names: list[str], most: int = 3) -> str:
    """Return a few names of many."""
    more = len(names) - most
    return listed([*names[:most], f"{more} more"] if more > 0 else names)


def _resolved(view: View) -> Finding:
    """Judge the shortest lengthscale of all processes, in knot spacings."""
    least, name = min(view.lengths())
    level = FINE if least >= 4.0 else LOOK if least >= 1.0 else PROBLEM
    text = (
        f"The shortest lengthscale, of component {name}, is {shown(float(least), 3)} knot spacings "
        "(4 or more is good; of oscillators, a quarter period)."
    )
    if level == PROBLEM:
        text += " Splines cannot follow a process that changes between knots: raise num_basis."
    return Finding(level, "Do the knots resolve the kernel?", text, float(least))


def _missing(summary: Summary) -> Finding:
    rows = summary.missing + summary.observations
    part = summary.missing / rows if rows else 0.0
    if not summary.missing:
        return Finding(FINE, "Are data missing?", f"None of {rows:,} rows.", 0.0)
    text = f"{summary.missing:,} of {rows:,} rows ({share(part)}) had no value and were left out."
    return Finding(LOOK if part > 0.1 else FINE, "Are data missing?", text, part)


def _known(view: View) -> list[Finding]:
    """Find stretches about which the data say next to nothing."""
    if not view.is_line:
        return []
    place, grid = view.line, view.posterior.grid
    x = grid.lower + (np.arange(grid.cells) + 0.5) * grid.spacing
    variance = view.posterior.of_splines(x, True, None)[1]
    lost = variance > _LOST**2 * view.posterior.kernel.prior_variance
    question = "Is there a stretch without information?"
    if not lost.any():
        return [Finding(FINE, question, "No: everywhere the data narrow the prior down.", 0.0)]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], lost.astype(np.int8), [0]])))
    starts, stops = edges[::2], edges[1::2]
    longest = int(np.argmax(stops - starts))
    ends = [grid.lower + grid.spacing * float(e) for e in (starts[longest], stops[longest])]
    part = float(np.mean(lost))
    text = (
        f"In {share(part)} of the domain the band is nearly as wide as without any data; the "
        f"longest such stretch goes from {at(place, ends[0])} to {at(place, ends[1])}."
    )
    return [Finding(LOOK if part > 0.01 else FINE, question, text, part)]
