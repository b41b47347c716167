"""How many basis functions: from coarse to fine until the bound has nothing to gain.

One pass at a fine grid gives every coarser one exactly, so each resolution is trained in
turn, warm-started, until two successive doublings gain less than a tolerance per datum
and the scatter inside cells holds no structure that finer knots could still explain.
"""

from __future__ import annotations

from dataclasses import dataclass

from asvgp.inference.optimise import LBFGS, Objective, Report, maximise
from asvgp.inference.start import State, noise_estimate
from asvgp.inference.train import Watch, train
from asvgp.kernels import Kernel
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


def choose(
    kernel: Kernel,
    noise: float | None,
    finest: Statistics,
    degree: int,
    objective: str,
    settings: LBFGS | None,
    watch: Watch | None = None,
) -> Choice:
    """Train from coarse to fine and stop where it stops paying.

    With ``settings=None`` the hyperparameters stay and only the resolution is chosen.
    """
    levels = [finest]
    while levels[-1].grid.cells > _FIRST:
        levels.append(levels[-1].coarsen())
    scatter = [noise_estimate(level) for level in levels]
    state: State = (kernel, noise if noise is not None else scatter[-1])
    best: Choice | None = None
    reached: list[float] = []
    evaluations, seconds = 0, 0.0
    for depth in range(len(levels) - 1, -1, -1):
        level = levels[depth]
        if settings is None:
            report = Report(
                objective=_value(Objective(kernel, level, degree, objective), state)
            )
        elif best is None:
            state, report = train(kernel, noise, level, degree, objective, settings, watch)
        else:
            target = Objective(kernel, level, degree, objective)
            if watch is not None:
                target.watch = lambda done, value, n=level.grid.cells: watch(n, done, value)
            state, report = _refine(target, state, scatter[depth], settings)
        evaluations += report.evaluations
        seconds += report.seconds
        report.evaluations, report.seconds = evaluations, seconds
        reached.append(report.objective)
        best = Choice(level, state, report)
        if "interrupted" in report.message:
            break
        still_hidden = scatter[depth] - min(scatter[: depth + 1]) > 0.02 * scatter[depth]
        if len(reached) > 2 and not still_hidden:
            tolerance = TOLERANCE * max(level.count, 1) * len(level.squares)
            if reached[-1] - reached[-3] < tolerance:
                break
    assert best is not None
    return best


def _refine(
    target: Objective, state: State, scatter: float, settings: LBFGS
) -> tuple[State, Report]:
    """Continue from a coarser optimum, or from a short scale if that is better already."""
    kernel, noise = state
    spacing = target.stats.grid.spacing
    proposals = [state]
    for short in kernel.candidates([4.0 * spacing], [], kernel.prior_variance):
        proposals.append((short, min(noise, scatter)))
    values = [_value(target, proposal) for proposal in proposals]
    report = maximise(target, proposals[values.index(max(values))], settings)
    best = target.best[1]
    return (best if best is not None else state), report


def _value(target: Objective, state: State) -> float:
    return target.value(target.bound(state))
