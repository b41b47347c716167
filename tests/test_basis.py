"""B-splines, their local polynomials and the operator's Gram matrix."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

from asvgp.basis import (
    Grid,
    bspline_coefficients,
    log_jacobian,
    operator_gram,
    operator_nodes,
    rescaling,
    rescalings,
    taylor_shift,
)
from tests.dense import design

DEGREES = [1, 2, 3, 4, 5]


@pytest.mark.parametrize("degree", DEGREES)
def test_local_polynomials_are_scipys_bsplines(degree):
    grid = Grid(-1.0, 3.0, 7)
    x = np.linspace(-1.0, 2.999, 57)
    cells, s = grid.locate(x)
    phi = design(x, grid, degree)
    powers = s[:, None] ** np.arange(degree + 1)
    local = powers @ bspline_coefficients(degree).T
    for row, cell, values in zip(phi, cells, local, strict=True):
        np.testing.assert_allclose(row[cell : cell + degree + 1], values, atol=1e-13)
        assert np.count_nonzero(np.abs(row) > 1e-13) <= degree + 1


@pytest.mark.parametrize("degree", DEGREES)
def test_shift_moves_taylor_coefficients_to_the_next_knot(degree):
    rng = np.random.default_rng(degree)
    v = rng.standard_normal(degree + 1)
    moved = np.poly1d(v[::-1])
    state = taylor_shift(degree) @ v
    for i in range(degree):
        derivative = moved if i == 0 else moved.deriv(i)
        factorial = np.prod(np.arange(1, i + 1)) if i else 1.0
        assert state[i] == pytest.approx(derivative(1.0) / factorial)


@pytest.mark.parametrize("degree", DEGREES)
def test_jacobian_is_the_determinant_of_the_change_of_basis(degree):
    cells = 6
    knots = np.arange(-degree, cells + degree + 1.0)
    change = np.zeros((cells + degree, cells + degree))
    for m in range(cells + degree):
        w = np.zeros(cells + degree)
        w[m] = 1.0
        spline = BSpline(knots, w, degree)
        taylor = [spline.derivative(i)(1e-12) if i else spline(0.0) for i in range(degree)]
        factorials = [np.prod(np.arange(1, i + 1)) if i else 1.0 for i in range(degree + 1)]
        change[:degree, m] = np.array(taylor) / factorials[:degree]
        change[degree:, m] = spline.derivative(degree)(np.arange(cells) + 0.5) / factorials[degree]
    expected = 2.0 * np.linalg.slogdet(change)[1]
    assert log_jacobian(degree, cells) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    "order, degree", [(order, degree) for order in (1, 2, 3, 4) for degree in (order, order + 1)]
)
def test_operator_gram_and_its_root_agree_with_quadrature(order, degree):
    rng = np.random.default_rng(10 * degree + order)
    a = rng.uniform(0.1, 2.0, order + 1)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    nodes, weights = (nodes + 1) / 2, weights / 2
    applied = np.zeros((20, degree + 1))
    for j in range(degree + 1):
        monomial = np.poly1d(np.eye(degree + 1)[j][::-1])
        for i in range(order + 1):
            applied[:, j] += a[i] * (monomial if i == 0 else monomial.deriv(i))(nodes)
    expected = applied.T @ (weights[:, None] * applied)
    gram = np.einsum("i,m,imjl->jl", a, a, operator_gram(order, degree))
    root = np.einsum("i,qij->qj", a, operator_nodes(order, degree))
    np.testing.assert_allclose(gram, expected, rtol=1e-12)
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-12)


def test_locate_puts_both_ends_and_knots_inside():
    grid = Grid(2.0, 5.0, 3)
    cells, s = grid.locate([2.0, 3.0, 4.5, 5.0])
    assert cells.tolist() == [0, 1, 2, 2]
    np.testing.assert_allclose(s, [0.0, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(grid.knots, [2.0, 3.0, 4.0, 5.0])


def test_coarsened_grid_covers_the_domain():
    assert Grid(0.0, 8.0, 8).coarsen() == Grid(0.0, 8.0, 4)
    wider = Grid(0.0, 7.0, 7).coarsen(4)
    assert (wider.cells, wider.upper) == (2, 8.0)


@pytest.mark.parametrize("factor", [1, 2, 3, 8])
def test_rescalings_are_those_of_all_parts(factor):
    parts = rescalings(5, factor).reshape(6, factor, 6)
    for offset in range(factor):
        np.testing.assert_allclose(parts[:, offset], rescaling(5, offset, factor), rtol=1e-14)
        s = np.array([0.0, 0.3, 1.0])
        powers = s[:, None] ** np.arange(6)
        expected = ((s + offset) / factor)[:, None] ** np.arange(6)
        np.testing.assert_allclose(powers @ parts[:, offset].T, expected, rtol=1e-13)
