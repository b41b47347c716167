"""One climb: from the best of many starts, or from the optimum of a coarser resolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from asvgp.runtime.interrupts import plain_interrupts
from asvgp.training.objective import Objective
from asvgp.training.optimise import LBFGS, Report, Summit, maximise
from asvgp.training.problem import State


def climb(
    objective: Objective,
    starts: list[State],
    settings: LBFGS,
    attempts: int,
    before: Report,
    warm: State | None = None,
    ranking: Objective | None = None,
    second_look: Callable[[list[State]], list[State]] | None = None,
    agreement: float = 0.0,
) -> tuple[State, Report]:
    """Maximise an objective from the best ``attempts`` of the starts; return the best state.

    Starts are ranked by the objective, or by a cheaper one, ``ranking``. After all attempts,
    ``second_look`` is asked once which of those left to climb from. A start without a gradient
    gives way to the next; where all are such, that is an error. With ``agreement``, starts
    differ in the kernel alone, those with other shares of the variance come first, and no more
    attempts are made once the two best end within so many nats of each other; one that comes to
    the slopes of the best end so far is left there. The counts of the report continue those of
    ``before``. Ctrl-C ends the climb with the best state so far, or ``warm``, and so does the
    problem's deadline, from the first state on.
    """
    report, ends, evaluations = Report(), [], objective.evaluations
    report.interrupt()
    objective.timed = True
    try:
        if agreement:
            starts = _with_one_noise(objective, starts)
        ordered = ranked(ranking or objective, starts)
        if agreement:  # those with the same shares of the variance would agree too easily
            first = {_variances(state): state for state in reversed(ordered)}
            ordered.sort(key=lambda state: first[_variances(state)] is not state)
        queue, left = ordered[:attempts], ordered[attempts:]
        while queue:
            summit = Summit.of(objective) if agreement and ends else None
            try:
                attempt = maximise(objective, queue.pop(0), settings, summit)
            except np.linalg.LinAlgError:
                queue, left = queue + left[:1], left[1:]
                if not queue and not ends:
                    raise
                continue
            if attempt.interrupted or report.interrupted or attempt.objective > report.objective:
                report = attempt
            if attempt.interrupted:
                break
            ends = sorted([*ends, ends[-1] if attempt.met else attempt.objective])
            if len(ends) > 1 and ends[-1] - ends[-2] < agreement:
                queue = []
            if not queue and second_look is not None:
                queue, second_look = second_look(left), None
    except KeyboardInterrupt as stop:
        report.interrupt(stop)
    finally:
        objective.timed = False
    state = objective.best[1] or warm
    if state is None:
        raise KeyboardInterrupt  # before there was anything to keep
    report.evaluations = before.evaluations + objective.evaluations - evaluations
    report.seconds += before.seconds
    return state, report


def _variances(state: State) -> tuple[float, ...]:
    return tuple(part.variance for part in state.kernel.components)


def _with_one_noise(objective: Objective, starts: list[State]) -> list[State]:
    """Return starts that differ in the kernel only, with the noise that suits the best one.

    Training corrects the noise soon, so that kernels need not be tried with all of them.
    """
    likelihoods = list(dict.fromkeys(state.likelihood for state in starts))
    if len(likelihoods) == 1:
        return starts
    kernels = list(dict.fromkeys(state.kernel for state in starts))
    first = ranked(objective, [State(kernel, likelihoods[0]) for kernel in kernels])
    best = ranked(objective, [State(first[0].kernel, other) for other in likelihoods])[0]
    if best.likelihood == first[0].likelihood:
        return first
    return [State(kernel, best.likelihood) for kernel in kernels]


def ranked(objective: Objective, states: list[State]) -> list[State]:
    """Return the distinct states, moved inside the limits, the best first.

    States at which P cannot be factored are left out, unless there are no others.
    """
    if len(states) == 1:
        return states
    states = list(dict.fromkeys(objective.decode(objective.encode(state)) for state in states))
    values = [objective.value_at(state) for state in states]
    order = sorted(range(len(states)), key=lambda i: -values[i])
    finite = [states[i] for i in order if values[i] > -np.inf]
    return finite or states


@contextmanager
def keeping(state: State | None, report: Report) -> Iterator[None]:
    """Let Ctrl-C end a block with a note in the report, if there is a state to keep."""
    try:
        with plain_interrupts():
            yield
    except KeyboardInterrupt as stop:
        if state is None:
            raise
        report.interrupt(stop)
