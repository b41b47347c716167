"""Steps of a series as dates, for methods that know calendars."""

import numpy as np


def dates(x, start, step):
    """Dates of steps, x's first column: ``start`` is that of step zero, ``step`` is in seconds."""
    return np.datetime64(start, "s") + np.rint(x[:, 0] * step).astype("timedelta64[s]")
