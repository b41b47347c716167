"""How many basis functions: from coarse to fine until the bound has nothing to gain.

One pass at a fine grid gives every coarser one exactly, so each resolution is trained in
turn, warm-started, until two successive doublings gain less than a tolerance per datum
and the scatter inside cells holds no structure that finer knots could still explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import Bound, both_bounds
from asvgp.model.chain import ChainEngine
from asvgp.model.effects import without_effects
from asvgp.model.prior import data_variance
from asvgp.policies import DATA, LINE
from asvgp.statistics import Statistics
from asvgp.training.climb import Problem, climb
from asvgp.training.optimise import Report, is_scale
from asvgp.training.starts import State, scatter


def finest_cells(x, lower: float, upper: float, whole: bool = True) -> int:
    """Cells of the finest grid worth accumulating: some dozen per typical gap between points.

    With fewer, where the field is rough and hardly noisy, what the splines miss would be taken
    for noise. Where points crowd in a small part of the domain, that is many more than there
    are points: up to `LINE.most_finest_cells`, or where there are 16 per point to
    `LINE.most_finest_cells_in_memory`. From `DATA.many_rows` points on it is
    `LINE.most_finest_cells`, without a look at them: if x is not the ``whole`` of the data,
    there are so many.
    """
    if not whole or len(x) > DATA.many_rows:
        return LINE.most_finest_cells
    sample = np.asarray(x[:: max(1, len(x) // 4096)], dtype=float)
    gaps = np.diff(np.unique(sample))
    gap = float(np.median(gaps)) * len(sample) / len(x) if len(gaps) else upper - lower
    wanted = LINE.cells_per_gap * (upper - lower) / gap
    most = max(LINE.most_finest_cells, min(LINE.most_finest_cells_in_memory, 16 * len(x)))
    cells = LINE.fewest_finest_cells
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
    while grids[-1].grid.cells >= 2 * LINE.first_cells:
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
        kernel, noise = state
        engine = ChainEngine(kernel, stats, problem.degree)
        lower, upper = both_bounds(engine.factor(kernel, Gaussian(noise)))
        if given is not None:
            report.objective = lower.elbo if problem.objective == "elbo" else lower.fit
        reached.append(report.objective)
        levels.append(Level.of(state[0], stats, lower, upper))
        data = stats.count * len(stats.squares)
        gained = (reached[-1] - reached[-3]) / data if len(reached) > 2 else float("inf")
        pinned = problem.objective == "evidence" and any(map(is_scale, report.at_bounds))
        settled = gained < LINE.settled_gain and not pinned and not _hides_structure(scatters)
        if not grids or report.interrupted or settled:
            last = (reached[-1] - reached[-2]) / data if len(reached) > 1 else 0.0
            if not grids and last > LINE.unsettled_gain and not report.interrupted:
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
        here - finer > (LINE.hidden_structure + 4.0 * (error**2 + finer_error**2) ** 0.5) * here
        for finer, finer_error in scatters[:-1]
    )
