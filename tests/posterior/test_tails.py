"""Functionals along one input against fifty-digit covariances and quadrature."""

import itertools
from math import comb, factorial

import numpy as np
import pytest

from asvgp import SHO, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid, bspline_coefficients
from asvgp.posterior.tails import Splines, in_splines
from tests.dense import KERNELS, kernel_id
from tests.posterior.test_functionals import slope

GRID = Grid(0.0, 2.0, 5)
ENDS = [None, (0.0, 1.75)]  # the last cell may reach beyond the domain
each_order = pytest.mark.parametrize(
    "kernel, order",
    [(k, r) for k in KERNELS for r in range(k.order + 1)],
    ids=lambda v: v if isinstance(v, int) else kernel_id(v),
)


def expected(kernel, lag, order):
    """Weights of the state at an end in the mean of a derivative so far to its right."""
    size = kernel.order + 1
    signs = (-1.0) ** np.arange(size)
    cross = np.array([slope(kernel, lag, order + i) for i in range(size)]).T * signs
    zero = np.zeros(1)
    state = [[slope(kernel, zero, i + j)[0] * signs[j] for j in range(size)] for i in range(size)]
    return np.linalg.solve(np.array(state).T, cross.T).T


@pytest.mark.parametrize("ends", ENDS)
@each_order
def test_tails_are_conditional_means(kernel, order, ends):
    degree = kernel.order + 2
    splines = Splines(kernel, GRID, degree, ends)
    lag, coef = np.array([0.01, 0.2, 1.0]), np.random.default_rng(0).standard_normal(degree + 1)
    for right in (False, True):
        end = splines.upper if right else splines.lower
        place = (end - GRID.lower) / GRID.spacing - (GRID.cells - 1) if right else 0.0
        state = [
            factorial(i)
            / GRID.spacing**i
            * sum(comb(j, i) * place ** (j - i) * coef[j] for j in range(i, degree + 1))
            for i in range(kernel.order + 1)
        ]
        mirror = 1.0 if right else (-1.0) ** np.arange(kernel.order + 1)
        mean = expected(kernel, lag, order) @ (np.array(state) * mirror)
        cells, weights = splines.rows(end + lag if right else end - lag, order)
        assert (cells == (GRID.cells - 1 if right else 0)).all()
        scale = np.abs(mean).max() + 1.0
        sign = 1.0 if right else (-1.0) ** order
        np.testing.assert_allclose(weights @ coef, sign * mean, atol=1e-9 * scale)


@each_order
def test_rows_inside_are_derivatives_of_polynomials(kernel, order):
    degree = kernel.order + 1
    coef = np.random.default_rng(1).standard_normal((GRID.cells, degree + 1))
    x = np.random.default_rng(2).uniform(0.0, 2.0, 30)
    cells, weights = Splines(kernel, GRID, degree).rows(x, order)
    for cell, row, place in zip(cells, weights, x, strict=True):
        piece = np.polynomial.Polynomial(coef[cell]).deriv(order) if order else None
        piece = piece or np.polynomial.Polynomial(coef[cell])
        s = (place - GRID.lower) / GRID.spacing - cell
        np.testing.assert_allclose(row @ coef[cell], piece(s) / GRID.spacing**order, atol=1e-11)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("kernel", [Matern12(0.7), Matern32(0.5), Matern72(1.0), SHO(0.9, 2.0)])
def test_averages_are_those_of_rows(kernel, ends):
    degree = kernel.order + 1
    splines, count = Splines(kernel, GRID, degree, ends), GRID.cells + degree
    low = np.array([0.1, 0.1, -1.0, -1.0, 1.7, 2.1, 0.3, 2.5, -0.5])
    high = np.array([0.2, 1.3, -0.2, 3.0, 2.2, 2.9, 0.3, 2.5, -0.5])
    got = in_splines(splines.averages(low, high), degree, count)
    nodes, node_weights = np.polynomial.legendre.leggauss(24)
    for a, b, row in zip(low, high, got, strict=True):
        cuts = np.unique([a, b, *[k for k in (*GRID.knots, splines.upper) if a < k < b]])
        if a == b:
            cuts = np.array([a, a])
        total = np.zeros(count)
        for start, stop in itertools.pairwise(cuts):
            x = start + (stop - start) * (nodes + 1.0) / 2.0
            cells, taylor = splines.rows(x)
            weights = taylor @ bspline_coefficients(degree).T
            share = (stop - start) / (b - a) if b > a else 1.0
            for cell, w, part in zip(cells, node_weights / 2.0, weights, strict=True):
                total[cell : cell + degree + 1] += share * w * part
        np.testing.assert_allclose(row, total, atol=1e-10)


def test_prior_covariances_are_those_of_the_kernel():
    lag = np.array([0.0, 0.3, 2.0])
    for order in range(3):
        got = Splines(Matern52(0.8, 1.3), GRID, 3).covariance(lag, order)
        wanted = (-1.0) ** order * slope(Matern52(0.8, 1.3), lag, 2 * order)
        np.testing.assert_allclose(got, wanted, rtol=1e-9)
