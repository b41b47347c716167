"""Settings are parsed and checked once."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from asvgp import LBFGS, Constant, GPRegressor, Matern12, Matern32, Matern52, Matern72
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
    assert Settings.parse(kernel).degrees(kernel) == (1, 4, 3)
    assert Settings.parse(kernel, degree=4).degrees(kernel) == (4, 4, 4)
    with pytest.raises(ValueError, match=r"from 3 .* to 6, got 7"):
        Settings.parse(kernel, degree=7)


@pytest.mark.parametrize(
    "derivatives, degree, message",
    [
        (5, None, r"degree 7, but the highest is 6: .* or degree=6\.$"),
        (6, 6, r"degree 7, .*kernel\.$"),
    ],
)
def test_default_degrees_have_the_same_limit(monkeypatch, derivatives, degree, message):
    monkeypatch.setattr(Matern72, "order", derivatives)
    with pytest.raises(ValueError, match=message):
        Settings.parse(Matern72(), degree=degree)


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
