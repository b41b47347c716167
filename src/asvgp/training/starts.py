"""Starting values from the data: where to begin so that nobody has to say.

Everything comes from the statistics of a coarse grid: the signal's variance from the
second moment of y, the noise from the scatter inside cells and between neighbours,
correlation lengths on a logarithmic scale between the knots and the domain, periods from
the peaks of the spectrum of the cell means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.policies import LINE
from asvgp.statistics import Statistics

State = tuple[Kernel, float]  # a kernel and a noise variance


def candidates(kernel: Kernel, noise: float | None, stats: Statistics, lengths=None) -> list[State]:
    """States worth trying on these statistics, the given kernel first.

    ``noise`` is the user's own starting value, or None. ``lengths`` are the correlation
    lengths to try, by default all that the grid can express.
    """
    power, rough = signal_power(stats), noise_estimate(stats)
    if lengths is None:
        spacing, span = stats.grid.spacing, stats.grid.upper - stats.grid.lower
        lengths = np.geomspace(min(2.0 * spacing, span / 4.0), span / 2.0, LINE.start_lengths)
        noises = {rough, 0.3 * power * mean_weight(stats)}
    else:
        noises = {rough}
    if noise is not None:
        noises = {noise}
    kernels = [kernel, *kernel.candidates(lengths, spectral_peaks(stats), power)]
    return [(k, value) for k in kernels for value in sorted(noises)]


def signal_power(stats: Any) -> float:
    """Weighted mean of y squared, over outputs: the prior variance at the least."""
    return float(stats.squares.sum() / (stats.weight * len(stats.squares)))


def mean_weight(stats: Any) -> float:
    """What a noise variance, which is that of weight one, is to be compared with y by."""
    return stats.weight / stats.count


def signal_spread(stats: Statistics) -> float:
    """Weighted variance of y about its mean, over outputs; never quite zero."""
    means = stats.targets[:, :, 0].sum(axis=1) / stats.weight
    spread = stats.squares.sum() / stats.weight - np.sum(means**2)
    power = signal_power(stats)
    return float(max(spread / len(stats.squares), 1e-12 * power))


def noise_estimate(stats: Statistics) -> float:
    """Noise variance from what varies at the smallest scales, an upper estimate."""
    weight = mean_weight(stats)
    lowest, highest = 1e-6 * weight * signal_spread(stats), weight * signal_power(stats)
    return float(np.clip(scatter(stats)[0], lowest, highest))


def scatter(stats: Statistics) -> tuple[float, float]:
    """Variance of y within the cells, and its relative standard error.

    Noise plus whatever signal the cells are too wide to resolve. Where cells hold several
    points, the scatter about the cell means; else half the squared differences between
    neighbouring occupied cells.
    """
    weight = stats.moments[:, 0]
    occupied = weight > 0.0
    w = weight[occupied]
    sums = stats.targets[:, occupied, 0]
    outputs = len(stats.squares)
    freedom = stats.count - len(w)
    if freedom >= 0.2 * stats.count and freedom > 0:
        total = stats.squares.sum() - np.sum(sums**2 / w)
    elif len(w) > 1:
        freedom = len(w) - 1
        total = np.sum(np.diff(sums / w, axis=1) ** 2 / (1.0 / w[1:] + 1.0 / w[:-1]))
    else:
        return LINE.unknown_noise * signal_power(stats) * mean_weight(stats), 1.0
    return float(total / (freedom * outputs)), (2.0 / (freedom * outputs)) ** 0.5


def spectral_peaks(stats: Statistics, count: int = 3) -> Array:
    """Periods of the highest separate peaks of the periodogram of the cell means."""
    weight = stats.moments[:, 0]
    means = np.zeros_like(stats.targets[:, :, 0])
    np.divide(stats.targets[:, :, 0], weight, out=means, where=weight > 0.0)
    spectrum = np.sum(np.abs(np.fft.rfft(means, axis=1)) ** 2, axis=0)
    spectrum[0] = 0.0
    periods = []
    for _ in range(count):
        if not spectrum.any():
            break
        peak = int(np.argmax(spectrum))
        periods.append((stats.grid.upper - stats.grid.lower) / peak)
        spectrum[max(0, int(0.8 * peak) - 1) : int(1.25 * peak) + 2] = 0.0
    return np.array([period for period in periods if period > 4.0 * stats.grid.spacing])
