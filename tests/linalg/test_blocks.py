"""Chains of states beside dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp.linalg.chain.blocks import chain_of_blocks

STATES, PARAMETERS = 2, 2


def forms(seed=0):
    """Return a root of S, its derivatives, B and its derivatives."""
    rng = np.random.default_rng(seed)

    def symmetric(*shape):
        a = rng.standard_normal(shape)
        return a + np.swapaxes(a, -1, -2)

    def positive(n):
        a = rng.standard_normal((n, n))
        return a @ a.T + 0.1 * np.eye(n)

    pair = 2 * STATES
    return (
        np.linalg.cholesky(positive(pair)).T,
        rng.standard_normal((PARAMETERS, pair, pair)),
        positive(STATES),
        symmetric(PARAMETERS, STATES, STATES),
    )


def dense(root, start, cells):
    """Return ``log|K|`` and the blocks of its inverse."""
    n, form = STATES, root.T @ root
    matrix = np.zeros((n * (cells + 1),) * 2)
    matrix[:n, :n] += start
    windows = [slice(n * j, n * j + 2 * n) for j in range(cells)]
    for window in windows:
        matrix[window, window] += form
    inverse = np.linalg.inv(matrix)
    return np.linalg.slogdet(matrix)[1], np.array([inverse[w, w] for w in windows])


@pytest.mark.parametrize("cells", [1, 2, 7])
def test_blocks_are_those_of_the_dense_inverse(cells):
    root, d_root, start, d_start = forms()
    log_det, d_log_det, blocks, d_blocks = chain_of_blocks(root, d_root, start, d_start, cells)
    expected = dense(root, start, cells)
    assert log_det == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(blocks, expected[1], atol=1e-12)
    h = 1e-5
    for p in range(PARAMETERS):
        above = dense(root + h * d_root[p], start + h * d_start[p], cells)
        below = dense(root - h * d_root[p], start - h * d_start[p], cells)
        assert d_log_det[p] == pytest.approx((above[0] - below[0]) / (2 * h), abs=1e-6)
        np.testing.assert_allclose(d_blocks[p], (above[1] - below[1]) / (2 * h), atol=1e-6)


@pytest.mark.filterwarnings(
    "ignore:(invalid value|divide by zero)"
)  # NumPy's, where nothing is compiled
@pytest.mark.parametrize("place", ["first state", "cell"])
def test_chains_that_are_not_positive_definite_are_refused(place):
    root, d_root, start, d_start = forms()
    if place == "cell":
        root[:, STATES:] = 0.0
    else:
        start = start - 1e3 * np.eye(STATES)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        chain_of_blocks(root, d_root, start, d_start, 3)
