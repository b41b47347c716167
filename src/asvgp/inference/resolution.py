"""How many basis functions: from coarse to fine until the bound has nothing to gain.

One pass at a fine grid gives every coarser one exactly, so each resolution is trained in
turn, warm-started, until two successive doublings gain less than a tolerance per datum
and the scatter inside cells holds no structure that finer knots could still explain.
"""

from __future__ import annotations

from dataclasses import dataclass

from asvgp.inference.bound import lower_bound
from asvgp.inference.optimise import Report
from asvgp.inference.start import State, scatter
from asvgp.inference.train import Problem, climb
from asvgp.stats import Statistics

TOLERANCE = 1e-3  # nats per datum
FINEST = 1 << 17
_FIRST = 256


def finest_cells(count: int) -> int:
    """Cells of the finest grid worth accumulating for this many data."""
    cells = _FIRST
    while cells < min(2 * count, FINEST):
        cells *= 2
    return cells


@dataclass(frozen=True)
class Choice:
    """A resolution with what training reached on it."""

    stats: Statistics
    state: State
    report: Report


def choose(problem: Problem, finest: Statistics, given: State | None = None) -> Choice:
    """Train from coarse to fine and stop where it stops paying.

    With ``given`` the hyperparameters stay as they are and only the resolution is chosen.
    """
    levels = [finest]
    while levels[-1].grid.cells > _FIRST:
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
        gained = reached[-1] - reached[-3] if len(reached) > 2 else float("inf")
        enough = gained < TOLERANCE * level.count * len(level.squares)
        if not levels or report.interrupted or (enough and not _hides_structure(scatters)):
            return Choice(level, state, report)
        scatters.pop()
    raise AssertionError("unreachable: the finest level always returns")


def _hides_structure(scatters: list[tuple[float, float]]) -> bool:
    """Whether y scatters clearly less in finer cells (listed first) than in the last's."""
    here, error = scatters[-1]
    return any(
        here - finer > (0.01 + 4.0 * (error**2 + finer_error**2) ** 0.5) * here
        for finer, finer_error in scatters[:-1]
    )
