"""Training from further starting points, which is never worse than without them.

Further starts may find a better optimum on the first resolution that leads to a worse one on the
last. So training without them is carried to its end, too, and the better of the two is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from asvgp.training.fit import Fit
from asvgp.training.problem import Problem


def with_restarts(problem: Problem, train: Callable[[Problem], Fit]) -> Fit:
    """Return the better of two fits, without restarts and with them, by what training maximises.

    The counts and the time of its report are those of both.
    """
    once = train(replace(problem, settings=replace(problem.settings, restarts=0)))
    if not problem.settings.restarts or once.report.interrupted:
        return once
    more = train(problem)

    def reached(fit: Fit) -> float:
        return fit.elbo if problem.objective == "elbo" else fit.evidence

    kept, other = (more, once) if reached(more) > reached(once) else (once, more)
    kept.report.evaluations += other.report.evaluations
    kept.report.seconds += other.report.seconds
    for name, seconds in other.timings.items():
        kept.timings[name] = kept.timings.get(name, 0.0) + seconds
    return kept
