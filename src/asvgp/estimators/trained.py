"""Training on the sums of the data: which likelihood, transform and starting points.

What a user sees of an estimator is in `asvgp.estimators.regressor`, how hyperparameters climb in
`asvgp.training`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from asvgp.data.extremes import check_extremes
from asvgp.data.settings import Settings
from asvgp.estimators.choice import chosen_transform
from asvgp.estimators.families import fit_family
from asvgp.estimators.ingest import Addition, check_variation
from asvgp.likelihoods import Gaussian
from asvgp.policies import SAMPLE
from asvgp.runtime.interrupts import Deadline
from asvgp.runtime.parallel import one_blas_thread
from asvgp.runtime.progress import Progress
from asvgp.structures.fit_data import FitData
from asvgp.training.fit import Fit, first_bound
from asvgp.training.optimise import LBFGS
from asvgp.training.problem import Problem, State
from asvgp.training.restarts import with_restarts
from asvgp.training.starts import signal_power


def trained(
    settings: Settings,
    data: FitData,
    warm: State | None = None,
    fresh: Addition | None = None,
    begin: float | None = None,
) -> tuple[FitData, Fit]:
    """Return the data with the transform that was chosen, and the model fitted to them.

    Parameters
    ----------
    settings : Settings
    data : FitData
    warm : State, optional
        Where training begins: what it led to before data were added.
    fresh : Addition, optional
        The rows that ``data`` have just come from, where these are all.
    begin : float, optional
        When the call began whose ``max_time`` counts, by `time.perf_counter`.
    """
    data, fitted = _trained(settings, data, warm, fresh, begin)
    fitted.report.missing_code = data.code
    return data, fitted


def _trained(
    settings: Settings,
    data: FitData,
    warm: State | None,
    fresh: Addition | None,
    begin: float | None,
) -> tuple[FitData, Fit]:
    """Train, whatever the likelihood."""
    if data.stats.count == 0:
        raise ValueError("There are no observations left to fit.")
    if settings.kernel is None:
        settings = settings.with_kernel(data.layout.given)
    deadline = _deadline(settings.max_time, begin)
    progress = Progress(settings.progress)
    if data.family is not None:
        again, first = (None, None) if fresh is None else (fresh.again, fresh.first)
        with progress, one_blas_thread:
            return data, fit_family(settings, data, again, warm, progress, deadline, first)
    checked = data if len(data.transforms) == 1 else data.chosen(0, "")
    sample = None if fresh is None else fresh.sample
    check_variation(settings, checked.stats, sample, fresh is not None)
    _check_extremes(settings, checked)
    problem = _problem(settings, data, progress, deadline)
    with progress, one_blas_thread:
        return _with_gaussian_noise(settings, data, problem, warm)


def _problem(
    settings: Settings, data: FitData, progress: Progress, deadline: Deadline | None
) -> Problem:
    """Return what is to be trained, with Gaussian noise."""
    noise = settings.noise_variance
    known = settings.noise_scale if data.known_noise and not data.scaled else None
    return Problem(
        data.layout.kernel,
        Gaussian(known or noise or 1.0),
        data.structure.degrees(settings, data.stats),
        data.objective if settings.objective == "auto" else settings.objective,
        settings.optimizer or LBFGS(),
        progress.training,
        from_user=noise is not None,
        fixed_likelihood=known is not None,
        deadline=deadline,
    )


def _with_gaussian_noise(
    settings: Settings, data: FitData, problem: Problem, warm: State | None
) -> tuple[FitData, Fit]:
    """Choose the transform and train."""
    structure = data.structure

    def coarsely(data: FitData) -> tuple[State, float]:
        whole = replace(problem, deadline=None)  # of models that are compared
        return first_bound(structure.schedule(settings, whole, data.stats))

    data, begun = chosen_transform(data, coarsely)
    begun = begun or warm
    if data.start and settings.trained:
        near = begun or _begun(problem, data)
        with suppress(np.linalg.LinAlgError):  # or training finds a start of its own
            nearby = _near(problem, near, data)
            return data, structure.fit(settings, nearby, data.stats, near)
    if begun is not None or not settings.trained:
        return data, structure.fit(settings, problem, data.stats, begun)

    def train(problem: Problem) -> Fit:
        return structure.fit(settings, problem, data.stats, None)

    return data, with_restarts(problem, train)


def _check_extremes(settings: Settings, data: FitData) -> None:
    """Check hyperparameters that are not trained against the data."""
    grids = data.structure.grids(data.stats)
    widths = [grid.upper - grid.lower for grid in grids] or [1.0]
    noise = None if data.known_noise else settings.noise_variance
    power, kernel = signal_power(data.stats), data.layout.kernel
    check_extremes(kernel, settings.trained, widths, power, noise)


def _begun(problem: Problem, data: FitData) -> State:
    """Return the state that a kernel was chosen with."""
    *values, noise = data.start
    kernel = problem.kernel
    kernel = kernel.replace_free(dict(zip(kernel.parameters, values, strict=True)))
    return State(kernel, problem.likelihoods([noise])[0])


def _near(problem: Problem, state: State, data: FitData) -> Problem:
    """Return the problem of training that begins near its end."""
    given, count = problem.settings, data.stats.observations
    if given == LBFGS():  # nobody asked for more
        few = count <= SAMPLE.whole_rows
        gain = SAMPLE.unnoticed_gain_of_few if few else SAMPLE.unnoticed_gain
        given = replace(given, tolerance=max(given.tolerance, gain * count))
    wider = 1.0 if problem.fixed_likelihood else data.widening
    known = data.information
    return replace(problem, near=state, information=known, settings=given, widening=wider)


def _deadline(seconds: float | None, begin: float | None) -> Deadline | None:
    """Return when training ends, so long after it began."""
    if seconds is None:
        return None
    return Deadline(seconds) if begin is None else Deadline(seconds, begin)
