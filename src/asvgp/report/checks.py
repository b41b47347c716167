"""Findings about a fit: one for each question, in words with numbers, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.diagnostics.below_zero import below_zero
from asvgp.diagnostics.calibration import Calibration, calibration
from asvgp.diagnostics.summary import Summary
from asvgp.likelihoods import Family
from asvgp.plot.neighbours import Correlations, in_order
from asvgp.plot.view import View
from asvgp.policies import VERDICT
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.leave_one_out import LeaveOneOut
from asvgp.report.sums import NOT_KNOWN, CellMeans, Remainder, cell_means, remainder
from asvgp.report.text import at, counted, fixed, listed, share, shown

PROBLEM, LOOK, FINE, NONE = 3, 2, 1, 0
WORDS = {PROBLEM: "Problem", LOOK: "Please check", FINE: "Fine", NONE: "Not checked"}
_LOST = 0.9  # of the prior standard deviation, beyond which a prediction is but the prior
_SLACK = 0.2  # of a correlation
_BANDS = "Are the bands as wide as they should be?"
_STRUCTURE = "Is there structure left in the residuals?"
_EXPLAINED = "How much does the model explain?"


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a fit."""

    level: int  # PROBLEM, LOOK, FINE or NONE
    question: str
    answer: str  # with numbers
    number: float | None = None  # that the level follows from, where there is one

    @property
    def word(self) -> str:
        """The level in words."""
        return WORDS[self.level]


class Neighbours(NamedTuple):
    """Correlation of the residuals of one output with those near them."""

    correlations: Correlations
    # Of several inputs, the one along which residuals next to each other are the most correlated,
    # whatever the others are, and that correlation.
    along: tuple[str, float] | None = None


class Evidence(NamedTuple):
    """Evidence to judge a fit by."""

    family: Family | None  # the likelihood, where it is not Gaussian
    z: Array  # standardised residuals of observations or means of cells, (outputs, n), or none
    left: LeaveOneOut | None
    neighbours: list[Neighbours]  # of every output
    near: str  # what neighbours are
    leverage: float  # degrees of freedom that a residual takes on average
    cells: CellMeans | None
    rest: Remainder


def gather(
    view: View, summary: Summary, left: LeaveOneOut | None, columns: Mapping[int, Array]
) -> Evidence:
    """Return residuals of the data if they are given, otherwise those from the statistics.

    Neighbours are those in ``columns``, the inputs of the data, whatever the order of the rows.
    """
    posterior, family = view.posterior, view.family
    rest, cells = NOT_KNOWN, None
    if family is None:  # the sums of other likelihoods are not of y
        rest = remainder(posterior, summary.degrees_of_freedom)
        cells = cell_means(posterior) if isinstance(posterior, ChainPosterior) else None
    if left is not None:
        z = np.atleast_2d(left.z)
        found = [_near(view, row, columns) for row in z]
        each = summary.degrees_of_freedom / max(summary.observations, 1)
        return Evidence(family, z, left, found, view.neighbour, each, cells, rest)
    if cells is None:
        return Evidence(family, np.empty((0, 0)), None, [], "", 0.0, None, rest)
    found = [Neighbours(in_order(row[np.isfinite(row)])) for row in cells.z]
    each = summary.degrees_of_freedom / max(len(cells.x), 1)
    return Evidence(family, cells.z, None, found, "lag (cells)", each, cells, rest)


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
        *_below_zero(view, summary, evidence),
        _basis(view, summary),
        _training(view, summary),
        _determined(summary),
        _resolved(view),
        *_explained(view, summary, evidence),
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
    why, basis = "There are too few residuals.", ""
    if evidence.left is None:
        why = (
            "The model does not contain the single observations. Give the data (X and y) to judge "
            "each of them by a prediction from all the others."
        )
        basis = (
            " Judged by the means of cells, each predicted without itself from the statistics in "
            f"the model. {why}"
        )
    rows = [row[np.isfinite(row)] for row in evidence.z]
    if not rows or min(len(row) for row in rows) < 2:
        return [Finding(NONE, question, why) for question in (_BANDS, _STRUCTURE)]
    what = "cell means" if evidence.left is None else "observations"
    scores = "standardised residuals" if evidence.family is None else "normal scores"
    found = [calibration(row, None, evidence.family) for row in rows]
    return [
        _worst([_of_bands(one, what, basis, scores) for one in found]),
        _worst([_of_neighbours(near, evidence) for near in evidence.neighbours]),
    ]


