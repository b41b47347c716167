"""Starting values of training, estimated from the statistics of a coarse grid.

The signal's variance comes from the second moment of y, the noise from the scatter inside cells
and between neighbours, correlation lengths from the knots and the domain or from what neighbours
suggest, periods from the peaks of the spectrum of the cell means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import pi

import numpy as np

from asvgp.basis import Array, Grid
from asvgp.kernels import Kernel, Sum
from asvgp.model.chain_effects import Design
from asvgp.model.effects import ridge
from asvgp.policies import FIELD, LINE, START
from asvgp.statistics import Statistics
from asvgp.training.problem import Problem, State

# ------------------------------------------------------------ estimates, for any number of inputs


def signal_power(stats: Statistics) -> float:
    """Return the weighted mean of y squared over all outputs."""
    return float(stats.squares.sum() / (stats.weight * len(stats.squares)))


def mean_weight(stats: Statistics) -> float:
    """Return the mean weight: times a variance of y it compares with the noise at weight one."""
    return stats.weight / stats.observations


def signal_spread(stats: Statistics) -> float:
    """Return the weighted variance of y about its mean over all outputs; it is never quite zero."""
    means = stats.centred_sums / stats.weight
    spread = stats.squares.sum() / stats.weight - np.sum(means**2)
    power = signal_power(stats)
    return float(max(spread / len(stats.squares), 1e-12 * power))


def noise_estimate(stats: Statistics) -> float:
    """Return an upper estimate of the noise variance, from what varies at the smallest scales."""
    weight = mean_weight(stats)
    power = weight * signal_power(stats)
    inputs = len(stats.grids)
    if not inputs:
        return FIELD.unknown_noise * power
    lowest = START.least_noise * (weight * signal_spread(stats) if inputs == 1 else power)
    return float(np.clip(scatter(stats)[0], lowest, power))


def scatter(stats: Statistics) -> tuple[float, float]:
    """Return the variance of y within the cells, and its relative standard error.

    It is noise plus whatever signal the cells are too wide to resolve. Where cells hold several
    points, it is the scatter about the cell means; otherwise half the squared differences
    between neighbouring cells, on a line between neighbouring occupied ones.
    """
    inputs, outputs = len(stats.grids), stats.outputs
    weight, sums = stats.cell_weights, stats.targets[(..., *([0] * inputs))]
    occupied = weight > 0.0
    freedom = stats.observations - int(np.count_nonzero(occupied))
    if freedom >= START.shared_cells * stats.observations and freedom > 0:
        total = stats.squares.sum() - np.sum(sums[:, occupied] ** 2 / weight[occupied])
    else:
        if inputs == 1:
            weight, sums = weight[occupied], sums[:, occupied]
        total, freedom = _between_neighbours(weight, sums)
    if not freedom:
        unknown = LINE.unknown_noise if inputs == 1 else FIELD.unknown_noise
        return unknown * signal_power(stats) * mean_weight(stats), 1.0
    return float(total / (freedom * outputs)), (2.0 / (freedom * outputs)) ** 0.5


def _between_neighbours(weight: Array, sums: Array) -> tuple[float, int]:
    """Return the sum of squared differences between neighbouring cells, and the number of pairs."""
    total, pairs = 0.0, 0
    for d in range(weight.ndim):
        w, y = np.moveaxis(weight, d, 0), np.moveaxis(sums, d + 1, 1)
        both = (w[1:] > 0.0) & (w[:-1] > 0.0)
        if not both.any():
            continue
        high, low = w[1:][both], w[:-1][both]
        difference = y[:, 1:][:, both] / high - y[:, :-1][:, both] / low
        total += float(np.sum(difference**2 / (1.0 / high + 1.0 / low)))
        pairs += int(both.sum())
    return total, pairs


def without_effects(kernel: Kernel, stats: Statistics) -> Statistics:
    """Return the statistics of y less what the fixed effects alone explain, by ridge regression.

    Good for magnitudes only: sums over cells and squares are adjusted, columns are not.
    """
    count = len(kernel.effects)
    if not count:
        return stats
    if stats.linear != count:  # those of the only input are polynomials, not columns
        design = Design.of(kernel, stats)
        return stats if design is None else design.residual
    gram = stats.column_gram[-count:, -count:]
    with_y = stats.column_targets[:, -count:].T
    beta, _, squares = ridge(gram, with_y, stats.squares)
    targets = stats.targets
    if len(stats.grids):
        targets = targets - np.moveaxis(stats.cross[..., -count:] @ beta, -1, 0)
    return replace(stats, squares=squares, targets=targets)


# ------------------------------------------------------------ one input


def line_starts(
    problem: Problem, kernel: Kernel, stats: Statistics, lengths: Sequence[float] | None = None
) -> list[State]:
    """Return states worth trying on the statistics of one input, this kernel first.

    ``lengths`` are the correlation lengths to try, by default all that the grid can express.
    """
    power, noises = signal_power(stats), [noise_estimate(stats)]
    if lengths is None:
        spacing, span = stats.grid.spacing, stats.grid.upper - stats.grid.lower
        shortest = min(2.0 * spacing, span / 4.0)
        lengths = np.geomspace(shortest, span / 2.0, LINE.start_lengths).tolist()
        noises.append(START.much_noise * power * mean_weight(stats))
    kernels = [kernel, *kernel.candidates(lengths, spectral_peaks(stats), power)]
    return [State(*pair) for pair in product(kernels, problem.likelihoods(noises))]


def spectral_peaks(stats: Statistics, count: int = 3) -> Array:
    """Return the periods of the highest separate peaks in the spectrum of the cell means."""
    weight, span = stats.cell_weights, stats.grid.upper - stats.grid.lower
    means = np.zeros_like(stats.targets[:, :, 0])
    np.divide(stats.targets[:, :, 0], weight, out=means, where=weight > 0.0)
    spectrum = np.sum(np.abs(np.fft.rfft(means, axis=1)) ** 2, axis=0)
    spectrum[0] = 0.0
    periods = []
    for _ in range(count):
        if not spectrum.any():
            break
        peak = int(np.argmax(spectrum))
        periods.append(span / peak)
        spectrum[max(0, int(0.8 * peak) - 1) : int(1.25 * peak) + 2] = 0.0
    return np.array([period for period in periods if period > 4.0 * stats.grid.spacing])


# ------------------------------------------------------------ several inputs


def field_starts(
    problem: Problem,
    grids: Mapping[int | str | None, Grid],
    stats: Statistics,
    nearby_lengths: Mapping[int, float] | None = None,
    only_nearby: bool = False,
) -> list[State]:
    """Return states worth trying on the statistics of several inputs, the given kernel first.

    Where several terms are over the same inputs, their scales are spread, the longest first or
    last. ``nearby_lengths`` are lengths that neighbours suggest, by input. They are tried beside
    fractions of the domain (unless ``only_nearby``), which are the same along every input or in
    the same proportions as these lengths.
    """
    kernel, plain = _turned(problem.kernel), without_effects(problem.kernel, stats)
    power, nearby = signal_power(plain), nearby_lengths or {}
    spans = {dim: grid.upper - grid.lower for dim, grid in grids.items()}
    share = power / len(kernel.components)
    kernels = [kernel, _with_lengths(kernel, [None] * len(kernel.components), spans, share)]
    inputs = [tuple(factor.dim for factor in part.along) for part in kernel.components]
    alike = {key: [i for i, other in enumerate(inputs) if other == key] for key in inputs}
    for shape in _shapes(spans, nearby, max(map(len, alike.values())), only_nearby):
        forwards: list[float | None] = [1.0] * len(inputs)
        backwards = list(forwards)
        for members in alike.values():
            for place, number in enumerate(members):
                forwards[number] = FIELD.scale_ratio**place
                backwards[members[-1 - place]] = FIELD.scale_ratio**place
        kernels.append(_with_lengths(kernel, forwards, shape, share))
        if backwards != forwards:
            kernels.append(_with_lengths(kernel, backwards, shape, share))
    estimates = [noise_estimate(plain), START.much_noise * power * mean_weight(stats)]
    return [State(*pair) for pair in product(kernels, problem.likelihoods(estimates))]


def _turned(kernel: Kernel) -> Kernel:
    """Return the kernel with rotations that can turn by a quarter either way.

    They are trained between zero and a whole turn, and half a turn is none.
    """
    angles = {
        name: (value - pi / 2.0) % pi + pi / 2.0
        for name, value in zip(kernel.parameters, kernel.values, strict=True)
        if name.endswith("rotation") and name not in kernel.bounds
    }
    return kernel.replace_free(angles) if angles else kernel


def _shapes(
    spans: Mapping[int | str | None, float],
    nearby: Mapping[int, float],
    alike: int,
    only_nearby: bool,
) -> list[dict[int | str | None, float]]:
    """Return lengths to try for the longest of ``alike`` terms over the same inputs, by input."""
    middle = {dim: FIELD.middle_fraction * span for dim, span in spans.items()}
    shapes = []
    if nearby:  # the longest term, or the shortest, is as long as neighbours suggest
        for times in sorted({1.0, FIELD.scale_ratio ** (1 - alike)}):
            shapes.append(middle | {dim: times * length for dim, length in nearby.items()})
        if only_nearby:
            return shapes
    forms = [dict(spans)]
    if nearby:
        shares = np.array([length / spans[dim] for dim, length in nearby.items()])
        shares /= np.exp(np.log(shares).mean())
        in_proportion = zip(nearby, shares, strict=True)
        forms.append(forms[0] | {dim: share * spans[dim] for dim, share in in_proportion})
    for fraction, form in product(FIELD.start_fractions, forms):
        shapes.append({dim: fraction * span for dim, span in form.items()})
    return shapes


def _with_lengths(
    kernel: Kernel,
    fractions: Sequence[float | None],
    spans: Mapping[int | str | None, float],
    variance: float,
) -> Kernel:
    """Return the kernel with lengths that are fractions of spans; None keeps a term's lengths."""
    parts = []
    for part, fraction in zip(kernel.components, fractions, strict=True):
        if fraction is None:
            parts.append(part.replace_free({"variance": variance}))
            continue
        lengths = {dim: fraction * span for dim, span in spans.items()}
        length = lengths if len(part.along) > 1 else lengths[part.dim]
        parts.append(part.candidates([length], [], variance)[0])
    return Sum(tuple(parts), kernel.effects) if isinstance(kernel, Sum) else parts[0]
