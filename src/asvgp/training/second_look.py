"""A second look at a small field: training again with another shape of one of its terms.

Starts have similar lengths along all inputs, and a climb ends at the nearest optimum. One at which
a term is a function of some inputs alone, or at which two terms have changed parts, may be far
better, and far from every start. From the end of a climb it is found by changing one term.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

from asvgp.basis import Grid
from asvgp.kernels import Sum
from asvgp.model.grid import GridEngine
from asvgp.policies import FIELD
from asvgp.statistics import Statistics
from asvgp.training.climb import climb, keeping
from asvgp.training.nearby import grids_by_input
from asvgp.training.objective import Objective
from asvgp.training.optimise import LBFGS, Report
from asvgp.training.problem import State
from asvgp.training.starts import mean_weight


def look_again(
    engine: GridEngine, objective: Objective, found: State, report: Report, settings: LBFGS
) -> tuple[State, Report]:
    """Climb from states with another shape of one term, as long as that is of use.

    The objective is the engine's. The state and the report are those of the best climb, the counts
    of all.
    """
    if report.interrupted:
        return found, report
    grids, count = grids_by_input(found.kernel, engine.plan), engine.statistics.observations
    for _ in range(FIELD.looks):
        others, reached = other_shapes(found, grids, engine.statistics), objective.best[0]
        with keeping(found, report), suppress(np.linalg.LinAlgError):
            best, other = climb(objective, others, settings, 1, report, found)
            if objective.best[0] > reached or other.interrupted:
                found, report = best, other
            report.evaluations, report.seconds = other.evaluations, other.seconds
        if report.interrupted or objective.best[0] - reached <= FIELD.look_gain * count:
            break
    return found, report


def other_shapes(
    state: State, grids: Mapping[int | str | None, Grid], stats: Statistics
) -> list[State]:
    """Return states with another shape of one term, where the others are as training left them.

    A term is tried short and long along each of its inputs: one that is long along an input is a
    function of the others alone, which no start with similar lengths everywhere leads to. Its
    variance is that which training found, or a part of the noise; where it has less, only that,
    with any shape: a term without variance has none.
    """
    kernel, parts, out = state.kernel, state.kernel.components, []
    little = FIELD.look_noise * state.noise / mean_weight(stats)
    for number, part in enumerate(parts):
        spans = {each.dim: grids[each.dim].upper - grids[each.dim].lower for each in part.along}
        now = {each.dim: each.values[0] for each in part.along}
        for lengths in _corners(spans):
            ratios = [lengths[d] / min(now[d], FIELD.look_long * spans[d]) for d in spans]
            alike = np.abs(np.log(ratios)).max() < np.log(FIELD.look_apart)
            if alike and part.variance > little:
                continue  # it would lead back
            length = lengths if len(spans) > 1 else lengths[part.dim]
            for variance in sorted({little, max(part.variance, little)}):
                other = [*parts]
                other[number] = part.candidates([length], [], variance)[0]
                out.append(other)
    whole = (kernel.replace_parts(each) if isinstance(kernel, Sum) else each[0] for each in out)
    return [State(each, state.likelihood) for each in whole]


def _corners(spans: Mapping[Any, float]) -> list[dict[Any, float]]:
    """Return lengths of a term that is short or long along each of its inputs."""
    long = FIELD.look_long
    fractions = {
        each for short in FIELD.look_short for each in product((short, long), repeat=len(spans))
    }
    return [
        {dim: part * span for (dim, span), part in zip(spans.items(), each, strict=True)}
        for each in sorted(fractions)
    ]
