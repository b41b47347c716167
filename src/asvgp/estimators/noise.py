"""Fits with noise whose variance is a process of its own.

First f is fitted with one noise variance for all rows. Its squared residuals are fitted by the
process g of the log-variance, which finds cells and starting values for it. From there on both are
trained together: to the training of f, the noise is a reading of the rows (`sites/noise.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from asvgp.data.columns import Columns, Table, match
from asvgp.data.settings import Settings
from asvgp.estimators.again import RowsAgain
from asvgp.kernels import Constant, Kernel, Matern32, check_units
from asvgp.likelihoods import Gaussian, Heteroscedastic
from asvgp.model.bound import lower_bound
from asvgp.policies import NOISE, SITES
from asvgp.runtime.interrupts import Deadline
from asvgp.sites.cells import coarser, on_a_line
from asvgp.sites.compress import compressed, in_memory
from asvgp.sites.noise import SQUARES, NoiseProcess, NoiseReading
from asvgp.sites.readings import number_of_rows
from asvgp.sites.settle import Settled, settle
from asvgp.sites.train import fit_sites, state_of
from asvgp.statistics import Statistics
from asvgp.structures.fit_data import FitData, classes_of
from asvgp.structures.observed import Observed
from asvgp.structures.structure import Structure
from asvgp.training.fit import Fit
from asvgp.training.optimise import LBFGS
from asvgp.training.problem import Problem, State, Watch


def fit_noise(
    settings: Settings,
    data: FitData,
    again: RowsAgain,
    watch: Watch | None = None,
    deadline: Deadline | None = None,
) -> Fit[Any]:
    """Fit a model with `Heteroscedastic` noise."""
    structure, stats = data.structure, data.stats
    family = cast(Heteroscedastic, again.family)
    if again.source is not None and again.source.spread:
        raise ValueError(
            f"{family!r} needs its rows in memory, or summed along one input, and these are spread "
            "over workers. Give them as arrays, a frame or files."
        )
    kernel = noise_kernel(family, structure, data.features.count)
    other = noise_structure(kernel, data, settings.trained)
    family, count = replace(family, kernel=other.layout.kernel), number_of_rows(stats)
    problem = Problem(
        structure.layout.kernel,
        Gaussian(1.0),
        structure.degrees(settings, stats),
        "elbo",
        settings.optimizer or LBFGS(),
        watch,
        deadline=deadline,
    )
    if not settings.trained:
        problem = replace(problem, likelihood=Gaussian(_spread(stats)))
    plain = structure.fit(settings, problem, stats, None)
    rows, domain = _few(structure, stats, plain.posterior, again, count)
    if settings.automatic and on_a_line(structure):
        finer = NOISE.finer * plain.posterior.stats.grid.cells
        # steps of two processes on more cells than that take longer than they gain
        most = max(SITES.most_cells, NOISE.cells_per_row * count)
        stats = coarser(stats, min(finer, most))
    reading = NoiseReading(structure, other, rows, count)
    settings_g = _settings(settings, structure, other, domain)
    state = State(plain.kernel, state_of(plain.kernel, family).likelihood)
    fitted, posterior = None, plain.posterior
    for _ in range(NOISE.turns):
        begun, noise = _noise_of(settings_g, other, reading, posterior, family, problem)
        if fitted is not None and noise.bound <= reading.noise_bound + SITES.settled_turn * count:
            break
        family, reading.noise = begun, noise
        state = State(state.kernel, state_of(state.kernel, family).likelihood)
        anew = replace(problem, likelihood=state.likelihood)
        fitted = fit_sites(structure, settings, anew, stats, reading, state)
        family, posterior = cast(Any, fitted.likelihood), fitted.posterior
        state = State(fitted.kernel, fitted.likelihood)
        found = reading.found(family, posterior, posterior.engine.statistics)
        reading.noise, reading.noise_bound = found.noise, found.noise.bound
        missed = lower_bound(found.noise.posterior.factored, "elbo", derivatives=False).missed
        enough = 0.5 * missed < SITES.settled_turn * count
        if enough or not settings.trained or not settings.automatic:
            break
    assert fitted is not None
    assert reading.noise is not None
    process = NoiseProcess(other, reading.noise.posterior)
    return replace(fitted, noise_process=process)


def noise_kernel(family: Heteroscedastic, structure: Structure[Any], width: int) -> Kernel:
    """Return the kernel of the log-variance: the given one, or one over the inputs of f."""
    if family.kernel is not None:
        return family.kernel
    if width == 1:
        return Matern32() + Constant()
    over, names = structure.layout.over, structure.layout.names
    dims: list[Any] = [column if names is None else names[column] for column in over]
    parts: list[Any] = [Matern32(dim=dim) for dim in dims]
    kernel = parts[0]
    for part in parts[1:]:
        kernel = kernel * part if len(parts) <= 3 else kernel + part
    return kernel + Constant()


def noise_structure(kernel: Kernel, data: FitData, trained: bool) -> Structure[Any]:
    """Return the structure of the log-variance, over columns that the process of f is over."""
    structure, features = data.structure, data.features
    names, width = features.names, features.count
    empty = np.zeros((1, width))
    table = Table(empty if names is None else Columns(names, list(empty.T)))
    layout = match(kernel, table, whole=False)
    known = {*structure.layout.used, *structure.layout.linear}
    if unknown := {*layout.used, *layout.linear} - known:
        listed = ", ".join(str(names[c]) if names else str(c) for c in sorted(unknown))
        raise ValueError(
            f"The noise kernel {kernel!r} is over column {listed} of X, which the kernel of f does "
            f"not use: add it there, too, for example + Linear({listed})."
        )
    timed = structure.timed
    check_units(layout.kernel, set(timed) & {*layout.used}, not trained)
    axes = tuple(timed.get(column) for column in layout.used)
    return classes_of(layout)[-1](layout, axes)


def _spread(stats: Statistics) -> float:
    """Return the variance of y."""
    mean = float(stats.sums[0]) / stats.weight
    return max(float(stats.squares[0]) / stats.weight - mean**2, 1e-300)


def _few(
    structure: Structure[Any], stats: Statistics, posterior: Any, again: RowsAgain, count: int
) -> tuple[Observed, tuple[float, float] | None]:
    """Return the rows in memory, or as few as the cells of f need, and their domain then."""
    blocks = again.reading(stats.count, count).blocks  # pyright: ignore[reportAttributeAccessIssue]
    if not on_a_line(structure) or structure.layout.linear:
        return in_memory(blocks()), None
    bins = NOISE.bins_per_cell * posterior.stats.grid.cells
    bins = min(max(bins, NOISE.least_bins), NOISE.most_bins)
    if stats.count < NOISE.worth * bins:
        return in_memory(blocks()), None
    domain = stats.grid.lower, stats.grid.upper
    return compressed(blocks(), *domain, bins), domain


def _settings(
    settings: Settings,
    structure: Structure[Any],
    other: Structure[Any],
    domain: tuple[float, float] | None,
) -> Settings:
    """Return the settings of the process of the noise."""
    given: Any = settings.domain
    if domain is not None and given is None:
        axis = structure.axis
        given = domain if axis is None else axis.span(*domain)
    elif given is not None and other.layout.over != structure.layout.over:
        pairs = dict(zip(structure.layout.over, given, strict=False))
        given = tuple(pairs[column] for column in other.layout.over)
        given = given[0] if other.layout.single else given
    kernel, basis = other.layout.kernel, settings.num_basis
    if isinstance(basis, tuple) and len(basis) != len(other.layout.over):
        basis = max(basis)
    return replace(settings, kernel=kernel, num_basis=basis, domain=given, degree=None, spacing=())


def _noise_of(
    settings: Settings,
    other: Structure[Any],
    reading: NoiseReading,
    posterior: Any,
    family: Heteroscedastic,
    problem: Problem,
) -> tuple[Heteroscedastic, Settled]:
    """Return the likelihood, and the log-variance, that suit a posterior of f."""
    squares = reading.squares(posterior)
    squares = np.maximum(squares, 1e-12 * float(np.mean(squares)))
    logs = np.log(squares) + 1.27  # less the mean of log of a squared standard normal
    stats = other.empty(settings, reading.points, logs, "measures")
    if settings.automatic and on_a_line(other):
        stats = coarser(stats, max(NOISE.least_cells, reading.count / NOISE.rows_per_cell))
    of_squares = reading.of_squares(squares)
    degrees = other.degrees(settings, stats)
    task = replace(problem, kernel=family.kernel, likelihood=SQUARES, degree=degrees)
    fitted = fit_sites(other, settings, task, stats, of_squares)
    family = replace(family, kernel=fitted.kernel)
    last: Any = fitted.posterior
    now = settle(of_squares, SQUARES, last, last.kernel, last.stats, NOISE.settled)
    return family, now
