"""What data at regular inputs tell about hyperparameters: their Fisher information, by Whittle.

At regular inputs the periodogram's ordinates are nearly independent, and each is exponential with
a mean that the covariance gives: by the transform of the covariances at all lags, which are
tapered as the pairs of inputs grow fewer. With S these means and S_p their derivatives, the
information is half of ``sum S_p S_q / S^2`` over all frequencies. It is right to some percent, as
good as the curvature of the bound that training begins with needs to be.
"""

from __future__ import annotations

import numpy as np

from asvgp.basis import Array
from asvgp.kernels import Kernel


def regular_information(
    kernel: Kernel, noise: float, lags: Array, inputs: int, outputs: int
) -> Array | None:
    """Return about what regular series tell of log-hyperparameters and the log noise.

    ``lags`` are all distances in a series, ``inputs`` the number of those that it has, holes
    apart; where these are too few, the result is None. ``noise`` is the variance at an input.
    """
    if len(lags) > 2 * inputs:
        return None
    slopes = [part.slopes(lags) for part in kernel.components]
    total = np.sum([rows[-1:] for rows in slopes], axis=0)
    rows = np.concatenate([total, *slopes])
    return outputs * information(rows, noise, inputs, kernel.intercept is not None)


def information(slopes: Array, noise: float, inputs: int, centred: bool) -> Array:
    """Return the information about log-hyperparameters and the log noise, for one output.

    Parameters
    ----------
    slopes : array of shape (1 + hyperparameters, lags)
        The covariance of the field at all lags of a regular series, and its derivatives.
    noise : float
        Variance of the noise at an input.
    inputs : int
        Number of inputs there are, holes apart.
    centred : bool
        True if the level of the series is not told by the field.

    Examples
    --------
    >>> white = np.array([[3.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    >>> information(white, noise=1.0, inputs=4, centred=False).round(6).tolist()
    [[1.125, 0.375], [0.375, 0.125]]
    """
    rows = np.concatenate([slopes, np.zeros((1, slopes.shape[1]))])
    rows[0, 0] += noise
    rows[-1, 0] = noise
    lags = rows.shape[1]
    rows *= 1.0 - np.arange(lags) / lags
    means = 2.0 * np.fft.rfft(rows).real - rows[:, :1]
    shares = means[1:] / means[0]
    counts = np.full(shares.shape[1], 2.0)  # of frequencies: each stands for its negative, too
    counts[0] = 0.0 if centred else 1.0
    if lags % 2 == 0:
        counts[-1] = 1.0
    return 0.5 * inputs / lags * (shares * counts) @ shares.T
