"""Quality of a Matérn-3/2 field's predictions of single points from their neighbours."""

import numba
import numpy as np

from asvgp.basis import Array


def conditionals(places: Array, values: Array, lengths: Array, ratio: float) -> tuple[float, Array]:
    """Predict the first point of every group from the others, at unit variance and ``ratio`` noise.

    ``places`` (groups, points, D) and ``values`` (groups, points, outputs). Returns the mean
    logarithm of the predictive variances, and for every output the mean of the squared errors
    over these variances.
    """
    groups, points, _ = places.shape
    outputs = values.shape[2]
    work = np.empty((points, points)), np.empty((points, outputs))
    squares, rates = np.zeros(outputs), np.sqrt(3.0) / lengths
    logs = _add_conditionals(places, values, rates, float(ratio), *work, squares)
    return logs / groups, squares / groups


@numba.njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _add_conditionals(places, values, rates, ratio, factor, residuals, squares):
    """Add the squared errors to ``squares``; returns the sum of the logarithms."""
    groups, points, D = places.shape
    outputs = values.shape[2]
    logs = 0.0
    for g in range(groups):
        # The Cholesky factor with the first point last: its pivot is the predictive variance.
        for i in range(points):
            a = i + 1 if i + 1 < points else 0
            for j in range(i + 1):
                b = j + 1 if j + 1 < points else 0
                total, product = 0.0, 1.0
                for d in range(D):
                    r = abs(places[g, a, d] - places[g, b, d]) * rates[d]
                    product *= 1.0 + r
                    total += r
                entry = product * np.exp(-total)
                if i == j:
                    entry += ratio
                for k in range(j):
                    entry -= factor[i, k] * factor[j, k]
                if i == j:
                    factor[i, j] = np.sqrt(entry if entry > 1e-12 else 1e-12)
                else:
                    factor[i, j] = entry / factor[j, j]
            for o in range(outputs):
                residual = values[g, a, o]
                for k in range(i):
                    residual -= factor[i, k] * residuals[k, o]
                residuals[i, o] = residual / factor[i, i]
        logs += 2.0 * np.log(factor[points - 1, points - 1])
        for o in range(outputs):
            squares[o] += residuals[points - 1, o] * residuals[points - 1, o]
    return logs
