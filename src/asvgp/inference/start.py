"""Starting values from the data: where to begin so that nobody has to say.

Everything comes from the statistics of a coarse grid: the signal's variance from the
second moment of y, the noise from the scatter inside cells and between neighbours,
correlation lengths on a logarithmic scale between the knots and the domain, periods from
the peaks of the spectrum of the cell means.
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel
from asvgp.stats import Statistics

State = tuple[Kernel, float]  # a kernel and a noise variance


def candidates(
    kernel: Kernel, noise: float | None, stats: Statistics, count: int = 7
) -> list[State]:
    """States worth trying on these statistics, the given one first.

    ``noise`` is the user's own starting value, or None.
    """
    power = signal_power(stats)
    rough = noise_estimate(stats)
    spacing = stats.grid.spacing
    span = stats.grid.upper - stats.grid.lower
    lengths = np.geomspace(min(2.0 * spacing, span / 4.0), span / 2.0, count)
    kernels = kernel.candidates(lengths, spectral_peaks(stats), power)
    noises = [noise] if noise is not None else sorted({rough, 0.3 * power})
    given = noise if noise is not None else rough
    return [(kernel, given), *((k, value) for k in kernels for value in noises)]


def signal_power(stats: Statistics) -> float:
    """Weighted mean of y squared, over outputs: the prior variance at the least."""
    return float(stats.squares.sum() / (stats.weight * len(stats.squares)))


def noise_estimate(stats: Statistics) -> float:
    """Noise variance from what varies at the smallest scales, an upper estimate.

    Where cells hold several points, the scatter about the cell means; else the
    differences between neighbouring occupied cells.
    """
    weight = stats.moments[:, 0]
    occupied = weight > 0.0
    w = weight[occupied]
    sums = stats.targets[:, occupied, 0]
    outputs = len(stats.squares)
    power = signal_power(stats)
    freedom = stats.count - len(w)
    if freedom >= 0.2 * stats.count:
        within = (stats.squares.sum() - np.sum(sums**2 / w)) / (freedom * outputs)
    elif len(w) > 1:
        means = sums / w
        within = np.sum(np.diff(means, axis=1) ** 2 / (1.0 / w[1:] + 1.0 / w[:-1])) / (
            (len(w) - 1) * outputs
        )
    else:
        within = 0.1 * power
    return float(np.clip(within, 1e-6 * power, power))


def spectral_peaks(stats: Statistics, count: int = 3) -> Array:
    """Periods of the highest separate peaks of the periodogram of the cell means."""
    n = stats.grid.cells
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
    return np.array([period for period in periods if period > 4.0 / n])
