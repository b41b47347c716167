"""Functionals and draws along chains against dense covariance matrices."""

import numpy as np
import pytest

from asvgp.linalg.chain.covariance import add_covariance
from asvgp.linalg.chain.multiply import covariance_times
from asvgp.linalg.chain.sweep import assemble, draw, stretches
from tests.linalg.chains import random_chain

each_structure = pytest.mark.parametrize("degrees", [(1,), (3,), (2, 1)], ids=str)


def spread(chain, begin, end, parts):
    """Return weights of stretches on all coefficients, (T, cells * size)."""
    out = np.zeros((len(begin), len(chain.gain), chain.size))
    for a, (first, last) in enumerate(zip(begin, end, strict=True)):
        out[a, first] = parts[3 * a]
        if last > first:
            out[a, first + 1 : last] = parts[3 * a + 1]
            out[a, last] = parts[3 * a + 2]
    return out.reshape(len(begin), -1)


def compare_stretches(chain, begin, end, settled=0):
    """Adjoining stretches: their covariance matrix, and what they tell about last cells."""
    begin, end = np.array(begin), np.array(end)
    count, size = len(begin), chain.size
    parts = np.random.default_rng(5).standard_normal((3 * count, size))
    on_all = spread(chain, begin, end, parts)
    dense = chain.dense
    gain = chain.gain.copy()
    gain[:settled] = np.nan  # not read
    carried, variance = np.zeros((count, size)), np.empty(count)
    nothing = np.empty((0, size))
    stretches(
        chain.markers, settled, gain, chain.cov, begin, end, parts,
        carried, nothing, nothing, variance,
    )  # fmt: skip
    expected = on_all @ dense @ on_all.T
    np.testing.assert_allclose(variance, np.diag(expected), rtol=1e-10)
    for a, last in enumerate(end):
        mine = dense[last * size : (last + 1) * size] @ on_all[a]
        np.testing.assert_allclose(carried[a], mine, atol=1e-10 * np.abs(mine).max())
    carried[:] = 0.0
    weights, bridges = np.zeros((count, size)), np.tile(np.eye(size), (count, 1))
    stretches(
        chain.markers, settled, gain, chain.cov, begin, end, parts,
        carried, weights, bridges, variance,
    )  # fmt: skip
    out = np.ones((count, count))
    bridges = bridges.reshape(count, size, size)
    assemble(variance, carried, weights, bridges, -2.0, np.empty((2, size)), out)
    np.testing.assert_allclose(out, 1.0 - 2.0 * expected, atol=1e-10 * np.abs(expected).max())


@each_structure
@pytest.mark.parametrize("settled", [0, 3])
def test_adjoining_stretches(degrees, settled):
    chain = random_chain(degrees, 8, settled=settled)
    compare_stretches(chain, [0, 1, 4, 4], [1, 4, 4, 7], settled)


def test_stretches_over_cells_that_forget():
    chain = random_chain((1,), 8, forgets=[3])
    compare_stretches(chain, [0, 1, 4, 6], [1, 4, 6, 7])


@each_structure
@pytest.mark.parametrize("first", [0, 4])
def test_functionals_of_single_cells(degrees, first):
    chain = random_chain(degrees, 9, seed=1, settled=first)
    compare_functionals(chain, [0, 0, 1, 4, 8], first)


def test_functionals_on_both_sides_of_cells_that_forget():
    chain = random_chain((1,), 9, seed=2, forgets=[4])
    compare_functionals(chain, [1, 3, 6, 8], 0)


def compare_functionals(chain, cells, first):
    cells, size = np.array(cells), chain.size
    weights = np.random.default_rng(6).standard_normal((len(cells), size))
    on_all = np.zeros((len(cells), len(chain.gain), size))
    on_all[np.arange(len(cells)), cells] = weights
    on_all = on_all.reshape(len(cells), -1)
    gain = chain.gain.copy()
    gain[:first] = np.nan  # not read
    out = np.ones((len(cells), len(cells)))
    add_covariance(chain.markers, first, gain, chain.cov[cells], cells, weights, 3.0, out)
    expected = on_all @ chain.dense @ on_all.T
    np.testing.assert_allclose(out, 1.0 + 3.0 * expected, atol=1e-10 * np.abs(expected).max())


@each_structure
def test_draws_have_the_covariance_of_the_chain(degrees):
    """Unit vectors in place of normal numbers give the root of the covariance matrix."""
    chain = random_chain(degrees, 5, seed=3)
    n, numbers = chain.states, chain.roots.shape[2]
    state, coef = np.zeros((numbers, n)), np.zeros((numbers, 5, chain.size))
    state[:n] = chain.start.T
    coef[n:, :, n:] = np.eye(numbers - n).reshape(numbers - n, 5, -1)
    draw(chain.markers, chain.gain, chain.deviation, state, coef)
    np.testing.assert_allclose(np.moveaxis(coef, 0, 2), chain.roots, atol=1e-12)
    np.testing.assert_allclose(state.T, chain.shift @ chain.roots[-1], atol=1e-12)


@each_structure
def test_products_with_the_covariance(degrees):
    chain = random_chain(degrees, 6, seed=4)
    size, n = chain.size, chain.states
    right = np.random.default_rng(7).standard_normal((6, size, 2))
    right[2, 0] = 0.0
    gain = np.zeros((6, size, n))  # of all coefficients, given the state alone
    gain[:, :n] = np.eye(n)
    for c in range(6):
        for e in range(size - n):
            gain[c, n + e] = -chain.gain[c, e, : n + e] @ gain[c, : n + e]
    out = np.full(right.shape, np.nan)
    covariance_times(chain.cov, gain, chain.shift, right, out)
    expected = (chain.dense @ right.reshape(-1, 2)).reshape(right.shape)
    np.testing.assert_allclose(out, expected, atol=1e-10 * np.abs(expected).max())