def _below_zero(view: View, summary: Summary, evidence: Evidence) -> list[Finding]:
    """Find intervals below zero, where no observation is; without data, as the summary found."""
    left, question = evidence.left, "Are the bands where observations can be?"
    if evidence.family is not None or not view.transform.identity:
        return []
    if left is None:
        return [Finding(LOOK, question, f"{text}.") for text in summary.findings]
    y, low = left.mean + left.residual, left.mean - 1.96 * left.std
    y, low = np.ravel(y), np.ravel(low)
    there = np.isfinite(y) & np.isfinite(low)
    if not there.any():
        return []
    lowest, rounding = y[there].min(), 1e-9 * np.abs(y[there]).max()
    if lowest < -rounding:
        return []
    below = float(np.mean(low[there] < 0.0))
    text = below_zero(below, zeros=bool(lowest <= rounding))
    return [Finding(LOOK, question, f"{text}.", below)] if text else []


def _worst(found: list[Finding]) -> Finding:
    """Return the worst finding of several outputs, with its number."""
    worst = max(range(len(found)), key=lambda output: (found[output].level, -output))
    where = f" Output {worst} is the worst of {len(found)}." if len(found) > 1 else ""
    return replace(found[worst], answer=found[worst].answer + where)


def _of_bands(
    found: Calibration, what: str, basis: str, scores: str = "standardised residuals"
) -> Finding:
    """Judge how far bands are from what they say, beyond chance."""
    n, inside = found.count, found.coverage[0.95]
    notes = [note for note in found.notes if not note.startswith("neighbours")]
    far = abs(inside - 0.95) > max(0.05, 4.0 * found.coverage_error[0.95])
    wide = abs(np.log(max(found.variance, 1e-300))) > max(np.log(1.5), 4.0 * (2.0 / n) ** 0.5)
    level = LOOK if notes else FINE
    if far or wide or abs(found.mean) > max(0.5, 4.0 * n**-0.5):
        level = PROBLEM
    text = f"{notes[0][0].upper()}{notes[0][1:]}. " if notes else ""
    text += (
        f"The 95 % band holds {100 * inside:.1f} % of {n:,} {what}, the 50 % band "
        f"{100 * found.coverage[0.5]:.1f} %; {scores} have variance "
        f"{fixed(found.variance)} (1 is right) and mean {fixed(found.mean)}."
    )
    return Finding(level, _BANDS, text + basis, inside)


def _of_neighbours(near: Neighbours, evidence: Evidence) -> Finding:
    """Judge the correlation of neighbours, beyond what leaving out itself causes.

    Of a right model, left-out residuals at i and j have the correlation
    ``-c_ij / sqrt((1 - h_i) (1 - h_j))`` with ``c_ij`` the posterior covariance of f there over
    the noise variance, at most ``sqrt(h_i h_j)`` of the leverages: no less than ``-h / (1 - h)``.
    """
    (found, pairs), along = near
    if not len(found):
        return Finding(NONE, _STRUCTURE, "There are too few residuals.")
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
        text += " The data have structure that the kernel or the basis does not follow."
    elif first > max(0.05, 2.0 * chance):
        level = LOOK
        text += " The data have a little structure that the kernel or the basis does not follow."
    elif first < -max(0.05, 2.0 * chance):
        h = min(evidence.leverage, 0.5)
        lowest = -h / (1.0 - h)
        text += (
            " Leaving out makes neighbours negatively correlated, since each is predicted with "
            f"the help of the other; a model with {shown(evidence.leverage, 2)} degrees of freedom "
            f"per {'cell' if evidence.left is None else 'observation'} has up to about "
            f"{fixed(lowest)} from that."
        )
        # The leverages differ from place to place, and with them what leaving out does.
        if first < lowest - max(_SLACK, 2.0 * chance):
            level = LOOK
            text += (
                " This is more: errors of neighbours alternate, or the kernel is rougher than "
                "what the data hold."
            )
    return Finding(level, _STRUCTURE, text, first)


def _explained(view: View, summary: Summary, evidence: Evidence) -> list[Finding]:
    """Judge how much of y the model accounts for, and whether the rest is noise."""
    if view.family is not None:
        return _of_likelihood(summary)
    explained, ratio = evidence.rest
    worst = int(np.nanargmin(explained)) if np.isfinite(explained).any() else 0
    part, left = float(explained[worst]), float(ratio[worst])
    of = f" of output {worst}" if len(explained) > 1 else ""
    text = (
        f"The posterior mean accounts for {share(part)} of the variance of {view.transform}{of} at "
        f"the data. What is left has {fixed(left)} times the variance of the noise in the model (1 "
        "is right)."
    )
    level = FINE if 0.8 < left < 1.25 else LOOK
    if part < 0.02:
        level, text = LOOK, text + " That is next to nothing: is there a signal at all?"
    return [Finding(level, _EXPLAINED, text, part)]


