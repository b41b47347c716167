"""A few cases of every campaign; ``make soak`` runs them for as long as wanted."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from asvgp import GPRegressor
from tests.soak import hardest
from tests.soak.__main__ import ALONE, CAMPAIGNS, main, soak
from tests.soak.campaign import Failure, check_numbers, refused

QUICK = {"models": 2, "interrupts": 4, "kills": 2, "settings": 12}


@pytest.mark.parametrize("name", [name for name in CAMPAIGNS if name != "workers"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_few_cases(name):
    if name in ("kills", "forks") and not hasattr(os, "fork"):
        pytest.skip("there is no fork")
    told: list[str] = []
    cases = QUICK.get(name, 8)
    counts = soak([name], 5.0, 100, cases, lambda *lines, **_: told.extend(lines))
    assert counts[name].total() == cases
    assert not counts[name]["FAILED"], "\n".join(told)


def test_failures_are_counted_and_told_with_their_command(monkeypatch, capsys):
    monkeypatch.setattr(GPRegressor, "elbo_", property(lambda self: np.nan))
    assert main(["--campaign", "csv", "--seed", "3", "--cases", "6", "--minutes", "1"]) == 1
    told = capsys.readouterr().out
    assert "python -m tests.soak --campaign csv --seed" in told
    assert "FAILED" in told


def test_growing_memory_fails(monkeypatch):
    import tests.soak.__main__ as runner

    sizes = iter(range(100, 10**6, 100))
    monkeypatch.setattr(runner, "memory", lambda: float(next(sizes)))
    monkeypatch.setattr(runner, "TURN", 1)
    counts = soak(["csv"], 1.0, 0, 12, lambda *_, **__: None)
    assert counts["memory"] == Counter({"FAILED": 1})


def test_only_clear_errors_are_refusals():
    assert refused(ValueError("three words suffice")) == "refused"
    for error in (
        np.linalg.LinAlgError("not positive definite now"),
        KeyError("a b c"),
        ValueError("no"),
    ):
        with pytest.raises(Failure):
            refused(error)
    with pytest.raises(Failure):
        check_numbers([1.0, np.nan])


def test_campaigns_that_need_others_out_of_the_way_run_alone():
    assert set(ALONE) < set(CAMPAIGNS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_hard_inputs_are_a_hundred_and_the_smallest_keep_to_the_cost_model(capsys):
    names = [name for name, _, _ in hardest.cases()]
    assert len(set(names)) == 100
    assert hardest.main(["--only", "two rows"]) == 0
    assert "5 inputs, 0 beyond the model" in capsys.readouterr().out
    assert not hardest.within(100, 1, 1.0, 2**20, 10.0)
    assert not hardest.within(100, 1, 100.0, 100, 10.0)
    assert not hardest.within(100, 2, 1.0, 100, 10_000.0)
