"""The pass over one input: any order, any type, any chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.basis import Grid
from asvgp.runtime import parallel
from asvgp.statistics import Statistics
from tests.statistics.definition import assert_same, direct


def direct_line(x, y, w, grid, degree):
    """Compute the statistics of one input by their definition."""
    return direct(x[:, None], y, (grid,), (degree,), w, (), None, np.empty((len(x), 0)))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 400),
    cells=st.integers(1, 50),
    degree=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    ordered=st.booleans(),
    weighted=st.booleans(),
)
def test_the_pass_is_its_definition(n, cells, degree, seed, ordered, weighted):
    rng = np.random.default_rng(seed)
    grid = Grid(-2.0, 3.0, cells)
    x = rng.uniform(-2.0, 3.0, n)
    x[: n // 5] = rng.choice(grid.knots, n // 5)  # on knots and ends
    x = np.sort(x) if ordered else x
    y = rng.standard_normal(n)
    w = rng.uniform(0.1, 5.0, n) if weighted else None
    mine = Statistics.from_data(x, y, grid, degree, w)
    assert_same(mine, direct_line(x, y, np.ones(n) if w is None else w, grid, degree))


def test_order_chunks_and_threads_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    n = 100_000
    x, y, w = rng.uniform(0, 1, n), rng.standard_normal((n, 2)), rng.uniform(0.5, 2, n)
    grid = Grid(0.0, 1.0, 300)
    whole = Statistics.from_data(x, y, grid, 2, w)
    order = rng.permutation(n)
    assert_same(Statistics.from_data(x[order], y[order], grid, 2, w[order]), whole)
    parts = [slice(0, 10), slice(10, 70_000), slice(70_000, n)]
    merged = [Statistics.from_data(x[p], y[p], grid, 2, w[p]) for p in parts]
    assert_same(merged[0] + merged[1] + merged[2], whole)
    for cores in (1, 3):
        monkeypatch.setattr(parallel, "cores", lambda cores=cores: cores)
        assert_same(Statistics.from_data(x, y, grid, 2, w), whole)


@pytest.mark.parametrize("kind", ["float32", "int64", "int16", ">f8", "uint8", "float16"])
def test_number_types(kind):
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 100, 5000).astype(kind), rng.integers(0, 50, 5000).astype(kind)
    grid = Grid(0.0, 100.0, 33)
    expected = Statistics.from_data(x.astype(float), y.astype(float), grid, 3)
    assert_same(Statistics.from_data(x, y, grid, 3), expected)


def test_strided_and_read_only_input():
    rng = np.random.default_rng(2)
    table = rng.uniform(0, 1, (3000, 4))
    table.flags.writeable = False
    grid = Grid(0.0, 1.0, 20)
    mine = Statistics.from_data(table[::2, 1], table[::2, 3], grid, 2)
    assert_same(mine, Statistics.from_data(table[::2, 1].copy(), table[::2, 3].copy(), grid, 2))


def test_missing_targets_are_left_out_and_counted():
    x = np.linspace(0, 1, 10)
    y = np.arange(10.0)
    y[[2, 5]] = np.nan
    grid = Grid(0.0, 1.0, 4)
    stats = Statistics.from_data(x, y, grid, 2)
    keep = ~np.isnan(y)
    expected = Statistics.from_data(x[keep], y[keep], grid, 2)
    assert (stats.count, stats.missing) == (8, 2)
    np.testing.assert_allclose(stats.moments, expected.moments)


def test_a_row_missing_in_one_output_is_missing_in_all():
    x = np.linspace(0, 1, 10)
    y = np.column_stack([np.arange(10.0), np.ones(10)])
    y[3, 1] = np.nan
    grid = Grid(0.0, 1.0, 4)
    expected = Statistics.from_data(np.delete(x, 3), np.delete(y, 3, axis=0), grid, 2)
    stats = Statistics.from_data(x, y, grid, 2)
    np.testing.assert_allclose(stats.moments, expected.moments)
    np.testing.assert_allclose(stats.targets, expected.targets)
    assert (stats.count, stats.missing) == (9, 1)


def test_missing_values_in_some_blocks_do_not_touch_the_others():
    rng = np.random.default_rng(6)
    x, y = rng.uniform(0, 1, 20_003), rng.standard_normal(20_003)
    y[rng.choice(6000, 50)] = np.nan  # the first blocks only
    y[20_002] = np.nan
    grid = Grid(0.0, 1.0, 50)
    assert_same(
        Statistics.from_data(x, y, grid, 2) + Statistics.from_data(x[:0], y[:0], grid, 2),
        direct_line(x, y, np.ones(len(x)), grid, 2),
    )


def test_two_scale_relation_of_the_splines():
    """Independently of moments: B_coarse = sum of binomial weights times B_fine."""
    from math import comb

    from tests.dense import design

    rng = np.random.default_rng(4)
    x, y = rng.uniform(0, 1, 500), rng.standard_normal(500)
    k, cells = 3, 16
    fine, coarse = Grid(0.0, 1.0, cells), Grid(0.0, 1.0, cells // 2)
    refine = np.zeros((cells // 2 + k, cells + k))
    for i in range(cells // 2 + k):
        for j in range(k + 2):
            column = 2 * i - k + j
            if 0 <= column < cells + k:
                refine[i, column] = comb(k + 1, j) / 2**k
    b_fine = design(x, fine, k).T @ y
    b_coarse = design(x, coarse, k).T @ y
    np.testing.assert_allclose(refine @ b_fine, b_coarse, atol=1e-10)
