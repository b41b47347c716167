"""Rules of measures on boxes against the points that they stand for."""

from dataclasses import replace

import numpy as np
import pytest

from asvgp.basis import Grid
from asvgp.linalg.cells.atoms import _diagonalise
from asvgp.linalg.cells.cubature import _solve, legendre_tables, small_powers
from asvgp.linalg.cells.gauss import legendre_moments
from asvgp.statistics import Statistics
from asvgp.statistics.nodes import _box_rules


def rules(points, weights, degree):
    """Local places and masses of all cells, whose size is one, and the cells' own points."""
    cells = np.ceil(points.max(axis=0)).astype(int)
    grids = tuple(Grid(0.0, float(n), int(n)) for n in cells)
    columns, degrees = tuple(points.T), (degree,) * len(grids)
    stats = Statistics.from_data(columns, np.zeros(len(points)), grids, degrees, weights)
    return _box_rules(stats)


def powers_of(points, weights, powers):
    """Moments of total degrees, one for each row of powers."""
    return np.prod(points[:, None] ** powers, axis=2).T @ weights


def check(points, weights, degree, total, tolerance):
    """Return the nodes of one cell, after their moments and places were compared."""
    (places,), (masses,) = rules(points, weights, degree)
    there = masses > 0.0
    assert np.all(masses >= 0.0)
    places, masses = places[there], masses[there]
    assert np.all((places >= 0.0) & (places <= 1.0))
    powers = small_powers((2 * degree + 1,) * points.shape[1], total)
    error = powers_of(places, masses, powers) - powers_of(points, weights, powers)
    small = powers.sum(axis=1) <= 1
    assert np.abs(error[small]).max() < 1e-13 * weights.sum()
    assert np.abs(error).max() < tolerance * weights.sum()
    return places, masses


def nodes_of(moments):
    """Places and masses that are written for one cell of these moments (2 degree + 1, ...)."""
    inputs, degree = moments.ndim, len(moments) // 2
    grids, columns = (Grid(0.0, 1.0, 1),) * inputs, (np.full(1, 0.5),) * inputs
    stats = Statistics.from_data(columns, np.zeros(1), grids, (degree,) * inputs)
    (places,), (masses,) = _box_rules(replace(stats, moments=moments.reshape(stats.moments.shape)))
    there = masses > 0.0
    assert np.all(masses >= 0.0)
    return places[there], masses[there]


def sample(number, inputs, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.02, 0.98, (number, inputs)), rng.uniform(0.5, 2.0, number)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("inputs", [2, 3])
def test_few_points_are_found(number, inputs):
    points, weights = sample(number, inputs, seed=1)
    places, masses = check(points, weights, 2, 4, 1e-12)
    order, mine = np.argsort(points[:, 0]), np.argsort(places[:, 0])
    np.testing.assert_allclose(places[mine], points[order], atol=1e-7)
    np.testing.assert_allclose(masses[mine], weights[order], rtol=1e-6)


def test_points_of_lattices_are_found():
    """Two of them have equal sums of coordinates: one slant alone does not tell them apart."""
    first = 0.6180339887498949
    points = np.array([[0.2, 0.6], [0.2 + 0.5 * first, 0.1], [0.8, 0.9]])
    weights = np.array([1.0, 2.0, 1.5])
    places, masses = check(points, weights, 2, 4, 1e-12)
    mine = np.argsort(places[:, 0])
    np.testing.assert_allclose(places[mine], points, atol=1e-7)
    np.testing.assert_allclose(masses[mine], weights, rtol=1e-6)


@pytest.mark.parametrize("degree, total", [(1, 2), (2, 4), (3, 6)])
def test_moments_of_many_points(degree, total):
    check(*sample(200, 2), degree, total, 1e-12)


