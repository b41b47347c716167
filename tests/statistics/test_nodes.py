"""Quadrature rules of the inputs against sums over the rows themselves."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from asvgp.basis import Grid
from asvgp.degrees import Latitudes, Longitudes
from asvgp.statistics import Statistics
from asvgp.statistics.nodes import lebesgue_nodes, local_coordinates, matched, nodes_of


@pytest.fixture
def rng():
    return np.random.default_rng(16)


def statistics(x, grid, degree, weights=None):
    return Statistics.from_data(x, np.zeros(len(x)), grid, degree, weights)


def checked(stats):
    """Return the nodes after checks that hold for all of them."""
    nodes = nodes_of(stats)
    assert np.all(nodes.masses > 0)
    assert np.all(np.diff(nodes.cells) >= 0)
    weights = stats.cell_weights.ravel()
    by_cell = np.bincount(nodes.cells, nodes.masses, weights.size)
    np.testing.assert_allclose(by_cell, weights, rtol=1e-12, atol=1e-13 * weights.max())
    shape = tuple(grid.cells for grid in stats.grids)
    for grid, x, cell in zip(
        stats.grids, nodes.inputs, np.unravel_index(nodes.cells, shape), strict=True
    ):
        near = 1e-12 * (grid.upper - grid.lower)
        assert np.all(x >= grid.lower + cell * grid.spacing - near)
        assert np.all(x <= grid.lower + (cell + 1) * grid.spacing + near)
    return nodes


def clumped(rng, n):
    """Return places in few narrow clumps, many in the same cell."""
    return rng.choice(rng.uniform(0, 0.99, 40), n) + 1e-3 * rng.beta(0.5, 3, n)


@pytest.mark.parametrize("degree", range(1, 7))
@pytest.mark.parametrize("places", ["spread", "few", "clumped", "skewed", "knots"])
def test_all_moments_of_one_input_are_reproduced(rng, degree, places):
    x = {
        "spread": rng.uniform(0, 1, 20_000),
        "few": rng.uniform(0, 1, 60),
        "clumped": clumped(rng, 5000),
        "skewed": rng.beta(0.1, 4, 3000),
        "knots": rng.integers(0, 21, 400) / 20,
    }[places]
    stats = statistics(3 + 2 * x, Grid(3.0, 5.0, 20), degree)
    nodes = checked(stats)
    assert matched(stats, nodes) < 1e-9
    assert np.all(np.bincount(nodes.cells) <= degree + 1)


def test_masses_alone_are_in_the_middle_of_their_cells():
    empty = Statistics.empty(Grid(0.0, 3.0, 3), 0)
    stats = empty.with_tables(np.array([[2.0], [0.0], [5.0]]), empty.targets)
    nodes = checked(stats)
    assert nodes.inputs[0].tolist() == [0.5, 2.5]
    assert nodes.masses.tolist() == [2.0, 5.0]


def test_the_check_of_moments_sees_errors(rng):
    stats = statistics(rng.uniform(0, 1, 1000), Grid(0.0, 1.0, 5), 2)
    nodes = nodes_of(stats)
    moved = nodes._replace(inputs=(nodes.inputs[0] + 1e-6 * (nodes.cells == 3),))
    assert 1e-6 < matched(stats, moved) < 5e-5
    lost = nodes._replace(masses=np.where(nodes.cells == 2, 0.5, 1.0) * nodes.masses)
    assert matched(stats, lost) == pytest.approx(0.5)


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_few_atoms_are_the_nodes(rng, degree):
    grid = Grid(-1.0, 2.0, 12)
    for number in range(1, degree + 1):
        at = np.sort((np.arange(number) + rng.uniform(0.1, 0.9, number)) / number)
        x = grid.lower + grid.spacing * (4 + at)
        times = rng.integers(1, 50, number)
        nodes = checked(statistics(np.repeat(x, times), grid, degree))
        np.testing.assert_allclose(nodes.inputs[0], x, atol=1e-7)
        np.testing.assert_allclose(nodes.masses, times, rtol=1e-5)
        assert np.all(nodes.cells == 4)


@pytest.mark.parametrize("times", [1, 10, 1000, 300_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_inputs_give_one_node(rng, times, weighted):
    weights = rng.gamma(1.0, 1.0, times) if weighted else None
    for place in (0.0, 0.3, 0.7234567, 1.0):
        nodes = checked(statistics(np.full(times, place), Grid(0.0, 1.0, 7), 3, weights))
        assert len(nodes.masses) == 1
        assert abs(nodes.inputs[0][0] - place) < 1e-12


def test_points_on_the_knots():
    grid = Grid(0.0, 1.0, 8)
    nodes = checked(statistics(grid.knots, grid, 4))
    np.testing.assert_allclose(nodes.inputs[0], grid.knots, atol=1e-15)
    assert nodes.cells.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 7]


@pytest.mark.parametrize("rows", [10, 1000, 100_000])
def test_few_atoms_some_of_which_are_at_the_ends_of_cells(rng, rows):
    for _ in range(40):
        x = rng.choice([0.0, 1.0 - 1e-12, *rng.random(2)], rows)
        nodes = checked(statistics(x, Grid(0.0, 1.0, 1), 6))
        expected = np.logaddexp(0.0, 4.0 * x - 2.0).sum()
        found = nodes.masses @ np.logaddexp(0.0, 4.0 * nodes.inputs[0] - 2.0)
        assert found == pytest.approx(expected, rel=1e-4)


def test_no_data_and_empty_cells(rng):
    grid = Grid(0.0, 1.0, 10)
    assert len(nodes_of(Statistics.empty(grid, 2)).masses) == 0
    assert matched(Statistics.empty(grid, 2), nodes_of(Statistics.empty(grid, 2))) == 0.0
    x = np.concatenate([rng.uniform(0.2, 0.3, 50), rng.uniform(0.7, 0.8, 50)])
    assert set(checked(statistics(x, grid, 2)).cells) == {2, 7}
    both = statistics(np.append(x, 0.5), grid, 2)
    left = both - statistics(np.array([0.5]), grid, 2)
    assert set(checked(left).cells) == {2, 7}


def test_weights_of_very_different_size(rng):
    n = 3000
    weights = 10.0 ** rng.uniform(-8, 8, n)
    stats = statistics(rng.uniform(0, 1, n), Grid(0.0, 1.0, 30), 3, weights)
    assert matched(stats, checked(stats)) < 1e-11
    weights[::2] = 0.0
    stats = statistics(rng.uniform(0, 1, n), Grid(0.0, 1.0, 300), 3, weights)
    assert matched(stats, checked(stats)) < 1e-11


def test_large_counts(rng):
    stats = statistics(rng.beta(2, 3, 1_000_000), Grid(0.0, 1.0, 3), 4)
    nodes = checked(stats)
    assert len(nodes.masses) == 15
    assert matched(stats, nodes) < 1e-12


def test_high_degrees_take_seven_nodes_with_all_their_moments(rng):
    stats = statistics(rng.uniform(0, 1, 20_000), Grid(0.0, 1.0, 6), 12)
    nodes = checked(stats)
    assert np.all(np.bincount(nodes.cells) == 7)
    (s,) = local_coordinates(stats.grids, nodes)
    for power in range(14):
        have = np.bincount(nodes.cells, nodes.masses * s**power)
        np.testing.assert_allclose(have, stats.moments[:, power], rtol=1e-12)
    assert matched(stats, nodes) < 1e-3


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_free_moment_is_in_the_middle_of_what_is_possible(rng, degree):
    """Against linear programs over all measures on a fine lattice with the same moments."""
    lattice = np.linspace(0, 1, 2001)
    x = rng.choice(lattice, 300, p=lattice**0.5 / np.sum(lattice**0.5))
    stats = statistics(x, Grid(0.0, 1.0, 1), degree)
    powers = lattice ** np.arange(2 * degree + 1)[:, None]
    wanted = np.mean(x ** np.arange(2 * degree + 1)[:, None], axis=1)
    ends = [
        linprog(sign * lattice ** (2 * degree + 1), A_eq=powers, b_eq=wanted).fun * sign
        for sign in (1, -1)
    ]
    nodes = checked(stats)
    have = nodes.masses @ nodes.inputs[0] ** (2 * degree + 1) / stats.weight
    assert have == pytest.approx(np.mean(ends), abs=0.02 * (ends[1] - ends[0]))


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("function", [np.exp, lambda f: np.logaddexp(0, f)])
def test_the_error_falls_with_the_cells(rng, degree, function):
    def f(x):
        return function(2 * np.sin(5 * x) + np.cos(11 * x))

    x = rng.beta(2, 1, 20_000)
    errors = []
    for cells in (8, 16, 32):
        nodes = nodes_of(statistics(x, Grid(0.0, 1.0, cells), degree))
        have = np.bincount(nodes.cells, nodes.masses * f(nodes.inputs[0]), cells)
        cell = np.minimum((x * cells).astype(int), cells - 1)
        errors.append(np.abs(have - np.bincount(cell, f(x), cells)).sum())
    rate = np.log2(errors[0] / errors[2]) / 2
    assert rate > 2 * degree + 1 - 0.3
    assert errors[2] < 20_000 * 0.5 ** (4 * degree + 2)


def test_coarsened_statistics(rng):
    stats = statistics(clumped(rng, 4000), Grid(0.0, 1.0, 60), 3)
    for factor in (2, 7, 60):
        coarse = stats.coarsen(factor)
        assert matched(coarse, checked(coarse)) < 1e-10


def test_circles_and_longitudes(rng):
    x = rng.uniform(-200, 700, 2000)
    for grid in (
        Grid(10.0, 370.0, 24, cyclic=True),
        Longitudes(10.0, 370.0, 24, cyclic=True),
    ):
        stats = statistics(grid.around(x), grid, 2)
        nodes = checked(stats)
        assert matched(stats, nodes) < 1e-12
        exact = np.sum(np.cos(np.radians(x)))
        have = nodes.masses @ np.cos(np.radians(nodes.inputs[0]))
        assert have == pytest.approx(exact, abs=1e-5)


def test_gauss_rules_against_lanczos(rng):
    """Of high degrees the rule is Gauss's, which the points themselves give by Lanczos's steps."""
    x = rng.beta(2, 2, 500)
    vectors, diagonal, beside = [np.full(500, 500**-0.5)], [], []
    for _ in range(7):
        new = x * vectors[-1]
        diagonal.append(new @ vectors[-1])
        for _ in range(2):
            new -= np.array(vectors).T @ (np.array(vectors) @ new)
        beside.append(np.linalg.norm(new))
        vectors.append(new / beside[-1])
    matrix = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    places, components = np.linalg.eigh(matrix)
    nodes = checked(statistics(x, Grid(0.0, 1.0, 1), 8))
    np.testing.assert_allclose(nodes.inputs[0], places, atol=1e-6)
    np.testing.assert_allclose(nodes.masses, 500 * components[0] ** 2, rtol=1e-4)


def lattice(cells, per, rng=None):
    """Return the pixels of a lattice, ``per`` along a cell and input, all or about half of them."""
    a = (np.arange(cells * per) + 0.5) / (cells * per)
    points = np.stack(np.meshgrid(a, a, indexing="ij"), -1).reshape(-1, 2)
    return points if rng is None else points[rng.uniform(size=len(points)) < 0.5]


@pytest.mark.parametrize("degrees", [(1, 1), (2, 2), (3, 3), (2, 1), (1, 3), (5, 5)])
def test_moments_of_two_inputs_are_reproduced(rng, degrees):
    grids = Grid(0.0, 1.0, 5), Grid(-2.0, 3.0, 6)
    x = rng.uniform(0, 1, (30 * 300, 2))
    x[:, 1] = 5 * x[:, 1] ** (0.8 + 0.4 * x[:, 0]) - 2
    stats = statistics(x, grids, degrees, rng.gamma(2.0, 1.0, len(x)))
    nodes = checked(stats)
    assert matched(stats, nodes) < 1e-12
    most = [min(k, 3) + 1 for k in degrees]
    assert np.all(np.bincount(nodes.cells) <= np.prod(most))


@pytest.mark.parametrize("degrees", [(1, 1, 1), (2, 2, 2), (3, 2, 1)])
def test_moments_of_three_inputs_are_reproduced(rng, degrees):
    grid = Grid(0.0, 1.0, 3)
    stats = statistics(rng.beta(2, 1, (27 * 200, 3)), [grid] * 3, degrees)
    assert matched(stats, checked(stats)) < 1e-4
    stats = statistics(rng.uniform(0, 1, (27 * 200, 3)), [grid] * 3, degrees)
    assert matched(stats, checked(stats)) < 1e-12


def test_products_of_measures_are_exact_for_all_powers(rng):
    grid = Grid(0.0, 1.0, 4)
    stats = statistics(lattice(4, 6), (grid, grid), (3, 3))
    nodes = checked(stats)
    assert matched(stats, nodes, all_powers=True) < 1e-12
    bent = statistics(rng.uniform(0, 1, (1000, 2)), (grid, grid), (3, 3))
    assert matched(bent, nodes_of(bent), all_powers=True) > 1e-6


def means(stats, nodes):
    """Return the first moments of every cell by the nodes, and as they are, over the mass."""
    inputs = len(stats.grids)
    flat = stats.moments.reshape(stats.cell_weights.size, *stats.moments.shape[inputs:])
    full = np.flatnonzero(stats.cell_weights)
    for d, s in enumerate(local_coordinates(stats.grids, nodes)):
        power = [int(e == d) for e in range(inputs)]
        mass = stats.cell_weights.ravel()[full]
        have = np.bincount(nodes.cells, nodes.masses * s, len(flat))[full] / mass
        yield have, flat[(full, *power)] / mass


@pytest.mark.parametrize("degrees", [(2, 2), (3, 3), (1, 1), (1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize("per_cell", [1, 3, 6, 12])
def test_sparse_cells_have_exact_means_and_nearly_exact_moments(rng, degrees, per_cell):
    grids = [Grid(0.0, 1.0, 4)] * len(degrees)
    x = rng.uniform(0, 1, (per_cell * 4 ** len(degrees), len(degrees)))
    stats = statistics(x, grids, degrees)
    nodes = checked(stats)
    assert matched(stats, nodes) < 1e-3
    for have, wanted in means(stats, nodes):
        np.testing.assert_allclose(have, wanted, atol=1e-13)


@pytest.mark.parametrize("kind", ["half of a lattice", "a line", "clumps", "weights", "knots"])
@pytest.mark.parametrize("degree", [2, 3])
def test_measures_at_the_edge_of_what_is_possible(rng, kind, degree):
    grid = Grid(0.0, 1.0, 6)
    t, weights = rng.uniform(0, 1, 3000), None
    if kind == "half of a lattice":
        x = lattice(6, 5, rng)
    elif kind == "a line":
        x = np.stack([t, np.abs(np.sin(4 * t))], -1)
    elif kind == "clumps":
        x = rng.choice(rng.uniform(0, 0.99, (40, 2)), 3000) + 1e-3 * rng.uniform(0, 1, (3000, 2))
    elif kind == "weights":
        x, weights = rng.uniform(0, 1, (1000, 2)), 10.0 ** rng.uniform(-6, 6, 1000)
    else:
        x = rng.integers(0, 13, (400, 2)) / 12
    stats = statistics(x, (grid, grid), (degree, degree), weights)
    nodes = checked(stats)
    assert matched(stats, nodes) < 1e-3
    for have, wanted in means(stats, nodes):
        np.testing.assert_allclose(have, wanted, atol=1e-13)


@pytest.mark.parametrize("degrees", [(2, 2), (3, 3), (2, 2, 2)])
def test_few_atoms_of_several_inputs_are_the_nodes(rng, degrees):
    inputs = len(degrees)
    grids = [Grid(0.0, 3.0, 3)] * inputs
    for number in range(1, 1 + min(6, np.prod(degrees))):
        angle = 2 * np.pi * np.arange(number)[:, None] / number + np.arange(inputs)
        x = 1.5 + 0.4 * np.cos(angle) + rng.uniform(-0.05, 0.05, (number, inputs))
        times = rng.integers(1, 9, number)
        nodes = checked(statistics(np.repeat(x, times, axis=0), grids, degrees))
        assert len(nodes.masses) == number
        order = np.argsort(nodes.inputs[0])
        found = np.stack(nodes.inputs, -1)[order]
        np.testing.assert_allclose(found, x[np.argsort(x[:, 0])], atol=1e-6)
        np.testing.assert_allclose(nodes.masses[order], times[np.argsort(x[:, 0])], rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 500])
def test_equal_points_of_two_inputs_give_one_node(rows):
    grids = Grid(0.0, 1.0, 5), Grid(0.0, 1.0, 4)
    nodes = checked(statistics(np.tile([0.33, 0.7], (rows, 1)), grids, (2, 3)))
    assert len(nodes.masses) == 1
    np.testing.assert_allclose(np.ravel(nodes.inputs), [0.33, 0.7], atol=1e-13)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("function", [np.exp, lambda f: np.logaddexp(0, f)])
def test_the_error_falls_with_the_cells_of_two_inputs(degree, function):
    def f(x, y):
        return function(2 * np.sin(5 * x) * np.cos(4 * y) + x * y)

    x = lattice(16, 20)  # many points in every cell: what few are like by chance does not fall
    weights = 1.0 + 0.9 * np.sin(7 * x[:, 0] * x[:, 1] + 3 * x[:, 0])
    errors = []
    for cells in (4, 8, 16):
        grid = Grid(0.0, 1.0, cells)
        nodes = nodes_of(statistics(x, (grid, grid), (degree, degree), weights))
        have = np.bincount(nodes.cells, nodes.masses * f(*nodes.inputs), cells**2)
        cell = np.ravel_multi_index([grid.locate(column)[0] for column in x.T], (cells, cells))
        errors.append(np.abs(have - np.bincount(cell, weights * f(*x.T), cells**2)).sum())
    assert np.log2(errors[0] / errors[2]) / 2 > 2 * degree + 1 - 0.3
    assert errors[2] < len(x) * 0.5 ** (6 * degree + 3)


@pytest.mark.parametrize("rows", [2000, 50_000])
def test_sums_over_scattered_rows_of_two_inputs(rng, rows):
    x = rng.beta(2, 1, (rows, 2))
    x[:, 1] = 0.5 * x[:, 1] + 0.5 * x[:, 0]  # some cells have few

    def f(x, y):
        return np.logaddexp(0, 2 * np.sin(5 * x) * np.cos(4 * y) + x * y)

    for degree, error in ((1, 1e-4), (2, 1e-6), (3, 1e-7)):
        nodes = nodes_of(statistics(x, [Grid(0.0, 1.0, 16)] * 2, (degree, degree)))
        assert nodes.masses @ f(*nodes.inputs) == pytest.approx(np.sum(f(*x.T)), abs=error * rows)


def test_coarsened_and_empty_statistics_of_two_inputs(rng):
    grids = Grid(0.0, 1.0, 12), Grid(0.0, 1.0, 12, cyclic=True)
    assert len(nodes_of(Statistics.empty(grids, (2, 2))).masses) == 0
    x = rng.uniform(0, 0.5, (4000, 2))
    stats = statistics(x, grids, (2, 2))
    for factors in ((2, 2), (3, 4)):
        coarse = stats.coarsen(factors)
        nodes = checked(coarse)
        assert matched(coarse, nodes) < 1e-11
    assert set(checked(stats).cells) == set(np.flatnonzero(stats.cell_weights))


def test_averages_and_negative_weights_are_refused():
    x, grid = np.arange(0.0, 5.0, 0.5), Grid(0.0, 5.0, 5)
    averages = Statistics.from_data(x, 0 * x, grid, 2, width=np.full(len(x), 0.25))
    with pytest.raises(ValueError, match="averages over"):
        nodes_of(averages)
    with pytest.raises(ValueError, match=r"Cell .3.* negative mass"):
        nodes_of(statistics(x, grid, 2, np.where(x > 2.9, -1.0, 1.0) * (x < 4) + 0.5 * (x >= 4)))
    smooth = Statistics.from_data(None, x, smooths=((grid, 2),), smooth_inputs=x)
    with pytest.raises(ValueError, match="additive"):
        nodes_of(smooth)


@pytest.mark.parametrize(
    "grids",
    [
        [Grid(-1.0, 2.0, 5)],
        [Grid(-1.0, 2.0, 3), Grid(0.0, 5.0, 4)],
        [Longitudes(0.0, 360.0, 6, cyclic=True), Latitudes(-60.0, 60.0, 3), Grid(0.0, 1.0, 2)],
    ],
)
def test_lebesgue_nodes_integrate_polynomials(grids):
    number = [2, 3, 1][: len(grids)]
    nodes = lebesgue_nodes(grids, number)
    assert np.all(nodes.masses > 0)
    places = np.unravel_index(nodes.cells, [grid.cells for grid in grids])
    for grid, x, cell in zip(grids, nodes.inputs, places, strict=True):
        assert np.array_equal(grid.locate(x)[0], cell)
    counts = np.bincount(nodes.cells)
    assert len(counts) == np.prod([grid.cells for grid in grids])
    assert np.all(counts == np.prod(number))
    for powers in product(*[range(2 * n) for n in number]):
        values, exact = nodes.masses.copy(), 1.0
        for grid, x, p in zip(grids, nodes.inputs, powers, strict=True):
            values *= (x / grid.upper) ** p
            ends = np.array([grid.lower, grid.upper]) / grid.upper
            exact *= np.diff(ends ** (p + 1))[0] * grid.upper / (p + 1)
        assert values.sum() == pytest.approx(exact, rel=1e-12, abs=1e-9)
    with pytest.raises(ValueError, match="positive whole numbers"):
        lebesgue_nodes(grids, 0)
