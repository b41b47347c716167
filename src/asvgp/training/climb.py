"""Training from coarse to fine: cheap where it explores, exact where it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from asvgp.kernels import Kernel, Sum
from asvgp.model.effects import without_effects
from asvgp.policies import LINE
from asvgp.statistics import Statistics
from asvgp.training.optimise import LBFGS, Objective, Report, maximise
from asvgp.training.starts import State, candidates, noise_estimate

Watch = Callable[[int, int, float], None]  # cells, evaluations, objective


@dataclass(frozen=True)
class Problem:
    """What is to be trained, apart from the data."""

    kernel: Kernel
    noise: float | None  # the user's starting value
    degree: int | tuple[int, ...]
    objective: str
    settings: LBFGS
    watch: Watch | None = None
    known_noise: bool = False  # the noise is given and stays


def train(problem: Problem, stats: Statistics, warm: State | None = None) -> tuple[State, Report]:
    """Hyperparameters that maximise the objective on ``stats``, from ``warm`` if given."""
    levels = [stats]
    while warm is None and levels[-1].grid.cells > LINE.cheap_cells:
        levels.append(levels[-1].coarsen(LINE.coarsening_step))
    state, report = warm, Report()
    for level in reversed(levels):
        state, report = climb(problem, level, state, report)
        if report.interrupted:
            break
    assert state is not None
    return state, report


def climb(
    problem: Problem, level: Statistics, warm: State | None, before: Report
) -> tuple[State, Report]:
    """Train on one level, from the best of many starts or from a coarser optimum.

    Without ``warm`` everything is tried; with it, also the states that only the finer
    knots can express. The report continues ``before``'s counts.
    """
    target = Objective(
        problem.kernel,
        level,
        problem.degree,
        problem.objective,
        problem.noise if problem.known_noise else None,
    )
    if problem.watch is not None:
        watch = problem.watch
        target.watch = lambda done, value: watch(level.grid.cells, done, value)
    report = Report(False, "interrupted; the best state so far is kept", interrupted=True)
    suspected = False
    try:
        starts = _ranked(target, _proposals(problem, level, warm))
        attempts = 1 + (problem.settings.restarts if warm is None else 0)
        estimate = noise_estimate(without_effects(problem.kernel, level))
        while starts and attempts:
            attempt = maximise(target, starts.pop(0), problem.settings)
            attempts -= 1
            if attempt.interrupted or report.interrupted or attempt.objective > report.objective:
                report = attempt
            if attempt.interrupted:
                break
            suspicious = not problem.known_noise and _took_signal_for_noise(target, estimate)
            if attempts == 0 and not suspected and suspicious:
                # The long-lengthscale optimum, a common trap: try some of the others.
                starts = [s for s in starts if s[1] <= 1.01 * estimate]
                suspected = True
                attempts = LINE.second_looks[level.grid.cells > LINE.cheap_cells]
    except KeyboardInterrupt:
        pass
    state = target.best[1] or warm
    if state is None:
        raise KeyboardInterrupt  # before there was anything to keep
    report.evaluations = before.evaluations + target.evaluations
    report.seconds += before.seconds
    return state, report


def _took_signal_for_noise(target: Objective, estimate: float) -> bool:
    """Whether the noise found is clearly more than neighbouring points scatter."""
    state = target.best[1]
    return state is not None and state[1] > LINE.noise_trap * estimate


def _proposals(problem: Problem, level: Statistics, warm: State | None) -> list[State]:
    """Starting points for a level."""
    level = without_effects(problem.kernel, level)
    if warm is None:
        return candidates(problem.kernel, problem.noise, level)
    spacing = level.grid.spacing
    lengths = [cells * spacing for cells in LINE.finer_lengths]
    finer = candidates(warm[0], problem.noise, level, lengths)
    if isinstance(problem.kernel, Sum) and len(problem.kernel.components) > 1:
        # What coarser cells did not show may have driven the others far from what was given.
        finer += candidates(
            problem.kernel, problem.noise, level, [*lengths, LINE.finer_length_of_sums * spacing]
        )
        finer += [(kernel, warm[1]) for kernel in _revived(warm, problem.kernel)]
    return [warm, (problem.kernel, warm[1]), *((k, min(n, warm[1])) for k, n in finer)]


def _revived(warm: State, given: Sum) -> list[Sum]:
    """The kernel so far with one component as it was given, as strong as a part of the rest."""
    kernel, noise = warm
    options: list[Sum] = []
    for i, part in enumerate(given.components):
        for variance in (noise, 0.3 * kernel.prior_variance):
            parts = list(kernel.components)
            parts[i] = part.replace_free({"variance": variance})
            options.append(given.replace_parts(parts))
    return options


def _ranked(target: Objective, states: list[State]) -> list[State]:
    """Distinct states by their objective, the best first."""
    states = list(dict.fromkeys(target.decode(target.encode(state)) for state in states))
    values = [target.value(target.bound(state)) for state in states]
    order = sorted(range(len(states)), key=lambda i: -values[i])
    return [states[i] for i in order]
