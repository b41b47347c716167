"""Sums over the points of cells against the same sums written as products of dense matrices."""

import numpy as np
import pytest

from asvgp.linalg.cells import accumulate as line
from asvgp.linalg.cells import accumulate_columns as columns
from asvgp.linalg.cells import accumulate_field as field
from asvgp.linalg.unrolled import markers_of

LOWER, SCALE, CELLS = -1.0, 2.0, 4  # cells of a half, from -1 to 1


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def located(x, cells=CELLS):
    """Cells and local coordinates; the last point of the domain belongs to the last cell."""
    t = (x - LOWER) * SCALE
    cell = np.minimum(np.floor(t), cells - 1).astype(int)
    return cell, t - cell


def powers(s, degree):
    return s[:, None] ** np.arange(degree + 1)


@pytest.mark.parametrize("weighted, missing", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_points_of_one_input(rng, degree, weighted, missing):
    """More than a block of each of the four parts that are read in turn, and three points over."""
    n = 4 * line.BLOCK + 4 * 5 + 3 if degree == 2 else 11
    x, y = rng.uniform(-1.0, 1.0, n), rng.standard_normal(n)
    x[0], w = 1.0, rng.uniform(0.5, 2.0, n) if weighted else np.empty(0)
    if missing:
        y[[1, n - 1]] = np.nan
    table, totals = line.aligned_table(CELLS, degree), np.array([1.0, 2.0, 3.0])
    table += 0.5
    line.accumulate(degree, x, y, w, LOWER, SCALE, table, totals)
    there = ~np.isnan(y)
    (cell, s), w = located(x[there]), w[there] if weighted else np.ones(there.sum())
    y = y[there]
    expected = np.full_like(table, 0.5)
    moments, targets = powers(s, 2 * degree) * w[:, None], powers(s, degree) * (w * y)[:, None]
    np.add.at(expected[:, : 2 * degree + 1], cell, moments)
    np.add.at(expected[:, 2 * degree + 1 : 3 * degree + 2], cell, targets)
    np.testing.assert_allclose(table, expected, rtol=1e-11, atol=1e-11)
    sums = [w @ y**2, n - len(y), np.log(w).sum()]
    np.testing.assert_allclose(totals, np.add([1.0, 2.0, 3.0], sums), rtol=1e-12)
    assert table.ctypes.data % 64 == 0


def test_weights_are_ones_again_after_a_block_with_missing_values(rng):
    n = 4 * 3 * line.BLOCK
    x, y = rng.uniform(-1.0, 1.0, n), rng.standard_normal(n)
    y[line.BLOCK] = np.nan  # the second of three blocks of the first part
    table, totals = line.aligned_table(CELLS, 1), np.zeros(3)
    line.accumulate(1, x, y, np.empty(0), LOWER, SCALE, table, totals)
    assert table[:, 0].sum() == n - 1
    np.testing.assert_array_equal(totals[1:], [1.0, 0.0])
    assert totals[0] == pytest.approx(np.nansum(y**2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("degree", [1, 3])
def test_averages_over_intervals(rng, degree, weighted):
    n = 7
    x, width = rng.uniform(-1.0, 0.9, n), np.full(n, 0.05)
    x = LOWER + np.floor((x - LOWER) * SCALE) / SCALE + rng.uniform(0.0, 0.4, n)
    # outside of the first cell and of the last one, and most of it in the third one
    x[:3], width[:4] = [-1.6, 0.99, -0.01], [0.03, 0.1, 0.03, 0.0]
    y, w = rng.standard_normal(n), rng.uniform(0.5, 2.0, n) if weighted else np.empty(0)
    y[4] = np.nan
    table, totals = line.average_table(CELLS, degree), np.zeros(3)
    table += 1.0
    markers = markers_of((degree,))
    line.accumulate_averages(markers, x, width, y, w, LOWER, SCALE, table, totals)
    expected, sums = np.ones_like(table), np.zeros(3)
    nodes, masses = np.polynomial.legendre.leggauss(4)
    upper = np.triu_indices(degree + 1)
    for i in range(n):
        if i == 4:
            sums[1] += 1.0
            continue
        weight = w[i] if weighted else 1.0
        cell = np.clip(int(np.floor((x[i] + 0.5 * width[i] - LOWER) * SCALE)), 0, CELLS - 1)
        places = (x[i] + width[i] * (0.5 + 0.5 * nodes) - LOWER) * SCALE - cell
        mean = 0.5 * masses @ powers(places, degree)
        entries = np.append(np.outer(mean, mean)[upper], y[i] * mean)
        expected[cell] += weight * entries
        sums += [weight * y[i] ** 2, 0.0, np.log(weight)]
    np.testing.assert_allclose(table, expected, rtol=1e-12)
    np.testing.assert_allclose(totals, sums, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("degree", [0, 2])
def test_values_of_splines(rng, degree):
    x = np.append(rng.uniform(-1.0, 1.0, columns.BLOCK), [-1.0 - 1e-3, -1.0, 0.0, 1.0])
    coefficients = rng.standard_normal((degree + 1, degree + 1))
    first, values = np.full(len(x) + 2, -7, np.int32), np.full((degree + 1, len(x) + 2), 7.0)
    columns.spline_values(x, LOWER, SCALE, CELLS, 10, coefficients, 1, first, values)
    cell = np.maximum(located(x)[0], 0)
    s = (x - LOWER) * SCALE - cell
    np.testing.assert_array_equal(first[1:-1], 10 + cell)
    np.testing.assert_allclose(values[:, 1:-1], coefficients @ powers(s, degree).T, atol=1e-12)
    assert np.all(first[[0, -1]] == -7)
    assert np.all(values[:, [0, -1]] == 7.0)


def test_products_of_two_groups_of_columns(rng):
    n, sizes, begins = 6, (3, 2), (0, 5)
    groups, dense = [], []
    for size, begin in zip(sizes, begins, strict=True):
        first, values = begin + rng.integers(0, 3, n, np.int32), rng.standard_normal((size, n))
        whole = np.zeros((n, 9))
        for p in range(n):
            whole[p, first[p] : first[p] + size] = values[:, p]
        groups += [first, values]
        dense.append(whole)
    weights, gram = rng.uniform(0.5, 2.0, n), np.ones((9, 9))
    columns.add_pair(markers_of(sizes), weights, *groups, gram)
    expected = 1.0 + dense[0].T @ (weights[:, None] * dense[1])
    np.testing.assert_allclose(gram, expected, rtol=1e-12)


def test_cells_of_several_inputs(rng):
    x, y = rng.uniform(-1.0, 1.0, (2, 9))
    x[:2], y[:1] = [1.0, -1.0 - 1e-3], 1.0
    cell, local = np.zeros(9, np.int64), np.empty((2, 9))
    for each, count, s in zip((x, y), (CELLS, 3), local, strict=True):
        field.locate(each, LOWER, SCALE, count, cell, s)
    places = [np.maximum(located(each, count)[0], 0) for each, count in ((x, CELLS), (y, 3))]
    np.testing.assert_array_equal(cell, np.ravel_multi_index(places, (CELLS, 3)))
    np.testing.assert_allclose(local, (np.stack([x, y]) - LOWER) * SCALE - places, atol=1e-13)


def test_points_in_the_order_of_blocks(rng):
    cell, order = rng.integers(0, 32, 20), np.empty(20, np.int64)
    place = field.sort_blocks(cell, 2, 8, order)
    np.testing.assert_array_equal(order, np.argsort(cell >> 2, kind="stable"))
    np.testing.assert_array_equal(place, np.searchsorted(np.sort(cell >> 2), np.arange(9)))
    values, out = rng.standard_normal(20), np.empty(20)
    field.gather(order, values, out)
    np.testing.assert_array_equal(out, values[order])


class Batch:
    """Points of several inputs in three cells, with two outputs, and products of their powers."""

    def __init__(self, rng, degrees, n=15, outputs=2):
        self.degrees, self.n = degrees, n
        self.cell = rng.integers(0, 3, n)
        local, self.weights = rng.uniform(size=(len(degrees), n)), rng.uniform(0.5, 2.0, n)
        self.local, self.outputs = local, rng.standard_normal((outputs, n))
        self.points = np.vstack([local, self.weights, self.weights * self.outputs])

    def products(self, times=1):
        """(points, powers): the powers of all inputs multiplied, the last input the fastest."""
        out = np.ones((self.n, 1))
        for s, degree in zip(self.local, self.degrees, strict=True):
            out = (out[:, :, None] * powers(s, times * degree)[:, None]).reshape(self.n, -1)
        return out

    def sums(self, rows, start, stop):
        """Sums of rows over the points of a cell."""
        inside = (np.arange(self.n) >= start) & (np.arange(self.n) < stop)
        return np.stack([rows[inside & (self.cell == c)].sum(axis=0) for c in range(3)])


@pytest.mark.parametrize("degrees, looped", [((2, 1, 1), 0), ((2, 2, 2, 1), 1), ((3, 3, 3, 1), 2)])
def test_points_of_several_inputs(rng, degrees, looped):
    """Some inputs are looped over, the powers of the others are written out."""
    assert field.looped_inputs(degrees) == looped
    batch = Batch(rng, degrees)
    before, last = batch.degrees[:looped], batch.degrees[looped:]
    number = [int(np.prod([times * k + 1 for k in batch.degrees])) for times in (2, 1)]
    moments, targets = np.ones((3, number[0])), np.ones((2, 3, number[1]))
    lead = np.empty(int(np.prod([2 * k + 1 for k in before])))
    field.add_points(
        markers_of(last), np.array(before, np.int64), batch.cell, batch.points, 1, 14, lead,
        moments, targets,
    )  # fmt: skip
    weighted = batch.weights[:, None]
    wanted = 1.0 + batch.sums(batch.products(2) * weighted, 1, 14)
    np.testing.assert_allclose(moments, wanted, rtol=1e-12)
    for y, found in zip(batch.outputs, targets, strict=True):
        wanted = 1.0 + batch.sums(batch.products() * weighted * y[:, None], 1, 14)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_products_with_global_columns(rng):
    batch, order = Batch(rng, (1, 2)), rng.permutation(15)
    offsets, first = np.array([0, 3, 4]), np.stack([rng.integers(0, 4, 15), np.full(15, 6)])
    values, dense = rng.standard_normal((4, 15)), np.zeros((15, 7))
    for i in range(15):  # in the order of the data
        dense[i, first[0, i] : first[0, i] + 3] = values[:3, i]
        dense[i, 6] = values[3, i]
    cross = np.ones((3, 6, 7))
    field.add_cross(
        np.array(batch.degrees), order, batch.cell, batch.points, 1, 14, first, offsets, values,
        np.empty(6), cross,
    )  # fmt: skip
    weighted = batch.products() * batch.weights[:, None]
    expected = 1.0 + batch.sums(weighted[:, :, None] * dense[order][:, None], 1, 14)
    np.testing.assert_allclose(cross, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4])
def test_cells_merged_into_wider_ones(rng, size):
    """The powers of s on a cell that is a half of another are polynomials of those there."""
    parts, degree = 2, 3
    # s of the parent is (part + t) / parts
    maps = np.zeros((parts, degree + 1, degree + 1))
    for part in range(parts):
        for j in range(degree + 1):
            maps[part, j, : j + 1] = np.polynomial.polynomial.polypow([part / parts, 0.5], j)
    t, s = rng.uniform(size=(2, 4, 5)), rng.standard_normal((2, 4, 3, 5, size))
    sums = np.einsum("acpj,acbpe->acbje", t[..., None] ** np.arange(degree + 1), s)
    merged = np.ones((2, 2, 3, degree + 1, size))
    field.merge_cells(sums, maps, merged)
    there = (np.arange(4) % 2)[:, None] * 0.5 + 0.5 * t
    wanted = np.einsum("acpj,acbpe->acbje", there[..., None] ** np.arange(degree + 1), s)
    wanted = 1.0 + wanted[:, 0::2] + wanted[:, 1::2]
    np.testing.assert_allclose(merged, wanted, rtol=1e-11, atol=1e-11)
