"""Straight-line code and unchecked views against plain Python."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core import config

from asvgp.linalg.inner import block, copy, segment
from asvgp.linalg.unrolled import choose, magnitude, markers_of, maximum, square_root, unrolled


def arithmetic(markers, c, table, places, factor, out) -> float:
    """Use every operation, with constants on either side."""
    degree = len(markers[0])
    value = factor * table[c, 0] - 1.0
    for j in range(1, degree + 1):
        value = (value + table[c, places[j]]) / (2.0 - 0.0 * value) * 1.0 + 0.0
    largest = maximum(value, table[c + 1, 0])
    out[c] = 1.0 / (3.0 - largest) + magnitude(value)
    out[c * 2 + 1] = choose(value, 0.25, value, 7.0)
    return square_root(1.0 + magnitude(table[c, degree]))


STEP = unrolled(arithmetic)


@numba.njit
def compiled(markers, table, places, factor, out):
    total = 0.0
    for c in range(3):
        total += STEP(markers, c, table, places, factor, out)
    return total


@pytest.mark.parametrize("degree", [1, 3])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("kind", [np.int64, np.uint32])
def test_straight_line_code_computes_what_the_function_says(degree, layout, kind):
    table = np.asarray(np.random.default_rng(degree).standard_normal((4, 5)), order=layout)
    places = np.array([0, 2, 1, 4], dtype=kind)
    mine, expected = np.zeros(6), np.zeros(6)
    markers = markers_of((degree,))
    total = compiled(markers, table, places, 0.7, mine)
    plain = sum(arithmetic(markers, c, table, places, 0.7, expected) for c in range(3))
    assert total == pytest.approx(plain, rel=1e-14)
    np.testing.assert_allclose(mine, expected, rtol=1e-14)


def test_numbers_that_cannot_be_compared():
    @unrolled
    def greater(markers, table, out):
        out[0] = maximum(table[0], table[1])
        out[1] = maximum(table[1], table[0])

    @numba.njit
    def run(markers, table, out):
        greater(markers, table, out)

    out = np.empty(2)
    run(markers_of((1,)), np.array([1.0, np.nan]), out)
    np.testing.assert_array_equal(out, [1.0, np.nan])  # the first of the two


def test_views_and_copies():
    @numba.njit
    def run(values, matrix, to):
        part, square = segment(matrix, np.int32(2), 3), block(values, 1, np.int32(2), 2)
        part[0] += 10.0
        square[1, 0] += 100.0
        copy(values, np.uint32(4), to, 1, 2)
        return part.sum() + square.sum(), square.shape, part.shape

    values, matrix, to = np.arange(6.0), np.arange(6.0).reshape(2, 3), np.zeros(4)
    total, square, part = run(values, matrix, to)
    assert total == 10.0 + (2 + 3 + 4) + 100.0 + (1 + 2 + 3 + 4)
    assert (square, part) == ((2, 2), (3,))
    assert (matrix[0, 2], values[3]) == (12.0, 103.0)
    np.testing.assert_array_equal(to, [0.0, 4.0, 5.0, 0.0])
    if not config.DISABLE_JIT:  # plain Python reads any array
        with pytest.raises(TypeError, match="C-contiguous"):
            run(values[::2], matrix, to)


def test_one_input_runs_without_the_compiler():
    """The same functions in plain Python: for debuggers, and for numbers of other types."""
    program = """
import numba
import numpy as np
from asvgp import Constant, GPRegressor, Matern12, Matern32
x = np.linspace(0.0, 3.0, 30)
kernel = Matern32(1.0) + Matern12(0.3) + Constant()
gp = GPRegressor(kernel, num_basis=9, optimizer=None, noise_variance=0.1)
mean, std = gp.fit(x, np.sin(x)).predict(x[:5], return_std=True)
print(repr(float(gp.elbo_)), *map(repr, [*mean.tolist(), *std.tolist()]))
"""
    answers = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        answers.append([float(word) for word in done.stdout.split()])
    np.testing.assert_allclose(*answers, rtol=1e-10)
