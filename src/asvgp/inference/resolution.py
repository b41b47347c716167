"""How many basis functions: from coarse to fine until the bound has nothing to gain.

One pass at a fine grid gives every coarser one exactly, so each resolution is trained in
turn, warm-started, until two successive doublings gain less than a tolerance per datum
and the scatter inside cells holds no structure that finer knots could still explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asvgp.inference.bound import lower_bound
from asvgp.inference.optimise import Report
from asvgp.inference.start import State, scatter
from asvgp.inference.train import Problem, climb
from asvgp.stats import Statistics

TOLERANCE = 1e-3  # nats per datum
FIRST, FEWEST, MOST = 256, 1 << 13, 1 << 19  # cells: to start with, and of the finest grid


def finest_cells(x, lower: float, upper: float) -> int:
    """Cells of the finest grid worth accumulating: a few per typical gap between points.

    Where points crowd in a small part of the domain, that is many more than there are
    points; never more than `MOST`.
    """
    sample = np.asarray(x[:: max(1, len(x) // 4096)], dtype=float)
    gaps = np.diff(np.unique(sample))
    gap = float(np.median(gaps)) * len(sample) / len(x) if len(gaps) else upper - lower
    wanted = 4.0 * (upper - lower) / gap
    cells = FEWEST
    while cells < min(wanted, MOST):
        cells *= 2
    return cells


@dataclass(frozen=True)
class Choice:
    """A resolution with what training reached on it.

    ``gain`` is what the last doubling of the resolution gained, in nats per datum.
    """

    stats: Statistics
    state: State
    report: Report
    gain: float = 0.0


def choose(problem: Problem, finest: Statistics, given: State | None = None) -> Choice:
    """Train from coarse to fine and stop where it stops paying.

    With ``given`` the hyperparameters stay as they are and only the resolution is chosen.
    """
    levels = [finest]
    while levels[-1].grid.cells > FIRST:
        levels.append(levels[-1].coarsen())
    scatters = [scatter(level) for level in levels]
    state, report = given, Report()
    reached: list[float] = []
    while levels:
        level = levels.pop()
        if given is None:
            state, report = climb(problem, level, state, report)
        else:
            bound = lower_bound(*given, level, problem.degree)
            report.objective = bound.elbo if problem.objective == "elbo" else bound.fit
        assert state is not None
        reached.append(report.objective)
        data = level.count * len(level.squares)
        gained = (reached[-1] - reached[-3]) / data if len(reached) > 2 else float("inf")
        settled = gained < TOLERANCE and not _hides_structure(scatters)
        if not levels or report.interrupted or settled:
            last = (reached[-1] - reached[-2]) / data if len(reached) > 1 else 0.0
            return Choice(level, state, report, last)
        scatters.pop()
    raise AssertionError("unreachable: the finest level always returns")


def _hides_structure(scatters: list[tuple[float, float]]) -> bool:
    """Whether y scatters clearly less in finer cells (listed first) than in the last's."""
    here, error = scatters[-1]
    return any(
        here - finer > (0.01 + 4.0 * (error**2 + finer_error**2) ** 0.5) * here
        for finer, finer_error in scatters[:-1]
    )
