"""Sums over the cells of a line against dense matrices of functions."""

from typing import NamedTuple

import numpy as np
import pytest

from asvgp.linalg.cells import elements


class Line(NamedTuple):
    """Five cells in leaves of 2, 0 and 3 cells: a group of two functions alive, and one of one.

    ``phi`` (cells, functions alive, powers) are their polynomials, cell by cell.
    """

    edges: np.ndarray
    groups: np.ndarray
    table: np.ndarray
    places: np.ndarray
    phi: np.ndarray
    work: np.ndarray

    @property
    def where(self):
        return 0, 3, self.edges, self.groups, self.table, self.places


@pytest.fixture
def rng():
    return np.random.default_rng(9)


@pytest.fixture
def line(rng):
    alive, patterns, powers, cells = np.array([2, 1]), np.array([1, 3]), 3, 5
    tables = [rng.standard_normal((p, a, powers)) for p, a in zip(patterns, alive, strict=True)]
    starts = np.array([0, tables[0].size])
    table = np.concatenate([each.ravel() for each in tables])
    phi = np.concatenate([each[np.arange(cells) % len(each)] for each in tables], axis=1)
    places = np.array([[0, 1, 3], [1, 2, 3], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    edges = np.array([0, 2, 2, 5])
    return Line(edges, np.stack([alive, patterns, starts]), table, places, phi, np.empty((2, 3, 3)))


def cells_of(line):
    """Every leaf with each of its cells."""
    return [(leaf, c) for leaf in range(3) for c in range(line.edges[leaf], line.edges[leaf + 1])]


def hankel(moments, powers=3):
    return moments[np.arange(powers)[:, None] + np.arange(powers)]


@pytest.mark.parametrize("columns", [0, 2])
def test_products_of_functions(rng, line, columns):
    moments, cross = rng.uniform(0.1, 1.0, (5, 5)), rng.standard_normal((5, 3, columns))
    moments[3, 0] = 0.0  # a cell without data
    out = np.ones((3, 4 + columns, 4 + columns))
    elements.add_gram(*line.where, moments, cross, line.work, out)
    expected = np.ones_like(out)
    for leaf, c in cells_of(line):
        if c != 3:
            p, phi = line.places[c], line.phi[c]
            expected[leaf][np.ix_(p, p)] += phi @ hankel(moments[c]) @ phi.T
            expected[leaf, p, 4:] += phi @ cross[c]
            expected[leaf, 4:, p] += phi @ cross[c]
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_functions_times_targets_and_back(rng, line):
    """The two are each other's transposes, and the first is compared with a dense sum."""
    numbers = line.places + 4 * (np.arange(5)[:, None] > 1)
    targets, out = rng.standard_normal((2, 5, 3)), np.zeros((8, 2))
    elements.add_targets(line.groups, line.table, numbers, targets, line.work, out)
    expected = np.zeros_like(out)
    for c in range(5):
        expected[numbers[c]] += line.phi[c] @ targets[:, c].T
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    mean, back = rng.standard_normal((8, 2)), np.zeros((2, 5, 3))
    chosen = np.array([1, 0, 1])
    elements.add_mean(line.groups, line.table, numbers, chosen, mean, line.work, back)
    for c in range(5):
        wanted = (mean[numbers[c]] * chosen[:, None]).T @ line.phi[c]
        np.testing.assert_allclose(back[:, c], wanted, atol=1e-13)


@pytest.mark.parametrize("chosen", [[1, 1, 1], [0, 1, 1]], ids=str)
def test_squares_of_functions(rng, line, chosen):
    inverse = rng.standard_normal((3, 6, 6))
    inverse, chosen, out = inverse @ inverse.swapaxes(1, 2), np.array(chosen), np.zeros((5, 5))
    elements.add_squares(*line.where, chosen, inverse, line.work, out)
    cross = np.zeros((5, 3, 2))
    elements.add_cross(*line.where, inverse, line.work, cross)
    s = 0.3 ** np.arange(5)
    for leaf, c in cells_of(line):
        p, values = line.places[c], line.phi[c] @ s[:3]
        part = values * chosen
        block = inverse[leaf]
        assert out[c] @ s == pytest.approx(part @ block[np.ix_(p, p)] @ part, rel=1e-12)
        np.testing.assert_allclose(s[:3] @ cross[c], values @ block[p, 4:], rtol=1e-12)


def test_elements_and_their_sums(rng, line):
    element, inverse = rng.standard_normal((3, 3)), rng.standard_normal((2, 4, 4))
    out, total = np.zeros((2, 4, 4)), np.zeros((3, 3))
    elements.add_elements(1, 3, line.edges, line.places, element, out)
    elements.sum_elements(1, 3, line.edges, line.places, inverse, total)
    expected, wanted = np.zeros_like(out), np.zeros_like(total)
    for c in range(2, 5):
        at = np.ix_(line.places[c], line.places[c])
        expected[1][at] += element
        wanted += inverse[1][at]
    np.testing.assert_allclose(out, expected, rtol=1e-13)
    np.testing.assert_allclose(total, wanted, rtol=1e-13)


def test_moments_weighted_with_polynomials(rng):
    moments, polynomials, out = (
        rng.standard_normal((5, 6)),
        rng.standard_normal((2, 3)),
        np.empty((5, 4)),
    )
    elements.contract_powers(moments, polynomials, out)
    for c in range(5):
        np.testing.assert_allclose(
            out[c], np.convolve(moments[c], polynomials[c % 2][::-1], "valid")
        )
