"""Matérn kernels over several inputs jointly: the kernel itself, its names and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern as SklearnMatern

from asvgp import Matern, Matern12, Matern32, Matern52, Matern72, Periodic
from asvgp.kernels.text import parse_kernel

KERNELS = [
    Matern(3, (0.5, 0.3), 1.3, dim=(0, 1)),
    Matern(3, (0.5, 0.3), 1.3, dim=(0, 1), rotation=0.7),
    Matern(2.5, 0.4, dim=(0, 1, 2)),
]


@pytest.mark.parametrize(("nu", "inputs"), [(1, 2), (2, 2), (3, 2), (0.5, 3), (1.5, 3), (2.5, 3)])
def test_covariance_is_that_of_scikit_learn(nu, inputs):
    X = np.random.default_rng(0).uniform(size=(12, inputs))
    lengths = (0.5, 0.3, 0.9)[:inputs]
    for length in (0.4, lengths):
        found = Matern(nu, length, 1.3, dim=tuple(range(inputs)))(X)
        np.testing.assert_allclose(found, 1.3 * SklearnMatern(length, nu=nu)(X), rtol=1e-9)


def test_a_rotation_turns_the_plane():
    X, angle = np.random.default_rng(0).uniform(size=(9, 2)), 0.7
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    turned = Matern(2, (0.5, 0.2), dim=(0, 1), rotation=angle)
    np.testing.assert_allclose(turned(X), Matern(2, (0.5, 0.2), dim=(0, 1))(X @ turn.T))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("orders", [(1, 0), (1, 1), (2, 0)])
def test_derivatives_of_the_covariance(kernel, orders):
    """By differences, of the next lower order at some lag, and at none by a spectral moment."""
    orders = list(orders) + [0] * (kernel.inputs - 2)
    below, step, d = orders.copy(), 1e-3, int(np.flatnonzero(orders)[0])
    below[d] -= 1
    lag, e = np.array([0.2, 0.1, 0.15])[: kernel.inputs], step * np.eye(kernel.inputs)[d]
    values = [kernel.derivative_covariance(lag + s * e, below) for s in (-1, 0, 1)]
    expected = -(values[0] - 2 * values[1] + values[2]) / step**2
    assert kernel.derivative_covariance(lag, orders) == pytest.approx(expected, rel=1e-3)
    variance = kernel.variance * kernel.derivative_variance(orders)
    assert kernel.derivative_covariance(0 * lag, orders) == pytest.approx(variance)
    if sum(orders) == 1:
        assert kernel.derivative_covariance(1e-4 + 0 * lag, orders) == pytest.approx(
            variance, rel=1e-2
        )


def test_stencil_slopes_are_derivatives():
    for kernel in KERNELS:
        spacing, step = (0.1, 0.2, 0.3)[: kernel.inputs], 1e-6
        slopes = kernel.stencil(spacing)[1]
        names = kernel.parameters[:-1]
        assert len(slopes) == len(names)
        for name, value, slope in zip(names, kernel.values, slopes, strict=False):
            ends = [
                kernel.replace(**{name: float(value) * np.exp(s)}).stencil(spacing)[0]
                for s in (-step, step)
            ]
            expected = (ends[1] - ends[0]) / (2 * step)
            np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7 * np.abs(slope).max())


@pytest.mark.parametrize(
    ("nu", "kind"), [(0.5, Matern12), (1.5, Matern32), (2.5, Matern52), (7 / 2, Matern72)]
)
def test_over_one_input_it_is_the_kernel_there_is(nu, kind):
    assert Matern(nu, 2.0, 3.0, dim="x", fixed="variance") == kind(2.0, 3.0, "x", fixed="variance")


def test_names_follow_the_inputs():
    kernel = Matern(
        1, (5.0, 2.0), dim=(0, 1), fixed="lengthscale[1]", bounds={"lengthscale[0]": (1, 9)}
    )
    assert kernel.parameters == ("lengthscale[0]", "lengthscale[1]", "variance")
    named = kernel.replace(dim=("lon", "lat"))
    assert named.fixed == ("lengthscale[lat]",)
    assert named.bounds == {"lengthscale[lon]": (1.0, 9.0)}
    assert named.replace(**{"lengthscale[lat]": 7.0}).lengthscale == (5.0, 7.0)
    assert named.replace_free({"lengthscale[lon]": 99.0, "variance": 2.0}).lengthscale == (9.0, 2.0)
    product = Matern(1, 5.0, dim=("lon", "lat")) * Matern32(2.0, dim="t")
    assert product.parameters == ("lengthscale[lon,lat]", "lengthscale[t]", "variance")
    assert (named * Matern32(2.0, dim="t")).parameters[:2] == named.parameters[:2]
    for each in (kernel, named, product, *KERNELS):
        again = eval(repr(each), {"Matern": Matern, "Matern32": Matern32})
        assert again == each
        assert parse_kernel(repr(product)) == product


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Matern(1.5, dim=(0, 1)), "over 2 inputs 1, 2 or 3 and over 3 inputs 1/2, 3/2"),
        (lambda: Matern(1, dim=0), "1/2, 3/2, 5/2 or 7/2"),
        (lambda: Matern(4), "no nu=4"),
        (lambda: Matern(1, dim=("a",)), "names 1 column,.*give dim='a'"),
        (lambda: Matern(1, dim=(0, 1, 2, 3)), "names 4 columns"),
        (lambda: Matern(1, dim=(0, 0)), "names a column twice"),
        (lambda: Matern(1, (1.0, 2.0, 3.0), dim=(0, 1)), "3 lengthscales for 2 inputs"),
        (lambda: Matern(1, (1.0, -2.0), dim=(0, 1)), r"lengthscale\[1\] must be positive"),
        (lambda: Matern(1, 2.0, dim=(0, 1), rotation=0.3), "a lengthscale for each"),
        (lambda: Matern(1.5, dim=0, rotation=0.3), "two inputs"),
        (lambda: Matern(1, (1.0, 2.0), dim=(0, 1), rotation=-0.3), "Give 2.84159, which turns"),
        (lambda: Matern(1, (1.0, 2.0), dim=(0, 1), rotation=0.0), "Give none"),
        (lambda: Matern(1, dim=(0, 1)) * Matern32(dim=1), "over input 1 twice"),
        (lambda: Matern(1, dim=(0, 1)) * Periodic(1.0, dim=1), "over input 1 twice"),
    ],
)
def test_errors_say_what_there_is(make, words):
    with pytest.raises(ValueError, match=words):
        make()
