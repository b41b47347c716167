"""How well a Matérn-3/2 field predicts single points from their neighbours."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def conditionals(places, values, lengths, ratio):
    """Predict the first point of every group from the others, at unit variance and ``ratio`` noise.

    ``places`` (groups, points, D) and ``values`` (groups, points, outputs). Returns the mean
    logarithm of the predictive variances, and for every output the mean of the squared errors
    over these variances.
    """
    groups, points, D = places.shape
    outputs = values.shape[2]
    rates = np.sqrt(3.0) / lengths
    factor = np.empty((points, points))
    residuals = np.empty((points, outputs))
    logs, squares = 0.0, np.zeros(outputs)
    for g in range(groups):
        # The Cholesky factor with the first point last: its pivot is the predictive variance.
        for i in range(points):
            a = (i + 1) % points
            for j in range(i + 1):
                b = (j + 1) % points
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
                factor[i, j] = np.sqrt(max(entry, 1e-12)) if i == j else entry / factor[j, j]
            for o in range(outputs):
                residual = values[g, a, o]
                for k in range(i):
                    residual -= factor[i, k] * residuals[k, o]
                residuals[i, o] = residual / factor[i, i]
        logs += 2.0 * np.log(factor[points - 1, points - 1])
        for o in range(outputs):
            squares[o] += residuals[points - 1, o] ** 2
    return logs / groups, squares / groups
