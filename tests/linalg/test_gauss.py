"""Rules of the measures on cells against the moments and the atoms that they come from."""

import numpy as np
import pytest

from asvgp.linalg.cells.gauss import MOST_NODES, _eigenvalues, gauss_rules, legendre_moments


def moments_of(places, weights, size):
    """Moments 0, ..., size - 1 of atoms, (1, size)."""
    return (weights @ np.asarray(places)[:, None] ** np.arange(size))[None]


def rule(moments):
    """The rule of one cell: nodes with masses."""
    size = moments.shape[1]
    most = (size + 1) // 2
    nodes, masses = np.full((1, most), np.nan), np.full((1, most), np.nan)
    legendre, b = legendre_moments(size)
    gauss_rules(moments, legendre, b, np.array([50.0]), 0, 1, nodes, masses)
    there = masses[0] > 0.0
    return nodes[0, there], masses[0, there]


@pytest.mark.parametrize("size", range(1, 2 * MOST_NODES + 1))
def test_all_moments_are_those_of_the_data(size):
    rng = np.random.default_rng(size)
    places, weights = rng.uniform(size=50), rng.uniform(0.1, 2.0, 50)
    moments = moments_of(places, weights, size)
    nodes, masses = rule(moments)
    assert len(nodes) == (size + 1) // 2
    assert np.all((nodes >= 0.0) & (nodes <= 1.0))
    assert np.all(np.diff(nodes) > 0.0)
    np.testing.assert_allclose(
        moments_of(nodes, masses, size), moments, rtol=0, atol=1e-12 * moments[0, 0]
    )


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_atoms_are_found(number):
    places = np.array([0.0, 0.3, 1.0])[:number]
    weights = np.array([2.0, 0.5, 1.0])[:number]
    nodes, masses = rule(moments_of(places, weights, 9))
    np.testing.assert_allclose(nodes, places, atol=1e-9)
    np.testing.assert_allclose(masses, weights, rtol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_uniform_measures_have_gauss_rules(degree):
    nodes, masses = rule(1.0 / np.arange(1.0, 2.0 * degree + 2.0)[None])
    expected, weights = np.polynomial.legendre.leggauss(degree + 1)
    np.testing.assert_allclose(nodes, 0.5 + 0.5 * expected, atol=1e-12)
    np.testing.assert_allclose(masses, 0.5 * weights, atol=1e-12)


def test_moments_of_no_measure_on_the_cell_keep_mass_and_mean():
    """One atom is outside, where no node may be."""
    nodes, masses = rule(moments_of([-0.2, 0.5], np.array([1.0, 3.0]), 5))
    np.testing.assert_allclose(nodes, [0.325], atol=1e-14)
    np.testing.assert_allclose(masses, [4.0], atol=1e-14)


def test_cells_of_no_mass_have_no_nodes():
    moments = np.concatenate([np.zeros((1, 3)), moments_of([0.25], np.ones(1), 3)])
    nodes, masses = np.full((2, 2), 7.0), np.full((2, 2), 7.0)
    gauss_rules(moments, *legendre_moments(3), np.ones(2), 0, 2, nodes, masses)
    np.testing.assert_array_equal(masses, [[0.0, 0.0], [1.0, 0.0]])
    assert nodes[1, 0] == pytest.approx(0.25)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_eigenvalues_of_tridiagonal_matrices(n):
    rng = np.random.default_rng(n)
    d, beside = rng.standard_normal(n), rng.standard_normal(n - 1)
    values, vectors = np.linalg.eigh(np.diag(d) + np.diag(beside, 1) + np.diag(beside, -1))
    z = np.empty(n)
    assert _eigenvalues(n, d, np.append(beside, 0.0), z)
    np.testing.assert_allclose(d, values, atol=1e-13)
    np.testing.assert_allclose(np.abs(z), np.abs(vectors[0]), atol=1e-13)


def test_eigenvalues_whose_squares_vanish_are_not_claimed():
    assert not _eigenvalues(2, np.zeros(2), np.array([1e-200, 0.0]), np.empty(2))
