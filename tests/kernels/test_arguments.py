"""Kernels show their arguments, and say which one is wrong."""

from inspect import signature

import pytest

from asvgp import SHO, Constant, Linear, Matern, Matern12, Matern52, Periodic


@pytest.mark.parametrize("kernel", [Matern12, Matern52, Matern, Periodic, SHO])
def test_the_signature_lists_what_a_kernel_takes(kernel):
    names = list(signature(kernel).parameters)
    assert {"variance", "dim", "fixed", "bounds"} < set(names)
    assert not {"args", "settings"} & set(names)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Matern52(length_scale=2.0),
        lambda: Matern(2, length_scale=2.0, dim=(0, 1)),
        lambda: Periodic(period=1.0, lengthscal=2.0),
    ],
)
def test_an_argument_that_is_nearly_right_is_named(make):
    with pytest.raises(TypeError, match="Did you mean 'lengthscale'"):
        make()


def test_arguments_that_are_missing_or_too_many_are_named():
    with pytest.raises(TypeError, match="Matern: missing a required argument: 'nu'"):
        Matern()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="Matern52: too many positional arguments"):
        Matern52(1.0, 2.0, 0, 4.0)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="Constant has no argument 'value'; it has variance"):
        Constant(value=2.0)  # pyright: ignore[reportCallIssue]
    assert signature(Linear).parameters.keys() == {"dim", "variance"}
