"""Settings are parsed and checked once."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from asvgp import LBFGS, SHO, Constant, GPRegressor, Matern12, Matern32, Matern52, Matern72
from asvgp.data.settings import Settings


def test_what_users_write_becomes_what_the_library_reads():
    settings = Settings.parse(
        Matern32(),
        num_basis=np.array([10, 20]),
        noise_variance=np.float64(0.5),
        domain=[(0, 1), None],
        degree=np.int64(3),
        memory_limit="1 MiB",
    )
    assert settings.num_basis == (10, 20)
    assert settings.noise_variance == 0.5
    assert settings.domain == ((0, 1), None)
    assert not settings.domain_known
    assert settings.degree == 3
    assert settings.optimizer == LBFGS()
    assert settings.memory_limit == 2**20
    assert settings.trained
    assert not settings.automatic
    with pytest.raises(FrozenInstanceError):
        settings.degree = 4


def test_degrees_are_those_of_all_factors():
    kernel = Matern12(dim=0) * Matern52(dim=1) + Matern32(dim=0)
    assert Settings.parse(kernel).degrees(kernel) == (1, 3, 2)
    assert Settings.parse(kernel, degree=4).degrees(kernel) == (4, 4, 4)
    with pytest.raises(ValueError, match=r"from 3 .* to 4, got 5"):
        Settings.parse(kernel, degree=5).degrees(kernel, most=4)


def test_default_degrees_have_the_same_limit():
    most = {"most": 3, "reason": " with several inputs"}
    assert Settings.parse(SHO()).degrees(SHO(), **most) == (3,)
    for degree in (None, 4):
        with pytest.raises(ValueError, match=r"degree 4, but .* several inputs is 3: .* kernel\.$"):
            Settings.parse(Matern72(), degree=degree).degrees(Matern72(), **most)
    with pytest.raises(ValueError, match=r"needs splines of degree 3, .* or degree=2\.$"):
        Settings.parse(SHO()).degrees(SHO(), most=2)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"num_basis": True}, TypeError, "num_basis must be 'auto', an integer"),
        ({"num_basis": ()}, TypeError, "num_basis"),
        ({"num_basis": None}, TypeError, "num_basis"),
        ({"noise_variance": 0.0}, ValueError, "noise_variance must be 'auto' or a positive"),
        ({"noise_variance": True}, ValueError, "noise_variance"),
        ({"domain": 3.0}, ValueError, "domain must be None, a pair"),
        ({"domain": "all"}, ValueError, "domain must be None, a pair"),
        ({"degree": 2.0}, ValueError, "degree must be None or an integer"),
        ({"degree": 7}, ValueError, "to 6, got 7"),
        ({"objective": "joy"}, ValueError, "objective"),
        ({"optimizer": "adam"}, ValueError, "optimizer"),
        ({"device": "abacus"}, ValueError, "device"),
        ({"progress": "always"}, ValueError, "progress"),
        ({"kernel": Matern32}, TypeError, "an instance"),
        ({"kernel": Constant()}, TypeError, "kernel must be an asvgp kernel"),
    ],
)
def test_wrong_arguments_are_refused_before_the_data_are_read(arguments, error, message):
    with pytest.raises(error, match=message):
        GPRegressor(**arguments).fit("no such file", "y")