def _of_likelihood(summary: Summary) -> list[Finding]:
    """Judge how a likelihood that is not Gaussian suits the data."""
    suits = "Does the likelihood suit the data?"
    if not summary.looked_at:
        why = "There were no rows in memory to judge it by."
        return [Finding(NONE, _EXPLAINED, why), Finding(NONE, suits, why)]
    part, of = summary.deviance_explained, ""
    if summary.looked_at < summary.observations:
        of = f" of {summary.looked_at:,} rows"
    text = f"The model accounts for {share(part)} of the deviance{of} under {summary.likelihood}."
    level = LOOK if part < 0.02 else FINE
    if level == LOOK:
        text += " That is next to nothing: is there a signal at all?"
    words = [f"{finding[0].upper()}{finding[1:]}." for finding in summary.findings]
    scatter = ""
    if np.isfinite(summary.scatter):
        ratio = fixed(summary.scatter)
        scatter = f"The variance of y is {ratio} times what it expects (1 is right)."
    answer = " ".join([*words, scatter]).strip()
    return [
        Finding(level, _EXPLAINED, text, part),
        Finding(LOOK if words else FINE, suits, answer or "There is nothing against it."),
    ]


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
        return Finding(FINE, question, "There was no training: the hyperparameters are as given.")
    text = f"{report.message[0].upper()}{report.message[1:]}. It took {report.evaluations:,} "
    text += f"evaluations of the bound, {report.seconds:.2f} s."
    level = FINE if report.converged and not report.interrupted else PROBLEM
    if report.at_bounds:
        level = max(level, LOOK)
        one = len(report.at_bounds) == 1
        text += f" The {listed(report.at_bounds)} "
        text += (
            "is at its bound; without it, the estimate would be outside."
            if one
            else "are at their bounds; without these, the estimates would be outside."
        )
    if report.notes:
        level = max(level, LOOK)
        text += " " + " ".join(f"{note[0].upper()}{note[1:]}." for note in report.notes)
    return Finding(level, question, text, float(report.evaluations))


def _determined(summary: Summary) -> Finding:
    """Judge whether the data determine the hyperparameters."""
    question = "Do the data determine the hyperparameters?"
    rows = [(f"{row['component']} {row['name']}", row) for row in summary.hyperparameters]
    for note, text in (
        ("no maximum", "Not all: the objective has no maximum with respect to"),
        ("off maximum", "Training ended more than half a standard error from the maximum in"),
    ):
        if names := [name for name, row in rows if row["note"] == note]:
            more = [f"{len(names) - 3} more"] if len(names) > 3 else []
            return Finding(LOOK, question, f"{text} {listed([*names[:3], *more])}.")
    known = [(row["log_error"], name) for name, row in rows if np.isfinite(row["log_error"])]
    if not known:
        return Finding(FINE, question, "None were estimated.")
    most, name = max(known)
    factor = float(np.exp(1.96 * most))
    number = shown(factor, 3 if most > 0.01 else 5)
    text = f"The least certain is {name}, to within a factor of {number} (95 % interval)."
    return Finding(LOOK if most > 0.7 else FINE, question, text, factor)


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
    code = f"{summary.missing_code}." if summary.missing_code else ""
    text = f"{summary.missing:,} of {rows:,} rows ({share(part)}) had no value and were left out."
    if not summary.missing:
        text = "" if code else f"None of {rows:,} rows."
    level = LOOK if code or part > 0.1 else FINE
    return Finding(level, "Are data missing?", f"{code} {text}".strip(), part)


def _known(view: View) -> list[Finding]:
    """Find stretches about which the data say next to nothing."""
    posterior = view.posterior
    if not isinstance(posterior, ChainPosterior):
        return []
    place, grid = view.line, posterior.grid
    x = grid.lower + (np.arange(grid.cells) + 0.5) * grid.spacing
    variance = posterior.of_splines(x, True, None)[1]
    lost = variance > _LOST**2 * view.posterior.kernel.prior_variance
    question = "Is there a stretch without information?"
    if not lost.any():
        return [Finding(FINE, question, "No: the data are informative everywhere.", 0.0)]
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
