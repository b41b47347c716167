"""Compiled functions that only compiled functions call."""

from functools import partial

import numba

# Without the wrappers that would convert Python's objects for them: with a dozen arrays
# among the arguments these take as long to compile as the function.
inner = partial(numba.njit, cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
