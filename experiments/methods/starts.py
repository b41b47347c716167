"""Lengthscales to begin with, for methods of one input that are given none.

The likelihood of a long series has several maxima: one for the slow part, which takes all that
is fast for noise, and one for the fast part. So three starts, and the best end is kept.
"""

import numpy as np
from scipy.optimize import minimize


def lengthscales(x):
    """A hundredth of the range, ten mean gaps, and one between; a hundredth of the range first."""
    wide = 0.01 * np.ptp(x)
    narrow = 10.0 * np.ptp(x) / len(x)
    return [wide, np.sqrt(wide * narrow), narrow]


def best(tried):
    """Of the ends of a minimisation, the lowest that is a number."""
    numbers = [one for one in tried if not np.isnan(one.fun)]
    if not numbers:
        raise ValueError(
            f"The likelihood is not a number (NaN) at the end of each of {len(tried)} starts: look "
            "for NaN or infinite values among x and y, or for a y that does not vary."
        )
    return min(numbers, key=lambda one: one.fun)


def minimised(loss, x, y, jac=False):
    """The best end of a loss of the logarithms of (sigma, lengthscale, noise), and facts of all."""
    scale, tried = float(y.std()), []
    for length in lengthscales(x):
        first = np.log([scale, length, 0.3 * scale])
        bounds = [(start - 10.0, start + 10.0) for start in first]
        tried.append(minimize(loss, first, jac=jac, method="L-BFGS-B", bounds=bounds))
    found = best(tried)
    info = {
        "evaluations": sum(one.nfev for one in tried),
        "log_likelihood": -found.fun,
        "log_likelihoods": [-one.fun for one in tried],
        "noise": np.exp(2 * found.x[2]),
    }
    return found.x, info
