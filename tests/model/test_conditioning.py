"""Advice where digits are few."""

import pytest

from asvgp import SHO, Matern12, Matern32, Matern52, Periodic
from asvgp.model.conditioning import rougher


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (Matern52(), "as Matern32 in place of Matern52"),
        (Matern32(), "as Matern12 in place of Matern32"),
        (Matern12(), ""),
        (SHO(), ""),
        (Periodic(1.0), ""),
    ],
    ids=str,
)
def test_rougher_kernels(kernel, advice):
    assert rougher(kernel) == advice
