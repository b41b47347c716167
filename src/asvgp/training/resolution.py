"""How many basis functions: from coarse to fine until the bound has nothing to gain.

One pass at a fine grid gives every coarser one exactly, so each resolution is trained in
turn, warm-started, until two successive doublings gain less than a tolerance per datum
and the scatter inside cells holds no structure that finer knots could still explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asvgp.kernels import Kernel
from asvgp.model.bound import Bound, both_bounds
from asvgp.model.effects import without_effects
from asvgp.model.prior import data_variance
from asvgp.policies import FIRST, MANY
from asvgp.statistics.one_input import Statistics
from asvgp.training.climb import Problem, climb
from asvgp.training.optimise import Report, is_scale
from asvgp.training.starts import State, scatter

TOLERANCE = 1e-3  # nats per datum
FEWEST, MOST = 1 << 13, 1 << 19  # cells of the finest grid
HELD = 1 << 21  # cells of the finest grid where all points are at hand, and not many


def finest_cells(x, lower: float, upper: float, whole: bool = True) -> int:
    """Cells of the finest grid worth accumulating: some dozen per typical gap between points.

    With fewer, where the field is rough and hardly noisy, what the splines miss would be taken
    for noise. Where points crowd in a small part of the domain, that is many more than there
    are points: up to `MOST`, or to `HELD` if that is sixteen a point. From `MANY` points on it
    is `MOST`, which needs no look at them: where x is not the ``whole`` of the data, there are
    so many.
    """
    if not whole or len(x) > MANY:
        return MOST
    sample = np.asarray(x[:: max(1, len(x) // 4096)], dtype=float)
    gaps = np.diff(np.unique(sample))
    gap = float(np.median(gaps)) * len(sample) / len(x) if len(gaps) else upper - lower
    wanted = 16.0 * (upper - lower) / gap
    most = max(MOST, min(HELD, 16 * len(x)))
    cells = FEWEST
    while cells < min(wanted, most):
        cells *= 2
    return cells


@dataclass(frozen=True)
class Level:
    """What training reached on one resolution.

    Attributes
    ----------
    num_basis : int
        Per component.
    spacing : float
        Between knots.
    elbo, upper_bound : float
        In nats.
    missed_share : float
        Share of the prior variance at the data that the splines miss.
    """

    num_basis: int
    spacing: float
    elbo: float
    upper_bound: float
    missed_share: float

    @classmethod
    def of(
        cls, kernel: Kernel, stats: Statistics, lower: Bound, upper: float = float("nan")
    ) -> Level:
        """The level of statistics whose bounds are known, the upper one or not yet."""
        share = lower.missed / sum(data_variance(part, stats)[0] for part in kernel.components)
        return cls(stats.grid.cells + stats.degree, stats.grid.spacing, lower.elbo, upper, share)


@dataclass(frozen=True)
class Choice:
    """The resolution chosen, with what training reached on it and on the coarser ones."""

    stats: Statistics
    state: State
    report: Report
    levels: list[Level]


def choose(
    problem: Problem, finest: Statistics, given: State | None = None, warm: State | None = None
) -> Choice:
    """Train from coarse to fine and stop where it stops paying.

    With ``given`` the hyperparameters stay as they are and only the resolution is chosen;
    ``warm`` is a state to begin with.
    """
    grids = [finest]
    while grids[-1].grid.cells >= 2 * FIRST:
        grids.append(grids[-1].coarsen())
    scatters = [scatter(without_effects(problem.kernel, stats)) for stats in grids]
    state, report = given or warm, Report()
    reached: list[float] = []
    levels: list[Level] = []
    while True:
        stats = grids.pop()
        if given is None:
            state, report = climb(problem, stats, state, report)
        assert state is not None
        lower, upper = both_bounds(*state, stats, problem.degree)
        if given is not None:
            report.objective = lower.elbo if problem.objective == "elbo" else lower.fit
        reached.append(report.objective)
        levels.append(Level.of(state[0], stats, lower, upper))
        data = stats.count * len(stats.squares)
        gained = (reached[-1] - reached[-3]) / data if len(reached) > 2 else float("inf")
        pinned = problem.objective == "evidence" and any(map(is_scale, report.at_bounds))
        settled = gained < TOLERANCE and not pinned and not _hides_structure(scatters)
        if not grids or report.interrupted or settled:
            last = (reached[-1] - reached[-2]) / data if len(reached) > 1 else 0.0
            if not grids and last > 10.0 * TOLERANCE and not report.interrupted:
                report.notes.append(
                    f"the automatic resolution stopped at {levels[-1].num_basis} basis functions, "
                    f"the last doubling having gained {last:.3g} nats per datum: "
                    + (
                        "finer knots would cut the intervals that y is averaged over"
                        if stats.averaged
                        else "give a larger num_basis if the fit should be finer"
                    )
                )
            return Choice(stats, state, report, levels)
        scatters.pop()


def _hides_structure(scatters: list[tuple[float, float]]) -> bool:
    """Whether y scatters clearly less in finer cells (listed first) than in the last's."""
    here, error = scatters[-1]
    return any(
        here - finer > (0.01 + 4.0 * (error**2 + finer_error**2) ** 0.5) * here
        for finer, finer_error in scatters[:-1]
    )