def test_moments_of_a_product_of_measures():
    nodes, masses = np.polynomial.legendre.leggauss(5)
    x, y = np.meshgrid(0.5 + 0.5 * nodes, 0.5 + 0.5 * nodes)
    weights = np.outer(masses, masses).ravel()
    places, masses = check(np.stack([x.ravel(), y.ravel()], axis=1), weights, 2, 4, 1e-12)
    expected = 0.5 + 0.5 * np.polynomial.legendre.leggauss(3)[0]
    np.testing.assert_allclose(np.unique(places.round(9)), expected, atol=1e-8)
    assert len(masses) == 9


@pytest.mark.parametrize("number", [5, 8])
def test_moments_between_few_points_and_many_are_close(number):
    check(*sample(number, 2, seed=number), 2, 4, 1e-3)


def test_points_on_the_edge_stay_inside():
    points = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.5], [0.3, 0.0]])
    check(points, np.ones(6), 2, 4, 1e-3)


def test_points_on_corners_are_found():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    places, masses = check(points, np.array([1.0, 2.0, 0.5]), 2, 4, 1e-12)
    np.testing.assert_allclose(places, places.round(), atol=1e-15)
    np.testing.assert_allclose(np.sort(masses), [0.5, 1.0, 2.0], rtol=1e-12)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("size", [1e-16, 1e-3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_moments_of_no_measure_keep_their_mass(degree, size, seed):
    """Moments of lengths, up to changes; what subtraction leaves is nothing but changes."""
    powers = 1.0 / np.arange(1.0, 2.0 * degree + 2.0)
    noise = size * np.random.default_rng(seed).standard_normal((len(powers),) * 2)
    moments = noise + (np.multiply.outer(powers, powers) if size == 1e-3 else 0.0)
    moments[0, 0] = abs(moments[0, 0])
    places, masses = nodes_of(moments)
    assert np.all((places >= 0.0) & (places <= 1.0))
    assert masses.sum() == pytest.approx(moments[0, 0], rel=1e-14)
    if size == 1e-3:
        means = np.array([moments[1, 0], moments[0, 1]]) / moments[0, 0]
        np.testing.assert_allclose(masses @ places / masses.sum(), means, rtol=1e-13)


def test_cells_without_points_have_no_nodes():
    points = np.array([[0.3, 0.4], [0.6, 2.2]])
    places, masses = rules(points, np.array([1.0, 2.0]), 2)
    np.testing.assert_allclose(masses.sum(axis=1), [1.0, 0.0, 2.0], rtol=1e-14)
    np.testing.assert_allclose(places[2, 0], [0.6, 0.2], atol=1e-12)


def test_legendre_norms():
    """The norms are those of integrals over [0, 1], with what counts less at higher degrees."""
    rows, _, norms = legendre_tables(4)
    nodes, masses = np.polynomial.legendre.leggauss(6)
    values = (0.5 + 0.5 * nodes)[:, None] ** np.arange(4) @ rows.T
    gram = values.T @ (0.5 * masses[:, None] * values)
    np.testing.assert_allclose(gram, np.diag((norms / 2.0 ** np.arange(4)) ** 2), atol=1e-15)
    np.testing.assert_array_equal(rows, legendre_moments(4)[0])


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_solutions_of_damped_systems(damping):
    rng = np.random.default_rng(2)
    root, right = rng.standard_normal((4, 6)), rng.standard_normal(4)
    gram = root @ root.T
    expected = np.linalg.solve(gram + damping * np.eye(4), right)
    assert _solve(np.tril(gram), damping, np.empty((4, 4)), right)
    np.testing.assert_allclose(right, expected, rtol=1e-10)
    assert not _solve(np.tril(gram - 9.0 * np.eye(4)), damping, np.empty((4, 4)), right)


def test_eigenvectors_of_small_matrices():
    rng = np.random.default_rng(3)
    half = rng.standard_normal((5, 5))
    matrix, vectors = half + half.T, np.empty((5, 5))
    matrix[0, 1] = matrix[1, 0] = 0.0
    expected = np.linalg.eigvalsh(matrix)
    rotated = matrix.copy()
    _diagonalise(5, rotated, vectors)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-13)
    np.testing.assert_allclose(np.sort(np.diag(vectors.T @ matrix @ vectors)), expected, atol=1e-13)
