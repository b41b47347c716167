"""Columns of pixels against a brute-force twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.plot.reduce import reduce_columns


def twin(x, y, start, stop, columns, share):
    """Column by column, with masks and sorts."""
    rows = []
    with np.errstate(invalid="ignore"):
        inside = (x >= start) & (x <= stop) & ~np.isnan(y)
        cell = np.minimum(np.floor((x - start) * (columns / (stop - start))), columns - 1)
    for c in range(columns):
        own = np.flatnonzero(inside & (cell == c))
        if len(own) == 0:
            rows.append([0] + [np.nan] * 4)
            continue
        values = np.sort(y[own])
        rank = int(np.floor((len(own) - 1) * 0.5 * (1.0 - share)))
        middle = [values[rank], values[len(own) - 1 - rank]]
        rows.append([len(own), values[0], values[-1], *middle])
    return np.array(rows).T


def agree(x, y, start, stop, columns, share=0.9):
    found = reduce_columns(x, y, start, stop, columns, share)
    expected = twin(np.asarray(x, float), np.asarray(y, float), start, stop, columns, share)
    np.testing.assert_array_equal(np.array(found[1:], dtype=float), expected)
    np.testing.assert_allclose(found.edges, np.linspace(start, stop, columns + 1))


@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled"])
@pytest.mark.parametrize("columns", [1, 7, 100])
def test_equals_its_twin_in_any_order(order, columns):
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.uniform(-1.0, 3.0, 2000)), rng.standard_normal(2000)
    y[rng.random(2000) < 0.1] = np.nan
    x[rng.random(2000) < 0.02] = np.nan
    if order == "reversed":
        x, y = x[::-1], y[::-1]
    elif order == "shuffled":
        permutation = rng.permutation(2000)
        x, y = x[permutation], y[permutation]
    agree(x, y, -0.5, 2.0, columns)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-2, 10).map(float), st.just(float("nan"))),
            st.one_of(st.integers(-3, 3).map(float), st.just(float("nan"))),
        ),
        max_size=40,
    ),
    st.integers(1, 12),
    st.sampled_from([0.5, 0.9, 1.0]),
)
def test_equals_its_twin_with_ties_and_missing(points, columns, share):
    table = np.array(points, dtype=float).reshape(-1, 2)
    agree(table[:, 0].copy(), table[:, 1].copy(), 0.0, 8.0, columns, share)


def test_both_ends_belong():
    found = reduce_columns([0.0, 1.0], [3.0, 4.0], 0.0, 1.0, 5)
    assert found.counts.tolist() == [1, 0, 0, 0, 1]


def test_other_types_of_numbers():
    agree(np.arange(100, dtype=np.int32), np.arange(100, dtype=np.float32)[::-1], 0.0, 99.0, 9)


def test_an_outlier_is_kept_and_the_middle_does_not_notice():
    y = np.zeros(1000)
    y[500] = 1e6
    found = reduce_columns(np.linspace(0.0, 1.0, 1000), y, 0.0, 1.0, 10)
    assert found.high.max() == 1e6
    assert found.upper.max() == 0.0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (([0.0], [0.0, 1.0], 0.0, 1.0, 3), r"shape \(1,\) and y \(2,\)"),
        (([0.0], [0.0], 1.0, 1.0, 3), "3 columns between 1.0 and 1.0"),
        (([0.0], [0.0], 0.0, np.inf, 3), "finite"),
        (([0.0], [0.0], 0.0, 1.0, 0), "0 columns"),
    ],
)
def test_what_cannot_be_reduced(arguments, words):
    with pytest.raises(ValueError, match=words):
        reduce_columns(*arguments)
