"""Warnings name the user's line, not one inside the library."""

import warnings

import numpy as np

from asvgp import GPRegressor, Matern32


def test_a_warning_deep_in_the_library_points_at_the_call():
    x = np.arange(50.0)
    y = np.sin(x)
    y[3] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GPRegressor(Matern32(), num_basis=20).fit(x, y)
    missing = [each for each in caught if "missing" in str(each.message)]
    assert [each.filename for each in missing] == [__file__]
