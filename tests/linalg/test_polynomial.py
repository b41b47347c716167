"""Polynomials on cells against NumPy's."""

import numpy as np
import pytest
from numpy.polynomial import polynomial

from asvgp.linalg.cells.polynomial import (
    add_columns,
    bilinear,
    evaluate,
    evaluate_line,
    evaluate_terms,
)
from asvgp.linalg.unrolled import markers_of


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_means_and_variances_on_a_line(rng, degree):
    """Three cells on [1, 4], two outputs; points outside are counted and left as they are."""
    coef, polynomials = rng.standard_normal((2, 3, degree + 1)), np.zeros((3, 2 * degree + 1))
    polynomials[:] = rng.uniform(0.0, 0.5 / degree, polynomials.shape)
    polynomials[2, 0] = 9.0  # more than the prior's variance
    x = np.array([1.0, 1.7, 0.9, 2.2, 3.5, 4.0, 4.1])
    inside = np.array([True, True, False, True, True, True, False])
    cells, s = np.array([0, 0, 0, 1, 2, 2, 0]), np.array([0.0, 0.7, 0.0, 0.2, 0.5, 1.0, 0.0])
    mean, variance = np.full((2, 9), 7.0), np.full(9, 7.0)
    arguments = x, 1.0, 4.0, 1.0, coef, polynomials, 3.0, 0.25, 2
    assert evaluate_line(*arguments, mean, variance) == 2
    for i in range(7):
        wanted = [polynomial.polyval(s[i], row) for row in coef[:, cells[i]]]
        np.testing.assert_allclose(mean[:, i + 2], wanted if inside[i] else 7.0, rtol=1e-13)
        wanted = max(3.0 - polynomial.polyval(s[i], polynomials[cells[i]]), 0.25)
        assert variance[i + 2] == pytest.approx(wanted if inside[i] else 7.0, rel=1e-13)
    alone = np.full((2, 9), 7.0)
    assert evaluate_line(*arguments, alone, np.empty(0)) == 2
    np.testing.assert_array_equal(alone, mean)


@pytest.mark.parametrize("degree", [1, 4])
def test_values_with_the_sizes_of_their_terms(rng, degree):
    polynomials = rng.standard_normal((3, degree + 1))
    x, values, magnitudes = np.array([-1.0, 0.25, 2.0]), np.empty(3), np.empty(3)
    evaluate_terms(markers_of((degree,)), x, -1.0, 1.0, polynomials, values, magnitudes)
    for i, (cell, s) in enumerate([(0, 0.0), (1, 0.25), (2, 1.0)]):
        assert values[i] == pytest.approx(polynomial.polyval(s, polynomials[cell]))
        assert magnitudes[i] == pytest.approx(polynomial.polyval(s, np.abs(polynomials[cell])))


@pytest.mark.parametrize("sizes", [(3,), (2, 4), (2, 1, 3)], ids=str)
def test_values_of_several_inputs(rng, sizes):
    coef = rng.standard_normal((4, int(np.prod(sizes))))
    cells, s = np.array([3, 0, 3]), rng.uniform(size=(3, len(sizes)))
    out, work = np.empty(3), np.empty(coef.shape[1])
    evaluate(coef, np.array(sizes), cells, s, work, out)
    for value, cell, point in zip(out, cells, s, strict=True):
        wanted = coef[cell].reshape(sizes)
        for each in point:  # each takes the first power away
            wanted = polynomial.polyval(each, wanted)
        assert value == pytest.approx(float(wanted), rel=1e-13)


def test_products_of_few_weights(rng):
    blocks, block = rng.standard_normal((2, 5, 5)), np.array([1, 0, 1])
    i, j = rng.integers(0, 5, (3, 2)), rng.integers(0, 5, (3, 4))
    u, v, out = rng.standard_normal((3, 2)), rng.standard_normal((3, 4)), np.empty(3)
    u[1, 0] = 0.0
    bilinear(blocks, block, i, u, j, v, out)
    wanted = [u[n] @ blocks[block[n]][np.ix_(i[n], j[n])] @ v[n] for n in range(3)]
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


@pytest.mark.parametrize("keep", [False, True])
def test_shares_of_global_columns(rng, keep):
    cross, root = rng.standard_normal((3, 4, 2)), rng.standard_normal((2, 2))
    columns, cells, s = root @ root.T, np.array([2, 0]), np.array([0.3, 0.9])
    values, quadratic = rng.standard_normal((2, 2)), np.ones(2)
    magnitude = np.ones(2 * keep)
    add_columns(cross, columns, cells, s, values, quadratic, magnitude)
    shared = [
        2.0 * (t ** np.arange(4)) @ cross[c] @ v for c, t, v in zip(cells, s, values, strict=True)
    ]
    alone = [v @ columns @ v for v in values]
    np.testing.assert_allclose(quadratic, 1.0 + np.add(shared, alone), rtol=1e-12)
    if keep:
        np.testing.assert_allclose(magnitude, 1.0 + np.abs(shared) + alone, rtol=1e-12)
