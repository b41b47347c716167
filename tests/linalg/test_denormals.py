"""Numbers too small for full precision, where code is compiled."""

import numba
import numpy as np
import pytest
from numba.core import config

from asvgp.linalg.denormals import _X86, flush_denormals, restore


@numba.njit
def halves(value, out):
    out[0] = 0.5 * value[0]
    word = flush_denormals()
    out[1] = 0.5 * value[0]
    restore(word)
    out[2] = 0.5 * value[0]


@pytest.mark.parametrize("value", [1e-307, 3e-308])
def test_results_below_the_smallest_number_are_zero_until_the_setting_is_restored(value):
    out = np.empty(3)
    halves(np.array([value]), out)
    flushed = _X86 and not config.DISABLE_JIT and 0.5 * value < np.finfo(float).tiny
    np.testing.assert_array_equal(out, 0.5 * value * np.array([1.0, 0.0 if flushed else 1.0, 1.0]))
