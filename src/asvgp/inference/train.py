"""Training from coarse to fine: cheap where it explores, exact where it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from asvgp.inference.optimise import LBFGS, Objective, Report, maximise
from asvgp.inference.start import State, candidates
from asvgp.kernels import Kernel
from asvgp.stats import Statistics

COARSEST = 1024  # cells below which a bound is so cheap that exploring costs nothing
_STEP = 8

Watch = Callable[[int, int, float], None]  # cells, evaluations, objective


def train(
    kernel: Kernel,
    noise: float | None,
    stats: Statistics,
    degree: int,
    objective: str,
    settings: LBFGS,
    watch: Watch | None = None,
) -> tuple[State, Report]:
    """Hyperparameters that maximise the objective on ``stats``.

    Exploration happens on a coarse copy of the statistics; every finer level starts from
    the best of the coarser optimum and of states that only the finer knots can express.
    """
    begin = time.perf_counter()
    levels = [stats]
    while levels[-1].grid.cells > COARSEST:
        levels.append(levels[-1].coarsen(_STEP))
    best: State | None = None
    report = Report()
    evaluations = 0
    for level in reversed(levels):
        target = Objective(kernel, level, degree, objective)
        if watch is not None:
            target.watch = lambda done, value, n=level.grid.cells: watch(n, done, value)
        try:
            starts = _ranked(target, _proposals(kernel, noise, level, best))
            for start in starts[: 1 + (settings.restarts if best is None else 0)]:
                report = maximise(target, start, settings)
                if "interrupted" in report.message:
                    break
        except KeyboardInterrupt:
            report = Report(False, "interrupted; the best state so far is kept")
        evaluations += target.evaluations
        best = target.best[1] or best
        if best is None:
            raise KeyboardInterrupt
        if "interrupted" in report.message:
            break
    report.evaluations = evaluations
    report.seconds = time.perf_counter() - begin
    assert best is not None
    return best, report


def _proposals(
    kernel: Kernel, noise: float | None, level: Statistics, best: State | None
) -> list[State]:
    """All candidates on the coarsest level; later the warm start and the short scales."""
    if best is None:
        return candidates(kernel, noise, level)
    spacing = level.grid.spacing
    _, rough = candidates(kernel, noise, level, count=1)[0]
    short = best[0].candidates([3.0 * spacing, 12.0 * spacing], [], best[0].prior_variance)
    return [best, *((k, min(rough, best[1])) for k in short)]


def _ranked(target: Objective, states: list[State]) -> list[State]:
    """States by their objective, the best first."""
    states = [target.decode(target.encode(state)) for state in states]
    values = [target.value(target.bound(state)) for state in states]
    order = sorted(range(len(states)), key=lambda i: -values[i])
    return [states[i] for i in order]
