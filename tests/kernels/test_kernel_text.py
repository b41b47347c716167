"""Kernels from text: what is meant is read, and nothing is executed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asvgp import SHO, Constant, Linear, Matern12, Matern32, Matern52, Matern72
from asvgp.kernels.text import parse_kernel


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("matern32", Matern32()),
        ("Matern12(3)", Matern12(3.0)),
        ("matern52(lengthscale=2e-3, variance=4)", Matern52(2e-3, 4.0)),
        ("matern52(2e3)", Matern52(2000.0)),
        ("sho(period=1d)", SHO("1 day")),
        ("sho(1.5 d, quality=3) + matern72", SHO("36 hours", 3.0) + Matern72()),
        ("SHO(period='1 day 12 hours')", SHO("36 hours")),
        ("matern32(dim=lon)*matern32(dim='lat')", Matern32(dim="lon") * Matern32(dim="lat")),
        ("matern32(dim=0) + linear(1) + constant", Matern32(dim=0) + Linear(1) + Constant()),
        ("constant + matern32 + linear", Constant() + Matern32() + Linear()),
        ("matern32(2, fixed=('lengthscale',))", Matern32(2.0, fixed=("lengthscale",))),
        ("matern12(30min) + (matern32(2 h))", Matern12("30 min") + Matern32("2 h")),
    ],
)
def test_what_is_meant_is_read(text, kernel):
    assert parse_kernel(text) == kernel
    assert parse_kernel(f"  {text} ") == kernel


@pytest.mark.parametrize(
    "kernel",
    [
        Matern32("3 days") + SHO("1 day", 2.0) + Constant(),
        Matern32(2.5, 3.0, dim="lon") * Matern52(1.25, dim="lat") + Linear("height"),
        Matern12(1e-9, 1e9),
    ],
)
def test_a_repr_is_read_back(kernel):
    assert parse_kernel(repr(kernel)) == kernel


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("matern32 +", "cannot be read"),
        ("mattern32", "Did you mean matern32"),
        ("rbf", "there is no kernel 'rbf'"),
        ("constant", "no process"),
        ("constant + linear(a)", "no process"),
        ("matern32(length=3)", "length"),
        ("matern32(-1)", "positive"),
        ("matern32(3 parsecs)", "parsecs"),
        ("matern32 - matern12", "is no kernel"),
        ("matern32 * constant", "has no meaning"),
        ("matern32(**{})", "has no meaning"),
        ("__import__('os').system('true')", "is no kernel"),
        ("matern32(open('x'))", "is no number"),
        ("2", "is no kernel"),
        ("matern32(dim=a) * matern32(dim=a)", "twice"),
    ],
)
def test_what_cannot_be_meant_is_explained(text, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace("*", r"\*")):
        parse_kernel(text)


@given(st.text(alphabet="matern32sho()+*=,.'\"d 1[]{}:lambda_eval", max_size=40))
def test_any_text_is_read_or_explained(text):
    with suppress(ValueError):
        assert parse_kernel(text).components
