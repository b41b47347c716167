"""Periodic processes on cyclic splines: K, its eigenvalues, and the axis of a field."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import Periodic
from asvgp.basis import Grid
from asvgp.model.circle import CircleAxis
from asvgp.model.closed import ClosedAxis
from tests.dense import design

CASES = [(0.5, 1), (0.5, 2), (1.5, 2), (1.5, 3), (2.5, 3), (2.5, 4)]


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("nu", "degree"), CASES)
def test_eigenvalues_are_those_of_the_matrix(nu, degree, centred):
    process = Periodic(2.0, 0.3, nu=nu, centred=centred)
    axis = CircleAxis(process, Grid(0.0, 2.0, 32), degree, 16, 2)
    sign, log_det = np.linalg.slogdet(axis.matrix)
    assert sign == 1.0
    assert axis.log_det == pytest.approx(log_det, rel=1e-11)
    slope = np.trace(np.linalg.solve(axis.matrix, axis.d_matrix[0]))
    assert axis.d_log_det[0] == pytest.approx(slope, rel=1e-9)
    inverse = np.linalg.inv(axis.matrix)
    np.testing.assert_allclose(axis.inverse, inverse, rtol=1e-9, atol=1e-10)
    expected = -inverse @ axis.d_matrix[0] @ inverse
    np.testing.assert_allclose(axis.d_inverse[0], expected, rtol=1e-9, atol=1e-10)
    if centred:  # the mean of the splines' process is all but known
        assert axis.inverse.mean() == pytest.approx(1e-6, rel=1e-4)


@pytest.mark.parametrize(("nu", "degree"), CASES)
@pytest.mark.parametrize("length", [0.1, 40.0])
def test_a_constant_keeps_all_digits(nu, degree, length):
    """The norm of a constant is known: that of a long process is far smaller than any other."""
    process = Periodic(2.0, length, nu=nu)
    axis = CircleAxis(process, Grid(0.0, 2.0, 256), degree, 256, 1)
    form = process.circle(2.0 / 256)
    norm = 256 * form.operator[0] ** 2 * np.exp(-form.log_density)
    assert 1.0 / axis.inverse[0].sum() == pytest.approx(norm / 256, rel=1e-11)


@pytest.mark.parametrize("level", [0, 1])
def test_an_axis_of_a_field_is_that_of_its_functions(level):
    grid, rng = Grid(-0.5, 1.5, 16, cyclic=True), np.random.default_rng(0)
    axis = ClosedAxis(Periodic(2.0, 0.4), grid, 2, level, 3)
    x, weights = rng.uniform(-3.0, 3.0, 40), rng.uniform(0.5, 2.0, 40)
    functions = design(x, axis.grid, 2)
    cell, s = grid.locate(x)
    moments = np.zeros((16, 7))
    np.add.at(moments, cell, weights[:, None] * s[:, None] ** np.arange(7))
    powers = np.zeros((40, 16, 4))
    powers[np.arange(40), cell] = s[:, None] ** np.arange(4)
    found = powers.reshape(40, -1) @ axis.spline_matrix.toarray().T
    np.testing.assert_allclose(found, functions, atol=1e-13)
    gram = functions.T @ (weights[:, None] * functions)
    inverse = np.linalg.inv(axis.matrix.toarray())
    for trace, slope in (axis.trace(moments.ravel()), axis.banded_trace(gram)):
        assert trace == pytest.approx(np.trace(inverse @ gram), rel=1e-10)
        expected = -np.trace(inverse @ axis.circle.d_matrix[0] @ inverse @ gram)
        assert slope[0] == pytest.approx(expected, rel=1e-9)
    squares = axis.variance_polynomials.reshape(16, 7)[cell]
    captured = np.sum(squares * s[:, None] ** np.arange(7), axis=1)
    np.testing.assert_allclose(captured, np.diag(functions @ inverse @ functions.T), rtol=1e-10)
    np.testing.assert_allclose(axis.solve(gram), inverse @ gram, rtol=1e-9, atol=1e-12)
